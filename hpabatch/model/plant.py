"""Plant parameters: the model of a workload, its pods and the pipeline that measures them.

docs/simulation.md says exactly what each parameter does. Times are ms, quantities milli-units.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from hpabatch.model.objects.hpa import (
    ContainerResourceMetricSource,
    MetricIdentifier,
    MetricSpec,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)
from hpabatch.model.selectors import go_print, selector_from_object

DIVISIBLE: Final = "divisible"
PER_POD: Final = "per_pod"
TOTAL: Final = "total"
BACKLOG: Final = "backlog"
AGE: Final = "age"
KINDS: Final = (DIVISIBLE, PER_POD, TOTAL, BACKLOG, AGE)

DROP: Final = "drop"
QUEUE: Final = "queue"
OVERLOADS: Final = (DROP, QUEUE)

REPLICA_SET: Final = "replicaset"
STATEFUL_SET: Final = "statefulset"
REMOVAL_ORDERS: Final = (REPLICA_SET, STATEFUL_SET)

RESOURCE: Final = "resource"
CUSTOM: Final = "custom"
EXTERNAL: Final = "external"
CEILINGS_PCT: Final = (60, 80, 100, 125, 160)
"""Ceilings assumed for a pod without a known one, in percent of the highest usage seen."""


def above_minutes(pct: int) -> str:
    """Return the name of the measure of time above an assumed ceiling."""
    return f"above_{pct}_minutes"


PIPELINES: Final = (RESOURCE, CUSTOM, EXTERNAL)
"""The metrics APIs; `external` stands for Object and External metrics."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How one metrics API measures; `gaps_ms` are (from, to) without scrapes, ascending."""

    interval_ms: int = 15_000
    phase_ms: int = 0
    window_ms: int = 15_000
    lag_ms: int = 0
    first_sample_ms: int = 15_000
    max_age_ms: int = 60_000
    gaps_ms: tuple[tuple[int, int], ...] = ()


SCALE_ONE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Sight:
    """How the controller sees a signal's samples, where it is not as they were measured.

    A sample counts `later_ms` after its time, as the mean of the pod's samples over the
    `smoothing_ms` up to it, times `scale_ppm` / 1,000,000.
    """

    later_ms: int = 0
    smoothing_ms: int = 0
    scale_ppm: int = SCALE_ONE

    def through(self, pipeline: Pipeline) -> Pipeline:
        """Return the pipeline that gives the controller what it sees.

        A mean of n samples reaches back over n - 1 intervals more than one of them does.
        """
        more = max(-(-self.smoothing_ms // pipeline.interval_ms) - 1, 0)
        return replace(
            pipeline,
            window_ms=pipeline.window_ms + more * pipeline.interval_ms,
            lag_ms=pipeline.lag_ms + self.later_ms,
        )


@dataclass(frozen=True, slots=True)
class Signal:
    """One measured quantity of a workload; fields that a kind does not use are ignored.

    Its work is not a parameter but a series of its own (`engine.fit.workload`). `observed_milli` is
    the recorded range of usage per pod. Without a known ceiling `levels_milli` are the assumed ones
    (CEILINGS_PCT), ascending: nothing is cut off at them, time above them is counted.
    """

    kind: str
    api: str = RESOURCE
    base_milli: int = 0
    ceiling_milli: int | None = None
    startup_milli: int = 0
    rate_milli: int = 0
    growth_milli_per_hour: int = 0
    overload: str = DROP
    queue_milli: int = 0
    request_milli: int | None = None
    unit_milli: int = 1
    observed_milli: tuple[int, int] | None = None
    levels_milli: tuple[int, ...] = ()
    sight: Sight = Sight()


@dataclass(frozen=True, slots=True)
class Pods:
    """Life cycle of pods; `startup_ms` are equally likely (scheduling, starting) pairs."""

    startup_ms: tuple[tuple[int, int], ...] = ((1_000, 14_000),)
    reaction_ms: int = 500
    termination_ms: int = 30_000
    serves_while_terminating: bool = False
    capacity: int = 0
    removal: str = REPLICA_SET
    shares: tuple[int, ...] = (1000,)
    costs: tuple[int, ...] = (0,)
    failure_at_ms: tuple[int, ...] = ()
    restart_ms: int = 30_000
    surge_pct: int = 25
    unavailable_pct: int = 25
    initial_age_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class Plant:
    """Plant parameters of one workload.

    `signals` by `signal_name`. `capacity_milli` is the intended work of one pod (the SLO capacity)
    of the first divisible signal, or of the first backlog per second; None: unknown, so measures
    that need a demand are left out. `first_draw` is the position of its first random draw.
    """

    signals: dict[str, Signal]
    pods: Pods = field(default_factory=Pods)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    capacity_milli: int | None = None
    first_draw: int = 0

    def pipeline_of(self, signal: Signal) -> Pipeline:
        """Return the pipeline that gives the controller a signal."""
        return signal.sight.through(self.pipelines.get(signal.api, Pipeline()))


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a workload: SCALE (value: size), LOSE (thousandths of the pods) or ROLLOUT."""

    at_ms: int
    kind: str
    value: int = 0


SCALE: Final = "scale"
LOSE: Final = "lose"
ROLLOUT: Final = "rollout"
EVENTS: Final = (SCALE, LOSE, ROLLOUT)


def signal_name(metric: MetricSpec) -> str:
    """Return the name of a metric's signal, the same for equal subjects whatever the target.

    `resource/cpu`, `container/app/cpu`, `pods/http_requests`, `object/Ingress/web/requests`,
    `external/queue_length`; a metric's selector follows in braces: `external/depth{queue=orders}`.
    """
    match metric.source:
        case None:
            return metric.type
        case ResourceMetricSource(name):
            return f"resource/{name}"
        case ContainerResourceMetricSource(name, container):
            return f"container/{container}/{name}"
        case PodsMetricSource(identifier):
            return f"pods/{_identified(identifier)}"
        case ObjectMetricSource(described, identifier):
            return f"object/{described.kind}/{described.name}/{_identified(identifier)}"
        case external:
            return f"external/{_identified(external.metric)}"


def _identified(metric: MetricIdentifier) -> str:
    try:
        text = str(selector_from_object(metric.selector))
    except ValueError:
        text = go_print(metric.selector)  # a bad selector still tells metrics apart
    return f"{metric.name}{{{text}}}" if text else metric.name
