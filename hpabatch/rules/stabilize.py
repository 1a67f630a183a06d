"""Stabilization: upstream's list of recommendations, and the two windows over it.

Upstream keeps a list in which a recommendation that has left the windows is overwritten, the last
such slot first, and scans it at every sync. The same list is kept here, with three rings of slots
beside it (by age, ascending minima, descending maxima) and a stack of the slots that may be
overwritten, so that a tick costs the same whatever the window. When a cutoff moves back (an edited
window, another path, a clock set back) the rings are built anew from the list.
Source: horizontal.go, stabilizeRecommendation and stabilizeRecommendationWithBehaviors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpabatch._jit import rare, rule
from hpabatch.layout.records import (
    HEAD_AGE_COUNT,
    HEAD_AGE_FIRST,
    HEAD_MAX_COUNT,
    HEAD_MAX_FIRST,
    HEAD_MAX_FROM,
    HEAD_MIN_COUNT,
    HEAD_MIN_FIRST,
    HEAD_MIN_FROM,
    HEAD_OLD_BEFORE,
    HEAD_OLD_COUNT,
    HEAD_REC_COUNT,
    HEAD_REC_SIZE,
    HEAD_REC_START,
    HEAD_UNSORTED,
    I64,
    Recommendations,
)
from hpabatch.rules.numbers import INT64_MAX


@rule
def forget_recommendations(head: I64) -> None:
    """Drop all recommendations of a lane, as a controller restart does."""
    for k in (HEAD_REC_COUNT, HEAD_AGE_COUNT, HEAD_MIN_COUNT, HEAD_MAX_COUNT, HEAD_OLD_COUNT):
        head[k] = 0
    for k in (HEAD_MIN_FROM, HEAD_MAX_FROM, HEAD_OLD_BEFORE):
        head[k] = -INT64_MAX
    head[HEAD_UNSORTED] = 0


@rule
def ring_index(head: I64, first: int, position: int) -> Any:
    """Return the index in `recs` of a position of the ring that begins at `first`.

    Unsigned: it spares numba's wrap-around test, here and wherever `recs` is read.
    """
    at = first + position
    if at >= head[HEAD_REC_SIZE]:
        at -= head[HEAD_REC_SIZE]
    return np.uint64(at + head[HEAD_REC_START])


@rule
def slot_index(head: I64, slot: int) -> Any:
    """Return the index in `recs` of a slot."""
    return np.uint64(slot + head[HEAD_REC_START])


@rule
def push_age(head: I64, recs: Recommendations, slot: int) -> None:
    """Append a slot to the ring of slots by age."""
    count = head[HEAD_AGE_COUNT]
    recs[ring_index(head, head[HEAD_AGE_FIRST], count)].ring_age = slot
    head[HEAD_AGE_COUNT] = count + 1


@rule
def push_minimum(head: I64, recs: Recommendations, slot: int, value: int) -> None:
    """Append a slot to the minimum queue; those before it that are not smaller go."""
    first, count = head[HEAD_MIN_FIRST], head[HEAD_MIN_COUNT]
    while count > 0:
        last = recs[ring_index(head, first, count - 1)].ring_min
        if recs[slot_index(head, last)].value < value:
            break
        count -= 1
    recs[ring_index(head, first, count)].ring_min = slot
    head[HEAD_MIN_COUNT] = count + 1


@rule
def push_maximum(head: I64, recs: Recommendations, slot: int, value: int) -> None:
    """Append a slot to the maximum queue; those before it that are not larger go."""
    first, count = head[HEAD_MAX_FIRST], head[HEAD_MAX_COUNT]
    while count > 0:
        last = recs[ring_index(head, first, count - 1)].ring_max
        if recs[slot_index(head, last)].value > value:
            break
        count -= 1
    recs[ring_index(head, first, count)].ring_max = slot
    head[HEAD_MAX_COUNT] = count + 1


@rule
def push_old(head: I64, recs: Recommendations, slot: int) -> None:
    """Add a slot to those that may be overwritten, in ascending order (mostly it is the last)."""
    at = head[HEAD_OLD_COUNT]
    while at > 0 and recs[slot_index(head, at - 1)].old > slot:
        recs[slot_index(head, at)].old = recs[slot_index(head, at - 1)].old
        at -= 1
    recs[slot_index(head, at)].old = slot
    head[HEAD_OLD_COUNT] += 1


@rule
def next_place(head: I64, first: int) -> int:
    """Return the place after one of a ring's."""
    return 0 if first + 1 == head[HEAD_REC_SIZE] else first + 1


