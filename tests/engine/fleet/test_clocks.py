"""When decisions are made."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.fleet.clocks import Clocks, Grid, Passes
from hpabatch.engine.fleet.sync import SyncEstimate, sync_ticks


@given(
    period=st.integers(1, 50),
    phase=st.integers(-60, 120),
    first=st.integers(-100, 100),
    length=st.integers(-1, 200),
)
def test_a_grid_has_all_instants_of_its_phase(
    period: int, phase: int, first: int, length: int
) -> None:
    found = Grid(period, phase).instants(first, first + length)
    assert found.dtype == np.int64
    assert found.tolist() == [
        ms for ms in range(first, first + length + 1) if (ms - phase) % period == 0
    ]


def test_recorded_instants_come_before_estimated_ones_and_those_before_the_grid() -> None:
    estimate = SyncEstimate(
        period_ms=30.0, phase_ms=0.0, support=9, spread_ms=0.0, anchor_ms=4, estimated=True
    )
    one, two, three = ("c", "n", "one"), ("c", "n", "two"), ("c", "n", "three")
    clocks = Clocks(
        from_ms=10,
        to_ms=100,
        grid=Grid(40),
        estimated={one: estimate, two: estimate},
        recorded={one: np.array([9, 10, 55, 100, 101])},
    )
    assert clocks.instants(clocks.of(one)).tolist() == [10, 55, 100]
    assert clocks.instants(clocks.of(two)).tolist() == sync_ticks(estimate, 10, 100).tolist()
    assert clocks.instants(clocks.of(three)).tolist() == [40, 80]
    # HPAs with equal instants share them.
    assert clocks.of(three) == clocks.of(("c", "n", "four"))
    assert len({clocks.of(key) for key in (one, two, three)}) == 3
    assert [clocks.known(key) for key in (one, two, three)] == [5, None, None]


def test_hpas_of_a_cluster_share_its_passes() -> None:
    keys = [("c", "n", "one"), ("c", "m", "two"), ("d", "n", "one"), ("c", "n", "own")]
    estimate = SyncEstimate(
        period_ms=30.0, phase_ms=0.0, support=9, spread_ms=0.0, anchor_ms=4, estimated=True
    )
    clocks = Clocks(
        from_ms=10,
        to_ms=100,
        grid=Grid(40),
        estimated={keys[0]: estimate},
        recorded={keys[3]: np.array([20])},
        passes={"c": np.array([9, 10, 55, 101])},
    )
    found = [clocks.instants(clocks.of(key)).tolist() for key in keys]
    assert found == [[10, 55], [10, 55], [40, 80], [20]]
    assert clocks.of(keys[0]) == clocks.of(keys[1]) == Passes("c")
    assert [clocks.known(key) for key in keys] == [4, 4, None, 1]
