"""Jobs that end early go on: output is whole or not there, and the same bytes in the end.

Where else a job may end: tests/jobs.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
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
module, _, name = os.environ.get("PLACE", "").partition(":")
if module:
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


@dataclass(frozen=True)
class Job:
    """A command that can be resumed.

    Attributes:
        words: the command; HISTORY stands for its history.
        out: what it makes.
        parts: their number.
        ends: where it is killed, and where it is interrupted.
        other: options that make it another command.
        refused: what that is told.
        discard: the option that begins anew.
    """

    words: tuple[str, ...]
    out: str
    parts: int
    ends: tuple[tuple[str, str], tuple[str, str]]
    other: tuple[str, ...]
    refused: str
    discard: str

    @property
    def folder(self) -> str:
        return f".{self.out}.job"


JOBS = {
    "replay": Job(
        ("replay", "HISTORY", "--out", "decisions.parquet", "-o", "json"),
        "decisions.parquet",
        5,
        (("hpabatch.jobs.joining:_copy", "3"), ("hpabatch.engine.replay.run:run_step", "9")),
        ("--max-age", "3m"),
        "max_age was 150000 ms (estimated), is 180000 ms (given)",
        "--restart",
    ),
    "sweep": Job(
        ("sweep", "HISTORY", "--grid", "max=+1,+2,+3", "--for", "20m", "--no-fidelity", "--out",
         "sweep", "-o", "json"),
        "sweep",
        2 * (1 + 4),
        (("hpabatch.jobs.sweep:run_part", "4"), ("hpabatch.jobs.sweep:run_part", "6")),
        ("--seed", "5"),
        "(seed was 0, is 5)",
        "--replace",
    ),
}  # fmt: skip


@pytest.fixture(
    scope="module", params=["replay", pytest.param("sweep", marks=pytest.mark.compiled)]
)
def job(request: pytest.FixtureRequest) -> Job:
    return JOBS[request.param]


@pytest.fixture(scope="module")
def history(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "history"
    if job.words[0] == "replay":
        return small(folder)
    return cut(folder, "payments/api", "shop/checkout", hours=1)


def words_of(job: Job, history: Path) -> list[str]:
    return [word.replace("HISTORY", str(history)) for word in job.words]


def started(
    job: Job, folder: Path, history: Path, limit: int | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process and a folder, where no file may be larger than `limit`."""

    def small_files() -> None:
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words_of(job, history)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        preexec_fn=small_files,
        check=False,
    )


def files(job: Job, folder: Path) -> dict[str, bytes]:
    out = folder / job.out
    return {p.name: p.read_bytes() for p in ([out] if out.is_file() else out.iterdir())}


@pytest.fixture(scope="module")
def whole(job: Job, history: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files and stdout of a run in one thread that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    done = started(job, folder, history, NUMBA_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    return {**files(job, folder), "stdout": done.stdout}


@pytest.fixture
def run(
    job: Job,
    history: Path,
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Return a function that runs the command here, in the test's folder, with more options."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "SHARD_DECISIONS", 1)
    monkeypatch.setattr(engine, "HPAS_AT_ONCE", 1)
    monkeypatch.setattr(engine, "STEPS_AT_ONCE", 1)
    command, *others = words_of(job, history)
    call = runner(command, capsysbinary, monkeypatch)
    return lambda *more: call(*others, *more)


def test_killed_and_resumed(
    job: Job, run: Run, tmp_path: Path, history: Path, whole: dict[str, bytes]
) -> None:
    place, at = job.ends[0]
    killed = started(job, tmp_path, history, PLACE=place, AT=at, SIGNAL=str(int(signal.SIGKILL)))
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"")
    assert os.listdir(tmp_path) == [job.folder]
    kept = len([p for p in (tmp_path / job.folder / "tasks").iterdir() if p.name[0] != "."])
    done = run()
    assert done.code == 0, done.stderr
    assert f"resumed: {kept} of {job.parts} parts were done" in done.stderr
    assert {**files(job, tmp_path), "stdout": done.data} == whole
    assert os.listdir(tmp_path) == [job.out]


def test_ctrl_c_keeps_what_is_done_for_the_same_command_only(
    job: Job, run: Run, tmp_path: Path, history: Path, whole: dict[str, bytes]
) -> None:
    place, at = job.ends[1]
    stopped = started(job, tmp_path, history, PLACE=place, AT=at, SIGNAL=str(int(signal.SIGINT)))
    assert (stopped.returncode, stopped.stdout) == (130, b"")
    last = stopped.stderr.decode().splitlines()[-1]
    # The part that was being saved may be lost: polars ends its query.
    pattern = rf"interrupted: nothing was written; ([1-9]) of {job.parts} parts are kept in .*"
    kept = re.fullmatch(pattern + f"{job.folder}: the same command goes on from there", last)
    assert kept, last
    assert os.listdir(tmp_path) == [job.folder]
    refused = run(*job.other)
    assert (refused.code, refused.data) == (2, b"")
    assert job.refused in refused.stderr
    assert f"repeat that one to finish it, or discard it with {job.discard}" in refused.stderr
    done = run()
    assert done.stderr == f"resumed: {kept[1]} of {job.parts} parts were done\n"
    assert {**files(job, tmp_path), "stdout": done.data} == whole
    if job.words[0] == "replay":
        assert "resumed" not in run(*job.other, job.discard).stderr


def test_a_full_disk(
    job: Job, run: Run, tmp_path: Path, history: Path, whole: dict[str, bytes]
) -> None:
    """A part is smaller than a file may be here, the whole of them is not."""
    largest = max(len(data) for name, data in whole.items() if name.endswith(".parquet"))
    full = started(job, tmp_path, history, limit=largest - 1)
    assert (full.returncode, full.stdout) == (2, b"")
    last = full.stderr.decode().splitlines()[-1]
    assert f"{job.out}: File too large; choose another place" in last
    assert last.endswith(f"{job.folder}: the same command goes on from there")
    assert os.listdir(tmp_path) == [job.folder]
    done = run()
    assert f"resumed: {job.parts} of {job.parts} parts were done" in done.stderr
    assert {**files(job, tmp_path), "stdout": done.data} == whole
