"""Data to stdout: the checks and courtesies that every command owes it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from hpabatch.cli.options import Output
from hpabatch.errors import UsageError
from hpabatch.model.printable import printable_json, printable_lines


def check_stdout(output: Output) -> None:
    """Refuse a closed stdout, and binary output to a terminal.

    Raises:
        UsageError: what to do instead.
    """
    if sys.stdout is None:
        raise UsageError("stdout is closed; redirect it to a file or to /dev/null")
    if output is Output.parquet and sys.stdout.isatty():
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
    """Write text without styles to stdout, nothing in it but its line ends drives a terminal.

    Raises:
        UsageError: stdout cannot be written.
    """
    send(printable_lines(text).encode())


def send_json(text: str) -> None:
    """Write JSON to stdout, what does not show escaped (UsageError: it cannot be written)."""
    send(printable_json(text).encode())


def table_shape() -> tuple[int | None, bool]:
    """Return the width of a table for stdout (None: no terminal), and whether it has styles."""
    if not sys.stdout.isatty():
        return None, False
    return shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ


def show_report(forms: Any, report: Any, output: Output) -> None:
    """Write a report to stdout in the form that is asked for.

    `forms` is its module of `hpabatch.report`: to_table, to_json, to_csv, to_parquet.

    Raises:
        UsageError: stdout cannot be written.
    """
    match output:
        case Output.table:
            width, styled = table_shape()
            data = forms.to_table(report, width, styled=styled).encode()
        case Output.json:
            data = printable_json(forms.to_json(report)).encode()
        case Output.csv:
            data = forms.to_csv(report).encode()
        case Output.parquet:
            data = forms.to_parquet(report)
    send(data)


def forget_stdout() -> None:
    """Send what is still buffered nowhere: it would fail again when Python closes stdout."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
