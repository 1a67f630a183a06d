"""HPAs at one instant: their status, the events before it, and the arrays it came from.

All syncs up to the instant are decided, from the first that was recorded: conditions, windows and
policies depend on the syncs before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from hpabatch.engine.explain.status import LaneWords, StatusReader
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.shards.run import ahead, run_step, shard_steps
from hpabatch.engine.shards.shard import Shard, status_at
from hpabatch.history.checks import decode_cell
from hpabatch.history.reader import History
from hpabatch.layout.observations import CURSOR_TICK
from hpabatch.model.messages import Event
from hpabatch.model.objects.hpa import HPA, HPAStatus
from hpabatch.model.times import show_api_time

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Moment:
    """An HPA after its last sync up to an instant.

    `t` is that sync, a number over all ticks of `shard`, whose lane `h` it is.
    """

    candidate: Candidate
    shard: Shard
    h: int
    t: int
    reader: StatusReader
    words: LaneWords

    @property
    def now_ms(self) -> int:
        """When the sync was."""
        return int(self.shard.fleet.ticks[self.t].now_ms)

    @property
    def first_ms(self) -> int:
        """When the HPA's first sync was."""
        lane = self.shard.fleet.lanes[self.h]
        return int(self.shard.fleet.ticks[int(lane.first_tick)].now_ms)

    def events(self, since_ms: int) -> list[Event]:
        """Return the events of syncs from `since_ms` on, equal ones counted together, oldest first.

        As the API server keeps them: one object for equal type, reason and message; none of an HPA
        of the same name that was before.
        """
        first = int(self.shard.fleet.lanes[self.h].first_tick)
        recreated = np.flatnonzero(self.shard.fleet.ticks.recreated[first : self.t + 1])
        first += int(recreated[-1]) if recreated.size else 0
        ticks = self.shard.fleet.ticks.now_ms[first : self.t + 1]
        found: dict[tuple[str, str, str], Event] = {}
        for t in range(first + int(np.searchsorted(ticks, since_ms)), self.t + 1):
            for event in self.reader.events(self.words, t):
                key = (event.type, event.reason, event.message)
                old = found.get(key, replace(event, count=0))
                found[key] = replace(old, count=old.count + 1, last_ms=event.last_ms)
        return sorted(found.values(), key=lambda e: (e.last_ms, e.first_ms))


def moments(plan: ReplayPlan) -> Iterator[Moment]:
    """Yield every HPA of a plan that asks for whole statuses, after its last sync, by shard.

    A moment's arrays are good until the next shard's is asked for. HPAs without any sync are left
    out; one that went before the plan's end is there as it was at its last.

    Raises:
        HistoryError: a table is broken.
    """
    for step in ahead(shard_steps(plan, range(len(plan.shards)))):
        run_step(plan, step)
        if step.last:
            yield from _of_shard(step.shard)


def _of_shard(shard: Shard) -> Iterator[Moment]:
    reader = status_reader(shard)
    last = shard.observations.cursors[:, CURSOR_TICK]
    first_spec = 0
    for h, candidate in enumerate(shard.candidates):
        words = lane_words(candidate, first_spec, status_at(shard, h, int(last[h]) - 1))
        first_spec += len(candidate.periods)
        if last[h] > shard.fleet.lanes[h].first_tick:
            yield Moment(candidate, shard, h, int(last[h]) - 1, reader, words)


def status_reader(shard: Shard) -> StatusReader:
    """Return what reads the statuses of a shard that was replayed whole."""
    specs = [period.spec for candidate in shard.candidates for period in candidate.periods]
    return StatusReader(
        shard.fleet, shard.results, shard.statuses, specs, shard.texts, shard.profile
    )


def lane_words(candidate: Candidate, first_spec: int, before: HPAStatus) -> LaneWords:
    """Return the words of a lane whose specs begin at a row of `Fleet.specs`.

    `before`: the status from which it went on.
    """
    known = {
        first_spec + k: period.generation
        for k, period in enumerate(candidate.periods)
        if period.generation is not None
    }
    return LaneWords(candidate.namespace, before, generations=known)


class Metadata:
    """Metadata of HPAs, from a history or from manifests."""

    def __init__(self, history: History, manifests: Sequence[HPA] | None) -> None:
        """Read the HPAs' rows, unless manifests stand in for them."""
        self._given = {(h.namespace or "default", h.name): h for h in manifests or ()}
        self._rows: dict[Key, pl.DataFrame] = {}
        if manifests is None:
            parts = history.read("hpas").partition_by(
                "cluster", "namespace", "name", as_dict=True, maintain_order=True
            )
            self._rows = {(str(k[0]), str(k[1]), str(k[2])): rows for k, rows in parts.items()}

    def document(self, moment: Moment) -> HPA:
        """Return the HPA as the API server would show it after a moment's sync."""
        candidate = moment.candidate
        number = int(moment.shard.fleet.ticks[moment.t].spec)
        number -= sum(len(c.periods) for c in moment.shard.candidates[: moment.h])
        spec = candidate.periods[number].spec
        status = moment.reader.status(moment.words, moment.t)
        known = self._given.get((candidate.namespace, candidate.name))
        if known is not None:
            return replace(known, namespace=candidate.namespace, spec=spec, status=status)
        row = self._row(candidate, moment.now_ms)
        return HPA(
            name=candidate.name,
            namespace=candidate.namespace,
            spec=spec,
            status=status,
            labels=_pairs(row.get("labels")),
            annotations=_pairs(row.get("annotations")),
            uid=str(row.get("uid") or ""),
            generation=row.get("generation"),  # type: ignore[arg-type]
            creation_timestamp=_time(row.get("created")),
        )

    def _row(self, candidate: Candidate, now_ms: int) -> dict[str, object]:
        rows = self._rows[candidate.key]
        start = pl.col("valid_from").to_physical()
        end = pl.col("valid_to").to_physical().fill_null(NEVER_MS)
        found = rows.filter((start <= now_ms) & (end > now_ms))
        return (found if found.height else rows).row(-1, named=True)


def _pairs(text: object) -> tuple[tuple[str, str], ...]:
    found = decode_cell(str(text), dict, "hpas") if text else {}
    return tuple((str(key), str(value)) for key, value in found.items())


def _time(value: object) -> str | None:
    if value is None:
        return None
    return show_api_time(int(pl.Series([value]).cast(pl.Datetime("ms", "UTC")).to_physical()[0]))
