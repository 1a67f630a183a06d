"""Preparing a shard and running it: read its tables, then decide day by day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import polars as pl

from hpabatch.arrays.arena import Arena
from hpabatch.arrays.layout import I64, Records, canonical, records_from
from hpabatch.arrays.observations import CURSOR_TICK, FETCH, STEP
from hpabatch.engine.ambiguity import Pair, ambiguous_instants
from hpabatch.engine.candidates import Candidate
from hpabatch.engine.clocks import HpaKey
from hpabatch.engine.frames import NEVER_MS, integers, milliseconds
from hpabatch.engine.lanes import ShardBuilder
from hpabatch.engine.membership import Place, ScaleKey
from hpabatch.engine.plan import ReplayPlan
from hpabatch.engine.pod_columns import PodColumns, pod_columns
from hpabatch.engine.shard import ScaleColumns, Shard, ShardInput, scale_columns
from hpabatch.engine.sources import Load, TrackList, load_rows
from hpabatch.history.schema import empty_frame
from hpabatch.kernels.align import replay_observations
from hpabatch.kernels.steps import count_kept, save_kept
from hpabatch.model import codes

DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1)
_ANSWERS = {
    "ok": codes.METRIC_OK,
    "empty": codes.METRIC_ANSWER_EMPTY,
    "error": codes.METRIC_FETCH_FAILED,
}


@dataclass(slots=True)
class ShardFacts:
    """What was noticed in a shard: counts of rows, pairs of rivals, HPAs with generated pods."""

    strays: int = 0
    repeated: int = 0
    pairs: list[Pair] = field(default_factory=list)
    generated: list[HpaKey] = field(default_factory=list)


def prepare_shard(
    plan: ReplayPlan,
    candidates: Sequence[Candidate],
    places: Sequence[Sequence[Place]],
    arena: Arena,
    rows_per_block: int | None = None,
) -> tuple[Shard, ShardFacts]:
    """Read everything but the samples of some HPAs of one cluster; return their arrays.

    `rows_per_block` (tick, pod) rows of an HPA are filled at a time; 0: all of a load together.
    """
    cluster = candidates[0].cluster
    wanted = sorted({p for part in places for p in part}, key=lambda p: (p[0], p[1] or ""))
    facts = ShardFacts()
    pods = _read_pods(plan, cluster, wanted, facts)
    rivals = _rivals_of(plan, candidates)
    scales = _read_scales(plan, cluster, [*candidates, *(r for part in rivals for r in part)])
    ambiguous: dict[HpaKey, I64] = {}
    starts_ms = canonical(plan.starts_ms.get(cluster, np.zeros(0, np.int64)))
    chosen = {(c.cluster, c.namespace, c.name) for c in candidates}
    for group in rivals:
        found, pairs = ambiguous_instants(
            group, sorted(chosen), plan.clocks, pods, scales, starts_ms
        )
        ambiguous |= found
        facts.pairs += pairs
    builder = ShardBuilder(
        ShardInput(
            candidates=candidates,
            clocks=plan.clocks,
            pods=pods,
            scales=scales,
            fetches=_read_fetches(plan, cluster, candidates),
            starts_ms=starts_ms,
            flags=plan.flags_of(cluster),
            ambiguous_ms=ambiguous,
            profile=plan.profile,
            delay_ms=plan.settled.delay_ms,
            max_age_ms=plan.settled.max_age_ms,
            recorded=plan.settled.events == "recorded",
        ),
        rows_per_block,
    )
    series = _external_series(plan, cluster, candidates)
    for candidate in candidates:
        builder.add(candidate, series.get(candidate.namespace, ()))
    shard = builder.build(arena)
    facts.generated = _generated(shard, pods)
    return shard, facts


def _read_pods(
    plan: ReplayPlan, cluster: str, places: Sequence[Place], facts: ShardFacts
) -> PodColumns:
    history = plan.history
    # A state or request whose target was not recorded may be any pod's.
    owned = {(namespace, owner or "") for namespace, owner in places}
    owned |= {(namespace, "") for namespace, _ in places}
    rows = history.select("pods", cluster, places)
    pods = pod_columns(
        rows,
        history.select("pod_states", cluster, owned),
        history.select("pod_requests", cluster, owned),
    )
    facts.repeated = rows.height - pods.count
    return pods


def _rivals_of(plan: ReplayPlan, candidates: Sequence[Candidate]) -> list[tuple[Candidate, ...]]:
    """Return the groups of HPAs that may share pods, each once."""
    wanted = {id(c) for c in candidates}
    groups = {
        tuple(id(r) for r in rivals): rivals
        for candidate, rivals in zip(plan.chosen, plan.rivals, strict=True)
        if id(candidate) in wanted and len(rivals) > 1
    }
    return list(groups.values())


def _read_scales(
    plan: ReplayPlan, cluster: str, candidates: Sequence[Candidate]
) -> dict[ScaleKey, ScaleColumns]:
    places = {(c.target[1], c.target[3]) for c in candidates}
    frame = plan.history.select("scales", cluster, places)
    return scale_columns(frame)


def _read_fetches(
    plan: ReplayPlan, cluster: str, candidates: Sequence[Candidate]
) -> dict[HpaKey, Records]:
    places = {(c.namespace, c.name) for c in candidates}
    frame = plan.history.select("metric_fetches", cluster, places)
    found = {}
    for key, part in frame.partition_by("namespace", "name", as_dict=True).items():
        rows = part.sort("ts", "metric_index", maintain_order=True)
        code = rows["answer"].replace_strict(_ANSWERS, return_dtype=pl.Int64)
        found[cluster, str(key[0]), str(key[1])] = records_from(
            FETCH,
            rows.height,
            metric=integers(rows["metric_index"]),
            ts_ms=milliseconds(rows["ts"]),
            code=integers(code),
        )
    return found


def _external_series(
    plan: ReplayPlan, cluster: str, candidates: Sequence[Candidate]
) -> dict[str, list[tuple[str, ...]]]:
    """Return by namespace the (namespace, metric, selector, series) of external metrics, sorted."""
    wanted = {c.namespace for c in candidates if _has_external(c)}
    found: dict[str, list[tuple[str, ...]]] = {}
    if not wanted:
        return found
    for owner in plan.external_series.get(cluster, ()):
        if owner[0] in wanted:
            found.setdefault(owner[0], []).append(owner)
    return found


def _has_external(candidate: Candidate) -> bool:
    return any(m.type == "External" for p in candidate.periods for m in p.spec.metrics)


def _generated(shard: Shard, pods: PodColumns) -> list[HpaKey]:
    return [
        (c.cluster, c.namespace, c.name)
        for c, theirs in zip(shard.candidates, shard.pods, strict=True)
        if pods.generated[theirs].any()
    ]


After = Callable[[Shard], None]
"""What is done with the ticks that a call of the kernel decided."""


def run_shard(
    plan: ReplayPlan,
    shard: Shard,
    facts: ShardFacts,
    places: Sequence[Sequence[Place]],
    after: After | None = None,
) -> None:
    """Decide every tick of a shard, reading its samples day by day; fills `shard.results`."""
    if not shard.candidates:
        return
    cluster = shard.candidates[0].cluster
    wanted = sorted({p for part in places for p in part}, key=lambda p: (p[0], p[1] or ""))
    reader = _Reader(plan, cluster, wanted, shard)
    # A fetch may come before the sample's own time, by a clock that is wrong: then a day's ticks
    # wait for the next day's samples.
    wait_ms = DAY_MS if cluster in plan.fetched else 0
    done_ms = -NEVER_MS
    for day in reader.days:
        day_ms = (day - _EPOCH).days * DAY_MS
        until_ms = day_ms + DAY_MS - wait_ms
        _run(shard, plan, reader.load(day), done_ms, until_ms, after)
        done_ms = until_ms
        facts.strays += reader.strays
    _run(shard, plan, reader.nothing(), done_ms, NEVER_MS, after)
    lanes = shard.fleet.lanes
    lanes.last_tick = shard.observations.cursors[:, CURSOR_TICK]


def _run(
    shard: Shard,
    plan: ReplayPlan,
    load: Load,
    done_ms: int,
    until_ms: int,
    after: After | None,
) -> None:
    """Take in a load and decide the ticks before `until_ms`, under the flags of their time."""
    take_in(shard, load, done_ms - plan.settled.max_age_ms)
    recorded = plan.settled.events == "recorded"
    boundaries = [e.from_ms for e in shard.epochs[1:] if done_ms < e.from_ms < until_ms]
    extend = True
    for end_ms in [*boundaries, until_ms]:
        _set_flags(shard, max(done_ms, -NEVER_MS))
        replay_observations(
            shard.observations,
            load.rows,
            shard.fleet,
            shard.memory,
            extend,
            end_ms,
            recorded,
            shard.results,
        )
        extend, done_ms = False, end_ms
        if after is not None:
            after(shard)


def _set_flags(shard: Shard, from_ms: int) -> None:
    """Put the flags in force at a time into the lanes and specs."""
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


class _Reader:
    """Reads a shard's samples, one day at a time."""

    def __init__(
        self, plan: ReplayPlan, cluster: str, places: Sequence[Place], shard: Shard
    ) -> None:
        self.plan = plan
        self.cluster = cluster
        self.places = places
        self.tracks: TrackList = shard.tracks
        self.numbers = shard.numbers
        self.arena = shard.arena
        self.strays = 0
        self.tables = self._tables()
        self.days = self._days()

    def _tables(self) -> dict[str, list[Place]]:
        """Return the metric tables that tracks look at, with the places to read."""
        found: dict[str, list[Place]] = {"pod_metrics": list(self.places)}
        if not any(p >= 0 for p in self.tracks.pods):
            found = {}
        for owner in self.tracks.owners:
            table = owner[0]
            if table == "pod_custom_metrics":
                found[table] = list(self.places)
            else:
                place = (owner[1], owner[2])
                found.setdefault(table, [])
                if place not in found[table]:
                    found[table].append(place)
        return found

    def _days(self) -> list[date]:
        days: set[date] = set()
        for table, places in self.tables.items():
            sizes = self.plan.days_of(table, self.cluster)
            for place in places:
                days.update(sizes.get(place, ()))
        return sorted(days)

    def load(self, day: date) -> Load:
        """Return the samples of a UTC day."""
        frames = {
            table: self.plan.history.select(
                table, self.cluster, places, day=day, columns=self._columns(table)
            )
            for table, places in self.tables.items()
        }
        usage = frames.pop("pod_metrics", None)
        if usage is None:
            usage = self._no_usage()
        load = load_rows(self.tracks, self.numbers, usage, frames, self.arena)
        self.strays = load.strays
        return load

    def nothing(self) -> Load:
        """Return a load without any sample."""
        return load_rows(self.tracks, self.numbers, self._no_usage(), {}, self.arena)

    def _no_usage(self) -> pl.DataFrame:
        return empty_frame("pod_metrics")

    def _columns(self, table: str) -> list[str] | None:
        if table != "pod_metrics":
            return None
        return self.tracks.usage_columns()
