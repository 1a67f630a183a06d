"""Capacity plan: sizes without maxReplicas, their sums over HPAs, and the sums against quotas.

A recorded size at maxReplicas is only a lower bound of what was wanted. So every HPA is simulated
on its fitted work with maxReplicas removed, under each growth of the work. docs/plan.md defines
every number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from hpabatch.engine.capacity.rows import MONTH_HOURS, frame_of, hpa_row
from hpabatch.engine.capacity.runs import AS_RECORDED, TODAY, UNCLAMPED, Runs, Track, run_all
from hpabatch.engine.capacity.sums import AMOUNTS, MONEY, Grid, Sums, judged, spread
from hpabatch.engine.columns.capacity import PLAN_HPAS, PLAN_TOTALS
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import Select
from hpabatch.engine.fleet.requested import Requested, requested_of
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.result import with_advice, with_cost
from hpabatch.engine.simulate.run import Loop, LoopOptions, Progress, prepare_loop, silent
from hpabatch.engine.simulate.work import key_of
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import History
from hpabatch.inputs.scenarios import parse_growth
from hpabatch.model.quota import CORES, GIB, LIMIT_CORES, LIMIT_GIB, PODS, Quota, tightest
from hpabatch.model.scenario import Growth, SetBounds

Key = tuple[str, str, str]
_HOURS = {PODS: "pod_hours", CORES: "core_hours", GIB: "gib_hours"}


@dataclass(frozen=True, slots=True)
class CapacityOptions:
    """Growths in thousandths (`growths_of` reads them), quotas, and options of the simulation."""

    growths: tuple[int, ...] = (AS_RECORDED,)
    quotas: tuple[Quota, ...] = ()
    loop: LoopOptions = field(default_factory=LoopOptions)


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


def plan_capacity(
    history: History,
    parameters: ReplayParameters,
    options: CapacityOptions,
    select: Select | None = None,
    progress: Progress = silent,
) -> CapacityPlan:
    """Fit the workloads of a history and plan their HPAs.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to plan.
        UsageError: an option, a scenario or a plant file that does not fit the history.
        RefusedError: not one HPA could be simulated.
    """
    scenario = options.loop.scenario
    for step in scenario.steps if scenario is not None else ():
        if isinstance(step.action, SetBounds):
            raise UsageError(
                f"{step.place}: a plan is about today's bounds and none, so an edit of the HPA "
                "has no meaning in it; leave the step out, or use `hpabatch simulate`"
            )
    loop = prepare_loop(history, parameters, options.loop, select, progress)
    limits: Mapping[Key, Requested] = {}
    if any({LIMIT_CORES, LIMIT_GIB} & set(quota.limits) for quota in options.quotas):
        found = requested_of(loop.plan, loop.plan.chosen, limits=True)
        limits = {key_of(c): found[c.target] for c in loop.plan.chosen}
    return plan_loop(loop, options, limits, progress)


def plan_loop(
    loop: Loop,
    options: CapacityOptions,
    limits: Mapping[Key, Requested] | None = None,
    progress: Progress = silent,
) -> CapacityPlan:
    """Plan HPAs that are ready to be simulated; `limits` of a pod by HPA, where quotas are of them.

    Raises:
        RefusedError: there is none; the message tells why of the first that was skipped.
    """
    if not loop.cases:
        told = loop.skipped[0] if loop.skipped else None
        why = f": {told.namespace}/{told.hpa}: {told.reason}" if told else ""
        raise RefusedError(f"no HPA of this history could be simulated{why}")
    planning = _Planning(loop, options, limits or {}, progress)
    for growth_milli in options.growths:
        planning.grow(growth_milli)
    return CapacityPlan(
        hpas=frame_of(planning.hpas, PLAN_HPAS.meanings),
        totals=frame_of(planning.totals, PLAN_TOTALS.meanings),
        skipped=loop.skipped,
        notes=(*loop.plan.warnings, *loop.notes, *planning.notes()),
        evidence=loop.evidence
        | {
            "plan": "maxReplicas removed, by simulation; last spec in force all of the time",
            "growth": ", ".join(f"{g / 1000:g}" for g in options.growths),
            "quotas": str(len(options.quotas)),
        },
    )


class _Planning:
    """Runs HPAs growth by growth, namespace by namespace, and keeps rows and sums alone."""

    def __init__(
        self,
        loop: Loop,
        options: CapacityOptions,
        limits: Mapping[Key, Requested],
        progress: Progress,
    ) -> None:
        self.loop, self.options, self.limits, self.progress = loop, options, limits, progress
        self.cases: list[SimulationCase] = sorted(loop.cases, key=lambda case: case.key[:3])
        self.grid = Grid.of(self.cases)
        self.known = sorted(
            {c.key[:3] for c in self.cases}
            | {(s.cluster, s.namespace, s.hpa) for s in loop.skipped}
        )
        self.hpas: list[dict[str, object]] = []
        self.totals: list[dict[str, object]] = []
        self.done = 0

    def grow(self, growth_milli: int) -> None:
        """Plan all HPAs under one growth."""
        fleet, cluster, space = (Sums(self.grid) for _ in range(3))
        last: tuple[str, str] | None = None
        runs = run_all(
            self.cases, growth_milli, self.loop.plan.versions.one(), self.options.loop.seed
        )
        for found in runs:
            place = found.key[0], found.key[1]
            if last is not None and place != last:
                self._total(growth_milli, space, *last)
                cluster.add(space)
                space = Sums(self.grid)
                if place[0] != last[0]:
                    self._total(growth_milli, cluster, last[0])
                    fleet.add(cluster)
                    cluster = Sums(self.grid)
            last = place
            self._hpa(found, growth_milli, space)
        assert last is not None  # there are cases
        self._total(growth_milli, space, *last)
        cluster.add(space)
        self._total(growth_milli, cluster, last[0])
        fleet.add(cluster)
        self._total(growth_milli, fleet)

    def notes(self) -> Iterator[str]:
        """Yield notes on quotas without an HPA."""
        places = {key[:2] for key in self.known}
        for quota in self.options.quotas:
            if quota.limits and not any(quota.is_for(*place) for place in places):
                yield f"{quota.place}: no HPA is in the namespace {quota.namespace}"

    # ---- one HPA

    def _hpa(self, runs: Runs, growth_milli: int, space: Sums) -> None:
        """Add the row of an HPA, and what it holds to its namespace."""
        priced = with_cost(runs.measures, self.options.loop.prices)
        rows = {row["setting"]: row for row in with_advice(priced, self.loop).to_dicts()}
        reasons = [rows[UNCLAMPED]["why_not"], *self._endless(runs.tracks)]
        why_not = "; ".join(reason for reason in reasons if reason)
        self.hpas.append(hpa_row(runs, growth_milli, rows, why_not))
        pod = amounts_of(runs.tracks[TODAY].case.requested, self.limits.get(runs.key))
        for bounds in (TODAY, UNCLAMPED):
            track = runs.tracks[bounds]
            if bounds == UNCLAMPED and track.is_open:
                continue
            _hold(space, bounds, not why_not, track, pod, rows[bounds])
        self.done += 1
        share = self.done / (len(self.cases) * len(self.options.growths))
        self.progress("simulating without maxReplicas", share)

    def _endless(self, tracks: Mapping[str, Track]) -> Iterator[str]:
        """Yield why no maxReplicas would have sufficed."""
        track = tracks[UNCLAMPED]
        if track.has_no_end:
            yield (
                f"without maxReplicas it asks for ever more pods (beyond {track.ceiling:,}): its "
                "metric does not fall below the target however many there are"
            )
        elif track.rises:
            yield (
                f"at the end of the run it was still rising (at {track.highest:,}), held back by "
                "its scale-up rules alone"
            )

    # ---- sums

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


_SUMMED = (*_HOURS, MONEY)


def amounts_of(requested: Requested, limited: Requested | None = None) -> dict[str, int]:
    """Return what one pod holds: millicores and bytes (rounded up); what is not known is left out.

    `limited` None: limits are not asked for.
    """
    parts = {PODS: 1}
    for given, cores, memory in ((requested, CORES, GIB), (limited, LIMIT_CORES, LIMIT_GIB)):
        if given is not None and given.cpu_milli is not None:
            parts[cores] = given.cpu_milli
        if given is not None and given.memory_milli is not None:
            parts[memory] = -(-given.memory_milli // 1000)
    return parts


def _hold(
    space: Sums,
    bounds: str,
    usable: bool,
    track: Track,
    pod: Mapping[str, int],
    row: Mapping[str, float],
) -> None:
    """Add what an HPA's run holds, and costs, to its namespace."""
    months = MONTH_HOURS / row["hours"]
    first, held = space.grid.on(track.case, track.held)
    for resource, each in pod.items():
        hours = row[_HOURS[resource]] if resource in _HOURS else 0.0
        space.hold((bounds, usable, resource), first, held, each, hours, hours * months)
    if row["cost"] is not None:
        space.pay((bounds, usable, MONEY), row["cost"], row["cost"] * months)
