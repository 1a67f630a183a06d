"""Base of a signal: usage of a pod without any work, identified from changes of ready pods.

The controller keeps usage per pod near the target, so over all ticks usage hardly depends on the
number of pods, and a regression of usage on 1/n returns the target. Only changes tell: when a pod
is added, the workload's total usage rises by the pod's base and by nothing else. Total usage also
follows the demand, and pods are added *because* usage has just been high; so the total after a
change is compared with its prediction from the past alone:

    U(after) = base × n(after) + predicted(U(past) − base × n(past)) + innovation.

The controller knew no more than the past, so the innovation has nothing to do with the change (n is
sequentially exogenous; Arellano and Bover 1995), and sum of change × innovation = 0 gives the base
without a bias of selection. The prediction is one of a level that wanders: differences between
means over longer and longer stretches of the past (as in Corsi's HAR model, 2009), each with a
second coefficient for large ones, since a burst lasts otherwise than noise does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.fit.stats import (
    F64,
    Interval,
    Mask,
    past_means,
    rolling_mean,
    slope,
    t_quantile,
)
from hpabatch.engine.fit.usage import Cells, Series
from hpabatch.layout.records import I64

FEWEST_CHANGES: Final = 8
FEWEST_HOURS: Final = 5  # changes of one hour may hang together
WIDEST_SHARE: Final = 0.3  # of the mean usage per pod: half the interval of an identified base
NEAR_SHARE: Final = 0.15  # of the same: a bound whose half is less says enough of the base
SUSTAINED_MS: Final = 600_000  # a pod that used so little for so long cannot have a higher base

_HOUR_MS: Final = 3_600_000
_LONGEST_MS: Final = 600_000  # from the last cell before a change until the first after it
# The past in stretches, the youngest first, ms. The first model gives the estimate, the others say
# how much it depends on the model.
_MODELS: Final = (
    (15_000, 45_000, 120_000, 420_000),
    (15_000, 45_000, 120_000),
    (30_000, 60_000, 120_000, 240_000),
)
_LEVEL_MS: Final = 600_000
_LARGE: Final = 2.0  # standard deviations
_AFTER_MS: Final = 60_000  # over so long the usage after a change is averaged, if it lasts
_AHEAD: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40)
_MOST_ROWS: Final = 6_000  # of the past are enough to learn how demand goes on
_ROUNDS: Final = 12
_CLOSE_MILLI: Final = 0.2
_APART: Final = 2.0  # standard errors between pods that came and pods that went
_FEWEST_GONE: Final = 4  # changes, for pods that went to be asked by themselves
_FLAPPING: Final = 6.0
"""Changes an hour above which the past of each holds others, which make a base look larger: then it
may be 0 as well."""
_LEAKS: Final = 0.1
"""Share of what pods that come use more that may still be in the base of pods that went, as a
standard error: some go while others start."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of the number of ready pods, shape (n,).

    `first` is the first cell after a change, with the same number of pods for `length` cells;
    `ahead` cells before it lies the newest cell of the past.
    """

    first: I64
    length: I64
    ahead: I64

    @property
    def past(self) -> I64:
        """The newest cell of each change's past."""
        return self.first - self.ahead


@dataclass(frozen=True, slots=True)
class BaseEstimate:
    """A base in milli with its interval, from `changes` changes in `hours` different hours.

    `starting`: usage of a pod that has just come, where it differs from the base. The base is then
    that of pods that went. None: no difference.
    """

    interval: Interval
    changes: int
    hours: int
    starting: float | None = None


