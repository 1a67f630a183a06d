"""Strings that come with observations as numbers: errors of APIs and of requests, states of pods.

Kernels carry numbers; `engine.explain.status` turns them back. Equal texts have equal numbers.
"""

from __future__ import annotations

from hpabatch.layout import codes

NO_TEXT = 0


class Texts:
    """A table of texts; number 0 is the empty one."""

    def __init__(self) -> None:
        """Begin with the empty text."""
        self._texts = [""]
        self._numbers = {"": NO_TEXT}

    def number(self, text: str) -> int:
        """Return the number of a text, which is added if it is new."""
        number = self._numbers.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        return number

    def __len__(self) -> int:
        """Return how many texts there are."""
        return len(self._texts)

    def __getitem__(self, number: int) -> str:
        """Return the text of a number that `number` returned."""
        return self._texts[number]


def pod_flags(phase: str, deleting: bool, started: bool, ready: str | None) -> int:
    """Return a pod's flags: phase, deletion, readiness and whether it has a start time."""
    flags = codes.PHASES.get(phase, codes.PHASE_OTHER)
    if ready is not None:
        # Any other status counts as neither True nor False, as Unknown does.
        flags |= codes.READINESS.get(ready, codes.READY_UNKNOWN)
    return flags | (codes.POD_DELETING if deleting else 0) | (codes.POD_STARTED if started else 0)
