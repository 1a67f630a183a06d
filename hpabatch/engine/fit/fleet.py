"""Fits of a fleet: what is known of each HPA's workload, with what plant files state put in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hpabatch.engine.fit.kinds import Question
from hpabatch.engine.fit.overrides import Draws, override, plan_overrides
from hpabatch.engine.fit.run import Fit, fit_history
from hpabatch.engine.fit.workload import Fact
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, See, Select, as_recorded, plan_replay
from hpabatch.errors import RefusedError
from hpabatch.history.reader import History
from hpabatch.inputs.plants import PlantOverride


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


def fit_fleet(
    history: History,
    parameters: ReplayParameters,
    overrides: Sequence[PlantOverride],
    select: Select | None,
    progress: Callable[[str, float], None],
    see: See = as_recorded,
) -> FleetFit:
    """Fit the workloads of a history, seen through lenses; one shard of samples is in memory.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to fit.
        UsageError: an entry of a plant file matches nothing.
    """
    progress("planning", 0.0)
    plan = see(plan_replay(history, parameters, None, select))
    found = []
    for fitted in fit_plan(plan, overrides):
        found.append(fitted)
        progress("fitting workloads", len(found) / len(plan.chosen))
    return fleet_fit(plan, found)


def fit_plan(plan: ReplayPlan, overrides: Sequence[PlantOverride]) -> Iterator[Fitted]:
    """Yield what is known of each HPA of a plan, in its order; errors as of `fit_fleet`."""
    chosen = plan_overrides(overrides, plan.chosen, plan.everyone)
    for fitted, entries in zip(fit_history(plan, overrides), chosen, strict=True):
        yield _fitted(fitted, entries)


def fleet_fit(plan: ReplayPlan, found: Sequence[Fitted]) -> FleetFit:
    """Return the fits of all HPAs of a plan as one."""
    # Budgets of policies have no part in a fit.
    evidence = {name: text for name, text in plan.evidence.items() if name != "events"}
    warnings = (*plan.history.warnings, *plan.warnings)
    return FleetFit(tuple(found), tuple(plan.skipped), warnings, evidence)


def _fitted(found: Fit, entries: Sequence[PlantOverride]) -> Fitted:
    """Return what is known of a fit, with what is stated of its pods and pipelines put in."""
    candidate, facts, problems = found.candidate, found.facts, found.problems
    has_plant = found.workload is not None
    if found.workload is not None and entries:
        name = f"{candidate.namespace}/{candidate.name}"
        try:
            _, given = override(found.workload.plant, entries, Draws(0, name, 0))
        except RefusedError as error:
            has_plant, problems = False, (*problems, str(error))
        else:
            names = {fact.name for fact in given}
            facts = (*(f for f in facts if f.name not in names), *given)
    return Fitted(
        candidate.cluster,
        candidate.namespace,
        candidate.name,
        has_plant,
        facts,
        problems,
        found.questions,
    )
