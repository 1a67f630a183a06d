"""Progress of long work: what is done, and how much of the whole."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Called with the current step and the completed share of the whole, 0 to 1."""


def silent(message: str, share: float) -> None:
    """Report no progress."""
