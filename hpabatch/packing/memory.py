"""A controller's memory as arrays, with capacities that no run of its ticks can exceed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpabatch.layout.codes import (
    CONDITION_CODES,
    CONDITION_TYPES,
    IS_SCALED_TO_ZERO,
    NOT_SCALED_TO_ZERO,
    OTHER_FALSE,
    OTHER_TRUE,
    ConditionWords,
)
from hpabatch.layout.records import (
    EVENT_SLOT,
    HEAD_CONDITIONS,
    HEAD_DOWN_START,
    HEAD_LENGTH,
    HEAD_MAX_FROM,
    HEAD_MIN_FROM,
    HEAD_OLD_BEFORE,
    HEAD_REC_COUNT,
    HEAD_REC_SIZE,
    HEAD_REC_START,
    HEAD_SEEN,
    HEAD_SPARE,
    HEAD_STATUS_CURRENT,
    HEAD_STATUS_DESIRED,
    HEAD_UNSORTED,
    HEAD_UP_START,
    I64,
    REC_SLOT,
    Memory,
    records_from,
)
from hpabatch.model.objects.hpa import Condition, HPAStatus

_FAR_PAST = -(2**63 - 1)


def slots_needed(now_ms: I64, window_ms: int) -> int:
    """Return how many entries a slot list can come to hold over these ticks.

    One entry is added per tick and only when no older one may be overwritten, so all entries but
    the first lie within the window (ends included): shapes (T,) and a scalar, both ms.
    """
    if now_ms.size == 0:
        return 2
    steps = np.diff(now_ms)
    if steps.size and steps.min() < 0:
        return int(now_ms.size) + 2  # the clock goes back: no window bounds the list
    first = np.searchsorted(now_ms, now_ms - window_ms, side="left")
    return int((np.arange(now_ms.size) - first).max()) + 3


def make_sized_memory(recommendations: I64, events: I64, spare: int = 0) -> Memory:
    """Return the memory of controllers that have just started, for lists of known lengths.

    Shape (H,): recommendations, scale events a direction. `spare` of the recommendations are for
    those from before the first tick.
    """

    def before(sizes: I64) -> I64:
        return np.cumsum(sizes) - sizes

    head = np.zeros((recommendations.size, HEAD_LENGTH), np.int64)
    head[:, HEAD_SPARE] = spare
    head[:, [HEAD_MIN_FROM, HEAD_MAX_FROM, HEAD_OLD_BEFORE]] = _FAR_PAST
    head[:, HEAD_REC_START], head[:, HEAD_REC_SIZE] = before(recommendations), recommendations
    head[:, HEAD_UP_START] = before(2 * events)
    head[:, HEAD_DOWN_START] = head[:, HEAD_UP_START] + events
    return Memory(
        head=head,
        recs=records_from(REC_SLOT, int(recommendations.sum())),
        events=records_from(EVENT_SLOT, 2 * int(events.sum())),
    )


def seed_status(memory: Memory, h: int, status: HPAStatus) -> None:
    """Start lane h from an HPA's existing status (replicas and `known_conditions`)."""
    head = memory.head[h]
    head[HEAD_STATUS_CURRENT] = status.current_replicas
    head[HEAD_STATUS_DESIRED] = status.desired_replicas
    head[HEAD_CONDITIONS : HEAD_CONDITIONS + 4] = 0
    for slot, (code, _) in enumerate(known_conditions(status)):
        head[HEAD_CONDITIONS + slot] = code


def known_conditions(status: HPAStatus) -> list[tuple[int, Condition]]:
    """Return the conditions of a status that kernels know, with their codes, in its order.

    Of several of a type the first counts, as upstream finds it. One with words that the controller
    never writes keeps its type, place and status; one of an unknown type is left out.
    """
    first: dict[int, tuple[int, Condition]] = {}
    for condition in status.conditions:
        code = condition_code(condition)
        if code is not None:
            first.setdefault(code >> 4, (code, condition))
    return list(first.values())


def condition_code(condition: Condition) -> int | None:
    """Return the code of a condition as read, None if its type is unknown.

    Of ScaledToZero only the status matters to a rule, so its reason is not looked at.
    """
    is_true = condition.status == "True"
    if condition.type == "ScaledToZero":
        return IS_SCALED_TO_ZERO if is_true else NOT_SCALED_TO_ZERO
    code = CONDITION_CODES.get(ConditionWords(condition.type, condition.status, condition.reason))
    if code is None and condition.type in CONDITION_TYPES:
        code = (CONDITION_TYPES[condition.type] << 4) + (OTHER_TRUE if is_true else OTHER_FALSE)
    return code


def seed_recommendations(memory: Memory, h: int, entries: Sequence[tuple[int, int]]) -> None:
    """Give lane h an existing recommendation list of (value, time in ms), in slot order.

    An empty list is not the same as none: without any, the first tick adds the current size.

    Raises:
        ValueError: more entries than the lane has room for (`spare`).
    """
    first, room = int(memory.head[h, HEAD_REC_START]), int(memory.head[h, HEAD_SPARE])
    if len(entries) > room:
        raise ValueError(f"lane {h}: {len(entries)} recommendations, but there is room for {room}")
    for slot, (value, ms) in enumerate(entries):
        memory.recs.value[first + slot] = value
        memory.recs.ms[first + slot] = ms
    memory.head[h, HEAD_REC_COUNT] = len(entries)
    memory.head[h, HEAD_UNSORTED] = 1  # the rings are built at the first use
    memory.head[h, HEAD_SEEN] = 1
