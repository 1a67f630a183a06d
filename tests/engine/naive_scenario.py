"""Naive twin of scenario steps on the work of one signal, instant by instant.

Nothing of `hpabatch.engine` is used. Work is a function from ms to a whole number; it is asked at
multiples of 15 s only, where every step used with it has its edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from hpabatch.inputs.scenarios import Growth, Repeat, Shift, Spike

Function = Callable[[int], int]


def half_up(number: Fraction) -> int:
    return math.floor(number + Fraction(1, 2))


def pieces(start_ms: int, resolution_ms: int, values: Sequence[int]) -> Function:
    def work(at: int) -> int:
        if at < start_ms:
            return values[0]
        number = (at - start_ms) // resolution_ms
        return values[number] if number < len(values) else values[-1]

    return work


def on_the_way(factor_milli: int, way: int, whole: int) -> int:
    """Return the factor after a part of the way up to it."""
    if way >= whole:
        return factor_milli
    return half_up(1000 + Fraction((factor_milli - 1000) * way, whole))


def grow(work: Function, action: Growth, start_ms: int) -> Function:
    if action.since is None and action.ramp_ms == 0:
        return lambda at: half_up(Fraction(work(at) * action.factor_milli, 1000))
    since = start_ms + (0 if action.since is None else action.since.ms)

    def grown(at: int) -> int:
        if at < since:
            return work(at)
        factor = on_the_way(action.factor_milli, at - since, action.ramp_ms)
        return half_up(Fraction(work(at) * factor, 1000))

    return grown


def spike(work: Function, action: Spike, start_ms: int, end_ms: int) -> Function:
    begins = []
    for moment in action.times.at:
        begin = start_ms + moment.ms
        begins.append(begin)
        while action.times.every_ms is not None and begins[-1] + action.times.every_ms < end_ms:
            begins.append(begins[-1] + action.times.every_ms)

    def raised(at: int) -> int:
        found = work(at)
        for begin in begins:
            end = begin + action.for_ms
            if begin <= at < end:
                way = min(at - begin, end - at)
                factor = on_the_way(action.factor_milli, way, action.ramp_ms)
                found = half_up(Fraction(found * factor, 1000))
        return found

    return raised


def shift(work: Function, action: Shift) -> Function:
    return lambda at: work(at - action.by_ms)


def repeat(work: Function, action: Repeat, start_ms: int, known: tuple[int, int]) -> Function:
    period = action.period_ms
    first = known[1] if action.at is None else start_ms + action.at.ms
    since = known[1] - period if action.since is None else start_ms + action.since.ms

    def repeated(at: int) -> int:
        if at < first:
            return work(at)
        moved = at
        while moved >= since + period:
            moved -= period
        while moved < since:
            moved += period
        return work(moved)

    return repeated
