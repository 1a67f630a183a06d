"""The answer on an HPA's stated settings: right, wrong, or cannot be told at this resolution.

The stated settings are compared with each deviation, block by block of the recording: which of the
two makes fewer errors? Only blocks in which they differ count (a sign test). Blocks are counted and
not ticks, because what was decided in one tick stands in the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.fidelity.deviations import METRIC, WINDOW, Deviation
from hpabatch.engine.fidelity.evidence import Evidence, Judge
from hpabatch.engine.fidelity.trials import Recording
from hpabatch.engine.fidelity.walk import Walk
from hpabatch.engine.replay.summary import KEY, foreign_changes
from hpabatch.engine.simulate.work import key_of
from hpabatch.layout.records import I32, I64

RIGHT: Final = "right"
WRONG: Final = "wrong"
UNTOLD: Final = "cannot be told"

TOLD_P: Final = 0.01
"""Up to this p a deviation is told apart: it fits worse than what is stated."""

WRONG_P: Final = 0.005
MOST_ERRORS: Final = 0.7
"""Up to this p, with so large a share of the errors at most, a deviation refutes what is stated."""

LEAST_EXPLAINED: Final = 0.25
LONGEST_WINDOW_MS: Final = 300_000
"""If fewer changes are explained (above chance, 95 % bound), what is stated is wrong; with
longer windows too few of a right setting's changes can be found to say so."""

_Z: Final = 1.645

ANSWER_SCHEMA: Final = {
    **dict.fromkeys(KEY, pl.String()),
    **dict.fromkeys(("answer", "answer_why", "told_apart"), pl.String()),
    "window_s": pl.Float64(),
    **dict.fromkeys(("episodes", "held", "explained", "sized"), pl.Int64()),
    **dict.fromkeys(("by_chance", "explained_share"), pl.Float64()),
    "standing_wishes": pl.Int64(),
}
"""Columns of the answers; `fidelity` has them with `controller_` before them."""


class Comparison(NamedTuple):
    """Blocks in which what is stated fits better than a deviation, and worse; `share` of errors.

    `same`: the deviation decides the same everywhere here, so it does not matter.
    """

    deviation: Deviation
    better: int
    worse: int
    share: float
    resolved: bool
    same: bool

    @property
    def told(self) -> bool:
        """Whether the deviation is told apart: the stated setting fits significantly better."""
        return self.resolved and sign_p(self.better, self.worse) <= TOLD_P

    @property
    def refutes(self) -> bool:
        """Whether the deviation fits significantly, and much, better than what is stated."""
        significant = sign_p(self.worse, self.better) <= WRONG_P
        return self.resolved and significant and self.share <= MOST_ERRORS


@lru_cache(1 << 12)
def sign_p(won: int, lost: int) -> float:
    """Return how likely so many or more of won + lost even chances are won."""
    total = won + lost
    if not won:
        return 1.0
    ways = math.fsum(
        math.exp(math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1)
                 - total * math.log(2))
        for k in range(won, total + 1)
    )  # fmt: skip
    return min(ways, 1.0)


def answers(walk: Walk) -> pl.DataFrame:
    """Return a row of ANSWERS for each HPA of a shard that has a tick."""
    rows, foreign = [], foreign_changes(walk.decisions).partition_by(KEY, as_dict=True)
    for recording, trials in zip(walk.recordings, walk.trials, strict=True):
        unmade = foreign.get(key_of(recording.candidate))
        if unmade is not None:
            recording = _without(recording, unmade["ts"].to_physical().to_numpy())
        judge = Judge(recording)
        stated = judge.evidence(trials[0])
        found = [
            _compare(recording, trial.deviation, stated, judge.evidence(trial),
                     same=_same(trials[0].plain.wished, trial.plain.wished))
            for trial in trials[1:]
        ]  # fmt: skip
        rows.append(_row(recording, stated, found))
    return pl.DataFrame(rows, schema=ANSWER_SCHEMA)


