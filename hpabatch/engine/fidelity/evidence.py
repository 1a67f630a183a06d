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


class _Ticks(NamedTuple):
    """What trials share that have the same ticks and saw the same sizes.

    `breaks` (n,) says which ticks no wish stands across: the size is another one, or ticks are
    missing. Around each held episode at shifted times lie the ticks first:last, shape
    (shifts, held).
    """

    sizes: Sizes
    period_ms: int
    breaks: Bool
    first: I64
    last: I64


class _Wishes(NamedTuple):
    """Runs first:end of ticks with one standing wish, `way` 1 up and -1 down; shape (runs,)."""

    first: I64
    end: I64
    way: I64


def evidence_of(recording: Recording, trial: Trial) -> Evidence:
    """Return what a trial's setting makes of its recording."""
    return Judge(recording).evidence(trial)


class Judge:
    """Judges the trials of one recording; what these have in common is looked up once."""

    def __init__(self, recording: Recording) -> None:
        """Take the recording's held episodes: those of each pass, and all of them."""
        self.recording = recording
        self.passes = [recording.episodes.some(chosen) for chosen in recording.passes]
        chosen = np.concatenate([np.zeros(0, np.int64), *recording.passes])
        self.held = recording.episodes.some(chosen)
        self._known: dict[tuple[int, int], _Ticks] = {}

    def evidence(self, trial: Trial) -> Evidence:
        """Return what a trial's setting makes of the recording."""
        now_ms, window = self.recording.now_ms, self.recording.window
        blocks = int((now_ms[-1] - now_ms[0]) // BLOCK_MS) + 1
        wrong_ms, matched, sized = [np.zeros(0, np.int64)], 0, 0
        for some, sizes in zip(self.passes, trial.held, strict=True):
            decided, fits = _decided(some, window, sizes)
            matched, sized = matched + int(decided.sum()), sized + int(fits.sum())
            wrong_ms.append(some.first_ms[~fits])
        ticks = self._ticks(trial.plain)
        wishes = _wishes(trial.plain, ticks)
        first_ms, last_ms = _standing(wishes, ticks, window)
        wrong_ms.append(_anew(first_ms, last_ms))
        # A wish ends a period after its last tick, which may be after the last block.
        block = (np.concatenate(wrong_ms) - now_ms[0]) // BLOCK_MS
        errors = np.bincount(block[block < blocks], minlength=blocks).astype(np.int64)
        chance = self._chance(wishes, ticks)
        return Evidence(self.held.count, matched, sized, first_ms.size, chance, errors)

    def _ticks(self, sizes: Sizes) -> _Ticks:
        """Return what belongs to the arrays of ticks and sizes seen, which most trials share."""
        key = id(sizes.now_ms), id(sizes.seen)
        if key not in self._known:
            self._known[key] = _ticks_of(sizes, *self._shifted(sizes.now_ms))
        return self._known[key]

    def _shifted(self, tick_ms: I64) -> tuple[I64, I64]:
        """Return which ticks lie around each held episode, by shift of the recording."""
        now_ms, window = self.recording.now_ms, self.recording.window
        span_ms = int(now_ms[-1] - now_ms[0])
        if span_ms == 0:
            return np.zeros((0, self.held.count), np.int64), np.zeros((0, 0), np.int64)
        shift_ms = span_ms * np.arange(1, SHIFTS)[:, None] // SHIFTS
        shifted = now_ms[0] + (self.held.first_ms - now_ms[0] + shift_ms) % span_ms
        first = np.searchsorted(tick_ms, shifted - window.early_ms)
        return first, np.searchsorted(tick_ms, shifted + window.late_ms)

    def _chance(self, wishes: _Wishes, ticks: _Ticks) -> float:
        """Return how many of the held episodes match at shifted times, on average."""
        found = 0
        for way in (-1, 1) if ticks.first.size else ():
            theirs, own = self.held.up == way, wishes.way == way
            # Some run has begun before the last tick that had not ended at the first.
            first, last = ticks.first[:, theirs], ticks.last[:, theirs]
            begun = np.searchsorted(wishes.first[own], last)
            ended = np.searchsorted(wishes.end[own], first, side="right")
            found += int(((begun > ended) & (last > first)).sum())
        return found / (SHIFTS - 1)


def _decided(episodes: Episodes, window: Window, sizes: Sizes) -> tuple[Bool, Bool]:
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


def standing_wishes(sizes: Sizes, window: Window) -> tuple[I64, I64]:
    """Return begin and end of the wishes in one direction that stand for longer than the window."""
    none = np.zeros((0, 0), np.int64)
    ticks = _ticks_of(sizes, none, none)
    return _standing(_wishes(sizes, ticks), ticks, window)


def _ticks_of(sizes: Sizes, first: I64, last: I64) -> _Ticks:
    step_ms = np.diff(sizes.now_ms)
    period_ms = int_median(step_ms) if step_ms.size else 0
    breaks = np.ones(sizes.now_ms.size, np.bool_)
    breaks[1:] = (step_ms > 2 * period_ms) | (sizes.seen[1:] != sizes.seen[:-1])
    return _Ticks(sizes, period_ms, breaks, first, last)


def _wishes(sizes: Sizes, ticks: _Ticks) -> _Wishes:
    way = np.sign(sizes.wished - sizes.seen).astype(np.int8)
    anew = ticks.breaks.copy()
    anew[1:] |= way[1:] != way[:-1]
    first = np.flatnonzero(anew)
    end = np.append(first, way.size)[1:]
    wish = way[first] != 0
    return _Wishes(first[wish], end[wish], way[first[wish]].astype(np.int64))


def _standing(wishes: _Wishes, ticks: _Ticks, window: Window) -> tuple[I64, I64]:
    now_ms = ticks.sizes.now_ms
    first_ms, last_ms = now_ms[wishes.first], now_ms[wishes.end - 1] + ticks.period_ms
    long = last_ms - first_ms > window.standing_ms
    return first_ms[long], last_ms[long]


def _anew(first_ms: I64, last_ms: I64) -> I64:
    """Return the instants at which standing wishes are errors: from their begin on, in steps."""
    count = -(-(last_ms - first_ms) // STANDING_MS)
    step = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.asarray(np.repeat(first_ms, count) + step * STANDING_MS, np.int64)
