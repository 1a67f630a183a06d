"""Measures of the recording beside those of a simulation of the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from hpabatch.engine.columns.recorded import RECORDED_MEASURES, recorded_name
from hpabatch.engine.fit.run import Recorded
from hpabatch.engine.simulate.work import Key

Span = tuple[tuple[str | int, ...], Key, int, int]
"""A row's key, its HPA, and from and until when (ms) it is."""


def with_recorded(
    frame: pl.DataFrame,
    key: tuple[str, ...],
    spans: Iterable[Span],
    recorded: Mapping[Key, Recorded],
) -> pl.DataFrame:
    """Add the columns `*_recorded` to measures: null in rows without a span or a recording.

    Args:
        frame: rows of measures, named by the columns `key`.
        key: names of these columns.
        spans: of the rows whose setting is the one that was recorded.
        recorded: by HPA.
    """
    names = [recorded_name(measure) for measure in RECORDED_MEASURES]
    rows = [
        (*row, *recorded[hpa].between(from_ms, to_ms).values())
        for row, hpa, from_ms, to_ms in spans
        if hpa in recorded
    ]
    schema = {name: frame.schema[name] for name in key} | dict.fromkeys(names, pl.Float64())
    known = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.join(known, on=list(key), how="left", maintain_order="left")
