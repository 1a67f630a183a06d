"""`hpabatch --help` starts at once: nothing heavier than typer is imported."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

import pytest

from hpabatch import __version__
from hpabatch.model.versions import DEFAULT_K8S, PROFILES

HEAVY = ("numpy", "numba", "polars", "pyarrow", "yaml", "rich")

# All commands in one process: a start takes longer than a help.
PROGRAM = f"""
import contextlib, io, json, sys
from hpabatch.cli import main
for words in json.load(sys.stdin):
    sys.argv, out = ["hpabatch", *words], io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(out):
        main()
    print(json.dumps([out.getvalue(), [name for name in {HEAVY!r} if name in sys.modules]]))
"""

COMMANDS = (
    "validate",
    "get",
    "describe",
    "compare",
    "explain",
    "replay",
    "report",
    "findings",
    "lint",
    "gate",
    "sweep",
    "recommend",
    "fit",
    "plan",
    "plot",
    "analyze",
    "live",
    "record",
    "import prometheus",
    "import table",
    "history info",
    "history check",
    "history compact",
    "history migrate",
    "history quality",
)


@functools.cache
def started() -> dict[str, tuple[str, list[str]]]:
    """Return by command what its help prints, and what heavy was imported by then."""
    words: list[Any] = ["", *COMMANDS, "--version"]
    lines = [[*word.split(), *(() if word[:2] == "--" else ("--help",))] for word in words]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(lines), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(zip(words, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    told, imported = started()[command]
    assert f"Usage: hpabatch {command} " in told
    assert f"  hpabatch {command} " in told.partition("Examples:")[2]
    assert imported == []


def test_help_groups_all_commands() -> None:
    told, imported = started()[""]
    assert imported == []
    for command in COMMANDS:
        assert f"\n  {command.split()[0]} " in told
    headings = ("Get data in", "Look", "Ask what if", "Decide live", "Look after data")
    places = [told.index(f"\n{heading}:\n") for heading in headings]
    assert places == sorted(places)
    assert told.index("  import ") < places[1] < told.index("  replay ") < places[2]
    assert places[3] < told.index("\n  record ") < places[4] < told.index("\n  history ")


def test_the_version_shows_the_profiles_and_how_each_is_proved() -> None:
    told, imported = started()["--version"]
    assert imported == ["numpy"]
    lines = told.splitlines()
    assert lines[0] == f"hpabatch {__version__}"
    assert lines[1] in ("kernels: compiled", "kernels: interpreted")
    assert lines[2] == f"rules of Kubernetes (default {DEFAULT_K8S}):"
    assert [line.split()[0] for line in lines[3:]] == list(PROFILES)
    assert lines[3] == "  1.20  from sources (1.20.2's own source, read line by line)"
    assert lines[-1] == "  1.38  proved (against upstream's code)"
