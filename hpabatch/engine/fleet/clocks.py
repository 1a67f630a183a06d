"""Times of decisions: every HPA's own, on a grid, as recorded, or at a loop's passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from hpabatch.engine.fleet.sync import SyncEstimate, sync_ticks
from hpabatch.layout.records import I64

HpaKey = tuple[str, str, str]
"""Cluster, namespace and name of an HPA."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Instants every `period_ms`, `phase_ms` after full periods since 1970."""

    period_ms: int
    phase_ms: int = 0

    def instants(self, from_ms: int, to_ms: int) -> I64:
        """Return the instants in from_ms:to_ms, both ends included, ascending."""
        phase = self.phase_ms % self.period_ms
        first = -(-(from_ms - phase) // self.period_ms) * self.period_ms + phase
        return np.arange(first, to_ms + 1, self.period_ms, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of a cluster's live loop: at each of them all of its HPAs are decided."""

    cluster: str


Clock: TypeAlias = Grid | Passes | HpaKey
"""Key of a sequence of instants: equal for HPAs that share it."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The instants of every HPA: its own where some are known, else those of the grid.

    `from_ms` and `to_ms` bound the replay, both included. By HPA: `recorded` instants (ms,
    ascending), or syncs as `estimated`; by cluster: `passes` (ms, ascending). `asked_ms` is the
    time until which decisions were asked for, if one was given.
    """

    from_ms: int
    to_ms: int
    grid: Grid
    estimated: Mapping[HpaKey, SyncEstimate]
    recorded: Mapping[HpaKey, I64]
    passes: Mapping[str, I64] = field(default_factory=dict)
    asked_ms: int | None = None

    def of(self, key: HpaKey) -> Clock:
        """Return what an HPA's instants hang on: equal for HPAs with equal instants."""
        if key in self.recorded:
            return key
        if key[0] in self.passes:
            return Passes(key[0])
        return key if key in self.estimated else self.grid

    def instants(self, clock: Clock) -> I64:
        """Return the instants of what `of` returned, in ms, ascending."""
        if isinstance(clock, Grid):
            return clock.instants(self.from_ms, self.to_ms)
        if isinstance(clock, Passes) or clock in self.recorded:
            own = self._own(clock)
            return own[(own >= self.from_ms) & (own <= self.to_ms)]
        return sync_ticks(self.estimated[clock], self.from_ms, self.to_ms)

    def known(self, key: HpaKey) -> int | None:
        """Return how many instants of an HPA were recorded, None where none were."""
        clock = self.of(key)
        if isinstance(clock, Passes) or clock in self.recorded:
            return int(self._own(clock).size)
        return None

    def _own(self, clock: Clock) -> I64:
        if isinstance(clock, Passes):
            return self.passes[clock.cluster]
        assert not isinstance(clock, Grid)
        return self.recorded[clock]
