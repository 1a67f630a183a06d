"""Fit a plant to what was recorded of a workload: what can be known of it, and how well.

docs/fit.md says of every parameter how it is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np

from hpabatch.engine.fit.measured import Measured, SignalFit, measure
from hpabatch.engine.fit.noise import noise_of
from hpabatch.engine.fit.overrides import plan_overrides, signal_statement, unit_of
from hpabatch.engine.fit.pipeline import (
    Recording,
    fit_pipelines,
    gap_facts,
    recording_of,
    sync_facts,
)
from hpabatch.engine.fit.pods import fit_pods
from hpabatch.engine.fit.series import Cells, cells_of
from hpabatch.engine.fit.signals import fit_signal
from hpabatch.engine.fit.stats import Mask
from hpabatch.engine.fit.usage import Usage, observed_usage
from hpabatch.engine.fit.workload import ASSUMED, GIVEN, NOT_IDENTIFIED, RECORDED, Fact, Workload
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.layout.records import I64
from hpabatch.model.plant import BACKLOG, DIVISIBLE, Plant, signal_name
from hpabatch.model.settings.overrides import PlantOverride

CAPACITY_SHARE: Final = 0.8
"""Of what a pod can do up to its limit, a pod is meant to do this much."""

_DRAWS: Final = 4096


@dataclass(frozen=True, slots=True)
class Fit:
    """What can be known of one HPA's workload.

    `workload` is None if it cannot be simulated; `problems` say why and what to do. By signal:
    `gaps` are (from, to) in ms without samples, over which the work goes in straight lines, and
    `censored` is True for the pieces of work that are lower bounds, because usage was at its
    ceiling. `noise` are equally likely factors (thousandths) of samples finer than a piece of work
    to its mean, None if none were recorded. Times of sync in ms.
    """

    candidate: Candidate
    workload: Workload | None
    facts: tuple[Fact, ...]
    problems: tuple[str, ...]
    gaps: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    censored: Mapping[str, Mask] = field(default_factory=dict)
    noise: I64 | None = None
    sync_period_ms: int = 15_000
    sync_phase_ms: int = 0

    def fact(self, name: str) -> Fact | None:
        """Return the fact of a name, such as `signals.resource/cpu.base`."""
        return next((f for f in self.facts if f.name == name), None)


def fit_history(
    plan: ReplayPlan,
    overrides: Sequence[PlantOverride] = (),
    everyone: Sequence[Candidate] = (),
) -> Iterator[Fit]:
    """Yield the fit of every HPA of a plan, in its order; one shard of samples is in memory.

    `overrides` are the entries of a plant file. What they say of signals is taken into account;
    the rest is put into the plants by `engine.fit.overrides.override`. They may be for other HPAs
    of the history too, or for those of `everyone`.

    Raises:
        HistoryError: a table is broken.
        UsageError: an entry matches nothing.
    """
    chosen = plan_overrides(overrides, plan.chosen, (*plan.everyone, *everyone))
    usages = observed_usage(plan)
    usage = next(usages, None)
    for candidate, entries in zip(plan.chosen, chosen, strict=True):
        if usage is None or usage.candidate is not candidate:
            reason = "none of its specs was in force while samples were recorded"
            yield Fit(candidate, None, (), (reason,))
            continue
        yield fit(usage, recording_of(plan, candidate), entries)
        usage = next(usages, None)


def fit(usage: Usage, recording: Recording, entries: Sequence[PlantOverride] = ()) -> Fit:
    """Return what can be known of a workload from its observed usage.

    Args:
        usage: what was observed (`engine.fit.usage`).
        recording: what is known of the recording itself.
        entries: what is stated of this HPA: of its signals kind, base, ceiling, rate and so on
            are taken as given here, and the work follows from them.
    """
    period, phase, facts = sync_facts(usage, recording)
    cells = cells_of(usage)
    if cells is None:
        reason = (
            "no sample of its metrics, of a pod of its target that was ready, is in the history, "
            "so its work is not known; record them, or look at `history quality`"
        )
        return Fit(usage.candidate, None, tuple(facts), (reason,))
    statements = {name: signal_statement(entries, name) for name in usage.signals}
    measured, problems = measure(usage, cells, statements)
    fits = {name: fit_signal(m, measured) for name, m in measured.items()}
    problems += [s.problem for s in fits.values() if s.problem]
    plant, more = _plant(usage, recording, measured, fits)
    facts += [*_grid_facts(cells), *(f for s in fits.values() for f in s.facts), *more]
    known = np.flatnonzero(usage.replicas >= 0)
    if not known.size:
        problems.append("the size of its target was not recorded while samples were; record scales")
    workload = None
    if not problems:
        workload = Workload(
            cluster=usage.candidate.cluster,
            namespace=usage.candidate.namespace,
            hpa=usage.candidate.name,
            plant=plant,
            work={name: s.work for name, s in fits.items() if s.work is not None},
            work_start_ms=cells.start_ms,
            resolution_ms=cells.resolution_ms,
            initial=int(usage.replicas[known[0]]),
        )
    noise, of_noise = noise_of(measured, cells)
    return Fit(
        candidate=usage.candidate,
        workload=workload,
        facts=(*facts, of_noise),
        problems=tuple(problems),
        gaps={name: s.gaps for name, s in fits.items()},
        censored={name: s.censored for name, s in fits.items() if s.work is not None},
        noise=noise,
        sync_period_ms=period,
        sync_phase_ms=phase,
    )


def _grid_facts(cells: Cells) -> list[Fact]:
    resolution, span = cells.resolution_ms / 1000, cells.count * cells.resolution_ms / 1000
    return [
        Fact("resolution", resolution, "s", None, None, RECORDED, "pieces of work"),
        Fact("span", span, "s", None, None, RECORDED, "from the first sample to the last"),
    ]


def _plant(
    usage: Usage,
    recording: Recording,
    measured: Mapping[str, Measured],
    fits: Mapping[str, SignalFit],
) -> tuple[Plant, list[Fact]]:
    """Return the plant of the signals that could be fitted, and the facts beside the signals'."""
    divisible = [name for name, s in fits.items() if s.signal.kind == DIVISIBLE]
    compared = divisible[0] if divisible else None
    signal = usage.signals[compared] if compared else None
    pods, of_pods = fit_pods(usage, signal, fits[compared].work_share if compared else 1.0)
    pipelines, of_pipelines = fit_pipelines(usage, recording)
    capacity, of_capacity = _capacity(measured, fits)
    candidate = usage.candidate
    plant = Plant(
        signals={name: s.signal for name, s in fits.items()},
        pods=pods,
        pipelines=pipelines,
        capacity_milli=capacity,
        first_draw=first_draw(candidate.cluster, candidate.namespace, candidate.name),
    )
    gaps = gap_facts({name: s.gaps for name, s in fits.items()})
    return plant, [of_capacity, *of_pods, *of_pipelines, *gaps]


