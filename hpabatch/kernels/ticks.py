"""Ticks of a lane from recorded observations: spec in force, scale, selector, restarts.

A size change at exactly a tick is that tick's own outcome and seen at the next one.
"""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.layout.codes import (
    SCALE_UNKNOWN,
    SELECTOR_AMBIGUOUS,
    SELECTOR_OK,
)
from hpabatch.layout.observations import (
    CURSOR_AMBIGUOUS,
    CURSOR_CLOCK,
    CURSOR_LAST_CLOCK,
    CURSOR_LIFE,
    CURSOR_PERIOD,
    CURSOR_SCALE,
    CURSOR_START,
    CURSOR_TICK,
    Observations,
)
from hpabatch.layout.records import Fleet


@rule
def spec_in_force(obs: Observations, h: int, now_ms: int) -> int:
    """Return the PERIOD row in force, -1 where there is none; moves the lane's cursor on."""
    lane, cursor = obs.lanes[h], obs.cursors[h]
    k = lane.first_period + cursor[CURSOR_PERIOD]
    while k < lane.last_period and obs.periods[k].to_ms <= now_ms:
        k += 1
    cursor[CURSOR_PERIOD] = k - lane.first_period
    if k < lane.last_period and obs.periods[k].from_ms <= now_ms:
        return int(k)
    return -1


@rule
def restart_before(obs: Observations, h: int, clock: int, now_ms: int) -> int:
    """Return when (ms) the lane's controller lost its memory since its last tick, else 0.

    By a recorded start, or at a sync that found the HPA gone; the later of both.
    """
    lane, cursor = obs.lanes[h], obs.cursors[h]
    last = cursor[CURSOR_LAST_CLOCK]
    restart = now_ms if last >= 0 and clock != last + 1 else 0
    k = lane.first_start + cursor[CURSOR_START]
    while k < lane.last_start and obs.starts_ms[k] <= now_ms:
        restart = max(restart, obs.starts_ms[k], 1)
        k += 1
    cursor[CURSOR_START] = k - lane.first_start
    cursor[CURSOR_LAST_CLOCK] = clock
    return int(restart)


@rule
def read_scale(obs: Observations, h: int, now_ms: int) -> int:
    """Return the SCALE_ROW that a tick reads, -1 before the first; moves the cursor on."""
    lane, cursor = obs.lanes[h], obs.cursors[h]
    k = lane.first_scale + cursor[CURSOR_SCALE]
    while k < lane.last_scale and obs.scales[k].ts_ms < now_ms:
        k += 1
    cursor[CURSOR_SCALE] = k - lane.first_scale
    if k > lane.first_scale:
        return int(k - 1)
    # The first row is what was found: it counts at its own instant.
    return int(k) if k < lane.last_scale and obs.scales[k].ts_ms == now_ms else -1


@rule
def ambiguous_at(obs: Observations, h: int, now_ms: int) -> int:
    """Return the AMBIGUOUS row of the lane at a tick, -1 for none; moves the cursor on."""
    lane, cursor = obs.lanes[h], obs.cursors[h]
    k = lane.first_ambiguous + cursor[CURSOR_AMBIGUOUS]
    while k < lane.last_ambiguous and obs.ambiguous[k].ts_ms < now_ms:
        k += 1
    cursor[CURSOR_AMBIGUOUS] = k - lane.first_ambiguous
    return int(k) if k < lane.last_ambiguous and obs.ambiguous[k].ts_ms == now_ms else -1


@rule
def fill_tick(obs: Observations, fleet: Fleet, h: int, t: int, clock: int, now_ms: int) -> bool:
    """Write a TICK record but its rows and selector; False: no spec was in force."""
    lane = obs.lanes[h]
    period = spec_in_force(obs, h, now_ms)
    if period < 0:
        return False
    tick = fleet.ticks[t]
    tick.now_ms = now_ms
    tick.spec = obs.periods[period].spec
    tick.restart = restart_before(obs, h, clock, now_ms)
    life = obs.periods[period].life
    cursor = obs.cursors[h]
    tick.recreated = 1 if life > cursor[CURSOR_LIFE] >= 0 else 0
    cursor[CURSOR_LIFE] = life
    row = read_scale(obs, h, now_ms)
    known = max(row, lane.first_scale)
    tick.scale = SCALE_UNKNOWN if row < 0 else obs.scales[row].code
    tick.scale_text = obs.scales[row].text if row >= 0 else 0
    tick.replicas = obs.scales[known].replicas
    tick.status_replicas = obs.scales[known].status_replicas
    tick.selector_row = obs.scales[known].selector if row >= 0 else -1
    return True


@rule
def finish_tick(obs: Observations, fleet: Fleet, h: int, t: int) -> None:
    """Write what the scale's selector comes to; before the first scale the first one's counts."""
    tick, lane = fleet.ticks[t], obs.lanes[h]
    row = tick.selector_row
    ambiguous = ambiguous_at(obs, h, tick.now_ms)
    if row < 0:
        row = obs.scales[lane.first_scale].selector
    selector = obs.selectors[lane.first_selector + row]
    tick.selector, tick.selector_text = selector.code, selector.text
    if ambiguous >= 0 and selector.code == SELECTOR_OK:
        tick.selector = SELECTOR_AMBIGUOUS
        tick.selector_text = obs.ambiguous[ambiguous].text


@rule
def fill_ticks(obs: Observations, fleet: Fleet, h: int, most: int, until_ms: int) -> int:
    """Fill the ticks of the lane's next `most` instants before `until_ms`; return how many.

    An instant without a spec in force is none: then they are fewer, not later ones, for whose pods
    there may be no room.
    """
    lane, cursor = obs.lanes[h], obs.cursors[h]
    first = cursor[CURSOR_TICK]
    t, clock = first, cursor[CURSOR_CLOCK]
    end = min(clock + most, lane.last_clock - lane.first_clock)
    while clock < end:
        now_ms = obs.clock_ms[lane.first_clock + clock]
        if now_ms >= until_ms:
            break
        if fill_tick(obs, fleet, h, t, clock, now_ms):
            t += 1
        clock += 1
    cursor[CURSOR_CLOCK] = clock
    cursor[CURSOR_TICK] = t
    return int(t - first)
