"""Trials: every lane decided under several settings and its usage observed, in one walk.

Its pods and samples are aligned once for all, and their sums per tick are made once.

The settings of a lane read the same ticks, rows and samples; each has its own specs, metrics, flags
and memory. The tables of `Fleet` and `Memory` that differ hold one copy for each setting, one after
the other: setting v of lane h is LANE v × lanes + h, and a tick's spec s becomes v × specs + s.
"""

from __future__ import annotations

from typing import NamedTuple

from hpabatch._jit import kernel, rule
from hpabatch.kernels.align import fill_next
from hpabatch.kernels.replay import replay_lane
from hpabatch.kernels.usage import UsageArrays, observe_block
from hpabatch.layout.codes import (
    BOUND_BY_INVALID_METRIC,
    BOUND_BY_NO_SCALE,
    BOUND_BY_SCALE_READ,
    BOUND_BY_SELECTOR,
    SCALE_OK,
    SCALE_UPDATE_FAILED,
)
from hpabatch.layout.observations import Observations
from hpabatch.layout.records import I32, I64, Fleet, I32x2, Memory
from hpabatch.layout.results import Results

UNDECIDED = -1
"""The wish of a tick that could decide nothing."""


class TrialSizes(NamedTuple):
    """What every setting makes of the ticks.

    `settings` (H,) is how many a lane has, `order` (H,) the lanes in the order of which threads
    take parts; `observed` (1,) of how many first lanes the usage is observed. `seen` (T,) is
    the size that a tick saw, and `wished` (settings, T) the one that it wished for, or UNDECIDED.
    Where every setting is undecided nothing was seen.
    """

    settings: I64
    order: I64
    observed: I64
    seen: I32
    wished: I32x2


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
    sizes.seen[t] = decision.current
    sizes.wished[v, t] = decision.desired if decision.rescaled != 0 else decision.current


@rule
def move_specs(fleet: Fleet, first: int, last: int, by: int) -> None:
    """Let ticks first:last have the specs that lie `by` further on."""
    for t in range(first, last):
        fleet.ticks[t].spec += by


@rule
def try_block(
    obs: Observations,
    fleet: Fleet,
    memory: Memory,
    h: int,
    first: int,
    end: int,
    recorded: bool,
    results: Results,
    sizes: TrialSizes,
) -> None:
    """Decide the ticks first:end of a filled block under all settings of a lane, setting 0 last.

    All settings of a tick follow each other: the sums over its pods are made once for them all.
    """
    lanes, count = obs.lanes.size, sizes.settings[h]
    specs = fleet.specs.size // (fleet.lanes.size // lanes)
    for t in range(first, end):
        # The tick before is looked at for its spec.
        before = max(t - 1, fleet.lanes[h].first_tick)
        move_specs(fleet, before, t + 1, (count - 1) * specs)
        for k in range(count):
            v = count - 1 - k
            replay_lane(fleet, memory, h + v * lanes, t, t + 1, recorded, results)
            note_sizes(fleet, t, results, v, sizes)
            if v > 0:
                move_specs(fleet, before, t + 1, -specs)


@rule
def walk_lane(
    obs: Observations,
    fleet: Fleet,
    memory: Memory,
    h: int,
    until_ms: int,
    recorded: bool,
    results: Results,
    sizes: TrialSizes,
    settle_ms: int,
    usage: UsageArrays,
) -> None:
    """Observe and decide the ticks of a lane before `until_ms`, block by block."""
    while True:
        first, end = fill_next(obs, fleet, h, until_ms)
        if end == first:
            return
        if h < sizes.observed[0]:
            observe_block(obs, fleet, h, first, end, settle_ms, usage)
        try_block(obs, fleet, memory, h, first, end, recorded, results, sizes)


@kernel
def walk_observations(
    first: int,
    last: int,
    obs: Observations,
    fleet: Fleet,
    memory: Memory,
    until_ms: int,
    recorded: bool,
    results: Results,
    sizes: TrialSizes,
    settle_ms: int,
    usage: UsageArrays,
) -> None:
    """Observe and decide every lane's ticks before `until_ms`; loads are taken in before.

    As `kernels.align.replay_observations`, under all settings, and `kernels.usage.observe_usage`.
    Writes `sizes`, `usage` and the `results` of each lane's first setting. Raises nothing.
    """
    for place in range(first, last):
        h = sizes.order[place]
        walk_lane(obs, fleet, memory, h, until_ms, recorded, results, sizes, settle_ms, usage)
