"""SIGINT and SIGTERM at a command, real ones; and an EOFError, which is no wish to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpabatch.cli.signals import signals_handled
from tests.importers.tables import BEGIN_S, POD_MAP, import_table, write_csv, write_map

BOTH = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]

# The first module that takes long to load: it says that it is being loaded, and waits.
LOADING = """
import signal
print("ready", flush=True)
signal.pause()
"""

# A command that has a folder for its work, and waits.
AT_WORK = """
import signal, sys, tempfile
from hpabatch.cli import main
from hpabatch.cli.app import app

@app.command("work")
def work():
    with tempfile.TemporaryDirectory():
        print("ready", flush=True)
        try:
            signal.pause()
        finally:
            {cleaning}

sys.argv = ["hpabatch", "work"]
main()
"""

STALLED_IMPORT = """
import signal, sys
from hpabatch.importers.table import run as table
def stalled(*_):
    print("ready", flush=True)
    signal.pause()
table.import_group = stalled
sys.argv = ["hpabatch", "import", "table", *sys.argv[1:]]
from hpabatch.cli import main
main()
"""

# A command to which a signal comes while a process of its own compiles.
COMPILING = """
import os, signal, sys, threading
from hpabatch._jit import Compiled
from hpabatch.cli import main
from hpabatch.cli.app import app
from hpabatch.rules.numbers import add64

@app.command("compile")
def compile_and_wait():
    print("ready", flush=True)
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM]).start()
    Compiled(add64)(1, 1)
    signal.pause()

sys.argv = ["hpabatch", "compile"]
main()
"""

FAILING = """
import sys
from hpabatch.cli import main
from hpabatch.cli.app import app

@app.command("read")
def read():
    raise EOFError("the file ends early")

sys.argv = ["hpabatch", "read"]
main()
"""


def ended(
    code: str, signals: Sequence[int], *arguments: str | Path, **environment: str
) -> tuple[int, str]:
    """Send signals to a program once it is ready; return its exit code and stderr."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in signals:
            process.send_signal(number)
        _, told = process.communicate(timeout=120)
    return process.returncode, told


@pytest.mark.parametrize(("number", "code"), BOTH)
def test_a_signal_while_modules_load_ends_the_program_without_a_word(
    tmp_path: Path, number: int, code: int
) -> None:
    (tmp_path / "typer.py").write_text(LOADING)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    program += "from hpabatch.cli import main; main()"
    assert ended(program, [number], "--help") == (code, "")


@pytest.mark.parametrize(
    ("number", "code", "cleaning"),
    [
        (signal.SIGINT, 130, "pass"),
        # As `timeout` sends one to the command and one to its group.
        (signal.SIGTERM, 143, "signal.raise_signal(signal.SIGTERM)"),
    ],
)
def test_a_command_at_work_cleans_up(tmp_path: Path, number: int, code: int, cleaning: str) -> None:
    program = AT_WORK.format(cleaning=cleaning)
    assert ended(program, [number], TMPDIR=str(tmp_path)) == (code, "")
    assert os.listdir(tmp_path) == []


@pytest.mark.compiled
def test_a_signal_ends_the_compiler(tmp_path: Path) -> None:
    assert ended(COMPILING, [], HPABATCH_CACHE_DIR=str(tmp_path)) == (143, "")


def test_sigterm_leaves_of_an_import_what_the_next_one_goes_on_from(tmp_path: Path) -> None:
    rows = "".join(f"{BEGIN_S + 60 * k},web,web-1,0.1,1000\n" for k in range(3))
    source = write_csv(tmp_path, f"ts,app,pod,cpu,mem\n{rows}")
    path, temporary = write_map(tmp_path, POD_MAP), tmp_path / "temporary"
    temporary.mkdir()
    named = (source, "--map", path)
    told = ended(STALLED_IMPORT, [signal.SIGTERM], *named, "--dry-run", TMPDIR=str(temporary))
    assert told == (143, "interrupted: nothing is written\n")
    assert os.listdir(temporary) == []
    code, _ = ended(STALLED_IMPORT, [signal.SIGTERM], *named, "--out", tmp_path / "h")
    assert code == 143
    (work,) = tmp_path.glob(".h.import-*")
    assert (work / "read-00000" / "record.json").exists()
    result = import_table([source], path, tmp_path / "h")
    assert result.written["pod_metrics"] == 3
    assert not work.exists()


def test_an_ignored_signal_stays_ignored_and_handlers_are_put_back() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # (a shell's background jobs ignore the interrupt, and so would this test begun by one)
    first = signal.signal(signal.SIGINT, signal.default_int_handler)
    own = signal.getsignal(signal.SIGINT)
    try:
        with signals_handled() as handler:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGINT) is handler
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, first)


def test_an_end_of_file_in_a_command_is_shown_as_what_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "EOFError: the file ends early" in done.stderr
    assert "Aborted" not in done.stderr
