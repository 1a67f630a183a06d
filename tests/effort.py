"""How much a test draws: so much in `make test`, ten times as much in `make long`.

Interpreted it is a fifth. As plain Python a rule takes some hundred times as long, and what it
decides is proved compiled. What is left to prove is that plain Python decides alike, that it reads
and writes within its arrays (compiled code does not look), and that every line and branch is met.
"""

from __future__ import annotations

import os

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""Whether numba compiles nothing in this run."""

_FACTOR = float(os.environ.get("HPABATCH_EFFORT") or (0.2 if INTERPRETED else 1.0))
_FEWEST = 3


def effort(number: int) -> int:
    """Return how many examples, seeds or cases to draw, of which `make test` draws a number."""
    return max(round(number * _FACTOR), min(number, _FEWEST))
