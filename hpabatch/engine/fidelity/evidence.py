"""Evidence for and against a setting: the recorded changes that it explains, and those that it
would have made besides.

An *error* is a recorded episode that the setting does not decide within its window, or to sizes
that are not recorded, or a wish that stands for longer than the window and that nobody followed.
Errors are counted by block of time: ticks and neighboring errors hang together, blocks hardly do.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.fidelity.episodes import Episodes, Window
from hpabatch.engine.fidelity.trials import Recording, Sizes, Trial
from hpabatch.engine.fit.stats import int_median
from hpabatch.engine.replay.score_events import Bool
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


def evidence_of(recording: Recording, trial: Trial) -> Evidence:
    """Return what a trial's setting makes of its recording."""
    now_ms, window = recording.now_ms, recording.window
    blocks = int((now_ms[-1] - now_ms[0]) // BLOCK_MS) + 1
    errors = np.zeros(blocks, np.int64)
    held = matched = sized = 0
    for chosen, sizes in zip(recording.passes, trial.held, strict=True):
        some = recording.episodes.some(chosen)
        decided, fits = _decided(some, window, sizes)
        held, matched, sized = (
            held + some.count,
            matched + int(decided.sum()),
            sized + int(fits.sum()),
        )
        np.add.at(errors, (some.first_ms[~fits] - now_ms[0]) // BLOCK_MS, 1)
    first_ms, last_ms = standing_wishes(trial.plain, window)
    for begin, end in zip(first_ms - now_ms[0], last_ms - now_ms[0], strict=True):
        # A wish ends a period after its last tick, which may be after the last block.
        block = np.arange(begin, end, STANDING_MS) // BLOCK_MS
        errors[block[block < blocks]] += 1
    chance = _chance(recording, trial.plain)
    return Evidence(held, matched, sized, first_ms.size, chance, errors)


def _decided(episodes: Episodes, window: Window, sizes: Sizes) -> tuple[Bool, Bool]:
    """Return of each episode whether it is decided within the window, and to sizes that fit."""
    first = np.searchsorted(sizes.now_ms, episodes.first_ms - window.early_ms)
    last = np.searchsorted(sizes.now_ms, episodes.last_ms + window.late_ms)
    decided, fits = np.zeros(episodes.count, np.bool_), np.zeros(episodes.count, np.bool_)
    up = episodes.up
    for k in range(episodes.count):
        seen, wished = sizes.seen[first[k] : last[k]], sizes.wished[first[k] : last[k]]
        there = wished[np.sign(wished - seen) == up[k]]
        if not there.size:
            continue
        decided[k] = True
        low, high = sorted((int(episodes.step[k]), int(episodes.after[k])))
        fits[k] = there.min() <= high + ROUNDING and there.max() >= low - ROUNDING
    return decided, fits


def standing_wishes(sizes: Sizes, window: Window) -> tuple[I64, I64]:
    """Return begin and end of the wishes in one direction that stand for longer than the window."""
    way = np.sign(sizes.wished - sizes.seen)
    wish = np.flatnonzero(way)
    if not wish.size:
        return wish, wish
    period_ms = int_median(np.diff(sizes.now_ms)) if sizes.now_ms.size > 1 else 0
    anew = np.ones(wish.size, np.bool_)
    before = wish[1:] - 1
    anew[1:] = (
        (wish[:-1] != before)
        | (way[wish[1:]] != way[wish[:-1]])
        | (sizes.seen[wish[1:]] != sizes.seen[wish[:-1]])
        | (np.diff(sizes.now_ms[wish]) > 2 * period_ms)
    )
    first = np.flatnonzero(anew)
    last = np.append(first[1:], wish.size) - 1
    first_ms, last_ms = sizes.now_ms[wish[first]], sizes.now_ms[wish[last]] + period_ms
    long = last_ms - first_ms > window.standing_ms
    return first_ms[long], last_ms[long]


def _chance(recording: Recording, plain: Sizes) -> float:
    """Return how many of the held episodes match at shifted times, on average."""
    chosen = np.concatenate([np.zeros(0, np.int64), *recording.passes])
    episodes, now_ms = recording.episodes.some(chosen), recording.now_ms
    span_ms = int(now_ms[-1] - now_ms[0])
    if not episodes.count or span_ms == 0:
        return 0.0
    way, found = np.sign(plain.wished - plain.seen), 0
    counts = {w: np.concatenate([[0], np.cumsum(way == w)]) for w in (-1, 1)}
    for k in range(1, SHIFTS):
        shifted = now_ms[0] + (episodes.first_ms - now_ms[0] + span_ms * k // SHIFTS) % span_ms
        first = np.searchsorted(plain.now_ms, shifted - recording.window.early_ms)
        last = np.searchsorted(plain.now_ms, shifted + recording.window.late_ms)
        for w, count in counts.items():
            found += int((count[last] > count[first])[episodes.up == w].sum())
    return found / (SHIFTS - 1)
