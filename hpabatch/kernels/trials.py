"""Trials: every lane decided under several settings, its pods and samples aligned once for all.

The settings of a lane read the same ticks, rows and samples; each has its own specs, metrics, flags
and memory. The tables of `Fleet` and `Memory` that differ hold one copy for each setting, one after
the other: setting v of lane h is LANE v × lanes + h, and a tick's spec s becomes v × specs + s.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from hpabatch._jit import kernel, rule
from hpabatch.kernels.align import block_length, extend_lane, fill_block
from hpabatch.kernels.replay import replay_lane
from hpabatch.kernels.ticks import fill_ticks
from hpabatch.layout.codes import (
    BOUND_BY_INVALID_METRIC,
    BOUND_BY_NO_SCALE,
    BOUND_BY_SCALE_READ,
    BOUND_BY_SELECTOR,
    SCALE_OK,
    SCALE_UPDATE_FAILED,
)
from hpabatch.layout.observations import CURSOR_TICK, Observations, Rows
from hpabatch.layout.records import I32, I64, Fleet, Memory
from hpabatch.layout.results import Results

UNDECIDED = -1
"""The wish of a tick that could decide nothing."""


class TrialSizes(NamedTuple):
    """What every setting makes of the ticks.

    `settings` (H,) is how many a lane has; `seen` and `wished` (settings, T) the size that a tick
    saw and the one that it wished for, or UNDECIDED.
    """

    settings: I64
    seen: I32
    wished: I32


@rule
def note_sizes(fleet: Fleet, t: int, results: Results, v: int, sizes: TrialSizes) -> None:
    """Write the sizes of a tick that was decided under setting v."""
    scale, decision = fleet.ticks[t].scale, results.decisions[t]
    binding = decision.binding
    known = scale == SCALE_OK or scale == SCALE_UPDATE_FAILED
    if (
        not known
        or binding == BOUND_BY_INVALID_METRIC
        or binding == BOUND_BY_SELECTOR
        or binding == BOUND_BY_NO_SCALE
        or binding == BOUND_BY_SCALE_READ
    ):
        sizes.wished[v, t] = UNDECIDED
        return
    sizes.seen[v, t] = decision.current
    sizes.wished[v, t] = decision.desired if decision.rescaled != 0 else decision.current


@rule
def try_lane(
    obs: Observations,
    rows: Rows,
    fleet: Fleet,
    memory: Memory,
    h: int,
    extend: bool,
    until_ms: int,
    recorded: bool,
    results: Results,
    sizes: TrialSizes,
) -> None:
    """Take in one load of a lane and decide its ticks before `until_ms` under all its settings."""
    lanes, count = obs.lanes.size, sizes.settings[h]
    specs = fleet.specs.size // (fleet.lanes.size // lanes)
    if extend:
        extend_lane(obs, rows, h)
    while True:
        length = block_length(obs, h, until_ms)
        if length == 0:
            return
        first = obs.cursors[h, CURSOR_TICK]
        end = first + fill_ticks(obs, fleet, h, length, until_ms)
        if end == first:
            continue
        fill_block(obs, fleet, h, first, end)
        # The tick before the first one is looked at for its spec.
        before = max(first - 1, fleet.lanes[h].first_tick)
        for v in range(count):
            replay_lane(fleet, memory, h + v * lanes, first, end, recorded, results)
            for t in range(first, end):
                note_sizes(fleet, t, results, v, sizes)
            for t in range(before, end):
                fleet.ticks[t].spec += specs
        for t in range(before, end):
            fleet.ticks[t].spec -= count * specs


@kernel
def try_observations(
    obs: Observations,
    rows: Rows,
    fleet: Fleet,
    memory: Memory,
    extend: bool,
    until_ms: int,
    recorded: bool,
    results: Results,
    sizes: TrialSizes,
) -> None:
    """Take in one load of samples and decide every lane's ticks before `until_ms`.

    As `kernels.align.replay_observations`, under all settings. Writes `sizes`; `results` are
    scratch. Raises nothing.
    """
    for lane in numba.prange(obs.lanes.size):
        h: Any = np.int64(lane)
        try_lane(obs, rows, fleet, memory, h, extend, until_ms, recorded, results, sizes)
