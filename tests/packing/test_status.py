"""Tests of the initial state of a status."""

from __future__ import annotations

import numpy as np

from hpabatch.layout import codes
from hpabatch.layout.records import Fleet
from hpabatch.layout.results import (
    FROM_BEFORE,
    NO_GENERATION,
    NO_TIME_MS,
    STATUS_CODES,
    STATUS_CURRENT,
    STATUS_DESIRED,
    STATUS_LAST_SCALE,
    STATUS_METRICS_TICK,
    STATUS_NEXT,
    STATUS_OBSERVED,
    STATUS_SETS,
    STATUS_SHOWN,
    STATUS_TIMES,
)
from hpabatch.model.objects.hpa import Condition, HPAStatus, MetricStatus
from hpabatch.model.versions import PROFILES, ControllerFlags
from hpabatch.packing.status import empty_statuses, make_status_memory, seed_status_memory
from tests.packed import LaneView, pack_fleet
from tests.rules.helpers import EXACT_WISH, hpa_spec, wish

OLD = "2023-01-01T00:00:00Z"
OLD_MS = 1_672_531_200_000


def two_lanes() -> Fleet:
    spec = hpa_spec(EXACT_WISH)
    views = [LaneView([spec], [wish(0, 5, 5), wish(15, 5, 5)]), LaneView([spec], [wish(0, 5, 5)])]
    return pack_fleet(views, ControllerFlags(), PROFILES["1.38"])


def test_memory_without_a_status() -> None:
    memory = make_status_memory(two_lanes())
    assert memory.head[:, STATUS_NEXT].tolist() == [0, 2]
    assert memory.head[:, STATUS_LAST_SCALE].tolist() == [NO_TIME_MS] * 2
    assert memory.head[:, STATUS_METRICS_TICK].tolist() == [FROM_BEFORE] * 2
    assert memory.head[:, STATUS_OBSERVED].tolist() == [NO_GENERATION] * 2
    assert memory.shown.size == 2
    assert memory.generations.tolist() == [0, 1]


def test_memory_of_a_status() -> None:
    kinds = [
        ("ScalingLimited", "True", "TooManyReplicas"),
        ("Odd", "True", "Whatever"),
        ("AbleToScale", "False", "Unheard"),
        ("ScalingActive", "True", "ValidMetricFound"),
        ("ScaledToZero", "False", "NotScaledToZero"),
    ]
    conditions = tuple(Condition(*kind, "words", OLD) for kind in kinds)
    extra = Condition("ScalingLimited", "True", "TooManyReplicas", "words", None)
    status = HPAStatus(
        current_replicas=4,
        desired_replicas=5,
        last_scale_time=OLD,
        observed_generation=7,
        conditions=(*conditions, extra),
        current_metrics=(MetricStatus("External"),),
    )
    memory = make_status_memory(two_lanes())
    seed_status_memory(memory, 1, status, observed=1)
    assert memory.head[0].tolist() == make_status_memory(two_lanes()).head[0].tolist()
    head = memory.head[1]
    assert head[[STATUS_CURRENT, STATUS_DESIRED, STATUS_SHOWN]].tolist() == [4, 5, -1]
    assert head[STATUS_LAST_SCALE] == OLD_MS
    assert head[STATUS_OBSERVED] == 1
    assert head[STATUS_CODES : STATUS_CODES + 4].tolist() == [
        codes.TOO_MANY_REPLICAS,
        (codes.ABLE_TO_SCALE << 4) + codes.OTHER_FALSE,
        codes.VALID_METRIC_FOUND,
        codes.NOT_SCALED_TO_ZERO,
    ]
    assert head[STATUS_TIMES : STATUS_TIMES + 4].tolist() == [OLD_MS] * 4
    assert head[STATUS_SETS : STATUS_SETS + 4].tolist() == [FROM_BEFORE] * 4


def test_a_status_that_never_scaled() -> None:
    memory = make_status_memory(two_lanes())
    seed_status_memory(memory, 0, HPAStatus())
    assert memory.head[0, STATUS_LAST_SCALE] == NO_TIME_MS
    assert memory.head[0, STATUS_OBSERVED] == NO_GENERATION
    assert memory.head[0, STATUS_SHOWN] == 0


def test_of_several_conditions_of_a_type_the_first_counts_and_one_may_have_no_time() -> None:
    status = HPAStatus(
        conditions=(
            Condition("ScalingActive", "False", "Custom"),
            Condition("AbleToScale", "True", "ReadyForNewScale", "", OLD),
            Condition("ScalingActive", "True", "ValidMetricFound", "", OLD),
        )
    )
    memory = make_status_memory(two_lanes())
    seed_status_memory(memory, 0, status)
    head = memory.head[0]
    assert head[STATUS_CODES : STATUS_CODES + 4].tolist() == [
        (codes.SCALING_ACTIVE << 4) + codes.OTHER_FALSE, codes.READY_FOR_NEW_SCALE, 0, 0,
    ]  # fmt: skip
    assert head[STATUS_TIMES : STATUS_TIMES + 4].tolist() == [0, OLD_MS, 0, 0]


def test_a_seeded_lane_keeps_nothing_that_it_had() -> None:
    memory, conditions = make_status_memory(two_lanes()), (Condition("AbleToScale", "True", "X"),)
    seed_status_memory(memory, 0, HPAStatus(3, 4, OLD, 7, conditions), observed=1)
    seed_status_memory(memory, 0, HPAStatus())
    assert memory.head.tolist() == make_status_memory(two_lanes()).head.tolist()


def test_no_row_is_taken_for_a_written_one() -> None:
    rows = empty_statuses(3)
    assert np.unique(rows.written).size == 1
    assert rows.written[0] not in (0, 1)
