"""Running a shard: its samples are read in runs of days and its ticks decided.

Reading goes one step ahead of deciding, in a thread of its own: a step is a run of days of a shard,
and after a shard's last day comes the next shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from itertools import cycle
from typing import TypeVar

import numpy as np

from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.sources import Load
from hpabatch.engine.shards.initial import Seed, apply_seeds
from hpabatch.engine.shards.pack import pack_shard
from hpabatch.engine.shards.read import DAY_MS, SampleReader, ShardFacts, read_shard
from hpabatch.engine.shards.shard import Shard
from hpabatch.kernels.align import replay_observations
from hpabatch.kernels.status import status_fleet
from hpabatch.kernels.steps import count_kept, save_kept
from hpabatch.layout.observations import CURSOR_TICK, STEP
from hpabatch.packing.arena import Arena

T = TypeVar("T")

_EPOCH = date(1970, 1, 1)
STEPS_AHEAD = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a shard: samples, and the ticks from `done_ms` until before `until_ms`.

    `last`: the shard is decided with it.
    """

    shard: Shard
    facts: ShardFacts
    load: Load
    done_ms: int
    until_ms: int
    last: bool


def shard_steps(
    plan: ReplayPlan, shards: Sequence[int], rows_per_block: int | None = None
) -> Iterator[Step]:
    """Yield the steps of some shards of a plan, in order, reading as it goes.

    A step's arrays are good while the next STEPS_AHEAD steps are read, a shard's until the next
    shard is run. A shard without any lane has one step.

    Raises:
        HistoryError: a table is broken.
    """
    # Preparing a shard only names its large arrays; they are written once it is run, which is after
    # the one before has become a frame. So one arena does for all of them.
    arena, columns = Arena(), sample_arenas()
    for k in shards:
        first, last = plan.shards[k]
        candidates, places = plan.chosen[first:last], plan.places[first:last]
        given = read_shard(plan, candidates, places)
        shard, facts = pack_shard(given, arena, rows_per_block), given.facts
        reader = SampleReader(plan, candidates[0].cluster, places, shard)
        yield from sample_steps(plan, shard, facts, reader, columns)


def sample_arenas() -> Iterator[Arena]:
    """Return the arenas of loads, by turns: a load's is good while STEPS_AHEAD more are read."""
    return cycle([Arena() for _ in range(STEPS_AHEAD + 1)])


def sample_steps(
    plan: ReplayPlan,
    shard: Shard,
    facts: ShardFacts,
    reader: SampleReader,
    columns: Iterator[Arena],
) -> Iterator[Step]:
    """Yield the steps of one packed shard, in order, reading as it goes (errors as above)."""
    # A fetch may come before the sample's own time, by a clock that is wrong, or a lens may show
    # it earlier: then a day's ticks wait for the next day's samples.
    wait_ms = max(DAY_MS if reader.cluster in plan.fetched else 0, reader.view.lead_ms)
    done_ms = -NEVER_MS
    for run in reader.runs if shard.candidates else ():
        load = reader.load(run, next(columns))
        for uid, rows in load.strays.items():
            facts.strays[uid] = facts.strays.get(uid, 0) + rows
        until_ms = (run[-1] - _EPOCH).days * DAY_MS + DAY_MS - wait_ms
        yield Step(shard, facts, load, done_ms, until_ms, last=False)
        done_ms = until_ms
    yield Step(shard, facts, reader.nothing(), done_ms, NEVER_MS, last=True)


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items, the next one being made in a thread while one is used."""
    with ThreadPoolExecutor(STEPS_AHEAD, "read") as pool:
        coming: Future[T | None] = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


After = Callable[[Shard], None]
"""Called with the shard after each call of the kernel, for the ticks that it decided."""

Decide = Callable[..., None]
"""A kernel with the arguments of `replay_observations`."""


def run_step(
    plan: ReplayPlan,
    step: Step,
    after: After | None = None,
    stops: Sequence[int] = (),
    decide: Decide | None = None,
) -> None:
    """Take in a step's samples and decide its ticks, under the flags of their time.

    At each of `stops` (ms) the kernel is left and `after` called, as at the step's end. `decide`
    None: a replay.
    """
    decide = decide or replay_observations
    shard, done_ms = step.shard, step.done_ms
    if not shard.candidates:
        return
    take_in(shard, step.load, done_ms - shard.max_age_ms)
    recorded = plan.settled.events == "recorded"
    later = [seed for seed in shard.seeds if not seed.first]
    cuts = {e.from_ms for e in shard.epochs[1:]} | {seed.at_ms for seed in later} | set(stops)
    boundaries = sorted(ms for ms in cuts if done_ms < ms < step.until_ms)
    if done_ms == -NEVER_MS:
        _seed(shard, [seed for seed in shard.seeds if seed.first])
    extend = True
    for end_ms in [*boundaries, step.until_ms]:
        _set_flags(shard, done_ms)
        _seed(shard, [seed for seed in later if seed.at_ms == done_ms])
        decide(
            shard.observations,
            step.load.rows,
            shard.fleet,
            shard.memory,
            extend,
            end_ms,
            recorded,
            shard.results,
        )
        extend, done_ms = False, end_ms
        if shard.statuses.size:
            decided = np.ascontiguousarray(shard.observations.cursors[:, CURSOR_TICK])
            status_fleet(shard.fleet, shard.results, shard.status_memory, decided, shard.statuses)
        if after is not None:
            after(shard)
    if step.last:
        decided = shard.observations.cursors[:, CURSOR_TICK]
        shard.fleet.lanes.last_tick[: decided.size] = decided


def _seed(shard: Shard, seeds: Sequence[Seed]) -> None:
    status_memory = shard.status_memory if shard.statuses.size else None
    apply_seeds(seeds, shard.memory, status_memory, shard.status_before)


def _set_flags(shard: Shard, from_ms: int) -> None:
    if len(shard.epochs) < 2:
        return
    epoch = [e for k, e in enumerate(shard.epochs) if k == 0 or e.from_ms <= from_ms][-1]
    shard.fleet.specs[:] = epoch.specs
    shard.fleet.lanes[:] = epoch.lanes


def take_in(shard: Shard, load: Load, since_ms: int) -> None:
    """Make a load's rows and room for their steps known to the tracks; count what streams got.

    Of the load before, steps of samples from before `since_ms` are forgotten: every tick from now
    on finds them too old.
    """
    observations = shard.observations
    tracks = observations.tracks
    kept = shard.arena.take("kept", count_kept(observations, since_ms), STEP)
    save_kept(observations, since_ms, kept)
    rows = load.last_row - load.first_row
    ends = np.cumsum(tracks.old_last - tracks.old_first + rows)
    tracks.first_step[1:], tracks.first_step[:1] = ends[:-1], 0
    tracks.last_step = tracks.first_step
    tracks.first_row, tracks.last_row = load.first_row, load.last_row
    total = np.concatenate([[0], np.cumsum(rows)])
    streams = observations.streams
    observations.seen[:, 1] += total[streams.last_track] - total[streams.first_track]
    steps = shard.arena.take("steps", int(ends[-1]) if ends.size else 0, STEP)
    shard.observations = observations._replace(old_steps=kept, steps=steps)
