"""Estimation of an HPA's effective sync period and phase from recorded times.

Upstream's queue re-adds an HPA one sync period after a sync ended, so the effective period is that
period plus the time that a sync takes, and each HPA has its own phase. Nobody records syncs; a
recording shows only those that changed something: a rewritten status, an answered metric, a
written scale, each seen a little after the sync. The instants of one HPA are a sparse subset of

    anchor + k * period + delay,    delay >= 0, small

The period is where the instants' angles on a circle of that circumference agree best (the peak of
their mean vector's length over candidate periods), the phase is the mode of what remains: the mode,
not the mean, because delays are one-sided.

What this cannot see: a recorder that polls every n-th period shows its own rhythm, and so does a
metric scraped in step with the syncs; a controller without a free worker syncs later than its
period says. `spread_ms` tells how well the grid fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.layout.records import I64

F64: TypeAlias = NDArray[np.float64]

KEY: Final = ("cluster", "namespace", "hpa")

SEARCH: Final = 0.04
"""Range around the hint in which a period is searched, as a share of the hint."""

MIN_INSTANTS: Final = 4  # fewer say nothing about a phase
MIN_PERIOD_INSTANTS: Final = 8  # fewer say nothing about a period, whatever their angles
# Length of the mean vector. A jump of the phase half-way, taken for another period, reaches 0.8;
# delays of a tenth of the period (their mean) leave 0.85, of a sixth 0.7.
GOOD_CONCENTRATION: Final = 0.85
MIN_CONCENTRATION: Final = 0.7
CLEARER: Final = 0.15  # a part must be as much clearer than the longest part with a faint rhythm
CHANCE: Final = 1e-3  # how often instants without any period may look as if they had one
MERGE_SHARE: Final = 1 / 8  # instants closer than this part of the period are one sync
NEARER_IS_LIKELIER: Final = 0.05  # of equal peaks (a long stride has several) the nearest counts
BIN_PERIODS: Final = 4  # the outermost candidate loses 4 % of its height to such bins
OVERSAMPLE: Final = 4
MOST_BINS: Final = 1 << 18  # half a year at 15 s; older instants are left out
ROUNDS: Final = 5


class SyncEstimate(NamedTuple):
    """A grid of syncs, in ms: `anchor_ms + k * period_ms` for whole k.

    `phase_ms` is the anchor modulo the period; it goes with exactly that period, so whoever rounds
    the period takes the anchor. `support` instants lie around the grid, half of them within
    `spread_ms`. `estimated` says whether the period is, or else the hint.
    """

    period_ms: float
    phase_ms: float
    support: int
    spread_ms: float
    anchor_ms: int
    estimated: bool


def estimate_sync(times_ms: I64, period_hint_ms: int) -> SyncEstimate | None:
    """Return the period and phase that instants of one HPA show, None for fewer than MIN_INSTANTS.

    Without a clear rhythm over the whole time (the phase walks with every sync, and a restarted
    controller begins anew) the latest half is tried, and its latest half; then the longest part
    with a faint one counts. Where none has any, or there are too few to tell, the period is the
    hint and the phase the instants' circular mode.

    Args:
        times_ms: when something was seen, in ms since 1970, any order and number.
        period_hint_ms: the configured period, at least 1.
    """
    instants = _distinct_syncs(times_ms, period_hint_ms)
    if instants.size < MIN_INSTANTS:
        return None
    part = instants[instants >= instants[-1] - MOST_BINS * BIN_PERIODS * period_hint_ms]
    faint: tuple[I64, float] | None = None
    enough = GOOD_CONCENTRATION
    while part.size >= MIN_PERIOD_INSTANTS:
        t = (part - part[0]).astype(np.float64)
        period, concentration = _rhythm(t, float(period_hint_ms))
        if concentration >= enough:
            return _estimate(part, period, estimated=True)
        if faint is None and concentration >= MIN_CONCENTRATION:
            faint, enough = (part, period), max(enough, concentration + CLEARER)
        part = part[part > (part[0] + part[-1]) // 2]
    if faint is not None:
        return _estimate(*faint, estimated=True)
    return _estimate(instants, float(period_hint_ms), estimated=False)


def sync_ticks(estimate: SyncEstimate, first_ms: int, last_ms: int) -> I64:
    """Return the instants of sync within [first, last], rounded to ms, ascending."""
    first = math.floor((first_ms - estimate.anchor_ms) / estimate.period_ms)
    last = math.ceil((last_ms - estimate.anchor_ms) / estimate.period_ms)
    steps = np.rint(np.arange(first, last + 1) * estimate.period_ms).astype(np.int64)
    ticks = estimate.anchor_ms + steps
    return np.asarray(ticks[(ticks >= first_ms) & (ticks <= last_ms)], np.int64)


def _distinct_syncs(times_ms: I64, period_ms: int) -> I64:
    """Return ascending instants, the first of each group that one sync left behind."""
    ordered = np.unique(np.asarray(times_ms, np.int64))
    apart = np.diff(ordered, prepend=np.iinfo(np.int64).min // 2) > period_ms * MERGE_SHARE
    return np.asarray(ordered[apart])


def _rhythm(t: F64, hint: float) -> tuple[float, float]:
    """Return the period of instants that begin at 0 and its concentration, 0 for none at all."""
    period, candidates = _peak(t, hint)
    period = _refine(t, period)
    # Rayleigh: without a rhythm, n R² exceeds z with a chance of exp(-z) per candidate.
    concentration = float(np.abs(_mean_vector(t, period)))
    by_chance = t.size * concentration**2 < math.log(candidates / CHANCE)
    if by_chance or abs(period / hint - 1) > SEARCH:
        return hint, 0.0
    return period, concentration


def _peak(t: F64, hint: float) -> tuple[float, float]:
    """Return the candidate with the longest mean vector, and how many independent ones there are.

    Turned by the hint's frequency the interesting band is narrow, so that bins of several periods
    and one FFT show it: a week at 15 s takes 1 ms, where a scan takes seconds.
    """
    width = BIN_PERIODS * hint
    vectors = np.exp(-2j * np.pi * (t / hint))
    bins = (t // width).astype(np.int64)
    summed = np.bincount(bins, vectors.real) + 1j * np.bincount(bins, vectors.imag)
    size = 1 << max(OVERSAMPLE * summed.size - 1, 255).bit_length()
    offset = np.fft.fftfreq(size, width) * hint
    near = np.flatnonzero((offset > -1 / 8) & (offset < 1 / 8))
    distance = np.abs(1 / (1 + offset[near]) - 1) / SEARCH
    near, distance = near[distance <= 1], distance[distance <= 1]
    height = np.abs(np.fft.fft(summed, size)[near]) * (1 - NEARER_IS_LIKELIER * distance)
    candidates = max(1.0, near.size * summed.size / size)
    return hint / (1 + float(offset[near[np.argmax(height)]])), candidates


def _mean_vector(t: F64, period: float) -> complex:
    return complex(np.mean(np.exp(2j * np.pi * (t / period))))


def _refine(t: F64, period: float) -> float:
    """Return the slope of the instants over their cycles; far ones are left out."""
    for _ in range(ROUNDS):
        cycle, rest = _cycles(t, period)
        near = np.abs(rest) < period / 4
        n = cycle[near] - cycle[near].mean() if near.any() else cycle[near]
        weight = float(n @ n)
        if weight == 0:
            break
        slope = float(n @ t[near]) / weight
        if slope <= 0 or abs(slope - period) < 1e-9 * period:
            break
        period = slope
    return period


def _cycles(t: F64, period: float) -> tuple[F64, F64]:
    """Return each instant's cycle and its distance from the cycle's mean instant, ±period/2."""
    origin = float(np.angle(_mean_vector(t, period))) / (2 * np.pi) * period
    cycle = np.rint((t - origin) / period)
    return cycle, t - origin - cycle * period


def _estimate(instants: I64, period: float, *, estimated: bool) -> SyncEstimate:
    """Return the grid of a known period: its phase is the mode, counted from the emptiest arc."""
    # Float cycles from 1970 on would cost 0.2 µs of phase; from an instant amid them they do not.
    middle = int(instants[instants.size // 2])
    angle = np.sort(np.mod((instants - middle).astype(np.float64), period))
    gap = np.diff(angle, append=angle[0] + period)
    cut = int(np.argmax(gap)) + 1
    line = np.concatenate([angle[cut:], angle[:cut] + period])
    mode = _half_sample_mode(line)
    anchor_ms = middle + round(mode - period * round(mode / period))
    rest = np.mod(line - mode + period / 2, period) - period / 2
    return SyncEstimate(
        period_ms=period,
        phase_ms=anchor_ms % period,
        support=int(instants.size),
        spread_ms=float(np.median(np.abs(rest))),
        anchor_ms=anchor_ms,
        estimated=estimated,
    )


def _half_sample_mode(ordered: F64) -> float:
    """Return the mode: the densest half of the densest half of … of ascending values."""
    while ordered.size > 3:
        half = (ordered.size + 1) // 2
        width = ordered[half - 1 :] - ordered[: ordered.size - half + 1]
        first = int(np.argmin(width))
        ordered = ordered[first : first + half]
    if ordered.size == 3:
        left, right = np.diff(ordered)
        ordered = ordered[1:] if right < left else ordered[:2]
    return float(ordered.mean())


def estimate_fleet(
    hpa_status: pl.DataFrame,
    metric_fetches: pl.DataFrame,
    scales: pl.DataFrame,
    candidates: pl.DataFrame,
    period_hint_ms: int,
) -> list[SyncEstimate | None]:
    """Return the estimate of each candidate, in their order; None: too few instants.

    A status or a scale counts where it changed; its first row only says that recording began. A
    target's scale counts if one HPA only scales it.

    Args:
        hpa_status, metric_fetches, scales: the history's tables (see history.schema), any of them
            empty; of hpa_status a few columns suffice, but rows that repeat are then not seen.
        candidates: cluster, namespace, hpa, target_kind and target.
        period_hint_ms: the configured period, at least 1.
    """
    keys = candidates.select(pl.col(*KEY, "target_kind", "target").cast(pl.String))
    numbered = keys.with_row_index("row")
    parts = [
        _seen(_changes(hpa_status, ["cluster", "namespace", "name"]), numbered),
        _seen(metric_fetches, numbered),
        _scaled(scales, numbered),
    ]
    instants = pl.concat(parts).unique().sort("row", "ts")
    times_ms = instants["ts"].to_physical().to_numpy().astype(np.int64)
    bounds = np.searchsorted(instants["row"].to_numpy(), np.arange(keys.height + 1))
    return [estimate_sync(times_ms[a:b], period_hint_ms) for a, b in pairwise(bounds.tolist())]


def _changes(frame: pl.DataFrame, owner: Sequence[str]) -> pl.DataFrame:
    """Return the rows that follow one of the same owner and differ from it in more than `ts`."""
    said = [name for name in frame.columns if name not in (*owner, "ts")]
    ordered = frame.sort(*owner, "ts", maintain_order=True)
    same_owner = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).shift(1)) for c in owner)
    rows = pl.int_range(pl.len()) > 0
    differs = pl.any_horizontal(pl.col(c).ne_missing(pl.col(c).shift(1)) for c in said)
    return ordered.filter(rows & same_owner & (differs if said else pl.lit(value=True)))


def _seen(frame: pl.DataFrame, numbered: pl.DataFrame) -> pl.DataFrame:
    rows = frame.select(pl.col("cluster", "namespace", "name").cast(pl.String), "ts")
    joined = rows.join(
        numbered, left_on=["cluster", "namespace", "name"], right_on=KEY, how="inner"
    )
    return joined.select("row", "ts")


def _scaled(scales: pl.DataFrame, numbered: pl.DataFrame) -> pl.DataFrame:
    """Return when the spec's size of a candidate's own target changed; status follows later."""
    target = ["cluster", "namespace", "target_kind", "target"]
    alone = numbered.filter(pl.len().over(target) == 1)
    rows = scales.select(pl.col(target).cast(pl.String), "ts", "spec_replicas")
    return _changes(rows, target).join(alone, on=target, how="inner").select("row", "ts")
