"""Trials: an HPA's recording replayed under its stated settings and under deviations from them.

Each setting is replayed twice, all of them in one walk over an HPA's samples. The *plain* replay
sees the recorded sizes, as any replay does. The *held* one sees an episode of the recording as if
it had not happened yet: from its first change until W after the last one, size and pods stay as
they were. It takes only the time around episodes; those too near to each other are held in replays
of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.fit.stats import int_median
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.membership import Place
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.shards.pack import pack_shard
from hpabatch.engine.shards.read import SampleReader, ShardInput
from hpabatch.engine.shards.shard import Epoch, ScaleColumns, Shard
from hpabatch.layout import codes
from hpabatch.layout.records import (
    F64,
    HEAD_DOWN_START,
    HEAD_REC_SIZE,
    HEAD_UP_START,
    I32,
    I64,
    A,
    Specs,
)
from hpabatch.model.objects.hpa import MetricSpec
from hpabatch.model.plant import signal_name
from hpabatch.packing.arena import Arena
from hpabatch.packing.memory import make_sized_memory

SAMPLED_SHARE = 0.9  # of so many pods the life is that of their samples: it was made of these


class Window(NamedTuple):
    """How far apart a decision and the recorded change of it may lie, in ms.

    `late_ms` is sync period + sample spacing + delay: so much later than the controller a replay
    may see a sample. `size_ms` is what is uncertain about the instant of a recorded change: it
    happened up to so long before. `standing_ms`: a wish of the controller's own is followed within.
    """

    late_ms: int
    size_ms: int
    standing_ms: int

    @property
    def early_ms(self) -> int:
        """How long before a recorded change its decision may lie."""
        return self.late_ms + self.size_ms


@dataclass(frozen=True, slots=True)
class Episodes:
    """Recorded changes by time; shape (n,).

    Those of one direction that follow each other within the window are one: a rollout in steps, or
    one change that the size's own samples tell in parts. When the first and the last step of each
    was recorded (ms); the size before, after the first step and after the last one.
    """

    first_ms: I64
    last_ms: I64
    before: I64
    step: I64
    after: I64

    @property
    def count(self) -> int:
        """Number of episodes."""
        return self.first_ms.size

    @property
    def up(self) -> I64:
        """1 where the size grew, -1 where it fell."""
        return np.asarray(np.sign(self.after - self.before), np.int64)

    def some(self, chosen: I64) -> Episodes:
        """Return some of them, by position."""
        return Episodes(
            *(
                values[chosen]
                for values in (self.first_ms, self.last_ms, self.before, self.step, self.after)
            )
        )


def window_of(period_ms: int, spacing_ms: int, delay_ms: int, unseen_ms: int | None) -> Window:
    """Return an HPA's window.

    Args:
        period_ms: time between two syncs.
        spacing_ms: time between two samples of a pod.
        delay_ms: time from a sample until it is visible.
        unseen_ms: time from a pod's last sample until it is taken for gone, where its life is that
            of its samples; None: lives and sizes were recorded themselves.
    """
    seen_ms = spacing_ms + delay_ms
    size_ms = 0 if unseen_ms is None else max(spacing_ms, unseen_ms)
    return Window(period_ms + seen_ms, size_ms, period_ms + max(seen_ms, size_ms))


def episodes_of(scale: ScaleColumns, window: Window, from_ms: int, to_ms: int) -> Episodes:
    """Return the episodes of a scale that lie between two instants, the window after included."""
    rows = scale.resized()
    ts_ms, before, after = scale.ts_ms[rows], scale.replicas[rows - 1], scale.replicas[rows]
    up = after > before
    inside = np.ones(rows.size, np.bool_)
    inside[1:] = (np.diff(ts_ms) > window.early_ms) | (up[1:] != up[:-1])
    first = np.flatnonzero(inside)
    last = np.append(first[1:], rows.size) - 1 if rows.size else first
    found = Episodes(ts_ms[first], ts_ms[last], before[first], after[first], after[last])
    held = (found.first_ms - window.early_ms >= from_ms) & (found.last_ms + window.late_ms <= to_ms)
    return found.some(np.flatnonzero(held))


def passes_of(episodes: Episodes, window: Window, warm_ms: int, most: int) -> list[I64]:
    """Return positions of episodes by the replay in which they are held.

    Within one replay they are so far apart that the controller's memory is that of the recording
    (`warm_ms`) when the next begins. Those that fit into none of `most` replays are in none.
    """
    ends, found = list[int](), list[list[int]]()
    begin = (episodes.first_ms - window.early_ms - warm_ms).tolist()
    end = (episodes.last_ms + window.late_ms).tolist()
    for k in range(episodes.count):
        free = next((p for p, until in enumerate(ends) if until <= begin[k]), len(ends))
        if free == most:
            continue
        if free == len(ends):
            ends.append(0)
            found.append([])
        ends[free] = end[k]
        found[free].append(k)
    return [np.array(positions, np.int64) for positions in found]


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
    """Another setting that a recording may fit: its dimension, its words, how far it goes there.

    It is a copy of the tables of a packed lane, so all of them read the same samples.

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
    if deviation.dimension in (TARGET, METRIC):
        periods = shard.candidates[h].periods
        for row, period in dict(zip(specs.tolist(), periods, strict=True)).items():
            _change_metrics(shard, row, period.spec.metrics, deviation)
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


