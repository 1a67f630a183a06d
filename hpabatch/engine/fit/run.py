"""Fit of a plant to the recording of a workload; docs/fit.md says how each parameter is found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hpabatch.engine.columns.recorded import ABOVE_MINUTES, RECORDED_MEASURES
from hpabatch.engine.fit.kinds import Question
from hpabatch.engine.fit.measured import Measured, measure
from hpabatch.engine.fit.overrides import Draws, override, plan_overrides, signal_statement, unit_of
from hpabatch.engine.fit.pipeline import (
    Recording,
    fit_pipelines,
    gap_facts,
    recording_of,
    sync_facts,
)
from hpabatch.engine.fit.pods import fit_pods
from hpabatch.engine.fit.signals import SignalFit, fit_signal
from hpabatch.engine.fit.stats import Mask, seed_of
from hpabatch.engine.fit.usage import (
    MINUTE_MS,
    Usage,
    cells_of,
    gaps_of,
    observed_usage,
)
from hpabatch.engine.fit.workload import ASSUMED, NOT_IDENTIFIED, RECORDED, Fact
from hpabatch.engine.fleet.candidates import NEVER_IN_FORCE, Candidate, Skipped
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.plan import ReplayPlan, as_used
from hpabatch.errors import RefusedError
from hpabatch.inputs.plants import PlantOverride
from hpabatch.layout.records import I64
from hpabatch.model.plant import (
    BACKLOG,
    DIVISIBLE,
    SCALE_ONE,
    Plant,
    Signal,
    signal_name,
)
from hpabatch.packing.workloads import Workload, primary_signal

SATURATED_AT: Final = 0.98
"""From this part of a ceiling on a sample's pod counts as saturated: on fleets whose plant is known
the time at it is that of the plant (23 and 89 minutes, of 95 % of the ceiling: 77 and 140)."""

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded of a workload, which a simulation of the same time has too.

    Times without a sample count as quiet, so recorded minutes are a lower bound.

    From `size_ms[k]` on its target's size was `size[k]`, until `until_ms`; `pods_ms` (P, 2) are the
    pods' lives. By piece (`starts_ms`, each `piece_ms` long): whether the highest pod was at its
    ceiling (`saturated`, None without one), and above how many assumed ones (`above`, None with a
    known one).
    """

    size_ms: I64
    size: I64
    until_ms: int
    pods_ms: I64
    starts_ms: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    piece_ms: int = MINUTE_MS
    saturated: Mask | None = None
    above: NDArray[np.int8] | None = None

    def between(self, from_ms: int, to_ms: int) -> dict[str, float | None]:
        """Return RECORDED_MEASURES of a time; None where one is not known."""
        found: dict[str, float | None] = dict.fromkeys(RECORDED_MEASURES)
        if self.size.size:
            ends = np.append(self.size_ms[1:], self.until_ms)
            lasted = np.minimum(ends, to_ms) - np.maximum(self.size_ms, from_ms)
            hours = float((self.size * np.maximum(lasted, 0)).sum()) / _HOUR_MS
            changed = (self.size_ms[1:] > from_ms) & (self.size_ms[1:] <= to_ms)
            found |= {"replica_hours": hours, "rescales": int(changed.sum())}
        if self.pods_ms.size:
            lived = np.minimum(self.pods_ms[:, 1], to_ms) - np.maximum(self.pods_ms[:, 0], from_ms)
            found["pod_hours"] = float(np.maximum(lived, 0).sum()) / _HOUR_MS
        inside = (self.starts_ms >= from_ms) & (self.starts_ms < to_ms)
        each = self.piece_ms / MINUTE_MS
        if self.saturated is not None:
            found["saturated_minutes"] = float((self.saturated & inside).sum() * each)
        if self.above is not None:
            for k, name in enumerate(ABOVE_MINUTES):
                found[name] = float((inside & (self.above > k)).sum() * each)
        return found


