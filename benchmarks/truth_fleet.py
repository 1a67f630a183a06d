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
from hpabatch.model.plant import AGE, DIVISIBLE, RESOURCE, Pipeline, Plant, Pods, Signal
from hpabatch.packing.workloads import Workload

F64 = NDArray[np.float64]
Json = dict[str, Any]

START_MS: Final = 1_790_553_600_000
"""Monday, 2026-09-28T00:00:00Z."""

MINUTE_MS: Final = 60_000
WEEK_MS: Final = 7 * 24 * 60 * MINUTE_MS
WEEK_MINUTES: Final = WEEK_MS // MINUTE_MS
CPU: Final = "resource/cpu"
MEMORY: Final = "resource/memory"
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

PLAIN: Final = "plain"
BURN: Final = "start-up burn"
SHARED: Final = "shared memory"
IDLE: Final = "idle"
PINNED: Final = "pinned at max"
FLAPPING: Final = "flapping"
KINDS: Final = (BURN, SHARED, IDLE, PINNED, FLAPPING)
"""Kinds of which a fleet has as many each, a third of all HPAs together."""

_MIB_MILLI: Final = 2**20 * 1000


@dataclass(frozen=True, slots=True)
class Truth:
    """One HPA as it really is: its workload over all weeks and today's spec.

    `shape` and `habit` say what was drawn of demand and of today's spec, `limit` (of LIMITS)
    whether the pods have a cpu limit and whether it is recorded; `later_milli` is their ceiling
    after the recorded weeks. `kind` is PLAIN or of KINDS.
    """

    workload: Workload
    spec: HPASpec
    shape: str
    habit: str
    limit: str
    later_milli: int
    kind: str = PLAIN

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
    kinds: tuple[str, ...] = ()  # beside PLAIN, a third of all HPAs together

    def __post_init__(self) -> None:
        """Refuse shapes that there are not."""
        unknown = set(self.shapes) - set(SHAPES)
        if unknown:
            raise ValueError(f"no such shape: {', '.join(sorted(unknown))}; {', '.join(SHAPES)}")


def make_fleet(options: FleetOptions) -> list[Truth]:
    """Return the HPAs of a seed; HPA k is the same in a fleet of any size."""
    return [_of_kind(_truth(options, k), options, k) for k in range(options.hpas)]


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
    return replace(plant, signals={**plant.signals, CPU: signal}, capacity_milli=capacity)


# ---- kinds: one change each of what was drawn, from a random stream of its own


