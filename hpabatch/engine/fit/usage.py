"""Observed usage of each HPA's workload over time: what its pods used and how many served.

One pass over the samples, shard by shard and a run of days at a time as in a replay, without
decisions. The result is small: a few numbers per tick and metric, and the lives of the pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hpabatch.engine.fit.usage_pods import Limits, Lives, lives_of_lane, read_limits
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.shards.read import ShardFacts
from hpabatch.engine.shards.run import Step, ahead, shard_steps, take_in
from hpabatch.engine.shards.shard import Shard
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


SIGNAL_COLUMNS: Final = (
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
        spacing = int(np.median(self.probes[g][0][:, 0]))
        return max(int(FRESH_SHARE * spacing), 1)

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
        columns: dict[str, I64] = {name: rows[name].copy() for name in SIGNAL_COLUMNS}
        return SignalUsage(
            metric=metric,
            is_total=is_total,
            tick=rows.tick.copy(),
            probes=_probes(self.probes[g]),
            pods=self.arrays.tracks[tracks][: 0 if is_total else None].copy(),
            **columns,
        )


def _probes(parts: Sequence[I64]) -> Probes:
    rows = np.concatenate([np.zeros((0, 4), np.int64), *parts])
    return Probes(*(np.ascontiguousarray(rows[:, k]) for k in range(4)))
