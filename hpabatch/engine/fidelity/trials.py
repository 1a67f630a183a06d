"""Trials: an HPA's recording replayed under its stated settings and under deviations from them.

Each setting is replayed twice, all of them in one walk over an HPA's samples. The *plain* replay
sees the recorded sizes, as any replay does. The *held* one sees an episode of the recording as if
it had not happened yet: from its first change until W after the last one, size and pods stay as
they were. It takes only the time around episodes; those too near to each other are held in replays
of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.fidelity.deviations import LONGEST, Deviation
from hpabatch.engine.fidelity.episodes import (
    SAMPLED_SHARE,
    Episodes,
    Window,
    episodes_of,
    passes_of,
    window_of,
)
from hpabatch.engine.fit.stats import int_median
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.membership import Place
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.sources import Load
from hpabatch.engine.shards.pack import pack_shard
from hpabatch.engine.shards.read import SampleReader, ShardInput
from hpabatch.engine.shards.shard import Shard
from hpabatch.layout.records import I32, I64
from hpabatch.packing.arena import Arena

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
    samples = _Samples(given, shard, reader, [own[id(c)] for c in shard.candidates])
    found = []
    for h, candidate in enumerate(shard.candidates):
        source = shard.observations.lanes[h]
        clock_ms = shard.observations.clock_ms[source.first_clock : source.last_clock]
        now_ms = clock_ms[candidate.spec_of(clock_ms) >= 0]
        period_ms = int_median(np.diff(now_ms)) if now_ms.size > 1 else 0
        spacing_ms = samples.spacing_ms(h)
        window = window_of(period_ms, spacing_ms, given.delay_ms, samples.unseen_ms(h))
        scale = given.scales[candidate.target]
        episodes = _with_ticks(
            episodes_of(scale, window, int(now_ms[0]), int(now_ms[-1])), window, now_ms
        )
        warm_ms = _warm_ms(shard, h, period_ms)
        passes = passes_of(episodes, window, warm_ms, MOST_PASSES)
        theirs = own[id(candidate)]
        down_ms = _down_window_ms(shard, h)
        found.append(
            Recording(candidate, theirs, now_ms, window, warm_ms, down_ms, episodes, passes)
        )
    return found


def _with_ticks(episodes: Episodes, window: Window, now_ms: I64) -> Episodes:
    """Return the episodes around which there is a tick: at others nobody could decide."""
    first = np.searchsorted(now_ms, episodes.first_ms - window.early_ms)
    last = np.searchsorted(now_ms, episodes.last_ms + window.late_ms)
    return episodes.some(np.flatnonzero(last > first))


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


class _Samples:
    """The samples of some days of a shard: how far apart they are, and when pods had their last."""

    def __init__(
        self,
        given: ShardInput,
        shard: Shard,
        reader: SampleReader,
        places: Sequence[Sequence[Place]],
    ) -> None:
        self.given, self.shard = given, shard
        chosen = [self._days(reader, h, theirs) for h, theirs in enumerate(places)]
        self.times: list[list[tuple[int, int, I64]]] = [[] for _ in chosen]
        """Of each lane: stream, track and times of the samples of each track that has some."""
        self._spacing_ms: dict[int, int] = {}
        for day in sorted(set().union(*chosen)):
            load = reader.load((day, day), Arena())
            for h, days in enumerate(chosen):
                if day in days:
                    self.times[h] += self._times(load, h)

    def _days(self, reader: SampleReader, h: int, places: Sequence[Place]) -> list[date]:
        """Return some days of a lane's own, so that its shard does not matter."""
        source = self.shard.observations.lanes[h]
        clock_ms = self.shard.observations.clock_ms[source.first_clock : source.last_clock]
        first, last = (_EPOCH + timedelta(milliseconds=int(clock_ms[k])) for k in (0, -1))
        tables = ("pod_metrics", "pod_custom_metrics")
        known = [reader.plan.days_of(t, reader.cluster).get(p, {}) for t in tables for p in places]
        days = sorted(day for day in set().union(*known) if first <= day <= last)
        if not days:  # totals only
            days = [first + timedelta(days=k) for k in range((last - first).days + 1)]
        return [days[k] for k in sorted({*np.linspace(0, len(days) - 1, DAYS_MEASURED, dtype=int)})]

    def _times(self, load: Load, h: int) -> Iterator[tuple[int, int, I64]]:
        lane, streams = self.shard.fleet.lanes[h], self.shard.observations.streams
        for g in range(int(lane.first_stream), int(lane.last_stream)):
            tracks = slice(int(streams.first_track[g]), int(streams.last_track[g]))
            first, last = load.first_row[tracks], load.last_row[tracks]
            for k in np.flatnonzero(last > first).tolist():
                track = tracks.start + k
                usage = self.shard.tracks.pods[track] >= 0
                column = load.rows.usage_ts_ms if usage else load.rows.plain_ts_ms
                yield g, track, column[first[k] : last[k]].copy()

    def spacing_ms(self, h: int) -> int:
        """Return the largest median spacing of a lane's streams."""
        if h not in self._spacing_ms:
            self._spacing_ms[h] = self._spacing_of(h)
        return self._spacing_ms[h]

    def _spacing_of(self, h: int) -> int:
        steps: dict[int, list[I64]] = {}
        for g, _, ts_ms in self.times[h]:
            step = np.diff(ts_ms)
            steps.setdefault(g, []).append(step[step > 0])
        joined = [np.concatenate(parts) for parts in steps.values()]
        return max((int_median(part) for part in joined if part.size), default=0)

    def unseen_ms(self, h: int) -> int | None:
        """Return how long after its last sample a pod is gone; None: lives are not of samples."""
        pods, numbers = self.given.pods, np.array(self.shard.pods[h], np.int64)
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
        source, found = self.shard.observations.lanes[h], list[int]()
        longest_ms = max(_LONGEST_UNSEEN * self.spacing_ms(h), _LEAST_UNSEEN_MS)
        streams = self.shard.observations.streams
        for g, k, ts_ms in self.times[h]:
            if streams.is_total[g]:
                continue
            pod = self.shard.observations.pods[source.first_pod + k - streams.first_track[g]]
            unseen = int(pod.gone_ms - ts_ms[-1])
            if 0 <= unseen <= longest_ms:
                found.append(unseen)
        return int(np.median(found)) if found else 0