@rule
def expire(head: I64, recs: Recommendations) -> None:
    """Bring the rings to the cutoffs in `head`: leading slots that are too old leave them."""
    # Ends and cutoffs are locals while the queues move: what is written to `recs` could, for all
    # the compiler knows, be `head`, and it would be read again after each entry.
    first, count, old_before = head[HEAD_AGE_FIRST], head[HEAD_AGE_COUNT], head[HEAD_OLD_BEFORE]
    while count > 0:
        slot = recs[slot_index(head, first)].ring_age
        if recs[slot_index(head, slot)].ms >= old_before:
            break
        push_old(head, recs, slot)
        first, count = next_place(head, first), count - 1
    head[HEAD_AGE_FIRST], head[HEAD_AGE_COUNT] = first, count
    first, count, from_ms = head[HEAD_MIN_FIRST], head[HEAD_MIN_COUNT], head[HEAD_MIN_FROM]
    while count > 0:
        slot = recs[slot_index(head, first)].ring_min
        if recs[slot_index(head, slot)].ms >= from_ms:
            break
        first, count = next_place(head, first), count - 1
    head[HEAD_MIN_FIRST], head[HEAD_MIN_COUNT] = first, count
    first, count, from_ms = head[HEAD_MAX_FIRST], head[HEAD_MAX_COUNT], head[HEAD_MAX_FROM]
    while count > 0:
        slot = recs[slot_index(head, first)].ring_max
        if recs[slot_index(head, slot)].ms >= from_ms:
            break
        first, count = next_place(head, first), count - 1
    head[HEAD_MAX_FIRST], head[HEAD_MAX_COUNT] = first, count


@rare
def rebuild(head: I64, recs: Recommendations) -> None:
    """Build rings and stack anew from the list (insertion sort by time: it is nearly sorted)."""
    start, count = head[HEAD_REC_START], head[HEAD_REC_COUNT]
    head[HEAD_OLD_COUNT] = 0
    for slot in range(count):
        at = slot
        while at > 0 and recs[start + recs[start + at - 1].ring_age].ms > recs[start + slot].ms:
            recs[start + at].ring_age = recs[start + at - 1].ring_age
            at -= 1
        recs[start + at].ring_age = slot
    head[HEAD_AGE_FIRST], head[HEAD_AGE_COUNT] = 0, count
    head[HEAD_MIN_FIRST], head[HEAD_MIN_COUNT] = 0, 0
    head[HEAD_MAX_FIRST], head[HEAD_MAX_COUNT] = 0, 0
    for at in range(count):
        slot = recs[start + at].ring_age
        push_minimum(head, recs, slot, recs[start + slot].value)
        push_maximum(head, recs, slot, recs[start + slot].value)
    head[HEAD_UNSORTED] = 0


@rule
def move_windows(
    head: I64, recs: Recommendations, min_from: int, max_from: int, old_before: int
) -> None:
    """Bring rings and stack to new cutoffs, from scratch if one of them moved back."""
    moved_back = min_from < head[HEAD_MIN_FROM] or max_from < head[HEAD_MAX_FROM]
    if moved_back or head[HEAD_UNSORTED] != 0:
        rebuild(head, recs)
    head[HEAD_MIN_FROM], head[HEAD_MAX_FROM] = min_from, max_from
    head[HEAD_OLD_BEFORE] = old_before
    expire(head, recs)


