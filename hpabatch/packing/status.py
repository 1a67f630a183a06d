"""Arrays for statuses, and the initial state before the first tick."""

from __future__ import annotations

import numpy as np

from hpabatch.layout.records import (
    Fleet,
    records_from,
)
from hpabatch.layout.results import (
    FROM_BEFORE,
    NO_GENERATION,
    NO_TIME_MS,
    SHOWN_METRIC,
    STATUS,
    STATUS_CODES,
    STATUS_CURRENT,
    STATUS_DESIRED,
    STATUS_LAST_SCALE,
    STATUS_LENGTH,
    STATUS_METRICS_TICK,
    STATUS_NEXT,
    STATUS_OBSERVED,
    STATUS_SETS,
    STATUS_SHOWN,
    STATUS_TIMES,
    STATUS_WORDS,
    Statuses,
    StatusMemory,
    poisoned,
)
from hpabatch.model.objects.hpa import HPAStatus
from hpabatch.model.times import parse_instant_ms
from hpabatch.packing.memory import known_conditions

_WORDS_FROM_BEFORE = -(2**62)  # of no message that a tick sets


def empty_statuses(ticks: int) -> Statuses:
    """Return STATUS records, filled with what no rule writes."""
    return poisoned(STATUS, ticks)


def make_status_memory(fleet: Fleet) -> StatusMemory:
    """Return the memory of HPAs that have no status yet; every spec is a generation of its own."""
    head = np.zeros((fleet.lanes.size, STATUS_LENGTH), np.int64)
    head[:, STATUS_NEXT] = fleet.lanes.first_tick
    head[:, STATUS_LAST_SCALE] = NO_TIME_MS
    head[:, STATUS_METRICS_TICK] = FROM_BEFORE
    head[:, STATUS_OBSERVED] = NO_GENERATION
    shown = records_from(SHOWN_METRIC, fleet.streams.size)
    return StatusMemory(head, shown, np.arange(fleet.specs.size, dtype=np.int64))


def seed_status_memory(
    memory: StatusMemory, h: int, status: HPAStatus, observed: int = FROM_BEFORE
) -> None:
    """Start lane h from an existing status; its `currentMetrics` count as others than any tick's.

    `observed` is the row of the spec whose generation it has observed, if it is one of the lane's.

    Of its conditions those of `packing.memory.known_conditions` count; one without a time (no
    controller writes that) has been so since 1970.
    """
    head = memory.head[h]
    head[STATUS_CURRENT], head[STATUS_DESIRED] = status.current_replicas, status.desired_replicas
    head[STATUS_SHOWN] = -1 if status.current_metrics else 0
    last_scale, generation = status.last_scale_time, status.observed_generation
    head[STATUS_LAST_SCALE] = NO_TIME_MS if last_scale is None else parse_instant_ms(last_scale)
    head[STATUS_OBSERVED] = NO_GENERATION if generation is None else observed
    for first in (STATUS_CODES, STATUS_TIMES, STATUS_WORDS, STATUS_SETS):
        head[first : first + 4] = 0
    for slot, (code, condition) in enumerate(known_conditions(status)):
        since = condition.last_transition_time
        head[STATUS_CODES + slot] = code
        head[STATUS_TIMES + slot] = 0 if since is None else parse_instant_ms(since)
        head[STATUS_WORDS + slot] = _WORDS_FROM_BEFORE
        head[STATUS_SETS + slot] = FROM_BEFORE
