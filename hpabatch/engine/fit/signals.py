"""Signals of a workload, fitted by their kind: work, totals, queues, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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
from hpabatch.engine.fit.kinds import OF_TOTALS
from hpabatch.engine.fit.measured import (
    AT_CEILING,
    OBSERVED,
    Measured,
    ceiling_of,
    levels_of,
    observed_of,
    request_of,
)
from hpabatch.engine.fit.overrides import amount_of, unit_of
from hpabatch.engine.fit.pipeline import api_of
from hpabatch.engine.fit.pods import FEWEST_PODS, FEWEST_SAMPLES
from hpabatch.engine.fit.stats import F64, Interval, Mask, median_interval
from hpabatch.engine.fit.usage import (
    MINUTE_MS,
    Lives,
    SignalUsage,
    filled,
    minute_means,
)
from hpabatch.engine.fit.workload import (
    ASSUMED,
    BASE_TAKEN,
    FITTED,
    GIVEN,
    GUESSED,
    NOT_IDENTIFIED,
    OPEN,
    Fact,
)
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.layout.records import I64
from hpabatch.model.plant import AGE, BACKLOG, DIVISIBLE, PER_POD, TOTAL, Signal


@dataclass(frozen=True, slots=True)
class SignalFit:
    """A fitted signal: its parameters, its work by cell, and where that is only a lower bound.

    `work` is None of a signal that does not depend on work; `censored` None: no cell of it is a
    lower bound. `work_share` is how much of the usage is work. `problem` says why it cannot be
    simulated.
    """

    signal: Signal
    work: I64 | None
    facts: tuple[Fact, ...]
    work_share: float
    censored: Mask | None = None
    problem: str = ""


def kind_facts(m: Measured) -> tuple[Fact, ...]:
    """Return the kind of a signal as a fact, and what the data show of it."""
    kind = Fact(f"signals.{m.name}.kind", None, "", None, None, m.known.source, m.kind)
    return (kind, *m.known.facts)


def work_fact(m: Measured, work: I64) -> Fact:
    """Return the mean of a work series, and its range but for the extremes, as a fact."""
    whose = {PER_POD: "mean per pod", BACKLOG: "mean arrivals per second"}
    note = f"{whose.get(m.kind, 'mean of all pods together')}; 0.5 % and 99.5 %"
    low, high = (float(np.quantile(work, q)) for q in OBSERVED)
    per = "/s" if m.kind == BACKLOG else ""
    return m.fact("work", float(work.mean()), FITTED, note, (low, high), per)


def censored_at(m: Measured, ceiling: int | None) -> Mask:
    """Return the cells of minutes in which the highest pod was at its ceiling, if it has one."""
    if ceiling is None:
        return np.zeros(m.cells.count, bool)
    at = minute_means(m.series.most, m.cells) >= AT_CEILING * ceiling
    return np.repeat(at, m.cells.per(MINUTE_MS))[: m.cells.count]


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
    facts = (of_base, of_ceiling, of_startup, *of_request, of_observed)
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


GROWING_MS: Final = 1_800_000  # pods with samples over less time say nothing about growth

_HOUR_MS: Final = 3_600_000


def fit_signal(measured: Measured, others: Mapping[str, Measured]) -> SignalFit:
    """Return the fit of one signal, with its kind and lens as facts.

    `others` are all of the workload, for their work rates.
    """
    if measured.kind in OF_TOTALS:
        found = fit_total(measured)
    elif measured.kind == AGE:
        found = fit_age(measured)
    else:
        found = fit_work(measured, others)
    own = {fact.name for fact in found.facts}
    facts = [fact for fact in kind_facts(measured) if fact.name not in own]
    return replace(
        found,
        signal=replace(found.signal, sight=measured.lens.sight),
        facts=(*facts, *found.facts, *_lens_facts(measured)),
    )


def _lens_facts(m: Measured) -> Iterator[Fact]:
    """Yield how the controller saw the signal; the plant stays in recorded units."""
    lens, source = m.lens, GIVEN if m.lens.place else FITTED

    def fact(what: str, value: float, unit: str, note: str) -> Fact:
        return Fact(f"signals.{m.name}.lens.{what}", value, unit, None, None, source, note)

    if lens.lag_ms > 0:
        yield fact("lag", lens.lag_ms / 1000, "s", "seen so much later, beside the pipeline's lag")
    if lens.lag_ms < 0:
        note = "recorded late: usage was so much earlier, and is seen with the pipeline's lag alone"
        yield fact("lag", lens.lag_ms / 1000, "s", note)
    if lens.smoothing_ms:
        note = "seen as the mean of the samples over so long"
        yield fact("smoothing", lens.smoothing_ms / 1000, "s", note)
    if lens.scale != 1:
        yield fact("scale", lens.scale, "", "seen times this; the plant is as recorded")


# ---- Object and External metrics -----------------------------------------------------------------


def fit_total(m: Measured) -> SignalFit:
    """Return the fit of an Object or External metric: its series is the work, or what is left."""
    facts: tuple[Fact, ...] = ()
    rate, raw = 0, m.series.usage
    if m.kind == BACKLOG:
        rate, of_rate = _backlog_rate(m)
        raw, idle = _arrivals(m, rate)
        note = "of the cells the queue stayed empty: arrivals are no more than the pods could do"
        of_idle = Fact(f"signals.{m.name}.idle", idle, "", None, None, FITTED, note)
        facts = (of_rate, of_idle)
    work = np.rint(np.maximum(filled(raw), 0.0)).astype(np.int64)
    return SignalFit(
        signal=Signal(kind=m.kind, api=api_of(m.signal), rate_milli=rate),
        work=work,
        facts=(*facts, work_fact(m, work)),
        work_share=1.0,
    )


def _backlog_rate(m: Measured) -> tuple[int, Fact]:
    """Return what one pod takes out of a backlog per second: stated, shown by the data, guessed."""
    if m.stated.rate_milli:
        return m.given("rate", m.stated.rate_milli, "/s")
    rate = m.known.rate_milli or 0
    shown = next((f for f in m.known.facts if f.name == f"signals.{m.name}.rate"), None)
    if shown is not None:
        return rate, shown
    note = "how fast it fell per pod, all but 1 % of the time: no pod takes less"
    return rate, m.fact("rate", rate, GUESSED, note, per="/s")


def _arrivals(m: Measured, rate: int) -> tuple[F64, float]:
    """Return what arrived per second in each cell (milli), and how often the queue stayed empty.

    arrivals = growth of the queue + pods × rate, as long as there is work. Where the queue was
    empty at both ends of a cell, only an upper bound is known: straight lines below it.
    """
    queue, cells = filled(m.series.usage), m.cells
    served = m.usage.lives.ready_at(cells.middles_ms) * float(rate)
    grown = np.append(np.diff(queue), 0.0) * 1000 / cells.resolution_ms
    after = np.append(queue[1:], queue[-1:])
    idle = (queue <= 0) & (after <= 0)
    arrived = np.where(idle, np.nan, np.maximum(grown + served, 0.0))
    known = np.isfinite(arrived)
    through = np.minimum(filled(arrived), served) if known.any() else np.zeros(cells.count)
    return np.where(idle, through, arrived), float(idle.mean())


# ---- memory: a base, and growth with the age of a pod --------------------------------------------


def fit_age(m: Measured) -> SignalFit:
    """Return the fit of a signal that depends on the age of pods alone, such as memory."""
    at_zero, growth, pods = growth_of(m.signal, m.usage.lives)
    base, of_base = _age_base(m, at_zero, pods)
    per_hour, of_growth = _growth(m, growth)
    ceiling, of_ceiling = _age_ceiling(m, base, per_hour)
    observed, of_observed = observed_of(m)
    request, of_request = request_of(m)
    return SignalFit(
        signal=Signal(
            kind=AGE,
            api=api_of(m.signal),
            base_milli=base,
            ceiling_milli=ceiling,
            growth_milli_per_hour=per_hour,
            request_milli=request,
            unit_milli=1000 if unit_of(m.name) == "bytes" else 1,
            observed_milli=observed,
        ),
        work=None,
        facts=(of_base, of_growth, of_ceiling, *of_request, of_observed),
        work_share=0.0,
    )


def _age_base(m: Measured, found: Interval | None, pods: int) -> tuple[int, Fact]:
    if m.stated.base_milli is not None:
        return m.given("base", m.stated.base_milli)
    if found is None:
        mean = float(np.nanmean(m.series.usage))
        return round(mean), m.fact("base", mean, FITTED, "mean usage: no pod's age is known")
    base, ends = max(round(found.value), 0), (max(found.low, 0.0), max(found.high, 0.0))
    note = f"usage at the pod's start, median of {pods} pods"
    return base, m.fact("base", base, FITTED, note, ends)


def _growth(m: Measured, found: Interval | None) -> tuple[int, Fact]:
    if m.stated.growth_milli_per_hour is not None:
        return m.given("growth", m.stated.growth_milli_per_hour, "/h")
    if found is None:
        note = "too few pods were watched for half an hour"
        return 0, m.fact("growth", 0.0, NOT_IDENTIFIED, note, per="/h")
    ends = found.low, found.high
    if found.low <= 0:
        note = "pods do not clearly grow with age" if found.high > 0 else "pods shrink with age"
        return 0, m.fact("growth", 0.0, NOT_IDENTIFIED, note, ends, "/h")
    growth = round(found.value)
    return growth, m.fact("growth", growth, FITTED, "median of the pods' own slopes", ends, "/h")


def _age_ceiling(m: Measured, base: int, growth: int) -> tuple[int | None, Fact]:
    """Return the ceiling; where none is known a pod that grows stops at the most that was seen."""
    ceiling, of_ceiling = ceiling_of(m)
    if of_ceiling.source != OPEN or growth == 0:
        return ceiling, of_ceiling
    # (a cache that is full; or a leak, of which nobody knows what it does beyond)
    most = max(round(float(np.nanmax(m.series.most))), base)
    return most, m.fact("ceiling", most, FITTED, "highest usage seen; growth ends there")


def growth_of(signal: SignalUsage, lives: Lives) -> tuple[Interval | None, Interval | None, int]:
    """Return what a pod uses at age 0 and by how much it grows per hour, milli, and of how many.

    Each pod with samples over GROWING_MS has a straight line; the medians over pods are robust
    against some that leak or restart. The growth is None for fewer than FEWEST_PODS, the base
    without any pod.
    """
    pods, started = signal.pods, lives.started_ms
    seen = (pods.settled > 0) & (started < NEVER_MS)
    long = seen & (pods.settled >= FEWEST_SAMPLES) & (pods.last_ms - pods.from_ms >= GROWING_MS)
    growth = None
    if int(long.sum()) >= FEWEST_PODS:
        p = pods[long]
        steep = (p.age_above - p.age_h * p.above / p.settled) / (p.age_age - p.age_h**2 / p.settled)
        growth = median_interval(steep)
    if not seen.any():
        return None, growth, 0
    p = pods[seen]
    per_hour = growth.value if growth is not None and growth.low > 0 else 0.0
    age_h = p.age_h / p.settled + (p.from_ms - started[seen]) / _HOUR_MS
    at_zero = p.from_milli + p.above / p.settled - per_hour * age_h
    if p.size < FEWEST_PODS:
        middle = float(np.median(at_zero))
        return Interval(middle, float(at_zero.min()), float(at_zero.max())), growth, p.size
    return median_interval(at_zero), growth, int(p.size)
