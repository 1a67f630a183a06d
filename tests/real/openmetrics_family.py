"""A metric's series and samples, and what turns the rows of a table into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tests.real.openmetrics_site import Floats, Ints

RESERVED = ("value", "from_ms", "to_ms")


@dataclass(frozen=True, slots=True)
class Family:
    """All series of a metric.

    Attributes:
        name: of the metric.
        labels: a row per series; null or empty: the series has no such label.
        series: of each sample the row in `labels`; in this order, then by time.
        ts: ms.
        values: may be NaN; the bits of Prometheus' stale marker are kept.
    """

    name: str
    labels: pl.DataFrame
    series: Ints
    ts: Ints
    values: Floats

    def label_sets(self) -> list[dict[str, str]]:
        """Return the labels of every series, without the metric's name."""
        rows = self.labels.iter_rows(named=True)
        return [{name: value for name, value in row.items() if value} for row in rows]

    def with_labels(self, constant: Mapping[str, str]) -> Family:
        """Return the same with more labels on all series."""
        added = [pl.lit(value).alias(name) for name, value in constant.items()]
        return Family(self.name, self.labels.with_columns(added), self.series, self.ts, self.values)


def joined(name: str, parts: list[Family]) -> Family:
    """Return the series of several as of one metric; they must differ in their labels."""
    first = np.cumsum([0, *(part.labels.height for part in parts)])
    return Family(
        name,
        pl.concat([part.labels for part in parts], how="diagonal"),
        np.concatenate([p.series + at for p, at in zip(parts, first, strict=False)]),
        np.concatenate([p.ts for p in parts]),
        np.concatenate([p.values for p in parts]),
    )


def sampled(name: str, rows: pl.DataFrame, grid: Ints) -> Family:
    """Return a metric that has a row's value at the instants of from_ms <= ts < to_ms.

    Rows of the same labels are one series; their times must not overlap.

    Args:
        name: of the metric.
        rows: labels (String), `value`, `from_ms` and `to_ms`.
        grid: the instants of the scrapes.
    """
    low = np.searchsorted(grid, rows["from_ms"].to_numpy(), "left")
    high = np.searchsorted(grid, rows["to_ms"].to_numpy(), "left")
    seen = pl.Series(high > low)
    rows, low, high = rows.filter(seen), low[seen.to_numpy()], high[seen.to_numpy()]
    names = [column for column in rows.columns if column not in RESERVED]
    labels = rows.select(names).unique(maintain_order=True)
    numbered = labels.with_columns(_series=pl.int_range(pl.len(), dtype=pl.Int64))
    of_row = rows.select(names).join(numbered, on=names, nulls_equal=True, how="left",
                                     maintain_order="left")["_series"].to_numpy()  # fmt: skip
    order = np.lexsort((low, of_row))
    low, of_row = low[order], of_row[order]
    count = high[order] - low
    first = np.cumsum(count) - count
    place = np.arange(count.sum()) - np.repeat(first - low, count)
    values = rows["value"].cast(pl.Float64).to_numpy()[order]
    return Family(name, labels, np.repeat(of_row, count), grid[place], np.repeat(values, count))
