"""The answer on an HPA's stated settings: right, wrong, or cannot be told at this resolution.

The stated settings are compared with each deviation, block by block of the recording: which of the
two makes fewer errors? Only blocks in which they differ count (a sign test). Blocks are counted and
not ticks, because what was decided in one tick stands in the next.

An *error* is a recorded episode that the setting does not decide within its window, or to sizes
that are not recorded, or a wish that stands for longer than the window and that nobody followed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.columns.fidelity import FIDELITY_HPAS
from hpabatch.engine.fidelity.trials import (
    METRIC,
    WINDOW,
    Deviation,
    Episodes,
    Recording,
    Sizes,
    Trial,
    Window,
)
from hpabatch.engine.fidelity.walk import Walk
from hpabatch.engine.fit.stats import Mask, int_median
from hpabatch.engine.replay.summary import KEY, foreign_changes
from hpabatch.layout.records import I64

BLOCK_MS: Final = 1_800_000
ROUNDING: Final = 1
"""Replicas by which a decided size may lie beside the recorded ones: a sample's own noise."""

STANDING_MS: Final = 7_200_000
"""A wish that stands on is another error so often: one cause may keep it up for hours."""

SHIFTS: Final = 8
"""Times by which the recording is shifted to count chance matches, evenly over its length."""


class Evidence(NamedTuple):
    """What a setting makes of a recording.

    `held` episodes were replayed; `matched` decided in their window, `sized` also to the sizes
    recorded; `standing` wishes stood too long. `chance` is how many of the held episodes would
    match in a recording shifted in time. `errors` by block, shape (blocks,).
    """

    held: int
    matched: int
    sized: int
    standing: int
    chance: float
    errors: I64


