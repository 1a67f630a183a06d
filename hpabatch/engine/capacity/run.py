"""Capacity plan: sizes without maxReplicas, their sums over HPAs, and the sums against quotas.

A recorded size at maxReplicas is only a lower bound of what was wanted. So every HPA is simulated
on its fitted work with maxReplicas removed, under each growth of the work. docs/plan.md defines
every number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Final

import polars as pl

from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.capacity.runs import (
    AS_RECORDED,
    BOUNDS,
    FREE,
    PERCENTILES,
    TODAY,
    UNCLAMPED,
    run_all,
)
from hpabatch.engine.capacity.sums import MONTH_HOURS, totals_of
from hpabatch.engine.columns.capacity import PLAN_HPAS
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.parameters import ReplayParameters, replay_parameters
from hpabatch.engine.fleet.plan import ReplayPlan, narrow_plan, plan_replay
from hpabatch.engine.fleet.requested import Requested, requested_of
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.result import with_advice, with_cost
from hpabatch.engine.simulate.run import (
    KEY,
    Loop,
    LoopOptions,
    loop_evidence,
    prepare_planned,
    read_work,
)
from hpabatch.engine.simulate.work import (
    Key,
    ceilings_told,
    guesses_told,
    hangs_on_guess,
    has_no_ceiling,
)
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import History
from hpabatch.inputs.scenarios import Growth, SetBounds, parse_growth
from hpabatch.model.progress import Progress, silent
from hpabatch.model.quota import LIMIT_CORES, LIMIT_GIB, Quota

RUNS: Final = "runs"
Part = tuple[Mapping[str, pl.DataFrame], Mapping[str, Any]]
"""What is planned of some HPAs: the frame `RUNS`, and plain values.

