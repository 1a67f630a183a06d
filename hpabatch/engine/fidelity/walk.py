"""One walk over a shard's samples: its decisions, its trials and its usage.

The lanes of a shard are those of its HPAs, as in a replay, and behind them the held ones: an HPA's
replay as if the episodes of one pass had not happened yet. All are decided under all settings of
their HPA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch import _jit
from hpabatch.engine.fidelity.trials import (
    LONGEST,
    STATED,
    Deviation,
    Episodes,
    Recording,
    Sizes,
    Trial,
    Window,
    add_settings,
    deviations_of,
    recordings_of,
)
from hpabatch.engine.fit.usage import SETTLE_MS, Collected, Usage
from hpabatch.engine.fleet.candidates import candidate_frame
from hpabatch.engine.fleet.membership import Place
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.decisions import scored_frame, sizes_of
from hpabatch.engine.replay.run import note_outcome
from hpabatch.engine.shards.pack import pack_shard
from hpabatch.engine.shards.read import SampleReader, ShardFacts, ShardInput, read_shard
from hpabatch.engine.shards.run import ahead, run_step, sample_arenas, sample_steps
from hpabatch.engine.shards.shard import Shard
from hpabatch.kernels.trials import UNDECIDED, TrialSizes, walk_observations
from hpabatch.layout import codes
from hpabatch.layout.observations import Observations, Rows
from hpabatch.layout.records import I64, Fleet, Memory, records_from
from hpabatch.layout.results import KEPT_STATISTICS, Results
from hpabatch.packing.arena import Arena

TICKS_AT_ONCE: Final = 500_000
"""About as many ticks are walked together: some 300 bytes each, and 8 for each setting."""


class Walk(NamedTuple):
    """Results of one walk over the samples of a shard.

    `facts`, `decisions` and `hpas` are those of a replay, with the columns that a score reads;
    `usages` are those of `engine.fit.usage.observed_usage`; `trials` belong to `recordings`: the
    stated settings first, then the deviations.
    """

    facts: ShardFacts
    decisions: pl.DataFrame
    hpas: pl.DataFrame
    usages: Sequence[Usage]
    recordings: Sequence[Recording]
    trials: Sequence[Sequence[Trial]]


class _Prepared(NamedTuple):
    given: ShardInput
    places: Sequence[Sequence[Place]]
    recordings: Sequence[Recording]


def walk_shards(plan: ReplayPlan) -> Iterator[Walk]:
    """Yield the walk of every shard of a plan, in order; the next one is prepared meanwhile.

    Raises:
        HistoryError: a table is broken.
    """
    arena, columns = Arena(), sample_arenas()
    for prepared in ahead(_prepared(plan)):
        yield _Walking(plan, prepared, arena, columns).walk()


def stated_trials(
    plan: ReplayPlan, given: ShardInput, recordings: Sequence[Recording]
) -> list[Trial]:
    """Return for each recording the trial of its stated settings, at its own instants.

    `given` may be read for another plan than that of the samples.
    """
    prepared = _Prepared(given, [recording.places for recording in recordings], recordings)
    return _Walking(plan, prepared, Arena(), sample_arenas()).stated()


def _prepared(plan: ReplayPlan) -> Iterator[_Prepared]:
    for first, last in plan.shards:
        places = plan.places[first:last]
        given = read_shard(plan, plan.chosen[first:last], places)
        yield _Prepared(given, places, recordings_of(plan, given, places))


class _Lane(NamedTuple):
    """One replay of an HPA (by position) under all its settings.

    `held` is its pass, -1 for the plain replay; `only` the instants that are decided, None: all.
    """

    hpa: int
    held: int
    ticks: int
    only: I64 | None = None


class _Walking:
    def __init__(
        self, plan: ReplayPlan, prepared: _Prepared, arena: Arena, columns: Iterator[Arena]
    ) -> None:
        self.plan, self.arena, self.columns = plan, arena, columns
        self.given, self.places, self.recordings = prepared
        self.settings: list[tuple[Deviation, ...]] = [
            (STATED, *deviations_of(recording.candidate)) for recording in self.recordings
        ]

    def walk(self) -> Walk:
        """Return everything; held lanes for which there is no room have walks of their own."""
        plain = [_Lane(k, -1, r.now_ms.size) for k, r in enumerate(self.recordings)]
        held = [lane for k, r in enumerate(self.recordings) for lane in _held_lanes(k, r)]
        first, *others = _chunks(plain, held)
        shard, sizes = self._packed(first)
        collected = Collected(self.plan, shard, self.given.facts)
        self._run(shard, collected, sizes, len(plain), self.given.facts)
        own = _first_lanes(shard, len(plain), self.given)
        note_outcome(self.plan, own, self.given.facts)
        decisions = scored_frame(own, sizes_of(own))
        hpas = candidate_frame(own.candidates).drop("labels")
        usages = list(collected.usages(own)) if plain else []
        found = _sizes(shard, sizes, first, self.settings)
        for lanes in others:
            found |= self._decided(lanes)
        facts, trials = self.given.facts, self._trials(found)
        return Walk(facts, decisions, hpas, usages, self.recordings, trials)

    def stated(self) -> list[Trial]:
        """Return the trials of the stated settings alone, over the recordings' own instants."""
        self.settings = [(STATED,) for _ in self.recordings]
        plain = [_Lane(k, -1, r.now_ms.size, r.now_ms) for k, r in enumerate(self.recordings)]
        held = [lane for k, r in enumerate(self.recordings) for lane in _held_lanes(k, r)]
        found: dict[tuple[int, int], list[Sizes]] = {}
        for lanes in _chunks(plain, held) if plain else ():
            found |= self._decided(lanes)
        return [trials[0] for trials in self._trials(found)]

    def _decided(self, lanes: Sequence[_Lane]) -> dict[tuple[int, int], list[Sizes]]:
        """Walk some lanes whose usage nobody asks for."""
        shard, sizes = self._packed(lanes)
        facts = ShardFacts(self.given.facts.cluster)
        self._run(shard, Collected(self.plan, shard, facts), sizes, 0, facts)
        return _sizes(shard, sizes, lanes, self.settings)

    def _packed(self, lanes: Sequence[_Lane]) -> tuple[Shard, TrialSizes]:
        """Return the shard of some lanes with their settings, and room for its sizes."""
        given = replace(
            self.given,
            candidates=[self.recordings[lane.hpa].candidate for lane in lanes],
            facts=ShardFacts(self.given.facts.cluster),
            whole=False,
        )
        only = [lane.only for lane in lanes]
        shard = pack_shard(given, self.arena, None, only, LONGEST)
        ends = _Ends(given)
        for h, lane in enumerate(lanes):
            if lane.held >= 0:
                recording = self.recordings[lane.hpa]
                some = recording.episodes.some(recording.passes[lane.held])
                ends.hold(shard, h, some, recording.window)
        own = [self.settings[lane.hpa] for lane in lanes]
        add_settings(shard, own)
        count, ticks = max(map(len, own), default=0), shard.fleet.ticks.size
        seen = self.arena.take("seen", ticks, np.int32)
        wished = self.arena.take("wished", count * ticks, np.int32).reshape(count, ticks)
        settings = np.array([len(theirs) for theirs in own], np.int64)
        kept = records_from(KEPT_STATISTICS, shard.fleet.streams.size, tick=-1)
        shard.results = shard.results._replace(statistics=kept)
        work = [lane.ticks * len(theirs) for lane, theirs in zip(lanes, own, strict=True)]
        return shard, TrialSizes(settings, _dealt(work), np.zeros(1, np.int64), seen, wished)

    def _run(
        self,
        shard: Shard,
        collected: Collected,
        sizes: TrialSizes,
        observed: int,
        facts: ShardFacts,
    ) -> None:
        """Walk all samples of a shard; usage is observed of its first `observed` lanes."""
        sizes.observed[0] = observed
        reader = SampleReader(self.plan, self.given.facts.cluster, self.places, shard)
        decide = partial(_decide, collected, sizes)
        for step in ahead(sample_steps(self.plan, shard, facts, reader, self.columns)):
            run_step(self.plan, step, decide=decide)

    def _trials(self, found: dict[tuple[int, int], list[Sizes]]) -> list[list[Trial]]:
        return [
            [
                Trial(
                    deviation,
                    found[k, -1][v],
                    [found[k, held][v] for held in range(len(recording.passes))],
                )
                for v, deviation in enumerate(self.settings[k])
            ]
            for k, recording in enumerate(self.recordings)
        ]


