"""Metrics as OpenMetrics text, cut as `promtool tsdb create-blocks-from openmetrics` likes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tests.real.openmetrics_family import Family

BLOCK_MS: Final = 2 * 3_600_000


def series_texts(family: Family) -> pl.Series:
    """Return each series as it stands before its value: `name{a="b",c="d"}`."""
    texts = []
    for labels in family.label_sets():
        inside = ",".join(f'{n}="{escaped(labels[n])}"' for n in sorted(labels))
        texts.append(f"{family.name}{{{inside}}}")
    return pl.Series("series", texts, pl.String)


def escaped(value: str) -> str:
    """Return a label's value as it stands between quotes."""
    if "\\" not in value and '"' not in value and "\n" not in value:
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_openmetrics(families: Iterable[Family], folder: Path) -> list[Path]:
    """Write one file for each two hours that have samples; return them in the order of time.

    promtool reads its file once for every two hours of its span: one file of a month would be
    read 360 times.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for family in families:
        texts = series_texts(family)
        block = family.ts // BLOCK_MS
        for number in np.unique(block):
            path = folder / f"{number:08d}.om"
            chosen = block == number
            lines = _lines(texts, family.series[chosen], family.ts[chosen], family.values[chosen])
            with path.open("ab" if path in made else "wb") as file:
                lines.write_csv(file, include_header=False, separator=" ", quote_style="never")
            if path not in made:
                made.append(path)
    for path in made:
        with path.open("ab") as file:
            file.write(b"# EOF\n")
    return sorted(made)


def _lines(
    texts: pl.Series,
    series: np.ndarray[tuple[int], np.dtype[np.int64]],
    ts: np.ndarray[tuple[int], np.dtype[np.int64]],
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> pl.DataFrame:
    """Return a row per line: series, value, time."""
    number = pl.Series("value", values)
    whole = bool(np.all(np.abs(values) < 1e15) and np.all(values == np.rint(values)))
    instants, place = np.unique(ts, return_inverse=True)
    return pl.DataFrame(
        [
            texts.gather(series),
            (number.cast(pl.Int64) if whole else number).cast(pl.String),
            pl.Series("ts", time_texts(instants), pl.String).gather(place),
        ]
    )


def time_texts(instants: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    """Return instants (ms) as seconds.

    The last digit is half a millisecond: the reader multiplies by 1000 and cuts, and 0.123 is a
    little less than 123 thousandths.
    """
    return [f"{int(ms) // 1000}.{int(ms) % 1000:03d}5" for ms in instants]