@rule
def record_recommendation(head: I64, recs: Recommendations, value: int, now_ms: int) -> None:
    """Write (value, now) into the last replaceable slot, else append it."""
    old, age = head[HEAD_OLD_COUNT], head[HEAD_AGE_COUNT]
    if old > 0:
        head[HEAD_OLD_COUNT] = old - 1
        slot = recs[slot_index(head, old - 1)].old
    else:
        slot = head[HEAD_REC_COUNT]
        head[HEAD_REC_COUNT] = slot + 1
    if age > 0:
        newest = recs[ring_index(head, head[HEAD_AGE_FIRST], age - 1)].ring_age
        if recs[slot_index(head, newest)].ms > now_ms:
            head[HEAD_UNSORTED] = 1  # the clock went back: sort before the next use
    record = recs[slot_index(head, slot)]
    record.value, record.ms = value, now_ms
    push_age(head, recs, slot)
    push_minimum(head, recs, slot, value)
    push_maximum(head, recs, slot, value)


@rule
def last_recommendation(head: I64, recs: Recommendations) -> Any:
    """Return the index in `recs` of the newest recommendation; there is one.

    Where windows never change, moving its time forward is as good as recording the same number at
    every sync between: what a window holds of them has one minimum and one maximum, its own.
    """
    newest = recs[ring_index(head, head[HEAD_AGE_FIRST], head[HEAD_AGE_COUNT] - 1)].ring_age
    return slot_index(head, newest)


@rule
def last_of_at_least(head: I64, recs: Recommendations, value: int) -> int:
    """Return the time (ms) of the newest recommendation of at least some number; there is one.

    It is in the queue of maxima, whose numbers fall and whose times rise.
    """
    first, at = head[HEAD_MAX_FIRST], head[HEAD_MAX_COUNT] - 1
    slot = recs[ring_index(head, first, at)].ring_max
    while at > 0 and recs[slot_index(head, slot)].value < value:
        at -= 1
        slot = recs[ring_index(head, first, at)].ring_max
    return int(recs[slot_index(head, slot)].ms)


@rule
def recommend_within_windows(
    head: I64,
    recs: Recommendations,
    value: int,
    now_ms: int,
    min_from: int,
    max_from: int,
    old_before: int,
) -> tuple[int, int]:
    """Record a recommendation; return (minimum since min_from, maximum since max_from) with it.

    The cutoffs are inclusive ms; slots strictly older than `old_before` may be overwritten.
    """
    move_windows(head, recs, min_from, max_from, old_before)
    low, high = value, value
    if head[HEAD_MIN_COUNT] > 0:
        slot = recs[slot_index(head, head[HEAD_MIN_FIRST])].ring_min
        low = min(low, recs[slot_index(head, slot)].value)
    if head[HEAD_MAX_COUNT] > 0:
        slot = recs[slot_index(head, head[HEAD_MAX_FIRST])].ring_max
        high = max(high, recs[slot_index(head, slot)].value)
    record_recommendation(head, recs, value, now_ms)
    return low, high


@rule
def stabilize_with_windows(
    head: I64,
    recs: Recommendations,
    current: int,
    proposal: int,
    now_ms: int,
    up_ms: int,
    down_ms: int,
    clamps_current: bool,
) -> int:
    """Return the stabilized number of the behavior path: current pulled into [low, high].

    Going up only to the smallest wish of the up window, down only to the largest of the down
    window. A sample exactly at a cutoff does not count (and is not yet overwritten). Old versions
    (not `clamps_current`) look at the window of the proposal's direction alone.
    """
    up, down = now_ms - up_ms, now_ms - down_ms
    low, high = recommend_within_windows(
        head, recs, proposal, now_ms, up + 1, down + 1, min(up, down)
    )
    if not clamps_current:
        return low if proposal >= current else high
    return min(max(current, low), high)


@rule
def stabilize_legacy(
    head: I64, recs: Recommendations, proposal: int, now_ms: int, window_ms: int
) -> int:
    """Return the largest recommendation of the window (no behavior set); its edge still counts."""
    cutoff = now_ms - window_ms
    _, high = recommend_within_windows(head, recs, proposal, now_ms, INT64_MAX, cutoff, cutoff)
    return high
