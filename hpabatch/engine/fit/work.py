"""The fit of cpu and of rates per pod: base, ceiling, start-up usage and work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from hpabatch.engine.fit.base import (
    NEAR_SHARE,
    WIDEST_SHARE,
    BaseEstimate,
    base_from_changes,
    base_from_rate,
    highest_base,
)
from hpabatch.engine.fit.measured import (
    Measured,
    SignalFit,
    ceiling_of,
    censored_at,
    kind_facts,
    levels_of,
    observed_of,
    request_of,
    work_fact,
)
from hpabatch.engine.fit.overrides import amount_of
from hpabatch.engine.fit.pipeline import api_of
from hpabatch.engine.fit.series import filled, gaps_of
from hpabatch.engine.fit.stats import F64, Interval, Mask
from hpabatch.engine.fit.workload import ASSUMED, BASE_TAKEN, FITTED, NOT_IDENTIFIED, Fact
from hpabatch.model.plant import DIVISIBLE, PER_POD, TOTAL, Signal

MODEL_SHARE: Final = 0.03
"""Of the mean usage per pod: no model of the demand is nearer than that, so no base is either."""
EASY_SHARE: Final = 0.25
"""Share of its request up to which any pod does what it is asked, though none was seen to."""


def fit_work(m: Measured, others: Mapping[str, Measured]) -> SignalFit:
    """Return the fit of a divisible or per-pod signal; `others` may hold rates of its work."""
    usage = m.series.usage
    ceiling, of_ceiling = ceiling_of(m)
    censored = censored_at(m, ceiling)
    base, of_base, starting = _base(m, others, censored)
    startup, of_startup = _startup(m, base, starting)
    observed, of_observed = observed_of(m)
    request, of_request = request_of(m)
    if request is not None and m.kind == DIVISIBLE:
        observed = observed[0], max(observed[1], round(EASY_SHARE * request))
    levels, of_highest = levels_of(m, request)
    raw = np.maximum(usage - base, 0.0)
    raw = raw * m.series.ready if m.kind == DIVISIBLE else raw
    work = np.rint(filled(raw)).astype(np.int64)
    mean = float(np.nanmean(usage))
    share = float(np.isfinite(usage[censored]).sum() / np.isfinite(usage).sum())
    told = "of the cells with samples: usage was at the ceiling, so work there is a lower bound"
    of_censored = Fact(f"signals.{m.name}.censored", share, "", None, None, FITTED, told)
    facts = (*kind_facts(m), of_base, of_ceiling, of_startup, *of_request, of_observed)
    if ceiling is None:
        facts += (of_highest,)
    return SignalFit(
        signal=Signal(
            kind=m.kind,
            api=api_of(m.signal),
            base_milli=base,
            ceiling_milli=ceiling,
            startup_milli=startup,
            request_milli=request,
            observed_milli=observed,
            levels_milli=levels if ceiling is None and m.kind == DIVISIBLE else (),
        ),
        work=work,
        censored=censored,
        gaps=gaps_of(m.series, m.signal, m.cells),
        facts=(*facts, work_fact(m, work), of_censored),
        work_share=max(mean - base, 0.0) / mean if mean > 0 else 1.0,
        problem=_below_ceiling(m, base, ceiling),
    )


def _below_ceiling(m: Measured, base: int, ceiling: int | None) -> str:
    if ceiling is None or base < ceiling:
        return ""
    return (
        f"{m.name}: a base of {amount_of(m.name, base)} leaves no room for work below the ceiling "
        f"of {amount_of(m.name, ceiling)}; state a lower base or a higher ceiling in the plant file"
    )


def _base(
    m: Measured, others: Mapping[str, Measured], limited: Mask
) -> tuple[int, Fact, float | None]:
    """Return the base, 0 where it is not identified, the fact, and what starting pods use (milli).

    The last is None where pods that come show the same base as pods that go.
    Cells that are `limited` tell nothing: where work is cut off a further pod brings more of it.
    """
    if m.stated.base_milli is not None:
        return (*m.given("base", m.stated.base_milli), None)
    if m.kind == PER_POD:
        note = "usage does not depend on the number of pods, so nothing tells base from work"
        return 0, m.fact("base", 0.0, ASSUMED, note), None
    m = replace(m, series=replace(m.series, still=m.series.still & ~limited))
    bound = highest_base(m.series, m.cells)
    mean = float(np.nanmean(m.series.usage))
    estimate, how = _best_estimate(m, others)
    starting = None if estimate is None else estimate.starting
    found, why, contradicted = _judged(m.name, estimate, how, bound, mean)
    if found is None and not contradicted and bound is not None and bound / 2 <= NEAR_SHARE * mean:
        # Whatever it is, it is so small that half of it is near enough.
        found = Interval(bound / 2, 0.0, bound)
        why = "half of the lowest usage that lasted 10 min: no base can be above that"
    if found is None:
        note = f"{'plant not identified' if contradicted else BASE_TAKEN}: {why}"
        return 0, m.fact("base", 0.0, NOT_IDENTIFIED, note, (0.0, bound)), starting
    fact = m.fact("base", found.value, FITTED, why, (found.low, found.high))
    return round(found.value), fact, starting


def _judged(
    name: str, estimate: BaseEstimate | None, how: str, bound: float | None, mean: float
) -> tuple[Interval | None, str, bool]:
    """Return the estimate within what a base can be, and how it was found, or None and why not.

    And whether no base at all explains what was seen.
    """
    if estimate is None:
        return None, how, False
    value, low, high = estimate.interval
    value_of, low_of, high_of = (amount_of(name, milli) for milli in (value, low, high))
    told = f"({how}: base usage {value_of}, 95 % interval {low_of} to {high_of})"
    if (high - low) / 2 > WIDEST_SHARE * mean:
        return None, f"the interval is too wide {told}", False
    low, high = low - MODEL_SHARE * mean, high + MODEL_SHARE * mean
    most = high if bound is None else min(high, bound)
    least = max(low, 0.0)
    if most < least:
        return None, f"usage did not change with the pods as divisible work does {told}", True
    return Interval(min(max(value, least), most), least, most), how, False


def _best_estimate(m: Measured, others: Mapping[str, Measured]) -> tuple[BaseEstimate | None, str]:
    """Return the narrowest estimate there is, and in words how it was found, or why there is none.

    Whether a rate of work beside the signal helps is seen by the interval.
    """
    found: list[tuple[BaseEstimate, str]] = []
    alone = base_from_changes(m.series, m.cells)
    if alone is not None:
        found.append((alone, _changes_told(alone)))
    for name, other in others.items():
        if name == m.name or not _is_rate(other) or _is_rate(m):
            continue
        total, per_pod = _rate(other)
        near = base_from_changes(m.series, m.cells, total)
        if near is not None:
            found.append((near, f"{_changes_told(near)}, beside {name}"))
        pinned = base_from_rate(m.series, per_pod, _pinned(m), m.cells)
        if pinned is not None:
            told = f"usage against {name}, {pinned.hours} hours at min or max"
            found.append((pinned, told))
    if not found:
        return None, "too few changes of ready pods with usage just before and after them"
    return min(found, key=lambda pair: pair[0].interval.high - pair[0].interval.low)


def _changes_told(found: BaseEstimate) -> str:
    told = f"{found.changes} changes of ready pods in {found.hours} hours"
    if found.starting is None:
        return told
    return f"{told}: pods that went alone, as those that come show another usage"


def _is_rate(m: Measured) -> bool:
    """Return whether a signal is work itself, such as requests per second.

    A Pods metric is divisible if it is a rate by its name, or if it is stated to be.
    """
    return m.kind == TOTAL or (m.kind == DIVISIBLE and m.signal.metric.pods is not None)


def _rate(m: Measured) -> tuple[F64, F64]:
    """Return a work rate by cell: of the workload, and per ready pod."""
    if m.kind == TOTAL:
        ready = m.usage.lives.ready_at(m.cells.middles_ms)
        per_pod = np.where(ready > 0, m.series.usage / np.maximum(ready, 1), np.nan)
        return m.series.usage, per_pod
    return m.series.usage * m.series.ready, m.series.usage


def _pinned(m: Measured) -> F64:
    """Return by cell whether (1) the recorded size was at min or max at all of its ticks."""
    usage = m.usage
    specs = [p.spec for p in usage.candidate.periods]
    least = np.array([s.min_replicas or 1 for s in specs] + [-2])[usage.period]
    most = np.array([s.max_replicas for s in specs] + [-2])[usage.period]
    at = ((usage.replicas == least) | (usage.replicas == most)) & (usage.period >= 0)
    place = m.cells.of(usage.now_ms.astype(np.float64))
    inside = (place >= 0) & (place < m.cells.count)
    ticks = np.bincount(place[inside], minlength=m.cells.count)
    held = np.bincount(place[inside], weights=at[inside], minlength=m.cells.count)
    return np.asarray(held == ticks, np.float64)


def _startup(m: Measured, base: int, shown: float | None) -> tuple[int, Fact]:
    """Return the usage of a pod that starts, and the fact; `shown` by changes of ready pods."""
    if m.stated.startup_milli is not None:
        return m.given("startup", m.stated.startup_milli)
    starting, total = m.signal.starting, m.signal.starting_milli
    seen = starting > 0
    # (no pod starts with more than any pod was seen to use)
    if not seen.any() and shown is not None and base < shown <= float(np.nanmax(m.series.most)):
        note = "changes of ready pods: as soon as they count as ready, so readiness comes too early"
        return round(shown), m.fact("startup", shown, FITTED, note)
    if not seen.any():
        note = "no sample of a pod that was not ready: taken to be the base"
        return base, m.fact("startup", base, ASSUMED, note)
    mean = float(total[seen].sum() / starting[seen].sum())
    low, high = (float(np.quantile(total[seen] / starting[seen], q)) for q in (0.05, 0.95))
    note = f"mean of {int(starting.sum())} samples before readiness; 5 % and 95 %"
    return round(mean), m.fact("startup", mean, FITTED, note, (low, high))
