"""The replay kernel: chunks, lanes and threads change nothing; compiled equals interpreted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.layout.records import CHANGE, records
from hpabatch.model.objects.hpa import HPASpec
from tests.compiled import replay_lane
from tests.effort import effort
from tests.kernels.fleets import (
    assert_equal_memory,
    assert_equal_results,
    digest,
    pack,
    poisoned,
    random_fleet,
    replayed,
    replayed_live,
    with_own_changes,
)
from tests.packed import LaneView, make_memory
from tests.rules.helpers import (
    EXACT_WISH,
    Json,
    at,
    external,
    follow,
    hpa_spec,
    policies,
    tick,
    total,
    wish,
)

SEEDS = [1, 2, 3][: effort(6, kernel=True)]


# ---- what may not matter -------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_newest_tick_of_every_lane_call_by_call_equals_one_call(
    seed: int, recorded: bool
) -> None:
    fleet = random_fleet(seed)
    if recorded:
        fleet = with_own_changes(fleet, replayed(fleet)[0])
    whole, memory_after = replayed(fleet, recorded)
    newest, memory = replayed_live(fleet, recorded)
    assert_equal_results(whole, newest)
    assert_equal_memory(memory_after, memory)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=effort(20, kernel=True))
def test_any_chunks_and_any_order_of_lanes_give_the_same(seed: int, recorded: bool) -> None:
    rng, fleet = random.Random(seed), random_fleet(seed, count=3, ticks=12)
    if recorded:
        fleet = with_own_changes(fleet, replayed(fleet)[0])
    whole, memory_after = replayed(fleet, recorded)
    chunked, memory = poisoned(fleet), make_memory(fleet, recorded)
    position = fleet.lanes.first_tick.tolist()
    while unfinished := [h for h, t in enumerate(position) if t < fleet.lanes.last_tick[h]]:
        h = rng.choice(unfinished)
        until = rng.randint(position[h], int(fleet.lanes.last_tick[h]))
        replay_lane(fleet, memory, h, position[h], until, recorded, chunked)
        position[h] = until
    assert_equal_results(whole, chunked)
    assert_equal_memory(memory_after, memory)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_field_of_every_row_is_written(seed: int) -> None:
    fleet = random_fleet(seed)
    assert fleet.answers.size > fleet.ticks.size
    assert_equal_results(replayed(fleet, byte=0xA5)[0], replayed(fleet, byte=0x5A)[0])


def two_metric_sets() -> LaneView:
    specs = [hpa_spec(EXACT_WISH), hpa_spec(external(average="1", name="other"))]
    return LaneView(specs, [tick(15 * k, 5, answers=[total(5000)], spec=k % 2) for k in range(4)])


def test_rows_of_metrics_that_a_spec_lacks_are_written_too() -> None:
    fleet = pack([two_metric_sets()])
    assert fleet.answers.size == 2 * fleet.ticks.size
    assert_equal_results(replayed(fleet, byte=0xA5)[0], replayed(fleet, byte=0x5A)[0])


def test_an_empty_fleet_and_lanes_without_ticks() -> None:
    for lanes in ([], [LaneView([hpa_spec(EXACT_WISH)], [])] * 2):
        fleet = pack(lanes)
        results, memory = replayed(fleet)
        assert results.decisions.size == results.metrics.size == 0
        assert memory.head.shape[0] == len(lanes)


# ---- compiled and interpreted --------------------------------------------------------------------


@cache
def digests() -> list[str]:
    """Return digests of replays (decided, recorded, live) of random fleets."""
    found = []
    for seed in SEEDS[:1]:
        fleet = random_fleet(seed)
        results, memory = replayed(fleet)
        found.append(digest(results, memory))
        found.append(digest(*replayed(with_own_changes(fleet, results), recorded=True)))
        found.append(digest(*replayed_live(fleet)))
    return found


@pytest.mark.compiled
def test_other_types_are_refused() -> None:
    fleet = random_fleet(3, ticks=8)
    values: Any = fleet.values_milli
    for other in (values.astype(np.int32), values[:, None]):
        with pytest.raises(TypeError, match=r"replay_fleet: expected \(dtype\('int64'\), 1\)"):
            replayed(fleet._replace(values_milli=other))


# ---- recorded changes ----------------------------------------------------------------------------

LIMITED: Json = {
    "scaleUp": policies(("Pods", 4, 60), ("Percent", 50, 30)),
    "scaleDown": policies(("Pods", 3, 120), stabilizationWindowSeconds=0),
}


@given(
    st.lists(
        st.tuples(st.integers(1, 70), st.integers(0, 40), st.booleans()), min_size=1, max_size=30
    ),
    st.integers(1, 30),
)
def test_recorded_changes_equal_to_the_decisions_change_nothing(
    history: list[tuple[int, int, bool]], start: int
) -> None:
    spec = hpa_spec(EXACT_WISH, low=2, high=25, behavior=LIMITED)
    seconds, ticks, current = 0, [], start
    for wait, wished, restart in history:
        seconds += wait
        ticks.append(wish(seconds, current, wished, restart=restart and wished < 5))
    fleet = pack([LaneView([spec], ticks)], tolerance=0.0)
    decided, memory = poisoned(fleet), make_memory(fleet, recorded=False)
    for t in range(len(ticks)):
        replay_lane(fleet, memory, 0, t, t + 1, False, decided)
        fleet.ticks.replicas[t + 1 :] = decided.decisions.desired[t]
        fleet.ticks.status_replicas[t + 1 :] = decided.decisions.desired[t]
    again, _ = replayed(with_own_changes(fleet, decided), recorded=True)
    assert_equal_results(decided, again)


def recorded_sizes(
    specs: Sequence[HPASpec],
    ticks: Sequence[tuple[float, int, int, int]],
    changes: Sequence[tuple[float, int, int]],
) -> list[int]:
    """Return decisions for ticks of (seconds, replicas, wish, spec) and recorded changes."""
    views = [wish(s, replicas, wished, spec=k) for s, replicas, wished, k in ticks]
    fleet = pack([LaneView(specs, views)], tolerance=0.0)
    fleet.lanes.last_change[:] = len(changes)
    rows = [(at(s), before, after) for s, before, after in changes]
    results, _ = replayed(fleet._replace(changes=records(CHANGE, rows)), recorded=True)
    return [int(n) for n in results.decisions.desired]


UP_FOUR = hpa_spec(EXACT_WISH, behavior={"scaleUp": policies(("Pods", 4, 60))})


def test_budgets_are_spent_when_changes_really_happened() -> None:
    ticks = [(0, 2, 20, 0), (15, 6, 20, 0), (60, 6, 20, 0), (64.999, 6, 20, 0), (65, 6, 20, 0)]
    assert recorded_sizes([UP_FOUR], ticks, [(5, 2, 6)]) == [6, 6, 6, 6, 10]
    # decided instead, the budget is free again a minute after the decision
    decided = follow(UP_FOUR, 2, [(0, 20), (15, 20), (60, 20)])
    assert [r["desired"] for r in decided] == [6, 6, 10]


def test_changes_before_the_first_tick_and_at_a_tick() -> None:
    ticks = [(0, 6, 20, 0), (15, 6, 20, 0)]
    assert recorded_sizes([UP_FOUR], ticks, [(-20, 2, 5), (-10, 5, 6)]) == [6, 6]
    # one at the time of a tick is that tick's own: it counts from the next one on
    assert recorded_sizes([UP_FOUR], ticks, [(0, 2, 6)]) == [10, 6]


def test_a_change_is_stored_under_the_spec_that_made_it() -> None:
    specs = [UP_FOUR, hpa_spec(EXACT_WISH)]
    ticks = [(0, 2, 20, 0), (15, 6, 6, 1), (30, 6, 20, 0)]
    # (In between, without behavior, the wish of 20 is still in the legacy window: twice 6.)
    assert recorded_sizes(specs, ticks, [(0, 2, 6)]) == [6, 12, 6]


def test_recorded_changes_are_taken_lane_by_lane() -> None:
    view = LaneView([UP_FOUR], [wish(0, 6, 20), wish(15, 6, 20)])
    fleet = pack([view, view, view], tolerance=0.0)
    fleet.lanes.first_change[:] = [0, 1, 1]
    fleet.lanes.last_change[:] = [1, 1, 3]
    rows = [(at(-20), 2, 6), (at(-20), 4, 6), (at(10), 9, 6)]
    fleet = fleet._replace(changes=records(CHANGE, rows))
    results, memory = replayed(fleet, recorded=True)
    assert results.decisions.desired.tolist() == [6, 6, 10, 10, 8, 11]
    assert memory.head[:, 15].tolist() == [1, 0, 2]