def _change_metrics(
    shard: Shard, spec: int, metrics: Sequence[MetricSpec], deviation: Deviation
) -> None:
    """Move the targets of a spec, or leave its metric of a name out, where it has others.

    A target that is no percentage moves by the same share as 60 % would.
    """
    table, row = shard.fleet.metrics, shard.fleet.specs[spec]
    named = [signal_name(metric) == deviation.metric for metric in metrics]
    for m, is_named in zip(range(row.first_metric, row.last_metric), named, strict=True):
        if deviation.dimension == METRIC and is_named and not all(named):
            for targets in (table.target_pct, table.target_milli):
                targets[m] = min(int(targets[m]) * _NEVER_DRIVES, _MOST)
        elif deviation.dimension == TARGET and table.kind[m] == codes.RESOURCE_UTILIZATION:
            table.target_pct[m] = max(int(table.target_pct[m]) + int(deviation.value), 1)
        elif deviation.dimension == TARGET:
            share = 1 + int(deviation.value) / 60
            table.target_milli[m] = max(round(int(table.target_milli[m]) * share), 1)


MOST_PASSES: Final = 6
LEAST_WARM_MS: Final = 120_000
DAYS_MEASURED: Final = 3
_EPOCH: Final = date(1970, 1, 1)
_LEAST_UNSEEN_MS: Final = 300_000
_LONGEST_UNSEEN: Final = 3  # spacings; a pod without samples for longer was not sampled


class Sizes(NamedTuple):
    """What a lane decided at its ticks: the size that it saw and the one that it wished for.

    Ticks that could decide nothing are left out; shape (n,).
    """

    now_ms: I64
    seen: I32 | I64
    wished: I32 | I64


class Recording(NamedTuple):
    """An HPA with its instants, window, episodes, and which of these are held together.

    `warm_ms`: what happened longer ago than that is in no controller's memory; `down_window_ms`: of
    scaling down, the last one that was stated.
    """

    candidate: Candidate
    places: Sequence[Place]
    now_ms: I64
    window: Window
    warm_ms: int
    down_window_ms: int
    episodes: Episodes
    passes: Sequence[I64]


@dataclass(frozen=True, slots=True)
class Trial:
    """An HPA under one setting: the plain replay, and the held one of each pass."""

    deviation: Deviation
    plain: Sizes
    held: Sequence[Sizes]


def recordings_of(
    plan: ReplayPlan, given: ShardInput, places: Sequence[Sequence[Place]]
) -> list[Recording]:
    """Return the HPAs of a shard that have a tick, with what is measured around their changes."""
    shard = pack_shard(given, Arena())
    # Spacing and ends of samples are those of the recording, under any lens.
    reader = SampleReader(replace(plan, lenses=()), given.facts.cluster, places, shard)
    own = {id(c): theirs for c, theirs in zip(given.candidates, places, strict=True)}
    times = _sample_times(shard, reader, [own[id(c)] for c in shard.candidates])
    found = []
    for h, candidate in enumerate(shard.candidates):
        source = shard.observations.lanes[h]
        clock_ms = shard.observations.clock_ms[source.first_clock : source.last_clock]
        now_ms = clock_ms[candidate.spec_of(clock_ms) >= 0]
        period_ms = int_median(np.diff(now_ms)) if now_ms.size > 1 else 0
        spacing_ms = _spacing_ms(times[h])
        unseen_ms = _unseen_ms(given, shard, h, times[h], spacing_ms)
        window = window_of(period_ms, spacing_ms, given.delay_ms, unseen_ms)
        scale = given.scales[candidate.target]
        episodes = episodes_of(scale, window, int(now_ms[0]), int(now_ms[-1]))
        first = np.searchsorted(now_ms, episodes.first_ms - window.early_ms)
        last = np.searchsorted(now_ms, episodes.last_ms + window.late_ms)
        episodes = episodes.some(np.flatnonzero(last > first))  # (at others nobody could decide)
        warm_ms = _warm_ms(shard, h, period_ms)
        passes = passes_of(episodes, window, warm_ms, MOST_PASSES)
        theirs = own[id(candidate)]
        down_ms = _down_window_ms(shard, h)
        found.append(
            Recording(candidate, theirs, now_ms, window, warm_ms, down_ms, episodes, passes)
        )
    return found