def _decide(
    collected: Collected,
    sizes: TrialSizes,
    obs: Observations,
    rows: Rows,
    fleet: Fleet,
    memory: Memory,
    extend: bool,
    until_ms: int,
    recorded: bool,
    results: Results,
) -> None:
    if extend:
        collected.take_in(rows)
    walk_observations(
        obs, fleet, memory, until_ms, recorded, results, sizes, SETTLE_MS, collected.arrays
    )


def _held_lanes(k: int, recording: Recording) -> Iterator[_Lane]:
    """Yield the held replays of an HPA; each takes the time around its episodes."""
    episodes, window, now_ms = recording.episodes, recording.window, recording.now_ms
    for held, chosen in enumerate(recording.passes):
        some = episodes.some(chosen)
        begin_ms = some.first_ms - window.early_ms - recording.warm_ms
        first = np.searchsorted(now_ms, begin_ms)
        last = np.searchsorted(now_ms, some.last_ms + window.late_ms)
        step = np.zeros(now_ms.size + 1, np.int64)
        np.add.at(step, first, 1)
        np.add.at(step, last, -1)
        only = now_ms[np.cumsum(step[:-1]) > 0]
        yield _Lane(k, held, only.size, only)


def _chunks(plain: Sequence[_Lane], held: Sequence[_Lane]) -> list[list[_Lane]]:
    """Return which lanes are walked together: first all plain ones."""
    chunks, ticks = [list(plain)], sum(lane.ticks for lane in plain)
    for lane in held:
        if ticks + lane.ticks > TICKS_AT_ONCE:
            chunks.append([])
            ticks = 0
        chunks[-1].append(lane)
        ticks += lane.ticks
    return chunks


