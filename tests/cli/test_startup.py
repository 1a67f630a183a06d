"""`hpabatch --help` starts at once: nothing heavier than typer is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["validate", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "imported:"
