"""The file of decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from hpabatch.jobs import parquet
from hpabatch.jobs.parquet import EVIDENCE_KEY, NEVER_NULL, write_parquet
from tests.engine.made import decisions

EVIDENCE = {"k8s": "1.38", "delay": "0 ms (assumed)"}


def enums(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with its texts as Enum."""
    texts = [s for s in frame if s.dtype == pl.String()]
    return frame.with_columns(
        s.cast(pl.Enum(["unused", *s.drop_nulls().unique().sort()])) for s in texts
    )


@pytest.mark.parametrize("kind", ["String", "Categorical", "Enum"])
def test_decisions_come_back_as_they_were(tmp_path: Path, kind: str) -> None:
    frame = decisions([{"hpa": name, "error": e} for name, e in (("a", None), ("b", "x"))])
    cast: Any = {
        "String": lambda f: f,
        "Categorical": lambda f: f.with_columns(pl.col(pl.String).cast(pl.Categorical)),
        "Enum": enums,
    }[kind]
    path = tmp_path / "d.parquet"
    write_parquet(cast(frame), EVIDENCE, path)
    assert pl.read_parquet(path).equals(frame.with_columns(pl.col(pl.Enum).cast(pl.String)))
    assert json.loads(pl.read_parquet_metadata(path)[EVIDENCE_KEY]) == EVIDENCE


def test_the_same_frame_gives_the_same_bytes(tmp_path: Path) -> None:
    frame = decisions([{"hpa": f"h{k}", "replicas": k} for k in range(100)])
    for name in ("a", "b"):
        # What else the process has seen numbers the words of a Categorical.
        pl.Series([f"{name}{k}" for k in range(9)], dtype=pl.Categorical)
        seen = frame.with_columns(pl.col(pl.String).cast(pl.Categorical))
        write_parquet(seen, EVIDENCE, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_row_groups_do_not_change_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = decisions([{"replicas": k} for k in range(10)])
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 3)
    write_parquet(frame, EVIDENCE, tmp_path / "d.parquet")
    assert pl.read_parquet(tmp_path / "d.parquet").equals(frame)
    assert pq.read_metadata(tmp_path / "d.parquet").num_row_groups == 4


def test_an_empty_frame_keeps_its_columns(tmp_path: Path) -> None:
    write_parquet(decisions([]), EVIDENCE, tmp_path / "d.parquet")
    assert pl.read_parquet(tmp_path / "d.parquet").equals(decisions([]))


def test_readers_can_skip_row_groups_by_hpa_and_time(tmp_path: Path) -> None:
    write_parquet(decisions([{"hpa": "a"}, {"hpa": "b"}]), EVIDENCE, tmp_path / "d.parquet")
    found = pq.ParquetFile(tmp_path / "d.parquet", page_checksum_verification=True)
    found.read()
    for k, name in enumerate(found.schema.names):
        column = found.metadata.row_group(0).column(k)
        assert column.is_stats_set == (name in parquet.SORTED_BY)
        nullable = found.schema.column(k).max_definition_level == 1
        assert nullable == (name not in NEVER_NULL)


def test_a_null_where_none_should_be_is_kept(tmp_path: Path) -> None:
    frame = decisions([{}, {}]).with_columns(min_replicas=pl.Series([1, None]))
    write_parquet(frame, EVIDENCE, tmp_path / "d.parquet")
    assert pl.read_parquet(tmp_path / "d.parquet").equals(frame)
