"""Steps of a scenario on a workload's work: whole numbers in, whole numbers out.

Work is in pieces of equal length. A step says what the work is at each instant; a piece gets what
holds at its start. Where an instant of a step falls inside of a piece, or a ramp is longer than
one, pieces are first cut into equal ones of at most `piece_ms`. Products are rounded half up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hpabatch.errors import RefusedError
from hpabatch.inputs.scenarios import START, Growth, Repeat, Shift, Spike, Step
from hpabatch.layout.records import I64
from hpabatch.model.times import show_duration, show_instant

PIECE_MS: Final = 15_000
"""The default sync period: the rules see no more of the work than one value in each."""

MAX_WORK_MILLI: Final = 2**53
"""Thousandths of work times 1000 still fit into 64 bits."""

_SHORTEST_PIECE_MS: Final = 1000
_FITS: Final = 2**62


@dataclass(frozen=True, slots=True)
class Work:
    """Work by signal, shapes (pieces,), milli-units, from `start_ms` in pieces of `resolution_ms`.

    The first value counts before the first piece too, the last after the last one. `known_ms` is
    from when to when each signal's work was recorded or repeated; beside that, pieces go on with
    the first or last value.
    """

    start_ms: int
    resolution_ms: int
    series: Mapping[str, I64]
    known_ms: Mapping[str, tuple[int, int]]

    def with_series(self, changed: Mapping[str, I64]) -> Work:
        """Return the work with some signals replaced."""
        return replace(self, series={**self.series, **changed})

    def starts_ms(self, first: int, last: int) -> I64:
        """Return the starts of the pieces first:last, shape (last - first,)."""
        return self.start_ms + self.resolution_ms * np.arange(first, last, dtype=np.int64)

    def first_piece(self, instant_ms: int) -> int:
        """Return the first piece, counted from 0, that does not start before an instant."""
        return -((self.start_ms - instant_ms) // self.resolution_ms)

    def is_on_grid(self, instants_ms: Iterable[int]) -> bool:
        """Whether a piece starts at each of some instants."""
        return all((t - self.start_ms) % self.resolution_ms == 0 for t in instants_ms)


@dataclass(frozen=True, slots=True)
class Run:
    """The run that a scenario is for: from start to end (exclusive), and the length of pieces.

    `first_ms` and `last_ms` are how far work matters: shifts bring some of it into the run.
    """

    start_ms: int
    end_ms: int
    piece_ms: int
    first_ms: int
    last_ms: int

    @classmethod
    def of(cls, steps: Sequence[Step], start_ms: int, end_ms: int, piece_ms: int = PIECE_MS) -> Run:
        """Return the run of a scenario's steps."""
        shifts = [step.action.by_ms for step in steps if isinstance(step.action, Shift)]
        later, earlier = sum(max(by, 0) for by in shifts), sum(min(by, 0) for by in shifts)
        return cls(start_ms, end_ms, piece_ms, start_ms - later, end_ms - earlier)


def recorded(start_ms: int, resolution_ms: int, series: Mapping[str, I64]) -> Work:
    """Return work as it was recorded: known in all of its pieces."""
    known = {n: (start_ms, start_ms + resolution_ms * v.size) for n, v in series.items()}
    return Work(start_ms, resolution_ms, dict(series), known)


