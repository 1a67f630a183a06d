"""Memory: capacities that no run exceeds, parts that do not overlap, seeds."""

from __future__ import annotations

import numpy as np
import pytest

from hpabatch.layout import codes
from hpabatch.layout.records import (
    HEAD_CONDITIONS,
    HEAD_STATUS_CURRENT,
    HEAD_STATUS_DESIRED,
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
    hpa_spec,
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


def test_too_many_recommendations_are_refused() -> None:
    memory = empty_memory()
    seed_recommendations(memory, 0, [(1, 0)] * 4)
    with pytest.raises(ValueError, match=r"lane 1: 5 recommendations, but .* room for 4"):
        seed_recommendations(memory, 1, [(1, 0)] * 5)