def _of_kind(truth: Truth, options: FleetOptions, number: int) -> Truth:
    """Return every third HPA with one of the kinds, in turn; the others as they are."""
    if not options.kinds or number % 3 != 2:
        return truth
    kind = options.kinds[number // 3 % len(options.kinds)]
    random = np.random.Generator(np.random.PCG64([options.seed, number, 1]))
    changed = _CHANGES[kind](random, truth)
    low, high = changed.spec.min_replicas or 1, changed.spec.max_replicas
    initial = max(low, min(changed.workload.initial, high))
    return replace(changed, kind=kind, workload=replace(changed.workload, initial=initial))


def _burning(random: Generator, truth: Truth) -> Truth:
    """Return pods that start for minutes and use a share of their request meanwhile."""
    plant, signal = truth.workload.plant, truth.workload.plant.signals[CPU]
    assert signal.request_milli is not None
    starting_s = random.uniform(45, 180) * np.exp(0.2 * random.standard_normal(8))
    pods = replace(plant.pods, startup_ms=tuple((2_000, int(s * 1000)) for s in starting_s))
    height = int(signal.base_milli + signal.request_milli * random.uniform(0.25, 0.9))
    signals = {**plant.signals, CPU: replace(signal, startup_milli=height)}
    return _with_workload(truth, plant=replace(plant, pods=pods, signals=signals))


def _sharing(random: Generator, truth: Truth) -> Truth:
    """Return pods with a memory metric: of a fixed total, or of a cache that each pod fills."""
    workload = truth.workload
    request = int(random.choice([256, 512, 1024])) * _MIB_MILLI
    memory = Signal(DIVISIBLE, base_milli=request // 10, unit_milli=1000)
    work = dict(workload.work)
    if random.random() < 0.5:
        total = int(request * _pods_at(truth, 0.5) * random.uniform(0.3, 0.7))
        work[MEMORY] = np.full(work[CPU].size, total // 1000 * 1000, np.int64)
    else:
        memory = replace(memory, kind=AGE, growth_milli_per_hour=request // 20,
                         ceiling_milli=int(request * 0.7))  # fmt: skip
    target = {"type": "AverageValue", "averageValue": str(request * 8 // 10_000)}
    metric = {"type": "Resource", "resource": {"name": "memory", "target": target}}
    metrics = (*truth.spec.metrics, _decoded({"metrics": [metric]}).metrics[0])
    plant = replace(workload.plant, signals={**workload.plant.signals, MEMORY: memory})
    return _with_workload(
        replace(truth, spec=replace(truth.spec, metrics=metrics)), plant=plant, work=work
    )


def _idling(random: Generator, truth: Truth) -> Truth:
    """Return pods that use a few percent of their request, at a minimum of some of them."""
    low = int(random.integers(2, 7))
    spec = replace(truth.spec, min_replicas=low, max_replicas=max(truth.spec.max_replicas, low + 2))
    work = {CPU: (truth.workload.work[CPU] * random.uniform(0.02, 0.08)).astype(np.int64)}
    return _with_workload(replace(truth, spec=spec), work=work)


def _pinning(random: Generator, truth: Truth) -> Truth:
    """Return a maximum that binds for a tenth to half of the time."""
    high = max(int(_pods_at(truth, random.uniform(0.5, 0.9))), 2)
    low = min(truth.spec.min_replicas or 1, high - 1)
    return replace(truth, spec=replace(truth.spec, min_replicas=low, max_replicas=high))


def _flapping(random: Generator, truth: Truth) -> Truth:
    """Return work that jumps within minutes, and no stabilization at all."""
    work = truth.workload.work[CPU]
    noise = np.exp(_wander(random, work.size, float(random.uniform(0.2, 0.4))))
    still = {"stabilizationWindowSeconds": 0}
    behavior = _decoded({"behavior": {"scaleDown": still, "scaleUp": still}}).behavior
    return _with_workload(
        replace(truth, spec=replace(truth.spec, behavior=behavior)),
        work={CPU: (work * noise).astype(np.int64)},
    )


_CHANGES: Final[Mapping[str, Callable[[Generator, Truth], Truth]]] = {
    BURN: _burning,
    SHARED: _sharing,
    IDLE: _idling,
    PINNED: _pinning,
    FLAPPING: _flapping,
}


def _with_workload(truth: Truth, **changes: Any) -> Truth:
    return replace(truth, workload=replace(truth.workload, **changes))


def _pods_at(truth: Truth, quantile: float) -> float:
    """Return how many pods hold today's target of cpu at a quantile of the work."""
    signal, metric = truth.workload.plant.signals[CPU], truth.spec.metrics[0].resource
    assert metric is not None
    assert signal.request_milli is not None
    used = signal.request_milli * (metric.target.average_utilization or 100) / 100
    work = float(np.quantile(truth.workload.work[CPU], quantile))
    return work / max(used - signal.base_milli, 0.05 * signal.request_milli)


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
    return _decoded(spec, name), f"{habit}, {word}"


def _decoded(spec: Json, name: str = "any") -> HPASpec:
    """Return a spec of a Deployment with Kubernetes' defaults."""
    target = {"kind": "Deployment", "name": name, "apiVersion": "apps/v1"}
    hpa, problems = hpa_from_json(json.dumps({"scaleTargetRef": target, "maxReplicas": 1} | spec))
    assert not problems, problems
    return default_hpa(HPA(name=name, namespace="any", spec=hpa.spec)).spec


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