def refined(work: Work, piece_ms: int) -> Work:
    """Return the same work in equal pieces of at most `piece_ms`, as far as whole ms allow.

    Pieces shorter than a second are not made: work in pieces of 17,001 ms stays in them.
    """
    resolution = work.resolution_ms
    least = -(-resolution // piece_ms)
    most = resolution // _SHORTEST_PIECE_MS
    parts = next((n for n in range(least, most + 1) if resolution % n == 0), 1)
    if parts == 1:
        return work
    series = {name: np.repeat(values, parts) for name, values in work.series.items()}
    return replace(work, resolution_ms=resolution // parts, series=series)


def covering(work: Work, start_ms: int, end_ms: int) -> Work:
    """Return the same work in pieces that reach from one instant to another, or further."""
    before = max(0, -((start_ms - work.start_ms) // work.resolution_ms))
    wanted = before + max(0, work.first_piece(end_ms))
    series = {}
    for name, values in work.series.items():
        if values.size:
            after = max(0, wanted - before - values.size)
            values = np.pad(values, (before, after), mode="edge") if before or after else values
        series[name] = values
    return replace(work, start_ms=work.start_ms - before * work.resolution_ms, series=series)


def multiplied(values: I64, factor_milli: int | I64) -> I64:
    """Return work times thousandths, rounded half up: 3 × 1.5 = 4.5 -> 5.

    Raises:
        RefusedError: a product is larger than a plant can work with.
    """
    if not values.size:
        return values
    largest = int(values.max()) * int(np.max(factor_milli))
    check_size(max(largest // 1000, int(values.max())))
    if largest < _FITS:
        return (values * factor_milli + 500) // 1000
    # numpy divides fast by a constant, but has no fast remainder.
    whole = values // 1000
    rest = values - 1000 * whole
    product: I64 = whole * factor_milli + (rest * factor_milli + 500) // 1000
    return product


def check_size(largest_milli: int) -> None:
    """Refuse work that is too large for 64 bits (RefusedError)."""
    if largest_milli > MAX_WORK_MILLI:
        raise RefusedError(
            f"work of {largest_milli // 1000:,} is too large: at most {MAX_WORK_MILLI // 1000:,} "
            "can be worked with; use smaller factors"
        )


def ramp_milli(factor_milli: int, way_ms: I64, ramp_ms: int) -> int | I64:
    """Return the factors on an even way from 1, in thousandths rounded half up.

    `way_ms` is how far on the way a piece is: 0 at its begin, `ramp_ms` at its end.
    """
    if ramp_ms == 0:
        return factor_milli
    way = np.clip(way_ms, 0, ramp_ms)
    return 1000 + (2 * (factor_milli - 1000) * way + ramp_ms) // (2 * ramp_ms)


def _fitting(work: Work, run: Run, instants_ms: Iterable[int], ramp_ms: int = 0) -> Work:
    """Return the work in pieces that are fine enough for some instants and a ramp."""
    is_fine = work.is_on_grid(instants_ms) and ramp_ms == 0
    return work if is_fine else refined(work, run.piece_ms)


def changed(
    work: Work, names: Sequence[str], action: Growth | Shift | Spike | Repeat, run: Run
) -> Work:
    """Return the work with some signals changed by a step.

    Raises:
        RefusedError: work is too large, or a stretch to repeat was not recorded.
    """
    match action:
        case Growth():
            return grow(work, names, action, run)
        case Shift():
            return shift(work, names, action, run)
        case Spike():
            return spike(work, names, action, run)
        case Repeat():
            for name in names:
                work = repeat(work, name, action, run)
            return work


def grow(work: Work, names: Sequence[str], growth: Growth, run: Run) -> Work:
    """Return the work with some signals grown."""
    if growth.is_even:
        return work.with_series(
            {name: multiplied(work.series[name], growth.factor_milli) for name in names}
        )
    since = (growth.since or START).instant_ms(run.start_ms)
    work = covering(_fitting(work, run, [since], growth.ramp_ms), run.first_ms, run.last_ms)
    changed = {}
    for name in names:
        values = work.series[name].copy()
        first = work.first_piece(since)
        way = work.starts_ms(first, values.size) - since
        values[first:] = multiplied(
            values[first:], ramp_milli(growth.factor_milli, way, growth.ramp_ms)
        )
        changed[name] = values
    return work.with_series(changed)


def spike(work: Work, names: Sequence[str], action: Spike, run: Run) -> Work:
    """Return the work with some signals raised (or lowered) for a while, maybe several times."""
    begins = action.times.instants_ms(run.start_ms, run.end_ms)
    edges = [t for begin in begins for t in (begin, begin + action.for_ms)]
    work = covering(_fitting(work, run, edges, action.ramp_ms), run.first_ms, run.last_ms)
    changed = {name: work.series[name].copy() for name in names}
    for begin in begins:
        first, last = work.first_piece(begin), work.first_piece(begin + action.for_ms)
        for values in changed.values():
            starts = work.starts_ms(first, min(last, values.size))
            way = np.minimum(starts - begin, begin + action.for_ms - starts)
            factor = ramp_milli(action.factor_milli, way, action.ramp_ms)
            values[first:last] = multiplied(values[first:last], factor)
    return work.with_series(changed)


def shift(work: Work, names: Sequence[str], action: Shift, run: Run) -> Work:
    """Return the work with some signals coming later (or earlier)."""
    by = action.by_ms
    others = [name for name, values in work.series.items() if values.size and name not in names]
    known = {n: (work.known_ms[n][0] + by, work.known_ms[n][1] + by) for n in names}
    known = {**work.known_ms, **known}
    if not others:
        return replace(work, start_ms=work.start_ms + by, known_ms=known)
    work = replace(_fitting(work, run, [work.start_ms + by]), known_ms=known)
    end = work.start_ms + work.resolution_ms * max(work.series[name].size for name in names)
    # so wide that nothing of it is lost
    moved = covering(work, work.start_ms + min(0, by), end + max(0, by))
    return moved.with_series(
        {name: _values_at(work, name, moved, lambda at: at - by) for name in names}
    )


def _values_at(work: Work, name: str, grid: Work, source: Callable[[I64], I64]) -> I64:
    """Return a signal's work at the instants that a function gives for the pieces of a grid."""
    values = work.series[name]
    at = source(grid.starts_ms(0, grid.series[name].size))
    piece = (at - work.start_ms) // work.resolution_ms
    found: I64 = values[np.clip(piece, 0, values.size - 1)]
    return found


def repeat(work: Work, name: str, action: Repeat, run: Run) -> Work:
    """Return the work with a stretch of a signal repeated until the run ends."""
    (begin, end), period = work.known_ms[name], action.period_ms
    at = end if action.at is None else action.at.instant_ms(run.start_ms)
    if at >= run.last_ms:
        return work
    since = end - period if action.since is None else action.since.instant_ms(run.start_ms)
    if since < begin or since + period > end:
        raise RefusedError(
            f"{show_duration(period)} from {show_instant(since)} on is not within the work of "
            f"{name}, which is from {show_instant(begin)} to {show_instant(end)}: repeat a shorter "
            "period"
        )
    work = _fitting(work, run, [since, since + period, at])
    longer = covering(work, run.first_ms, run.last_ms)

    def source(instants: I64) -> I64:
        behind = (instants - since) // period * period
        return np.where(instants >= at, instants - behind, instants)

    filled = longer.with_series({name: _values_at(work, name, longer, source)})
    return replace(filled, known_ms={**work.known_ms, name: (min(begin, at), run.last_ms)})
