"""Stabilization: the list of recommendations behaves as upstream's, whatever the clock does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout.records import (
    HEAD_REC_COUNT,
    HEAD_REC_SIZE,
    HEAD_REC_START,
    I64,
    Memory,
    Records,
)
from hpabatch.packing.memory import make_memory, seed_recommendations
from hpabatch.rules.stabilize import (
    forget_recommendations,
    recommend_within_windows,
    record_recommendation,
    stabilize_legacy,
    stabilize_with_windows,
)
from tests.reference import controller as naive
from tests.rules.helpers import EXACT_WISH, at, hpa_spec, lane, wish


@dataclass
class Windows:
    """The second of three equal lanes' memory, so that writes beside it would show."""

    memory: Memory
    room: int

    @property
    def parts(self) -> tuple[I64, Records]:
        return self.memory.head[1], self.memory.recs

    def legacy(self, value: int, seconds: float, window_s: int) -> int:
        return int(stabilize_legacy(*self.parts, value, at(seconds), window_s * 1000))

    def both(self, current: int, value: int, seconds: float, up_s: int, down_s: int) -> int:
        windows = (up_s * 1000, down_s * 1000)
        return int(stabilize_with_windows(*self.parts, current, value, at(seconds), *windows, True))

    def own_direction(self, current: int, value: int, seconds: float, window_s: int) -> int:
        """Return what the window of the proposal's direction alone makes of it (until 1.20)."""
        windows = (window_s * 1000, window_s * 1000)
        return int(
            stabilize_with_windows(*self.parts, current, value, at(seconds), *windows, False)
        )

    def record(self, value: int, seconds: float) -> None:
        record_recommendation(*self.parts, value, at(seconds))

    def slots(self) -> list[tuple[int, int]]:
        head = self.memory.head[1]
        first, count = int(head[HEAD_REC_START]), int(head[HEAD_REC_COUNT])
        rows = self.memory.recs[first : first + count]
        return [(int(row.value), int(row.ms)) for row in rows]

    def neighbours(self) -> bytes:
        first, size = (int(self.memory.head[1, k]) for k in (HEAD_REC_START, HEAD_REC_SIZE))
        recs = self.memory.recs
        others = np.concatenate([recs[:first], recs[first + size :]])
        return others.tobytes() + self.memory.head[[0, 2]].tobytes()


def windows(room: int = 40) -> Windows:
    # As many ticks at one time as there shall be room for.
    one = lane(hpa_spec(EXACT_WISH), [wish(0, 1, 1)] * room).fleet
    lanes: Any = np.concatenate([one.lanes] * 3).view(np.recarray)
    memory = make_memory(one._replace(lanes=lanes), recorded=False, spare=12)
    return Windows(memory, int(memory.head[1, HEAD_REC_SIZE]))


# ---- the two paths -------------------------------------------------------------------------------


def test_a_legacy_sample_exactly_at_the_cutoff_still_counts() -> None:
    one = windows()
    assert one.legacy(9, 0, 300) == 9
    assert one.legacy(2, 300, 300) == 9
    assert one.legacy(2, 300.001, 300) == 2


def test_a_windowed_sample_exactly_at_the_cutoff_is_out_but_not_overwritten() -> None:
    one = windows()
    assert one.both(9, 9, 0, 0, 300) == 9
    assert one.both(9, 2, 299.999, 0, 300) == 9
    assert one.both(9, 2, 300, 0, 300) == 2
    assert one.slots() == [(9, at(0)), (2, at(299.999)), (2, at(300))]
    assert one.both(9, 3, 300.001, 0, 300) == 3
    assert one.slots()[0] == (3, at(300.001))


def test_until_1_20_the_window_of_the_own_direction_counts_alone() -> None:
    one = windows()
    for value, seconds in ((4, 0), (8, 10), (6, 20)):
        one.record(value, seconds)
    assert one.own_direction(5, 7, 30, 60) == 4  # a wish to grow makes it smaller
    assert one.own_direction(5, 3, 31, 60) == 8


def test_each_direction_has_its_window_and_the_current_size_is_pulled_between() -> None:
    one = windows()
    for value, seconds in ((4, 0), (8, 10), (6, 20)):
        one.record(value, seconds)
    assert one.both(5, 7, 30, 60, 60) == 5  # between 4 and 8
    assert one.both(2, 7, 31, 60, 60) == 4
    assert one.both(9, 7, 32, 60, 60) == 8
    assert one.both(9, 7, 33, 60, 0) == 7
    assert one.both(2, 7, 34, 0, 60) == 7
    assert one.both(2, 7, 35, 15, 60) == 7


def test_the_raw_wish_is_recorded_zero_included() -> None:
    one = windows()
    assert one.legacy(5, 0, 300) == 5
    assert one.legacy(0, 15, 300) == 5
    assert one.slots() == [(5, at(0)), (0, at(15))]


def test_the_last_replaceable_slot_is_overwritten_one_per_sync() -> None:
    one = windows()
    for k in range(4):
        one.legacy(k, 10 * k, 300)
    one.legacy(7, 325, 300)  # 0, 10 and 20 s are older: the one of 20 s goes
    assert one.slots() == [(0, at(0)), (1, at(10)), (7, at(325)), (3, at(30))]
    one.legacy(8, 326, 300)
    assert one.slots() == [(0, at(0)), (8, at(326)), (7, at(325)), (3, at(30))]


