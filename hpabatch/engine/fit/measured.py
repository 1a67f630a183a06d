"""A signal of a workload as it was measured, and what kind of quantity it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hpabatch.engine.fit.series import (
    Cells,
    Series,
    series_of,
)
from hpabatch.engine.fit.stats import Mask
from hpabatch.engine.fit.usage import SignalUsage, Usage
from hpabatch.engine.fit.workload import ASSUMED, FITTED, GIVEN, Fact
from hpabatch.layout.records import I64
from hpabatch.model.plant import AGE, BACKLOG, DIVISIBLE, PER_POD, TOTAL, Signal
from hpabatch.model.settings.overrides import SignalOverride

# Only rates are shared as work by default: a latency or a pod's queue is not.
_RATE_NAME: Final = re.compile(r"per_second|(^|_)(rate|rps|qps|tps|requests|queries)($|_)")

SUSTAINED_QUANTILE: Final = 0.999
AT_CEILING: Final = 0.95
"""From this part of a limit on usage is cut off (as `history quality` counts it)."""

OBSERVED: Final = (0.005, 0.995)
"""Quantiles of usage per pod, minute by minute, between which it counts as observed."""

OF_PODS: Final = (DIVISIBLE, PER_POD, AGE)
OF_TOTALS: Final = (TOTAL, BACKLOG)


@dataclass(frozen=True, slots=True)
class Measured:
    """A signal as it was measured: its samples, its kind, and what is stated of it."""

    name: str
    usage: Usage
    signal: SignalUsage
    cells: Cells
    series: Series
    kind: str
    stated: SignalOverride


@dataclass(frozen=True, slots=True)
class SignalFit:
    """A fitted signal: its parameters, its work by cell, and where that is only a lower bound.

    `work` is None of a signal that does not depend on work. `at_limit`: the ceiling is a limit.
    `work_share` is how much of the usage is work. `problem` says why it cannot be simulated.
    """

    signal: Signal
    work: I64 | None
    censored: Mask
    gaps: tuple[tuple[int, int], ...]
    facts: tuple[Fact, ...]
    at_limit: bool
    work_share: float
    problem: str = ""


def kind_of(name: str, signal: SignalUsage, stated: SignalOverride) -> tuple[str, str]:
    """Return a signal's kind, "" where it has none, and else why not and what to do."""
    metric = signal.metric
    wanted = OF_TOTALS if signal.is_total else OF_PODS
    if stated.kind is not None:
        if stated.kind in wanted:
            return stated.kind, ""
        return "", (
            f"{name} cannot be {stated.kind}: a metric of {metric.type} is {' or '.join(wanted)}; "
            f"correct its kind in the plant file"
        )
    if signal.is_total:
        return "", (
            f"what drives {name} is not known: a queue depends on the pods that empty it, other "
            "metrics of this type do not; state it in a plant file (--plant): "
            f'signals: {{"{name}": {{kind: total}}}}, or {{kind: backlog, rate: 5/s}} with what '
            "one pod empties"
        )
    if metric.pods is not None:
        if _RATE_NAME.search(metric.pods.metric.name.lower()) is not None:
            return DIVISIBLE, ""
        return "", (
            f"{name} is not a rate by its name, so what drives it is not known; state it in a "
            f'plant file (--plant): signals: {{"{name}": {{kind: divisible}}}} where pods share it '
            "as work, or {kind: per_pod} where it does not depend on their number"
        )
    member = metric.resource or metric.container_resource
    if member is None or member.name == "cpu":
        return DIVISIBLE, ""
    if member.name == "memory":
        return AGE, ""
    return "", (
        f"{name}: usage of {member.name} is not in a history, only that of cpu and memory; "
        "without it the HPA cannot be simulated"
    )


def measure(
    usage: Usage, cells: Cells, statements: Mapping[str, SignalOverride]
) -> tuple[dict[str, Measured], list[str]]:
    """Return every signal of a workload that can be fitted, and sentences about the others."""
    found: dict[str, Measured] = {}
    problems = []
    for name, signal in usage.signals.items():
        stated = statements.get(name, SignalOverride())
        kind, problem = kind_of(name, signal, stated)
        if not problem and kind == BACKLOG and not stated.rate_milli:
            problem = (
                f"{name}: a backlog needs the rate at which one pod empties it; state it in the "
                f'plant file: signals: {{"{name}": {{kind: backlog, rate: 5/s}}}}'
            )
        series = series_of(usage, signal, cells)
        if not problem and not np.isfinite(series.usage).any():
            problem = (
                f"{name} has no sample of a pod that was ready"
                if not signal.is_total
                else f"{name} has no sample"
            ) + ", so its work is not known; record it, or look at `history quality`"
        if problem:
            problems.append(problem)
        else:
            found[name] = Measured(name, usage, signal, cells, series, kind, stated)
    return found, problems


def kind_fact(m: Measured) -> Fact:
    """Return the kind of a signal as a fact."""
    source = GIVEN if m.stated.kind is not None else ASSUMED
    return Fact(f"signals.{m.name}.kind", None, "", None, None, source, m.kind)


def work_fact(m: Measured, work: I64, unit: str) -> Fact:
    """Return the mean of a work series, and its range but for the extremes, as a fact."""
    low, high = (float(np.quantile(work, q)) / 1000 for q in OBSERVED)
    note = {
        PER_POD: "mean per pod; 0.5 % and 99.5 %",
        BACKLOG: "mean arrivals per second; 0.5 % and 99.5 %",
    }.get(m.kind, "mean of all pods together; 0.5 % and 99.5 %")
    unit = f"{unit}/s" if m.kind == BACKLOG else unit
    mean = float(work.mean()) / 1000
    return Fact(f"signals.{m.name}.work", mean, unit, low, high, FITTED, note)
