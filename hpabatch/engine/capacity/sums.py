"""Sums over HPAs at the same instants, for a namespace, a cluster and a fleet.

HPAs sync at instants of their own. The sums are made on one grid: from the first tick of all runs,
as far apart as the shortest sync period. At an instant of the grid an HPA counts with what its last
tick left it at; before its run and after it with nothing. A size that lasts less than the grid's
step, of HPAs that sync at different instants, can be missed in a sum.

All amounts are whole numbers (pods, millicores, bytes), so the order of adding does not matter.
Percentiles are nearest ranks: P95 is the smallest value that at least 95 % of the instants do not
exceed, so each is a sum that was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from hpabatch.layout.records import I64
from hpabatch.model.quota import CORES, GIB, LIMIT_CORES, LIMIT_GIB, PODS, Limit

MONEY: Final = "money"
AMOUNTS: Final[dict[str, tuple[str, float]]] = {
    PODS: ("pods", 1),
    CORES: ("cores", 1000),
    GIB: ("GiB", 2**30),
    LIMIT_CORES: ("cores", 1000),
    LIMIT_GIB: ("GiB", 2**30),
}
"""The unit of each amount, and how many of what is counted (millicores, bytes) it is."""

PERCENTILES: Final = (50, 95, 99)
MINUTE_MS: Final = 60_000


def percentile(values: I64, percent: int) -> int:
    """Return the nearest rank: the smallest value that so many percent of all do not exceed."""
    rank = max(-(-percent * values.size // 100), 1) - 1
    return int(np.partition(values, rank)[rank])


class Span(NamedTuple):
    """When some runs are: the first start, the shortest sync period, the last end (exclusive)."""

    start_ms: int
    period_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Instants `start_ms + k * step_ms` for k below `size`."""

    start_ms: int
    step_ms: int
    size: int

    @classmethod
    def of(cls, spans: Sequence[Span]) -> Grid:
        """Return the grid of some runs, of which there is one."""
        start_ms = min(span.start_ms for span in spans)
        step_ms = min(span.period_ms for span in spans)
        end_ms = max(span.end_ms for span in spans)
        return cls(start_ms, step_ms, -(-(end_ms - start_ms) // step_ms))

    def on(self, start_ms: int, period_ms: int, values: I64) -> tuple[int, I64]:
        """Return a run's values at the instants that it covers, and the number of the first."""
        first = -(-(start_ms - self.start_ms) // self.step_ms)
        end_ms = start_ms + period_ms * values.size
        last = -(-(end_ms - self.start_ms) // self.step_ms)
        if period_ms == self.step_ms:
            return first, values[: last - first]
        instants = self.start_ms + np.arange(first, last, dtype=np.int64) * self.step_ms
        return first, values[(instants - start_ms) // period_ms]


@dataclass(slots=True)
class Sum:
    """Amounts that some HPAs hold at once, one value an instant, and over their runs."""

    hpas: int = 0
    values: I64 | None = None
    peaks: int = 0
    run: float = 0.0
    month: float = 0.0

    def add(self, other: Sum) -> None:
        """Add the sum of other HPAs."""
        self.hpas += other.hpas
        self.peaks += other.peaks
        self.run += other.run
        self.month += other.month
        if self.values is None:
            self.values = None if other.values is None else other.values.copy()
        elif other.values is not None:
            self.values += other.values


Part = tuple[str, bool, str]
"""Bounds, whether the plan of the HPAs is usable, and the resource."""


@dataclass(slots=True)
class Sums:
    """The sums of one scope: of usable HPAs and of the others apart."""

    grid: Grid
    parts: dict[Part, Sum] = field(default_factory=dict)

    def part(self, key: Part) -> Sum:
        """Return the sum of a part, which begins with nothing."""
        return self.parts.setdefault(key, Sum())

    def hold(self, key: Part, first: int, held: I64, each: int, run: float, month: float) -> None:
        """Add an HPA: `held` pods from an instant on, of `each` millicores, bytes or pods."""
        part = self.part(key)
        if part.values is None:
            part.values = np.zeros(self.grid.size, np.int64)
        part.values[first : first + held.size] += held * each
        part.hpas += 1
        part.peaks += int(held.max(initial=0)) * each
        part.run += run
        part.month += month

    def pay(self, key: Part, run: float, month: float) -> None:
        """Add what an HPA costs."""
        part = self.part(key)
        part.hpas, part.run, part.month = part.hpas + 1, part.run + run, part.month + month

    def add(self, other: Sums) -> None:
        """Add the sums of another scope with other HPAs."""
        for key, part in other.parts.items():
            self.part(key).add(part)

    def covering(self, bounds: str, usable_only: bool, resource: str) -> Sum:
        """Return the sum over the usable HPAs, or over all of them."""
        usable = self.parts.get((bounds, True, resource), Sum())
        rest = self.parts.get((bounds, False, resource), Sum())
        if usable_only or rest.hpas == 0:
            return usable
        if usable.hpas == 0:
            return rest
        both = Sum()
        both.add(usable)
        both.add(rest)
        return both


def spread(found: Sum, resource: str) -> dict[str, float | None]:
    """Return percentiles and peaks of a sum in the resource's unit; null without an HPA."""
    names = [*(f"p{p}" for p in PERCENTILES), "max", "sum_of_peaks"]
    if found.values is None or not found.values.size or resource not in AMOUNTS:
        return dict.fromkeys(names)
    _, size = AMOUNTS[resource]
    counts = [percentile(found.values, p) for p in PERCENTILES]
    counts += [int(found.values.max()), found.peaks]
    return {name: count / size for name, count in zip(names, counts, strict=True)}


def judged(found: Sum, resource: str, limit: Limit | None, grid: Grid) -> dict[str, object]:
    """Return how a sum stands to a quota; nulls without one, or where no amount is known."""
    names = ("first_exceeded", "exceeded_minutes", "exceeded_pct", "lowest_headroom")
    if limit is None:
        return dict.fromkeys(("quota", "quota_name", *names))
    _, size = AMOUNTS[resource]
    told = {"quota": limit.hard / size, "quota_name": f"{limit.quota}: {limit.key}"}
    if found.values is None:
        return told | dict.fromkeys(names)
    above = found.values > limit.hard
    count = int(above.sum())
    first = grid.start_ms + int(above.argmax()) * grid.step_ms if count else None
    return told | {
        "first_exceeded": first,
        "exceeded_minutes": count * grid.step_ms / MINUTE_MS,
        "exceeded_pct": 100.0 * count / above.size,
        "lowest_headroom": (limit.hard - int(found.values.max())) / size,
    }
