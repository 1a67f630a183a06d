"""Observed usage of each HPA's workload over time, by tick and on a regular grid; its pods' lives.

One pass over the samples, shard by shard and a run of days at a time as in a replay, without
decisions. The result is small: a few numbers per tick and metric, and the lives of the pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from hpabatch.engine.fit.stats import F64, Mask, int_median, runs_of
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.frames import NEVER_MS, integers
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.shards.read import ShardFacts
from hpabatch.engine.shards.run import Step, ahead, shard_steps, take_in
from hpabatch.engine.shards.shard import Shard
from hpabatch.history.columns import AFTER_MS
from hpabatch.kernels.usage import (
    PROBES,
    SIGNAL_USAGE,
    TICK_USAGE,
    TRACK_USAGE,
    UsageArrays,
    observe_usage,
    take_in_usage,
)
from hpabatch.layout import codes
from hpabatch.layout.observations import CURSOR_TICK, Rows
from hpabatch.layout.records import I64, Records, records_from
from hpabatch.model.objects.hpa import MetricSpec
from hpabatch.model.plant import signal_name

_RUNS = ("app", "sidecar")  # kinds of containers that run as long as the pod does
LIMIT_COLUMNS = ("uid", "container", "kind", "valid_from", "cpu_limit_milli", "memory_limit_milli")


@dataclass(frozen=True, slots=True)
class Lives:
    """The pods of an HPA in order of their key, shape (P,), and when how many of them were ready.

    Times in ms, NEVER_MS for what never happened: `ready_ms` is when a pod was first ready. From
    `step_ms[k]` on `step_ready[k]` pods were ready (before the first: none). A pod `lost_pod[i]`
    ceased to be ready at `lost_ms[i]`, without being deleted, and was again at `again_ms[i]`.
    `generated`: the pods only stand for a recorded size.
    """

    created_ms: I64
    started_ms: I64
    ready_ms: I64
    deleted_ms: I64
    gone_ms: I64
    generated: bool
    step_ms: I64
    step_ready: I64
    lost_pod: I64
    lost_ms: I64
    again_ms: I64

    def ready_at(self, at_ms: I64) -> I64:
        """Return how many pods were ready at some instants; shape of `at_ms`."""
        found = np.searchsorted(self.step_ms, at_ms, side="right")
        return np.append(0, self.step_ready)[found]

    def ready_ms_until(self, at_ms: I64) -> I64:
        """Return for how long pods had been ready until some instants, summed over pods, in ms."""
        if not self.step_ms.size:
            return np.zeros(at_ms.size, np.int64)
        done = np.append(0, np.cumsum(np.diff(self.step_ms) * self.step_ready[:-1]))
        k = np.maximum(np.searchsorted(self.step_ms, at_ms, side="right") - 1, 0)
        since = np.maximum(at_ms - self.step_ms[k], 0)
        return np.asarray(done[k] + since * self.step_ready[k], np.int64)

    def changes_between(self, from_ms: I64, to_ms: I64) -> I64:
        """Return how often the number of ready pods changed in (from, to], pair by pair."""
        upto = np.searchsorted(self.step_ms, to_ms, side="right")
        return upto - np.searchsorted(self.step_ms, from_ms, side="right")


Limits = Mapping[tuple[str, str], I64]
"""The limits of an HPA's pods in milli by resource and container, "" for the pod as a whole.

