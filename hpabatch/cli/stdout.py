"""Data to stdout: checks before, closed and full streams, reports in the form asked for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TextIO

from hpabatch.errors import UsageError
from hpabatch.model.printable import printable_lines
from hpabatch.report.base import CheckOutput, Output, View

if TYPE_CHECKING:
    from hpabatch.report.base import Result


LEGEND: ContextVar[bool] = ContextVar("legend", default=False)
"""Whether the command was given --legend."""


def check_stdout(output: str) -> None:
    """Refuse a closed stdout, and binary output to a terminal.

    Raises:
        UsageError: what to do instead.
    """
    if sys.stdout is None:
        raise UsageError("stdout is closed; redirect it to a file or to /dev/null")
    if output == Output.parquet and sys.stdout.isatty():
        raise UsageError(
            "--output parquet is binary: redirect stdout to a file, or choose table, json or csv"
        )


@contextmanager
def data_stream() -> Iterator[TextIO]:
    """Yield stdout and flush it; a reader that went away (head, less) is no error.

    Raises:
        UsageError: stdout cannot be written (a full disk).
    """
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
    except OSError as error:
        forget_stdout()
        raise UsageError(f"stdout cannot be written: {error.strerror}; make room there") from error


def send(data: bytes) -> None:
    """Write bytes to stdout (UsageError: it cannot be written)."""
    with data_stream() as stdout:
        stdout.flush()
        stdout.buffer.write(data)


def send_text(text: str) -> None:
    """Write text without styles to stdout; only its line ends drive a terminal.

    Raises:
        UsageError: stdout cannot be written.
    """
    send(printable_lines(text).encode())


def show_report(report: Result, output: Output | str) -> None:
    """Write a report to stdout in one of its forms; with `LEGEND` tables explain their columns.

    Args:
        report: a result of `hpabatch.report`.
        output: the form.

    Raises:
        UsageError: stdout cannot be written.
    """
    from hpabatch.report.forms import report_bytes

    width, styled = None, False
    if sys.stdout.isatty():
        width, styled = shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ
    view = View(width, styled, legend=LEGEND.get())
    send(report_bytes(report, CheckOutput(str(output)), view))


def forget_stdout() -> None:
    """Send buffered data nowhere: it would fail again when Python closes stdout."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
