"""Answer for a unit in words: change, keep or no advice, with what speaks against relying on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final, NamedTuple

import numpy as np

from hpabatch.engine.advise.bounds import Bounds, has_no_more_pods, parse_bounds
from hpabatch.engine.advise.confidence import LOW, MEDIUM, Doubt
from hpabatch.engine.advise.judge import TODAY, Judged, choose
from hpabatch.engine.advise.objective import SATURATED, Goal, parse_goal
from hpabatch.engine.advise.request import JudgeRules, RecommendRequest
from hpabatch.engine.advise.specs import Specs
from hpabatch.engine.advise.standing import beats, only_modelled, saving_pct, tightest
from hpabatch.engine.advise.unit import (
    KEY,
    MOST_OUTSIDE,
    OUTSIDE_SHARE,
    Key,
    UnitBlocks,
    key_of,
)
from hpabatch.engine.fit.workload import BASE_TAKEN
from hpabatch.engine.simulate.result import CENSORED_WORDS, OUTSIDE_WORDS
from hpabatch.engine.sweep.result import SweepResult, grid_edges
from hpabatch.model.lens import Lens, lenses_of_spec, ratio_words
from hpabatch.model.objects.hpa import HPASpec

CHANGE: Final = "change"
KEEP: Final = "keep"
NONE: Final = "no advice"
_DAY_MS: Final = 86_400_000
STATED_BASE: Final = "its base stated in a plant file (`hpabatch fit --init-plant`)"
RARE_WORDS: Final = "beyond 99 % of the recorded minutes"
MOST_USED: Final = {KEEP: 0.5, CHANGE: 0.2}
"""Share of an SLO's limit above which a setting's use of it in the worst stretch is a doubt."""
_STEADY: Final = 1.2
"""Times the mean that a worst stretch may be, for a measure that is much the same in all."""
_OWN_DOUBTS: Final = (OUTSIDE_WORDS, CENSORED_WORDS)
_NEARLY: Final = 0.5
"""Share of the least saving that makes a setting worth a doubt in "keep"."""


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
    return RecommendOptions(
        goal=parse_goal(request.slo, request.minimize, result.blocks),
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
        known = {key_of(row): row["problems"] for row in result.hpas.iter_rows(named=True)}
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


class Answer(NamedTuple):
    """What is advised for a unit: its reasons, and the doubts of the judging."""

    answer: str
    reasons: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()


def answer(found: Judged, facts: Facts) -> Answer:
    """Return the answer for a unit."""
    lacking = tuple(_lacking(found, facts))
    if lacking:
        return Answer(NONE, lacking)
    if found.choice is None:
        return Answer(NONE, (_none_holds(found, facts),))
    if found.choice == TODAY:
        return _kept(found, facts, _why_keep(found, facts))
    against, rules = _against(found, facts), facts.options.rules
    if against:
        return _kept(found, facts, against)
    sure = found.resampled
    if sure is not None and sure.better_share < rules.least_better:
        return _kept(
            found,
            facts,
            f"too uncertain: {_name(found, found.choice, facts)} is better than today's in only "
            f"{sure.better_share:.0%} of the resamples of the training blocks (less than "
            f"{rules.least_better:.0%})",
        )
    doubts = (
        *_unreliable(found, facts),
        *_modelled_worse(found, facts),
        *_outside(found, facts),
        *_tight(found, found.choice, facts),
        *_unsteady(found, facts),
        *_little(found, facts),
    )
    return Answer(CHANGE, (_why_change(found, facts),), doubts)


def _kept(found: Judged, facts: Facts, why: str) -> Answer:
    """Return "keep" where today's setting holds the SLO all along, else no advice."""
    robust, labels = facts.options.rules.robust, _labels(found.unit)
    for stands, where in ((found.trained, "training"), (found.judged, "judged")):
        if not stands.holds(robust)[TODAY]:
            worst = tightest(stands, TODAY, labels, robust)
            broken = f"today's setting breaks the SLO on the {where} blocks: {worst}"
            return Answer(NONE, (why, broken) if found.choice != TODAY else (broken,))
    doubts, reasons = [*_unreliable(found, facts), *_tight(found, TODAY, facts)], [why]
    if facts.baseless & set(found.unit.members):
        why = "its base is not known, and with one settings with fewer pods may save more"
        doubts.append(Doubt(LOW, why, STATED_BASE))
    if found.choice != TODAY:
        remedy = "more weeks of history"
        doubts.append(Doubt(LOW, "another setting may be better than today's", remedy))
    else:
        passed = list(_passed_over(found, facts))
        doubts += passed
        reasons += [f"but {doubt.why}" for doubt in passed[:1]]
    # (one crowded week refutes it: against known plants "keep" was right less often than a change)
    doubts.append(Doubt(MEDIUM, "that nothing saves enough rests on the runs of all settings"))
    return Answer(KEEP, tuple(reasons), tuple(doubts))


