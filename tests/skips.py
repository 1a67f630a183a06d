"""A pytest plugin (`-p tests.skips`): a run fails if anything is left out that should not be.

HPABATCH_EXPECTED_SKIPS holds parts of the reasons that are expected, separated by semicolons. A
test that is skipped for any other reason makes the exit code LEFT_OUT; the reason is listed at the
end.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

LEFT_OUT = 6  # not pytest's 1: to run what failed once more cannot mend it
_SURPRISES: Counter[str] = Counter()


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    expected = filter(None, os.environ.get("HPABATCH_EXPECTED_SKIPS", "").split(";"))
    if not any(part in why for part in expected):
        _SURPRISES[why.removeprefix("Skipped: ")] += 1


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _SURPRISES:
        session.exitstatus = LEFT_OUT


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _SURPRISES:
        terminalreporter.section("left out, though it was not expected")
    for why, count in sorted(_SURPRISES.items()):
        terminalreporter.line(f"{count} x {why}")
