"""Capacity plan: sizes without maxReplicas, their sums over HPAs, and the sums against quotas.

A recorded size at maxReplicas is only a lower bound of what was wanted. So every HPA is simulated
on its fitted work with maxReplicas removed, under each growth of the work. docs/plan.md defines
every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import polars as pl

from hpabatch.engine.capacity.parts import (
    HOURS,
    Part,
    frame_of,
    held_name,
    held_runs,
    hold,
    hpas_name,
    planned_part,
    span_of,
)
from hpabatch.engine.capacity.runs import AS_RECORDED, TODAY, UNCLAMPED
from hpabatch.engine.capacity.sums import AMOUNTS, MONEY, Grid, Sums, judged, spread
from hpabatch.engine.columns.capacity import PLAN_TOTALS
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, Select, narrow_plan, plan_replay
from hpabatch.engine.fleet.requested import Requested, requested_of
from hpabatch.engine.simulate.run import (
    LoopOptions,
    Progress,
    loop_evidence,
    prepare_planned,
    silent,
)
from hpabatch.engine.simulate.work import Key, ceilings_told, guesses_told, key_of
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import History
from hpabatch.inputs.scenarios import Growth, SetBounds, parse_growth
from hpabatch.layout.records import I64
from hpabatch.model.quota import CORES, GIB, LIMIT_CORES, LIMIT_GIB, PODS, Quota, tightest

HPAS_AT_ONCE = 16
"""HPAs of a part: some seconds of one core, their work (1.4 MB a signal and 30 days) in memory."""

_FIT_SHARE = 0.5
"""Share of fitting in the work of a part, for progress."""


@dataclass(frozen=True, slots=True)
class CapacityOptions:
    """Growths in thousandths (`growths_of` reads them), quotas, and options of the simulation."""

    growths: tuple[int, ...] = (AS_RECORDED,)
    quotas: tuple[Quota, ...] = ()
    loop: LoopOptions = field(default_factory=LoopOptions)

    @property
    def has_limits(self) -> bool:
        """Whether a quota is one of limits, so that sums of them are wanted."""
        return any({LIMIT_CORES, LIMIT_GIB} & set(quota.limits) for quota in self.quotas)


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """A capacity plan; `engine.columns.capacity` explains the columns.

    `hpas`: one row per HPA and growth, `totals`: one per growth, scope, bounds, covers and
    resource. `skipped` could not be simulated; they are in no sum.
    """

    hpas: pl.DataFrame
    totals: pl.DataFrame
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    evidence: dict[str, str]


def growths_of(text: str, option: str = "--growth") -> tuple[int, ...]:
    """Return the factors of a list such as `1.0,1.5,2`, in thousandths.

    Raises:
        UsageError: not a factor, one given twice, or 0.
    """
    found: list[int] = []
    for part in text.split(","):
        action = parse_growth(part, option).steps[0].action
        assert isinstance(action, Growth)
        if action.factor_milli in found:
            raise UsageError(f"{option} {text}: {part.strip()} stands twice; keep one")
        if action.factor_milli == 0:
            raise UsageError(f"{option} {text}: without any work there is nothing to plan")
        found.append(action.factor_milli)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Planning:
    """A capacity plan that is ready to be computed, part by part.

    `cuts` are consecutive positions of the plan's HPAs (first, last); `limits`: sums of limits are
    wanted. No part depends on the quotas otherwise.
    """

    plan: ReplayPlan
    parameters: ReplayParameters
    options: CapacityOptions
    limits: bool
    cuts: tuple[tuple[int, int], ...]

    def part(self, number: int, progress: Progress = silent) -> Part:
        """Fit and run the HPAs of a part.

        Raises:
            HistoryError: a table cannot be read.
            UsageError: a scenario or a plant file that does not fit the history.
        """
        first, last = self.cuts[number]
        plan = narrow_plan(self.plan, range(first, last))

        def tell(message: str, share: float) -> None:
            progress(message, (first + share * (last - first)) / len(self.plan.chosen))

        def fitted(message: str, share: float) -> None:
            tell(message, _FIT_SHARE * share)

        loop = prepare_planned(plan, self.parameters, self.options.loop, self.plan, fitted)
        # (those that the plan left out are told once, not by each part)
        loop = replace(loop, skipped=loop.skipped[len(self.plan.skipped) :])
        limits: Mapping[Key, Requested] = {}
        if self.limits:
            found = requested_of(plan, plan.chosen, limits=True)
            limits = {key_of(c): found[c.target] for c in plan.chosen}
        tell("simulating without maxReplicas", _FIT_SHARE)
        return planned_part(loop, self.options.growths, self.options.loop, limits)


def prepare_planning(
    history: History,
    parameters: ReplayParameters,
    options: CapacityOptions,
    select: Select | None = None,
) -> Planning:
    """Return a capacity plan that is ready to be computed.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to plan.
        UsageError: an option or a scenario that does not fit, or clusters with several versions.
    """
    scenario = options.loop.scenario
    for step in scenario.steps if scenario is not None else ():
        if isinstance(step.action, SetBounds):
            raise UsageError(
                f"{step.place}: a plan is about today's bounds and none, so an edit of the HPA "
                "has no meaning in it; leave the step out, or use `hpabatch simulate`"
            )
    plan = plan_replay(history, parameters, None, select)
    plan.versions.one()
    count = len(plan.chosen)
    cuts = ((k, min(k + HPAS_AT_ONCE, count)) for k in range(0, count, HPAS_AT_ONCE))
    return Planning(plan, parameters, options, options.has_limits, tuple(cuts))


def joined_plan(planning: Planning, parts: Sequence[Part]) -> CapacityPlan:
    """Return the plan of all parts, in their order; frames are read when they are used.

    Raises:
        RefusedError: not one HPA could be simulated.
    """
    plan = planning.plan
    skipped, notes = [*plan.skipped], [*plan.warnings]
    guessed: dict[Key, bool] = {}
    without_ceiling: dict[Key, bool] = {}
    for _, record in parts:
        skipped += [Skipped(*row) for row in record["skipped"]]
        notes += record["notes"]
        for cluster, namespace, hpa, is_guess, is_assumed in record["assumed"]:
            guessed[cluster, namespace, hpa] = is_guess
            without_ceiling[cluster, namespace, hpa] = is_assumed
    place = plan.history.location
    notes += [*guesses_told(guessed, place), *ceilings_told(without_ceiling, place)]
    evidence = loop_evidence(plan, planning.options.loop)
    return summed(parts, planning.options, skipped, dict.fromkeys(notes), evidence)


def summed(
    parts: Sequence[Part],
    options: CapacityOptions,
    skipped: Iterable[Skipped],
    notes: Iterable[str],
    evidence: Mapping[str, str],
) -> CapacityPlan:
    """Return the plan of parts with the sums over their HPAs; raises as `joined_plan` does."""
    skipped = tuple(skipped)
    span = span_of([record["span"] for _, record in parts if record["span"] is not None])
    if span is None:
        told = skipped[0] if skipped else None
        why = f": {told.namespace}/{told.hpa}: {told.reason}" if told else ""
        raise RefusedError(f"no HPA of this history could be simulated{why}")
    hpas = pl.concat(frames[hpas_name(growth)] for growth in options.growths for frames, _ in parts)
    known = {*hpas.select("cluster", "namespace", "hpa").unique().rows()}
    known |= {(s.cluster, s.namespace, s.hpa) for s in skipped}
    summing = _Summing(options, Grid.of([span]), sorted(known))
    for growth_milli in options.growths:
        held = (frames[held_name(growth_milli)] for frames, _ in parts)
        summing.grow(growth_milli, (run for frame in held for run in held_runs(frame)))
    return CapacityPlan(
        hpas=hpas,
        totals=frame_of(summing.totals, PLAN_TOTALS.meanings),
        skipped=skipped,
        notes=(*notes, *summing.notes()),
        evidence={
            **evidence,
            "plan": "maxReplicas removed, by simulation; last spec in force all of the time",
            "growth": ", ".join(f"{g / 1000:g}" for g in options.growths),
            "quotas": str(len(options.quotas)),
        },
    )


class _Summing:
    """Adds up runs growth by growth, namespace by namespace, and keeps rows alone."""

    def __init__(self, options: CapacityOptions, grid: Grid, known: list[Key]) -> None:
        self.options, self.grid, self.known = options, grid, known
        self.totals: list[dict[str, object]] = []

    def grow(self, growth_milli: int, runs: Iterator[tuple[Mapping[str, Any], I64]]) -> None:
        """Add the runs of all HPAs under one growth, in their order."""
        fleet = Sums(self.grid)
        for cluster, of_cluster in groupby(runs, lambda run: str(run[0]["cluster"])):
            whole = Sums(self.grid)
            for namespace, of_space in groupby(of_cluster, lambda run: str(run[0]["namespace"])):
                space = Sums(self.grid)
                for row, values in of_space:
                    hold(space, row, values)
                self._total(growth_milli, space, cluster, namespace)
                whole.add(space)
            self._total(growth_milli, whole, cluster)
            fleet.add(whole)
        self._total(growth_milli, fleet)

    def notes(self) -> Iterator[str]:
        """Yield notes on quotas without an HPA."""
        places = {key[:2] for key in self.known}
        for quota in self.options.quotas:
            if quota.limits and not any(quota.is_for(*place) for place in places):
                yield f"{quota.place}: no HPA is in the namespace {quota.namespace}"

    def _total(self, growth_milli: int, sums: Sums, *place: str) -> None:
        """Add the rows of a scope: a namespace (cluster, namespace), a cluster or the fleet."""
        of = sum(key[: len(place)] == place for key in self.known)
        scope = ("fleet", "cluster", "namespace")[len(place)]
        names = (*place, None, None)[:2]
        limits = tightest(self.options.quotas, *place) if len(place) == 2 else {}
        resources = [PODS, CORES, GIB, *(r for r in (LIMIT_CORES, LIMIT_GIB) if r in limits)]
        resources += [MONEY] if self.options.loop.prices is not None else []
        for bounds in (TODAY, UNCLAMPED):
            for covers in ("all", "usable"):
                for resource in resources:
                    found = sums.covering(bounds, covers == "usable", resource)
                    # (of limits no hours are added up)
                    known = found.hpas and resource in _SUMMED
                    row = {
                        "growth": growth_milli / 1000,
                        "scope": scope,
                        "cluster": names[0],
                        "namespace": names[1],
                        "bounds": bounds,
                        "covers": covers,
                        "resource": resource,
                        "unit": self._unit(resource),
                        "hpas": found.hpas,
                        "of": of,
                        "run_total": found.run if known else None,
                        "month_total": found.month if known else None,
                    }
                    row |= spread(found, resource)
                    row |= judged(found, resource, limits.get(resource), self.grid)
                    self.totals.append(row)

    def _unit(self, resource: str) -> str:
        prices = self.options.loop.prices
        if resource == MONEY and prices is not None:
            return prices.prices.currency
        return AMOUNTS[resource][0]


_SUMMED = (*HOURS, MONEY)