def _dealt(work: Sequence[int]) -> I64:
    """Return lanes in an order of which the parts that threads take are about equal work.

    Plain lanes stand first, and a plain one is as much work as many held ones: in their own order
    one thread had nearly all of it.
    """
    most = np.argsort(-np.array(work, np.int64), kind="stable")
    parts = _jit.THREADS * _jit.PARTS_PER_THREAD
    return np.concatenate([most[k::parts] for k in range(parts)]).astype(np.int64)


def _first_lanes(shard: Shard, count: int, given: ShardInput) -> Shard:
    """Return the shard of its first lanes under their first setting alone; arrays are shared."""
    if not count:
        return replace(shard, asked=given.candidates)
    fleet, source = shard.fleet, shard.observations.lanes[count - 1]
    ticks = int(fleet.lanes.first_tick[count - 1] + source.last_clock - source.first_clock)
    specs = fleet.specs[: sum(len(c.periods) for c in shard.candidates[:count])]
    return replace(
        shard,
        asked=given.candidates,
        candidates=shard.candidates[:count],
        streams=shard.streams[:count],
        pods=shard.pods[:count],
        fleet=fleet._replace(
            lanes=fleet.lanes[:count],
            specs=specs,
            metrics=fleet.metrics[: int(specs.last_metric[-1])],
            ticks=fleet.ticks[:ticks],
        ),
        results=shard.results._replace(decisions=shard.results.decisions[:ticks]),
    )


class _Ends:
    """The ends of pods, and holds that put them off."""

    def __init__(self, given: ShardInput) -> None:
        pods = given.pods
        deleting = (pods.states.pod_flags & codes.POD_DELETING) != 0
        counts = np.concatenate([[0], np.cumsum(~deleting)])
        self.alive = counts[pods.state_first[1:]] - counts[pods.state_first[:-1]]
        """How many states of a pod are from before it is to be deleted: those come first."""
        first = np.minimum(pods.state_first[:-1] + self.alive, max(pods.state_ms.size - 1, 0))
        ended = self.alive < np.diff(pods.state_first)
        self.ended_ms = np.where(ended, pods.state_ms[first], pods.gone_ms)

    def hold(self, shard: Shard, h: int, episodes: Episodes, window: Window) -> None:
        """Let a lane see size and pods as before each episode until W after it.

        A pod that came meanwhile is created when the hold ends, one that went is there until then.
        """
        fleet, obs, source = shard.fleet, shard.observations, shard.observations.lanes[h]
        to_ms = episodes.last_ms + window.late_ms
        scales = obs.scales[source.first_scale : source.last_scale]
        scales.ts_ms = _put_off(scales.ts_ms, episodes.first_ms, to_ms)
        lane = fleet.lanes[h]
        changes = fleet.changes[lane.first_change : lane.last_change]
        changes.ts_ms = _put_off(changes.ts_ms, episodes.first_ms, to_ms)
        pods = obs.pods[source.first_pod : source.last_pod]
        from_ms, numbers = episodes.first_ms - window.size_ms, np.array(shard.pods[h], np.int64)
        if not numbers.size:
            return
        pods.created_ms = _put_off(pods.created_ms, from_ms, to_ms)
        ended_ms = np.minimum(self.ended_ms[numbers], pods.gone_ms)
        until_ms = _put_off(ended_ms, from_ms, to_ms)
        kept = (until_ms != ended_ms) & (self.alive[numbers] > 0)
        pods.gone_ms = np.where(kept, until_ms, pods.gone_ms)
        pods.last_state = np.where(kept, pods.first_state + self.alive[numbers], pods.last_state)


def _put_off(ts_ms: I64, from_ms: I64, to_ms: I64) -> I64:
    """Return times, those within an interval as its end."""
    if not from_ms.size:
        return ts_ms
    at = np.searchsorted(from_ms, ts_ms, side="right") - 1
    inside = (at >= 0) & (ts_ms < to_ms[np.maximum(at, 0)])
    return np.where(inside, to_ms[np.maximum(at, 0)], ts_ms)


def _sizes(
    shard: Shard,
    sizes: TrialSizes,
    lanes: Sequence[_Lane],
    settings: Sequence[Sequence[Deviation]],
) -> dict[tuple[int, int], list[Sizes]]:
    """Return by HPA and pass the sizes under each of its settings; equal ticks are one array."""
    known: dict[tuple[int, int], list[Sizes]] = {}
    for lane, packed in zip(lanes, shard.fleet.lanes, strict=False):
        at = slice(int(packed.first_tick), int(packed.last_tick))
        now_ms, seen = shard.fleet.ticks.now_ms[at].astype(np.int64), sizes.seen[at].copy()
        before, ticks = np.ones(now_ms.size, np.bool_), Sizes(now_ms, seen, seen)
        found = known.setdefault((lane.hpa, lane.held), [])
        for row in sizes.wished[: len(settings[lane.hpa]), at]:
            decided = row != UNDECIDED
            if not np.array_equal(decided, before):
                ticks = Sizes(now_ms[decided], seen[decided], seen)
            found.append(ticks._replace(wished=row[decided]))
            before = decided
    return known
