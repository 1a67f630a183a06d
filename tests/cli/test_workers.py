"""Options on workers at the command line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from hpabatch.cli.app import app
from hpabatch.errors import UnfinishedError
from tests.cli.commands import runner
from tests.cli.histories import small


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell no progress, which a busy machine has more of."""
    for name in ("_TELL_EVERY_S", "_MEASURED_S"):
        monkeypatch.setattr(f"hpabatch.cli.progress.{name}", 1e9)


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


def test_what_passes_has_an_exit_code_of_its_own(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise UnfinishedError("tcp://x:1 does not answer as a Dask scheduler")

    monkeypatch.setattr(type(app), "__call__", fail)
    done = runner("replay", capfdbinary, monkeypatch)()
    assert (done.code, done.data) == (75, b"")
    assert done.stderr == "error: tcp://x:1 does not answer as a Dask scheduler\n"
