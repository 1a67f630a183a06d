"""A named pipe, socket or device in the place of a file is refused by every reader, unread."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from hpabatch.history.files import check_regular, open_regular, read_regular
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.storage import LocalStorage
from hpabatch.live.passes import memory
from tests.cli.commands import Run, runner
from tests.cli.histories import MANIFESTS, last_day
from tests.history.frames import frame, write_all
from tests.importers.tables import POD_MAP, write_csv, write_map

WANTED = "expected a regular file, got a named pipe"
PROGRAM = "from hpabatch.cli import main; main()"


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    """End a test that waits for the writer of a pipe, far later than any of them takes."""

    def late(*_: object) -> None:
        raise AssertionError("expected a refusal, got a read without an end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command, named by its first argument, in this process."""

    def call(command: str, *arguments: str | Path) -> object:
        return runner(command, capfdbinary, monkeypatch)(*arguments)

    return call  # type: ignore[return-value]


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Return a named pipe without a writer."""
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    "command",
    [
        "validate PIPE",
        "analyze PIPE",
        "replay DEMO --hpas PIPE --out OUT",
        "simulate DEMO --scenario PIPE",
        "simulate DEMO --plant PIPE",
        "fidelity DEMO --plant PIPE",
        "plan DEMO --prices PIPE",
        "plan DEMO --quota PIPE",
        "plan DEMO --quota demo=PIPE",
        "sweep DEMO --grid scaleDown.policies=x --policy-sets PIPE --out OUT",
        "import table PIPE.csv --map PIPE --out OUT",
        "import prometheus --url http://127.0.0.1:1 --start 2026-10-01 --out OUT --queries PIPE",
        "import prometheus --url http://127.0.0.1:1 --start 2026-10-01 --out OUT --mapping PIPE",
        "import prometheus --url http://127.0.0.1:1 --start 2026-10-01 --out OUT --hpas PIPE",
        "import prometheus --url http://127.0.0.1:1 --start 2026-10-01 --out OUT --hpa-events PIPE",
        "import prometheus --url http://127.0.0.1:1 --start 2026-10-01 --out OUT --token-file PIPE",
        "import prometheus --url http://127.0.0.1:1 --start 2026-10-01 --out OUT --ca PIPE",
        "record --kubeconfig PIPE --out OUT",
    ],
)
def test_a_pipe_that_a_user_names(run: Run, pipe: Path, command: str) -> None:
    out = pipe.with_name("out")
    words = {"PIPE": str(pipe), "DEMO": str(last_day()), "OUT": str(out)}
    for word, text in words.items():
        command = command.replace(word, text)
    done = run(*command.split())
    assert done.code == 2
    assert WANTED in done.stderr, done.stderr
    assert not out.exists()


def test_a_pipe_in_a_folder_of_tables(run: Run, tmp_path: Path) -> None:
    single, parted = write_all(tmp_path / "single"), write_all(tmp_path / "parted")
    (single / "pods.parquet").unlink()
    os.mkfifo(single / "pods.parquet")
    (parted / "pods").mkdir()
    (parted / "pods.parquet").rename(parted / "pods" / "a.parquet")
    os.mkfifo(parted / "pods" / "b.parquet")
    for folder in (single, parted):
        for command in (
            ("replay", folder, "--out", tmp_path / "o"),
            ("history", "info", folder),
            ("history", "migrate", folder, tmp_path / f"{folder.name}-store"),
        ):
            done = run(*command)
            assert (done.code, WANTED in done.stderr) == (2, True), done.stderr
        done = run("history", "check", folder, "--exit-code", "--output", "csv")
        assert (done.code, WANTED in done.stdout) == (3, True), done.stderr


def test_a_pipe_in_a_store(run: Run, tmp_path: Path) -> None:
    with open_writer(tmp_path / "store").part() as part:
        part.add("pods", frame("pods"))
    for pattern in ("pods/**/*.parquet", "_log/*"):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(tmp_path / "store", copy)
        victim = max(copy.glob(pattern))
        victim.unlink()
        os.mkfifo(victim)
        done = run("history", "check", copy, "--exit-code", "--output", "csv")
        assert done.code in (2, 3)
        assert WANTED in done.stdout + done.stderr
        storage, name = LocalStorage(copy), victim.relative_to(copy).as_posix()
        for read, span in ((storage.read, ()), (storage.tail, (8,)), (storage.checksum, (0, 8))):
            with pytest.raises(Exception, match=WANTED):
                read(name, *span)


@pytest.mark.parametrize("name", ["usage.csv", "usage.parquet"])
def test_a_pipe_in_place_of_an_imported_table(run: Run, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "usage"
    folder.mkdir()
    os.mkfifo(folder / name)
    path = write_map(tmp_path, POD_MAP)
    for source in (folder, folder / name, f"{folder}/usage.*"):
        done = run("import", "table", source, "--map", path, "--out", tmp_path / "out")
        assert (done.code, WANTED in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["sweep.json", "settings.parquet", "results.parquet"])
def test_a_pipe_in_the_folder_of_a_sweep(run: Run, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    about = {"format": 1, "evidence": {}, "parameters": {}}
    (folder / "sweep.json").write_text(yaml.safe_dump(about, default_flow_style=True))
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    for command in (("plot", folder, "--out", tmp_path / "o"), ("recommend", folder)):
        done = run(*command)
        assert done.code == 2, done.stderr


def test_a_pipe_in_place_of_a_state(pipe: Path) -> None:
    with pytest.raises(Exception, match=WANTED):
        memory.load(pipe, "a loop")


def test_devices_sockets_and_folders(tmp_path: Path) -> None:
    place = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        for path, what in ((place, "got a socket"), ("/dev/zero", "got a device")):
            for read in (check_regular, open_regular, read_regular):
                with pytest.raises(OSError, match=what):
                    read(path)
    for read in (check_regular, open_regular, read_regular):
        with pytest.raises(IsADirectoryError):
            read(tmp_path)


def test_a_pipe_that_a_shell_made_is_read_where_it_is_read_once(run: Run) -> None:
    """`validate <(command)` is `validate /dev/fd/63`, a pipe that the process holds already."""
    manifest = next(MANIFESTS.rglob("*.yaml")).read_bytes()
    command = [sys.executable, "-c", PROGRAM, "validate", "/dev/stdin"]
    assert subprocess.run(command, input=manifest, capture_output=True, timeout=120).returncode == 0
    for folder in ("/dev/fd", "/proc/self/fd"):
        with _shells_pipe(folder, manifest) as path:
            assert run("validate", path).code == 0
    # A price file is read a second time, for its digest: a pipe would give another.
    with _shells_pipe("/dev/fd", b"pod_hour: 1\n") as path:
        done = run("plan", last_day(), "--prices", path)
    assert (done.code, WANTED in done.stderr) == (2, True), done.stderr


@contextmanager
def _shells_pipe(folder: str, data: bytes) -> Iterator[str]:
    """Yield the path of a pipe that this process holds, with some bytes in it."""
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    yield f"{folder}/{read}"
    os.close(read)


def test_a_link_to_nowhere_in_a_folder_is_no_table_less(run: Run, tmp_path: Path) -> None:
    """A part that cannot be read is refused, not left out."""
    folder = tmp_path / "usage"
    folder.mkdir()
    write_csv(folder, "ts,app,pod,cpu,mem\n")
    (folder / "more.csv").symlink_to(tmp_path / "gone.csv")
    path = write_map(tmp_path, POD_MAP)
    done = run("import", "table", folder, "--map", path, "--out", tmp_path / "out")
    assert (done.code, "more.csv cannot be read: No such file" in done.stderr) == (2, True)
    parted = write_all(tmp_path / "parted")
    (parted / "pods").mkdir()
    (parted / "pods.parquet").rename(parted / "pods" / "a.parquet")
    (parted / "pods" / "b.parquet").symlink_to(tmp_path / "gone.parquet")
    done = run("history", "info", parted)
    assert (done.code, "b.parquet cannot be read: No such file" in done.stderr) == (2, True)
