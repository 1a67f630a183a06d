"""Running a command in this process: as the program would, or without what it makes of errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hpabatch.cli import main
from hpabatch.cli.app import app
from hpabatch.cli.run import load_commands


@dataclass(frozen=True)
class Done:
    """What a command left: its exit code, and what it wrote."""

    code: int
    data: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        """What it wrote to stdout, as text."""
        return self.data.decode()

    @property
    def lines(self) -> list[str]:
        """The same in lines."""
        return self.stdout.splitlines()


Run = Callable[..., Done]


def runner(
    command: str, capsys: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Return a function that runs a command with some arguments."""

    def call(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["hpabatch", command, *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        told = capsys.readouterr()
        return Done(int(left.value.code or 0), told.out, told.err.decode())

    return call


def invoke(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    """Run a command; its errors are raised."""
    load_commands()
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