def recorded_of(usage: Usage, m: Measured | None, signal: Signal | None) -> Recorded:
    """Return what was recorded of a workload, and of its primary signal where it has one."""
    known = np.flatnonzero(usage.replicas >= 0)
    size, at_ms = usage.replicas[known], usage.now_ms[known]
    kept = np.flatnonzero(np.diff(size, prepend=-1) != 0)
    until_ms = int(usage.now_ms[-1]) if usage.now_ms.size else 0
    lives = usage.lives
    began = np.minimum(lives.created_ms, NEVER_MS)
    whole = Recorded(at_ms[kept], size[kept], until_ms, np.stack([began, lives.gone_ms], axis=1))
    if m is None or signal is None or not (signal.ceiling_milli or signal.levels_milli):
        return whole
    highest = np.nan_to_num(m.series.most, nan=-1.0)
    ceiling, levels = signal.ceiling_milli, np.array(signal.levels_milli, np.float64)
    above = np.searchsorted(SATURATED_AT * levels, highest, side="right").astype(np.int8)
    return replace(
        whole,
        starts_ms=m.cells.starts_ms,
        piece_ms=m.cells.resolution_ms,
        saturated=None if ceiling is None else highest >= SATURATED_AT * ceiling,
        above=above if levels.size else None,
    )


CAPACITY_SHARE: Final = 0.8
"""Of what a pod can do up to its limit, a pod is meant to do this much."""

OWN_TARGET: Final = "at the HPA's own target"

_DRAWS: Final = 4096


@dataclass(frozen=True, slots=True)
class Fit:
    """Fit of one HPA's workload.

    `workload` is None if it cannot be simulated; `problems` say why and what to do, `questions`
    what a plant file could state of its signals. By signal:
    `gaps` are (from, to) in ms without samples, over which the work goes in straight lines, and
    `censored` is True for the pieces of work that are lower bounds, because usage was at its
    ceiling. `recorded` are measures of the recording itself.
    """

    candidate: Candidate
    workload: Workload | None
    facts: tuple[Fact, ...]
    problems: tuple[str, ...]
    gaps: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    censored: Mapping[str, Mask] = field(default_factory=dict)
    recorded: Recorded | None = None
    questions: tuple[Question, ...] = ()

    def fact(self, name: str) -> Fact | None:
        """Return the fact of a name, such as `signals.resource/cpu.base`."""
        return next((f for f in self.facts if f.name == name), None)


def fit_history(
    plan: ReplayPlan,
    overrides: Sequence[PlantOverride] = (),
    everyone: Sequence[Candidate] = (),
    usages: Iterator[Usage] | None = None,
) -> Iterator[Fit]:
    """Yield the fit of every HPA of a plan, in its order; one shard of samples is in memory.

    `overrides` are the entries of a plant file. What they say of signals is taken into account;
    the rest is put into the plants by `engine.fit.overrides.override`. They may be for other HPAs
    of the history too, or for those of `everyone`. `usages`: those of the plan's HPAs, in its
    order, as they were used (`as_used`); None: they are read.

    Raises:
        HistoryError: a table is broken.
        UsageError: an entry matches nothing.
    """
    chosen = plan_overrides(overrides, plan.chosen, (*plan.everyone, *everyone))
    usages = observed_usage(as_used(plan)) if usages is None else usages
    usage = next(usages, None)
    for candidate, entries in zip(plan.chosen, chosen, strict=True):
        if usage is None or usage.candidate is not candidate:
            yield Fit(candidate, None, (), (NEVER_IN_FORCE,))
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
    facts = sync_facts(usage, recording)
    cells = cells_of(usage)
    if cells is None:
        reason = (
            "no sample of its metrics, of a pod of its target that was ready, is in the history, "
            "so its work is not known; record them, or look at `history quality`"
        )
        return Fit(usage.candidate, None, tuple(facts), (reason,))
    statements = {name: signal_statement(entries, name) for name in usage.signals}
    lenses = recording.lenses or ()
    measured, problems, questions = measure(usage, cells, statements, lenses)
    fits = {name: fit_signal(m, measured) for name, m in measured.items()}
    gaps = {name: gaps_of(m.series, m.signal, cells) for name, m in measured.items()}
    problems += [s.problem for s in fits.values() if s.problem]
    plant, more = _plant(usage, recording, measured, fits)
    resolution, span = cells.resolution_ms / 1000, cells.count * cells.resolution_ms / 1000
    of_grid = [
        Fact("resolution", resolution, "s", None, None, RECORDED, "pieces of work"),
        Fact("span", span, "s", None, None, RECORDED, "from the first sample to the last"),
    ]
    facts += [*of_grid, *(f for s in fits.values() for f in s.facts), *more]
    facts += gap_facts(gaps)
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
    primary = primary_signal(plant)
    known_of = (None, None) if primary is None else (measured[primary], plant.signals[primary])
    return Fit(
        candidate=usage.candidate,
        workload=workload,
        facts=tuple(facts),
        problems=tuple(problems),
        gaps=gaps,
        censored={
            name: np.zeros(cells.count, bool) if s.censored is None else s.censored
            for name, s in fits.items()
            if s.work is not None
        },
        recorded=recorded_of(usage, *known_of),
        questions=tuple(questions),
    )