def test_the_list_settles_and_never_shrinks() -> None:
    one = windows()
    for k in range(100):
        one.both(5, k, 15 * k, 0, 300)
    # before a sync 19 samples are newer than the cutoff and one lies exactly on it
    assert len(one.slots()) == 21
    one.both(5, 5, 100_000, 0, 300)
    assert len(one.slots()) == 21


def test_a_restart_forgets_recommendations() -> None:
    one = windows()
    one.legacy(9, 0, 300)
    one.legacy(9, 1000, 300)
    forget_recommendations(one.memory.head[1])
    assert one.slots() == []
    assert one.legacy(2, 1001, 300) == 2
    assert one.slots() == [(2, at(1001))]


def test_a_window_that_grows_brings_old_samples_back() -> None:
    one = windows()
    one.both(9, 9, 0, 0, 10)
    assert one.both(9, 4, 20, 0, 10) == 4  # overwrites nothing: 9 is at 0 s and is replaced
    one.both(9, 3, 25, 0, 10)
    assert one.both(9, 2, 60, 0, 600) == 4
    assert one.legacy(1, 61, 600) == 4


# ---- the parts -----------------------------------------------------------------------------------


@given(st.permutations(range(12)), st.integers(0, 12))
def test_replaceable_slots_are_taken_last_first(times: list[int], old: int) -> None:
    # Slot k holds the sample of second times[k]; the `old` earliest ones may be overwritten.
    one = windows()
    seed_recommendations(one.memory, 1, [(50 + k, at(s)) for k, s in enumerate(times)])
    slots = sorted((k for k, s in enumerate(times) if s < old), reverse=True)
    for value, slot in enumerate(slots):
        one.legacy(value, 100 + old, 100)
        assert one.slots()[slot] == (value, at(100 + old))
    one.legacy(99, 100 + old, 100)
    assert one.slots()[12:] == [(99, at(100 + old))]


def test_minimum_and_maximum_since_different_times() -> None:
    one = windows()
    for value, seconds in ((3, 0), (9, 10), (5, 20)):
        one.record(value, seconds)
    low, high = recommend_within_windows(*one.parts, 6, at(30), at(10), at(11), at(0))
    assert (int(low), int(high)) == (5, 6)
    low, high = recommend_within_windows(*one.parts, 6, at(31), at(0), at(0), at(0))
    assert (int(low), int(high)) == (3, 9)  # the cutoffs moved back


# ---- against the naive reference -----------------------------------------------------------------

steps = st.tuples(
    st.sampled_from([0, 1, 5, 15, 15, 15, 60, 299, 300, 301, 700, -1, -20, -400]),
    st.integers(0, 12),
    st.integers(0, 12),
    st.sampled_from(["legacy", "both", "both", "restart"]),
    st.sampled_from([0, 15, 60, 300, 600]),
    st.sampled_from([0, 15, 60, 300, 600]),
)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(-700, 0)), max_size=5),
    st.lists(steps, max_size=35),
)
def test_windows_equal_the_naive_list(
    seeds: list[tuple[int, int]], history: list[tuple[int, int, int, str, int, int]]
) -> None:
    one, seconds = windows(), 0
    beside = one.neighbours()
    entries = [(value, at(s)) for value, s in seeds]
    if entries:
        seed_recommendations(one.memory, 1, entries)
    recs = [naive.Recommendation(value, 1000 * ms) for value, ms in entries]
    for wait, current, value, path, up_s, down_s in history:
        seconds += wait
        now = 1000 * at(seconds)
        if path == "restart":
            forget_recommendations(one.memory.head[1])
            recs = []
        elif path == "legacy":
            expected = naive.stabilize_legacy(recs, value, now, down_s * 10**6)
            assert one.legacy(value, seconds, down_s) == expected
        else:
            limited = naive.stabilize_with_windows(
                recs, current, value, now, up_s * 10**6, down_s * 10**6
            )
            assert one.both(current, value, seconds, up_s, down_s) == limited.replicas
        assert one.slots() == [(r.value, r.time // 1000) for r in recs]
    assert one.neighbours() == beside


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 50)), min_size=1, max_size=30))
def test_stabilized_lies_between_current_and_wish(history: list[tuple[int, int]]) -> None:
    one, seconds, current = windows(), 0, 10
    for wait, value in history:
        seconds += wait
        stabilized = one.both(current, value, seconds, 60, 300)
        assert min(current, value) <= stabilized <= max(current, value)
        current = stabilized


@pytest.mark.parametrize("count", [1, 61, 62, 63, 130])
def test_many_slots(count: int) -> None:
    one = windows(count + 2)
    recs: list[naive.Recommendation] = []
    for k in range(count):
        one.legacy(k % 7, k, 10_000)
        naive.stabilize_legacy(recs, k % 7, 1000 * at(k), 10**10)
    for k in range(count + 1):
        now = 20_000 + k
        expected = naive.stabilize_legacy(recs, 3, 1000 * at(now), 10**10)
        assert one.legacy(3, now, 10_000) == expected
    assert one.slots() == [(r.value, r.time // 1000) for r in recs]