def _passed_over(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield doubts in "keep": settings that save enough, against which little is certain."""
    rules, blocks = facts.options.rules, slice(0, found.split)
    easy = replace(rules, margin=0.0)
    best = choose(found.unit, found.trained, easy, found.allowed, blocks)
    less = replace(rules, least_saving_pct=rules.least_saving_pct * _NEARLY)
    nearly = choose(found.unit, found.trained, less, found.allowed, blocks)
    if best not in (None, TODAY):
        yield Doubt(
            MEDIUM,
            f"{_name(found, best, facts)} saves enough and only leaves less than {rules.margin:.0%}"
            " of the SLO free",
            "a wider SLO, or a smaller --margin",
        )
    elif nearly not in (None, TODAY):
        objective = found.trained.objective
        saved = saving_pct(float(objective[nearly]), float(objective[TODAY])) or 0.0
        yield Doubt(
            LOW,
            f"{_name(found, nearly, facts)} holds the SLO and saves {saved:.1f}%, just less than "
            f"{rules.least_saving_pct:g}%",
            "a smaller --least-saving",
        )
    best = choose(found.unit, found.trained, easy, found.possible, blocks)
    if best not in (None, TODAY) and not found.allowed[best]:
        yield Doubt(
            LOW,
            f"{_name(found, best, facts)} may save enough: it asks pods for usage {RARE_WORDS}",
            "a time with a higher target, in small steps",
        )
    # (every other limit still counts, and so does one of saturation where a ceiling is known)
    unlimited = found.trained.without(SATURATED, found.unit.is_open)
    best = choose(found.unit, unlimited, easy, found.possible, blocks)
    if best not in (None, TODAY) and found.unit.is_open.any():
        yield Doubt(
            LOW,
            f"{_name(found, best, facts)} may save enough: only assumed ceilings speak against it",
            "limits of its pods recorded, or a ceiling stated in a plant file (--plant)",
        )


def _unreliable(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield the runs of today's setting and of the choice that cannot be relied on."""
    for key in found.unit.members:
        for place in dict.fromkeys((TODAY, found.considered)):
            why = facts.unusable.get((key, int(found.unit.settings[place])))
            if why:
                whose = f"{key[1]}/{key[2]} under {_name(found, place, facts)}"
                yield Doubt(LOW, f"the run of {whose} cannot be relied on: {why}")


def _modelled_worse(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield that more pods may do less than is modelled: what each uses by itself is taken as 0."""
    setting_id = int(found.unit.settings[found.considered])
    for key in found.unit.members:
        specs = facts.specs.today(key), facts.specs.under(key, setting_id)
        if key in facts.baseless and not all(
            has_no_more_pods(*specs, flags) for flags in facts.specs.flags
        ):
            yield Doubt(
                LOW,
                f"its base is not known, and with one the pods that "
                f"{_name(found, found.considered, facts)} adds do less than is modelled",
                STATED_BASE,
            )


def _outside(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield how much of the time the choice asks pods for what they were never seen to do."""
    share = float(found.unit.outside_share(slice(None))[found.considered])
    # (up to a known ceiling the model says what pods do: that was right where it was checked)
    if share > (OUTSIDE_SHARE if found.unit.is_open.any() else MOST_OUTSIDE):
        yield Doubt(
            MEDIUM,
            f"for {share:.0%} of the time {_name(found, found.considered, facts)} asks pods for "
            f"usage {RARE_WORDS}",
            "a time with a higher target, in small steps",
        )


def _tight(found: Judged, place: int, facts: Facts) -> Iterator[Doubt]:
    """Yield that much of the SLO is used in the worst stretch, and others were not like it.

    A few weeks do not show the worst one. A change leaves medium then, "keep" low.
    """
    worst = max(float(s.pressure("worst")[place]) for s in (found.trained, found.judged))
    parts = (found.split, found.unit.blocks - found.split)
    mean = np.average(
        [float(s.pressure("mean")[place]) for s in (found.trained, found.judged)], weights=parts
    )
    keeps = place == TODAY
    if worst > MOST_USED[KEEP if keeps else CHANGE] and worst > _STEADY * mean:
        yield Doubt(
            LOW if keeps else MEDIUM,
            f"{_name(found, place, facts)} uses {worst:.0%} of the SLO in the worst "
            f"{facts.block_unit} and {mean:.0%} on average: a worse one may break it",
            "a wider SLO" if keeps else "a wider SLO, or a larger --margin",
        )


def _unsteady(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield what the resamples and the walk-forward say against a change."""
    if found.resampled is None:
        why = "one training block says nothing about how much weeks differ"
        yield Doubt(MEDIUM, why, "more weeks of history")
    changed = [fold for fold in found.folds if fold.choice not in (None, TODAY)]
    if not changed:
        why = "no choice made on earlier blocks was a change that a later one could confirm"
        yield Doubt(MEDIUM, why, "more weeks of history")
    missed = [fold for fold in changed if not fold.better]
    if missed:
        yield Doubt(
            LOW if 2 * len(missed) > len(changed) else MEDIUM,
            f"in {len(missed)} of {len(changed)} blocks a choice made before was no better there",
            "more weeks of history",
        )


def _little(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield that a change saves less on the judged blocks than is worth one."""
    if not found.judged.holds(facts.options.rules.robust)[TODAY]:
        return
    objective, least = found.judged.objective, facts.options.rules.least_saving_pct
    saved = saving_pct(float(objective[found.considered]), float(objective[TODAY]))
    if saved is not None and saved < least:
        yield Doubt(
            MEDIUM,
            f"on the judged blocks it saves {saved:.1f}%, less than {least:g}%",
            "more weeks of history",
        )


def _lacking(found: Judged, facts: Facts) -> Iterator[str]:
    """Yield the unknown quantities that advice needs."""
    names = facts.options.goal.minimize
    if np.isnan(found.trained.objective[TODAY]) or np.isnan(found.judged.objective[TODAY]):
        yield f"{names} is not known"
    for measure in found.trained.unknown():
        yield f"{measure} is not known of every HPA here, so the SLO cannot be checked"


def _none_holds(found: Judged, facts: Facts) -> str:
    rules = facts.options.rules
    worst = tightest(found.trained, found.closest, _labels(found.unit), rules.robust)
    margin = f" with {rules.margin:.0%} of it left free" if rules.margin else ""
    return (
        f"no setting within the bounds holds the SLO on the training blocks{margin}; the closest "
        f"is {_name(found, found.closest, facts)}: {worst}"
    )


def _against(found: Judged, facts: Facts) -> str:
    """Return what the judged blocks say against the choice; "": nothing."""
    choice, robust = found.choice, facts.options.rules.robust
    assert choice is not None
    name = _name(found, choice, facts)
    held = found.judged.holds(robust)
    if not held[choice]:
        worst = tightest(found.judged, choice, _labels(found.unit), robust)
        told = f"{name}, chosen on the training blocks, breaks the SLO on the judged ones: {worst}"
        asked = {slo.measure for slo in facts.options.goal.slos}
        if SATURATED in asked and found.unit.is_open.any():
            told += "; without a known ceiling what today's setting does counts as good enough"
        return told
    dearer = found.trained.objective[choice] > found.trained.objective[TODAY]
    if dearer and not found.trained.holds(robust)[TODAY]:
        parts = (slice(0, found.split), slice(found.split, None))
        broken = only_modelled(found.unit, facts.options.goal, parts, facts.block_unit, robust)
        if broken:
            return (
                f"{name} costs more, and today's setting breaks {' and '.join(broken)} by the "
                "model alone: by the recording it holds"
            )
    value, today = float(found.judged.objective[choice]), float(found.judged.objective[TODAY])
    if beats(bool(held[choice]), value, bool(held[TODAY]), today):
        return ""
    goal = facts.options.goal.minimize
    before = ", and today's, which broke the SLO on the training blocks, holds it there"
    before = "" if found.trained.holds(robust)[TODAY] else before
    return (
        f"{name} is not better than today's on the judged blocks: {goal} {value:,.4g} "
        f"instead of {today:,.4g}{before}"
    )


def _why_keep(found: Judged, facts: Facts) -> str:
    least = facts.options.rules.least_saving_pct
    return (
        "no other candidate holds the SLO and saves "
        f"{least:g}% of {facts.options.goal.minimize} or more on the training blocks"
    )


def _why_change(found: Judged, facts: Facts) -> str:
    choice, rules = found.choice, facts.options.rules
    assert choice is not None
    goal = facts.options.goal.minimize
    saved = saving_pct(float(found.judged.objective[choice]), float(found.judged.objective[TODAY]))
    text = "it holds the SLO" if facts.options.goal.slos else "it does better"
    broken = [s for s in (found.judged, found.trained) if not s.holds(rules.robust)[TODAY]]
    if broken:
        worst = tightest(broken[0], TODAY, _labels(found.unit), rules.robust)
        text += f", which today's breaks ({worst}),"
    if saved is None:
        return text
    way = f"{saved:.1f}% less" if saved >= 0 else f"{-saved:.1f}% more"
    return f"{text} on blocks it was not chosen on, with {way} {goal}"


def notes(found: Judged, why_not: Sequence[str], facts: Facts) -> Iterator[str]:
    """Yield what the grid leaves open: a choice at its edge, and a better one that is refused.

    That is the setting that would have been chosen if every setting were a candidate.
    """
    rules = facts.options.rules
    if found.choice is not None:
        for edge in facts.edges[facts.specs.names[int(found.unit.settings[found.choice])]]:
            yield f"{edge} is the edge of the grid: a wider grid may have a better setting"
    everything = np.ones(found.unit.settings.size, dtype=bool)
    best = choose(found.unit, found.trained, rules, everything, slice(0, found.split))
    if best is None or best == found.choice or not why_not[best]:
        return
    value = float(found.trained.objective[best])
    saved = saving_pct(value, float(found.trained.objective[TODAY]))
    much = "" if saved is None else f" ({saved:.1f}% less than today's on the training blocks)"
    yield f"compared only: {_name(found, best, facts)}{much}: {why_not[best]}"


def relative_notes(key: Key, today: HPASpec, result: SweepResult) -> tuple[str, ...]:
    """Return which of an HPA's targets its advice is relative to: their scale is not known."""
    ratios = [Lens(**found) for found in result.parameters.get("lens_ratios", ())]
    return tuple(
        f"relative to today's target: {ratio_words(lens)}, which the recording cannot tell apart"
        for lens in lenses_of_spec(ratios, key[0], today)
    )


def _name(found: Judged, place: int | None, facts: Facts) -> str:
    assert place is not None
    name = facts.specs.names[int(found.unit.settings[place])]
    return "today's setting" if place == TODAY else name


def _labels(unit: UnitBlocks) -> list[str]:
    return [f"{namespace}/{hpa}" for _, namespace, hpa in unit.members]
