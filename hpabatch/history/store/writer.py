"""Writing of a history table as Parquet: checked, sorted, deterministic, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hpabatch.errors import HistoryError
from hpabatch.history import schema
from hpabatch.history.atomic import atomic_path
from hpabatch.history.checks import check_columns, check_validity, conform, order_rows
from hpabatch.history.columns import BOOL, INT, TEXT, TIME, Table
from hpabatch.history.schema import table_named
from hpabatch.model.printable import counted

# Readers skip row groups without a place or day that they look for, by their statistics. Half as
# many rows save little more, and take 4 % more bytes.
ROW_GROUP_ROWS = 1 << 17
COMPRESSION_LEVEL = 9


def write_table(frame: pl.DataFrame, path: Path | str, table: str) -> int:
    """Write a table as one Parquet file and return its size in bytes.

    The frame is checked like a file that is read; optional columns may be absent. Rows are sorted
    by the table's key. The same rows give the same bytes with the same versions of this package and
    pyarrow.

    Args:
        frame: the rows, in any order.
        path: the file, e.g. `history/pods.parquet`.
        table: the name of the table.

    Raises:
        HistoryError: a column is missing, unknown or of a wrong type, a value is invalid, or two
            rows have the same key.
        UsageError: the file cannot be written there.
    """
    spec = table_named(table)
    final = Path(path)
    ready = prepare_rows(frame, spec, f"table {table} for {final}")
    with atomic_path(final) as temporary:
        _write_parquet(ready, spec, temporary)
    return final.stat().st_size


def prepare_rows(frame: pl.DataFrame, spec: Table, where: str) -> pl.DataFrame:
    """Return all registered columns of a frame, checked and sorted by the table's key.

    Raises:
        HistoryError: see `write_table`.
    """
    filled = checked_rows(frame, spec, where)
    ordered, dropped = order_rows(filled, spec)
    if dropped:
        raise HistoryError(
            f"{where}: {counted(dropped, 'row')} with the key ({', '.join(spec.key)}) of another "
            "row; keep one of them"
        )
    if spec.name == "hpas":
        check_validity(ordered, where)
    return ordered


def checked_rows(frame: pl.DataFrame, spec: Table, where: str) -> pl.DataFrame:
    """Return all registered columns of a frame, checked, in the order of its rows.

    Raises:
        HistoryError: a column is missing, unknown or of a wrong type, or a value is invalid.
    """
    unknown = check_columns(frame.columns, spec, where)
    if unknown:
        raise HistoryError(f"{unknown[0]}; drop other columns before writing")
    checked = conform(frame, spec, where)
    return checked.select(
        pl.col(c.name) if c.name in checked.columns else pl.lit(c.fill, dtype=c.dtype).alias(c.name)
        for c in spec.columns
    )


def open_parquet(path: Path, spec: Table, level: int = COMPRESSION_LEVEL) -> pq.ParquetWriter:
    """Return a writer of a table's Parquet file; close it, or use it as a context.

    Args:
        path: the file, which is replaced.
        spec: the table.
        level: zstd compression level.
    """
    texts = [c.name for c in spec.columns if c.dtype == TEXT]
    # Times and quantities change little from row to row: differences pack to a few bits
    # (5.5 -> 3.8 bytes a row against plain zstd, and nearly twice the reading speed).
    numbers = [c.name for c in spec.columns if c.dtype in (INT, TIME)]
    deltas = dict.fromkeys(numbers, "DELTA_BINARY_PACKED")
    writer = pq.ParquetWriter(
        path,
        _arrow_schema(spec),
        compression="zstd",
        compression_level=level,
        use_dictionary=texts,
        column_encoding=deltas,
        store_schema=False,
        write_page_checksum=True,
    )
    writer.add_key_value_metadata(
        {schema.SCHEMA_KEY: str(schema.SCHEMA_VERSION), schema.TABLE_KEY: spec.name}
    )
    return writer


def arrow_rows(frame: pl.DataFrame, spec: Table) -> Any:
    """Return rows as one Arrow chunk, so that pages do not depend on the frame's chunks."""
    return frame.rechunk().to_arrow().cast(_arrow_schema(spec)).combine_chunks()


def _write_parquet(frame: pl.DataFrame, spec: Table, path: Path) -> None:
    with open_parquet(path, spec) as writer:
        writer.write_table(arrow_rows(frame, spec), row_group_size=ROW_GROUP_ROWS)


def _arrow_schema(spec: Table) -> Any:
    kinds = {TEXT: pa.string(), TIME: pa.timestamp("ms", tz="UTC"), BOOL: pa.bool_()}
    fields = [
        pa.field(c.name, kinds.get(c.dtype, pa.int64()), nullable=c.holds_nulls)
        for c in spec.columns
    ]
    return pa.schema(fields)
