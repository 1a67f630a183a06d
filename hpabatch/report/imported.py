"""Screens of `import table`: the preview of a dry run, and what an import assumed in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from hpabatch.importers.table.run import ImportResult
from hpabatch.inputs.documents import shortened
from hpabatch.report.base import Grid, Head
from hpabatch.report.forms import frame_grid

PREVIEW_WORKLOADS: Final = 3
_MAP_ROWS: Final = 8
_CELL: Final = 84
_SAMPLE_ROWS: Final = 3
_SAMPLES: Final = ("pod_metrics", "pod_custom_metrics")
_SAMPLE_COLUMNS: Final = ("target", "pod", "container", "metric", "ts", "cpu_milli",
                          "memory_bytes", "value_milli")  # fmt: skip
_INNER: Final = ("sizes", "lives")
_LAST: Final = ("container", "cluster", "kind", "uid", "ready", "window")
# Parts of sentences that `TableMap.assumed` has, the one with the largest consequence first.
_CONSEQUENCES: Final = (
    "no cpu request", "requests are the limits", "has no HPA", " is in ", "whole units",
    "lives.ready_after", "namespace", "recorded sizes", "no window", "minReplicas",
)  # fmt: skip


def assumed_line(assumed: Sequence[str]) -> str:
    """Return what was assumed in one line that names what matters most, "" for nothing."""
    if len(assumed) < 2:
        return "".join(assumed)
    first = next((s for part in _CONSEQUENCES for s in assumed if part in s), assumed[0])
    return f"{first}; and {len(assumed) - 1} more: -v lists them"


def preview(result: ImportResult, *, whole: bool) -> Iterator[str | Grid]:
    """Generate the map as understood and first rows: of the samples, or (`whole`) of all tables."""
    left = Head("", left=True)
    rows = [list(map(str, row)) for row in result.understood]
    yield "the map as understood:"
    if whole:
        yield Grid([left] * 2, rows, with_heads=False)
        yield ""
        for name, frame in result.first.items():
            yield from (f"first rows of {name}:", frame_grid(frame), "")
        return
    yield Grid([left] * 2, _short_map(rows), with_heads=False)
    yield ""
    for name in _SAMPLES:
        if name in result.first:
            yield f"first rows of {name} (-v: of all tables, and the whole map):"
            yield frame_grid(_short_rows(result.first[name]))
            yield ""
            break


def preview_workloads(workloads: pl.DataFrame) -> list[str]:
    """Return the columns of the workloads that a preview shows: one cluster needs no name."""
    one = "cluster" in workloads.columns and workloads["cluster"].n_unique() <= 1
    return [name for name in workloads.columns if not (one and name == "cluster")]


def _short_map(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the rows of the map that name columns, the constants together in one row."""
    always = [(name, text) for name, text in rows if text.startswith("always ")]
    named = [
        [name, shortened(text, _CELL)]
        for name, text in rows
        if name not in _INNER and not text.startswith("always ")
    ]
    named.sort(key=lambda row: row[0] in _LAST)
    if always:
        told = ", ".join(f"{name} {text.removeprefix('always ')}" for name, text in always)
        named.append(["always", shortened(told, _CELL)])
    if len(named) > _MAP_ROWS:
        named = [*named[: _MAP_ROWS - 1], ["…", f"{len(named) - _MAP_ROWS + 1} more"]]
    return named


def _short_rows(frame: pl.DataFrame) -> pl.DataFrame:
    names = [name for name in _SAMPLE_COLUMNS if name in frame.columns]
    return frame.select(n for n in names if frame[n].null_count() < frame.height).head(_SAMPLE_ROWS)
