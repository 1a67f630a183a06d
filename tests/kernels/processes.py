"""Code that runs in a process of its own; every kernel interpreted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_DIGESTS = """
import importlib, json
print(json.dumps({
    name: importlib.import_module(f"tests.kernels.test_{name}").digests()
    for name in ("align", "replay", "simulate", "status", "usage")
}))
"""


def in_process(code: str, **environment: str) -> str:
    """Return what some code prints in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.strip()


@cache
def _digests() -> dict[str, list[str]]:
    # One process for the kernels of all files: starting it takes as long as its runs.
    found: dict[str, list[str]] = json.loads(in_process(_DIGESTS, NUMBA_DISABLE_JIT="1"))
    return found


def digests_interpreted(kernel: str) -> list[str]:
    """Return what `digests` of a kernel's test file gives where nothing is compiled."""
    return _digests()[kernel]