def changes_of(series: Series, cells: Cells) -> Changes:
    """Return the usable changes: total usage is known just before and after them."""
    still = np.flatnonzero(series.still & (series.ready > 0.5))
    ready = np.rint(series.ready[still])
    before, after = still[:-1], still[1:]
    moved = ready[1:] != ready[:-1]
    ladder = np.array(_AHEAD)
    step = np.searchsorted(ladder, after - before)
    near = (after - before) * cells.resolution_ms <= _LONGEST_MS
    # How long the cells after it stay as they are: until the next one that is not so.
    same = np.append((after == before + 1) & ~moved, False)
    ends = np.flatnonzero(~same)
    lasting = ends[np.searchsorted(ends, np.arange(still.size))] - np.arange(still.size) + 1
    kept = np.flatnonzero(moved & near & (step < ladder.size))
    kept = kept[after[kept] - ladder[step[kept]] >= 0]
    most = cells.per(_AFTER_MS)
    lengths = np.unique([1, -(-most // 2), most])
    length = lengths[np.searchsorted(lengths, lasting[kept + 1], side="right") - 1]
    return Changes(after[kept], length, ladder[step[kept]])


def base_from_changes(
    series: Series, cells: Cells, rate: F64 | None = None, level: F64 | None = None
) -> BaseEstimate | None:
    """Return the base that changes of ready pods show, None where they are too few.

    The interval holds the spread over models of the demand besides the statistical error. A pod
    that starts uses more than its base, where no readiness tells it from others: where pods that
    come show another base than pods that go, the latter count.

    Args:
        series: a divisible signal.
        cells: its grid.
        rate: an exogenous rate of work (milli, total of the workload) by cell, NaN where unknown:
            it tells how the demand went on, which makes the interval narrower.
        level: what noise grows with, by cell; None: the total usage of the last 10 min.
    """
    changes = changes_of(series, cells)
    if changes.first.size < FEWEST_CHANGES:
        return None
    # Hours, so that a burst that moved the size several times counts once.
    hour = changes.first * cells.resolution_ms // _HOUR_MS
    models = [_Model(series, cells, changes, spans, rate, level) for spans in _MODELS]
    found = [model.solve(hour) for model in models]
    value, error, hours = found[0]
    if not math.isfinite(value) or not math.isfinite(error) or hours < FEWEST_HOURS:
        return None
    count, starting, leak = int(changes.first.size), None, 0.0
    others = [v for v, _, _ in found]
    rose = series.ready[changes.first] > series.ready[changes.past]
    if min(np.count_nonzero(rose), np.count_nonzero(~rose)) >= _FEWEST_GONE:
        came, went = models[0].solve(hour, rose), models[0].solve(hour, ~rose)
        if abs(came[0] - went[0]) > _APART * math.hypot(came[1], went[1]):
            value, error, hours = went
            others = [went[0], *(model.solve(hour, ~rose)[0] for model in models[1:])]
            count, starting, leak = int((~rose).sum()), came[0], _LEAKS * (came[0] - went[0])
        else:
            others.append(went[0])
    others = [v for v in others if math.isfinite(v)]
    spread = (max(others) - min(others)) / 2
    reach = t_quantile(hours - 1) * math.hypot(error, spread, leak)
    low = value - reach
    if changes.first.size > _FLAPPING * cells.count * cells.resolution_ms / _HOUR_MS:
        low = min(low, 0.0)
    return BaseEstimate(Interval(value, low, value + reach), count, hours, starting)


class _Ahead(NamedTuple):
    """Total usage, pods and rate after some cells, each shape (n,)."""

    past: I64
    total: F64
    ready: F64
    rate: F64 | None


class _Kind(NamedTuple):
    """Changes with one way from the past to the usage after: positions, they, and all cells."""

    at: I64
    changes: _Ahead
    everything: _Ahead


class _Model:
    """One model of how demand goes on, and the base that goes with it."""

    def __init__(
        self,
        series: Series,
        cells: Cells,
        changes: Changes,
        spans_ms: tuple[int, ...],
        rate: F64 | None,
        level: F64 | None,
    ) -> None:
        known = (series.ready > 0.5) & ~np.isnan(series.usage)
        total = np.where(known, series.usage * series.ready, np.nan)
        still = series.still & known
        # Noise grows with the demand: everything is divided by its level, a fact of the past.
        if level is None:
            level = past_means(total, (cells.per(_LEVEL_MS),))[:, 0]
        self.level = np.where(level > 0, level, np.nan)
        # The past also counts where pods had just come: without it, of a size that climbs step by
        # step the climb of demand would not show.
        lengths = tuple(cells.per(ms) for ms in spans_ms)
        # One stretch after the other in memory: all sums and tests go along the cells.
        self.past_total = past_means(total, lengths).T.copy()
        self.past_ready = past_means(np.where(known, series.ready, np.nan), lengths).T.copy()
        self.total = np.where(still, total, np.nan)
        self.ready = np.where(still, np.rint(series.ready), np.nan)
        self.rate = None if rate is None else np.where(still, rate, np.nan)
        self.kinds = list(self._kinds(changes))
        parts = [part.past for kind in self.kinds for part in (kind.changes, kind.everything)]
        self.used = np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))
        """The cells of whose past features are needed."""

    def _kinds(self, changes: Changes) -> Iterator[_Kind]:
        some = np.arange(0, self.total.size, 1 + self.total.size // _MOST_ROWS)
        kinds = np.unique(np.stack([changes.ahead, changes.length], axis=1), axis=0)
        for ahead, length in kinds.tolist():
            at = np.flatnonzero((changes.ahead == ahead) & (changes.length == length))
            theirs = self._ahead(changes.past[at], ahead, length)
            yield _Kind(at, theirs, self._ahead(some, ahead, length))

    def _ahead(self, past: I64, ahead: int, length: int) -> _Ahead:
        rate = None
        if self.rate is not None:
            rate = (_after(self.rate, past, ahead, length) - self.rate[past]) / self.level[past]
        total = _after(self.total, past, ahead, length)
        return _Ahead(past, total, _after(self.ready, past, ahead, length), rate)

    def solve(self, hour: I64, of: Mask | None = None) -> tuple[float, float, int]:
        """Return the base, its standard error and how many hours it rests on.

        `of` are the changes that count, shape of `hour`; None: all of them.
        """
        base, result = 0.0, (math.nan, math.nan, 0)
        for _ in range(_ROUNDS):
            parts = list(self._parts(base))
            if not parts:
                return result
            at, z, y, x = (np.concatenate(column) for column in zip(*parts, strict=True))
            kept = slice(None) if of is None else of[at]
            result = slope(z[kept], y[kept], x[kept], hour[at][kept])
            if not math.isfinite(result[0]) or abs(result[0] - base) < _CLOSE_MILLI:
                return result
            base = result[0]
        return result

    def _parts(self, base: float) -> Iterator[tuple[I64, F64, F64, F64]]:
        """Yield by kind: positions of changes, weights, what to explain, what the base is of.

        The prediction is learnt from all cells, with the work that goes with `base`.
        """
        features, unrest = self._features(base)
        width = self.past_ready.shape[0] - 1
        for kind in self.kinds:
            learnt = self._learn(features, base, kind.everything)
            if learnt is None:
                continue
            weights, variance = learnt
            past = kind.changes.past
            a, innovation = self._rows(features, base, kind.changes)
            innovation = innovation - np.einsum("ti,i->t", a, weights)
            # What the base is multiplied with in the innovation: the change, but for what the
            # prediction has seen of it.
            seen = np.diff(self.past_ready[:, past].T.copy(), axis=1)
            drift = np.einsum("ti,i->t", seen, weights[:width])
            x = (kind.changes.ready - self.past_ready[0, past] + drift) / self.level[past]
            usable = np.isfinite(innovation) & np.isfinite(x)
            x, innovation = x[usable], innovation[usable]
            z = x / (variance * unrest[np.searchsorted(self.used, past[usable])])
            yield kind.at[usable], z, innovation + base * x, x

    def _features(self, base: float) -> tuple[F64, F64]:
        """Return what is known of the past of the cells `used`, relative to the level; its unrest.

        Shapes (used, features) and (used,). Unrest is by how much the variance of what comes next
        grows with a burst: whether it ends or not is no small thing, and no prediction knows. A
        change in a burst counts that much less.
        """
        means = self.past_total - base * self.past_ready
        steps = -np.diff(means, axis=0) / self.level
        known = np.isfinite(steps).all(axis=0)
        size = np.zeros((1, 1))
        if known.any():
            size = np.array([[np.median(np.abs(step[known])) * 1.4826] for step in steps])
        steps = steps[:, self.used]
        large = np.sign(steps) * np.maximum(np.abs(steps) - _LARGE * size, 0)
        beyond = np.divide(
            large, size, out=np.zeros_like(large), where=np.isfinite(large) & (size > 0)
        )
        return np.concatenate([steps, large]).T.copy(), 1 + (beyond**2).max(axis=0)

    def _rows(self, features: F64, base: float, ahead: _Ahead) -> tuple[F64, F64]:
        """Return the features of some cells, and by how much the work went up after them."""
        past = ahead.past
        newest = self.past_total[0, past] - base * self.past_ready[0, past]
        up = (ahead.total - base * ahead.ready - newest) / self.level[past]
        found = features[np.searchsorted(self.used, past)]
        if ahead.rate is not None:
            found = np.concatenate([found, ahead.rate[:, None]], axis=1)
        return found, up

    def _learn(self, features: F64, base: float, ahead: _Ahead) -> tuple[F64, float] | None:
        a, y = self._rows(features, base, ahead)
        known = np.isfinite(y) & np.isfinite(a).all(axis=1)
        a, y = a[known], y[known]
        if y.size < 4 * a.shape[1]:
            return None
        # Not BLAS: its sums depend on the number of threads.
        square, side = np.einsum("ti,tj->ij", a, a), np.einsum("ti,t->i", a, y)
        weights = np.linalg.lstsq(square, side, rcond=None)[0]
        left = y - np.einsum("ti,i->t", a, weights)
        return weights, max(float(np.mean(left**2)), 1e-12)


def _after(values: F64, cells: I64, ahead: int, length: int) -> F64:
    """Return the mean of `length` cells, `ahead` after each; NaN where one is not known."""
    total = np.zeros(cells.size)
    for k in range(length):
        at = cells + ahead + k
        total += np.where(at < values.size, values[np.minimum(at, values.size - 1)], np.nan)
    return total / length


def base_from_rate(
    series: Series, rate_per_pod: F64, pinned: F64, cells: Cells
) -> BaseEstimate | None:
    """Return usage without work, from usage and a work rate per pod where the size was pinned.

    usage = base + c × rate, over still cells at min or max, where the controller does not answer
    what it sees. The rate is measured with noise, which would flatten the line and lift its foot;
    so the rate of the cell before stands in for it as an instrument. None for too few cells.
    """
    usage = np.where(series.still & (pinned > 0.5), series.usage, np.nan)
    y, x, z = usage[1:], rate_per_pod[1:], rate_per_pod[:-1]
    kept = np.flatnonzero(np.isfinite(y) & np.isfinite(x) & np.isfinite(z))
    hour = kept * cells.resolution_ms // _HOUR_MS
    hours = np.unique(hour).size
    if hours < FEWEST_HOURS or kept.size < 20 * FEWEST_HOURS:
        return None
    y, x, z = y[kept], x[kept], z[kept]
    off = z - z.mean()
    if not (off * x).sum() > 0:
        return None
    # The line through the means; its foot's weights are those of base in the sample's moments.
    inclination = (off * y).sum() / (off * x).sum()
    value = float(y.mean() - inclination * x.mean())
    weight = 1 / y.size - off * x.mean() / (off * x).sum()
    left = y - value - inclination * x
    _, place = np.unique(hour, return_inverse=True)
    scores = np.bincount(place, weights=weight * left)
    error = math.sqrt(float((scores**2).sum()) * hours / (hours - 1))
    reach = t_quantile(hours - 1) * error
    return BaseEstimate(Interval(value, value - reach, value + reach), int(kept.size), hours)


def highest_base(series: Series, cells: Cells) -> float | None:
    """Return the lowest usage per pod that lasted SUSTAINED_MS: no base can be above it."""
    usage = np.where(series.still & (series.ready > 0.5), series.usage, np.nan)
    means = rolling_mean(usage, cells.per(SUSTAINED_MS))
    return float(np.nanmin(means)) if np.isfinite(means).any() else None
