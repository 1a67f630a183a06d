"""Tiny builders: an HPA, its pods and ticks in a line each, and the results as plain dicts.

Times are seconds after an arbitrary start; quantities are written as in a manifest for targets and
in milli for samples. A pod runs, is ready and long initialised unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpabatch.kernels.replay import replay_fleet
from hpabatch.layout import codes
from hpabatch.layout.records import Fleet, Memory
from hpabatch.layout.results import Results, empty_results
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import Condition, HPASpec, HPAStatus
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.memory import seed_recommendations, seed_status
from tests.compiled import replay_lane
from tests.packed import (
    LaneView,
    MetricAnswer,
    PodResources,
    PodSample,
    PodView,
    TickView,
    make_memory,
    pack_fleet,
)

Json = dict[str, Any]

START_MS = 1_700_000_000_000
LONG_AGO_S = -86_400
SCALED_TO_ZERO = ("ScaledToZero", "True", "ScaledToZero")


def at(seconds: float) -> int:
    """Return a time in ms, `seconds` after the start."""
    return START_MS + round(seconds * 1000)


# ---- specs -------------------------------------------------------------------------------------


def resource(
    utilization: int | None = None,
    average: str | None = None,
    name: str = "cpu",
    container: str | None = None,
) -> Json:
    """Return a Resource (or, with a container, ContainerResource) metric."""
    target: Json = {"type": "AverageValue" if utilization is None else "Utilization"}
    if utilization is not None:
        target["averageUtilization"] = utilization
    if average is not None:
        target["averageValue"] = average
    member: Json = {"name": name, "target": target}
    if container is None:
        return {"type": "Resource", "resource": member}
    return {"type": "ContainerResource", "containerResource": member | {"container": container}}


def _value_target(value: str | None, average: str | None) -> Json:
    target: Json = {"type": "Value" if average is None else "AverageValue"}
    if value is not None:
        target["value"] = value
    if average is not None:
        target["averageValue"] = average
    return target


def pods_metric(average: str | None, selector: Json | None = None) -> Json:
    """Return a Pods metric."""
    metric = {"name": "rps", "selector": selector}
    return {"type": "Pods", "pods": {"metric": metric, "target": _value_target(None, average)}}


def object_metric(
    value: str | None = None, average: str | None = None, selector: Json | None = None
) -> Json:
    """Return an Object metric of an Ingress."""
    described = {"kind": "Ingress", "name": "web", "apiVersion": "networking.k8s.io/v1"}
    return {
        "type": "Object",
        "object": {
            "describedObject": described,
            "metric": {"name": "hits", "selector": selector},
            "target": _value_target(value, average),
        },
    }


def external(
    value: str | None = None,
    average: str | None = None,
    name: str = "queue",
    selector: Json | None = None,
) -> Json:
    """Return an External metric."""
    metric = {"name": name, "selector": selector}
    return {
        "type": "External",
        "external": {"metric": metric, "target": _value_target(value, average)},
    }


def policies(*entries: tuple[str, int, int], **rules: Any) -> Json:
    """Return one direction of behavior: policies of (type, value, periodSeconds), other fields."""
    rules["policies"] = [{"type": t, "value": v, "periodSeconds": p} for t, v, p in entries]
    return rules


def hpa_spec(
    *metrics: Json, low: int = 1, high: int = 1000, behavior: Json | None = None
) -> HPASpec:
    """Return a spec as the API server stores it: decoded from a v2 document, with defaults."""
    spec: Json = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": low,
        "maxReplicas": high,
        "metrics": list(metrics),
    }
    if behavior is not None:
        spec["behavior"] = behavior
    document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}
    return default_spec(decode_hpa(document)[0].spec)


# ---- pods and ticks ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Pod:
    """A pod with its sample (usage None: it has none); times in seconds."""

    usage: int | None = None
    request: int | None = 1000
    phase: str = "Running"
    ready: str | None = "True"
    deleting: bool = False
    start_s: float | None = LONG_AGO_S
    transition_s: float | None = LONG_AGO_S
    sample_s: float = 0
    window_s: float = 30
    resources: PodResources | None = None


def some(count: int, usage: int | None = None, **fields: Any) -> list[Pod]:
    """Return equal pods."""
    return [Pod(usage, **fields)] * count


def resources_of(cpu: int | None, name: str = "app") -> PodResources:
    """Return the requests of a pod with one container; memory is requested like cpu."""
    quantities: dict[str, Quantity] = {}
    if cpu is not None:
        quantities = {"cpu": Quantity.from_milli(cpu), "memory": Quantity.from_milli(cpu)}
    return PodResources((ContainerRequests(name, quantities),))


def pod_view(pod: Pod, name: str) -> PodView:
    """Return the pod as the controller's cache shows it."""
    return PodView(
        name=name,
        phase=pod.phase,
        resources=pod.resources or resources_of(pod.request),
        deleting=pod.deleting,
        start_ms=None if pod.start_s is None else at(pod.start_s),
        ready=pod.ready,
        transition_ms=None if pod.transition_s is None else at(pod.transition_s),
    )


