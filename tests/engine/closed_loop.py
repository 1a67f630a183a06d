"""Small closed loops whose base is known, as observed usage: demand, a simple HPA, samples.

Written without the rules and the plant: only what a fit must get along with is here. Usage is kept
near a target whatever the base is, sizes follow noisy usage, new pods come late.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpabatch.engine.fit.pipeline import Recording
from hpabatch.engine.fit.usage import Cells, Lives, Probes, Series, SignalUsage, Usage
from hpabatch.engine.fleet.candidates import Candidate, SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.kernels.usage import TRACK_USAGE
from hpabatch.layout.records import I64, records_from
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.hpa import HPASpec, MetricSpec
from hpabatch.model.plant import signal_name

F64 = NDArray[np.float64]

START = 1_791_331_200_000  # 2026-10-07T00:00:00Z
STEP_MS = 15_000
HOUR_MS = 3_600_000
TARGET = 500
LEAST, MOST = 2, 40
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": f"{TARGET}m"}},
}
MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 80}},
}
RATE = {
    "type": "Pods",
    "pods": {
        "metric": {"name": "requests_per_second"},
        "target": {"type": "AverageValue", "averageValue": "20"},
    },
}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "depth"}, "target": {"type": "Value", "value": "30"}},
}
RECORDING = Recording(0, "assumed", 60_000, "fitted", "assumed", "assumed", fetched=False)


# ---- the loop ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loop:
    """A run: work in total, ready pods and usage per pod of each step, and the sizes asked for."""

    work: F64
    ready: I64
    usage: F64
    size: I64

    @property
    def settled(self) -> Any:
        """Steps in which, and in the two before which, no pod came or went."""
        moved = np.flatnonzero(np.diff(self.ready)) + 1
        still = np.ones(self.ready.size, bool)
        for late in range(3):
            still[np.minimum(moved + late, self.ready.size - 1)] = False
        return still

    def series(self) -> Series:
        """Return the run as it would be measured."""
        return Series(self.usage, self.usage, self.ready.astype(np.float64), self.settled)

    def cells(self) -> Cells:
        """Return its grid."""
        return Cells(START, STEP_MS, self.ready.size)


def wandering(rng: np.random.Generator, steps: int, tau_s: float, size: float) -> F64:
    """Return noise of a standard deviation that is forgotten over some time."""
    keep = np.exp(-STEP_MS / 1000 / tau_s)
    shocks = rng.normal(size=steps) * size * np.sqrt(1 - keep**2)
    found = np.zeros(steps)
    for k in range(1, steps):
        found[k] = keep * found[k - 1] + shocks[k]
    return found


def demand(rng: np.random.Generator, steps: int, bursts: bool) -> F64:
    """Return work with days, slow and fast noise, and bursts, in milli."""
    day = np.arange(steps) * STEP_MS / (24 * HOUR_MS)
    level = 1 + 0.6 * np.sin(2 * np.pi * (day - 0.3)) + 0.15 * np.sin(4 * np.pi * day + 1)
    noise = wandering(rng, steps, 600, 0.05) + wandering(rng, steps, 3600, 0.08)
    work = 4000 * level * np.exp(noise + rng.normal(size=steps) * 0.03)
    for first in rng.integers(0, steps, size=steps // 480) if bursts else ():
        work[first : first + int(rng.integers(8, 60))] *= rng.uniform(1.3, 2.0)
    return np.asarray(work, np.float64)


def run_loop(
    seed: int, base: float, days: float = 2, startup: int = 3, bursts: bool = False
) -> Loop:
    """Return a run under a size that follows usage: tolerance, ceil, a window of 5 min down."""
    rng = np.random.default_rng(seed)
    steps = int(days * 24 * HOUR_MS / STEP_MS)
    work = demand(rng, steps, bursts)
    ready_of, usage, sizes = np.zeros(steps, np.int64), np.zeros(steps), np.zeros(steps, np.int64)
    size = ready = max(LEAST, int(np.ceil(work[0] / (TARGET - base))))
    coming: list[tuple[int, int]] = []
    asked = [size]
    for t in range(steps):
        ready += sum(count for at, count in coming if at == t)
        coming = [(at, count) for at, count in coming if at > t]
        noise = 1 + rng.normal() * 0.02 / np.sqrt(ready)
        ready_of[t], usage[t] = ready, (base + work[t] / ready) * noise
        ratio = usage[t] / TARGET
        asked.append(size if abs(ratio - 1) <= 0.1 else int(np.ceil(ratio * ready)))
        wanted = asked[-1] if asked[-1] > size else min(size, max(asked[-20:]))
        wanted = min(max(wanted, LEAST), MOST, max(2 * size, size + 4))
        if wanted > size:
            coming.append((t + 1 + startup, wanted - size))
        else:
            ready, coming = _removed(ready, coming, size - wanted)
        size = sizes[t] = wanted
    return Loop(work, ready_of, usage, sizes)


def _removed(
    ready: int, coming: list[tuple[int, int]], count: int
) -> tuple[int, list[tuple[int, int]]]:
    """Take away pods, those that are not ready first."""
    left = list(coming)
    while count and left:
        at, pods = left.pop()
        taken = min(pods, count)
        count -= taken
        if pods > taken:
            left.append((at, pods - taken))
    return ready - count, left


# ---- observed usage ------------------------------------------------------------------------------


def spec_of(metrics: Sequence[dict[str, Any]], kind: str = "Deployment") -> HPASpec:
    """Return a spec with some metrics."""
    hpa, _ = hpa_from_json(
        json.dumps(
            {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"},
                "minReplicas": LEAST,
                "maxReplicas": MOST,
                "metrics": list(metrics),
            }
        )
    )
    return hpa.spec


def candidate_of(spec: HPASpec) -> Candidate:
    """Return an HPA with one spec for all time."""
    return Candidate("c1", "shop", "web", (SpecPeriod(ALWAYS_MS, NEVER_MS, spec),))


def lives_of(ready: I64, startup_ms: int = 45_000) -> Lives:
    """Return pods that are ready as often as a series says, the last to come the first to go."""
    born: list[int] = []
    rows: list[tuple[int, int]] = []
    for t, count in enumerate(ready.tolist()):
        at = START + t * STEP_MS
        while len(born) < count:
            born.append(at if t else START - HOUR_MS)
        while len(born) > count:
            rows.append((born.pop(), at))
    rows += [(since, NEVER_MS) for since in born]
    rows.sort()
    since = np.array([row[0] for row in rows], np.int64)
    until = np.array([row[1] for row in rows], np.int64)
    changes = np.append(0, np.flatnonzero(np.diff(ready)) + 1)
    none = np.zeros(0, np.int64)
    steps = START + changes * STEP_MS
    steps[0] = START - HOUR_MS
    return Lives(
        created_ms=since - startup_ms,
        started_ms=since - startup_ms + 5_000,
        ready_ms=since,
        deleted_ms=until,
        gone_ms=np.where(until < NEVER_MS, until + 30_000, NEVER_MS),
        generated=False,
        step_ms=steps,
        step_ready=ready[changes].astype(np.int64),
        lost_pod=none,
        lost_ms=none,
        again_ms=none,
    )


def signal_of(
    metric: MetricSpec, value: F64, pods: I64, spacing_ms: int = STEP_MS, window_ms: int = STEP_MS
) -> SignalUsage:
    """Return a signal sampled at the end of every step: per pod, or (pods all 0) a total."""
    count = value.size
    is_total = metric.type in ("Object", "External")
    counted = np.ones(count, np.int64) if is_total else pods.astype(np.int64)
    ts = START + (np.arange(count, dtype=np.int64) + 1) * STEP_MS
    whole = np.rint(value).astype(np.int64)
    zero = np.zeros(count, np.int64)
    some = min(count, 512)
    window = 0 if is_total else window_ms
    return SignalUsage(
        metric=metric,
        is_total=is_total,
        tick=np.arange(count, dtype=np.int64),
        newest_ms=ts,
        mean_ms=ts,
        counted=counted,
        sum_milli=np.rint(value * counted).astype(np.int64),
        least_milli=whole,
        most_milli=whole,
        starting=zero,
        starting_milli=zero,
        requested=zero if is_total else counted,
        request_milli=zero if is_total else 1000 * counted,
        probes=Probes(
            np.full(some, spacing_ms), np.full(some, window), np.zeros(some, np.int64), ts[:some]
        ),
        pods=records_from(TRACK_USAGE, 0),
    )


def usage_of(loop: Loop, metrics: Sequence[dict[str, Any]] = (CPU,), **values: F64) -> Usage:
    """Return a run as observed usage; `values` replace the usage by kind of metric."""
    spec = spec_of(metrics)
    lives = lives_of(loop.ready)
    signals = {}
    for metric in spec.metrics:
        name = signal_name(metric)
        value = values.get(name.split("/")[-1], loop.usage)
        signal = signal_of(metric, value, loop.ready)
        if not signal.is_total:
            tracks = records_from(TRACK_USAGE, lives.created_ms.size, first_ms=-1, last_ms=-1)
            signal = replace(signal, pods=tracks)
        signals[name] = signal
    ticks = loop.ready.size
    return Usage(
        candidate=candidate_of(spec),
        now_ms=START + (np.arange(ticks, dtype=np.int64) + 1) * STEP_MS,
        period=np.zeros(ticks, np.int64),
        replicas=loop.size.astype(np.int64),
        ready=loop.ready.astype(np.int64),
        serving=loop.ready.astype(np.int64),
        starting=np.zeros(ticks, np.int64),
        deleting=np.zeros(ticks, np.int64),
        signals=signals,
        lives=lives,
        limits={},
    )
