"""Episodes: the recorded changes of an HPA's size, and how far their instants are uncertain.

Changes of one direction that follow each other within the window are one episode: a rollout of
pods in steps, or one change that the size's own samples tell in parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hpabatch.engine.shards.shard import ScaleColumns
from hpabatch.layout.records import I64

SAMPLED_SHARE = 0.9  # of so many pods the life is that of their samples: it was made of these


class Window(NamedTuple):
    """How far apart a decision and the recorded change of it may lie, in ms.

    `late_ms` is sync period + sample spacing + delay: so much later than the controller a replay
    may see a sample. `size_ms` is what is uncertain about the instant of a recorded change: it
    happened up to so long before. `standing_ms`: a wish of the controller's own is followed within.
    """

    late_ms: int
    size_ms: int
    standing_ms: int

    @property
    def early_ms(self) -> int:
        """How long before a recorded change its decision may lie."""
        return self.late_ms + self.size_ms


@dataclass(frozen=True, slots=True)
class Episodes:
    """Recorded changes by time: when the first and the last step of each was recorded (ms), the
    size before, after the first step and after the last one; shape (n,).
    """

    first_ms: I64
    last_ms: I64
    before: I64
    step: I64
    after: I64

    @property
    def count(self) -> int:
        """Number of episodes."""
        return self.first_ms.size

    @property
    def up(self) -> I64:
        """1 where the size grew, -1 where it fell."""
        return np.asarray(np.sign(self.after - self.before), np.int64)

    def some(self, chosen: I64) -> Episodes:
        """Return some of them, by position."""
        return Episodes(
            *(
                values[chosen]
                for values in (self.first_ms, self.last_ms, self.before, self.step, self.after)
            )
        )


def window_of(period_ms: int, spacing_ms: int, delay_ms: int, unseen_ms: int | None) -> Window:
    """Return an HPA's window.

    Args:
        period_ms: time between two syncs.
        spacing_ms: time between two samples of a pod.
        delay_ms: time from a sample until it is visible.
        unseen_ms: time from a pod's last sample until it is taken for gone, where its life is that
            of its samples; None: lives and sizes were recorded themselves.
    """
    seen_ms = spacing_ms + delay_ms
    size_ms = 0 if unseen_ms is None else max(spacing_ms, unseen_ms)
    return Window(period_ms + seen_ms, size_ms, period_ms + max(seen_ms, size_ms))


def episodes_of(scale: ScaleColumns, window: Window, from_ms: int, to_ms: int) -> Episodes:
    """Return the episodes of a scale that lie between two instants, the window after included."""
    rows = scale.resized()
    ts_ms, before, after = scale.ts_ms[rows], scale.replicas[rows - 1], scale.replicas[rows]
    up = after > before
    inside = np.ones(rows.size, np.bool_)
    inside[1:] = (np.diff(ts_ms) > window.early_ms) | (up[1:] != up[:-1])
    first = np.flatnonzero(inside)
    last = np.append(first[1:], rows.size) - 1 if rows.size else first
    found = Episodes(ts_ms[first], ts_ms[last], before[first], after[first], after[last])
    held = (found.first_ms - window.early_ms >= from_ms) & (found.last_ms + window.late_ms <= to_ms)
    return found.some(np.flatnonzero(held))


def passes_of(episodes: Episodes, window: Window, warm_ms: int, most: int) -> list[I64]:
    """Return positions of episodes by the replay in which they are held.

    Within one replay they are so far apart that the controller's memory is that of the recording
    (`warm_ms`) when the next begins. Those that fit into none of `most` replays are in none.
    """
    ends, found = list[int](), list[list[int]]()
    begin = (episodes.first_ms - window.early_ms - warm_ms).tolist()
    end = (episodes.last_ms + window.late_ms).tolist()
    for k in range(episodes.count):
        free = next((p for p, until in enumerate(ends) if until <= begin[k]), len(ends))
        if free == most:
            continue
        if free == len(ends):
            ends.append(0)
            found.append([])
        ends[free] = end[k]
        found[free].append(k)
    return [np.array(positions, np.int64) for positions in found]