def usages(pods: Sequence[Pod], strays: Sequence[int] = ()) -> MetricAnswer:
    """Return the metrics API's answer for these pods, and for some that the cache lacks."""
    samples = {
        f"p{k}": PodSample(pod.usage, at(pod.sample_s), round(pod.window_s * 1000))
        for k, pod in enumerate(pods)
        if pod.usage is not None
    }
    samples |= {f"stray{k}": PodSample(value, at(0), 30_000) for k, value in enumerate(strays)}
    return MetricAnswer(codes.METRIC_OK if samples else codes.METRIC_ANSWER_EMPTY, samples)


def total(*values_milli: int) -> MetricAnswer:
    """Return an Object's or External metric's values."""
    return MetricAnswer(values_milli=values_milli)


FETCH_FAILED = MetricAnswer(codes.METRIC_FETCH_FAILED)


def tick(
    seconds: float,
    replicas: int,
    pods: Sequence[Pod] = (),
    answers: Sequence[MetricAnswer] | None = None,
    status: int | None = None,
    **fields: Any,
) -> TickView:
    """Return a sync; without answers the one metric is the pods' own."""
    return TickView(
        now_ms=at(seconds),
        spec=fields.pop("spec", 0),
        replicas=replicas,
        status_replicas=replicas if status is None else status,
        pods=[pod_view(pod, f"p{k}") for k, pod in enumerate(pods)],
        answers=[usages(pods)] if answers is None else list(answers),
        **fields,
    )


# ---- replays -----------------------------------------------------------------------------------


def metric_results(fleet: Fleet, results: Results, t: int) -> list[Json]:
    """Return what each metric of tick t said."""
    spec = fleet.specs[fleet.ticks[t].spec]
    rows = []
    for m in range(spec.first_metric, spec.last_metric):
        stream = fleet.streams[fleet.metrics[m].stream]
        row = results.metrics[t + stream.answer_offset]
        rows.append({name: row[name].item() for name in row.dtype.names})
    return rows


def condition_words(code: int) -> tuple[str, str]:
    """Return (type, "status reason"); foreign conditions have no reason."""
    if code in codes.CONDITIONS:
        words = codes.CONDITIONS[code]
        return words.type, f"{words.status} {words.reason}"
    types = {number: name for name, number in codes.CONDITION_TYPES.items()}
    return types[code >> 4], {codes.OTHER_TRUE: "True", codes.OTHER_FALSE: "False"}[code & 15]


