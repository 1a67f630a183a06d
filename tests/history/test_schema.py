from __future__ import annotations

import polars as pl
import pytest

from hpabatch.errors import HistoryError
from hpabatch.history.columns import BOOL, INT, TEXT, TIME, Column, Table
from hpabatch.history.schema import TABLES, empty_frame, table_named

COLUMNS = [(table, column) for table in TABLES.values() for column in table.columns]

UNITS = {"_ms": "ms", "_milli": "milli", "_bytes": "bytes", "_replicas": "pods"}


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_tables_begin_with_the_cluster_and_have_a_key(table: Table) -> None:
    assert table.names[0] == table.key[0] == "cluster"
    assert len(set(table.names)) == len(table.names)
    assert set(table.key) <= set(table.names)
    assert table.doc


@pytest.mark.parametrize(
    ("table", "column"), COLUMNS, ids=[f"{t.name}.{c.name}" for t, c in COLUMNS]
)
def test_columns_are_documented_and_typed(table: Table, column: Column) -> None:
    assert column.doc
    assert column.dtype in (BOOL, TEXT, INT, TIME)
    for suffix, unit in UNITS.items():
        if column.name.endswith(suffix):
            assert (column.unit, column.dtype) == (unit, INT)
    assert (column.unit == "time") == (column.dtype == TIME)
    # What may be absent must be able to say so.
    assert not column.optional or column.nullable
    assert not (column.name in table.key and column.optional and column.fill is None)


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(HistoryError, match="no history table 'pod'; the tables are pod_metrics"):
        table_named("pod")


def test_an_unknown_column_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        TABLES["pods"].column("name")
    assert TABLES["pods"].column("labels").json == "object"


def test_empty_frames_have_the_registered_schema() -> None:
    assert empty_frame("scales").schema == TABLES["scales"].schema
    assert empty_frame("scales").schema["ts"] == pl.Datetime("ms", "UTC")


def test_amounts_have_a_maximum() -> None:
    """A wrong unit is refused, and sums fit 64 bits."""
    for table in ("pod_metrics", "pod_requests"):
        for column in TABLES[table].columns:
            if column.name.endswith(("cpu_milli", "cpu_limit_milli")):
                assert column.maximum == 10**15
            elif column.name.startswith("memory"):
                unit = 1000 if column.unit == "bytes" else 1
                assert column.maximum is not None
                assert column.maximum * unit <= 2**63 - 1
