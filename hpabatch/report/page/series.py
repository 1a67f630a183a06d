"""Timelines of one HPA for the page: its sizes as steps, binding rules, and moments with numbers.

Offsets are in units of `unit_ms` since `from_ms`. A line is a flat list of offsets and values,
exact; one with more changes than `MOST_STEPS` is a list of columns instead: offset, lowest and
highest value, each repeated until the next column.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.layout import codes

LINES: Final = ("applied", "desired", "proposal", "min_replicas", "max_replicas")
MOST_STEPS: Final = 2_000
COLUMNS: Final = 800
"""Columns of the strip of rules, and of a line with more changes than are kept."""
HOLD: Final = timedelta(hours=1)
"""A rule that held the size for so long without a break is a moment."""
MOMENT: Final = (
    *("kind", "ts", "until", "replicas", "applied", "proposal", "stabilized", "limited"),
    *("desired", "binding", "metric", "ratio", "error", "min_replicas", "max_replicas"),
)
"""Fields of a moment; `kind`: rescale, hold or failure; `until`: of the latter two."""

_HOLDS: Final = (
    *("min", "max", "window_up", "window_down", "policy_up", "policy_down", "legacy_limit"),
    *("disabled_up", "disabled_down", "pod_guard", "forced_min", "forced_max"),
)
_FAILS: Final = ("invalid_metric", "selector", "scale_read", "scale_write", "no_scale")
_NO_UNTIL: Final = pl.lit(None, pl.Datetime("ms", "UTC"))


def timeline_of(ticks: pl.DataFrame) -> dict[str, Any]:
    """Return the lines and the strip of rules of an HPA's decisions, which are sorted by time."""
    ms = ticks["ts"].to_physical().to_numpy()
    step = int(ms[-1] - ms[-2]) if ms.size > 1 else 1000
    unit = math.gcd(*np.unique(np.diff(ms)).tolist(), step) or 1000
    offsets = (ms - ms[0]) // unit
    end = int(offsets[-1]) + step // unit
    width = max(-(-end // COLUMNS), 1)
    timed = ticks.with_columns(pl.Series("at", offsets), pl.Series("column", offsets // width))
    lines = {name: _line(timed, name, width) for name in LINES}
    return {
        "from_ms": int(ms[0]),
        "unit_ms": unit,
        "end": end,
        "lines": {name: line for name, line in lines.items() if line["values"]},
        "rules": _strip(timed, width),
    }


def simulated_of(sizes: pl.DataFrame, to_ms: int) -> dict[str, Any]:
    """Return the lines of an HPA under today's and the recommended settings.

    `sizes`: a row for each change, as `jobs.advise` writes them.
    """
    ms = sizes["ts"].to_physical().to_numpy()
    first = int(ms.min())
    unit = math.gcd(*np.unique(ms - first).tolist(), to_ms - first) or 1000
    end = (to_ms - first) // unit
    width = max(-(-end // COLUMNS), 1)
    at = pl.Series("at", (ms - first) // unit)
    timed = sizes.with_columns(at, (at // width).alias("column")).sort("at")
    is_today = pl.col("setting") == "today"
    parts = {"today": timed.filter(is_today), "recommended": timed.filter(~is_today)}
    lines = {
        name: _line(part.rename({"replicas": name}), name, width) for name, part in parts.items()
    }
    return {"from_ms": first, "unit_ms": unit, "end": end, "lines": lines, "rules": []}


def _line(timed: pl.DataFrame, name: str, width: int) -> dict[str, Any]:
    """Return a size as steps, or as columns; no values: it was never known."""
    first = pl.int_range(pl.len()) == 0
    moved = timed.filter(pl.col(name).ne_missing(pl.col(name).shift()) | first)
    if moved[name].null_count() == moved.height:
        return {"values": []}
    if moved.height <= MOST_STEPS:
        return {"values": moved.select(pl.concat_list("at", name).list.explode())["at"].to_list()}
    least, most = pl.col(name).min().alias("least"), pl.col(name).max().alias("most")
    columns = timed.group_by("column", maintain_order=True).agg(least, most)
    flat = pl.concat_list(pl.col("column") * width, "least", "most").list.explode()
    return {"values": columns.select(flat.alias("flat"))["flat"].to_list(), "columns": True}


def _strip(timed: pl.DataFrame, width: int) -> list[Any]:
    """Return offsets and the rule that made most decisions from there on, as a flat list."""
    counted = timed.group_by("column", "binding").len()
    most = counted.sort("column", "len", "binding", descending=[False, True, False])
    rules = most.unique("column", keep="first", maintain_order=True)
    rules = rules.filter(pl.col("binding").ne_missing(pl.col("binding").shift()))
    flat: list[Any] = []
    for column, binding in rules.select("column", pl.col("binding").cast(pl.String)).iter_rows():
        flat += [column * width, binding]
    return flat


def moments_of(ticks: pl.DataFrame, most: int) -> tuple[list[list[Any]], int]:
    """Return the moments of an HPA, latest first, and how many there are in all.

    Of more than `most` the longest holds and failures are kept, and the latest rescales: half of
    each, and where there are fewer of one, more of the other.
    """
    ts = ticks["ts"]
    # (a tick's decision lasts until the next one, the last for as long as the one before)
    step = ts[-1] - ts[-2] if ticks.height > 1 else timedelta(0)
    runs = (
        pl.DataFrame({"binding": ticks["binding"].cast(pl.String), "ts": ts})
        .with_columns(run=pl.col("binding").rle_id(), row=pl.int_range(pl.len()))
        .group_by("run", maintain_order=True)
        .agg(pl.col("binding").first(), pl.col("row", "ts").first())
        .with_columns(until=pl.col("ts").shift(-1).fill_null(ts[-1] + step))
    )
    failed, held = pl.col("binding").is_in(_FAILS), pl.col("binding").is_in(_HOLDS)
    long = runs.filter(failed | (held & (pl.col("until") - pl.col("ts") >= HOLD)))
    spans = _rows(ticks, long["row"]).with_columns(
        long["until"],
        kind=pl.when(pl.col("binding").cast(pl.String).is_in(_FAILS))
        .then(pl.lit("failure"))
        .otherwise(pl.lit("hold")),
    )
    changed = (pl.col("applied") != pl.col("replicas")).fill_null(False)
    at = ticks.select(pl.arg_where(changed)).to_series()
    rescales = _rows(ticks, at).with_columns(until=_NO_UNTIL, kind=pl.lit("rescale"))
    kept = spans.sort(pl.col("until") - pl.col("ts"), "ts", descending=True)
    kept = kept.head(max(most // 2, most - rescales.height))
    rows = pl.concat([kept.select(MOMENT), rescales.tail(most - kept.height).select(MOMENT)])
    times = pl.col("ts", "until").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").str.replace(".000Z", "Z")
    words = pl.col("binding", "error").cast(pl.String)
    shown = rows.sort("ts", "kind", descending=[True, False]).with_columns(
        times, words, pl.col("ratio").round(4)
    )
    return [list(row) for row in shown.iter_rows()], spans.height + rescales.height


def _rows(ticks: pl.DataFrame, at: pl.Series) -> pl.DataFrame:
    return ticks.select(*[name for name in MOMENT if name in ticks.columns])[at.to_list()]


class FleetSizes:
    """The sum of the recorded sizes of all HPAs over time, gathered one HPA after the other."""

    INTERVALS: Final = 400

    def __init__(self, from_ms: int, to_ms: int, step_ms: int) -> None:
        """Cut the time into intervals, none shorter than a tick."""
        count = min(-(-(to_ms - from_ms) // step_ms), self.INTERVALS)
        self._edges_ms = np.linspace(from_ms, max(to_ms, from_ms + 1), max(count, 1) + 1)
        self._sums = np.zeros(self._edges_ms.size - 1)

    def add(self, ticks: pl.DataFrame) -> None:
        """Add the sizes of an HPA: each lasts until the next tick, for at most two usual ones.

        So an interval that lies between two ticks has a size, and one after the HPA's end none.
        """
        ms, sizes = ticks["ts"].to_physical().to_numpy(), ticks["applied"].fill_null(0).to_numpy()
        gaps = np.diff(ms)
        usual = float(np.median(gaps)) if gaps.size else float(self._edges_ms[1]) - ms[0]
        lasts = np.append(np.minimum(gaps, 2 * usual), usual)
        # The integral of the sizes at the begin and the end of each, and straight between them.
        at = np.stack([ms, ms + lasts], axis=1).ravel()
        ends = np.cumsum(sizes * lasts)
        area = np.stack([ends - sizes * lasts, ends], axis=1).ravel()
        self._sums += np.diff(np.interp(self._edges_ms, at, area)) / np.diff(self._edges_ms)

    def told(self) -> dict[str, Any]:
        """Return start, width in ms, and the mean sum of each interval."""
        start, width = float(self._edges_ms[0]), float(self._edges_ms[1] - self._edges_ms[0])
        values = [round(value, 2) for value in self._sums.tolist()]
        return {"from_ms": start, "width_ms": width, "values": values}


MEANINGS: Final = {words.name: words.sentence for words in codes.BINDINGS.values()}
"""Sentence of each binding rule."""