def tick_result(fleet: Fleet, results: Results, t: int) -> Json:
    """Return one tick's decision with words instead of codes."""
    row = results.decisions[t]
    conditions = [int(row[f"condition_{k}"]) for k in range(4)]
    return {
        "desired": int(row.desired),
        "current": int(row.current),
        "proposal": int(row.proposal),
        "stabilized": int(row.stabilized),
        "limited": int(row.limited),
        "rescaled": bool(row.rescaled),
        "metric": int(row.metric),
        "invalid": int(row.invalid_metrics),
        "binding": codes.BINDINGS[int(row.binding)].name,
        "reason": codes.REASONS[int(row.reason)],
        "conditions": dict(condition_words(c) for c in conditions if c),
        "metrics": metric_results(fleet, results, t),
    }


def status_with(*conditions: tuple[str, str, str], current: int = 0, desired: int = 0) -> HPAStatus:
    """Return an HPA status with conditions of (type, status, reason)."""
    return HPAStatus(current, desired, conditions=tuple(Condition(*c) for c in conditions))


@dataclass
class Lane:
    """One HPA ready to be replayed, by all ticks at once or one after the other."""

    fleet: Fleet
    memory: Memory
    results: Results

    def run(self) -> list[Json]:
        """Replay everything; return all ticks' results."""
        replay_fleet(self.fleet, self.memory, False, self.results)
        return [tick_result(self.fleet, self.results, t) for t in range(self.fleet.ticks.size)]

    def step(self, t: int) -> Json:
        """Decide one tick with the memory of the ones before."""
        replay_lane(self.fleet, self.memory, 0, t, t + 1, False, self.results)
        return tick_result(self.fleet, self.results, t)


def lane(
    specs: HPASpec | Sequence[HPASpec],
    ticks: Sequence[TickView],
    flags: ControllerFlags | None = None,
    k8s: str = "1.38",
    status: HPAStatus | None = None,
    recommendations: Sequence[tuple[int, float]] = (),
    gate: bool | None = None,
) -> Lane:
    """Pack one HPA; recommendations are (value, seconds), `gate` overrides scale to zero."""
    profile = profile_for(k8s)
    if gate is not None:
        profile = replace(profile, gate_scale_to_zero=gate)
    view = LaneView([specs] if isinstance(specs, HPASpec) else list(specs), ticks)
    fleet = pack_fleet([view], flags or ControllerFlags(), profile)
    memory = make_memory(fleet, recorded=False, spare=len(recommendations))
    if status is not None:
        seed_status(memory, 0, status)
    if recommendations:
        seed_recommendations(memory, 0, [(value, at(s)) for value, s in recommendations])
    return Lane(fleet, memory, empty_results(fleet.ticks.size, fleet.answers.size))


def replay(
    specs: HPASpec | Sequence[HPASpec], ticks: Sequence[TickView], **options: Any
) -> list[Json]:
    """Return the results of all ticks of one HPA; options as of `lane`."""
    return lane(specs, ticks, **options).run()


EXACT_WISH = external(average="1")  # with tolerance 0 it proposes just what it is told
NO_TOLERANCE = ControllerFlags(tolerance=0.0)


def wish(seconds: float, replicas: int, wished: int, **fields: Any) -> TickView:
    """Return a sync in which the EXACT_WISH metric proposes `wished`."""
    return tick(seconds, replicas, answers=[total(1000 * wished)], **fields)


def follow(
    spec: HPASpec, start: int, wishes: Iterable[tuple[float, int]], **options: Any
) -> list[Json]:
    """Return the results of a target that follows its HPA, given (seconds, wished replicas)."""
    moments = list(wishes)
    one = lane(spec, [wish(s, start, n) for s, n in moments], **({"flags": NO_TOLERANCE} | options))
    results = []
    for t in range(len(moments)):
        results.append(one.step(t))
        if results[t]["rescaled"] and t + 1 < len(moments):
            after = results[t]["desired"]
            one.fleet.ticks.replicas[t + 1 :] = after
            one.fleet.ticks.status_replicas[t + 1 :] = after
    return results
