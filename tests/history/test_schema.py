from __future__ import annotations

import pytest

from hpabatch.history.columns import BOOL, INT, TEXT, TIME, Column, Table
from hpabatch.history.schema import TABLES

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
