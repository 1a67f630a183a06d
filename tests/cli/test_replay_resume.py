"""A replay that is interrupted goes on; whatever happens, the output is whole or not there."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.cli.histories import small

# An HPA per shard, and something that goes wrong at a chosen place: PLACE is the function, by
# module and name, whose call number AT ends the process, after writing a few bytes where it would.
PROGRAM = """
import importlib, os, pathlib, signal, sys
from hpabatch.engine import plan
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
    """Return the file and stdout of a replay that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    done = replay(folder, history)
    assert done.returncode == 0, done.stderr
    return (folder / "decisions.parquet").read_bytes(), done.stdout


def replay(
    folder: Path, history: Path, *arguments: str, out: str = "decisions.parquet", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a folder."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(history), "--out", out, "-o", "json", *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        check=False,
    )


# Where else a run may end: tests/jobs/test_replay_job.py.
KILLED = {
    "in a part": ("hpabatch.jobs.parts:write_parquet", "3"),
    "while joining": ("hpabatch.jobs.joining:_copy", "3"),
}


@pytest.mark.parametrize("where", KILLED)
def test_killed_and_resumed(
    tmp_path: Path, history: Path, whole: tuple[bytes, bytes], where: str
) -> None:
    place, at = KILLED[where]
    killed = replay(tmp_path, history, PLACE=place, AT=at)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert killed.stdout == b""
    assert not (tmp_path / "decisions.parquet").exists()
    kept = len([p for p in (tmp_path / JOB / "tasks").iterdir() if p.name[0] != "."])
    done = replay(tmp_path, history)
    assert done.returncode == 0, done.stderr
    if kept:
        assert f"resumed: {kept} of {SHARDS} parts were done" in done.stderr.decode()
    assert (tmp_path / "decisions.parquet").read_bytes() == whole[0]
    assert done.stdout == whole[1]
    assert [p.name for p in tmp_path.iterdir()] == ["decisions.parquet"]


def test_ctrl_c_keeps_what_is_done(
    tmp_path: Path, history: Path, whole: tuple[bytes, bytes]
) -> None:
    stopped = replay(tmp_path, history, PLACE="hpabatch.engine.replay:run_step", AT="9", SIGNAL="2")
    assert (stopped.returncode, stopped.stdout) == (130, b"")
    told = stopped.stderr.decode().splitlines()[-1]
    # The part that was being saved may be lost: polars ends its query.
    kept = re.match("interrupted: nothing was written; ([1-4]) of 5 parts are kept in ", told)
    assert kept
    assert told.endswith(f"{JOB}: the same command goes on from there")
    assert [p.name for p in tmp_path.iterdir()] == [JOB]
    done = replay(tmp_path, history)
    assert f"resumed: {kept[1]} of 5 parts were done" in done.stderr.decode()
    assert (tmp_path / "decisions.parquet").read_bytes() == whole[0]


def stopped(folder: Path, history: Path, *arguments: str, out: str = "decisions.parquet") -> None:
    """Leave a job of which some tasks are done."""
    place = "hpabatch.jobs.parts:write_parquet"
    assert replay(folder, history, *arguments, out=out, PLACE=place, AT="4").returncode < 0


def test_another_command_does_not_resume(tmp_path: Path, history: Path) -> None:
    stopped(tmp_path, history)
    refused = replay(tmp_path, history, "--max-age", "3m")
    assert (refused.returncode, refused.stdout) == (2, b"")
    told = refused.stderr.decode()
    assert "max_age was 150000 ms (estimated), is 180000 ms (given)" in told
    assert "repeat that one to finish it, or discard it with --restart" in told
    done = replay(tmp_path, history, "--max-age", "3m", "--restart")
    assert done.returncode == 0, done.stderr
    assert "resumed" not in done.stderr.decode()
    assert [p.name for p in tmp_path.iterdir()] == ["decisions.parquet"]


# ---- disks that are full ------------------------------------------------------------------------


def test_a_full_disk(tmp_path: Path, history: Path, whole: tuple[bytes, bytes]) -> None:
    stopped(tmp_path, history)
    limit = len(whole[0]) - 1  # a part is smaller, the whole is not

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    full = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(history), "--out", "decisions.parquet"],
        cwd=tmp_path,
        capture_output=True,
        preexec_fn=small_files,
        check=False,
    )
    told = full.stderr.decode().splitlines()[-1]
    assert full.returncode == 2, full.stderr
    assert "error: cannot write decisions.parquet: File too large; choose another place" in told
    assert told.endswith("the same command goes on from there")
    assert [p.name for p in tmp_path.iterdir()] == [JOB]
    done = replay(tmp_path, history, "-o", "json")
    assert f"resumed: {SHARDS} of {SHARDS} parts were done" in done.stderr.decode()
    assert (tmp_path / "decisions.parquet").read_bytes() == whole[0]


# ---- folders ------------------------------------------------------------------------------------


def test_a_folder_of_parts(tmp_path: Path, history: Path, whole: tuple[bytes, bytes]) -> None:
    done = replay(tmp_path, history, out="decisions/")
    assert done.returncode == 0, done.stderr
    names = [*(f"part-{k:05}.parquet" for k in range(SHARDS))]
    folder = tmp_path / "decisions"
    assert sorted(p.name for p in folder.iterdir()) == ["evidence.json", *names]
    file = tmp_path / "whole.parquet"
    file.write_bytes(whole[0])
    assert pl.read_parquet(folder / "*.parquet").equals(pl.read_parquet(file))
    assert [p.name for p in tmp_path.iterdir() if p.name[0] == "."] == []

    # Its parts are what the one file is made of.
    from hpabatch.jobs.joining import join_parquet

    metadata = pl.read_parquet_metadata(file)
    own = {name: text for name, text in metadata.items() if name != "ARROW:schema"}
    join_parquet(sorted(folder.glob("*.parquet")), own, tmp_path / "joined.parquet")
    assert (tmp_path / "joined.parquet").read_bytes() == whole[0]


def test_a_folder_of_others_is_refused(tmp_path: Path, history: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    refused = replay(tmp_path, history, out="mine/")
    assert refused.returncode == 2
    assert "is a folder; name a file in it, or a new folder" in refused.stderr.decode()
