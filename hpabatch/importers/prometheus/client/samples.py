"""Samples of series, the time span of a window, and findings by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

LAST_S = 4e9
"""Unix seconds after which no time is recorded (the year 2096)."""

POINTS = pl.Schema({"series": pl.UInt32(), "ts": pl.Int64(), "value": pl.Float64()})


@dataclass(frozen=True, slots=True)
class Span:
    """The instants that a window gives rows of: after_ms < ts <= until_ms (ms UTC).

    Raw samples are asked from `after_ms - lookback_ms` on, so that a difference, and whether a
    value is a change, do not depend on where windows are cut.
    """

    after_ms: int
    until_ms: int
    lookback_ms: int

    @property
    def from_ms(self) -> int:
        """From when on samples are asked."""
        return self.after_ms - self.lookback_ms


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of some series.

    Attributes:
        series: a row per series, in the order of their labels: `series` (UInt32, from 0) and a
            String column per label name, null where the series has no such label.
        points: `series`, `ts` (ms) and `value`, sorted by series and ts.
    """

    series: pl.DataFrame
    points: pl.DataFrame

    @property
    def count(self) -> int:
        """The number of samples."""
        return self.points.height

    @property
    def names(self) -> list[str]:
        """The label names."""
        return self.series.columns[1:]

    def with_labels(self, names: Sequence[str]) -> Samples:
        """Return the same with a column for each of these labels at least."""
        absent = [name for name in names if name not in self.series.columns]
        added = [pl.lit(None, dtype=pl.String).alias(name) for name in absent]
        return Samples(self.series.with_columns(added), self.points)

    def joined(self, names: Sequence[str]) -> pl.DataFrame:
        """Return a row per sample: these labels, `ts` and `value`, in the points' order."""
        labels = self.with_labels(names).series.select("series", *names)
        return self.points.join(labels, on="series", how="left", maintain_order="left").select(
            *names, "ts", "value"
        )

    def cut(self, after_ms: int, until_ms: int) -> Samples:
        """Return the samples of after_ms < ts <= until_ms; series without any stay."""
        inside = (pl.col("ts") > after_ms) & (pl.col("ts") <= until_ms)
        return Samples(self.series, self.points.filter(inside))


def make_samples(labels: Sequence[Mapping[str, str]], points: pl.DataFrame) -> Samples:
    """Return samples with their series in the order of their labels.

    Args:
        labels: of each series; `points.series` are places in this list.
        points: see `Samples.points`, in any order of series, each series sorted by ts.
    """
    order = sorted(range(len(labels)), key=lambda place: sorted(labels[place].items()))
    names = sorted({name for one in labels for name in one})
    columns = {name: [labels[place].get(name) for place in order] for name in names}
    numbers = pl.Series("series", range(len(order)), dtype=pl.UInt32)
    series = pl.DataFrame([numbers, *(pl.Series(n, v, pl.String) for n, v in columns.items())])
    if order != list(range(len(order))):
        rank = [0] * len(order)
        for new, old in enumerate(order):
            rank[old] = new
        renamed = pl.Series(rank, dtype=pl.UInt32).gather(points["series"])
        points = points.with_columns(series=renamed).sort("series", maintain_order=True)
    return Samples(series, points)


def empty_samples() -> Samples:
    """Return samples of no series."""
    return make_samples([], pl.DataFrame(schema=POINTS))


def joined_samples(parts: Iterable[Samples]) -> Samples:
    """Return the samples of several responses as of one; of equal (series, ts) the last counts."""
    numbered: dict[tuple[tuple[str, str], ...], int] = {}
    frames = [pl.DataFrame(schema=POINTS)]
    for part in parts:
        places = []
        for row in part.series.drop("series").rows(named=True):
            key = tuple(sorted((n, v) for n, v in row.items() if v is not None))
            places.append(numbered.setdefault(key, len(numbered)))
        if part.count:
            mapped = pl.Series(places, dtype=pl.UInt32).gather(part.points["series"])
            frames.append(part.points.with_columns(series=mapped))
    whole = pl.concat(frames).unique(["series", "ts"], keep="last", maintain_order=True)
    return make_samples([dict(key) for key in numbered], whole.sort("series", "ts"))


@dataclass(slots=True)
class Findings:
    """What was noticed, counted by (kind, detail), e.g. ("reset", "namespace shop")."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def note(self, kind: str, detail: str = "", count: int = 1) -> None:
        """Count something; a count of 0 leaves no trace."""
        if count:
            self.counts[kind, detail] += count

    def add(self, other: Findings) -> None:
        """Add the counts of another part."""
        self.counts.update(other.counts)
