"""docs/explain.md: the Polars and the DuckDB queries return the same rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from hpabatch.cli import main
from tests.cli.histories import last_day

ROOT = Path(__file__).parents[2]


def block(language: str) -> list[str]:
    """Return the lines of the page's block of a language."""
    found = re.findall(
        rf"```{language}\n(.*?)```", (ROOT / "docs" / "explain.md").read_text(), re.S
    )
    assert len(found) == 1
    return str(found[0]).strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the page's `why.parquet`."""
    place = tmp_path_factory.mktemp("why")
    with pytest.MonkeyPatch.context() as patch:
        out = ["--why", "--out", str(place / "why.parquet"), "--top", "1"]
        patch.setattr("sys.argv", ["hpabatch", "replay", str(last_day()), *out])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
    return place


def answers_of_polars(lines: list[str]) -> list[pl.DataFrame]:
    found: list[pl.DataFrame] = []
    names: dict[str, Any] = {"print": found.append}
    exec("\n".join(lines), names)
    return found


def answer_of_duckdb(line: str) -> pl.DataFrame:
    relation = duckdb.query(line)
    assert relation is not None
    found: pl.DataFrame = relation.pl()
    return found


def test_polars_and_duckdb_answer_alike(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    polars = answers_of_polars(block("python"))
    sql = [answer_of_duckdb(line) for line in block("sql")]
    assert len(polars) == len(sql) == 5
    for one, other in zip(polars, sql, strict=True):
        assert one.height > 0
        assert sorted(one.columns) == sorted(other.columns)
        assert sorted(map(str, one.select(sorted(one.columns)).rows())) == sorted(
            map(str, other.select(sorted(one.columns)).rows())
        )
