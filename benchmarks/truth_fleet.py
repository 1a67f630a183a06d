"""Fleets whose truth is known: demand, pods and today's HPA drawn from a seed, each HPA its own.

Nothing here is shown to a fit or to a recommendation: they get the recording of
`benchmarks.truth_record` only. A workload's demand is drawn in *pods*, so many as would be busy at
some utilization, and every HPA has its own random stream: a larger fleet begins with the smaller
one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.plant import DIVISIBLE, RESOURCE, Pipeline, Plant, Pods, Signal
from hpabatch.packing.workloads import Workload

F64 = NDArray[np.float64]
Json = dict[str, Any]

START_MS: Final = 1_790_553_600_000
"""Monday, 2026-09-28T00:00:00Z."""

MINUTE_MS: Final = 60_000
WEEK_MS: Final = 7 * 24 * 60 * MINUTE_MS
WEEK_MINUTES: Final = WEEK_MS // MINUTE_MS
CPU: Final = "resource/cpu"
CLUSTER: Final = "proof"

CAPACITY_SHARE: Final = 0.8
"""A pod is meant to do this much of what lies between its base and its limit."""

TOLD: Final = "recorded limit"
UNTOLD: Final = "limit not recorded"
NO_LIMIT: Final = "no limit"
LIMITS: Final = (TOLD, UNTOLD, NO_LIMIT)
"""A third of the workloads each; without a limit a pod's ceiling is what its node leaves it."""

_NODE_LEAVES: Final = (1.1, 1.3, 1.6, 2.5)
"""Ceilings of pods without a limit, in usage at the target: near it on busy nodes, far above it;
no less than their request, which the scheduler keeps free."""


@dataclass(frozen=True, slots=True)
class Truth:
    """One HPA as it really is: its workload over all weeks and today's spec.

    `shape` and `habit` say what was drawn of demand and of today's spec, `limit` (of LIMITS)
    whether the pods have a cpu limit and whether it is recorded; `later_milli` is their ceiling
    after the recorded weeks.
    """

    workload: Workload
    spec: HPASpec
    shape: str
    habit: str
    limit: str
    later_milli: int

    @property
    def key(self) -> tuple[str, str, str]:
        """Cluster, namespace and name."""
        return self.workload.cluster, self.workload.namespace, self.workload.hpa

    @property
    def later(self) -> Workload:
        """The workload as it is after the recorded weeks."""
        return replace(self.workload, plant=_with_ceiling(self.workload.plant, self.later_milli))


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """How many HPAs over how many weeks, and how often their pods are sampled."""

    hpas: int = 200
    weeks: int = 8
    seed: int = 1
    sample_ms: int = 60_000
    shapes: tuple[str, ...] = ()  # empty: any

    def __post_init__(self) -> None:
        """Refuse shapes that there are not."""
        unknown = set(self.shapes) - set(SHAPES)
        if unknown:
            raise ValueError(f"no such shape: {', '.join(sorted(unknown))}; {', '.join(SHAPES)}")


def make_fleet(options: FleetOptions) -> list[Truth]:
    """Return the HPAs of a seed; HPA k is the same in a fleet of any size."""
    return [_truth(options, k) for k in range(options.hpas)]


def _truth(options: FleetOptions, number: int) -> Truth:
    random = np.random.Generator(np.random.PCG64([options.seed, number]))
    names = options.shapes or tuple(SHAPES)
    shape = names[int(random.integers(len(names)))]
    plant = _plant(random, options.sample_ms)
    load = _demand(random, shape, options.weeks)
    signal = plant.signals[CPU]
    assert signal.request_milli is not None
    spec, habit = _today(random, load, signal, f"app-{number}")
    # The level is drawn in requests: what a pod of 100 % utilization uses.
    work = np.maximum(load * signal.request_milli, 0).astype(np.int64)
    workload = Workload(
        cluster=CLUSTER,
        namespace=f"team-{number // 10}",
        hpa=f"app-{number}",
        plant=plant,
        work={CPU: work},
        work_start_ms=START_MS,
        resolution_ms=MINUTE_MS,
        initial=max(spec.min_replicas or 1, min(spec.max_replicas, 2 + int(load[0] * 2))),
    )
    limit, later_milli = LIMITS[int(random.integers(len(LIMITS)))], signal.ceiling_milli or 0
    if limit == NO_LIMIT:
        target = spec.metrics[0].resource
        assert target is not None
        used = signal.request_milli * (target.target.average_utilization or 100) / 100
        left = used * float(random.choice(_NODE_LEAVES))
        ceiling, later_milli = (
            max(int(part), signal.request_milli)
            for part in (left, left * random.uniform(0.85, 1.15))
        )
        workload = replace(workload, plant=_with_ceiling(plant, ceiling))
    return Truth(workload, spec, shape, habit, limit, later_milli)


