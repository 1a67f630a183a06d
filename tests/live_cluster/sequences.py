"""Sequences of sizes: what was said beside what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.live_cluster.recording import Decisions
from tests.live_cluster.truth import Hpa


class At(NamedTuple):
    """A size from an instant on."""

    at_ms: int
    size: int


@dataclass(frozen=True)
class Difference:
    """Ours and theirs at an instant; `why` explains it, "" if nothing does."""

    hpa: Hpa
    at_ms: int
    ours: str
    theirs: str
    why: str


def changes(decided: Sequence[tuple[int, int | None]]) -> list[At]:
    """Return sizes from when on each was decided; None (no decision) is left out."""
    found: list[At] = []
    for at_ms, size in decided:
        if size is not None and (not found or found[-1].size != size):
            found.append(At(at_ms, size))
    return found


def compare_told(hpa: Hpa, told: Sequence[At], decided: Decisions) -> list[Difference]:
    """Return where what the loop said and what its recording comes to differ."""
    rows = sorted(decided.get(hpa, {}).items())
    ours = changes([(at_ms, None if one.failed else one.desired) for at_ms, one in rows])
    if list(told) == ours:
        return []
    for one, other in zip([*told, None], [*ours, None], strict=False):
        if one != other:
            at = min(x.at_ms for x in (one, other) if x is not None)
            mine = "nothing" if one is None else f"{one.size} at {one.at_ms}"
            again = "nothing" if other is None else f"{other.size} at {other.at_ms}"
            return [Difference(hpa, at, f"said {mine}", f"replayed {again}", "")]
    return []
