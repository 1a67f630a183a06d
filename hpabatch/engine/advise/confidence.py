"""Confidence in an answer: high, medium or low, by the doubts that speak against relying on it.

Each doubt says which confidence it leaves at most, why, and what would raise it. How often answers
of each confidence are right is measured (`benchmarks.recommend_truth`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"
CONFIDENCES: Final = (HIGH, MEDIUM, LOW)
"""The best first."""


class Doubt(NamedTuple):
    """Something that speaks against relying on an answer.

    Attributes:
        most: the highest confidence that it leaves.
        why: what it is, in a sentence of under 100 characters.
        remedy: what would make the answer surer; "": nothing that a user can do.
        detail: names and words that the sentence leaves out; "": none.
    """

    most: str
    why: str
    remedy: str = ""
    detail: str = ""

    @property
    def long(self) -> str:
        """The sentence with its detail."""
        return f"{self.why}: {self.detail}" if self.detail else self.why


def confidence_of(doubts: Iterable[Doubt]) -> str:
    """Return the confidence that all doubts leave; without any it is high."""
    return max((doubt.most for doubt in doubts), key=CONFIDENCES.index, default=HIGH)


def weighed(doubts: Iterable[Doubt]) -> tuple[Doubt, ...]:
    """Return each doubt once, those that lower the confidence most first."""
    return tuple(sorted(dict.fromkeys(doubts), key=lambda doubt: -CONFIDENCES.index(doubt.most)))


def remedies(doubts: Sequence[Doubt]) -> list[str]:
    """Return what would raise the confidence: of those doubts alone that hold it where it is."""
    lowest = confidence_of(doubts)
    return list(dict.fromkeys(d.remedy for d in doubts if d.most == lowest and d.remedy))


def accepted(accept: str) -> tuple[str, ...]:
    """Return the confidences from the highest down to one."""
    return CONFIDENCES[: CONFIDENCES.index(accept) + 1]
