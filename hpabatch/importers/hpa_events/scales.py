"""Scales of workloads as an audit log shows them: their sizes, their selectors, who asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from hpabatch.importers.hpa_events.seen import ScaleSighting

SCALES: Final = pl.Schema(
    {
        "namespace": pl.String(),
        "target_kind": pl.String(),
        "target": pl.String(),
        "ts": pl.Int64(),
        "spec_replicas": pl.Int64(),
        "status_replicas": pl.Int64(),
        "selector": pl.String(),
    }
)
"""Columns of `scales` without its cluster, times in ms."""

DECISIONS: Final = pl.Schema(
    {
        "namespace": pl.String(),
        "target_kind": pl.String(),
        "target": pl.String(),
        "ts": pl.Int64(),
        "replicas": pl.Int64(),
        "user": pl.String(),
    }
)
"""A size that somebody wrote to a scale; null: which is not recorded."""

_TARGET = ["namespace", "target_kind", "target"]
_SAID = ["spec_replicas", "status_replicas", "selector"]

_Said = tuple[int, int, str | None]


@dataclass(slots=True)
class ScaleStore:
    """Sightings of scales; of equal ones in a row, as the controller's reads are, one is kept."""

    _rows: list[tuple[str, str, str, int, int, int, str | None]] = field(default_factory=list)
    _last: dict[tuple[str, str, str], tuple[int, _Said]] = field(default_factory=dict)
    _decisions: set[tuple[str, str, str, int, int | None, str]] = field(default_factory=set)

    def add(self, seen: ScaleSighting) -> None:
        """Take in a sighting."""
        target = (seen.namespace, seen.kind, seen.name)
        if seen.written:
            self._decisions.add((*target, seen.at_ms, seen.spec_replicas, seen.user))
        if seen.spec_replicas is None or seen.status_replicas is None:
            return
        said = (seen.spec_replicas, seen.status_replicas, seen.selector)
        last = self._last.get(target)
        if last is None or last[1] != said or seen.at_ms < last[0]:
            self._rows.append((*target, seen.at_ms, *said))
        self._last[target] = (seen.at_ms, said)

    def rows(self) -> pl.DataFrame:
        """Return rows of `scales` (`SCALES`), sorted: where something changed."""
        frame = pl.DataFrame(self._rows, schema=SCALES, orient="row")
        frame = frame.sort([*_TARGET, "ts"], maintain_order=True)
        frame = frame.unique([*_TARGET, "ts"], keep="last", maintain_order=True)
        same = pl.all_horizontal(
            pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*_TARGET, *_SAID)
        )
        return frame.filter(~same)

    def decisions(self) -> pl.DataFrame:
        """Return who asked for which size (`DECISIONS`), sorted."""
        rows = sorted(self._decisions, key=lambda row: (*row[:4], row[4] or 0, row[5]))
        return pl.DataFrame(rows, schema=DECISIONS, orient="row")
