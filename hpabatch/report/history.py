"""What `hpabatch history` tells, as a table, JSON, CSV or Parquet."""

from __future__ import annotations

import io
import json
from datetime import datetime

import polars as pl

from hpabatch.history.info import HistoryInfo
from hpabatch.model.printable import printable, printable_line
from hpabatch.report import texts

_FORMAT = "%Y-%m-%dT%H:%M:%S%.3fZ"


def info_table(info: HistoryInfo) -> str:
    """Return what a history holds as text for people."""
    clusters = ", ".join(info.clusters) or "none"
    noun = "cluster" if len(info.clusters) == 1 else "clusters"
    head = f"{info.location}: {info.layout}, schema {info.schema}, {noun} {clusters}"
    if info.parts:
        head += f", {info.parts} named part{'s' * (info.parts > 1)}"
    text = f"{printable_line(head)}\n\n{frame_table(info.tables)}"
    if info.provenance.height:
        text += f"\n{frame_table(_provenance(info))}"
    for remark in info.remarks:
        text += f"\n{printable_line(remark)}\n"
    return text


def info_json(info: HistoryInfo) -> str:
    """Return what a history holds as one JSON object."""
    document = {
        "location": info.location,
        "layout": info.layout,
        "schema": info.schema,
        "clusters": info.clusters,
        "parts": info.parts,
        "tables": _texts(info.tables).to_dicts(),
        "problems": info.problems,
        "provenance": _texts(info.provenance).to_dicts(),
        "unrecorded": {
            subject: [dict(zip(("cluster", "namespace", "name"), hpa, strict=True)) for hpa in hpas]
            for subject, hpas in info.unrecorded.items()
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _provenance(info: HistoryInfo) -> pl.DataFrame:
    """Return what people want to see of it: the cluster where there are several."""
    of = pl.when(pl.col("covers") == "names").then(pl.col("names").cast(pl.String))
    columns = ["cluster"] if len(info.clusters) > 1 else []
    return info.provenance.select(
        *columns,
        "subject",
        "method",
        of.otherwise(pl.col("covers")).alias("of"),
        pl.col("valid_from").alias("from"),
        pl.col("valid_to").alias("to"),
        pl.col("detail").fill_null("-"),
    )


def frame_table(frame: pl.DataFrame) -> str:
    """Return a frame as aligned columns; numbers to the right."""
    heads = [name.upper() for name in frame.columns]
    cells = [[_cell(value) for value in row] for row in frame.rows()]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    numbers = [dtype.is_integer() for dtype in frame.dtypes]
    lines = []
    for line in (heads, *cells):
        padded = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(line, widths, numbers, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines) + "\n"


def frame_json(frame: pl.DataFrame) -> str:
    """Return a frame as a JSON array of objects, one a line."""
    rows = ",\n".join(json.dumps(row) for row in _texts(frame).to_dicts())
    return f"[\n{rows}\n]\n" if rows else "[]\n"


def frame_csv(frame: pl.DataFrame) -> str:
    """Return a frame as CSV with a header."""
    return texts.frame_csv(_texts(frame))


def frame_parquet(frame: pl.DataFrame) -> bytes:
    """Return a frame as a Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with its times as texts."""
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    return frame.with_columns(pl.col(times).dt.strftime(_FORMAT)) if times else frame


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, float):
        return f"{value:.4g}"
    return printable(str(value))
