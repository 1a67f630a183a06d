"""Loss of a replay under a lens: how far its decisions lie from the recorded ones, in ticks.

The errors of an answer (`engine.fidelity.evidence`) allow for the window of an HPA, which is wider
than most lags. Here each tick counts in which a wish is not what was recorded then.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hpabatch.engine.fidelity.episodes import Episodes, episodes_of, passes_of
from hpabatch.engine.fidelity.evidence import BLOCK_MS
from hpabatch.engine.fidelity.trials import MOST_PASSES, Recording, Sizes, Trial
from hpabatch.engine.shards.shard import ScaleColumns
from hpabatch.layout.records import F64, I64

REACH_MS: Final = 240_000
"""So far around a recorded change its decision is looked for, beside what is uncertain anyway."""

MOST_SIZE: Final = 3
"""Ticks that a decided size counts at most by being another than the recorded one."""


def wide(recording: Recording, scale: ScaleColumns, from_ms: int, to_ms: int) -> Recording:
    """Return a recording of some time, with holds as long as a decision is looked for."""
    window = recording.window._replace(late_ms=recording.window.late_ms + REACH_MS)
    now_ms = recording.now_ms
    now_ms = now_ms[(now_ms >= from_ms) & (now_ms < to_ms)]
    none = np.zeros(0, np.int64)
    episodes = Episodes(none, none, none, none, none)
    if now_ms.size:
        episodes = episodes_of(scale, recording.window, int(now_ms[0]), int(now_ms[-1]))
    passes = passes_of(episodes, window, recording.warm_ms, MOST_PASSES)
    return recording._replace(now_ms=now_ms, window=window, episodes=episodes, passes=passes)


def losses(recording: Recording, trial: Trial) -> F64:
    """Return by how much a trial misses its (wide) recording, by half hour.

    That is the square root of the ticks: one cause may keep a wish up for hours.
    """
    now_ms = recording.now_ms
    blocks = np.zeros(int((now_ms[-1] - now_ms[0]) // BLOCK_MS) + 1)
    for chosen, sizes in zip(recording.passes, trial.held, strict=True):
        some = recording.episodes.some(chosen)
        lost = _of_episodes(recording, some, sizes)
        np.add.at(blocks, (some.first_ms - now_ms[0]) // BLOCK_MS, lost)
    away = _unanswered(recording, trial.plain)
    np.add.at(blocks, (away - now_ms[0]) // BLOCK_MS, 1)
    return np.asarray(np.sqrt(blocks), np.float64)


def _of_episodes(recording: Recording, some: Episodes, sizes: Sizes) -> F64:
    """Return of each held episode the ticks from its decision to the recorded change of it.

    A wish before counts by the tick, and so does each tick until the first one after.
    """
    size_ms, late_ms = recording.window.size_ms, recording.window.late_ms
    now_ms, lost = sizes.now_ms, np.zeros(some.count)
    wished = sizes.wished != sizes.seen
    # The tick at or before the recorded change made it; if its time is uncertain, one before that.
    at = np.searchsorted(now_ms, some.first_ms, side="right") - 1
    sure = np.searchsorted(now_ms, some.first_ms - size_ms, side="right") - 1
    begin = np.searchsorted(now_ms, some.first_ms - size_ms - REACH_MS)
    end = np.searchsorted(now_ms, some.last_ms + late_ms)
    up = some.up
    for k in range(some.count):
        lost[k] = wished[begin[k] : max(sure[k], begin[k])].sum()
        from_tick = max(sure[k], 0)
        found = np.flatnonzero(
            np.sign(sizes.wished[from_tick : end[k]] - sizes.seen[from_tick : end[k]]) == up[k]
        )
        if not found.size:
            lost[k] += max(end[k] - at[k], 0) + MOST_SIZE
            continue
        first = from_tick + int(found[0])
        lost[k] += max(first - at[k], 0)
        low, high = sorted((int(some.step[k]), int(some.after[k])))
        size = int(sizes.wished[first])
        lost[k] += min(max(low - size, size - high, 0), MOST_SIZE)
    return lost


def _unanswered(recording: Recording, plain: Sizes) -> I64:
    """Return the instants of wishes that no recorded change is near to."""
    episodes = recording.episodes
    wish: I64 = plain.now_ms[plain.wished != plain.seen]
    if not episodes.count:
        return wish
    begin = episodes.first_ms - recording.window.size_ms - REACH_MS
    end = episodes.last_ms + recording.window.late_ms
    inside = np.searchsorted(begin, wish, side="right") > np.searchsorted(end, wish, side="right")
    return np.asarray(wish[~inside], np.int64)
