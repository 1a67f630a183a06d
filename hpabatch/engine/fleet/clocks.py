"""Times of decisions: every HPA's own (recorded or estimated), a loop's passes, or a grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias

import numpy as np
import polars as pl

from hpabatch.engine.fleet.candidates import Candidate, candidate_frame
from hpabatch.engine.fleet.parameters import SAMPLE_TABLES, ReplayParameters, Settled, with_source
from hpabatch.engine.fleet.sync import SyncEstimate, estimate_fleet, sync_ticks
from hpabatch.errors import HistoryError, HpabatchError, UsageError
from hpabatch.history.provenance import RUN
from hpabatch.history.reader import History
from hpabatch.history.schema import SIMULATED, empty_frame
from hpabatch.layout.records import I64
from hpabatch.model.printable import counted
from hpabatch.model.times import is_instant, parse_time_ms, show_instant

CREDIBLE_SPREAD = 1 / 8
"""Share of the period within which half of the recorded instants lie around an estimated grid; a
quarter is what instants without any rhythm have."""
INSTANT_TABLES = ("hpa_status", "metric_fetches")
MOST_TICKS = 1 << 23  # of one HPA: four years at 15 s


HpaKey = tuple[str, str, str]
"""Cluster, namespace and name of an HPA."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Instants every `period_ms`, `phase_ms` after full periods since 1970."""

    period_ms: int
    phase_ms: int = 0

    def instants(self, from_ms: int, to_ms: int) -> I64:
        """Return the instants in from_ms:to_ms, both ends included, ascending."""
        phase = self.phase_ms % self.period_ms
        first = -(-(from_ms - phase) // self.period_ms) * self.period_ms + phase
        return np.arange(first, to_ms + 1, self.period_ms, dtype=np.int64)


Clock: TypeAlias = Grid | str | HpaKey
"""Key of a sequence of instants: equal for HPAs that share it. A cluster's name stands for the
passes of its live loop: at each of them all of its HPAs are decided.
"""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The instants of every HPA: its own where some are known, else those of the grid.

    `from_ms` and `to_ms` bound the replay, both included. By HPA: `recorded` instants (ms,
    ascending), or syncs as `estimated`; by cluster: `passes` (ms, ascending). `asked_ms` is the
    time until which decisions were asked for, if one was given.
    """

    from_ms: int
    to_ms: int
    grid: Grid
    estimated: Mapping[HpaKey, SyncEstimate]
    recorded: Mapping[HpaKey, I64]
    passes: Mapping[str, I64] = field(default_factory=dict)
    asked_ms: int | None = None

    def of(self, key: HpaKey) -> Clock:
        """Return what an HPA's instants hang on: equal for HPAs with equal instants."""
        if key in self.recorded:
            return key
        if key[0] in self.passes:
            return key[0]
        return key if key in self.estimated else self.grid

    def instants(self, clock: Clock) -> I64:
        """Return the instants of what `of` returned, in ms, ascending."""
        own = self._own(clock)
        if own is not None:
            return own[(own >= self.from_ms) & (own <= self.to_ms)]
        if isinstance(clock, Grid):
            return clock.instants(self.from_ms, self.to_ms)
        assert not isinstance(clock, str)
        return sync_ticks(self.estimated[clock], self.from_ms, self.to_ms)

    def known(self, key: HpaKey) -> int | None:
        """Return how many instants of an HPA were recorded, None where none were."""
        own = self._own(self.of(key))
        return None if own is None else int(own.size)

    def _own(self, clock: Clock) -> I64 | None:
        if isinstance(clock, Grid):
            return None
        return self.passes[clock] if isinstance(clock, str) else self.recorded.get(clock)


# ---- choice --------------------------------------------------------------------------------------


def passes_of(history: History, parameters: ReplayParameters) -> pl.DataFrame:
    """Return the passes at which is to be decided.

    Raises:
        HistoryError: none were recorded.
    """
    if parameters.instants != "passes":
        return empty_frame("passes")
    found = history.read("passes")
    if found.is_empty():
        raise HistoryError(
            "no passes of a live loop were recorded (the table passes is empty or absent): record "
            "with hpabatch, or replay on a grid"
        )
    return found


def clocks_of(
    history: History,
    settled: Settled,
    parameters: ReplayParameters,
    chosen: Sequence[Candidate],
    rivals: Mapping[HpaKey, Sequence[Candidate]],
    passes: Mapping[str, I64],
) -> tuple[Clocks, Settled, frozenset[str]]:
    """Return when decisions are made, and the clusters whose fetches were recorded.

    `passes` (ms, ascending) are those of clusters whose HPAs are all decided then.

    Raises:
        HistoryError: no sample of any metric, or more instants than any history has.
        UsageError: nothing was recorded, or no sync comes, until the parameters' end.
    """
    spans = pl.concat([history.span(table) for table in SAMPLE_TABLES])
    # Those of rivals that are not chosen say who of several on the same pods syncs first.
    around = {c.key: c for group in ([*chosen], *rivals.values()) for c in group}
    others = [c for c in around.values() if c.cluster not in passes]
    recorded, estimated = _own_instants(history, settled, parameters, others)
    fetched = frozenset(spans.filter(pl.col("fetched_first").is_not_null())["cluster"].to_list())
    grid = Grid(settled.sync_period_ms, settled.phase_ms)
    ends = _ends(history, spans, settled.delay_ms)
    # A loop decides whether there are samples or not.
    ends += [int(at[k]) for at in passes.values() for k in (0, -1)]
    first, last, asked_ms = _bounds(ends, parameters, grid)
    if (count := (last - first) // grid.period_ms) > MOST_TICKS:
        raise HistoryError(
            f"samples from {show_instant(first)} to {show_instant(last)} make {count} ticks for "
            f"each HPA; at most {MOST_TICKS} fit: look for samples with a wrong time, or choose a "
            "longer sync period"
        )
    clocks = Clocks(first, last, grid, estimated, recorded, passes, asked_ms)
    if not recorded and not passes and not estimated and not grid.instants(first, last).size:
        raise _no_sync(clocks)
    return clocks, _told(settled, chosen, clocks, parameters), fetched


def _bounds(
    ends: Sequence[int], parameters: ReplayParameters, grid: Grid
) -> tuple[int, int, int | None]:
    """Return the replay's first and last timestamp and `until`, ms; raises as `clocks_of` does."""
    if not ends:
        raise HistoryError(
            "the history holds no sample of any metric, so there is nothing to replay; fill "
            "pod_metrics or one of the other metric tables (of a live loop's recording: `replay` "
            "it at its passes)"
        )
    first, last, until = min(ends), max(ends), parameters.until
    if until is None:
        return first, last, None
    try:
        until_ms = until if isinstance(until, int) else parse_time_ms(until, last)
    except ValueError as error:
        raise UsageError(f"--at: {error}") from None
    # The sync after the last sample shows nothing newer, but it comes before the next one.
    if not first <= until_ms < last + grid.period_ms:
        whole = not isinstance(until, str) or is_instant(until)
        written = "" if whole else f" ({until!r}, counted from the history's end)"
        raise UsageError(
            f"--at: expected a time from {show_instant(first)} to {show_instant(last)}, which the "
            f"history has, got {show_instant(until_ms)}{written}"
        )
    return first, min(last, until_ms), until_ms


def _no_sync(clocks: Clocks) -> HpabatchError:
    first, last, grid = clocks.from_ms, clocks.to_ms, clocks.grid
    if last == clocks.asked_ms:
        at = int(grid.instants(first, first + grid.period_ms)[0])
        return UsageError(f"no sync until {show_instant(last)}: the first is at {show_instant(at)}")
    return HistoryError(
        f"no sync falls into the time that samples were recorded ({last - first} ms): "
        "choose a shorter sync period"
    )


def _told(
    settled: Settled, chosen: Sequence[Candidate], clocks: Clocks, parameters: ReplayParameters
) -> Settled:
    """Return the parameters with what is known of the instants: from where, and of how many.

    `report.replay` tells of the grid where what is said of instants ends with it.
    """

    def own(known: Iterable[bool]) -> str:
        count = sum(known)
        rest = "" if count == len(chosen) else ", else a grid"
        return f"for {count} of {counted(len(chosen), 'HPA')}{rest}"

    if clocks.estimated:
        others = [c for c in chosen if c.cluster not in clocks.passes]
        text = f"estimated for {sum(c.key in clocks.estimated for c in others)} of {len(others)}"
        settled = with_source(settled, "phase", f"{text} HPAs, else assumed")
        near = f"{settled.sources['sync_period']}, near it {text} HPAs"
        settled = with_source(settled, "sync_period", near)
    if clocks.recorded:
        text = own(c.key in clocks.recorded for c in chosen)
        settled = replace(settled, instants=f"recorded {text}")
    if clocks.passes:
        text = own(c.cluster in clocks.passes for c in chosen)
        # Passes do not need the given parameters of a grid.
        given = {"sync period": parameters.sync_period_ms, "phase": parameters.phase_ms}
        idle = ", ".join(name for name, value in given.items() if value is not None)
        if idle and all(c.cluster in clocks.passes for c in chosen):
            text += f"; without effect: {idle}"
        settled = replace(settled, instants=f"passes of a live loop {text}")
    return settled


def _ends(history: History, spans: pl.DataFrame, delay_ms: int) -> list[int]:
    """Return when the first and last samples become visible, ms, and the ends of simulated runs."""
    rows = history.read("provenance")
    # (rows of simulated runs end with a tick)
    runs = rows.filter((pl.col("subject") == RUN) & (pl.col("method") == SIMULATED))
    later = {"unfetched_first": delay_ms, "unfetched_last": delay_ms, "valid_to": -1}
    return [
        ms + later.get(column.name, 0)
        for frame, names in (
            (spans, ["fetched_first", "unfetched_first", "fetched_last", "unfetched_last"]),
            (runs, ["valid_from", "valid_to"]),
        )
        for column in frame.select(names)
        for ms in column.drop_nulls().to_physical().to_list()
    ]


def _own_instants(
    history: History,
    settled: Settled,
    parameters: ReplayParameters,
    everyone: Sequence[Candidate],
) -> tuple[dict[HpaKey, I64], dict[HpaKey, SyncEstimate]]:
    """Return the instants of HPAs that have their own: as recorded, or as estimated.

    Raises:
        HistoryError: recorded ones are wanted, and there are none.
    """
    if parameters.instants == "recorded":
        return _recorded_instants(history, everyone), {}
    tables = set(INSTANT_TABLES) & set(history.files)
    if parameters.phase_ms is not None or not tables:
        return {}, {}
    found: dict[HpaKey, SyncEstimate] = {}
    for cluster, candidates in _groups(everyone):
        names = [(c.namespace, c.name) for c in candidates]
        targets = [(c.target[1], c.target[3]) for c in candidates]
        status = history.select("hpa_status", cluster, names)
        fetches = history.select("metric_fetches", cluster, names)
        scales = history.select("scales", cluster, targets).filter(pl.col("error").is_null())
        frame = candidate_frame(candidates)
        estimates = estimate_fleet(status, fetches, scales, frame, settled.sync_period_ms)
        most_ms = CREDIBLE_SPREAD * settled.sync_period_ms
        found |= {
            candidate.key: estimate
            for candidate, estimate in zip(candidates, estimates, strict=True)
            if estimate is not None and estimate.spread_ms <= most_ms
        }
    return {}, found


def _groups(candidates: Sequence[Candidate]) -> Iterator[tuple[str, list[Candidate]]]:
    """Yield HPAs of one cluster and namespace at a time: as many as are read together."""
    ordered = sorted(candidates, key=lambda c: c.key)
    for (cluster, _), group in groupby(ordered, key=lambda c: (c.cluster, c.namespace)):
        yield cluster, list(group)


def _recorded_instants(history: History, candidates: Sequence[Candidate]) -> dict[HpaKey, I64]:
    """Return by HPA the instants of its metric fetches, else those of its status.

    Raises:
        HistoryError: neither was recorded.
    """
    found: dict[HpaKey, I64] = {}
    for table in INSTANT_TABLES:
        for cluster, group in _groups(candidates):
            names = [(c.namespace, c.name) for c in group]
            frame = history.select(table, cluster, names, columns=["namespace", "name", "ts"])
            for key, part in frame.partition_by("namespace", "name", as_dict=True).items():
                instants = np.unique(part["ts"].to_physical().to_numpy()).astype(np.int64)
                found[cluster, str(key[0]), str(key[1])] = instants
    nowhere = all(history.sizes(table).is_empty() for table in INSTANT_TABLES)
    if not found and nowhere:
        raise HistoryError(
            "no decision instants were recorded (metric_fetches and hpa_status are empty): record "
            "them, or replay on a grid"
        )
    return found
