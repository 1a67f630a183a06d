"""Smallest changes of an HPA: what its tolerance and its rounding up keep where it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from hpabatch.engine.analyze.loop import first_step
from hpabatch.engine.analyze.map import Band
from hpabatch.engine.analyze.meter import Meter, Moves, Ruled
from hpabatch.model.printable import counted

_UNIT_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """The nearest sizes that a metric asks for from a size, and the first steps to there.

    The steps are shorter where policies allow less at once. None: there is no such change.
    """

    size: int
    up_to: int | None
    up_first: int | None
    down_to: int | None
    down_first: int | None

    @property
    def least(self) -> int | None:
        """The smallest change in pods."""
        firsts = (first for first in (self.up_first, self.down_first) if first is not None)
        return min((abs(first - self.size) for first in firsts), default=None)

    def __str__(self) -> str:
        """Return a sentence such as `at 100 pods no change smaller than 10: 100 -> 111 or 90`."""
        place = f"at {counted(self.size, 'pod')}"
        if self.least is None:
            return f"{place} no change"
        goals = " or ".join(
            str(goal) if goal == first else f"{goal} ({first} at once by its policies)"
            for goal, first in ((self.up_to, self.up_first), (self.down_to, self.down_first))
            if goal is not None
        )
        what = f"no change smaller than {self.least}" if self.least > 1 else "the nearest sizes"
        return f"{place} {what}: {self.size} -> {goals}"


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest changes that a metric brings about.

    Attributes:
        lowest: from minReplicas, or from one pod.
        asked: from the size that is asked about.
        pod_more: the least size from which on the work of one pod more changes nothing; None: at
            no size, or the target is a plain value.
        unit_more: the same for one unit more than the target of all pods.
        below_max: the sizes just below maxReplicas (first, last) that stay where they are at the
            demand that fits maxReplicas, `fits_milli`; None: they all leave.
    """

    lowest: Step
    asked: Step | None
    pod_more: int | None
    unit_more: int | None
    below_max: tuple[int, int] | None
    fits_milli: int


def smallest_changes(
    ruled: Ruled, meter: Meter, moves: Moves, bands: Sequence[Band], size: int
) -> Smallest:
    """Return the smallest changes of a metric, also from a size.

    `bands` are by ascending size, some above 0.
    """
    pods = [band.size for band in bands if band.size > 0]
    by_size = {band.size: band for band in bands}
    wanted = by_size.get(size)
    own = [] if meter.by_value else pods[:-1]
    full, fits = meter.full_milli(), _demand(meter, moves.highest)
    near = reversed(own) if moves.grows else ()
    below = list(takewhile(lambda size: _stays(meter, size, fits), near))
    return Smallest(
        lowest=_step(ruled, by_size[pods[0]]),
        asked=None if wanted is None else _step(ruled, wanted),
        pod_more=_stays_from(meter, own, full),
        unit_more=_stays_from(meter, own, _UNIT_MILLI) if not meter.per_pod else None,
        below_max=(below[-1], below[0]) if below else None,
        fits_milli=fits,
    )


def _step(ruled: Ruled, band: Band) -> Step:
    firsts = [
        goal if goal is None or ruled.spec.behavior is None else first_step(ruled, band.size, goal)
        for goal in (band.up_to, band.down_to)
    ]
    return Step(band.size, band.up_to, firsts[0], band.down_to, firsts[1])


def _demand(meter: Meter, size: int, more_milli: float = 0) -> int:
    """Return the demand that is exactly at the target of so many pods, and more."""
    each = meter.full_milli() - (meter.base_milli if meter.per_pod else 0)
    return max(math.floor(size * each + more_milli), 0)


def _stays(meter: Meter, size: int, demand: int) -> bool:
    observed = min(meter.observe(size, demand), meter.largest(size))
    return meter.wish(size, observed) == size


def _stays_from(meter: Meter, pods: Sequence[int], more_milli: float) -> int | None:
    """Return the least size from which on so much more than the target changes nothing."""
    staying = takewhile(
        lambda size: _stays(meter, size, _demand(meter, size, more_milli)), reversed(pods)
    )
    return min(staying, default=None)
