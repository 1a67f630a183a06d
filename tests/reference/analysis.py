"""Static analysis of one HPA with one metric, the naive way: every size, every demand, every tick.

Nothing is searched cleverly: dead bands by trying each usage, cycles by following each size at each
demand, windows and policies by running the reference controller's own lists for a long time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .gomath import MAX_INT32, ceil_to_int32, float_div, trunc_div, wrap32, wrap64
from .normalize import (
    Recommendation,
    ScaleEvent,
    limit_legacy,
    limit_rate,
    stabilize_legacy,
    stabilize_with_windows,
    store_scale_event,
)
from .times import SECOND

Json = dict[str, Any]

UTILIZATION = "utilization"
POD_AVERAGE = "pod average"
TOTAL_AVERAGE = "total average"
TOTAL_VALUE = "total value"


@dataclass(frozen=True)
class Metric:
    """A metric and what pods are like; amounts in milli, `target` in percent for UTILIZATION."""

    kind: str
    target: int
    down: float = 0.1
    up: float = 0.1
    request: int = 1000
    base: int = 0
    unit: int = 1

    def want(self, size: int, observed: int) -> int:
        """Return what is asked for at a size above 0, all pods alike and ready."""
        if self.kind == UTILIZATION:
            used, requested = wrap64(size * observed), wrap64(size * self.request)
            percent = wrap32(trunc_div(wrap64(used * 100), requested))
            ratio = float_div(float(percent), float(self.target))
        elif self.kind == POD_AVERAGE:
            average = trunc_div(wrap64(size * observed), size)
            ratio = float_div(float(average), float(self.target))
        elif self.kind == TOTAL_VALUE:
            ratio = float_div(float(observed), float(self.target))
        else:
            ratio = float_div(float(observed), float(self.target) * float(size))
        if (1.0 - self.down) <= ratio <= (1.0 + self.up):
            return size
        if self.kind == TOTAL_AVERAGE:
            return _capped(float_div(float(observed), float(self.target)))
        return _capped(ratio * size)

    def observed(self, size: int, demand: int) -> int:
        """Return usage per pod, or the value."""
        divided = self.kind in (UTILIZATION, POD_AVERAGE)
        exact = self.base + demand // size if divided else demand
        return exact // self.unit * self.unit

    def wish(self, size: int, demand: int) -> int:
        """Return what is asked for at a size under a demand."""
        return self.want(size, self.observed(size, demand))


def _capped(value: float) -> int:
    return MAX_INT32 if value > MAX_INT32 else ceil_to_int32(value)


# ---- the map itself ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """The bounds, and which directions are disabled."""

    low: int
    high: int
    up_disabled: bool = False
    down_disabled: bool = False

    def step(self, size: int, wish: int) -> int:
        """Return where a wish leads without windows and policies."""
        goal = min(max(wish, self.low), self.high)
        if (goal > size and self.up_disabled) or (goal < size and self.down_disabled):
            return size
        return goal


def staying(metric: Metric, size: int, until: int) -> list[int]:
    """Return every observation below `until` at which the metric asks for just that size."""
    return [observed for observed in range(until) if metric.want(size, observed) == size]


def resting(metric: Metric, bounds: Bounds, demand: int) -> list[int]:
    """Return the sizes that a demand keeps."""
    sizes = range(bounds.low, bounds.high + 1)
    return [size for size in sizes if bounds.step(size, metric.wish(size, demand)) == size]


def cycles_at(metric: Metric, bounds: Bounds, demand: int) -> set[tuple[int, ...]]:
    """Return the cycles of a demand, each beginning after its largest member."""
    found = set()
    for start in range(bounds.low, bounds.high + 1):
        path = [start]
        while path.count(path[-1]) == 1:
            path.append(bounds.step(path[-1], metric.wish(path[-1], demand)))
        members = path[path.index(path[-1]) + 1 :]
        if len(members) > 1:
            after = members.index(max(members)) + 1
            found.add(tuple(members[after:] + members[:after]))
    return found


# ---- windows and policies ------------------------------------------------------------------------


class Follower:
    """One controller; `behavior` None or with both directions filled in, times in seconds."""

    def __init__(
        self, bounds: Bounds, behavior: Json | None, size: int, default_window: int, sync: int
    ) -> None:
        self.bounds = bounds
        self.behavior = behavior
        self.size = size
        self.default_window = default_window * SECOND
        self.sync = sync * SECOND
        self.now = 0
        self.recommendations: list[Recommendation] = []
        self.ups: list[ScaleEvent] = []
        self.downs: list[ScaleEvent] = []

    def tick(self, wish: int) -> int:
        """Decide once, apply it and return the new size."""
        if not self.recommendations:
            self.recommendations.append(Recommendation(self.size, self.now))
        if self.size > self.bounds.high or self.size < self.bounds.low:
            after = min(max(self.size, self.bounds.low), self.bounds.high)
        elif self.behavior is None:
            best = stabilize_legacy(self.recommendations, wish, self.now, self.default_window)
            after = limit_legacy(self.size, best, self.bounds.low, self.bounds.high).replicas
        else:
            after = self._by_behavior(self.behavior, wish)
        self._apply(after)
        self.now += self.sync
        return self.size

    def _by_behavior(self, behavior: Json, wish: int) -> int:
        down_window = behavior["scaleDown"].get("stabilizationWindowSeconds")
        down = self.default_window if down_window is None else down_window * SECOND
        up = behavior["scaleUp"]["stabilizationWindowSeconds"] * SECOND
        stable = stabilize_with_windows(self.recommendations, self.size, wish, self.now, up, down)
        low, high = self.bounds.low, self.bounds.high
        limited = limit_rate(
            self.size, stable.replicas, low, high, behavior, self.ups, self.downs, self.now
        )
        return limited.replicas

    def _apply(self, after: int) -> None:
        before, self.size = self.size, after
        if self.behavior is None or after == before:
            return
        events, name = (self.ups, "scaleUp") if after > before else (self.downs, "scaleDown")
        store_scale_event(events, self.behavior[name], before, after, self.now)


def follow(follower: Follower, wish: Callable[[int], int], ticks: int) -> list[int]:
    """Return the sizes after each of so many ticks."""
    return [follower.tick(wish(follower.size)) for _ in range(ticks)]


def members(sizes: list[int]) -> list[int]:
    """Return what the second half of some sizes repeats: each member once, in their order.

    The period is at most a quarter of them; repetitions of one size count once.
    """
    tail = sizes[len(sizes) // 2 :]
    for period in range(1, len(sizes) // 4 + 1):
        if all(tail[k] == tail[k - period] for k in range(period, len(tail))):
            once = tail[:period]
            return [n for k, n in enumerate(once) if n != once[k - 1]] or once[:1]
    raise AssertionError(f"not periodic: {tail}")
