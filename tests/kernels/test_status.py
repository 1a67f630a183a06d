"""The status kernel: chunks, lanes and threads change nothing; compiled equals interpreted."""

from __future__ import annotations

import hashlib
import random
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hpabatch.kernels.replay import replay_fleet
from hpabatch.kernels.status import status_fleet
from hpabatch.layout.records import Fleet, Records, records_from
from hpabatch.layout.results import (
    STATUS,
    Results,
    StatusMemory,
    empty_results,
)
from hpabatch.model.versions import PROFILES, ControllerFlags
from hpabatch.packing.status import make_status_memory
from tests.compiled import status_lane
from tests.effort import effort
from tests.kernels.fleets import random_lanes
from tests.packed import LaneView, make_memory, pack_fleet

# One seed under each version whose statuses differ.
SEEDS = {1: "1.38", 2: "1.36", 3: "1.26"}


@lru_cache
def replayed(seed: int, k8s: str, count: int = 6, ticks: int = 40) -> tuple[Fleet, Results]:
    """Return a random fleet with its decisions."""
    return decided(random_lanes(seed, count, ticks), k8s)


def decided(lanes: list[LaneView], k8s: str) -> tuple[Fleet, Results]:
    fleet = pack_fleet(lanes, ControllerFlags(), PROFILES[k8s])
    results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
    replay_fleet(fleet, make_memory(fleet, recorded=False), False, results)
    return fleet, results


def poisoned(fleet: Fleet, byte: int = 0xA5) -> Records:
    """Return room for statuses, every byte of it the same."""
    statuses = records_from(STATUS, fleet.ticks.size)
    statuses.view(np.uint8).fill(byte)
    return statuses


def noted(fleet: Fleet, results: Results, byte: int = 0xA5) -> tuple[Records, StatusMemory]:
    """Return all statuses, noted by one call."""
    memory, statuses = make_status_memory(fleet), poisoned(fleet, byte)
    status_fleet(fleet, results, memory, ends(fleet), statuses)
    return statuses, memory


def ends(fleet: Fleet) -> NDArray[np.int64]:
    return np.ascontiguousarray(fleet.lanes.last_tick, np.int64)


def assert_equal(one: Records, other: Records) -> None:
    """Compare statuses field by field (what lies between fields is nobody's)."""
    for name in STATUS.names or ():
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def assert_equal_memory(one: StatusMemory, other: StatusMemory) -> None:
    for name, mine, theirs in zip(StatusMemory._fields, one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


@given(st.integers(0, 10_000), st.sampled_from(list(SEEDS.items())))
@settings(max_examples=effort(15), deadline=None)
def test_any_chunks_and_any_order_of_lanes_give_the_same(seed: int, fleet_of: Any) -> None:
    rng, (fleet, results) = random.Random(seed), replayed(*fleet_of)
    whole, memory_after = noted(fleet, results)
    chunked, memory = poisoned(fleet), make_status_memory(fleet)
    position = fleet.lanes.first_tick.tolist()
    while unfinished := [h for h, t in enumerate(position) if t < fleet.lanes.last_tick[h]]:
        h = rng.choice(unfinished)
        position[h] = rng.randint(position[h], int(fleet.lanes.last_tick[h]))
        status_lane(fleet, results, memory, h, position[h], chunked)
    assert_equal(whole, chunked)
    assert_equal_memory(memory_after, memory)


def test_what_was_noted_is_not_noted_again() -> None:
    fleet, results = replayed(1, "1.38")
    whole, memory = noted(fleet, results)
    before = memory.head.copy()
    again = poisoned(fleet)
    status_fleet(fleet, results, memory, ends(fleet) - 3, again)
    np.testing.assert_array_equal(memory.head, before)
    assert_equal(again, poisoned(fleet))
    assert whole.written.sum() > 0


@pytest.mark.parametrize(("seed", "k8s"), SEEDS.items())
def test_every_field_of_every_row_is_written(seed: int, k8s: str) -> None:
    fleet, results = replayed(seed, k8s)
    assert_equal(noted(fleet, results, 0xA5)[0], noted(fleet, results, 0x5A)[0])


def test_an_empty_fleet_and_lanes_without_ticks() -> None:
    lane = random_lanes(1, 1, 3)[0]
    for lanes in ([], [LaneView(lane.specs, [])] * 2):
        fleet, results = decided(lanes, "1.38")
        statuses, memory = noted(fleet, results)
        assert statuses.size == 0
        assert memory.head.shape[0] == len(lanes)


# ---- compiled and interpreted --------------------------------------------------------------------


@cache
def digests() -> list[str]:
    """Return digests of the statuses of random fleets."""
    found = []
    for seed, k8s in SEEDS.items():
        statuses, memory = noted(*replayed(seed, k8s))
        summary = hashlib.sha256()
        for name in STATUS.names or ():
            summary.update(np.ascontiguousarray(statuses[name]).tobytes())
        for array in memory:
            summary.update(np.ascontiguousarray(array).tobytes())
        found.append(summary.hexdigest())
    return found