Shape (P,) each, -1 where a container has none; a resource whose limits are not recorded is not in
it.
"""


def lives_of_lane(shard: Shard, facts: ShardFacts, h: int) -> Lives:
    """Return the lives of a lane's pods."""
    candidate = shard.candidates[h]
    obs, states = shard.observations, shard.fleet.states
    lane = obs.lanes[h]
    pods = obs.pods[int(lane.first_pod) : int(lane.last_pod)]
    lengths = (pods.last_state - pods.first_state).astype(np.int64)
    owner = np.repeat(np.arange(pods.size), lengths)
    offset = np.arange(owner.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    at = pods.first_state[owner] + offset
    flags, ms = states.pod_flags[at], obs.state_ms[at]
    deleting = flags & codes.POD_DELETING != 0
    begun = flags & codes.POD_STARTED != 0
    runs = _ready_runs(pods, owner, ms, flags, states.transition_ms[at])
    never = np.full(pods.size, NEVER_MS)
    owner_of_run, first_ms, last_ms = runs
    step_ms, step_ready = _steps(*_matched(shard, h, runs))
    deleted_ms = _earliest(never, owner[deleting], ms[deleting])
    # When each stretch's pod was ready again.
    later_ms = np.full(owner_of_run.size, NEVER_MS)
    same = owner_of_run[1:] == owner_of_run[:-1]
    later_ms[:-1][same] = first_ms[1:][same]
    # Readiness that ended without a deletion or the pod's end was lost.
    lost = last_ms < np.minimum(deleted_ms, pods.gone_ms)[owner_of_run]
    return Lives(
        created_ms=pods.created_ms.copy(),
        started_ms=_earliest(never, owner[begun], states.start_ms[at][begun]),
        ready_ms=_earliest(never, owner_of_run, first_ms),
        deleted_ms=deleted_ms,
        gone_ms=pods.gone_ms.copy(),
        generated=candidate.key in facts.generated,
        step_ms=step_ms,
        step_ready=step_ready,
        lost_pod=owner_of_run[lost],
        lost_ms=last_ms[lost],
        again_ms=later_ms[lost],
    )


def _earliest(never: I64, owner: I64, ms: I64) -> I64:
    found = never.copy()
    np.minimum.at(found, owner, ms)
    return found


Runs = tuple[I64, I64, I64]
"""Stretches of readiness: pod, from and until when, in order of pod and time."""


def _ready_runs(pods: Records, owner: I64, ms: I64, flags: I64, transition_ms: I64) -> Runs:
    """Return when pods were Running, Ready and not being deleted.

    A change is seen after it was made: the recorded transition counts where there is one.
    """
    ready = (flags & codes.PHASE_MASK) == codes.PHASE_RUNNING
    ready &= (flags & codes.READY_MASK) == codes.READY_TRUE
    ready &= flags & codes.POD_DELETING == 0
    same = np.append(False, owner[1:] == owner[:-1])
    before = np.append(False, ready[:-1]) & same
    first, end = np.flatnonzero(ready & ~before), np.flatnonzero(before & ~ready)
    known = transition_ms > 0
    from_ms = np.where(known, np.minimum(transition_ms, ms), ms)[first]
    from_ms = np.maximum(from_ms, pods.created_ms[owner[first]])
    # The run ends with the state after it, or with the pod.
    to_ms = pods.gone_ms[owner[first]].copy()
    run = np.searchsorted(first, end) - 1
    falling = known & (flags & codes.POD_DELETING == 0)
    ended = np.where(falling, np.minimum(transition_ms, ms), ms)[end]
    to_ms[run] = np.minimum(to_ms[run], np.maximum(ended, from_ms[run]))
    lasting = to_ms > from_ms
    return owner[first][lasting], from_ms[lasting], to_ms[lasting]


def _matched(shard: Shard, h: int, runs: Runs) -> tuple[I64, I64]:
    """Return from and until when ready pods were matched by the scale's selector of the time."""
    obs = shard.observations
    lane = obs.lanes[h]
    owner, from_ms, to_ms = runs
    width = int(lane.selectors)
    if width < 2:
        return from_ms, to_ms
    scales = obs.scales[int(lane.first_scale) : int(lane.last_scale)]
    member = obs.member[int(lane.first_member) :][: width * int(lane.last_pod - lane.first_pod)]
    member = member.reshape(-1, width)
    changes = np.flatnonzero(np.diff(scales.selector, prepend=-1))
    begins = scales.ts_ms[changes].copy()
    begins[0] = -NEVER_MS  # the first scale is the best that is known of the time before it
    ends = np.append(begins[1:], NEVER_MS)
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for selector, begin, end in zip(scales.selector[changes], begins, ends, strict=True):
        theirs = member[owner, selector] != 0
        cut = np.maximum(from_ms[theirs], begin), np.minimum(to_ms[theirs], end)
        parts.append((cut[0][cut[0] < cut[1]], cut[1][cut[0] < cut[1]]))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _steps(from_ms: I64, to_ms: I64) -> tuple[I64, I64]:
    """Return from when on how many stretches hold."""
    ended = to_ms[to_ms < NEVER_MS]
    times = np.concatenate([from_ms, ended])
    change = np.concatenate([np.ones(from_ms.size, np.int64), -np.ones(ended.size, np.int64)])
    step_ms, place = np.unique(times, return_inverse=True)
    by_time = np.zeros(step_ms.size, np.int64)
    np.add.at(by_time, place, change)
    kept = by_time != 0
    return step_ms[kept], np.cumsum(by_time)[kept]


def read_limits(plan: ReplayPlan, shard: Shard) -> list[Limits]:
    """Return the limits of each lane's pods, by their last rows (HistoryError: a broken table)."""
    cluster = shard.candidates[0].cluster
    k = {id(c): k for k, c in enumerate(plan.chosen)}
    places = {p for c in shard.candidates for p in plan.places[k[id(c)]]}
    # A row whose target was not recorded may be any pod's of the namespace.
    owned = {(namespace, name) for namespace, owner in places for name in (owner or "", "")}
    asked = plan.history.select("pod_requests", cluster, owned, columns=list(LIMIT_COLUMNS))
    rows = asked.join(shard.numbers, on="uid").sort("p", "valid_from", maintain_order=True)
    rows = rows.unique(["p", "kind", "container"], keep="last", maintain_order=True)
    count = shard.numbers.height
    runs = rows.filter(pl.col("kind").is_in(_RUNS))

    def of(name: str, container: str) -> I64:
        """Return each pod's limit, -1 without one."""
        column = f"{name}_limit_milli"
        if container:
            parts = [runs.filter(container=container)]
        else:
            # Its own, else the sum of its containers' if each has one.
            known, value = pl.col(column).is_not_null(), pl.col(column)
            summed = runs.group_by("p").agg(pl.when(known.all()).then(value.sum()).alias(column))
            parts = [summed, rows.filter((pl.col("kind") == "pod") & known)]
        found = np.full(count, -1, np.int64)
        for part in parts:
            found[integers(part["p"])] = integers(part[column], -1)
        return found

    whole = {(name, ""): of(name, "") for name in ("cpu", "memory")}
    found: list[Limits] = []
    for h in range(len(shard.candidates)):
        pods = np.array(shard.pods[h], np.int64)
        containers = {key.container for key, _ in shard.streams[h] if key.container}
        named = {(name, c): of(name, c) for name, _ in whole for c in containers}
        found.append({key: limits[pods] for key, limits in (whole | named).items()})
    return found


SETTLE_MS: Final = 30_000
"""A pod serves like the others from this long after it became ready."""

FRESH_SHARE: Final = 0.75  # of the spacing: a sample older than the newest by more was lost


@dataclass(frozen=True, slots=True)
class Probes:
    """Some samples of a signal, shape (n,): spacing to the one before, window, lag, time; ms."""

    spacing_ms: I64
    window_ms: I64
    lag_ms: I64
    ts_ms: I64


@dataclass(frozen=True, slots=True)
class SignalUsage:
    """Samples of one metric, at the ticks that saw something new; shape (K,) each.

    `tick` are positions in `Usage.now_ms`. `counted` serving pods had a sample that was as new as
    the newest (at `newest_ms`; on average taken at `mean_ms`): their sum, least and most in milli;
    `starting` pods that were not yet ready had one, `starting_milli` their sum. `request_milli` is
    the sum of the requests of `requested` serving pods. Of an Object or External metric
    (`is_total`) `counted` are the series that showed, `sum_milli` their sum, the times are those of
    the tick; ticks at which none showed are left out. `pods` are TRACK_USAGE records beside
    `Usage.lives`, without any row for a total.
    """

    metric: MetricSpec
    is_total: bool
    tick: I64
    newest_ms: I64
    mean_ms: I64
    counted: I64
    sum_milli: I64
    least_milli: I64
    most_milli: I64
    starting: I64
    starting_milli: I64
    requested: I64
    request_milli: I64
    probes: Probes
    pods: Records


TICK_COLUMNS: Final = (
    "newest_ms", "mean_ms", "counted", "sum_milli", "least_milli", "most_milli",
    "starting", "starting_milli", "requested", "request_milli",
)  # fmt: skip
"""The fields of `SignalUsage` that have one value per tick that saw something new."""

POD_COUNTS: Final = ("ready", "serving", "starting", "deleting")


@dataclass(frozen=True, slots=True)
class Usage:
    """Observed usage of one HPA's workload; shape (T,) by tick.

    `replicas` is the recorded size that each tick read (-1: not recorded yet), `period` the
    position of the spec in force in `candidate.periods`. `ready` pods were Running, Ready and not
    being deleted, `serving` of these for at least SETTLE_MS; `starting` had started but were not
    that far; `deleting` were to be deleted. `signals` by `signal_name`.
    """

    candidate: Candidate
    now_ms: I64
    period: I64
    replicas: I64
    ready: I64
    serving: I64
    starting: I64
    deleting: I64
    signals: Mapping[str, SignalUsage]
    lives: Lives
    limits: Limits


def observed_usage(
    plan: ReplayPlan, settle_ms: int = SETTLE_MS, shards: Sequence[int] | None = None
) -> Iterator[Usage]:
    """Yield the observed usage of the HPAs of a plan, or of some of its shards, in their order.

    One shard is in memory. HPAs without any tick (see `ReplayPlan`) are left out. The result
    depends on the plan's parameters and the HPA alone, neither on shards nor on threads.

    Raises:
        HistoryError: a table is broken.
    """
    shards = range(len(plan.shards)) if shards is None else shards
    collected: Collected | None = None
    for step in ahead(shard_steps(plan, shards)):
        if not step.shard.candidates:
            continue
        if collected is None or collected.shard is not step.shard:
            collected = Collected(plan, step.shard, step.facts)
        collected.add(step, settle_ms)
        if step.last:
            yield from collected.usages(step.shard)
            collected = None


class Collected:
    """Usage of one shard, as far as it was read; a kernel writes `arrays`."""

    def __init__(self, plan: ReplayPlan, shard: Shard, facts: ShardFacts) -> None:
        """Begin with nothing observed."""
        self.plan = plan
        self.facts = facts
        self.shard = shard
        streams, arena = shard.observations.streams.size, shard.arena
        tracks = records_from(TRACK_USAGE, shard.observations.tracks.size, first_ms=-1, last_ms=-1)
        self.arrays = UsageArrays(
            ticks=arena.take("tick_usage", shard.fleet.ticks.size, TICK_USAGE),
            signals=arena.take("signal_usage", shard.fleet.answers.size, SIGNAL_USAGE),
            tracks=tracks,
            shown=np.zeros(streams, np.int64),
            newest_ms=np.full(streams, -1, np.int64),
            fresh_ms=np.zeros(streams, np.int64),
            probes=np.zeros((streams, PROBES, 4), np.int64),
            probed=np.zeros(streams, np.int64),
        )
        self.probes: list[list[I64]] = [[] for _ in range(streams)]

    def add(self, step: Step, settle_ms: int) -> None:
        """Take in a step's samples and look at its ticks."""
        shard = self.shard
        take_in(shard, step.load, step.done_ms - shard.max_age_ms)
        self.take_in(step.load.rows)
        observe_usage(shard.observations, shard.fleet, step.until_ms, settle_ms, self.arrays)
        if step.last:
            shard.fleet.lanes.last_tick = shard.observations.cursors[:, CURSOR_TICK]

    def take_in(self, rows: Rows) -> None:
        """Take in the rows of a load, for which there is room; note what they are like."""
        arrays = self.arrays
        take_in_usage(self.shard.observations, rows, self.shard.fleet, arrays)
        for g, count in enumerate(arrays.probed.tolist()):
            if count:
                self.probes[g].append(arrays.probes[g, :count].copy())
            arrays.fresh_ms[g] = self._fresh_ms(g)

    def _fresh_ms(self, g: int) -> int:
        """Return how much older than the newest a sample may be: by the first day's spacing."""
        if not self.probes[g]:
            return self.plan.settled.max_age_ms
        return max(int(FRESH_SHARE * int(np.median(self.probes[g][0][:, 0]))), 1)

    def usages(self, shard: Shard) -> Iterator[Usage]:
        """Yield the usage of each lane of the shard, or of its first lanes, as copies."""
        limits = read_limits(self.plan, shard)
        for h, candidate in enumerate(shard.candidates):
            yield self._usage(shard, h, candidate, limits[h])

    def _usage(self, shard: Shard, h: int, candidate: Candidate, limits: Limits) -> Usage:
        lane = shard.fleet.lanes[h]
        at = slice(int(lane.first_tick), int(lane.last_tick))
        ticks, seen = shard.fleet.ticks[at], self.arrays.ticks[at]
        now_ms = ticks.now_ms.copy()
        known = ticks.scale != codes.SCALE_UNKNOWN  # (of one that cannot be read: as before)
        g = int(lane.first_stream)
        signals: dict[str, SignalUsage] = {}
        for k, (_, metric) in enumerate(shard.streams[h]):
            # Equal subjects have one stream, so the first with a name is the only one.
            signals.setdefault(signal_name(metric), self._signal(g + k, metric, at.start))
        return Usage(
            candidate=candidate,
            now_ms=now_ms,
            period=candidate.spec_of(now_ms),
            replicas=np.where(known, ticks.replicas, -1).astype(np.int64),
            signals=signals,
            lives=lives_of_lane(shard, self.facts, h),
            limits=limits,
            **{name: seen[name].copy() for name in POD_COUNTS},
        )

    def _signal(self, g: int, metric: MetricSpec, first_tick: int) -> SignalUsage:
        shard = self.shard
        first = first_tick + int(shard.fleet.streams[g].answer_offset)
        rows = self.arrays.signals[first : first + int(self.arrays.shown[g])]
        stream = shard.observations.streams[g]
        tracks = slice(int(stream.first_track), int(stream.last_track))
        is_total = bool(stream.is_total)
        columns: dict[str, I64] = {name: rows[name].copy() for name in TICK_COLUMNS}
        probes = np.concatenate([np.zeros((0, 4), np.int64), *self.probes[g]])
        return SignalUsage(
            metric=metric,
            is_total=is_total,
            tick=rows.tick.copy(),
            probes=Probes(*(np.ascontiguousarray(probes[:, k]) for k in range(4))),
            pods=self.arrays.tracks[tracks][: 0 if is_total else None].copy(),
            **columns,
        )


SECOND_MS: Final = 1000
MINUTE_MS: Final = 60_000
GAP_SPACINGS: Final = 2.5
"""A stretch without samples is a gap from this many of the signal's own spacings on."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A regular grid of `count` cells of `resolution_ms` from `start_ms` on."""

    start_ms: int
    resolution_ms: int
    count: int

    def of(self, at_ms: F64) -> I64:
        """Return the cell of each instant, which may lie outside of the grid."""
        return np.floor((at_ms - self.start_ms) / self.resolution_ms).astype(np.int64)

    @property
    def starts_ms(self) -> I64:
        """When each cell begins, shape (count,)."""
        return self.start_ms + np.arange(self.count, dtype=np.int64) * self.resolution_ms

    @property
    def middles_ms(self) -> I64:
        """The middle of each cell, where the middle of its samples' windows lies."""
        return self.starts_ms + self.resolution_ms // 2

    def per(self, span_ms: int) -> int:
        """Return how many cells a span has, at least one."""
        return max(1, round(span_ms / self.resolution_ms))


@dataclass(frozen=True, slots=True)
class Series:
    """One signal by cell, shape (cells,); NaN where nothing was sampled.

    `usage` is the mean of the settled pods in milli, `most` the highest pod's, `ready` how many
    pods were ready over the samples' window (a mean). `still`: sampled, and no pod became ready or
    ceased to be in the window, nor SETTLE_MS before it. Of a total `usage` and `most` are its
    value.
    """

    usage: F64
    most: F64
    ready: F64
    still: Mask


def spacing_ms(signal: SignalUsage) -> int:
    """Return the median time between two samples of a pod or series, 0 if unknown."""
    spacing = signal.probes.spacing_ms
    return int_median(spacing) if spacing.size else 0


def window_ms(signal: SignalUsage) -> int:
    """Return the median window of the samples, 0 if unknown or of a total."""
    window = signal.probes.window_ms
    return int_median(window) if window.size else 0


def cells_of(usage: Usage) -> Cells | None:
    """Return the grid of a workload: its finest signal's spacing, no finer than the syncs.

    The grid lies so that samples' windows fall into the middle of the cells. None without samples.
    """
    seen = [s for s in usage.signals.values() if (s.counted > 0).any()]
    if not seen:
        return None
    sync_ms = int_median(np.diff(usage.now_ms)) if usage.now_ms.size > 1 else 0
    known = [ms for ms in map(spacing_ms, seen) if ms > 0]
    finest = max(min(known, default=sync_ms), sync_ms, SECOND_MS)
    resolution = round(finest / SECOND_MS) * SECOND_MS
    guide = min(seen, key=lambda s: spacing_ms(s) or resolution)
    angles = 2 * np.pi / resolution * (_middles(guide) % resolution)
    middle = np.arctan2(np.sin(angles).mean(), np.cos(angles).mean()) / (2 * np.pi) * resolution
    phase = int(np.floor(middle - resolution / 2 + 0.5)) % resolution
    ends = [(m.min(), m.max()) for m in map(_middles, seen)]
    first = (min(e[0] for e in ends) - phase) // resolution
    last = (max(e[1] for e in ends) - phase) // resolution
    return Cells(int(first) * resolution + phase, resolution, int(last - first) + 1)


def _middles(signal: SignalUsage) -> F64:
    """Return the middle of what the samples of each row that has any are means over, ms."""
    return np.asarray(signal.mean_ms[signal.counted > 0] - window_ms(signal) / 2, np.float64)


def series_of(usage: Usage, signal: SignalUsage, cells: Cells) -> Series:
    """Return a signal on a grid; several rows of a cell count with their numbers of samples."""
    kept = np.flatnonzero(signal.counted > 0)
    window = window_ms(signal)
    counted, total = signal.counted[kept], signal.sum_milli[kept].astype(np.float64)
    mean_ms, newest_ms = signal.mean_ms[kept], signal.newest_ms[kept]
    lives = usage.lives
    from_ms = mean_ms - window
    if window:
        ready = (lives.ready_ms_until(mean_ms) - lives.ready_ms_until(from_ms)) / window
    else:
        ready = lives.ready_at(mean_ms).astype(np.float64)
    earliest = from_ms - (newest_ms - mean_ms) - SETTLE_MS
    # A change that was told by a table's row lies just after its sample.
    moving = lives.changes_between(earliest + AFTER_MS, newest_ms + AFTER_MS) > 0
    place = cells.of(_middles(signal))
    weight = np.bincount(place, weights=counted, minlength=cells.count)

    def averaged(values: F64) -> F64:
        found = np.full(cells.count, np.nan)
        summed = np.bincount(place, weights=values, minlength=cells.count)
        np.divide(summed, weight, out=found, where=weight > 0)
        return found

    most = np.full(cells.count, -np.inf)
    np.maximum.at(most, place, signal.most_milli[kept].astype(np.float64))
    moves = np.bincount(place, weights=moving, minlength=cells.count) > 0
    value = total * counted if signal.is_total else total
    return Series(
        usage=averaged(value),
        most=np.where(weight > 0, most, np.nan),
        ready=averaged(ready * counted),
        still=(weight > 0) & ~moves,
    )


def gaps_of(series: Series, signal: SignalUsage, cells: Cells) -> tuple[tuple[int, int], ...]:
    """Return when no sample was taken for long: (from, to) in ms, in order of time.

    In the time of samples, which are taken at the end of their window, not that of the work.
    """
    first, end = runs_of(np.isnan(series.usage))
    # A gap of n lost samples shows n empty cells: the spacing before it is not part of it.
    longest = (GAP_SPACINGS - 1) * max(spacing_ms(signal), cells.resolution_ms)
    long = (end - first) * cells.resolution_ms >= longest
    later = cells.start_ms + window_ms(signal) // 2
    return tuple(
        (later + int(a) * cells.resolution_ms, later + int(b) * cells.resolution_ms)
        for a, b in zip(first[long], end[long], strict=True)
    )


def filled(values: F64) -> F64:
    """Return values with what is missing interpolated linearly, the ends held; all NaN: zeros."""
    known = np.flatnonzero(~np.isnan(values))
    if not known.size:
        return np.zeros(values.size)
    return np.interp(np.arange(values.size), known, values[known])


def minute_means(values: F64, cells: Cells) -> F64:
    """Return means over minutes (over cells where these are longer), NaN without any value."""
    per = cells.per(MINUTE_MS)
    padded = np.concatenate([values, np.full(-values.size % per, np.nan)]).reshape(-1, per)
    count = (~np.isnan(padded)).sum(axis=1)
    found = np.full(count.size, np.nan)
    np.divide(np.nansum(padded, axis=1), count, out=found, where=count > 0)
    return found
