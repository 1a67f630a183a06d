"""Commands whose process ends early go on: output is whole or not there, the same bytes in the end.

Wherever else a job may end, in one process: tests/jobs/test_resume.py.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpabatch.engine.fleet import plan
from hpabatch.engine.sweep import run as engine
from tests.cli.commands import Run, runner
from tests.cli.histories import small
from tests.engine.swept import cut

# An HPA (and a setting) per part. PLACE is the function, by module and name, whose call number AT
# sends SIGNAL to the process, after writing a few bytes where it would.
PROGRAM = """
import importlib, os, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # (a shell's background jobs ignore it)
from hpabatch.engine.fleet import plan
from hpabatch.engine.sweep import run as sweep
plan.SHARD_DECISIONS = sweep.HPAS_AT_ONCE = sweep.STEPS_AT_ONCE = 1
module, _, name = os.environ["PLACE"].partition(":")
owner = importlib.import_module(module)
real, calls = getattr(owner, name), []
def stop(*arguments, **more):
    calls.append(1)
    if len(calls) != int(os.environ["AT"]):
        return real(*arguments, **more)
    for argument in arguments:
        if isinstance(argument, pathlib.Path) and not argument.exists():
            argument.write_bytes(b"half")
    os.kill(os.getpid(), int(os.environ["SIGNAL"]))
    return real(*arguments, **more)
setattr(owner, name, stop)
sys.argv = ["hpabatch", *sys.argv[1:]]
from hpabatch.cli import main
main()
"""

REPLAY = ("replay", "history", "--out", "decisions.parquet", "-o", "json")
SWEEP = ("sweep", "history", "--grid", "max=+1,+2,+3", "--for", "20m", "--no-fidelity", "--out",
         "sweep", "-o", "json")  # fmt: skip


@pytest.fixture
def run(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Return a function that runs a command here, in the test's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "SHARD_DECISIONS", 1)
    monkeypatch.setattr(engine, "HPAS_AT_ONCE", 1)
    monkeypatch.setattr(engine, "STEPS_AT_ONCE", 1)
    return lambda command, *words: runner(command, capsysbinary, monkeypatch)(*words)


def ended(
    words: tuple[str, ...], place: str, at: int, number: int
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process that gets a signal at a place."""
    where = {"PLACE": place, "AT": str(at), "SIGNAL": str(int(number))}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env=os.environ | where, capture_output=True, check=False,
    )  # fmt: skip


def taken(out: Path) -> dict[str, bytes]:
    """Return the files of a result, which is gone then."""
    files = [out] if out.is_file() else list(out.iterdir())
    found = {path.name: path.read_bytes() for path in files}
    for path in files:
        path.unlink()
    if out.is_dir():
        out.rmdir()
    return found


@pytest.mark.parametrize(
    ("words", "place", "at", "parts"),
    [
        (REPLAY, "hpabatch.jobs.joining:_copy", 3, 5),
        pytest.param(
            SWEEP, "hpabatch.jobs.sweep:run_part", 4, 2 * (1 + 4), marks=pytest.mark.compiled
        ),
    ],
    ids=("replay", "sweep"),
)
def test_killed_and_resumed(
    run: Run, tmp_path: Path, words: tuple[str, ...], place: str, at: int, parts: int
) -> None:
    if words is REPLAY:
        small(tmp_path / "history")
    else:
        cut(tmp_path / "history", "payments/api", "shop/checkout", hours=1)
    out = Path(words[words.index("--out") + 1])
    whole = run(*words)
    expected = taken(out)
    killed = ended(words, place, at, signal.SIGKILL)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"")
    job = f".{out}.job"
    assert sorted(os.listdir()) == sorted(["history", job])
    kept = len([p for p in Path(job, "tasks").iterdir() if p.name[0] != "."])
    done = run(*words)
    assert (done.code, done.data) == (0, whole.data), done.stderr
    assert f"resumed: {kept} of {parts} parts were done" in done.stderr
    assert taken(out) == expected
    assert os.listdir() == ["history"]


def test_ctrl_c_keeps_what_is_done_for_the_same_command_only(run: Run, tmp_path: Path) -> None:
    small(tmp_path / "history")
    stopped = ended(REPLAY, "hpabatch.engine.replay.run:run_step", 9, signal.SIGINT)
    assert (stopped.returncode, stopped.stdout) == (130, b"")
    last = stopped.stderr.decode().splitlines()[-1]
    # The part that was being saved may be lost: polars ends its query.
    kept = re.fullmatch(
        r"interrupted: nothing was written; ([1-9]) of 5 parts are kept in "
        r".*\.decisions\.parquet\.job: the same command goes on from there",
        last,
    )
    assert kept, last
    refused = run(*REPLAY, "--max-age", "3m")
    assert (refused.code, refused.data) == (2, b"")
    assert "max_age was 150000 ms (estimated), is 180000 ms (given)" in refused.stderr
    assert "repeat that one to finish it, or discard it with --restart" in refused.stderr
    assert run(*REPLAY).stderr == f"resumed: {kept[1]} of 5 parts were done\n"
