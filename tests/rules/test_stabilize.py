"""Stabilization: the list of recommendations behaves as upstream's, whatever the clock does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
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
from hpabatch.packing.memory import seed_recommendations
from hpabatch.rules.stabilize import (
    forget_recommendations,
    record_recommendation,
    stabilize_legacy,
    stabilize_with_windows,
)
from tests.packed import make_memory
from tests.reference import normalize as naive
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


def test_until_1_20_the_window_of_the_own_direction_counts_alone() -> None:
    one = windows()
    for value, seconds in ((4, 0), (8, 10), (6, 20)):
        one.record(value, seconds)
    assert one.own_direction(5, 7, 30, 60) == 4  # a wish to grow makes it smaller
    assert one.own_direction(5, 3, 31, 60) == 8


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
