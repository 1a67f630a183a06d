"""Options on workers at the command line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import runner
from tests.cli.histories import small

ONE = "is computed by one process, with all cores .*; replay, sweep, .* take --workers and"


@pytest.mark.compiled
def test_a_replay_by_workers_is_that_of_this_process(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = runner("replay", capfdbinary, monkeypatch)
    history = small(tmp_path / "history")
    here = replay(history, "--out", tmp_path / "d.parquet", "--score")
    data = (tmp_path / "d.parquet").read_bytes()
    (tmp_path / "d.parquet").unlink()
    there = replay(history, "--out", tmp_path / "d.parquet", "--score", "--workers", "2")
    assert there == here
    assert (tmp_path / "d.parquet").read_bytes() == data
    shutil.rmtree(history)
    gone = replay(history, "--workers", "2")
    assert gone.code == 2
    assert "there is no such folder" in gone.stderr


@pytest.mark.parametrize(
    ("command", "options", "told"),
    [
        ("replay", ["--workers", "0"], r"--workers: expected a whole number of at least 1, got 0"),
        ("sweep", ["--grid", "max=9", "--out", "s", "--parts", "p"], r"--parts without --sched"),
        ("fit", ["--workers", "2", "--scheduler", "tcp://x:1"], r"--workers and --scheduler: expe"),
        ("synth", ["--workers", "2"], ONE),
        ("simulate", ["--scheduler", "tcp://127.0.0.1:8786"], ONE),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    options: list[str],
    told: str,
) -> None:
    done = runner(command, capfdbinary, monkeypatch)(tmp_path, *options)
    assert done.code == 2
    assert re.search(told, done.stderr), done.stderr


def test_an_import_of_tables_takes_no_workers(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = runner("import", capfdbinary, monkeypatch)("table", "usage.csv", "--workers", "2")
    assert done.code == 2
    assert re.search(ONE, done.stderr), done.stderr
