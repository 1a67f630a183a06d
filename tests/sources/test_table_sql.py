"""SQL of a map: computed row by row, or refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import HistoryError, UsageError
from hpabatch.sources import table_files
from hpabatch.sources.table_decode import read_map
from hpabatch.sources.table_sql import check_sql, probe
from tests.sources.tables import BEGIN_S, POD_MAP, merged, run_import, write_map

ACROSS = [
    "CAST(c AS DOUBLE) - MIN(CAST(c AS DOUBLE))",
    "COUNT(*)",
    "cpu - 0 * COUNT(*)",
    "COUNT(DISTINCT a)",
    "ROW_NUMBER() OVER (ORDER BY c)",
    "LAG(c) OVER (ORDER BY c)",
    "SUM(c) OVER (PARTITION BY d)",
    "FIRST(c)",
    "STDDEV(c)",
    "MEDIAN(c)",
    "QUANTILE_CONT(c, 0.5)",
    "ARRAY_AGG(c)",
    "UNNEST(c)",
    "CORR(a, b)",
    "a > AVG(b)",
]
ROW_BY_ROW = [
    "'Len'",
    "1 + 1",
    "Len + Agg",
    "CASE WHEN a LIKE 'x%' THEN 'Agg' ELSE b || 'x' END",
    "a IN ('x', 'y')",
    "COALESCE(a, b, 'Over')",
    "GREATEST(a, b) - LEAST(a, b)",
    "SPLIT_PART(a, '-', 1)",
    "CAST(c AS DOUBLE) / 60",
    "a IS NOT NULL AND NOT (b > 2 OR c BETWEEN 1 AND 3)",
    "REGEXP_LIKE(a, 'x')",
    "ROUND(c / 60, 2)",
    "SUBSTR(a, 1, 3)",
    "NULLIF(a, 'x')",
]


@pytest.mark.parametrize("text", ACROSS)
def test_what_looks_at_other_rows_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="looks at other rows"):
        check_sql(text)
    for said in ({"where": text}, {"columns": {"cpu": {"column": None, "sql": text}}}):
        with pytest.raises(UsageError, match=r"looks at other rows .*before the import"):
            read_map(write_map(tmp_path, merged(POD_MAP, said)))


@pytest.mark.parametrize("text", ROW_BY_ROW)
def test_what_is_computed_row_by_row_is_taken(text: str) -> None:
    check_sql(text)


def test_any_pieces_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame(
        {
            "ts": [BEGIN_S + k for k in range(20)], "app": "web", "pod": "web-1",
            "cpu": [float(k) for k in range(20)], "mem": 1,
        }
    )  # fmt: skip
    said = merged(POD_MAP, {"columns": {"cpu": {"column": None, "sql": "cpu * 2 + 1"}}})
    found = []
    for rows in (1 << 17, 3):
        monkeypatch.setattr(table_files, "CHUNK_ROWS", rows)
        folder = tmp_path / str(rows)
        folder.mkdir()
        found.append(run_import(folder, said, frame)[1]["pod_metrics"]["cpu_milli"].to_list())
    assert found[0] == found[1] == [(2 * k + 1) * 1000 for k in range(20)]


def test_what_the_names_do_not_tell_the_values_do() -> None:
    rows = pl.DataFrame({"a": [1.0, 2.0, float("nan"), None], "b": ["x", None, "y", "z"]})
    probe(rows, pl.col("a") * 2, "it")
    probe(rows, pl.lit(5), "it")
    probe(rows.clear(), pl.col("a").sum(), "it")
    for expression in (pl.col("a").rank(), pl.col("a").fill_null(strategy="forward")):
        with pytest.raises(HistoryError, match="it looks at other rows"):
            probe(rows, expression, "it")
    for expression in (pl.col("b").drop_nulls(), pl.col("a").first()):
        with pytest.raises(HistoryError, match="not one value per row"):
            probe(rows, expression, "it")


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
