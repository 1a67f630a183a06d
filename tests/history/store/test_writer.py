from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hpabatch.errors import HistoryError
from hpabatch.history.columns import BOOL, INT, TIME, Column, Table
from hpabatch.history.reader import open_history
from hpabatch.history.schema import TABLES
from hpabatch.history.store.writer import write_table
from tests.effort import effort
from tests.history.frames import frame


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    rows = frame("pod_metrics")
    write_table(rows, tmp_path / "a.parquet", "pod_metrics")
    glued = pl.concat([rows[4:], rows[:2], rows[2:4]], rechunk=False)
    write_table(glued, tmp_path / "b.parquet", "pod_metrics")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_names_are_dictionaries_and_times_are_differences(tmp_path: Path) -> None:
    write_table(frame("pod_metrics"), tmp_path / "pod_metrics.parquet", "pod_metrics")
    group = pq.ParquetFile(tmp_path / "pod_metrics.parquet").metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns["ts"].encodings
    assert "RLE_DICTIONARY" in columns["pod"].encodings
    assert "RLE_DICTIONARY" not in columns["ts"].encodings
    assert {column.compression for column in columns.values()} == {"ZSTD"}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (pl.col("cpu_milli") * -1, "column cpu_milli: a number below 0"),
        (pl.lit(1).alias("extra"), "column extra is not registered.*drop other columns"),
    ],
)
def test_bad_rows_are_refused_and_leave_no_file(
    tmp_path: Path, broken: pl.Expr, message: str
) -> None:
    rows = frame("pod_metrics").with_columns(broken)
    path = tmp_path / "pod_metrics.parquet"
    with pytest.raises(HistoryError, match=message):
        write_table(rows, path, "pod_metrics")
    assert os.listdir(tmp_path) == []


def test_two_rows_with_one_key_are_refused(tmp_path: Path) -> None:
    rows = frame("pods")
    with pytest.raises(HistoryError, match=r"2 rows with the key .* keep one of them"):
        write_table(pl.concat([rows, rows]), tmp_path / "pods.parquet", "pods")


def _cell(column: Column) -> st.SearchStrategy[Any]:
    if column.json:
        text = st.sampled_from(["{}", '{"a":"b"}'] if column.json == "object" else ["[]", "[1]"])
        cells: st.SearchStrategy[Any] = text
    elif column.values:
        cells = st.sampled_from(column.values)
    elif column.dtype == INT:
        low = -(2**63) if column.minimum is None else column.minimum
        high = 2**63 - 1 if column.maximum is None else column.maximum
        cells = st.integers(low, high)
    elif column.dtype == TIME:
        milliseconds = st.integers(946_684_800_000, 4_102_444_799_999)
        epoch = frame("scales")["ts"][0].replace(year=1970, month=1, day=1)
        cells = milliseconds.map(lambda ms: epoch + timedelta(milliseconds=ms))
    elif column.dtype == BOOL:
        cells = st.booleans()
    else:
        cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    return st.none() | cells if column.holds_nulls else cells


def _in_order(row: dict[str, Any], spec: Table) -> dict[str, Any]:
    """Return the row with no time before the one that it must follow."""
    for column in spec.columns:
        if column.not_before and row[column.name] is not None:
            row[column.name] = max(row[column.name], row[column.not_before])
    return row


TABLES_TO_TRY = [name for name in TABLES if name != "hpas"]  # its validities must not overlap


@pytest.mark.parametrize("table", TABLES_TO_TRY)
@given(data=st.data())
@settings(max_examples=effort(12), deadline=None)
def test_whatever_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, table: str, data: st.DataObject
) -> None:
    spec = TABLES[table]
    row = st.fixed_dictionaries({c.name: _cell(c) for c in spec.columns}).map(
        lambda drawn: _in_order(drawn, spec)
    )
    rows = data.draw(
        st.lists(
            row, min_size=1, max_size=8, unique_by=lambda r: tuple(str(r[k]) for k in spec.key)
        )
    )
    written = pl.DataFrame(rows, schema=spec.schema)
    folder = tmp_path_factory.mktemp("trip")
    write_table(written, folder / f"{table}.parquet", table)
    history = open_history(folder)
    assert_frame_equal(history.read(table), written.sort(spec.key))
    assert history.warnings == []
