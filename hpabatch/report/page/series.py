"""Timelines of one HPA for the page: its sizes as steps, binding rules, and moments with numbers.

Offsets are in units of `unit_ms` since `from_ms`. A line is a flat list of offsets and values,
exact; one with more changes than `MOST_STEPS` is a list of columns instead: offset, lowest and
highest value, each repeated until the next column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.layout import codes

LINES: Final = ("applied", "desired", "proposal", "min_replicas", "max_replicas")
MOST_STEPS: Final = 2_000
COLUMNS: Final = 800
"""Columns of the strip of rules, and of a line with more changes than are kept."""
HOLD_MS: Final = 3_600_000
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

    Of more than `most` the longest holds and failures, and then the latest rescales are kept.
    """
    lasting = pl.DataFrame(
        list(_lasting(ticks)), dict.fromkeys(("row", "to"), pl.Int64()), orient="row"
    )
    spans = _rows(ticks, lasting["row"]).with_columns(
        until=ticks["ts"].gather((lasting["to"] + 1).clip(upper_bound=ticks.height - 1)),
        kind=pl.when(pl.col("binding").cast(pl.String).is_in(_FAILS))
        .then(pl.lit("failure"))
        .otherwise(pl.lit("hold")),
    )
    changed = (pl.col("applied") != pl.col("replicas")).fill_null(False)
    at = ticks.select(pl.arg_where(changed)).to_series()
    rescales = _rows(ticks, at).with_columns(until=_NO_UNTIL, kind=pl.lit("rescale"))
    count = spans.height + rescales.height
    kept = spans.sort(pl.col("until") - pl.col("ts"), "ts", descending=True).head(most // 2)
    room = max(most - kept.height, 0)
    rows = pl.concat([kept.select(MOMENT), rescales.tail(room).select(MOMENT)])
    times = pl.col("ts", "until").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").str.replace(".000Z", "Z")
    words = pl.col("binding", "error").cast(pl.String)
    shown = rows.sort("ts", "kind", descending=[True, False]).with_columns(
        times, words, pl.col("ratio").round(4)
    )
    return [list(row) for row in shown.iter_rows()], count


def _rows(ticks: pl.DataFrame, at: pl.Series) -> pl.DataFrame:
    return ticks.select(*[name for name in MOMENT if name in ticks.columns])[at.to_list()]


def _lasting(ticks: pl.DataFrame) -> Iterator[tuple[int, int]]:
    """Yield first and last tick of each long hold by one rule, and of each failure."""
    binding = ticks["binding"].cast(pl.String)
    runs = pl.DataFrame({"binding": binding}).with_columns(
        run=pl.col("binding").rle_id(), row=pl.int_range(pl.len())
    )
    ends = runs.group_by("run", maintain_order=True).agg(
        pl.col("binding").first(), pl.col("row").first(), to=pl.col("row").last()
    )
    ts = ticks["ts"].to_physical()
    for _, rule, row, to in ends.iter_rows():
        long = int(ts[to]) - int(ts[row]) >= HOLD_MS
        if (rule in _HOLDS and long) or rule in _FAILS:
            yield row, to


def sizes_over(ticks: pl.DataFrame, edges_ms: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the sum of the recorded sizes of an HPA's ticks, and their number, by interval."""
    known = ticks.filter(pl.col("applied").is_not_null())
    place = np.searchsorted(edges_ms, known["ts"].to_physical().to_numpy(), side="right") - 1
    sizes = known["applied"].to_numpy()
    count = edges_ms.size - 1
    return np.stack([np.bincount(place, sizes, count), np.bincount(place, minlength=count)])


MEANINGS: Final = {words.name: words.sentence for words in codes.BINDINGS.values()}
"""Sentence of each binding rule."""
