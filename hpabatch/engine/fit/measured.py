"""Signals of a workload as measured: kinds, ceilings, requests, observed usage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hpabatch.engine.fit.kinds import UNASKED, Kind, Question, kind_of
from hpabatch.engine.fit.overrides import unit_of
from hpabatch.engine.fit.stats import F64
from hpabatch.engine.fit.usage import (
    MINUTE_MS,
    Cells,
    Series,
    SignalUsage,
    Usage,
    minute_means,
    series_of,
)
from hpabatch.engine.fit.workload import (
    FITTED,
    GIVEN,
    NOT_IDENTIFIED,
    OPEN,
    RECORDED,
    Fact,
)
from hpabatch.inputs.lenses import Lens, Lenses, lens_of_metric
from hpabatch.inputs.plants import SignalOverride
from hpabatch.layout.records import I64
from hpabatch.model.plant import CEILINGS_PCT, DIVISIBLE

SUSTAINED_QUANTILE: Final = 0.999
AT_CEILING: Final = 0.95
"""From this part of a limit on usage is cut off (as `history quality` counts it)."""

CUT_BAND: Final = 0.01
CUT_TIMES: Final = 4
FEWEST_CUT: Final = 30
CUT_MEAN: Final = 0.9
"""Usage is cut off at a level if it is within CUT_BAND of it for FEWEST_CUT minutes or more, which
are CUT_TIMES those in as wide a band below, down from the next lower value that occurs (a smooth
peak has 2.4 times as many, a rare one fewer, one that is rounded coarsely as many), and if in most
of them the mean of all pods, too, is at CUT_MEAN of it: none starts or is hot alone."""
CUT_SPREAD: Final = 0.8
"""For a tenth of the time usage is below this part of the level, so not always nearly the same."""

OBSERVED: Final = (0.005, 0.995)
"""Quantiles of usage per pod, minute by minute, between which it counts as observed."""

_AS_RECORDED: Final = Lens("")


@dataclass(frozen=True, slots=True)
class Measured:
    """A signal as it was measured: its samples, its kind, and what is stated and known of it.

    `lens` says how the controller saw what was recorded.
    """

    name: str
    usage: Usage
    signal: SignalUsage
    cells: Cells
    series: Series
    kind: str
    stated: SignalOverride
    known: Kind = UNASKED
    lens: Lens = _AS_RECORDED

    def fact(
        self,
        name: str,
        milli: float | None,
        source: str,
        note: str = "",
        ends: tuple[float | None, float | None] = (None, None),
        per: str = "",
    ) -> Fact:
        """Return a fact of the signal: an amount and the ends of its interval, all in milli.

        `per` follows the signal's unit: "/s", "/h".
        """
        value, low, high = (None if v is None else v / 1000 for v in (milli, *ends))
        unit = unit_of(self.name) + per
        return Fact(f"signals.{self.name}.{name}", value, unit, low, high, source, note)

    def given(self, name: str, milli: int, per: str = "") -> tuple[int, Fact]:
        """Return a stated amount and its fact."""
        return milli, self.fact(name, milli, GIVEN, per=per)


def measure(
    usage: Usage, cells: Cells, statements: Mapping[str, SignalOverride], lenses: Lenses = ()
) -> tuple[dict[str, Measured], list[str], list[Question]]:
    """Return every signal of a workload that can be fitted, sentences about the others, questions.

    A backlog whose rate is not stated gets the one that the data show.
    """
    found: dict[str, Measured] = {}
    problems, questions = [], []
    # Memory last: what the work of an HPA is, cpu tells before it.
    for name, signal in sorted(usage.signals.items(), key=lambda item: item[0].endswith("/memory")):
        stated = statements.get(name, SignalOverride())
        series = series_of(usage, signal, cells)
        sampled = bool(np.isfinite(series.usage).any())
        kind = kind_of(name, usage, signal, stated)
        if kind.question is not None:
            questions.append(kind.question)
        if kind.problem or not sampled:
            problems.append(kind.problem or _unsampled(name, signal))
        else:
            lens = lens_of_metric(lenses, usage.candidate.cluster, name)
            found[name] = Measured(
                name, usage, signal, cells, series, kind.kind, stated, kind, lens
            )
    return found, problems, questions


def _unsampled(name: str, signal: SignalUsage) -> str:
    whose = "" if signal.is_total else " of a pod that was ready"
    return (
        f"{name} has no sample{whose}, so its work is not known; record it, or look at "
        "`history quality`"
    )


def ceiling_of(m: Measured) -> tuple[int | None, Fact]:
    """Return the ceiling of usage per pod, None where no bound is known, and the fact.

    A stated bound goes before the recorded limits, and these go before a level at which usage is
    cut off. Histories hold neither what nodes can allocate nor the time that containers were
    throttled; what follows from these has to be stated.
    """
    if m.stated.no_ceiling:
        return None, m.fact("ceiling", None, GIVEN, "none")
    if m.stated.ceiling_milli is not None:
        return m.given("ceiling", m.stated.ceiling_milli)
    limits = limits_of(m)
    if limits is not None and int(limits[-1]) > 0:
        note = "limit of the youngest pod" if limits.min() < limits.max() else "limit"
        if m.lens.scale != 1:
            # Limits are of what the controller saw, which is that times what was recorded.
            limits = np.floor(limits / m.lens.scale).astype(np.int64)
            note = f"{note} / {m.lens.scale:g}, the lens's scale"
        limit, low, high = int(limits[-1]), int(limits.min()), int(limits.max())
        return limit, m.fact("ceiling", limit, RECORDED, note, (low, high))
    return _cut_off(m) or (None, m.fact("ceiling", None, OPEN, "no limit of its pods is known"))


def _cut_off(m: Measured) -> tuple[int, Fact] | None:
    """Return the level at which usage is cut off, as by a limit that was not recorded, or None.

    It is no lower than the request, which a node keeps free for a pod. Nothing is told of usage
    that was recorded other than the controller saw it: means and lags pile up, too.
    """
    if m.kind != DIVISIBLE or m.usage.lives.generated or m.lens.changes:
        return None
    known = np.isfinite(m.series.most) & np.isfinite(m.series.usage)
    highest, means = m.series.most[known], m.series.usage[known]
    fewest = FEWEST_CUT * m.cells.per(MINUTE_MS)
    if highest.size < fewest:
        return None
    # (samples, as means over minutes lie below a level that only some of theirs reach)
    top = float(np.quantile(highest, SUSTAINED_QUANTILE, method="higher"))
    band = CUT_BAND * top
    at = np.abs(highest - top) <= band
    lower = highest[highest < top - band]
    below = lower >= lower.max(initial=0.0) - 2 * band
    level = round(float(np.median(highest[at])))
    request, _ = request_of(m)
    if (
        level < max((request or 0) * (1 - CUT_BAND), 1)
        or at.sum() < max(fewest, CUT_TIMES * below.sum())
        or np.median(means[at]) < CUT_MEAN * top
        or np.quantile(highest, 0.1) > CUT_SPREAD * top
    ):
        return None
    note = (
        f"no limit is recorded, but usage is cut off there: {100 * at.mean():.2g} % of the samples "
        f"of the highest pod are within {100 * CUT_BAND:g} % of it"
    )
    return level, m.fact("ceiling", level, FITTED, note, (level - band, level + band))


def levels_of(m: Measured, request: int | None) -> tuple[tuple[int, ...], Fact]:
    """Return the ceilings that are assumed where none is known, and the highest usage as a fact.

    None is below the request, which a node keeps free for a pod (milli; None: not known).
    """
    minutes = _known_minutes(m.series.most, m.cells)
    highest = float(np.quantile(minutes, SUSTAINED_QUANTILE, method="higher"))
    whose = "the highest pod"
    if m.usage.lives.generated:
        whose = "all pods together (none is known by itself)"
    note = (
        f"99.9 % of the minutes' means of {whose} are not above it; ceilings are assumed "
        f"from {CEILINGS_PCT[0]} % to {CEILINGS_PCT[-1]} % of it, none below the request"
    )
    least = max(request or 0, 1)
    levels = tuple(max(round(highest * pct / 100), least) for pct in CEILINGS_PCT)
    return levels, m.fact("highest", highest, FITTED, note)


def _known_minutes(values: F64, cells: Cells) -> F64:
    minutes = minute_means(values, cells)
    return minutes[np.isfinite(minutes)]


def limits_of(m: Measured) -> I64 | None:
    """Return the limits of the pods in order of creation; None unless every pod has one."""
    source = m.signal.metric.resource or m.signal.metric.container_resource
    if source is None:
        return None
    limits = m.usage.limits.get((source.name, getattr(source, "container", "")))
    if limits is None or not limits.size or (limits < 0).any():
        return None
    return limits[np.argsort(m.usage.lives.created_ms, kind="stable")]


def observed_of(m: Measured) -> tuple[tuple[int, int], Fact]:
    """Return the range of usage per pod that was recorded: the minutes' quantiles OBSERVED."""
    minutes = _known_minutes(m.series.usage, m.cells)
    low, high = (float(np.quantile(minutes, q)) for q in OBSERVED)
    note = "usage per pod: median of the minutes, 0.5 % and 99.5 %"
    fact = m.fact("observed", float(np.median(minutes)), RECORDED, note, (low, high))
    return (int(np.floor(low)), int(np.ceil(high))), fact


def request_of(m: Measured) -> tuple[int | None, list[Fact]]:
    """Return the request of a pod (the last that was recorded), and the fact."""
    if m.stated.request_milli is not None:
        stated, fact = m.given("request", m.stated.request_milli)
        return stated, [fact]
    if m.signal.metric.type not in ("Resource", "ContainerResource"):
        return None, []
    known = np.flatnonzero(m.signal.requested > 0)
    if not known.size:
        return None, [m.fact("request", None, NOT_IDENTIFIED, "no pod's request was recorded")]
    each = m.signal.request_milli[known] / m.signal.requested[known]
    last, low, high = round(float(each[-1])), float(each.min()), float(each.max())
    note = "the last one" if low / 1000 < high / 1000 else ""
    return last, [m.fact("request", last, RECORDED, note, (low, high))]
