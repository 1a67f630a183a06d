"""Inputs of judging: options, specs, and the runs that cannot be relied on."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

from hpabatch.engine.advise.bounds import Bounds, parse_bounds
from hpabatch.engine.advise.judge import TODAY, Judged
from hpabatch.engine.advise.objective import Goal, ObjectiveError, parse_goal
from hpabatch.engine.advise.request import DEFAULT_SLO, JudgeRules, RecommendRequest
from hpabatch.engine.advise.specs import Specs
from hpabatch.engine.advise.unit import KEY, UnitBlocks, key_of
from hpabatch.engine.fit.workload import BASE_TAKEN
from hpabatch.engine.simulate.result import CENSORED_WORDS, OUTSIDE_WORDS
from hpabatch.engine.sweep.result import SweepResult, grid_edges
from hpabatch.errors import HpabatchError, UsageError

_DAY_MS: Final = 86_400_000
_OWN_DOUBTS: Final = (OUTSIDE_WORDS, CENSORED_WORDS)


@dataclass(frozen=True, slots=True)
class RecommendOptions:
    """What is asked for.

    `recommender` "random" picks any candidate without asking what it is worth: a yardstick for the
    other one. Changes of confidence `accept` or better are written. `sweep` is a digest of the
    sweep's files and `objects` one of the cluster's objects, for the certificates.
    """

    goal: Goal
    rules: JudgeRules = field(default_factory=JudgeRules)
    bounds: Bounds = field(default_factory=lambda: parse_bounds(()))
    min_history_days: float = RecommendRequest.min_history_ms / _DAY_MS
    accept: str = RecommendRequest.accept
    recommender: str = "judged"
    sweep: str = ""
    objects: str = ""
    instance_label: str = RecommendRequest.instance_label


def options_of(request: RecommendRequest, result: SweepResult, sweep: str = "") -> RecommendOptions:
    """Return what a request means for a sweep; `sweep` is a digest of its files.

    Raises:
        UsageError: a limit, a measure or a bound that there is not.
    """
    try:
        goal = parse_goal(request.slo, request.minimize, result.blocks)
    except ObjectiveError as error:
        if request.slo != DEFAULT_SLO:
            raise
        raise UsageError(
            f"{error} (--slo {DEFAULT_SLO[0]} is the default): name a limit of your own, such as "
            "--slo 'short_pod_hours<10/week' or --slo 'rescales<40/day', or --slo none"
        ) from None
    return RecommendOptions(
        goal=goal,
        rules=JudgeRules(**{f.name: getattr(request, f.name) for f in fields(JudgeRules)}),
        bounds=parse_bounds(request.bound),
        min_history_days=request.min_history_ms / _DAY_MS,
        accept=request.accept,
        recommender=request.recommender,
        sweep=sweep,
        instance_label=request.instance_label,
    )


class Facts:
    """Options, specs and unreliable runs that every unit is judged with."""

    def __init__(self, result: SweepResult, options: RecommendOptions, specs: Specs) -> None:
        """Keep the inputs, and find the runs that cannot be relied on."""
        self.options, self.specs = options, specs
        self.block_unit = str(result.parameters["block"]["unit"])
        self.edges = grid_edges(result.settings)
        refused = result.results.filter(~result.results["usable"])
        names = (*KEY, "setting_id", "why_not")
        rows = refused.select(names).iter_rows()
        rows_of = {key_of(row): row for row in result.hpas.iter_rows(named=True)}
        known = {key: row["problems"] for key, row in rows_of.items()}
        self.base_shares = {key: row.get("base_share") or 0.0 for key, row in rows_of.items()}
        told = (
            ((c, n, h), setting_id, _unlike(why, known.get((c, n, h)) or ""))
            for c, n, h, setting_id, why in rows
        )
        self.unusable = {(key, setting_id): why for key, setting_id, why in told if why}
        self.baseless = frozenset(key for key, why in known.items() if base_taken(why or ""))


def base_taken(problems: str) -> bool:
    """Say whether all that is wrong with an HPA's model is that its base is taken as 0."""
    return all(part.startswith(BASE_TAKEN) for part in problems.split("; "))


def _unlike(why: str, problems: str) -> str:
    """Return why a run cannot be relied on, without what is a doubt of the HPA's own."""
    left = why.removeprefix(problems).split("; ")
    return "; ".join(part for part in left if part and not any(o in part for o in _OWN_DOUBTS))


def name_of(found: Judged, place: int | None, facts: Facts) -> str:
    """Return what a unit's setting changes, its name where its HPAs differ in that."""
    assert place is not None
    if place == TODAY:
        return "today's setting"
    setting_id = int(found.unit.settings[place])
    try:
        changes = {", ".join(facts.specs.changes(key, setting_id)) for key in found.unit.members}
    except HpabatchError:  # (a setting that does not fit is named where that is told)
        changes = set()
    only = changes.pop() if len(changes) == 1 else ""
    return only or facts.specs.names[setting_id]


def labels_of(unit: UnitBlocks) -> list[str]:
    """Return `namespace/name` of a unit's HPAs."""
    return [f"{namespace}/{hpa}" for _, namespace, hpa in unit.members]
