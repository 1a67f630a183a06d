"""A sweep that is killed goes on: the same bytes, whenever it ended and with how many threads."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpabatch.engine.sweep import run as engine
from tests.cli.commands import Run, runner
from tests.engine.swept import cut

pytestmark = pytest.mark.compiled

# Tasks of one HPA and one setting; PLACE is the function, by module and name, at whose call number
# AT the process gets SIGNAL.
PROGRAM = """
import importlib, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # (a shell's background jobs ignore it)
from hpabatch.engine.sweep import run as sweep
sweep.HPAS_AT_ONCE, sweep.STEPS_AT_ONCE = 1, 1
module, _, name = os.environ.get("PLACE", "").partition(":")
if module:
    owner = importlib.import_module(module)
    real, calls = getattr(owner, name), []
    def stop(*arguments, **more):
        calls.append(1)
        if len(calls) == int(os.environ["AT"]):
            os.kill(os.getpid(), int(os.environ["SIGNAL"]))
        return real(*arguments, **more)
    setattr(owner, name, stop)
sys.argv = ["hpabatch", "sweep", *sys.argv[1:]]
from hpabatch.cli import main
main()
"""
ARGUMENTS = (
    "--grid",
    "max=+1,+2,+3",
    "--for",
    "20m",
    "--no-fidelity",
    "--out",
    "sweep",
    "-o",
    "json",
)
TASKS = 2 * (1 + 4)
JOB = ".sweep.job"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "history"
    return cut(folder, "payments/api", "shop/checkout", hours=1)


def begin(
    folder: Path, history: Path, *arguments: str, **environment: str
) -> subprocess.Popen[bytes]:
    """Start the command in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(history), *ARGUMENTS, *arguments],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ran(folder: Path, history: Path, **environment: str) -> tuple[int, bytes, str]:
    """Run the command in a process and a folder; return its exit code, stdout and stderr."""
    process = begin(folder, history, **environment)
    out, told = process.communicate()
    return process.returncode, out, told.decode()


@pytest.fixture
def sweep(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Return a function that runs the command here, in the test's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "HPAS_AT_ONCE", 1)
    monkeypatch.setattr(engine, "STEPS_AT_ONCE", 1)
    return runner("sweep", capsysbinary, monkeypatch)


def files(folder: Path) -> dict[str, bytes]:
    return {place.name: place.read_bytes() for place in (folder / "sweep").iterdir()}


@pytest.fixture(scope="module")
def whole(history: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files and stdout of a sweep in one thread that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    code, out, told = ran(folder, history, NUMBA_NUM_THREADS="1")
    assert code == 0, told
    return {**files(folder), "stdout": out}


def test_killed_at_random_moments(
    sweep: Run, tmp_path: Path, history: Path, whole: dict[str, bytes]
) -> None:
    """Once while tasks are done, then within whatever a run happens to be doing, in two threads."""
    rng, kills = random.Random(11), 0
    for _ in range(2):
        process = begin(tmp_path, history, NUMBA_NUM_THREADS="2")
        until = time.monotonic() + 60
        tasks = tmp_path / JOB / "tasks"
        while process.poll() is None and time.monotonic() < until and not tasks.exists():
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.4))
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills
    done = sweep(history, *ARGUMENTS)
    assert done.code == 0, done.stderr
    assert {**files(tmp_path), "stdout": done.data} == whole
    assert os.listdir(tmp_path) == ["sweep"]


def test_ctrl_c_keeps_what_is_done(
    sweep: Run, tmp_path: Path, history: Path, whole: dict[str, bytes]
) -> None:
    place = {"PLACE": "hpabatch.jobs.sweep:run_part", "AT": "6", "SIGNAL": str(int(signal.SIGINT))}
    code, out, told = ran(tmp_path, history, **place)
    assert (code, out) == (130, b"")
    last = told.splitlines()[-1]
    kept = re.match(
        rf"interrupted: nothing was written; ([1-9]) of {TASKS} parts are kept in ", last
    )
    assert kept, told
    assert last.endswith(f"{JOB}: the same command goes on from there")
    assert os.listdir(tmp_path) == [JOB]
    done = sweep(history, *ARGUMENTS, "--seed", "5")
    assert (done.code, done.data) == (2, b"")
    assert "(seed was 0, is 5): repeat that one to finish it, or discard it with --replace" in (
        done.stderr
    )
    done = sweep(history, *ARGUMENTS)
    assert done.code == 0
    assert done.stderr == f"resumed: {kept[1]} of {TASKS} parts were done\n"
    assert {**files(tmp_path), "stdout": done.data} == whole


def test_a_full_disk(tmp_path: Path, history: Path, whole: dict[str, bytes]) -> None:
    """A part of the results is smaller than a file may be here, the whole of them is not."""
    limit = len(whole["results.parquet"]) - 1

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    full = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(history), *ARGUMENTS],
        cwd=tmp_path,
        capture_output=True,
        preexec_fn=small_files,
        check=False,
    )
    assert (full.returncode, full.stdout) == (2, b"")
    told = full.stderr.decode()
    assert re.fullmatch(
        r"error: cannot write \S*/sweep: File too large; choose another place or make room there; "
        rf"{TASKS} of {TASKS} parts are kept in .*{JOB}: the same command goes on from there\n",
        told,
    ), told
    assert os.listdir(tmp_path) == [JOB]
