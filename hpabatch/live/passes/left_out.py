"""HPAs that passes leave out after an error, so that all others are decided."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Key = tuple[str, str]

_SHORTEST, _LONGEST = 2, 16
"""Passes that an HPA is left out at first, and at most (about four minutes)."""
_MOST_TRIALS: Final = 200
"""Of one search: where many HPAs fail, the error is not one of their data."""


@dataclass(slots=True)
class _Pause:
    """Passes that an HPA is left out, until the pass of number `until`."""

    text: str
    passes: int
    until: int


class LeftOut:
    """HPAs that are left out; each further error of an HPA doubles its pause."""

    def __init__(self) -> None:
        """Begin with none."""
        self._pass = 0
        self._pauses: dict[Key, _Pause] = {}

    def __contains__(self, key: object) -> bool:
        """Return whether an HPA is left out now."""
        return key in self.texts

    @property
    def texts(self) -> dict[Key, str]:
        """The HPAs that are left out now, and why."""
        return {key: p.text for key, p in self._pauses.items() if self._pass < p.until}

    def begin(self) -> set[Key]:
        """Begin a pass; return the HPAs that are tried again in it."""
        self._pass += 1
        for key, pause in list(self._pauses.items()):
            if self._pass > pause.until + _LONGEST:
                del self._pauses[key]
        return {key for key, pause in self._pauses.items() if self._pass == pause.until}

    def add(self, key: Key, error: Exception) -> None:
        """Leave an HPA out of this pass and the next ones."""
        known = self._pauses.get(key)
        if known is not None and self._pass < known.until:
            return
        passes = _SHORTEST if known is None else min(2 * known.passes, _LONGEST)
        text = f"left out, and tried again within minutes: {error_text(error)}"
        self._pauses[key] = _Pause(text, passes, self._pass + passes)

    def forget(self, key: Key) -> None:
        """Forget an HPA that was deleted."""
        self._pauses.pop(key, None)


def error_text(error: Exception) -> str:
    """Return an unexpected error and its place in one line."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"


def culprits(
    suspects: Sequence[Key], failure: Callable[[Sequence[Key]], Exception | None]
) -> dict[Key, Exception]:
    """Return the HPAs that fail by themselves, with their errors; found by halves.

    Args:
        suspects: among them.
        failure: of a pass over some HPAs alone; None: it does not fail.
    """
    found: dict[Key, Exception] = {}
    waiting, trials = [list(suspects)], 0
    while waiting and trials < _MOST_TRIALS:
        part, trials = waiting.pop(), trials + 1
        error = failure(part) if part else None
        if error is None:
            continue
        if len(part) == 1:
            found[part[0]] = error
        else:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
    return found
