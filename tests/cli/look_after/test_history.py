"""`hpabatch history` at the command line: data on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import EXIT_REFUSED, HistoryError, UsageError
from tests.cli.commands import invoke
from tests.history.frames import write_all

run = partial(invoke, "history")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_all(tmp_path / "flat")


@pytest.fixture
def store(folder: Path, tmp_path: Path) -> Path:
    assert run("migrate", str(folder), str(tmp_path / "store")).exit_code == 0
    return tmp_path / "store"


def test_info_is_a_table(folder: Path) -> None:
    result = run("info", str(folder))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"{folder}: flat, schema 5, cluster demo"
    assert lines[2].split() == ["TABLE", "ROWS", "BYTES", "FILES", "FIRST", "LAST"]
    assert lines[3].split()[:2] == ["pod_metrics", "6"]
    assert lines[3].split()[4:] == ["2026-10-07T00:00:00Z", "2026-10-07T00:02:00Z"]
    assert next(line for line in lines if line.startswith("pods ")).split()[4:] == ["-", "-"]
    assert result.stderr == ""


def test_info_tells_how_it_was_come_by(folder: Path, store: Path) -> None:
    text = run("info", str(folder)).stdout
    assert "hpas.spec.behavior  manifest  1" in text
    document = json.loads(run("info", str(store), "-o", "json").stdout)
    assert document["provenance"][0]["subject"] == "hpas.spec.behavior"
    assert document["unrecorded"] == {"hpas.spec.behavior": [], "hpas.spec.metrics": []}
    rows = run("info", str(store), "--provenance", "-o", "csv").stdout.splitlines()
    assert rows[0].startswith("cluster,namespace,name,subject,valid_from,")
    assert rows[1].startswith("demo,shop,cart,hpas.spec.behavior,2026-10-06T23:00:00.000Z,,man")


def test_info_warns_of_what_is_left_over(store: Path) -> None:
    (store / "pods" / "cluster=demo" / "left.parquet").write_text("")
    result = run("info", str(store))
    assert result.exit_code == 0
    assert "warning: 1 unnamed file (" in result.stderr
    assert (
        "1 unnamed file" in json.loads(run("info", str(store), "-o", "json").stdout)["problems"][0]
    )


def test_check_of_a_sound_history(folder: Path, store: Path) -> None:
    for path in (folder, store):
        result = run("check", str(path))
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "15 files in 15 tables: 0 findings\n"
        assert run("check", str(path), "-o", "json").stdout == "[]\n"
        assert run("check", str(path), "--exit-code").exit_code == 0


def test_check_lists_findings(store: Path) -> None:
    file = next((store / "scales").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-1])
    result = run("check", str(store))
    assert result.exit_code == 0
    assert run("check", str(store), "--exit-code").exit_code == EXIT_REFUSED
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["TABLE", "FILE", "PROBLEM"]
    assert lines[1].startswith("scales ")
    assert "was cut short or changed" in lines[1]
    assert result.stderr.endswith(": 1 finding\n")
    (row,) = json.loads(run("check", str(store), "-o", "json").stdout)
    assert row["table"] == "scales"
    assert run("check", str(store), "-o", "csv").stdout.startswith("table,file,problem\n")
    assert pl.read_parquet(run("check", str(store), "-o", "parquet").stdout_bytes).height == 1


def test_what_cannot_be_opened(tmp_path: Path, folder: Path) -> None:
    for name in ("info", "check"):
        with pytest.raises(HistoryError, match="there is no such folder"):
            run(name, str(tmp_path / "nowhere"))
    with pytest.raises(HistoryError, match="only a store is compacted"):
        run("compact", str(folder))
    with pytest.raises(UsageError, match="cannot be migrated into itself"):
        run("migrate", str(folder), str(folder / ".." / "flat"))


def test_compact_and_migrate_tell_what_they_did(store: Path, folder: Path) -> None:
    result = run("compact", str(store))
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{store}: 15 files (" in result.stderr
    again = run("migrate", str(folder), str(store))
    assert again.stderr == f"{store}: 0 rows in 0 parts; 15 parts there already\n"


def test_a_migration_passes_warnings_on(folder: Path, tmp_path: Path) -> None:
    (folder / "notes").mkdir()
    result = run("migrate", str(folder), str(tmp_path / "new"))
    assert "warning: " in result.stderr
    assert "notes is not a history table" in result.stderr
