"""Policies and scale events: limits in floats and wrapped integers, slots, the naive reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
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
    forget_scale_events,
    limit_rate,
    longest_period,
    replicas_at_period_start,
    replicas_changed_since,
    scale_down_limit,
    scale_up_limit,
    store_scale_event,
    take_event_slot,
)
from tests.reference import controller as naive
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


def test_only_strictly_newer_changes_count() -> None:
    one = budget({}, ups=[(1, -60), (2, -59.999), (4, 0), (8, -120)])
    assert replicas_changed_since(one.events, 0, 4, at(-60)) == 6
    assert replicas_changed_since(one.events, 0, 4, at(-60.001)) == 7
    assert replicas_changed_since(one.events, 1, 1, at(-1000)) == 2
    assert replicas_changed_since(one.events, 0, 0, at(-1000)) == 0


def test_marks_do_not_matter_for_sums_and_sums_wrap() -> None:
    one = budget({}, ups=[(INT32_MAX, 0), (1, 0)])
    one.events.outdated[:] = 1
    assert replicas_changed_since(one.events, 0, 2, at(-1)) == INT32_MIN


def test_the_start_of_a_period_is_without_what_came_and_with_what_went() -> None:
    one = budget({}, ups=[(4, -40), (9, -90)], downs=[(3, -10), (7, -61)])
    assert replicas_at_period_start(one.head, one.events, 3, 60_000, at(0), True, True) == 2
    assert replicas_at_period_start(one.head, one.events, 3, 100_000, at(0), True, True) == 0
    assert replicas_at_period_start(one.head, one.events, 3, 5000, at(0), True, True) == 3
    assert (
        replicas_at_period_start(one.head, one.events, INT32_MIN, 60_000, at(0), True, True)
        == INT32_MAX
    )


@pytest.mark.parametrize(
    ("select", "up", "down"), [("Max", 20, 5), ("Min", 14, 6), ("Disabled", 10, 10), ("Odd", 20, 5)]
)
def test_max_is_the_largest_change_and_anything_odd_is_max(select: str, up: int, down: int) -> None:
    rules = policies(("Pods", 4, 60), ("Percent", 100, 60), selectPolicy=select)
    assert up_limit(budget({"scaleUp": rules}), 10) == up
    rules = policies(("Pods", 4, 60), ("Percent", 50, 60), selectPolicy=select)
    assert down_limit(budget({"scaleDown": rules}), 10) == down


@pytest.mark.parametrize(
    ("select", "up", "down"), [("Max", INT32_MIN, INT32_MAX), ("Min", INT32_MAX, INT32_MIN)]
)
def test_without_policies_the_limit_is_where_the_search_starts(
    select: str, up: int, down: int
) -> None:
    rules = policies(selectPolicy=select)
    assert up_limit(budget({"scaleUp": rules}), 10) == up
    assert down_limit(budget({"scaleDown": rules}), 10) == down


def test_each_policy_has_its_own_period() -> None:
    rules = policies(("Pods", 4, 60), ("Pods", 6, 600))
    one = budget({"scaleUp": rules}, ups=[(4, -30), (5, -300)])
    assert up_limit(one, 20) == 20  # 20 - 4 + 4 against 20 - 9 + 6
    assert up_limit(budget({"scaleUp": policies(("Pods", 6, 600))}, ups=[(5, -300)]), 20) == 21


@pytest.mark.parametrize(
    ("kind", "value", "start", "up", "down"),
    [
        ("Pods", 4, 10, 14, 6),
        ("Pods", INT32_MAX, 10, INT32_MIN + 9, 10 - INT32_MAX),
        ("Percent", 10, 100, 111, 90),
        ("Percent", 50, 1, 2, 0),
        ("Percent", 150, 10, 25, -5),  # shrinking by more than all is below zero
        ("Percent", 101, 10, 21, 0),  # -0.1 truncates toward zero
        ("Percent", INT32_MAX, 2**31 - 1, INT32_MIN, INT32_MIN),
    ],
)
def test_limits_of_one_policy(kind: str, value: int, start: int, up: int, down: int) -> None:
    rules = policies((kind, value, 60))
    assert up_limit(budget({"scaleUp": rules}), start) == up
    assert down_limit(budget({"scaleDown": rules}), start) == down


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


# ---- the rate limit ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "wanted", "bounds", "expected"),
    [
        (10, 10, {}, (10, "DesiredWithinRange")),
        (10, 14, {}, (14, "DesiredWithinRange")),
        (10, 15, {}, (14, "ScaleUpLimit")),
        (10, 15, {"high": 14}, (14, "TooManyReplicas")),
        (10, 15, {"high": 12}, (12, "TooManyReplicas")),
        (10, 8, {}, (8, "DesiredWithinRange")),
        (10, 7, {}, (8, "ScaleDownLimit")),
        (10, 7, {"low": 8}, (8, "TooFewReplicas")),
        (10, 7, {"low": 9}, (9, "TooFewReplicas")),
        # only the bound of the direction is looked at
        (0, 2, {"low": 5}, (2, "DesiredWithinRange")),
        (20, 19, {"high": 10}, (19, "DesiredWithinRange")),
    ],
)
def test_policies_and_bounds(
    current: int, wanted: int, bounds: Json, expected: tuple[int, str]
) -> None:
    behavior = {"scaleUp": policies(("Pods", 4, 60)), "scaleDown": policies(("Pods", 2, 60))}
    assert limited(budget(behavior, **bounds), current, wanted) == expected


def test_a_spent_budget_never_turns_the_direction() -> None:
    behavior = {"scaleUp": policies(("Pods", 4, 60)), "scaleDown": policies(("Pods", 2, 60))}
    assert limited(budget(behavior, ups=[(9, -10)]), 10, 20) == (10, "ScaleUpLimit")
    assert limited(budget(behavior, downs=[(9, -10)]), 10, 5) == (10, "ScaleDownLimit")


@pytest.mark.parametrize(
    ("wanted", "bounds", "expected"),
    [
        (20, {}, (10, "ScaleUpLimit")),
        (20, {"high": 10}, (10, "TooManyReplicas")),
        (5, {}, (10, "ScaleDownLimit")),
        (5, {"low": 10}, (10, "TooFewReplicas")),
    ],
)
def test_disabled_blocks_a_direction(wanted: int, bounds: Json, expected: tuple[int, str]) -> None:
    disabled = {"selectPolicy": "Disabled"}
    one = budget({"scaleUp": disabled, "scaleDown": disabled}, **bounds)
    assert limited(one, 10, wanted) == expected


# ---- the slots of events -------------------------------------------------------------------------


def test_the_longest_period_of_a_direction() -> None:
    one = budget({"scaleUp": policies(("Pods", 4, 60), ("Percent", 5, 600), ("Pods", 1, 30))})
    assert longest_period(one.fleet.policies, 0, 3) == 600_000
    assert longest_period(one.fleet.policies, 2, 3) == 30_000
    assert longest_period(one.fleet.policies, 1, 1) == 0


def test_the_last_marked_slot_is_taken_and_marks_stay() -> None:
    one = budget({}, ups=[(1, -100), (2, -70), (3, -60), (4, -10)])
    assert take_event_slot(one.events, 0, 4, at(-60)) == 1  # exactly at the cutoff is not older
    assert [mark for _, _, mark in one.ups()] == [1, 1, 0, 0]
    assert take_event_slot(one.events, 0, 4, at(-1000)) == 1  # never taken back
    assert take_event_slot(one.events, 2, 2, at(-1000)) == -1
    assert take_event_slot(one.events, 0, 0, at(0)) == -1


def test_events_append_or_overwrite_by_direction() -> None:
    behavior = {"scaleUp": policies(("Pods", 4, 60)), "scaleDown": policies(("Pods", 2, 30))}
    one = budget(behavior)
    one.store(5, 9, 0)
    one.store(9, 8, 10)
    one.store(8, 10, 20)
    assert one.ups() == [(4, at(0), 0), (2, at(20), 0)]
    assert one.downs() == [(1, at(10), 0)]
    one.store(10, 3, 41)  # the first scale-down is older than 30 s: its slot is used again
    assert one.downs() == [(7, at(41), 0)]
    one.store(3, 4, 60)  # exactly 60 s is not older
    assert one.ups() == [(4, at(0), 0), (2, at(20), 0), (1, at(60), 0)]
    one.store(4, 7, 81)  # two are older; the last of them is overwritten, the other stays marked
    assert one.ups() == [(4, at(0), 1), (3, at(81), 0), (1, at(60), 0)]


def test_without_behavior_nothing_is_stored() -> None:
    one = budget(None)
    one.store(5, 9, 0)
    assert one.ups() == []


def test_a_restart_forgets_events() -> None:
    one = budget({}, ups=[(1, 0)], downs=[(1, 0)])
    forget_scale_events(one.head)
    assert (one.ups(), one.downs()) == ([], [])


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
