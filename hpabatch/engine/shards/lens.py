"""Lenses over the samples that a shard reads: later or earlier, smoothed, scaled.

Decisions under a lens are those of the recorded samples as the controller is taken to have seen
them; everything else of the history stays as it was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.fleet.frames import integers, milliseconds
from hpabatch.history.checks import run_starts
from hpabatch.inputs.lenses import CPU, MEMORY, USAGE, Lens, lens_of
from hpabatch.layout.records import I64

_RECORDED: Final = "recorded_ms"
_SIGNALS: Final = {"cpu_milli": CPU, "memory_bytes": MEMORY}
_MOST: Final = 10**15
"""The largest value that a scale makes, either way: sums of such do not wrap."""


class SampleView:
    """The samples of a cluster's pods through its lenses."""

    def __init__(self, lenses: Sequence[Lens], cluster: str) -> None:
        """Keep the lenses of a cluster that change something."""
        signals = dict.fromkeys([*USAGE, *(lens.signal for lens in lenses)])
        found = [lens_of(lenses, cluster, signal) for signal in signals]
        self.lenses = {lens.signal: lens for lens in found if lens.changes}
        self.lead_ms = max([0, *(-lens.lag_ms for lens in self.lenses.values())])
        """How long before its own time a sample may be seen."""

    def _of(self, table: str) -> list[Lens]:
        usage = table == "pod_metrics"
        if not usage and table != "pod_custom_metrics":
            return []  # (totals are seen as they are)
        return [lens for lens in self.lenses.values() if (lens.signal in USAGE) == usage]

    def tail_ms(self, table: str) -> int:
        """Return from how long before a sample others make up what was seen of it."""
        return max([0, *(lens.smoothing_ms for lens in self._of(table))])

    def columns(self, table: str, columns: list[str] | None) -> list[str] | None:
        """Return the columns to read: smoothing tells containers apart."""
        if table != "pod_metrics" or columns is None or not self.tail_ms(table):
            return columns
        return list(dict.fromkeys(["uid", "container", *columns]))

    def seen(self, frame: pl.DataFrame, table: str, from_ms: int) -> pl.DataFrame:
        """Return a table's rows (in the order of its key) as they were seen.

        Rows recorded before `from_ms` are there for the means of others, and left out.
        """
        lenses = self._of(table)
        if not lenses or frame.is_empty():
            return frame
        changed = _seen_usage if table == "pod_metrics" else _seen_metrics
        found = changed(frame, {lens.signal: lens for lens in lenses})
        return found.filter(pl.col(_RECORDED) >= from_ms).drop(_RECORDED)


def _seen_usage(frame: pl.DataFrame, lenses: Mapping[str, Lens]) -> pl.DataFrame:
    """Return rows of `pod_metrics` as they were seen, with their recorded times."""
    either = next(iter(lenses.values()))
    ts_ms = milliseconds(frame["ts"])
    means = _Means(frame, ts_ms, either.smoothing_ms) if either.smoothing_ms else None
    values = [
        _value(frame[name], lenses[signal], means)
        for name, signal in _SIGNALS.items()
        if name in frame.columns and signal in lenses
    ]
    return frame.with_columns(*values, *_times(ts_ms, either), *_windows(frame, either))


def _seen_metrics(frame: pl.DataFrame, lenses: Mapping[str, Lens]) -> pl.DataFrame:
    """Return rows of `pod_custom_metrics` as they were seen, with their recorded times."""
    braces = pl.concat_str(pl.lit("{"), "selector", pl.lit("}"))
    selector = pl.when(pl.col("selector") != "").then(braces).otherwise(pl.lit(""))
    named = frame.with_columns(signal=pl.concat_str(pl.lit("pods/"), "metric", selector))
    parts = []
    for key, part in named.partition_by("signal", as_dict=True, maintain_order=True).items():
        lens, ts_ms = lenses.get(str(key[0]), Lens(str(key[0]))), milliseconds(part["ts"])
        means = _Means(part, ts_ms, lens.smoothing_ms) if lens.smoothing_ms else None
        value = _value(part["value_milli"], lens, means)
        times = [*_times(ts_ms, lens), *_windows(part, lens)]
        parts.append(part.drop("signal").with_columns(value, *times))
    return pl.concat(parts)


def _times(ts_ms: I64, lens: Lens) -> list[pl.Expr]:
    later = pl.duration(milliseconds=lens.lag_ms, time_unit="ms")
    return [pl.lit(pl.Series(_RECORDED, ts_ms)), pl.col("ts", "fetched_at") + later]


def _windows(frame: pl.DataFrame, lens: Lens) -> list[pl.Expr]:
    """Return the window that a mean is told with: until it has passed, a new pod is left out."""
    if not lens.smoothing_ms or "window_ms" not in frame.columns:
        return []
    return [pl.max_horizontal("window_ms", pl.lit(lens.smoothing_ms, pl.Int64)).alias("window_ms")]


def _value(column: pl.Series, lens: Lens, means: _Means | None) -> pl.Series:
    """Return a column of whole numbers smoothed and scaled; nulls stay."""
    known, value = column.is_not_null(), integers(column)
    if means is not None:
        value = means.of(value, known.to_numpy())
    if lens.scale != 1:
        value = np.clip(np.rint(value * lens.scale), -_MOST, _MOST).astype(np.int64)
    seen = pl.Series(column.name, value)
    return pl.select(pl.when(known).then(seen).alias(column.name)).to_series()


class _Means:
    """Means over the time up to each row, of the rows of its pod (and container)."""

    def __init__(self, frame: pl.DataFrame, ts_ms: I64, length_ms: int) -> None:
        """Find for each row the first one of its mean; a pod's rows lie together, by time."""
        starts = run_starts(frame.select("uid"))
        owner = np.repeat(np.arange(starts.size), np.diff(np.append(starts, frame.height)))
        if "container" in frame.columns:
            container = integers(frame["container"].rank("dense"))
            owner = owner * (int(container.max()) + 1) + container
        self.order = np.lexsort((ts_ms, owner))
        since_ms = ts_ms[self.order] - ts_ms.min()
        number = np.cumsum(np.diff(owner[self.order], prepend=owner[self.order[:1]]) != 0)
        # One ascending number for owner and time; another owner's rows are out of reach.
        key = number * (int(since_ms.max()) + length_ms + 1) + since_ms
        self.first = np.searchsorted(key, key - length_ms, side="right")

    def of(self, value: I64, known: NDArray[np.bool_]) -> I64:
        """Return the means of the known values, rounded to whole numbers."""
        counted = known[self.order]
        sums = np.concatenate([[0], np.cumsum(np.where(counted, value[self.order], 0))])
        counts = np.concatenate([[0], np.cumsum(counted)])
        total = sums[1:] - sums[self.first]
        count = np.maximum(counts[1:] - counts[self.first], 1)
        found = np.empty(value.size, np.int64)
        found[self.order] = (2 * total + count) // (2 * count)
        return found