def _with_ceiling(plant: Plant, ceiling_milli: int) -> Plant:
    signal = replace(plant.signals[CPU], ceiling_milli=ceiling_milli)
    capacity = int(CAPACITY_SHARE * (ceiling_milli - signal.base_milli))
    return replace(plant, signals={CPU: signal}, capacity_milli=capacity)


# ---- pods


def _plant(random: Generator, sample_ms: int) -> Plant:
    """Draw pods: what they ask for and may use, what they use idle, how long they need to start."""
    request = int(random.choice([100, 250, 500, 1000, 2000]))
    ceiling = int(request * random.choice([1.0, 1.0, 1.0, 1.2, 1.5, 2.0]))
    base = int(request * random.choice([0.0, 0.02, 0.05, 0.1]))
    median_s = float(random.choice([8, 15, 30, 60, 120]))
    starting = np.exp(np.log(median_s) + 0.3 * random.standard_normal(8))
    scheduling = random.integers(1, 4, 8)
    signal = Signal(
        DIVISIBLE,
        base_milli=base,
        ceiling_milli=ceiling,
        startup_milli=int(base + request * random.uniform(0.1, 0.9)),
        request_milli=request,
    )
    pods = Pods(
        startup_ms=tuple(
            (int(s) * 1000, int(r * 1000)) for s, r in zip(scheduling, starting, strict=True)
        ),
        termination_ms=int(random.choice([5, 15, 30])) * 1000,
    )
    pipeline = Pipeline(interval_ms=sample_ms, window_ms=sample_ms, first_sample_ms=15_000,
                        lag_ms=int(random.integers(0, 6)) * 1000,
                        phase_ms=int(random.integers(0, sample_ms // 1000)) * 1000,
                        max_age_ms=150_000)  # fmt: skip
    capacity = int(CAPACITY_SHARE * (ceiling - base))
    return Plant({CPU: signal}, pods, {RESOURCE: pipeline}, capacity, int(random.integers(4096)))


# ---- demand: work per minute in requests of one pod


def _demand(random: Generator, shape: str, weeks: int) -> F64:
    minute = np.arange(weeks * WEEK_MINUTES)
    level = float(np.exp(random.uniform(np.log(0.8), np.log(3))))
    load = level * SHAPES[shape](random, minute)
    noise = float(random.choice([0.02, 0.04, 0.08]))
    return np.asarray(np.maximum(load * np.exp(_wander(random, minute.size, noise)), 0))


def _wander(random: Generator, count: int, size: float) -> F64:
    """Return noise that forgets half of itself in about 3 minutes, and some that does at once."""
    keep = 0.8
    steps = random.standard_normal(count) * size * np.sqrt(1 - keep**2)
    slow = np.convolve(steps, keep ** np.arange(40))[:count]
    return slow + 0.3 * size * random.standard_normal(count)


def _daily(random: Generator, minute: NDArray[np.int64]) -> F64:
    """Return a day's rhythm with a mean of about 1, lower at weekends, no two days alike."""
    swing, peak = random.uniform(0.3, 0.75), random.uniform(8, 20)
    hour = minute / 60 % 24
    wave = 1 + swing * np.cos((hour - peak) / 24 * 2 * np.pi)
    wave = wave + 0.3 * swing * np.cos((hour - peak) / 12 * 2 * np.pi)
    weekend = np.where(minute // 1440 % 7 >= 5, random.uniform(0.4, 1.0), 1.0)
    days = 1 + 0.05 * random.standard_normal(minute.size // 1440 + 1)
    return np.asarray(wave * weekend * days[minute // 1440])


def _bursts(
    random: Generator, minute: NDArray[np.int64], a_week: float, height: tuple[float, float]
) -> F64:
    """Return 0 and, so many times a week on average, a burst that rises and falls."""
    extra = np.zeros(minute.size)
    for _ in range(random.poisson(a_week * minute.size / WEEK_MINUTES)):
        at = int(random.integers(minute.size))
        rise, stay, fall = random.integers(2, 20), random.integers(5, 60), random.integers(5, 60)
        form = np.concatenate([np.linspace(0, 1, rise), np.ones(stay), np.linspace(1, 0, fall)])
        end = min(at + form.size, minute.size)
        extra[at:end] += random.uniform(*height) * form[: end - at]
    return extra


def _quiet(random: Generator, minute: NDArray[np.int64]) -> F64:
    return 0.4 + 0.1 * _daily(random, minute)


def _bursty(random: Generator, minute: NDArray[np.int64]) -> F64:
    return _daily(random, minute) + _bursts(random, minute, random.uniform(7, 40), (0.2, 1.0))


def _crowds(random: Generator, minute: NDArray[np.int64]) -> F64:
    return _daily(random, minute) + _bursts(random, minute, random.uniform(1, 4), (0.8, 2.5))


def _growing(random: Generator, minute: NDArray[np.int64]) -> F64:
    weekly = random.uniform(-0.02, 0.03)
    return np.asarray(_daily(random, minute) * (1 + weekly) ** (minute / WEEK_MINUTES))


def _drifting(random: Generator, minute: NDArray[np.int64]) -> F64:
    """Return a level that wanders by some 4 % a day and is drawn back to where it was."""
    level, values = 0.0, []
    for step in random.standard_normal(minute.size // 1440 + 2).tolist():
        level = 0.9 * level + 0.04 * step
        values.append(level)
    days = np.interp(minute / 1440, np.arange(len(values)), np.array(values))
    return np.asarray(_daily(random, minute) * np.exp(days))


def _scheduled(random: Generator, minute: NDArray[np.int64]) -> F64:
    """Return the daily rhythm with a job that starts at the same minute every hour, or every 4."""
    every = int(random.choice([60, 240]))
    height, length = random.uniform(0.3, 0.8), int(random.integers(8, 25))
    busy = (minute + int(random.integers(every))) % every < length
    return np.asarray(_daily(random, minute) + height * busy)


SHAPES: Final[Mapping[str, Callable[[Generator, NDArray[np.int64]], F64]]] = {
    "daily": _daily,
    "quiet": _quiet,
    "bursty": _bursty,
    "crowds": _crowds,
    "growing": _growing,
    "drifting": _drifting,
    "scheduled": _scheduled,
}


# ---- today's HPA


def _today(random: Generator, load: F64, signal: Signal, name: str) -> tuple[HPASpec, str]:
    """Draw today's spec, which somebody once chose with more or less care."""
    assert signal.request_milli is not None
    base = signal.base_milli / signal.request_milli
    target = int(random.choice([30, 40, 50, 50, 60, 60, 70, 70, 80, 80, 90]))
    # So many pods hold the target at a quantile of the demand.
    pods = [
        float(np.quantile(load, q)) / max(target / 100 - base, 0.05) for q in (0.02, 0.5, 0.998)
    ]
    least, most = int(max(1, pods[0])), int(np.ceil(pods[2]))
    habit = str(random.choice(["careful", "careful", "wide", "roomy", "tight"]))
    if habit == "careful":
        low, high = least, int(most * random.uniform(1.3, 2)) + 1
    elif habit == "wide":  # somebody set a minimum after an incident
        low, high = int(pods[1] * random.uniform(0.9, 1.5)) + 1, 2 * most + 2
    elif habit == "roomy":
        low, high = 1, 4 * most + 10
    else:  # the maximum binds at the peaks of some days
        low, high = least, max(int(most * random.uniform(0.7, 1.0)), least + 1)
    word, behavior = _behavior(random)
    spec: Json = {
        "scaleTargetRef": {"kind": "Deployment", "name": name, "apiVersion": "apps/v1"},
        "minReplicas": low,
        "maxReplicas": max(high, low + 1),
        "metrics": [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": target},
                },
            }
        ],
    }
    if behavior:
        spec["behavior"] = behavior
    hpa, problems = hpa_from_json(json.dumps(spec))
    assert not problems, problems
    decoded = default_hpa(HPA(name=name, namespace="any", spec=hpa.spec))
    return decoded.spec, f"{habit}, {word}"


def _behavior(random: Generator) -> tuple[str, Json]:
    """Draw a behavior: most have none, some an odd one; tolerances are of 1.37 and later."""

    def rules(kind: str, value: int, period_s: int) -> list[Json]:
        return [{"type": kind, "value": value, "periodSeconds": period_s}]

    odd: dict[str, Json] = {
        "no behavior": {},
        "defaults": {"scaleUp": {"stabilizationWindowSeconds": 0}},
        "slow up": {"scaleUp": {"policies": rules("Pods", int(random.integers(1, 3)), 60)}},
        "careful down": {"scaleDown": {"policies": rules("Percent", 10, 300)}},
        "long window": {
            "scaleDown": {"stabilizationWindowSeconds": int(random.choice([900, 1800, 3600]))}
        },
        "short window": {
            "scaleDown": {"stabilizationWindowSeconds": int(random.choice([0, 60, 120]))}
        },
        "window up": {
            "scaleUp": {"stabilizationWindowSeconds": int(random.choice([60, 120, 300]))}
        },
        "least of two": {
            "scaleUp": {
                "selectPolicy": "Min",
                "policies": [*rules("Pods", 4, 60), *rules("Percent", 50, 60)],
            }
        },
        "tolerances": {
            "scaleUp": {"tolerance": str(random.choice(["0.02", "0.05", "0.15"]))},
            "scaleDown": {"tolerance": str(random.choice(["0.05", "0.2", "0.3"]))},
        },
    }
    word = str(random.choice(list(odd)))
    return word, odd[word]
