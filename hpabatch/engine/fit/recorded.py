"""Measures of a recording that a simulation of the same time has too.

What the model says of today's setting stands beside what was recorded. Times without a sample
count as quiet, so recorded minutes are a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hpabatch.engine.columns.recorded import ABOVE_MINUTES, RECORDED_MEASURES
from hpabatch.engine.fit.measured import Measured
from hpabatch.engine.fit.series import MINUTE_MS
from hpabatch.engine.fit.stats import Mask
from hpabatch.engine.fit.usage import Usage
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.layout.records import I64
from hpabatch.model.plant import Signal

SATURATED_AT: Final = 0.98
"""From this part of a ceiling on a sample's pod counts as saturated: on fleets whose plant is known
the time at it is that of the plant (23 and 89 minutes, of 95 % of the ceiling: 77 and 140)."""

_HOUR_MS: Final = 3_600_000


def _nothing() -> I64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded of a workload.

    From `size_ms[k]` on its target's size was `size[k]`, until `until_ms`; `pods_ms` (P, 2) are the
    pods' lives. By piece (`starts_ms`, each `piece_ms` long): whether the highest pod was at its
    ceiling (`saturated`, None without one), and above how many assumed ones (`above`, None with a
    known one).
    """

    size_ms: I64
    size: I64
    until_ms: int
    pods_ms: I64
    starts_ms: I64 = field(default_factory=_nothing)
    piece_ms: int = MINUTE_MS
    saturated: Mask | None = None
    above: NDArray[np.int8] | None = None

    def between(self, from_ms: int, to_ms: int) -> dict[str, float | None]:
        """Return RECORDED_MEASURES of a time; None where one is not known."""
        found: dict[str, float | None] = dict.fromkeys(RECORDED_MEASURES)
        if self.size.size:
            ends = np.append(self.size_ms[1:], self.until_ms)
            lasted = np.minimum(ends, to_ms) - np.maximum(self.size_ms, from_ms)
            hours = float((self.size * np.maximum(lasted, 0)).sum()) / _HOUR_MS
            changed = (self.size_ms[1:] > from_ms) & (self.size_ms[1:] <= to_ms)
            found |= {"replica_hours": hours, "rescales": int(changed.sum())}
        if self.pods_ms.size:
            lived = np.minimum(self.pods_ms[:, 1], to_ms) - np.maximum(self.pods_ms[:, 0], from_ms)
            found["pod_hours"] = float(np.maximum(lived, 0).sum()) / _HOUR_MS
        inside = (self.starts_ms >= from_ms) & (self.starts_ms < to_ms)
        each = self.piece_ms / MINUTE_MS
        if self.saturated is not None:
            found["saturated_minutes"] = float((self.saturated & inside).sum() * each)
        if self.above is not None:
            for k, name in enumerate(ABOVE_MINUTES):
                found[name] = float((inside & (self.above > k)).sum() * each)
        return found


def recorded_of(usage: Usage, m: Measured | None, signal: Signal | None) -> Recorded:
    """Return what was recorded of a workload, and of its primary signal where it has one."""
    known = np.flatnonzero(usage.replicas >= 0)
    size, at_ms = usage.replicas[known], usage.now_ms[known]
    kept = np.flatnonzero(np.diff(size, prepend=-1) != 0)
    until_ms = int(usage.now_ms[-1]) if usage.now_ms.size else 0
    lives = usage.lives
    began = np.minimum(lives.created_ms, NEVER_MS)
    whole = Recorded(at_ms[kept], size[kept], until_ms, np.stack([began, lives.gone_ms], axis=1))
    if m is None or signal is None or not (signal.ceiling_milli or signal.levels_milli):
        return whole
    highest = np.nan_to_num(m.series.most, nan=-1.0)
    ceiling, levels = signal.ceiling_milli, np.array(signal.levels_milli, np.float64)
    above = np.searchsorted(levels, highest, side="left").astype(np.int8)
    return Recorded(
        whole.size_ms,
        whole.size,
        until_ms,
        whole.pods_ms,
        starts_ms=m.cells.starts_ms,
        piece_ms=m.cells.resolution_ms,
        saturated=None if ceiling is None else highest >= SATURATED_AT * ceiling,
        above=above if levels.size else None,
    )
