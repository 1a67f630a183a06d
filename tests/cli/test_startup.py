"""`hpabatch --help` starts at once: nothing heavier than typer is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hpabatch import __version__
from hpabatch.model.versions import DEFAULT_K8S, PROFILES

HEAVY = ("numpy", "numba", "polars", "pyarrow", "yaml", "rich")

PROGRAM = f"""
import sys
sys.argv = ["hpabatch", *sys.argv[1:]]
from hpabatch.cli import main
try:
    main()
except SystemExit as leaving:
    code = leaving.code
print("imported:", *[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""

COMMANDS = (
    "validate",
    "autoscale",
    "get",
    "describe",
    "compare",
    "explain",
    "sweep",
    "recommend",
    "plan",
    "plot",
    "analyze",
    "live",
    "record",
    "import prometheus",
    "import table",
    "history quality",
)


def started(*arguments: str, imported: str = "") -> str:
    """Return what a light start prints, once nothing heavy was imported for it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "imported:" + imported
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    told = started(*command.split(), "--help")
    assert f"Usage: hpabatch {command} " in told
    assert f"  hpabatch {command} " in told.partition("Examples:")[2]


def test_help_imports_nothing_heavy_and_names_all_commands() -> None:
    told = started("--help")
    for command in COMMANDS:
        assert f"\n  {command.split()[0]} " in told


def test_help_groups_the_commands() -> None:
    told = started("--help")
    headings = ("Get data in", "Look", "Ask what if", "Decide live", "Look after data")
    places = [told.index(f"\n{heading}:\n") for heading in headings]
    assert places == sorted(places)
    assert told.index("  import ") < places[1] < told.index("  replay ") < places[2]
    assert places[3] < told.index("\n  record ") < places[4] < told.index("\n  history ")


def test_the_version_shows_the_profiles_and_how_each_is_proved() -> None:
    lines = started("--version", imported=" numpy").splitlines()
    assert lines[0] == f"hpabatch {__version__}"
    assert lines[1] in ("kernels: compiled", "kernels: interpreted")
    assert lines[2] == f"rules of Kubernetes (default {DEFAULT_K8S}):"
    assert [line.split()[0] for line in lines[3:]] == list(PROFILES)
    assert lines[3] == "  1.20  from sources (1.20.2's own source, read line by line)"
    assert lines[-1] == "  1.38  proved (against upstream's code)"