A run is a row of `runs.run_all` with `growth`, cost, advice and what a pod is limited to. `assumed`
says by HPA whether its result hangs on a guessed kind, and on an assumed ceiling.
"""

HPAS_AT_ONCE = 16
"""HPAs of a part: some seconds of one core, their work (1.4 MB a signal and 30 days) in memory."""

_COUNTED: Final = (pl.col("setting") == TODAY) | (
    (pl.col("setting") == UNCLAMPED) & pl.col("endless").is_null()
)
"""Which runs are in sums."""

_FIT_SHARE = 0.5
"""Share of fitting in the work of a part, for progress."""


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


def growths_of(text: str) -> tuple[int, ...]:
    """Return the factors of a list such as `1.0,1.5,2`, in thousandths.

    Raises:
        UsageError: not a factor, one given twice, or 0.
    """
    found: list[int] = []
    for part in text.split(","):
        action = parse_growth(part, "--growth").steps[0].action
        assert isinstance(action, Growth)
        if action.factor_milli in found:
            raise UsageError(f"--growth {text}: {part.strip()} stands twice; keep one")
        if action.factor_milli == 0:
            raise UsageError(f"--growth {text}: without any work there is nothing to plan")
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
            limits = {c.key: found[c.target] for c in plan.chosen}
        tell("simulating without maxReplicas", _FIT_SHARE)
        return planned_part(loop, self.options.growths, self.options.loop, limits)


def planned_part(
    loop: Loop, growths: Sequence[int], options: LoopOptions, limits: Mapping[Key, Requested]
) -> Part:
    """Run HPAs that are ready to be simulated under each growth (thousandths) of their work.

    `limits` are those of a pod by HPA, where sums of them are asked for.
    """
    cases = sorted(loop.cases, key=lambda case: case.key[:3])
    frames = [pl.DataFrame()]
    for growth_milli in growths if cases else ():
        runs = run_all(cases, growth_milli, loop.plan.versions.one(), options.seed)
        runs = with_advice(with_cost(runs, options.prices), loop)
        known = [limits.get(key, Requested()) for key in runs.select(KEY).rows()]
        frames.append(
            runs.with_columns(
                pl.lit(growth_milli / 1000).alias("growth"),
                # (the changes of size of other runs are in no sum: they would only take memory)
                pl.when(_COUNTED).then(pl.col("ticks", "changes")),
                *(
                    pl.Series(f"limit_{name}", [getattr(one, name) for one in known], pl.Int64())
                    for name in Requested._fields
                ),
            )
        )
    assumed = [
        [*key, hangs_on_guess(facts), has_no_ceiling(facts)] for key, facts in loop.facts.items()
    ]
    skipped = [astuple(skipped) for skipped in loop.skipped]
    return {RUNS: pl.concat(frames[1:] or frames)}, {
        "skipped": skipped,
        "notes": loop.notes,
        "assumed": assumed,
    }


def prepare_planning(
    history: History,
    request: PlanRequest,
    quotas: Sequence[Quota] = (),
    files: Sequence[str] = (),
    limits: bool = False,
) -> Planning:
    """Return a capacity plan that is ready to be computed.

    Sums of limits are made where a quota is about them, or with `limits`. `files` are further ones
    that belong into the evidence.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to plan.
        UsageError: an option or a file that does not fit, or clusters with several versions.
    """
    options = CapacityOptions(
        growths_of(request.growth), tuple(quotas), read_work(request, files=files)
    )
    parameters, scenario = replay_parameters(request, events="decided"), options.loop.scenario
    for step in scenario.steps if scenario is not None else ():
        if isinstance(step.action, SetBounds):
            raise UsageError(
                f"{step.place}: a plan is about today's bounds and none, so an edit of the HPA "
                "has no meaning in it; leave the step out, or use `hpabatch simulate`"
            )
    plan = plan_replay(history, parameters, None, selection_of(request))
    plan.versions.one()
    count = len(plan.chosen)
    cuts = ((k, min(k + HPAS_AT_ONCE, count)) for k in range(0, count, HPAS_AT_ONCE))
    limits |= any({LIMIT_CORES, LIMIT_GIB} & set(quota.limits) for quota in quotas)
    return Planning(plan, parameters, options, limits, tuple(cuts))


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
    every = [frame for frames, _ in parts if (frame := frames[RUNS]).height]
    if not every:
        told = skipped[0] if skipped else None
        why = f": {told.namespace}/{told.hpa}: {told.reason}" if told else ""
        raise RefusedError(f"no HPA of this history could be simulated{why}")
    growths = [growth_milli / 1000 for growth_milli in options.growths]
    runs = pl.concat(part.filter(growth=growth) for growth in growths for part in every)
    hpas = _hpas(runs.drop("ticks", "changes"))
    known = {*hpas.select(KEY).rows(), *(one.key for one in skipped)}
    usable = hpas.select(*KEY, "growth", "usable")
    prices = options.loop.prices
    totals = totals_of(
        runs.filter(_COUNTED)
        .drop("usable")
        .join(usable, on=[*KEY, "growth"], maintain_order="left"),
        sorted(known),
        options.quotas,
        None if prices is None else prices.prices.currency,
    )
    places = {key[:2] for key in known}
    lost = [
        f"{quota.place}: no HPA is in the namespace {quota.namespace}"
        for quota in options.quotas
        if quota.limits and not any(quota.is_for(*place) for place in places)
    ]
    return CapacityPlan(
        hpas=hpas,
        totals=totals,
        skipped=skipped,
        notes=(*notes, *lost),
        evidence={
            **evidence,
            "plan": "maxReplicas removed, by simulation; last spec in force all of the time",
            "growth": ", ".join(f"{growth:g}" for growth in growths),
            "quotas": str(len(options.quotas)),
        },
    )


def _hpas(runs: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each HPA and growth."""
    keys = [*KEY, "growth"]
    found, unclamped, free = (runs.filter(setting=bounds) for bounds in BOUNDS)
    for name, frame in ((UNCLAMPED, unclamped), (FREE, free)):
        found = found.join(frame, on=keys, suffix=f"_{name}", maintain_order="left")
    both = ("saturated_minutes", "pod_hours", "cost")
    of_unclamped = (
        *(f"desired_{p}" for p in (*(f"p{p}" for p in PERCENTILES), "max")),
        *("outside_pct", "censored_pct"),
    )
    bounded, no_min = pl.col("endless_unclamped").is_null(), pl.col("endless_free").is_null()
    why_not = pl.concat_str(
        pl.col("why_not_unclamped").replace("", None),
        "endless_unclamped",
        separator="; ",
        ignore_nulls=True,
    )
    columns = {
        "start": pl.col("start_ms").cast(pl.Datetime("ms", "UTC")),
        **{name: pl.col(f"{name}_unclamped") for name in of_unclamped},
        "max_sufficient": pl.when(bounded).then("highest_unclamped"),
        "min_sufficient": pl.when(no_min).then("lowest_free"),
        "max_with_min": pl.when(no_min).then("highest_free"),
        "first_at_max": pl.col("first_at_max_ms").cast(pl.Datetime("ms", "UTC")),
        "at_max_minutes": pl.col("minutes_at_max"),
        "at_max_pct": 100.0 * pl.col("ticks_at_max") / pl.col("steps"),
        "held_minutes": pl.col("at_max_minutes"),
        **{f"{name}_unclamped": pl.col(f"{name}_unclamped") for name in both},
        "month": pl.col("cost") * MONTH_HOURS / pl.col("hours"),
        "month_unclamped": pl.col("cost_unclamped") * MONTH_HOURS / pl.col("hours_unclamped"),
        "min_outside_pct": pl.col("outside_pct_free"),
        "usable": why_not == "",
        "why_not": why_not,
    }
    return found.select(
        columns.get(name, pl.col(name)).alias(name) for name in PLAN_HPAS.names
    ).cast(PLAN_HPAS.schema)
