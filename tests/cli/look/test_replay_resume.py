"""A replay that is interrupted goes on; whatever happens, the output is whole or not there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpabatch.engine.fleet import plan
from tests.cli.commands import Run, runner
from tests.cli.histories import small

# An HPA per shard, and something that goes wrong at a chosen place: PLACE is the function, by
# module and name, whose call number AT ends the process, after writing a few bytes where it would.
PROGRAM = """
import importlib, os, pathlib, signal, sys
from hpabatch.engine.fleet import plan
plan.SHARD_DECISIONS = 1
module, _, name = os.environ.get("PLACE", "").partition(":")
if module:
    owner = importlib.import_module(module)
    real, calls = getattr(owner, name), []
    def stop(*arguments, **more):
        calls.append(1)
        if len(calls) < int(os.environ["AT"]):
            return real(*arguments, **more)
        for argument in arguments:
            if isinstance(argument, pathlib.Path) and not argument.exists():
                argument.write_bytes(b"half")
        os.kill(os.getpid(), int(os.environ.get("SIGNAL", signal.SIGKILL)))
        import time; time.sleep(60)
    setattr(owner, name, stop)
sys.argv = ["hpabatch", "replay", *sys.argv[1:]]
from hpabatch.cli import main
main()
"""
SHARDS = 5
JOB = ".decisions.parquet.job"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("resume") / "history")


@pytest.fixture(scope="module")
def whole(history: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Return the file and stdout of a replay that nobody interrupts, in a process of its own."""
    folder = tmp_path_factory.mktemp("whole")
    done = started(folder, history)
    assert done.returncode == 0, done.stderr
    return (folder / "decisions.parquet").read_bytes(), done.stdout


def started(
    folder: Path, history: Path, *arguments: str, out: str = "decisions.parquet", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process and a folder."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(history), "--out", out, "-o", "json", *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        check=False,
    )


@pytest.fixture
def replay(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Return a function that runs the command here, in the test's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "SHARD_DECISIONS", 1)
    return runner("replay", capsysbinary, monkeypatch)


OUT = ("--out", "decisions.parquet", "-o", "json")


# Where else a run may end, full disks and other commands: tests/jobs/test_resume.py.
KILLED = {
    "in a part": ("hpabatch.jobs.replay:write_parquet", "3"),
    "while joining": ("hpabatch.jobs.joining:_copy", "3"),
}


@pytest.mark.parametrize("where", KILLED)
def test_killed_and_resumed(
    replay: Run, tmp_path: Path, history: Path, whole: tuple[bytes, bytes], where: str
) -> None:
    place, at = KILLED[where]
    killed = started(tmp_path, history, PLACE=place, AT=at)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert killed.stdout == b""
    assert not (tmp_path / "decisions.parquet").exists()
    kept = len([p for p in (tmp_path / JOB / "tasks").iterdir() if p.name[0] != "."])
    done = replay(history, *OUT)
    assert done.code == 0, done.stderr
    if kept:
        assert f"resumed: {kept} of {SHARDS} parts were done" in done.stderr
    assert (tmp_path / "decisions.parquet").read_bytes() == whole[0]
    assert done.data == whole[1]
    assert [p.name for p in tmp_path.iterdir()] == ["decisions.parquet"]


def test_ctrl_c_keeps_what_is_done(
    replay: Run, tmp_path: Path, history: Path, whole: tuple[bytes, bytes]
) -> None:
    place = {"PLACE": "hpabatch.engine.replay.run:run_step", "AT": "9", "SIGNAL": "2"}
    stopped = started(tmp_path, history, **place)
    assert (stopped.returncode, stopped.stdout) == (130, b"")
    told = stopped.stderr.decode().splitlines()[-1]
    # The part that was being saved may be lost: polars ends its query.
    kept = re.match("interrupted: nothing was written; ([1-4]) of 5 parts are kept in ", told)
    assert kept
    assert told.endswith(f"{JOB}: the same command goes on from there")
    assert [p.name for p in tmp_path.iterdir()] == [JOB]
    done = replay(history, *OUT)
    assert f"resumed: {kept[1]} of 5 parts were done" in done.stderr
    assert (tmp_path / "decisions.parquet").read_bytes() == whole[0]
