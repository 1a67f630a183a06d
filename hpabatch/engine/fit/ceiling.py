"""The ceiling of usage per pod, and what usage and requests were recorded."""

from __future__ import annotations

import numpy as np

from hpabatch.engine.fit.measured import (
    AT_CEILING,
    OBSERVED,
    SUSTAINED_QUANTILE,
    Measured,
)
from hpabatch.engine.fit.overrides import unit_of
from hpabatch.engine.fit.series import (
    MINUTE_MS,
    minute_means,
)
from hpabatch.engine.fit.stats import Mask
from hpabatch.engine.fit.workload import FITTED, GIVEN, NOT_IDENTIFIED, RECORDED, Fact
from hpabatch.layout.records import I64


def ceiling_of(m: Measured) -> tuple[int | None, bool, Fact]:
    """Return the ceiling of usage per pod, whether it is a limit, and the fact."""
    name, unit = f"signals.{m.name}.ceiling", unit_of(m.name)
    if m.stated.no_ceiling:
        return None, False, Fact(name, None, unit, None, None, GIVEN, "none")
    if m.stated.ceiling_milli is not None:
        stated = m.stated.ceiling_milli
        return stated, True, Fact(name, stated / 1000, unit, None, None, GIVEN)
    limits = limits_of(m)
    if limits is not None and int(limits[-1]) > 0:
        limit, low, high = int(limits[-1]), int(limits.min()) / 1000, int(limits.max()) / 1000
        note = "limit of the youngest pod" if low < high else "limit"
        return limit, True, Fact(name, limit / 1000, unit, low, high, RECORDED, note)
    minutes = minute_means(m.series.most, m.cells)
    minutes = minutes[np.isfinite(minutes)]
    highest = float(np.quantile(minutes, SUSTAINED_QUANTILE, method="higher"))
    ceiling = max(round(highest), 1)
    note = "no limit: 99.9 % of the minutes' means of the highest pod are not above it"
    return ceiling, False, Fact(name, ceiling / 1000, unit, None, None, FITTED, note)


def limits_of(m: Measured) -> I64 | None:
    """Return the limits of the pods in order of creation; None unless every pod has one."""
    member = m.signal.metric.resource
    container = m.signal.metric.container_resource
    if container is not None:
        limits = m.usage.limits.of(container.name, container.container)
    elif member is not None:
        limits = m.usage.limits.of(member.name)
    else:
        return None
    if limits is None or not limits.size or (limits < 0).any():
        return None
    return limits[np.argsort(m.usage.lives.created_ms, kind="stable")]


def censored_at(m: Measured, ceiling: int | None, at_limit: bool) -> Mask:
    """Return the cells of minutes in which the highest pod was at its ceiling."""
    if ceiling is None:
        return np.zeros(m.cells.count, bool)
    minutes = minute_means(m.series.most, m.cells)
    at = minutes >= (AT_CEILING * ceiling if at_limit else ceiling)
    return np.repeat(at, m.cells.per(MINUTE_MS))[: m.cells.count]


def observed_of(m: Measured) -> tuple[tuple[int, int] | None, Fact]:
    """Return the range of usage per pod that was recorded: the minutes' quantiles OBSERVED."""
    name, unit = f"signals.{m.name}.observed", unit_of(m.name)
    minutes = minute_means(m.series.usage, m.cells)
    minutes = minutes[np.isfinite(minutes)]
    low, high = (float(np.quantile(minutes, q)) for q in OBSERVED)
    middle = float(np.median(minutes))
    note = "usage per pod: median of the minutes, 0.5 % and 99.5 %"
    fact = Fact(name, middle / 1000, unit, low / 1000, high / 1000, RECORDED, note)
    return (int(np.floor(low)), int(np.ceil(high))), fact


def request_of(m: Measured) -> tuple[int | None, list[Fact]]:
    """Return the request of a pod (the last that was recorded), and the fact."""
    name, unit = f"signals.{m.name}.request", unit_of(m.name)
    if m.stated.request_milli is not None:
        stated = m.stated.request_milli
        return stated, [Fact(name, stated / 1000, unit, None, None, GIVEN)]
    if m.signal.metric.type not in ("Resource", "ContainerResource"):
        return None, []
    known = np.flatnonzero(m.signal.requested > 0)
    if not known.size:
        note = "no pod's request was recorded"
        return None, [Fact(name, None, unit, None, None, NOT_IDENTIFIED, note)]
    each = m.signal.request_milli[known] / m.signal.requested[known]
    last = round(float(each[-1]))
    low, high = float(each.min()) / 1000, float(each.max()) / 1000
    note = "the last one" if low < high else ""
    return last, [Fact(name, last / 1000, unit, low, high, RECORDED, note)]
