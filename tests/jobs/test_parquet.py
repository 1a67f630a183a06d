"""The file of decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from hpabatch.engine.replay.decisions import METRIC_FIELDS
from hpabatch.engine.replay.decisions import WHY_SCHEMA as SCHEMA
from hpabatch.jobs import parquet
from hpabatch.jobs.parquet import EVIDENCE_KEY, NEVER_NULL, write_parquet
from tests.engine.made import PERIOD, START, decisions
from tests.engine.naive_align import Row

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


def test_readers_can_skip_row_groups_by_hpa_and_time(tmp_path: Path) -> None:
    write_parquet(decisions([{"hpa": "a"}, {"hpa": "b"}]), EVIDENCE, tmp_path / "d.parquet")
    found = pq.ParquetFile(tmp_path / "d.parquet", page_checksum_verification=True)
    found.read()
    for k, name in enumerate(found.schema.names):
        column = found.metadata.row_group(0).column(k)
        assert column.is_stats_set == (name in parquet.SORTED_BY)
        nullable = found.schema.column(k).max_definition_level == 1
        assert nullable == (name not in NEVER_NULL)


# ---- columns of lists ----------------------------------------------------------------------------

NOTHING: Row = dict.fromkeys(METRIC_FIELDS)
CPU: Row = NOTHING | {
    "metric": "cpu resource", "proposal": 3, "ratio": 1.5, "average_milli": 2**62, "step": "ratio",
    "ready": 2, "unready": 0,
}  # fmt: skip
FAILED: Row = NOTHING | {"metric": "pods metric ≥ x", "error": "no metrics returned"}


def explained(*metrics: list[Row] | None) -> pl.DataFrame:
    """Return a decision with the columns of why for each list."""
    numbers = range(len(metrics))
    columns: dict[str, list[Any]] = {
        "metrics": list(metrics),
        "status_written": [k % 2 == 0 for k in numbers],
        "last_scale_time": [None if k % 3 else START + k * PERIOD for k in numbers],
        "scaled_to_zero": [None if k % 2 else "ScaledToZero" for k in numbers],
    }
    why = pl.DataFrame(columns, schema=SCHEMA)
    return decisions([{"hpa": f"h{k}"} for k in numbers]).hstack(why)


LISTS: tuple[list[Row] | None, ...] = ([CPU, FAILED], [], [FAILED], [NOTHING], None, [CPU] * 3)


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_lists_come_back_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    frame = explained(*LISTS)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", rows)
    write_parquet(frame, EVIDENCE, tmp_path / "d.parquet")
    found = pl.read_parquet(tmp_path / "d.parquet")
    assert found.equals(frame)
    assert found.schema == frame.schema
    # A slice begins in the middle of what Arrow holds.
    write_parquet(frame.slice(2, 3), EVIDENCE, tmp_path / "s.parquet")
    assert pl.read_parquet(tmp_path / "s.parquet").equals(frame.slice(2, 3))


def test_other_readers_find_plain_lists_of_structs(tmp_path: Path) -> None:
    write_parquet(explained(*LISTS), EVIDENCE, tmp_path / "d.parquet")
    found = pq.read_table(tmp_path / "d.parquet")
    kind = found.schema.field("metrics").type
    assert str(kind.value_type.field("metric").type) == "string"
    assert str(kind.value_type.field("ready").type) == "int64"
    assert found["metrics"].to_pylist() == list(LISTS)
    file = pq.ParquetFile(tmp_path / "d.parquet", page_checksum_verification=True)
    group = file.metadata.row_group(0)
    encodings = {
        group.column(k).path_in_schema: group.column(k).encodings for k in range(group.num_columns)
    }
    # Names repeat in every row: they and the counts are cheap by dictionary, ratios are not.
    for name in ("metric", "step", "error", "proposal", "ready"):
        assert "RLE_DICTIONARY" in encodings[f"metrics.list.element.{name}"]
    assert "RLE_DICTIONARY" not in encodings["metrics.list.element.ratio"]
