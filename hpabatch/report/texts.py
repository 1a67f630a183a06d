"""Names and frames as every report shows them."""

from __future__ import annotations

import polars as pl

from hpabatch.model.printable import printable_cell


def label(cluster: str, namespace: str, hpa: str, *, with_cluster: bool = False) -> str:
    """Return `namespace/hpa`, with the cluster in front where there are several."""
    return "/".join(part for part in (cluster if with_cluster else "", namespace, hpa) if part)


def many_clusters(hpas: pl.DataFrame) -> bool:
    """Say whether a frame of HPAs is of several clusters."""
    return hpas["cluster"].n_unique() > 1


def frame_csv(frame: pl.DataFrame, time_format: str | None = None) -> str:
    """Return a frame as CSV with a header, one line a row; an absent value is empty.

    Strings are as `printable_cell` returns them; docs/output.md says how to undo that.
    `time_format` is Polars' own without one.
    """
    return printable_cells(frame).write_csv(datetime_format=time_format)


def printable_cells(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with its strings as cells of CSV."""
    texts = (pl.String, pl.Categorical, pl.Enum)
    names = [name for name, dtype in frame.schema.items() if isinstance(dtype, texts)]
    return frame.with_columns(_printable_column(frame[name].cast(pl.String)) for name in names)


def _printable_column(column: pl.Series) -> pl.Series:
    old = column.unique().drop_nulls().to_list()
    changed = {text: cell for text in old if (cell := printable_cell(text)) != text}
    return column.replace(changed) if changed else column
