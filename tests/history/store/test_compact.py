"""Compaction: same rows, fewer files, and nothing lost wherever it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.info import describe_history
from hpabatch.history.reader import open_history
from hpabatch.history.store import upkeep as module
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.catalog import entry_name, load_snapshot
from hpabatch.history.store.rows import DataFiles
from hpabatch.history.store.storage import LocalStorage
from hpabatch.history.store.upkeep import compact
from tests.history.frames import ROWS, frame


def fill(folder: Path) -> Path:
    """Write a store in several parts, some rows more than once."""
    writer = open_writer(folder)
    for number in range(3):
        with writer.part(f"part {number}") as part:
            for table in ROWS:
                rows = frame(table)
                if "ts" in rows.columns:
                    rows = rows.with_columns(pl.col("ts") + timedelta(hours=number))
                part.add(table, rows)
    return folder


def contents(folder: Path) -> dict[str, pl.DataFrame]:
    history = open_history(folder)
    return {table: history.read(table) for table in history.tables}


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_the_rows_stay_and_the_files_become_few(tmp_path: Path) -> None:
    before = contents(fill(tmp_path))
    done = compact(tmp_path, grace_s=-1)
    assert (done.files_before, done.files_after) == (37, 16)
    assert done.bytes_after < done.bytes_before
    after = contents(tmp_path)
    for table, rows in before.items():
        assert_frame_equal(after[table], rows)
    assert len(names(tmp_path)) == 16 + 1
    assert open_writer(tmp_path).has_part("part 2")
    assert describe_history(open_history(tmp_path)).problems == ()


def test_a_reader_of_an_older_state_keeps_its_files(tmp_path: Path) -> None:
    older = open_history(fill(tmp_path))
    before = contents(tmp_path)
    compact(tmp_path)
    for table in older.tables:
        assert_frame_equal(older.read(table), before[table])
    compact(tmp_path, grace_s=-1)  # a day later
    assert len(names(tmp_path)) == 16 + 1


def test_places_are_merged_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, loaded = frame("scales"), []
    for folder in ("batches", "whole"):
        writer = open_writer(tmp_path / folder)
        for number in range(6):
            rows = pl.concat(
                base.with_columns(
                    target=pl.lit(f"t{place:02}"),
                    ts=pl.col("ts") + timedelta(minutes=number + minute),
                    spec_replicas=pl.lit(number, dtype=pl.Int64()),
                )
                for place in range(20)
                for minute in range(3)  # Two are replaced by the next part.
            )
            with writer.part() as part:
                part.add("scales", rows)
    before = open_history(tmp_path / "batches").read("scales")
    assert before.height == 20 * 8
    compact(tmp_path / "whole", grace_s=-1)
    load = DataFiles._load

    def spy(self: DataFiles, *arguments: Any) -> list[pl.DataFrame]:
        found = load(self, *arguments)
        loaded.append(sum(frame.height for frame in found))
        return found

    monkeypatch.setattr(module, "BATCH_ROWS", 60)
    monkeypatch.setattr(DataFiles, "_load", spy)
    compact(tmp_path / "batches", grace_s=-1)
    assert max(loaded) <= 60 + 6 * 3
    assert_frame_equal(open_history(tmp_path / "batches").read("scales"), before)
    data = [[n for n in names(tmp_path / f) if n[0] != "_"] for f in ("batches", "whole")]
    assert data[0] == data[1]


def test_only_a_store_is_compacted(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="holds no store; only a store is compacted"):
        compact(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_damaged_store_is_not_compacted(tmp_path: Path) -> None:
    fill(tmp_path)
    victim = next((tmp_path / "pods").rglob("*.parquet"))
    content = bytearray(victim.read_bytes())
    content[20] ^= 1
    victim.write_bytes(content)
    with open_writer(tmp_path).part() as part:
        part.add("pods", frame("pods").with_columns(uid=pl.lit("new")))
    before = load_snapshot(LocalStorage(tmp_path))
    with pytest.raises(HistoryError, match="is damaged: the bytes of row group 0"):
        compact(tmp_path)
    assert load_snapshot(LocalStorage(tmp_path)) == before
    assert {f.path for f in before.files} <= set(names(tmp_path))


def racing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have a part added just before the next commit; return whose place it takes."""
    create = LocalStorage.create
    raced: list[str] = []

    def race(self: LocalStorage, name: str, data: bytes) -> bool:
        if not raced:
            raced.append(name)
            with open_writer(folder).part("late") as part:
                part.add("scales", frame("scales").with_columns(spec_replicas=pl.lit(77)))
        return create(self, name, data)

    monkeypatch.setattr(LocalStorage, "create", race)
    return raced


def test_a_part_that_is_added_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    raced = racing(tmp_path, monkeypatch)
    compact(tmp_path)
    assert raced == [entry_name(5)]
    snapshot = load_snapshot(LocalStorage(tmp_path))
    assert snapshot.is_checkpoint
    assert "late" in snapshot.parts
    assert open_history(tmp_path).read("scales")["spec_replicas"].to_list() == [77, 2, 2]


KILLED = """
import os, signal, sys
from hpabatch.history.store.upkeep import compact
from hpabatch.history.store.storage import LocalStorage

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

create = LocalStorage.create
step = sys.argv[2]
if step == "create":
    LocalStorage.create = die
else:
    LocalStorage.delete = die
compact(sys.argv[1])
"""


def test_parts_that_come_all_the_time_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    racing(tmp_path, monkeypatch)
    monkeypatch.setattr("hpabatch.history.store.upkeep._MOST_TRIES", 1)
    with pytest.raises(UsageError, match="parts are added faster than it is compacted"):
        compact(tmp_path)


@pytest.mark.parametrize("step", ["create", "delete"])
def test_killed_anywhere_it_loses_nothing_and_can_start_again(tmp_path: Path, step: str) -> None:
    before = contents(fill(tmp_path / "store"))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "store"), step], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    for table, rows in contents(tmp_path / "store").items():
        assert_frame_equal(rows, before[table])
    compact(tmp_path / "store", grace_s=-1)
    compact(fill(tmp_path / "other"), grace_s=-1)
    data = [n for n in names(tmp_path / "store") if not n.startswith("_log")]
    assert data == [n for n in names(tmp_path / "other") if not n.startswith("_log")]
    for name in data:
        assert (tmp_path / "store" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_young_unnamed_file_may_be_somebodys(tmp_path: Path) -> None:
    fill(tmp_path)
    folder = tmp_path / "pods" / "cluster=demo"
    young, old = folder / "young.parquet", folder / "old.parquet"
    strange = tmp_path / "README", tmp_path / "notes" / "a.parquet"
    strange[1].parent.mkdir()
    for path in (young, old, *strange):
        path.write_text("")
        os.utime(path, None if path == young else (0, 0))
    compact(tmp_path)
    assert all(path.exists() for path in (young, *strange))
    assert not old.exists()
