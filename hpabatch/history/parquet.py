"""Validation and reading of single Parquet files, shared by both layouts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hpabatch.errors import HistoryError
from hpabatch.history import schema
from hpabatch.history.columns import Table
from hpabatch.history.files import open_regular

# Times in Parquet are UTC, whatever zone stands beside them; at one that polars does not know, such
# as +05:30 or UTC+2, it would panic.
os.environ.setdefault("POLARS_IGNORE_TIMEZONE_PARSE_ERROR", "1")

# PanicException is a BaseException: some broken pages end there.
BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError)

MAGIC = b"PAR1"

# 10^5 row groups of one row take polars 12 s and 2.3 GB: such a file is refused.
LARGE_FOOTER = 1 << 20
MANY_GROUPS = 5_000
FEW_ROWS = 100

# A row group up to this size, uncompressed, is read at once, a larger one column by column.
_TOGETHER_BYTES = 1 << 24


def open_file(file: Path, spec: Table) -> tuple[pl.Schema, dict[str, str]]:
    """Check that a file is Parquet of a known schema; return its columns and metadata.

    Raises:
        HistoryError: it is missing, empty, not Parquet, cut short, broken, of a newer schema or
            another table.
    """
    try:
        with open_regular(file) as stream:
            head = stream.read(4)
            size = stream.seek(0, 2)
            stream.seek(max(0, size - 8))
            tail = stream.read(8)
    except OSError as error:
        raise unreadable(file, spec.name, error) from error
    if size == 0:
        raise HistoryError(f"{file} is empty (0 bytes); write the table {spec.name} again")
    if head != MAGIC:
        raise HistoryError(f"{file} is not a Parquet file; convert the table {spec.name} to one")
    if not tail.endswith(MAGIC) or size < 12:
        raise HistoryError(
            f"{file} is a Parquet file that was cut short ({size} bytes); copy or write the table "
            f"{spec.name} again"
        )
    footer = int.from_bytes(tail[:4], "little")
    if footer > size - 12:
        # Polars would try to read that much.
        raise HistoryError(
            f"{file} is a broken Parquet file (its footer says that it is {footer} bytes long, the "
            f"file has {size}); copy or write it again"
        )
    if footer > LARGE_FOOTER:
        check_groups(file)
    try:
        metadata = pl.read_parquet_metadata(file)
        columns = pl.Schema(pl.read_parquet_schema(file))
    except BROKEN as error:
        raise HistoryError(broken(file, error)) from error
    check_metadata(file, spec, metadata)
    return columns, metadata


def unreadable(file: Path, table: str, error: OSError) -> HistoryError:
    """Return the error for a file of a table that cannot be read."""
    return HistoryError(f"{file} cannot be read: {error.strerror}; it should hold {table}")


def check_groups(file: Path) -> None:
    """Refuse a file with too many row groups for its rows."""
    try:
        metadata = pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise HistoryError(broken(file, error)) from error
    groups, rows = metadata.num_row_groups, metadata.num_rows
    if groups > MANY_GROUPS and rows < FEW_ROWS * groups:
        raise HistoryError(
            f"{file} is cut into {groups:,} row groups of {rows / groups:.3g} rows on average, too "
            "small to read in reasonable time; write it again with at least 65536 rows in each"
        )


def check_metadata(file: Path | str, spec: Table, metadata: dict[str, str]) -> None:
    """Refuse a file of a newer schema or another table.

    Raises:
        HistoryError: with the fix.
    """
    version = metadata.get(schema.SCHEMA_KEY)
    if version is not None:
        if not version.isascii() or not version.isdigit() or version == "0":
            raise HistoryError(
                f"{file}: expected a number as schema version, got {version!r}; write it again"
            )
        if int(version) > schema.SCHEMA_VERSION:
            raise HistoryError(
                f"{file} has schema version {version}; this hpabatch reads up to "
                f"{schema.SCHEMA_VERSION}: use a newer hpabatch"
            )
    table = metadata.get(schema.TABLE_KEY, spec.name)
    if table != spec.name:
        raise HistoryError(
            f"{file} was written as the table {table}, not {spec.name}; name it {table}.parquet"
        )


def row_count(file: Path) -> int:
    """Return the number of rows of a file (HistoryError: it is broken)."""
    try:
        return int(_scan(file).select(pl.len()).collect().item())
    except BROKEN as error:
        raise HistoryError(broken(file, error)) from error


def load(
    file: Path,
    columns: Sequence[str],
    filters: Sequence[pl.Expr] | None = None,
    span: tuple[int, int] | None = None,
) -> pl.DataFrame:
    """Return columns of a file, unchecked.

    Args:
        columns: at least one.
        filters: only rows for which all of these hold.
        span: only this first row and number of rows.

    Raises:
        HistoryError: the file is broken.
    """
    try:
        if not filters and span is None:
            return pl.read_parquet(file, columns=list(columns), hive_partitioning=False, glob=False)
        rows = _scan(file) if span is None else _scan(file).slice(*span)
        return rows.filter(*(filters or ())).select(columns).collect()
    except BROKEN as error:
        raise HistoryError(broken(file, error)) from error


def check_pages(file: Path, spec: Table) -> None:
    """Verify the page checksums of a table's columns, which polars ignores.

    Another writer's file, which seldom has them, is not read.

    Raises:
        HistoryError: the bytes of a page have changed.
    """
    try:
        # Texts are not made: their places in the dictionary are read ten times as fast.
        texts = [
            f.name
            for f in pq.read_schema(file)
            if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)
        ]
        with pq.ParquetFile(
            file, page_checksum_verification=True, read_dictionary=texts
        ) as parquet:
            if schema.SCHEMA_KEY.encode() not in (parquet.metadata.metadata or {}):
                return
            columns = [name for name in parquet.schema_arrow.names if name in spec.names]
            for group in range(parquet.metadata.num_row_groups):
                # Each call costs 0.2 ms, which is most of the time of a small file.
                small = parquet.metadata.row_group(group).total_byte_size <= _TOGETHER_BYTES
                for some in [columns] if small else [[column] for column in columns]:
                    parquet.read_row_group(group, some)
    except (pa.ArrowException, *BROKEN) as error:
        raise HistoryError(broken(file, error)) from error


def _scan(file: Path) -> pl.LazyFrame:
    return pl.scan_parquet(file, hive_partitioning=False, glob=False)


def broken(file: Path | str, error: BaseException) -> str:
    """Return the message for an unreadable file."""
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    return f"{file} is a broken Parquet file ({reason}); copy or write it again"