def _plant(
    usage: Usage,
    recording: Recording,
    measured: Mapping[str, Measured],
    fits: Mapping[str, SignalFit],
) -> tuple[Plant, list[Fact]]:
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
        first_draw=first_draw(*candidate.key),
    )
    return plant, [of_capacity, *of_pods, *of_pipelines]


def first_draw(cluster: str, namespace: str, hpa: str) -> int:
    """Return where the random draws of a workload begin, by its name alone."""
    return seed_of("\0".join((cluster, namespace, hpa))) % _DRAWS


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
            source = measured[name].known.source
            return rate, Fact("capacity", rate / 1000, unit, None, None, source, f"rate of {name}")
    note = "no signal is work that pods share, so nothing says how much a pod is to do"
    return None, Fact("capacity", None, "", None, None, NOT_IDENTIFIED, note)


def _work_capacity(m: Measured, found: SignalFit) -> tuple[int | None, Fact]:
    signal, unit = found.signal, unit_of(m.name)
    if signal.ceiling_milli is not None:
        capacity = round(CAPACITY_SHARE * (signal.ceiling_milli - signal.base_milli))
        note = f"{CAPACITY_SHARE:.0%} of {m.name} between base and limit"
    else:
        target = _target_milli(m, signal.request_milli)
        if target is None:
            note = f"{m.name} has no limit, and its target is a share of an unknown request"
            return None, Fact("capacity", None, unit, None, None, NOT_IDENTIFIED, note)
        used = target * SCALE_ONE // signal.sight.scale_ppm  # (what is seen at the target)
        capacity = used - signal.base_milli
        note = f"usage of {m.name} {OWN_TARGET}, without the base, as no limit is known"
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


@dataclass(frozen=True, slots=True)
class Fitted:
    """What is known of one HPA's workload; `has_plant`: it can be simulated.

    `questions` are what a plant file could state of the kinds of its signals.
    """

    cluster: str
    namespace: str
    hpa: str
    has_plant: bool
    facts: tuple[Fact, ...]
    problems: tuple[str, ...]
    questions: tuple[Question, ...] = ()

    def fact(self, name: str) -> Fact | None:
        """Return a fact by its name."""
        return next((f for f in self.facts if f.name == name), None)

    @property
    def signals(self) -> list[str]:
        """The names of the signals that have facts, in order."""
        start, end = "signals.", ".kind"
        names = [f.name for f in self.facts]
        found = [n for n in names if n.startswith(start) and n.endswith(end)]
        return [name.removeprefix(start).removesuffix(end) for name in dict.fromkeys(found)]


@dataclass(frozen=True, slots=True)
class FleetFit:
    """The HPAs in order, those left out, and what the fits rest on."""

    hpas: tuple[Fitted, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    evidence: dict[str, str]


def fit_plan(plan: ReplayPlan, overrides: Sequence[PlantOverride]) -> Iterator[Fitted]:
    """Yield what is known of each HPA of a plan, in its order; one shard of samples is in memory.

    Raises:
        HistoryError: a table is broken.
        UsageError: an entry of a plant file matches nothing.
    """
    chosen = plan_overrides(overrides, plan.chosen, plan.everyone)
    for found, entries in zip(fit_history(plan, overrides), chosen, strict=True):
        candidate, facts, problems = found.candidate, found.facts, found.problems
        has_plant = found.workload is not None
        if found.workload is not None and entries:
            # What is stated of its pods and pipelines is put in.
            name = f"{candidate.namespace}/{candidate.name}"
            try:
                _, given = override(found.workload.plant, entries, Draws(0, name, 0))
            except RefusedError as error:
                has_plant, problems = False, (*problems, str(error))
            else:
                names = {fact.name for fact in given}
                facts = (*(f for f in facts if f.name not in names), *given)
        yield Fitted(*candidate.key, has_plant, facts, problems, found.questions)