def first_draw(cluster: str, namespace: str, hpa: str) -> int:
    """Return where the random draws of a workload begin, by its name alone."""
    text = "\0".join((cluster, namespace, hpa))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) % _DRAWS


def _capacity(
    measured: Mapping[str, Measured], fits: Mapping[str, SignalFit]
) -> tuple[int | None, Fact]:
    """Return the SLO capacity: the work that one pod is meant to do, and the fact.

    Of a divisible signal up to CAPACITY_SHARE of the way from base to a limit; without a limit what
    the HPA's own target leaves for work; of a backlog the rate.
    """
    for name, found in fits.items():
        if found.signal.kind == DIVISIBLE:
            return _work_capacity(measured[name], found)
    for name, found in fits.items():
        if found.signal.kind == BACKLOG:
            rate = found.signal.rate_milli
            unit = f"{unit_of(name)}/s"
            return rate, Fact("capacity", rate / 1000, unit, None, None, GIVEN, f"rate of {name}")
    note = "no signal is work that pods share, so nothing says how much a pod is to do"
    return None, Fact("capacity", None, "", None, None, NOT_IDENTIFIED, note)


def _work_capacity(m: Measured, found: SignalFit) -> tuple[int | None, Fact]:
    signal, unit = found.signal, unit_of(m.name)
    if found.at_limit and signal.ceiling_milli is not None:
        capacity = round(CAPACITY_SHARE * (signal.ceiling_milli - signal.base_milli))
        note = f"{CAPACITY_SHARE:.0%} of {m.name} between base and limit"
    else:
        target = _target_milli(m, signal.request_milli)
        if target is None:
            note = f"{m.name} has no limit, and its target is a share of an unknown request"
            return None, Fact("capacity", None, unit, None, None, NOT_IDENTIFIED, note)
        capacity = target - signal.base_milli
        note = f"usage of {m.name} at the HPA's own target, without the base"
    if capacity <= 0:
        note = f"{note}: not above the base"
        return None, Fact("capacity", None, unit, None, None, NOT_IDENTIFIED, note)
    return capacity, Fact("capacity", capacity / 1000, unit, None, None, ASSUMED, note)


def _target_milli(m: Measured, request_milli: int | None) -> int | None:
    """Return the usage per pod at the metric's target, by the last spec that has it."""
    metric = m.signal.metric
    for period in reversed(m.usage.candidate.periods):
        for other in period.spec.metrics:
            if signal_name(other) == m.name:
                metric = other
                break
    source = metric.resource or metric.container_resource or metric.pods
    if source is None:
        return None
    target = source.target
    if target.average_value is not None:
        return int(target.average_value.milli())
    if target.average_utilization is not None and request_milli:
        return request_milli * target.average_utilization // 100
    return None
