"""Number of draws of a test: half of its own in `make test`; HPABATCH_EFFORT=10 is ten times it.

`make test` draws the same in every run, so that more would mostly take longer;
HYPOTHESIS_PROFILE=search looks for what was never drawn. Interpreted it is a fifth: as plain Python
a rule takes some hundred times as long, and what it decides is proved compiled. What is left to
prove is that plain Python decides alike, that it reads and writes within its arrays (compiled code
does not look), and that every line and branch is met. Tests of whole kernels draw a twentieth.
"""

from __future__ import annotations

import os

from hpabatch import _jit

INTERPRETED = _jit.INTERPRETED
"""Whether numba compiles nothing in this run."""

MOST_THREADS: int = _jit.THREADS
"""Threads that a test may give to kernels; it begins with one (tests/conftest.py)."""

_FACTOR = float(os.environ.get("HPABATCH_EFFORT") or (0.2 if INTERPRETED else 0.5))
_FEWEST = 3


def effort(number: int, kernel: bool = False) -> int:
    """Return how many examples, seeds or cases to draw, where a test's own number is `number`.

    `kernel`: most of what each of them takes is a kernel.
    """
    if kernel and INTERPRETED:
        return max(round(number * _FACTOR / 4), 1)
    return max(round(number * _FACTOR), min(number, _FEWEST))