def _warm_ms(shard: Shard, h: int, period_ms: int) -> int:
    """Return for how long before an episode a replay has to run: a controller's memory."""
    source, specs = shard.observations.lanes[h], shard.fleet.specs
    rows = shard.observations.periods.spec[source.first_period : source.last_period]
    windows = [int(specs.up_window_ms[rows].max()), int(specs.down_window_ms[rows].max())]
    windows.append(int(shard.fleet.lanes.downscale_stabilization_ms[h]))
    periods = shard.fleet.policies.period_ms
    limits = [
        int(periods[specs.first_up[k] : specs.last_down[k]].max(initial=0)) for k in rows.tolist()
    ]
    return max(LONGEST * max(windows), *limits, LEAST_WARM_MS) + 2 * period_ms


def _down_window_ms(shard: Shard, h: int) -> int:
    """Return the scale-down window of a lane's last spec: of its behavior, or the flag."""
    source, lanes = shard.observations.lanes[h], shard.fleet.lanes
    spec = shard.fleet.specs[shard.observations.periods.spec[source.last_period - 1]]
    legacy = int(lanes.downscale_stabilization_ms[h])
    return int(spec.down_window_ms) if spec.has_behavior else legacy


Times = list[tuple[int, int, I64]]
"""Stream, track and times of the samples of a lane's tracks that have some, on some days."""


def _sample_times(
    shard: Shard, reader: SampleReader, places: Sequence[Sequence[Place]]
) -> list[Times]:
    """Return the times of each lane's samples on up to DAYS_MEASURED of its days."""
    chosen, found = list[list[date]](), list[Times]()
    tables = ("pod_metrics", "pod_custom_metrics")
    for h, theirs in enumerate(places):
        source = shard.observations.lanes[h]
        clock_ms = shard.observations.clock_ms[source.first_clock : source.last_clock]
        first, last = (_EPOCH + timedelta(milliseconds=int(clock_ms[k])) for k in (0, -1))
        known = [reader.plan.days_of(t, reader.cluster).get(p, {}) for t in tables for p in theirs]
        days = sorted(day for day in set().union(*known) if first <= day <= last)
        if not days:  # totals only
            days = [first + timedelta(days=k) for k in range((last - first).days + 1)]
        measured = {*np.linspace(0, len(days) - 1, DAYS_MEASURED, dtype=int)}
        chosen.append([days[k] for k in sorted(measured)])
        found.append([])
    streams = shard.observations.streams
    for day in sorted(set().union(*chosen)):
        load = reader.load((day, day), Arena())
        for h in (h for h, days in enumerate(chosen) if day in days):
            lane = shard.fleet.lanes[h]
            for g in range(int(lane.first_stream), int(lane.last_stream)):
                tracks = slice(int(streams.first_track[g]), int(streams.last_track[g]))
                begin, end = load.first_row[tracks], load.last_row[tracks]
                for k in np.flatnonzero(end > begin).tolist():
                    track = tracks.start + k
                    usage = shard.tracks.pods[track] >= 0
                    column = load.rows.usage_ts_ms if usage else load.rows.plain_ts_ms
                    found[h].append((g, track, column[begin[k] : end[k]].copy()))
    return found


def _spacing_ms(times: Times) -> int:
    """Return the largest median spacing of a lane's streams."""
    steps: dict[int, list[I64]] = {}
    for g, _, ts_ms in times:
        step = np.diff(ts_ms)
        steps.setdefault(g, []).append(step[step > 0])
    joined = [np.concatenate(parts) for parts in steps.values()]
    return max((int_median(part) for part in joined if part.size), default=0)


def _unseen_ms(
    given: ShardInput, shard: Shard, h: int, times: Times, spacing_ms: int
) -> int | None:
    """Return how long after its last sample a pod is gone; None: lives are not of samples."""
    pods, numbers = given.pods, np.array(shard.pods[h], np.int64)
    if not numbers.size:
        return None
    first = pods.state_first[numbers]
    started_ms = np.where(
        pods.state_first[numbers + 1] > first,
        pods.states.start_ms[np.minimum(first, max(pods.state_ms.size - 1, 0))],
        -1,
    )
    if (started_ms == pods.created_ms[numbers]).mean() < SAMPLED_SHARE:
        return None
    source, found = shard.observations.lanes[h], list[int]()
    longest_ms = max(_LONGEST_UNSEEN * spacing_ms, _LEAST_UNSEEN_MS)
    streams = shard.observations.streams
    for g, k, ts_ms in times:
        if streams.is_total[g]:
            continue
        pod = shard.observations.pods[source.first_pod + k - streams.first_track[g]]
        unseen = int(pod.gone_ms - ts_ms[-1])
        if 0 <= unseen <= longest_ms:
            found.append(unseen)
    return int(np.median(found)) if found else 0