def _without(recording: Recording, foreign_ms: I64) -> Recording:
    """Return a recording without the episodes that begin with a change that no rule made.

    These are dated by the tick before them, which sees them at the next one.
    """
    now_ms, episodes = recording.now_ms, recording.episodes
    before_ms = now_ms[np.searchsorted(now_ms, episodes.first_ms, side="right") - 1]
    kept = ~np.isin(before_ms, foreign_ms)
    return recording._replace(passes=[chosen[kept[chosen]] for chosen in recording.passes])


def _same(wished: I32 | I64, other: I32 | I64) -> bool:
    return wished.size == other.size and bool((wished == other).all())


def _compare(
    recording: Recording, deviation: Deviation, stated: Evidence, other: Evidence, same: bool
) -> Comparison:
    return Comparison(
        deviation,
        better=int((stated.errors < other.errors).sum()),
        worse=int((stated.errors > other.errors).sum()),
        share=float(other.errors.sum() / max(stated.errors.sum(), 1)),
        resolved=_resolved(recording, deviation),
        same=same,
    )


def _resolved(recording: Recording, deviation: Deviation) -> bool:
    """Say whether a deviation moves decisions further than their instants are uncertain."""
    if deviation.dimension != WINDOW:
        return True
    moved_ms = abs(deviation.value - 1) * recording.down_window_ms
    return moved_ms > recording.window.standing_ms


def verdict_of(
    recording: Recording, stated: Evidence, found: Sequence[Comparison]
) -> tuple[str, str | None]:
    """Return the answer, and why it is not "right"; None: it is."""
    refuting = [c for c in found if c.refutes]
    if refuting:
        best = min(refuting, key=lambda c: (c.share, c.deviation.words))
        blocks = f"in {best.worse} half hours it fits better, in {best.better} worse"
        return WRONG, f"the recording fits {best.deviation.words} better ({blocks})"
    if _unexplained(recording, stated):
        return WRONG, (
            f"the rules decide {stated.matched} of {stated.held} recorded changes, "
            f"{stated.chance:.0f} of them by chance"
        )
    matter = [
        c for c in found
        if not (c.same and c.deviation.dimension == METRIC)
        and (recording.down_window_ms or c.deviation.dimension != WINDOW)
    ]  # fmt: skip
    untold = [c.deviation.words for c in matter if not c.told]
    if not untold:
        return RIGHT, None
    return UNTOLD, f"not told apart: {', '.join(untold)}"


def _unexplained(recording: Recording, stated: Evidence) -> bool:
    """Say whether hardly any recorded change is decided, where one could see that."""
    window = recording.window
    if window.early_ms + window.late_ms > LONGEST_WINDOW_MS or not stated.held:
        return False
    possible = stated.held - stated.chance
    if possible <= 0:
        return False
    # The upper end of Wilson's interval.
    n, p = possible, max(stated.matched - stated.chance, 0) / possible
    middle = p + _Z**2 / (2 * n)
    upper = (middle + _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))) / (1 + _Z**2 / n)
    return upper < LEAST_EXPLAINED


def _row(
    recording: Recording, stated: Evidence, found: Sequence[Comparison]
) -> dict[str, str | int | float | None]:
    answer, why = verdict_of(recording, stated, found)
    possible = stated.held - stated.chance
    told = [c.deviation.words for c in found if c.told]
    return dict(zip(KEY, key_of(recording.candidate), strict=True)) | {
        "answer": answer,
        "answer_why": why,
        "told_apart": ", ".join(told) or None,
        "window_s": recording.window.late_ms / 1000,
        "episodes": recording.episodes.count,
        "held": stated.held,
        "explained": stated.matched,
        "sized": stated.sized,
        "by_chance": stated.chance,
        "explained_share": max(stated.matched - stated.chance, 0) / possible
        if possible > 0
        else None,
        "standing_wishes": stated.standing,
    }
