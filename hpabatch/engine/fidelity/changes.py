"""Changes of a workload's pods on which its plant is judged, with the usage around them.

A change lies between two neighboring settled cells of a signal's series. A cell is settled if no
pod became ready, or ceased to be, in its samples' window or shortly before it. Steps of a scale-up
that follow each other closely are one change. The measures are the mean usage over the settled
cells just before the change, and over those of the minutes after it, as long as the pods stay.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.fidelity.parameters import FidelityParameters
from hpabatch.engine.fit.measured import Measured
from hpabatch.engine.fit.series import spacing_ms, window_ms
from hpabatch.engine.fit.stats import F64, Mask
from hpabatch.engine.fit.usage import SETTLE_MS
from hpabatch.engine.fit.usage_pods import Lives
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.layout.records import I64

SIZE, ROLLOUT, REPLACED, SPEC = range(4)
KINDS: Final = {
    "size": "the number of ready pods changed",
    "rollout": "as many pods are ready, all of them others",
    "replaced": "as many pods are ready, some of them others or restarted",
    "spec": "the HPA's spec or the pods' requests changed, and no pod",
}

USED, FAR, MOVED, END, GAP, SATURATED, IDLE = range(7)
LEFT_OUT: Final = {
    "far": "settled samples before and after are too far apart",
    "moved": "the pods changed again in the minutes after",
    "end": "the history ends in the minutes after",
    "gap": "too few samples in the minutes after",
    "saturated": "usage was at the ceiling before or after, so what the work was is not known",
    "idle": "nothing was used before or after",
}
"""Reasons to leave a change out, in order: the first that holds counts. Codes begin with 1."""


LONGEST_SPACINGS: Final = 3
"""Coarse samples may be so many of their own spacings apart around a change."""


class Transitions(NamedTuple):
    """Changes between settled cells, shape (n,).

    `before` and `after` are the cells. In between, things changed from `first_ms` to `last_ms`;
    the pods had changed at `prior_ms` before and do again at `next_ms`. `kind` as in KINDS.
    """

    before: I64
    after: I64
    first_ms: I64
    last_ms: I64
    prior_ms: I64
    next_ms: I64
    kind: I64


class Changes(NamedTuple):
    """Judged changes, shape (n,).

    `at_ms` is when the last pod changed; `pods_before`, `pods_after` the ready pods. `level_milli`
    is the mean usage before (of a total the newest value), `observed_milli` the one after over
    `samples` cells. `from_cell` to `before` are the cells before, `after` to `to_cell` those after,
    both ends included. `left_out` is USED or one of the codes after it.
    """

    at_ms: I64
    kind: I64
    pods_before: I64
    pods_after: I64
    level_milli: F64
    observed_milli: F64
    samples: I64
    from_cell: I64
    before: I64
    after: I64
    to_cell: I64
    left_out: I64


def judged_changes(
    m: Measured, censored: Mask, from_ms: int, parameters: FidelityParameters
) -> Changes:
    """Return the changes from an instant on, used ones and those left out, in order of time.

    Args:
        m: the signal over the whole history.
        censored: cells in which usage was at the ceiling, shape (cells,).
        from_ms: where the part that is judged begins.
        parameters: lengths of the windows.
    """
    moves = transitions_of(m, spec_changes_ms(m))
    moves = Transitions(*(values[moves.first_ms >= from_ms] for values in moves))
    cells, usage = m.cells, m.series.usage
    known = settled_cells(m)
    middle = m.cells.middles_ms
    level = cells.per(parameters.level_ms)
    longest_ms = max(parameters.longest_ms, LONGEST_SPACINGS * spacing_ms(m.signal))
    from_cell = np.maximum(
        moves.before - level + 1, np.searchsorted(middle, moves.prior_ms, side="right")
    )
    horizon_ms = moves.last_ms + parameters.horizon_ms
    # The last cell whose samples' windows end within the minutes after.
    to_cell = np.searchsorted(middle, horizon_ms - window_ms(m.signal) / 2, side="right") - 1
    samples = _sums(known, moves.after, to_cell).astype(np.int64)
    values = np.where(known, usage, 0.0)
    before = _sums(values, from_cell, moves.before)
    before = before / np.maximum(_sums(known, from_cell, moves.before), 1)
    if m.signal.is_total:
        before = usage[moves.before]
    observed = _sums(values, moves.after, to_cell) / np.maximum(samples, 1)
    at_ceiling = _sums(censored, from_cell, moves.before) + _sums(censored, moves.after, to_cell)
    tests = (
        middle[moves.after] - middle[moves.before] > longest_ms,
        moves.next_ms <= horizon_ms,
        horizon_ms > cells.start_ms + cells.count * cells.resolution_ms,
        2 * samples < max(expected_samples(m, parameters.horizon_ms), 1),
        at_ceiling > 0,
        _is_idle(m, before, observed),
    )
    return Changes(
        at_ms=moves.last_ms,
        kind=moves.kind,
        pods_before=np.rint(m.series.ready[moves.before]).astype(np.int64),
        pods_after=np.rint(m.series.ready[moves.after]).astype(np.int64),
        level_milli=before,
        observed_milli=observed,
        samples=samples,
        from_cell=from_cell,
        before=moves.before,
        after=moves.after,
        to_cell=to_cell,
        left_out=np.select(tests, range(1, len(tests) + 1), USED).astype(np.int64),
    )


def _is_idle(m: Measured, before: F64, observed: F64) -> Mask:
    """Return of which changes an error has nothing to be relative to."""
    return (before <= 0) & (observed <= 0) if m.signal.is_total else observed <= 0


def settled_cells(m: Measured) -> Mask:
    """Return the cells whose samples are of settled pods only, shape (cells,)."""
    return np.asarray(m.series.still & (m.series.ready > 0.5) & np.isfinite(m.series.usage))


def expected_samples(m: Measured, horizon_ms: int) -> int:
    """Return how many settled samples the minutes after a change are sure to have, without gaps."""
    step = max(spacing_ms(m.signal), m.cells.resolution_ms)
    return (horizon_ms - SETTLE_MS - window_ms(m.signal)) // step


def transitions_of(m: Measured, spec_ms: I64) -> Transitions:
    """Return what changed between neighboring settled cells; `spec_ms` are changes of no pod."""
    settled = np.flatnonzero(settled_cells(m))
    before, after = settled[:-1], settled[1:]
    middle = m.cells.middles_ms
    steps = m.usage.lives.step_ms
    low, high = (np.searchsorted(steps, middle[c], side="right") for c in (before, after))
    said, until = (np.searchsorted(spec_ms, middle[c], side="right") for c in (before, after))
    kept = np.flatnonzero((high > low) | (until > said))
    before, after, low, high = before[kept], after[kept], low[kept], high[kept]
    moved = high > low
    # Guards, so that the side that is not chosen can be looked up.
    first = np.append(steps, NEVER_MS)
    told = np.append(spec_ms, NEVER_MS)
    ready = np.rint(m.series.ready)
    kind = np.where(ready[before] != ready[after], SIZE, np.where(moved, REPLACED, SPEC))
    for k in np.flatnonzero(kind == REPLACED).tolist():
        at_ms = middle[[before[k], after[k]]].tolist()
        there, now = (ready_pods(m.usage.lives, ms) for ms in at_ms)
        if not (there & now).any():
            kind[k] = ROLLOUT
    return Transitions(
        before=before,
        after=after,
        first_ms=np.where(moved, first[low], told[said[kept]]),
        last_ms=np.where(moved, first[high - 1], told[until[kept] - 1]),
        prior_ms=np.append(ALWAYS_MS, steps)[low],
        next_ms=first[high],
        kind=kind.astype(np.int64),
    )


def ready_pods(lives: Lives, at_ms: int) -> Mask:
    """Return which pods were ready at an instant, shape (P,)."""
    ended = np.minimum(lives.deleted_ms, lives.gone_ms)
    ready = (lives.ready_ms <= at_ms) & (at_ms < ended)
    lost = (lives.lost_ms <= at_ms) & (at_ms < lives.again_ms)
    ready[lives.lost_pod[lost]] = False
    return np.asarray(ready)


def spec_changes_ms(m: Measured) -> I64:
    """Return when the HPA's spec or the request per pod changed, ascending."""
    now_ms, period = m.usage.now_ms, m.usage.period
    edited = np.flatnonzero((period[1:] != period[:-1]) & (period[1:] >= 0) & (period[:-1] >= 0))
    found = now_ms[edited + 1]
    requested = np.flatnonzero(m.signal.requested > 0)
    each = m.signal.request_milli[requested] / m.signal.requested[requested]
    resized = requested[1:][each[1:] != each[:-1]]
    return np.unique(np.concatenate([found, now_ms[m.signal.tick[resized]]]))


def _sums(values: F64 | Mask, first: I64, last: I64) -> F64:
    """Return sums over cells from `first` to `last`, both included; 0 where that is none."""
    total = np.append(0.0, np.cumsum(values, dtype=np.float64))
    last = np.minimum(last + 1, values.size)
    return np.where(last > first, total[last] - total[np.minimum(first, last)], 0.0)
