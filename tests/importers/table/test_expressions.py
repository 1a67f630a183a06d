"""Expressions of a map: computed row by row."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import HistoryError
from tests.importers.tables import BEGIN_S, POD_MAP, merged, run_import


def test_types_are_checked_at_the_first_rows(tmp_path: Path) -> None:
    row = f"ts,app,pod,cpu,mem\n{BEGIN_S},web,web-1,0.5,1000\n"
    said = {"where": "cpu > 0", "columns": {"cpu": {"column": None, "sql": "cpu * 2"}}}
    refused = {
        "where": "where 'cpu > 0': cannot compare a string with a number at character 5",
        "columns": "cpu: sql 'cpu [*] 2': expected a number, got a string",
    }
    for key, told in refused.items():
        with pytest.raises(HistoryError, match=told + ".*; write CAST.*columns of a CSV are strin"):
            run_import(tmp_path, merged(POD_MAP, {key: said[key]}), row)


def test_a_column_of_any_name_can_be_used(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"ts": [BEGIN_S], "_row": ["web"], "!time": ["web-1"], "!row": [0.25], "_found": [1000]}
    )
    columns = {"workload": "_row", "pod": "!time", "cpu": {"column": "!row"},
               "memory": {"column": "_found"}}  # fmt: skip
    _, tables = run_import(tmp_path, merged(POD_MAP, {"columns": columns}), frame)
    assert tables["pod_metrics"].select("target", "pod", "cpu_milli").rows() == [
        ("web", "web-1", 250)
    ]
