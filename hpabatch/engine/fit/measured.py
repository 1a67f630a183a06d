"""Measured signals of a workload: kind, ceiling, request and observed range of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hpabatch.engine.fit.kinds import UNASKED, Kind, Question, kind_of
from hpabatch.engine.fit.overrides import unit_of
from hpabatch.engine.fit.series import MINUTE_MS, Cells, Series, minute_means, series_of
from hpabatch.engine.fit.stats import F64, Mask
from hpabatch.engine.fit.usage import SignalUsage, Usage
from hpabatch.engine.fit.workload import FITTED, GIVEN, NOT_IDENTIFIED, OPEN, RECORDED, Fact
from hpabatch.inputs.plants import SignalOverride
from hpabatch.layout.records import I64
from hpabatch.model.plant import BACKLOG, CEILINGS_PCT, PER_POD, Signal

SUSTAINED_QUANTILE: Final = 0.999
AT_CEILING: Final = 0.95
"""From this part of a limit on usage is cut off (as `history quality` counts it)."""

OBSERVED: Final = (0.005, 0.995)
"""Quantiles of usage per pod, minute by minute, between which it counts as observed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A signal as it was measured: its samples, its kind, and what is stated and known of it.

    `scale`: what the controller saw is that times what was recorded.
    """

    name: str
    usage: Usage
    signal: SignalUsage
    cells: Cells
    series: Series
    kind: str
    stated: SignalOverride
    known: Kind = UNASKED
    scale: float = 1.0

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


@dataclass(frozen=True, slots=True)
class SignalFit:
    """A fitted signal: its parameters, its work by cell, and where that is only a lower bound.

    `work` is None of a signal that does not depend on work. `work_share` is how much of the usage
    is work. `problem` says why it cannot be simulated.
    """

    signal: Signal
    work: I64 | None
    censored: Mask
    gaps: tuple[tuple[int, int], ...]
    facts: tuple[Fact, ...]
    work_share: float
    problem: str = ""


def measure(
    usage: Usage, cells: Cells, statements: Mapping[str, SignalOverride]
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
            found[name] = Measured(name, usage, signal, cells, series, kind.kind, stated, kind)
    return found, problems, questions


def _unsampled(name: str, signal: SignalUsage) -> str:
    whose = "" if signal.is_total else " of a pod that was ready"
    return (
        f"{name} has no sample{whose}, so its work is not known; record it, or look at "
        "`history quality`"
    )


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


def ceiling_of(m: Measured) -> tuple[int | None, Fact]:
    """Return the ceiling of usage per pod, None where no bound is known, and the fact.

    A stated bound goes before the recorded limits. Histories hold neither what nodes can allocate
    nor the time that containers were throttled; what follows from these has to be stated.
    """
    if m.stated.no_ceiling:
        return None, m.fact("ceiling", None, GIVEN, "none")
    if m.stated.ceiling_milli is not None:
        return m.given("ceiling", m.stated.ceiling_milli)
    limits = limits_of(m)
    if limits is not None and int(limits[-1]) > 0:
        note = "limit of the youngest pod" if limits.min() < limits.max() else "limit"
        if m.scale != 1:
            # Limits are of what the controller saw, which is that times what was recorded.
            limits = np.floor(limits / m.scale).astype(np.int64)
            note = f"{note} / {m.scale:g}, the lens's scale"
        limit, low, high = int(limits[-1]), int(limits.min()), int(limits.max())
        return limit, m.fact("ceiling", limit, RECORDED, note, (low, high))
    return None, m.fact("ceiling", None, OPEN, "no limit of its pods is known")


def levels_of(m: Measured, request: int | None) -> tuple[tuple[int, ...], Fact]:
    """Return the ceilings that are assumed where none is known, and the highest usage as a fact.

    None is below the request, which a node keeps free for a pod (milli; None: not known).
    """
    minutes = _known_minutes(m.series.most, m.cells)
    highest = float(np.quantile(minutes, SUSTAINED_QUANTILE, method="higher"))
    note = (
        "99.9 % of the minutes' means of the highest pod are not above it; ceilings are assumed "
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
    limits = m.usage.limits.of(source.name, getattr(source, "container", ""))
    if limits is None or not limits.size or (limits < 0).any():
        return None
    return limits[np.argsort(m.usage.lives.created_ms, kind="stable")]


def censored_at(m: Measured, ceiling: int | None) -> Mask:
    """Return the cells of minutes in which the highest pod was at its ceiling, if it has one."""
    if ceiling is None:
        return np.zeros(m.cells.count, bool)
    at = minute_means(m.series.most, m.cells) >= AT_CEILING * ceiling
    return np.repeat(at, m.cells.per(MINUTE_MS))[: m.cells.count]


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
