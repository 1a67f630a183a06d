"""Clocks of clusters: the instants of decisions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.fleet.clocks import Clocks, Grid
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
