"""The fit of memory: a base, and growth with the age of a pod."""

from __future__ import annotations

from typing import Final

import numpy as np

from hpabatch.engine.fit.ceiling import ceiling_of, limits_of, observed_of, request_of
from hpabatch.engine.fit.measured import (
    Measured,
    SignalFit,
    kind_fact,
)
from hpabatch.engine.fit.overrides import unit_of
from hpabatch.engine.fit.pipeline import api_of
from hpabatch.engine.fit.pods import FEWEST_PODS, FEWEST_SAMPLES
from hpabatch.engine.fit.series import (
    gaps_of,
)
from hpabatch.engine.fit.stats import Interval, median_interval
from hpabatch.engine.fit.usage import SignalUsage
from hpabatch.engine.fit.usage_pods import Lives
from hpabatch.engine.fit.workload import FITTED, GIVEN, NOT_IDENTIFIED, RECORDED, Fact
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.model.plant import AGE, Signal

GROWING_MS: Final = 1_800_000  # pods with samples over less time say nothing about growth

_HOUR_MS: Final = 3_600_000


def fit_age(m: Measured) -> SignalFit:
    """Return the fit of a signal that hangs on the age of pods alone, such as memory."""
    unit = unit_of(m.name)
    at_zero, growth, pods = growth_of(m.signal, m.usage.lives)
    base, of_base = _age_base(m, at_zero, pods)
    per_hour, of_growth = _growth(m, growth)
    ceiling, at_limit, of_ceiling = _age_ceiling(m)
    observed, of_observed = observed_of(m)
    request, of_request = request_of(m)
    whole_bytes = unit == "bytes"
    return SignalFit(
        signal=Signal(
            kind=AGE,
            api=api_of(m.signal),
            base_milli=base,
            ceiling_milli=ceiling,
            growth_milli_per_hour=per_hour,
            request_milli=request,
            unit_milli=1000 if whole_bytes else 1,
            observed_milli=observed,
        ),
        work=None,
        censored=np.zeros(m.cells.count, bool),
        gaps=gaps_of(m.series, m.signal, m.cells),
        facts=(kind_fact(m), of_base, of_growth, of_ceiling, *of_request, of_observed),
        at_limit=at_limit,
        work_share=0.0,
    )


def _age_base(m: Measured, found: Interval | None, pods: int) -> tuple[int, Fact]:
    name, unit = f"signals.{m.name}.base", unit_of(m.name)
    if m.stated.base_milli is not None:
        base = m.stated.base_milli
        return base, Fact(name, base / 1000, unit, None, None, GIVEN)
    if found is None:
        mean = float(np.nanmean(m.series.usage))
        note = "mean usage: no pod's age is known"
        return round(mean), Fact(name, mean / 1000, unit, None, None, FITTED, note)
    base = max(round(found.value), 0)
    low, high = max(found.low, 0.0) / 1000, max(found.high, 0.0) / 1000
    note = f"usage at the pod's start, median of {pods} pods"
    return base, Fact(name, base / 1000, unit, low, high, FITTED, note)


def _growth(m: Measured, found: Interval | None) -> tuple[int, Fact]:
    name, unit = f"signals.{m.name}.growth", f"{unit_of(m.name)}/h"
    if m.stated.growth_milli_per_hour is not None:
        growth = m.stated.growth_milli_per_hour
        return growth, Fact(name, growth / 1000, unit, None, None, GIVEN)
    if found is None:
        note = "too few pods were watched for half an hour"
        return 0, Fact(name, 0.0, unit, None, None, NOT_IDENTIFIED, note)
    low, high = found.low / 1000, found.high / 1000
    if found.low <= 0:
        note = "pods do not clearly grow with age" if found.high > 0 else "pods shrink with age"
        return 0, Fact(name, 0.0, unit, low, high, NOT_IDENTIFIED, note)
    growth = round(found.value)
    note = "median of the pods' own slopes"
    return growth, Fact(name, growth / 1000, unit, low, high, FITTED, note)


def _age_ceiling(m: Measured) -> tuple[int | None, bool, Fact]:
    """Return the memory limit; usage that was seen is no bound of what grows."""
    name, unit = f"signals.{m.name}.ceiling", unit_of(m.name)
    if m.stated.no_ceiling or m.stated.ceiling_milli is not None or limits_of(m) is not None:
        return ceiling_of(m)
    note = "no limit"
    return None, False, Fact(name, None, unit, None, None, RECORDED, note)


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
