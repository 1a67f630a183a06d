"""Tests of a job's progress on stderr."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hpabatch.cli import main
from hpabatch.cli.progress import JobProgress, progress_on_stderr
from hpabatch.cli.talk import say
from hpabatch.jobs.job import Status
from tests.cli.histories import last_day
from tests.cli.hostile import NASTY

DEMO = str(last_day())


def status(done: int, *, resumed: int = 0, weight: int = 100_000, seconds: float = 1.0) -> Status:
    return Status(4, done, resumed, 4 * weight, done * weight, resumed * weight, seconds)


def test_off_a_terminal_little_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_only(monkeypatch, "replay_observations")
    with progress_on_stderr() as progress:
        progress("loading", 0.0)
        report = JobProgress("deciding", "replay_observations", "decisions").on(progress)
        for done in range(1, 5):
            report(status(done, resumed=1))
    assert capsys.readouterr().err == "resumed: 1 of 4 parts were done\n"


def test_a_long_job_tells_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpabatch.cli.progress._TELL_EVERY_S", 0.0)
    compile_only(monkeypatch, "replay_observations")
    with progress_on_stderr() as progress:
        JobProgress("deciding", "replay_observations", "decisions").on(progress)(
            status(1, weight=5_000_000)
        )
    assert capsys.readouterr().err == "deciding, 5.0 M decisions/s; 25%\n"


def test_a_job_without_a_unit_of_its_own_tells_its_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compile_only(monkeypatch, "simulate_fleet")
    seen: list[str] = []
    report = JobProgress("sweeping", "simulate_fleet").on(
        lambda message, share: seen.append(message)
    )
    for done in (0, 1, 3):
        report(Status(4, done, 0, 400, 100 * done, 0, 2.0))
    assert seen == ["sweeping", "sweeping, 1 of 4 parts", "sweeping, 3 of 4 parts"]


def test_the_time_left_is_that_of_the_parts_of_this_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("hpabatch.cli.progress.time.monotonic", lambda: now[0])
    with progress_on_stderr() as progress:
        for seconds, message, share in [
            (0, "planning", 0.9), (100, "deciding", 0.5), (140, "deciding, 1 k/s", 0.6),
            (145, "deciding, 1 k/s", 0.7), (180, "deciding, 2 k/s", 0.8), (210, "writing", 0.5),
        ]:  # fmt: skip
            now[0] = seconds
            progress(message, share)
    assert capsys.readouterr().err.splitlines() == [
        "deciding; 50%",
        "deciding, 1 k/s; 60%",
        "deciding, 2 k/s; 80%, about 40 s left",
        "writing; 50%",
    ]


_LOOP = "compiling the rules and the simulation, once, about 100 s"


def compile_only(monkeypatch: pytest.MonkeyPatch, *kernels: str) -> None:
    """Let only some kernels seem to be compiled."""
    monkeypatch.setattr("hpabatch._code.has_compiled", lambda name: name in kernels)


@pytest.mark.parametrize("compiled", ["simulate_fleet", "replay_observations"])
def test_a_job_says_once_that_its_kernel_is_to_be_compiled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: str
) -> None:
    compile_only(monkeypatch, compiled)
    with progress_on_stderr("simulate_fleet") as progress:
        assert capsys.readouterr().err == ""  # a job that is refused before says nothing
        for done in range(3):
            progress("simulating", done / 3)
    assert capsys.readouterr().err == ("" if compiled == "simulate_fleet" else f"{_LOOP}\n")


def test_on_a_terminal_it_is_said_above_the_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    compile_only(monkeypatch)
    with progress_on_stderr("simulate_fleet") as progress:
        for done in range(3):
            progress("simulating", done / 3)
    shown = capsys.readouterr().err
    assert shown.count(_LOOP) == 1
    assert "simulating" in shown


class ToldError(Exception):
    """Ends a command at the moment at which it has told that it compiles."""


@pytest.mark.parametrize(
    ("command", "kernel"),
    [
        (("simulate", DEMO), "simulate_fleet"),
        (("plan", DEMO), "simulate_fleet"),
        (("sweep", DEMO, "--grid", "target=70", "--out", "sweep"), "simulate_fleet"),
        (("fidelity", DEMO), "walk_observations"),
        (("compare", DEMO, "--k8s", "1.36..1.37"), "replay_observations"),
        (("fit", DEMO), "observe_usage"),
    ],
    ids=lambda part: " ".join(w for w in part if w != DEMO) if isinstance(part, tuple) else part,
)
def test_commands_say_it_before_they_compile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...], kernel: str
) -> None:
    told: list[str] = []
    importlib.import_module("hpabatch.cli.advise")  # (would keep what is patched)

    def tell(name: str) -> None:
        told.append(name)
        raise ToldError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hpabatch.cli.progress.tell_compiling", tell)
    monkeypatch.setattr("sys.argv", ["hpabatch", *command])
    with pytest.raises(ToldError):
        main()
    assert told == [kernel]


def test_a_name_in_a_bar_is_only_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERM", "xterm")
    end, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with progress_on_stderr() as report:
            report(NASTY, 0.5)
        with progress_on_stderr() as progress:
            progress(NASTY, 1.0)
            say(f"said {NASTY}")
    parts = []
    with suppress(OSError):  # Linux: the other end is closed
        while part := os.read(end, 65536):  # a busy machine hands on what was written bit by bit
            parts.append(part)
    os.close(end)
    shown = b"".join(parts).decode()
    assert shown.count("\\x1b]8;;x\\x1b\\[red]") >= 2
    assert "\\r\\nerror: forged\\t\\x07\\x08\\x7f\\x9b31m\\x85\\u2028" in shown
    assert "\x1b]8" not in shown
    assert not any(c in shown for c in "\x07\x9b\u202e\u200b")
