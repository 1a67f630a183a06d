"""The fit of one signal, by its kind: exogenous totals, queues, memory; cpu and rates in `work`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from hpabatch.engine.fit.kinds import OF_TOTALS
from hpabatch.engine.fit.measured import (
    Measured,
    SignalFit,
    ceiling_of,
    kind_facts,
    observed_of,
    request_of,
    work_fact,
)
from hpabatch.engine.fit.overrides import unit_of
from hpabatch.engine.fit.pipeline import api_of
from hpabatch.engine.fit.pods import FEWEST_PODS, FEWEST_SAMPLES
from hpabatch.engine.fit.series import filled, gaps_of
from hpabatch.engine.fit.stats import F64, Interval, median_interval
from hpabatch.engine.fit.usage import SignalUsage
from hpabatch.engine.fit.usage_pods import Lives
from hpabatch.engine.fit.work import fit_work
from hpabatch.engine.fit.workload import FITTED, GUESSED, NOT_IDENTIFIED, OPEN, Fact
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.model.plant import AGE, BACKLOG, Signal

GROWING_MS: Final = 1_800_000  # pods with samples over less time say nothing about growth

_HOUR_MS: Final = 3_600_000


def fit_signal(measured: Measured, others: Mapping[str, Measured]) -> SignalFit:
    """Return the fit of one signal; `others` are all of the workload, for their work rates."""
    if measured.kind in OF_TOTALS:
        return fit_total(measured)
    if measured.kind == AGE:
        return fit_age(measured)
    return fit_work(measured, others)


# ---- Object and External metrics -----------------------------------------------------------------


def fit_total(m: Measured) -> SignalFit:
    """Return the fit of an Object or External metric: its series is the work, or what is left."""
    facts = list(kind_facts(m))
    rate, raw = 0, m.series.usage
    if m.kind == BACKLOG:
        rate, of_rate = _rate(m)
        raw, idle = _arrivals(m, rate)
        note = "of the cells the queue stayed empty: arrivals are no more than the pods could do"
        of_idle = Fact(f"signals.{m.name}.idle", idle, "", None, None, FITTED, note)
        facts = [f for f in facts if f.name != of_rate.name]
        facts += [of_rate, of_idle]
    work = np.rint(np.maximum(filled(raw), 0.0)).astype(np.int64)
    return SignalFit(
        signal=Signal(kind=m.kind, api=api_of(m.signal), rate_milli=rate),
        work=work,
        censored=np.zeros(m.cells.count, bool),
        gaps=gaps_of(m.series, m.signal, m.cells),
        facts=(*facts, work_fact(m, work)),
        work_share=1.0,
    )


def _rate(m: Measured) -> tuple[int, Fact]:
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
        censored=np.zeros(m.cells.count, bool),
        gaps=gaps_of(m.series, m.signal, m.cells),
        facts=(*kind_facts(m), of_base, of_growth, of_ceiling, *of_request, of_observed),
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
