"""What stderr shows of a job."""

from __future__ import annotations

import pytest

from hpabatch.cli.progress import progress_on_stderr, rate_text
from hpabatch.jobs.loop import Status


def status(done: int, *, resumed: int = 0, weight: int = 100_000, seconds: float = 1.0) -> Status:
    return Status(4, done, resumed, 4 * weight, done * weight, resumed * weight, seconds)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (status(0), ""),
        (status(2, resumed=2), ""),
        (status(1), "100 k decisions/s, 0:00:03 left"),
        (status(1, weight=5_000_000), "5.0 M decisions/s, 0:00:03 left"),
        (status(1, seconds=3000.0), "0 k decisions/s, 2:30:00 left"),
        (status(4), "400 k decisions/s, 0:00:00 left"),
    ],
)
def test_rate_and_time_left(given: Status, text: str) -> None:
    assert rate_text(given) == text


def test_off_a_terminal_little_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpabatch.cli.progress.must_compile", lambda: False)
    with progress_on_stderr() as progress:
        progress.step("loading")
        for done in range(1, 5):
            progress.status(status(done, resumed=1))
    assert capsys.readouterr().err == "resumed: 1 of 4 parts were done\n"


def test_compiling_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpabatch.cli.progress.must_compile", lambda: True)
    with progress_on_stderr() as progress:
        for done in range(5):
            progress.status(status(done))
    assert capsys.readouterr().err == "compiling the rules, once, about 25 s\n"


def test_on_a_terminal_there_is_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("hpabatch.cli.progress.must_compile", lambda: True)
    with progress_on_stderr() as progress:
        progress.step("planning")
        progress.status(status(1, resumed=1))
        progress.status(status(2, resumed=1))
        progress.say("[bold] is a name")
    shown = capsys.readouterr().err
    assert "resumed: 1 of 4 parts were done" in shown
    assert "[bold] is a name" in shown
    assert "decisions/s" in shown
