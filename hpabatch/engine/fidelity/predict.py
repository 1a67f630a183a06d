"""Predictions of usage after a change by a fitted plant, from what was known before the change.

The demand after the change is not used: in the recorded run the number of pods cancels out
(work × pods / pods), so any plant would be right.
"""

from __future__ import annotations

import numpy as np

from hpabatch.engine.fidelity.changes import (
    IDLE,
    SIZE,
    SPEC,
    USED,
    Changes,
    ready_pods,
    settled_cells,
)
from hpabatch.engine.fit.measured import Measured
from hpabatch.engine.fit.stats import F64, Mask
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.model.plant import AGE, BACKLOG, DIVISIBLE, Signal

_HOUR_MS = 3_600_000


def tells_apart(signal: Signal, changes: Changes) -> Mask:
    """Return which changes tell a plant from persistence: on the others both agree by definition.

    Work is shared among other pods only if their number changes; memory also if younger ones come;
    no change tests a signal that does not depend on the pods.
    """
    if signal.kind in (DIVISIBLE, BACKLOG):
        return np.asarray(changes.kind == SIZE)
    if signal.kind == AGE:
        return np.asarray(changes.kind != SPEC)
    return np.zeros(changes.kind.size, bool)


def predicted_milli(m: Measured, signal: Signal, changes: Changes) -> F64:
    """Return the usage per pod (of a total: the value) after each change, milli, shape (n,).

    Divisible: base + (level - base) × pods before / pods after. Per pod and total: the level. Age:
    base + growth × age, the mean over the pods there, each up to the ceiling. Backlog: the queue,
    as arrivals of the time before and the pods there let it grow or shrink. Up to the ceiling.
    """
    level = changes.level_milli
    if signal.kind == DIVISIBLE:
        work = np.maximum(level - signal.base_milli, 0.0) * changes.pods_before
        found = signal.base_milli + work / np.maximum(changes.pods_after, 1)
    elif signal.kind == AGE:
        found = _grown_milli(m, signal, changes)
    elif signal.kind == BACKLOG:
        found = _queues(m, signal, changes)
    else:
        found = level
    return found if signal.ceiling_milli is None else np.minimum(found, signal.ceiling_milli)


def with_known_arrivals(m: Measured, signal: Signal, changes: Changes) -> Changes:
    """Return changes without those of a backlog that was empty before: arrivals are not known."""
    if signal.kind != BACKLOG:
        return changes
    empty = np.append(0, np.cumsum(m.series.usage <= 0))
    seen = empty[changes.before + 1] - empty[changes.from_cell] > 0
    left_out = np.where((changes.left_out == USED) & seen, IDLE, changes.left_out)
    return changes._replace(left_out=left_out)


def _grown_milli(m: Measured, signal: Signal, changes: Changes) -> F64:
    """Return the mean usage of the ready pods in the middle of the samples after each change."""
    most = np.inf if signal.ceiling_milli is None else signal.ceiling_milli
    lives, cells = m.usage.lives, m.cells
    found = np.full(changes.at_ms.size, np.nan)
    for k in np.flatnonzero(changes.left_out == USED).tolist():
        both = int(changes.after[k] + changes.to_cell[k] + 1)
        at_ms = cells.start_ms + both * cells.resolution_ms // 2
        there = ready_pods(lives, at_ms) & (lives.started_ms < NEVER_MS)
        if there.any():
            age_h = (at_ms - lives.started_ms[there]) / _HOUR_MS
            grown = signal.base_milli + signal.growth_milli_per_hour * age_h
            found[k] = float(np.mean(np.minimum(grown, most)))
    return found


def _queues(m: Measured, signal: Signal, changes: Changes) -> F64:
    """Return the mean queue over the samples after each change."""
    queue, step_s = m.series.usage, m.cells.resolution_ms / 1000
    # What the pods could do between the middle of a cell and that of the one before it.
    pods_s = np.diff(m.usage.lives.ready_ms_until(m.cells.middles_ms), prepend=0) / 1000
    known = settled_cells(m)
    settled = np.flatnonzero(known)
    begin = settled[np.searchsorted(settled, changes.from_cell)]
    found = np.full(changes.at_ms.size, np.nan)
    for k in np.flatnonzero(changes.left_out == USED).tolist():
        first, last = int(begin[k]), int(changes.before[k])
        grown = (queue[last] - queue[first]) / max((last - first) * step_s, step_s)
        arriving = max(grown + float(changes.pods_before[k]) * signal.rate_milli, 0.0) * step_s
        total, count, now = 0.0, 0, float(queue[last])
        for cell in range(last + 1, int(changes.to_cell[k]) + 1):
            now = max(now + arriving - float(pods_s[cell]) * signal.rate_milli, 0.0)
            if cell >= changes.after[k] and known[cell]:
                total, count = total + now, count + 1
        found[k] = total / count if count else np.nan
    return found
