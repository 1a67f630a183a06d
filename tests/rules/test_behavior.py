"""Policies and scale events: limits in floats and wrapped integers, slots, the naive reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.layout.records import (
    EVENT_SLOT,
    HEAD_DOWN_COUNT,
    HEAD_DOWN_START,
    HEAD_LENGTH,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    I64,
    Fleet,
    Records,
    records_from,
)
from hpabatch.rules.behavior import (
    limit_rate,
    scale_down_limit,
    scale_up_limit,
    store_scale_event,
)
from tests.reference import normalize as naive
from tests.rules.helpers import EXACT_WISH, Json, at, hpa_spec, lane, policies

INT32_MAX, INT32_MIN = 2**31 - 1, -(2**31)
ROOM = 40


@dataclass
class Budget:
    """One lane's scale events and the spec that reads them."""

    fleet: Fleet
    head: I64
    events: Records

    @property
    def arguments(self) -> tuple[I64, Records, Records, Records]:
        return self.head, self.events, self.fleet.specs[0], self.fleet.policies

    def fill(self, start_at: int, count_at: int, changes: list[tuple[int, float]]) -> None:
        first = int(self.head[start_at])
        self.head[count_at] = len(changes)
        for k, (change, seconds) in enumerate(changes):
            self.events[first + k] = (change, at(seconds), 0)

    def slots(self, start_at: int, count_at: int) -> list[tuple[int, int, int]]:
        first, count = int(self.head[start_at]), int(self.head[count_at])
        return [
            (int(e.change), int(e.ms), int(e.outdated)) for e in self.events[first : first + count]
        ]

    def store(self, before: int, after: int, seconds: float) -> None:
        store_scale_event(*self.arguments, before, after, at(seconds))

    def ups(self) -> list[tuple[int, int, int]]:
        return self.slots(HEAD_UP_START, HEAD_UP_COUNT)

    def downs(self) -> list[tuple[int, int, int]]:
        return self.slots(HEAD_DOWN_START, HEAD_DOWN_COUNT)


def budget(
    behavior: Json | None,
    ups: list[tuple[int, float]] | None = None,
    downs: list[tuple[int, float]] | None = None,
    low: int = 1,
    high: int = 1000,
) -> Budget:
    fleet = lane(hpa_spec(EXACT_WISH, low=low, high=high, behavior=behavior), []).fleet
    head = np.zeros(HEAD_LENGTH, np.int64)
    head[HEAD_DOWN_START] = ROOM
    one = Budget(fleet, head, records_from(EVENT_SLOT, 2 * ROOM))
    one.fill(HEAD_UP_START, HEAD_UP_COUNT, ups or [])
    one.fill(HEAD_DOWN_START, HEAD_DOWN_COUNT, downs or [])
    return one


def up_limit(one: Budget, current: int, seconds: float = 0) -> int:
    return int(scale_up_limit(*one.arguments, current, at(seconds), True))


def down_limit(one: Budget, current: int, seconds: float = 0) -> int:
    return int(scale_down_limit(*one.arguments, current, at(seconds), True))


def limited(one: Budget, current: int, wanted: int, seconds: float = 0) -> tuple[int, str]:
    size, condition = limit_rate(*one.arguments, current, wanted, at(seconds), True)
    return int(size), codes.CONDITIONS[int(condition)].reason


# ---- budgets -------------------------------------------------------------------------------------


@given(
    st.sampled_from(["Pods", "Percent"]),
    st.integers(1, 1000),
    st.integers(0, 1000),
    st.integers(0, 10_000),
)
def test_limits_are_monotone_in_the_policy_value(
    kind: str, value: int, more: int, current: int
) -> None:
    def both(policy_value: int) -> tuple[int, int]:
        rules = policies((kind, policy_value, 60))
        return (
            up_limit(budget({"scaleUp": rules}), current),
            down_limit(budget({"scaleDown": rules}), current),
        )

    (up, down), (further_up, further_down) = both(value), both(value + more)
    assert further_up >= up >= current
    assert further_down <= down <= current


# ---- against the naive reference -----------------------------------------------------------------

policy = st.tuples(
    st.sampled_from(["Pods", "Percent"]), st.integers(1, 200), st.sampled_from([15, 60, 61, 600])
)
rules_of = st.builds(
    lambda entries, select: policies(*entries, selectPolicy=select),
    st.lists(policy, min_size=1, max_size=3),
    st.sampled_from(["Max", "Min", "Disabled"]),
)
moves = st.tuples(st.integers(0, 90), st.integers(0, 60), st.integers(0, 60))


def as_naive(events: list[tuple[int, int, int]]) -> list[naive.ScaleEvent]:
    return [naive.ScaleEvent(change, 1000 * ms, bool(mark)) for change, ms, mark in events]


@given(rules_of, rules_of, st.lists(moves, max_size=14), st.integers(1, 20), st.integers(20, 60))
def test_limits_and_stores_equal_the_naive_reference(
    up: Json, down: Json, history: list[tuple[int, int, int]], low: int, high: int
) -> None:
    behavior = {"scaleUp": up, "scaleDown": down}
    one = budget(behavior, low=low, high=high)
    ups: list[naive.ScaleEvent] = []
    downs: list[naive.ScaleEvent] = []
    seconds, current = 0, 10
    for wait, wanted, after in history:
        seconds += wait
        now = 1000 * at(seconds)
        expected: Any = naive.limit_rate(current, wanted, low, high, behavior, ups, downs, now)
        assert limited(one, current, wanted, seconds) == tuple(expected)
        one.store(current, after, seconds)
        grows = after > current
        naive.store_scale_event(ups if grows else downs, up if grows else down, current, after, now)
        assert as_naive(one.ups()) == ups
        assert as_naive(one.downs()) == downs
        current = after
