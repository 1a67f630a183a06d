"""Deviations from the stated settings of an HPA: other settings to which its recording may fit.

Each is a copy of the tables of a packed lane, so all of them read the same samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.shards.shard import Epoch, Shard
from hpabatch.layout import codes
from hpabatch.layout.records import (
    F64,
    HEAD_DOWN_START,
    HEAD_REC_SIZE,
    HEAD_UP_START,
    A,
    Specs,
)
from hpabatch.model.plant import signal_name
from hpabatch.packing.memory import make_sized_memory

TARGET: Final = "target"
WINDOW: Final = "window"
TOLERANCE: Final = "tolerance"
METRIC: Final = "metric"
POINTS: Final = 10
LONGEST: Final = 2
"""The longest window that a deviation has, in stated ones."""

_TOLERANCES: Final = (0.1, 0.2)
_NEVER_DRIVES: Final = 1_000
_MOST: Final = 1 << 53
"""Times its target a metric asks for the least size: then it is as if it were not there. Up to a
bound, below which products of a kernel do not wrap.
"""


class Deviation(NamedTuple):
    """Another setting: the dimension it is of, its words, and how far it goes there.

    `value` is in points of a target, or a factor of a window; `metric` is the one that is left out.
    """

    dimension: str
    words: str
    value: float
    metric: str = ""


STATED: Final = Deviation("", "as stated", 0)


def deviations_of(candidate: Candidate) -> list[Deviation]:
    """Return the deviations that an HPA's recording is compared with."""
    spec = candidate.spec
    found = [
        Deviation(TARGET, f"target {sign * POINTS:+d} points", sign * POINTS) for sign in (-1, 1)
    ]
    down = spec.behavior.scale_down if spec.behavior else None
    if down is None or down.stabilization_window_seconds != 0:
        found.append(Deviation(WINDOW, "scale-down window halved", 0.5))
        found.append(Deviation(WINDOW, "scale-down window doubled", LONGEST))
    found.append(Deviation(TOLERANCE, "the other tolerance", 0))
    if len({signal_name(metric) for metric in spec.metrics}) > 1:
        names = dict.fromkeys(signal_name(metric) for metric in spec.metrics)
        found += [Deviation(METRIC, f"without {name}", 0, name) for name in names]
    return found


def add_settings(shard: Shard, settings: Sequence[Sequence[Deviation]]) -> None:
    """Give each lane of a packed shard its settings, as `kernels.trials` reads them.

    Tables that a setting can change, and the memories, are there once for each setting; a lane
    with fewer settings than others has copies that nothing reads.
    """
    fleet, head = shard.fleet, shard.memory.head
    count = max(map(len, settings), default=1)
    places = _Places(fleet.lanes.size, fleet.specs.size, fleet.metrics.size)
    shard.epochs = [
        Epoch(e.from_ms, places.specs_of(e.specs, count), _copies(e.lanes, count))
        for e in shard.epochs
    ]
    shard.fleet = fleet._replace(
        lanes=_copies(fleet.lanes, count),
        specs=places.specs_of(fleet.specs, count),
        metrics=_copies(fleet.metrics, count),
    )
    shard.memory = make_sized_memory(
        np.tile(head[:, HEAD_REC_SIZE], count),
        np.tile(head[:, HEAD_DOWN_START] - head[:, HEAD_UP_START], count),
    )
    shard.seeds = [
        seed._replace(h=seed.h + v * places.lanes) for v in range(count) for seed in shard.seeds
    ]
    for h, theirs in enumerate(settings):
        for v, deviation in enumerate(theirs):
            _apply_deviation(shard, places, h, v, deviation)


def _copies(table: A, count: int) -> A:
    return np.tile(table, count).view(np.recarray)  # type: ignore[return-value]


class _Places(NamedTuple):
    """How many lanes, specs and metrics one setting has."""

    lanes: int
    specs: int
    metrics: int

    def specs_of(self, specs: Specs, count: int) -> Specs:
        """Return the specs of all settings, each with its own metrics."""
        found = _copies(specs, count)
        shift = np.repeat(np.arange(count) * self.metrics, self.specs)
        found.first_metric += shift
        found.last_metric += shift
        return found


def _apply_deviation(shard: Shard, places: _Places, h: int, v: int, deviation: Deviation) -> None:
    """Make setting v of lane h another one, in all of its specs."""
    obs = shard.observations
    source, lane = obs.lanes[h], v * places.lanes + h
    specs = v * places.specs + obs.periods.spec[source.first_period : source.last_period]
    rows = np.unique(specs)
    if deviation.dimension == TARGET:
        for row in rows.tolist():
            _move_targets(shard, row, int(deviation.value))
    elif deviation.dimension == METRIC:
        periods = shard.candidates[h].periods
        for row, period in dict(zip(specs.tolist(), periods, strict=True)).items():
            named = [signal_name(metric) == deviation.metric for metric in period.spec.metrics]
            if not all(named):
                _leave_out(shard, row, [k for k, it in enumerate(named) if it])
    for table, lanes in [(e.specs, e.lanes) for e in shard.epochs] + [
        (shard.fleet.specs, shard.fleet.lanes)
    ]:
        if deviation.dimension == WINDOW:
            window_ms = table.down_window_ms[rows] * deviation.value
            table.down_window_ms[rows] = window_ms.astype(np.int64)
            longer_ms = lanes.downscale_stabilization_ms[lane] * deviation.value
            lanes.downscale_stabilization_ms[lane] = int(longer_ms)
        elif deviation.dimension == TOLERANCE:
            table.up_tolerance[rows] = _other(table.up_tolerance[rows])
            table.down_tolerance[rows] = _other(table.down_tolerance[rows])


def _other(tolerance: F64) -> F64:
    """Return the larger of the two tolerances for one nearer to the smaller, and the reverse."""
    return np.where(tolerance < np.mean(_TOLERANCES), _TOLERANCES[1], _TOLERANCES[0])


def _metric_rows(shard: Shard, spec: int) -> list[int]:
    row = shard.fleet.specs[spec]
    return list(range(int(row.first_metric), int(row.last_metric)))


def _move_targets(shard: Shard, spec: int, points: int) -> None:
    """Move the targets of a spec; one that is no percentage by the same share as 60 % would be."""
    metrics = shard.fleet.metrics
    for m in _metric_rows(shard, spec):
        if metrics.kind[m] == codes.RESOURCE_UTILIZATION:
            metrics.target_pct[m] = max(int(metrics.target_pct[m]) + points, 1)
        else:
            share = 1 + points / 60
            metrics.target_milli[m] = max(round(int(metrics.target_milli[m]) * share), 1)


def _leave_out(shard: Shard, spec: int, places: Sequence[int]) -> None:
    """Leave some metrics of a spec out; its others go on."""
    metrics, rows = shard.fleet.metrics, _metric_rows(shard, spec)
    for m in (rows[place] for place in places):
        for targets in (metrics.target_pct, metrics.target_milli):
            targets[m] = min(int(targets[m]) * _NEVER_DRIVES, _MOST)