class Judge:
    """Judges the trials of one recording."""

    def __init__(self, recording: Recording) -> None:
        """Take the recording's held episodes: those of each pass, and all of them."""
        self.recording = recording
        self.passes = [recording.episodes.some(chosen) for chosen in recording.passes]
        chosen = np.concatenate([np.zeros(0, np.int64), *recording.passes])
        self.held = recording.episodes.some(chosen)

    def evidence(self, trial: Trial) -> Evidence:
        """Return what a trial's setting makes of the recording."""
        now_ms, window = self.recording.now_ms, self.recording.window
        blocks = int((now_ms[-1] - now_ms[0]) // BLOCK_MS) + 1
        wrong_ms, matched, sized = [np.zeros(0, np.int64)], 0, 0
        for some, sizes in zip(self.passes, trial.held, strict=True):
            decided, fits = _decided(some, window, sizes)
            matched, sized = matched + int(decided.sum()), sized + int(fits.sum())
            wrong_ms.append(some.first_ms[~fits])
        # Runs of ticks with one standing wish, which ends where the size is another one, or ticks
        # are missing.
        tick_ms, seen = trial.plain.now_ms, trial.plain.seen
        step_ms = np.diff(tick_ms)
        period_ms = int_median(step_ms) if step_ms.size else 0
        way = np.sign(trial.plain.wished - seen).astype(np.int8)
        anew = np.ones(tick_ms.size, np.bool_)
        anew[1:] = (step_ms > 2 * period_ms) | (seen[1:] != seen[:-1]) | (way[1:] != way[:-1])
        first = np.flatnonzero(anew)
        end = np.append(first, way.size)[1:]
        wish = way[first] != 0
        first, end = first[wish], end[wish]
        first_ms, last_ms = tick_ms[first], tick_ms[end - 1] + period_ms
        long = last_ms - first_ms > window.standing_ms
        # They are errors from their begin on, in steps.
        count = -(-(last_ms - first_ms)[long] // STANDING_MS)
        step = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        wrong_ms.append(np.repeat(first_ms[long], count) + step * STANDING_MS)
        # A wish ends a period after its last tick, which may be after the last block.
        block = (np.concatenate(wrong_ms) - now_ms[0]) // BLOCK_MS
        errors = np.bincount(block[block < blocks], minlength=blocks).astype(np.int64)
        chance = self._chance(tick_ms, first, end, way[first])
        return Evidence(self.held.count, matched, sized, int(long.sum()), chance, errors)

    def _chance(self, tick_ms: I64, begin: I64, end: I64, way: NDArray[np.int8]) -> float:
        """Return how many of the held episodes match at shifted times, on average.

        Wishes stand in the ticks begin:end, `way` 1 up and -1 down.
        """
        now_ms, window = self.recording.now_ms, self.recording.window
        span_ms, found = int(now_ms[-1] - now_ms[0]), 0
        shift_ms = span_ms * np.arange(1, SHIFTS)[:, None] // SHIFTS
        for up in (-1, 1) if span_ms and self.held.count else ():
            since_ms = self.held.first_ms[self.held.up == up] - now_ms[0]
            shifted = now_ms[0] + (since_ms + shift_ms) % span_ms
            first = np.searchsorted(tick_ms, shifted - window.early_ms)
            last = np.searchsorted(tick_ms, shifted + window.late_ms)
            # Some run has begun before the last tick that had not ended at the first.
            begun = np.searchsorted(begin[way == up], last)
            ended = np.searchsorted(end[way == up], first, side="right")
            found += int(((begun > ended) & (last > first)).sum())
        return found / (SHIFTS - 1)


def _decided(episodes: Episodes, window: Window, sizes: Sizes) -> tuple[Mask, Mask]:
    """Return of each episode whether it is decided within the window, and to sizes that fit."""
    first = np.searchsorted(sizes.now_ms, episodes.first_ms - window.early_ms)
    last = np.searchsorted(sizes.now_ms, episodes.last_ms + window.late_ms)
    length = last - first
    owner = np.repeat(np.arange(episodes.count), length)
    at = np.arange(owner.size) + (first - np.cumsum(length) + length)[owner]
    wished = sizes.wished[at]
    there = np.sign(wished - sizes.seen[at]) == episodes.up[owner]
    owner, wished = owner[there], wished[there]
    begin = np.flatnonzero(np.diff(owner, prepend=-1))
    decided, fits = np.zeros(episodes.count, np.bool_), np.zeros(episodes.count, np.bool_)
    if begin.size:
        some = owner[begin]
        low = np.minimum(episodes.step, episodes.after)[some] - ROUNDING
        high = np.maximum(episodes.step, episodes.after)[some] + ROUNDING
        decided[some] = True
        fits[some] = (np.minimum.reduceat(wished, begin) <= high) & (
            np.maximum.reduceat(wished, begin) >= low
        )
    return decided, fits


RIGHT: Final = "right"
WRONG: Final = "wrong"
UNTOLD: Final = "cannot be told"

TOLD_P: Final = 0.01
"""Up to this p a deviation is told apart: it fits worse than what is stated."""

UNEXPLAINED: Final = "the rules decide"
"""Begins why "wrong" is the answer though nothing else fits better: samples farther apart than the
controller's own do that, too."""

WRONG_P: Final = 0.005
MOST_ERRORS: Final = 0.7
"""Up to this p, with so large a share of the errors at most, a deviation refutes what is stated."""

LEAST_EXPLAINED: Final = 0.25
LONGEST_WINDOW_MS: Final = 300_000
"""If fewer changes are explained (above chance, 95 % bound), what is stated is wrong; with
longer windows too few of a right setting's changes can be found to say so."""

_Z: Final = 1.645

_FIRST: Final = FIDELITY_HPAS.names.index("controller_answer")
_LAST: Final = FIDELITY_HPAS.names.index("controller_standing_wishes")
ANSWER_SCHEMA: Final = {
    name.removeprefix("controller_"): FIDELITY_HPAS.schema[name]
    for name in (*KEY, *FIDELITY_HPAS.names[_FIRST : _LAST + 1])
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
        unmade = foreign.get(recording.candidate.key)
        if unmade is not None:
            recording = _without(recording, unmade["ts"].to_physical().to_numpy())
        judge = Judge(recording)
        stated = judge.evidence(trials[0])
        found = [
            _compare(recording, trial.deviation, stated, judge.evidence(trial),
                     same=np.array_equal(trials[0].plain.wished, trial.plain.wished))
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
            f"{UNEXPLAINED} {stated.matched} of {stated.held} recorded changes, "
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
    return dict(zip(KEY, recording.candidate.key, strict=True)) | {
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
