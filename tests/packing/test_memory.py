"""Memory: capacities that no run exceeds, parts that do not overlap, seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.layout.records import (
    HEAD_CONDITIONS,
    HEAD_DOWN_COUNT,
    HEAD_DOWN_START,
    HEAD_LENGTH,
    HEAD_REC_COUNT,
    HEAD_REC_SIZE,
    HEAD_REC_START,
    HEAD_SEEN,
    HEAD_STATUS_CURRENT,
    HEAD_STATUS_DESIRED,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    Fleet,
    Memory,
)
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.memory import (
    seed_recommendations,
    seed_status,
    slots_needed,
)
from tests.packed import LaneView, make_memory, pack_fleet
from tests.rules.helpers import (
    EXACT_WISH,
    NO_TOLERANCE,
    Json,
    at,
    hpa_spec,
    lane,
    policies,
    status_with,
    wish,
)


@pytest.mark.parametrize(
    ("now", "window", "slots"),
    [
        ([], 300, 2),
        ([0], 300, 3),
        ([0, 15, 30], 300, 5),
        ([0, 15, 30], 30, 5),  # the edge belongs to the window
        ([0, 15, 30], 29, 4),
        ([0, 15, 30], 0, 3),
        ([0, 0, 0], 0, 5),
        ([0, 1, 2, 1000, 1001], 5, 5),  # the densest stretch counts
        ([10, 5, 20], 5, 5),  # a clock set back: no window bounds the list
    ],
)
def test_slots_needed(now: list[int], window: int, slots: int) -> None:
    assert slots_needed(np.array(now, np.int64), window) == slots


def fleet_of(*lanes: LaneView, flags: ControllerFlags = NO_TOLERANCE) -> Fleet:
    return pack_fleet(lanes, flags, profile_for("1.38"))


def test_no_lanes_need_no_memory() -> None:
    memory = make_memory(fleet_of(), recorded=False)
    assert memory.head.shape == (0, HEAD_LENGTH)
    assert memory.recs.size == memory.events.size == 0


def test_parts_of_lanes_follow_each_other() -> None:
    views = [
        LaneView([hpa_spec(EXACT_WISH)], [wish(15 * k, 5, 5) for k in range(n)]) for n in (0, 90, 3)
    ]
    fleet = fleet_of(*views, flags=ControllerFlags(downscale_stabilization_ms=3_600_000))
    memory = make_memory(fleet, recorded=False)
    head = memory.head
    assert head[:, HEAD_REC_SIZE].tolist() == [2, 92, 5]
    assert head[:, HEAD_REC_START].tolist() == [0, 2, 94]
    assert head[:, HEAD_UP_START].tolist() == [0, 4, 10]
    assert head[:, HEAD_DOWN_START].tolist() == [2, 7, 13]
    assert (memory.recs.size, memory.events.size) == (99, 16)
    roomy = make_memory(fleet, recorded=False, spare=10)
    assert roomy.head[:, HEAD_REC_SIZE].tolist() == [12, 102, 15]
    assert roomy.head[:, HEAD_REC_START].tolist() == [0, 12, 114]
    assert head[:, [HEAD_REC_COUNT, HEAD_UP_COUNT, HEAD_DOWN_COUNT]].any() == np.False_


steps = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 5, 15, 15, 29, 30, 31, 60, 61, 300, -3]),
        st.integers(0, 30),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=30,
)
BEHAVIORS: list[Json | None] = [
    None,
    {"scaleUp": policies(("Pods", 4, 30)), "scaleDown": {"stabilizationWindowSeconds": 0}},
    {"scaleDown": policies(("Pods", 4, 60), stabilizationWindowSeconds=30)},
    {"scaleUp": {"stabilizationWindowSeconds": 60}},
]


@given(steps)
def test_no_run_exceeds_its_capacities(history: list[tuple[int, int, int]]) -> None:
    specs = [hpa_spec(EXACT_WISH, behavior=b) for b in BEHAVIORS]
    ticks, seconds = [], 0
    for wait, wished, spec in history:
        seconds += wait
        ticks.append(wish(seconds, 10, wished, spec=spec))
    flags = ControllerFlags(tolerance=0.0, downscale_stabilization_ms=30_000)
    one = lane(specs, ticks, flags=flags)
    head = one.memory.head[0]
    events = int(head[HEAD_DOWN_START] - head[HEAD_UP_START])
    for t in range(len(ticks)):
        one.step(t)
        # one recommendation slot stays free: the rings count on it
        assert head[HEAD_REC_COUNT] < head[HEAD_REC_SIZE]
        assert max(head[HEAD_UP_COUNT], head[HEAD_DOWN_COUNT]) <= events


# ---- seeds ---------------------------------------------------------------------------------------


def empty_memory(ticks: int = 3) -> Memory:
    views = [LaneView([hpa_spec(EXACT_WISH)], [wish(k, 5, 5) for k in range(ticks)])] * 2
    return make_memory(fleet_of(*views), recorded=False, spare=4)


def seeded_conditions(*conditions: tuple[str, str, str]) -> list[int]:
    memory = empty_memory()
    seed_status(memory, 1, status_with(*conditions, current=7, desired=8))
    assert memory.head[1, [HEAD_STATUS_CURRENT, HEAD_STATUS_DESIRED]].tolist() == [7, 8]
    assert memory.head[0, [HEAD_STATUS_CURRENT, HEAD_STATUS_DESIRED]].tolist() == [0, 0]
    return [int(c) for c in memory.head[1, HEAD_CONDITIONS : HEAD_CONDITIONS + 4]]


def test_a_status_brings_its_conditions_in_its_order() -> None:
    assert seeded_conditions(
        ("ScalingLimited", "False", "DesiredWithinRange"),
        ("AbleToScale", "True", "ReadyForNewScale"),
    ) == [codes.DESIRED_WITHIN_RANGE, codes.READY_FOR_NEW_SCALE, 0, 0]
    assert seeded_conditions() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("True", codes.IS_SCALED_TO_ZERO),
        ("False", codes.NOT_SCALED_TO_ZERO),
        ("Unknown", codes.NOT_SCALED_TO_ZERO),
    ],
)
def test_of_scaled_to_zero_the_status_counts_whatever_the_reason(status: str, code: int) -> None:
    assert seeded_conditions(("ScaledToZero", status, "Custom")) == [code, 0, 0, 0]


def test_conditions_with_unknown_words_keep_type_place_and_status() -> None:
    assert seeded_conditions(
        ("AbleToScale", "True", "Custom"),
        ("Paused", "True", "ByHand"),
        ("ScalingActive", "True", "ValidMetricFound"),
        ("ScalingLimited", "Unknown", "Custom"),
    ) == [(1 << 4) + codes.OTHER_TRUE, codes.VALID_METRIC_FOUND, (3 << 4) + codes.OTHER_FALSE, 0]


def test_there_are_four_conditions_at_most() -> None:
    words = [tuple(codes.CONDITIONS[c]) for c in (18, 32, 48, 65, 19)]
    assert seeded_conditions(*words) == [18, 32, 48, 65]  # type: ignore[arg-type]


def test_of_several_conditions_of_a_type_the_first_counts() -> None:
    assert seeded_conditions(
        ("AbleToScale", "False", "Custom"),
        ("AbleToScale", "True", "ReadyForNewScale"),
        ("ScalingActive", "True", "ValidMetricFound"),
    ) == [(1 << 4) + codes.OTHER_FALSE, codes.VALID_METRIC_FOUND, 0, 0]


def test_a_seeded_lane_keeps_no_condition_that_it_had() -> None:
    memory = empty_memory()
    words = [tuple(codes.CONDITIONS[c]) for c in (18, 32, 48)]
    seed_status(memory, 1, status_with(*words))  # type: ignore[arg-type]
    seed_status(memory, 1, status_with(words[2]))  # type: ignore[arg-type]
    assert memory.head[1, HEAD_CONDITIONS : HEAD_CONDITIONS + 4].tolist() == [48, 0, 0, 0]


def test_seeded_recommendations_lie_in_slot_order() -> None:
    memory = empty_memory()
    entries = [(7, at(-30)), (3, at(-600)), (9, at(-5))]
    seed_recommendations(memory, 1, entries)
    first = int(memory.head[1, HEAD_REC_START])
    assert first == 9
    assert int(memory.head[1, HEAD_REC_COUNT]) == 3
    assert [(int(r.value), int(r.ms)) for r in memory.recs[first : first + 3]] == entries
    assert not memory.recs.ms[:first].any()


def test_too_many_recommendations_are_refused() -> None:
    memory = empty_memory()
    seed_recommendations(memory, 0, [(1, 0)] * 4)
    with pytest.raises(ValueError, match=r"lane 1: 5 recommendations, but .* room for 4"):
        seed_recommendations(memory, 1, [(1, 0)] * 5)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(-400, 0)), max_size=9))
def test_with_spare_room_seeds_and_ticks_fit(seeds: list[tuple[int, int]]) -> None:
    ticks = [wish(15 * k, 5, 5) for k in range(4)]
    one = lane(hpa_spec(EXACT_WISH), ticks, recommendations=seeds, flags=NO_TOLERANCE)
    for k, result in enumerate(one.run()):
        recent = [value for value, s in seeds if s >= 15 * k - 300]
        assert result["stabilized"] == max([5, *recent])
        assert one.memory.head[0, HEAD_REC_COUNT] < one.memory.head[0, HEAD_REC_SIZE]


def test_an_empty_list_is_not_no_list() -> None:
    memory = empty_memory()
    seed_recommendations(memory, 1, [])
    assert memory.head[:, HEAD_SEEN].tolist() == [0, 1]
