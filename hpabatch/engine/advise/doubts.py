"""Doubts about an answer: which confidence each leaves, why, and what would raise it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.advise.bounds import Bounds, has_no_more_pods, parse_bounds
from hpabatch.engine.advise.judge import TODAY, Judged, choose, saving_pct
from hpabatch.engine.advise.objective import (
    SATURATED,
    Goal,
    ObjectiveError,
    parse_goal,
    short_number,
)
from hpabatch.engine.advise.request import (
    CONFIDENCES,
    DEFAULT_SLO,
    HIGH,
    LOW,
    MEDIUM,
    JudgeRules,
    RecommendRequest,
)
from hpabatch.engine.advise.specs import Specs
from hpabatch.engine.advise.unit import (
    AT_MAX,
    KEY,
    MOST_OUTSIDE,
    OUTSIDE_SHARE,
    TODAY_ID,
    Key,
    UnitBlocks,
    key_of,
    unit_blocks,
)
from hpabatch.engine.fidelity.answer import UNTOLD, WRONG
from hpabatch.engine.fit.pods import STARTS, TOTALS
from hpabatch.engine.fit.workload import BASE_TAKEN, OPEN
from hpabatch.engine.simulate.result import CENSORED_PCT, CENSORED_WORDS, OUTSIDE_WORDS
from hpabatch.engine.sweep.result import SweepResult, grid_edges
from hpabatch.errors import HpabatchError, UsageError
from hpabatch.inputs.lenses import Lens, lenses_of_spec, words_of
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import HPASpec


class Doubt(NamedTuple):
    """Something that speaks against relying on an answer.

    Attributes:
        most: the highest confidence that it leaves.
        why: what it is, in a sentence of under 100 characters.
        remedy: what would make the answer surer; "": nothing that a user can do.
        detail: names and words that the sentence leaves out; "": none.
    """

    most: str
    why: str
    remedy: str = ""
    detail: str = ""

    @property
    def long(self) -> str:
        """The sentence with its detail."""
        return f"{self.why}: {self.detail}" if self.detail else self.why


def confidence_of(doubts: Iterable[Doubt]) -> str:
    """Return the confidence that all doubts leave; without any it is high."""
    return max((doubt.most for doubt in doubts), key=CONFIDENCES.index, default=HIGH)


def weighed(doubts: Iterable[Doubt]) -> tuple[Doubt, ...]:
    """Return each doubt once, those that lower the confidence most first."""
    return tuple(sorted(dict.fromkeys(doubts), key=lambda doubt: -CONFIDENCES.index(doubt.most)))


def remedies(doubts: Sequence[Doubt]) -> list[str]:
    """Return what would raise the confidence: of those doubts alone that hold it where it is."""
    lowest = confidence_of(doubts)
    return list(dict.fromkeys(d.remedy for d in doubts if d.most == lowest and d.remedy))


def accepted(accept: str) -> tuple[str, ...]:
    """Return the confidences from the highest down to one."""
    return CONFIDENCES[: CONFIDENCES.index(accept) + 1]


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


SATURATION: Final = frozenset({SATURATED, "unserved", "waiting"})
"""Measures that depend on where a pod's usage is cut off."""

KNOWN_CEILINGS: Final = frozenset({"recorded", "given"})
MOST_BASE_SHARE: Final = 1 / 3
"""Of a pod's usage, and so of a saving by fewer pods: a larger fitted base leaves medium."""
USUAL_SKILL: Final = 0.6
"""Of 26 simulated workloads that follow the model, 25 had a higher skill."""
MOST_RESCALES_OFF: Final = 0.5
"""Of the recorded rescales: a model that is off by more leaves medium."""
FEWEST_RESCALES: Final = 20.0
"""Recorded ones below which being off says little."""

MOST_CENSORED_PCT: Final = 10.0
"""Above this share of work that is only a lower bound confidence is low."""


def refused(result: SweepResult, goal: Goal) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield the HPAs that get no advice under any setting, and why."""
    swept = set(result.blocks.select(KEY).unique().iter_rows())
    for row in result.hpas.iter_rows(named=True):
        key, reasons = key_of(row), [*refusals(row), *ceiling_doubts(row, goal)]
        if key not in swept:
            reasons.append("the sweep has nothing of it")
        if reasons:
            yield key, tuple(reasons)


def prospects(result: SweepResult, options: RecommendOptions) -> dict[Key, str | None]:
    """Return by HPA the highest confidence that an answer can have; None: there is no advice.

    What speaks against a single setting is known only when one is chosen.

    Raises:
        HistoryError: the sweep is not whole.
    """
    none = {key for key, _ in refused(result, options.goal)}
    rows = {key_of(row): row for row in result.hpas.iter_rows(named=True)}
    found: dict[Key, str | None] = dict.fromkeys(rows)
    today = replace(result, blocks=result.blocks.filter(pl.col("setting_id") == TODAY_ID))
    for _, unit in unit_blocks(today, none):
        specs = {k: default_spec(hpa_from_json(rows[k]["spec"])[0].spec) for k in unit.members}
        own = unit_doubts(unit, rows, specs, result.parameters, options)
        found |= dict.fromkeys(unit.members, confidence_of(own))
    return found


def unit_doubts(
    unit: UnitBlocks,
    rows: Mapping[Key, Mapping[str, Any]],
    today: Mapping[Key, HPASpec],
    told: Mapping[str, Any],
    options: RecommendOptions,
    *,
    lifts: bool = False,
) -> list[Doubt]:
    """Return what lowers the confidence in any answer on a unit, whatever setting it is.

    Args:
        unit: its blocks.
        rows: the rows of a sweep's `hpas`.
        today: the specs of its HPAs, defaults filled in.
        told: parameters of the sweep.
        options: what is asked for.
        lifts: the answer lifts maxReplicas, so more work than is known speaks for it, too, and
            time at maxReplicas.
    """
    scored = bool((told.get("request") or {}).get("fidelity"))
    own = [
        doubt
        for key in unit.members
        for doubt in (*doubts(rows[key], options, scored=scored), *_censored(rows[key], lifts))
    ]
    own += [*rescales_off(unit), *contradictions(unit, options.goal)]
    if not lifts and AT_MAX in unit.values and unit.stood_at_max and unit.is_open.any():
        why = "at maxReplicas its metrics asked for more, and how much its pods can do is not known"
        own.append(Doubt(LOW, why, "limits of its pods recorded, or a larger maxReplicas"))
    return [*own, *lens_doubts(unit, today, told)]


def refusals(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the scores of an HPA allow no advice, by its row of a sweep or of `fidelity`."""
    if row["controller_answer"] == WRONG:
        yield f"fidelity: {row['why_not']}"
    if row["plant_skill_high"] is not None and row["plant_skill_high"] < 0:
        yield (
            f"plant: its model predicts usage worse than no model does (skill "
            f"{row['plant_skill']:.2f}, at most {row['plant_skill_high']:.2f})"
        )


def doubts(row: Mapping[str, Any], options: RecommendOptions, *, scored: bool) -> Iterator[Doubt]:
    """Yield what lowers the confidence in any answer on an HPA, by its row of a sweep's `hpas`.

    `scored`: the sweep was asked for fidelity scores.
    """
    if not options.goal.slos:
        why = f"nothing limits what least {options.goal.minimize} does to users: there is no --slo"
        yield Doubt(LOW, why, "a limit that must hold (--slo 'saturated_minutes<10/week')")
    yield from score_doubts(row, scored=scored)
    yield from _history(row, options)
    if row["ceiling"] == OPEN and SATURATED in {slo.measure for slo in options.goal.slos}:
        yield Doubt(
            MEDIUM,
            "ceiling assumed: no limit of its pods is known, so saturation is judged over a range "
            "of ceilings",
            "limits of its pods recorded, or a ceiling stated in a plant file (--plant)",
        )


def score_doubts(row: Mapping[str, Any], *, scored: bool = True) -> Iterator[Doubt]:
    """Yield what the scores leave open of an HPA, by its row of a sweep or of `fidelity`."""
    yield from _controller(row, scored)
    yield from _plant(row)


def _controller(row: Mapping[str, Any], scored: bool) -> Iterator[Doubt]:
    answer, unknown = row["controller_answer"], "whether these are the controller's settings"
    if answer is None and scored:
        yield Doubt(
            LOW,
            f"the recording gives no fidelity score: {unknown} is not known",
            "a history with ticks and samples of this HPA (`hpabatch fidelity` says what it lacks)",
        )
    elif answer is None:
        why = f"fidelity was not measured: {unknown} is not known"
        yield Doubt(LOW, why, "a sweep without --no-fidelity")
    elif answer == UNTOLD:
        yield Doubt(
            MEDIUM,
            "whether the stated settings are the controller's cannot be told from this recording",
            "samples at a shorter interval, or a longer history with more rescales "
            "(`hpabatch fidelity` says which settings look alike)",
        )


def _plant(row: Mapping[str, Any]) -> Iterator[Doubt]:
    if row.get("problems"):  # (no column of `fidelity`)
        # (what that means for an answer hangs on the setting: see `answer`)
        most = MEDIUM if base_taken(row["problems"]) else LOW
        own = row["problems"].startswith("plant ")
        first, _, details = row["problems"].partition(": " if own else "; ")
        remedy = f"{STATED_BASE}, or more changes of size recorded"
        yield Doubt(most, first if own else f"plant: {first}", remedy, details)
    if row["plant_unscored"] is not None:
        why, remedy = "plant: not checked against the recording", "more changes of size recorded"
        yield Doubt(MEDIUM, why, remedy, row["plant_unscored"])
    elif row["plant_why_not"] is not None:
        why = "plant: it does not predict the recorded usage well"
        yield Doubt(MEDIUM, why, STATED_BASE, row["plant_why_not"])
    elif row["plant_skill"] is not None and row["plant_skill"] < USUAL_SKILL:
        skill = f"skill {row['plant_skill']:.2f} (1: perfect)"
        why = f"plant: {skill}; a right model has {USUAL_SKILL:g} or more"
        yield Doubt(MEDIUM, why, STATED_BASE)
    share = row.get("base_share")
    if share is not None and share > MOST_BASE_SHARE:
        yield Doubt(
            MEDIUM,
            f"base: {share:.0%} of a pod's usage is a fitted base; the same share of a saving by "
            "fewer pods rests on it",
            STATED_BASE,
        )
    yield from _starts(row)


def _starts(row: Mapping[str, Any]) -> Iterator[Doubt]:
    """Yield what is assumed of when pods are ready, and what hangs on it.

    It lowers the confidence where changes of size show that starting pods use something of their
    own, or where only totals are recorded, which cannot show it.
    """
    assumed, share = row.get("starts_assumed"), row.get("starting_share")
    if assumed is None:  # (or a column that older sweeps lack)
        return
    remedy = "when pods are ready, recorded (`columns.ready` or `lives.ready_after` of a map)"
    if assumed in (TOTALS, STARTS[TOTALS]):  # (sweeps of development versions hold the words)
        why = "pods: only their total is recorded, so what they use while they start counts as work"
        yield Doubt(MEDIUM, why, "rows per pod")
    elif share is None:
        yield Doubt(
            HIGH, f"{STARTS.get(assumed, assumed)}; changes of size show no usage of starts", remedy
        )
    else:
        why = f"{STARTS.get(assumed, assumed)}; one that starts uses {share:.0%} of a pod's usage"
        yield Doubt(MEDIUM, why, remedy)


def _history(row: Mapping[str, Any], options: RecommendOptions) -> Iterator[Doubt]:
    days, asked = row["days"], options.min_history_days
    if days < asked:
        yield Doubt(
            LOW if days < asked / 2 else MEDIUM,
            f"history: {days:.1f} days are fewer than {asked:g}",
            f"{asked:g} days of history",
        )


def _censored(row: Mapping[str, Any], lifts: bool) -> Iterator[Doubt]:
    censored = row["censored_pct"]
    if censored is not None and censored > CENSORED_PCT:
        yield Doubt(
            LOW if censored > MOST_CENSORED_PCT and not lifts else MEDIUM,
            f"demand: {censored:.0f}% of its work is only a lower bound, as pods were at their "
            "ceiling",
            "a history in which pods are at their limit less of the time",
        )


def lens_doubts(
    unit: UnitBlocks, today: Mapping[Key, HPASpec], told: Mapping[str, Any]
) -> Iterator[Doubt]:
    """Yield doubts about units whose recorded samples are not what the controllers saw.

    Args:
        unit: the HPAs.
        today: their specs, defaults filled in.
        told: parameters of the sweep.
    """
    lenses, ratios = (
        [Lens(**found) for found in told.get(name, ())] for name in ("lenses", "lens_ratios")
    )
    for key in unit.members:
        seen = lenses_of_spec(lenses, key[0], today[key])
        if seen:
            yield Doubt(
                MEDIUM,
                "the controller saw samples through a lens (lag, scale), not as recorded",
                "a recording of what the metrics API answers (`hpabatch record`)",
                words_of(seen),
            )
        untold = lenses_of_spec(ratios, key[0], today[key])
        if untold:
            yield Doubt(
                LOW,
                "targets or samples are off by a factor; advice is relative to today's targets",
                "the scale stated in a lens file (--lens)",
                words_of(untold),
            )


def ceiling_doubts(hpa: Mapping[str, Any], goal: Goal) -> Iterator[str]:
    """Yield why measures of saturation that a goal asks for mean nothing for an HPA.

    A limit of saturated_minutes is judged over the range of assumed ceilings; nothing else is.

    Args:
        hpa: its row of a sweep's `hpas`.
        goal: what is asked for.
    """
    if hpa["ceiling"] in KNOWN_CEILINGS:
        return
    over_range = {SATURATED} if hpa["ceiling"] == OPEN else set()
    limited = {slo.measure for slo in goal.slos} - over_range
    asked = sorted(SATURATION & {goal.minimize, *limited})
    if asked and hpa["ceiling"] is None:
        yield (
            f"work: {' and '.join(asked)} cannot be judged, as no work that its pods share is "
            "known: state in a plant file what they share (such as `signals: {resource/memory: "
            "{kind: divisible}}`, --plant), or ask for other measures in --slo"
        )
    elif asked:
        yield (
            f"ceiling: no limit of its pods is known, so {' and '.join(asked)} cannot be "
            "judged: record limits, state a ceiling in a plant file (--plant), or ask for "
            "saturated_minutes in --slo, under_minutes or short_pod_hours"
        )


def rescales_off(unit: UnitBlocks) -> Iterator[Doubt]:
    """Yield members whose recorded rescales under today's setting the model misses by far."""
    if "rescales" not in unit.recorded:
        return
    recorded = unit.recorded_of("rescales", slice(None))[:, 0].sum(axis=1)
    modelled = unit.modelled_of("rescales", [0], slice(None))[:, 0].sum(axis=1)
    for (_, namespace, name), seen, ran in zip(unit.members, recorded, modelled, strict=True):
        if seen >= FEWEST_RESCALES and abs(ran - seen) > MOST_RESCALES_OFF * seen:
            yield Doubt(
                MEDIUM,
                f"model: {ran:.0f} rescales under today's setting, where {seen:.0f} were recorded",
                "a look at what the model has otherwise (`hpabatch simulate`)",
                f"{namespace}/{name}",
            )


def contradictions(unit: UnitBlocks, goal: Goal) -> Iterator[Doubt]:
    """Yield a doubt for the limits on which recording and model disagree for today's setting.

    Args:
        unit: the blocks of its HPAs.
        goal: what is asked for.
    """
    for slo in goal.slos:
        if slo.measure not in unit.recorded:
            continue
        hours = np.maximum(unit.hours.sum(axis=1), 1e-9)
        everything = slice(None)
        sides = (
            unit.recorded_of(slo.measure, everything),
            unit.modelled_of(slo.measure, [0], everything),
        )
        recorded, modelled = (v[:, 0].sum(axis=1) / hours * slo.unit_hours for v in sides)
        for m, (_, namespace, name) in enumerate(unit.members):
            both = np.array([recorded[m], modelled[m]])
            kept = slo.keeps(both)
            if not np.isnan(both).any() and kept[0] != kept[1]:
                yield Doubt(
                    MEDIUM,
                    f"model: {slo.text} today: recorded {short_number(slo.shown(both[0]))}, "
                    f"modelled {short_number(slo.shown(both[1]))}; the worse counts",
                    "a look at what its pods do at their ceiling (`hpabatch simulate`)",
                    f"{namespace}/{name}",
                )


STATED_BASE: Final = "its base stated in a plant file (`hpabatch fit HISTORY --init-plant FILE`)"
RARE_WORDS: Final = "beyond 99 % of the recorded minutes"
_MOST_USED_BY_KEEP: Final = 0.5
_MOST_USED_BY_CHANGE: Final = 0.2
"""Share of an SLO's limit above which a setting's use of it in the worst stretch is a doubt."""
_STEADY: Final = 1.2
"""Times the mean that a worst stretch may be, for a measure that is much the same in all."""
_NEARLY: Final = 0.5
"""Share of the least saving that makes a setting worth a doubt in "keep"."""


def doubts_of_change(found: Judged, facts: Facts) -> tuple[Doubt, ...]:
    """Return what speaks against relying on the chosen change."""
    return (
        *unreliable_runs(found, facts),
        *_modelled_worse(found, facts),
        *_outside(found, facts),
        *tight_slo(found, found.choice or TODAY, facts),
        *_unsteady(found, facts),
        *_little(found, facts),
    )


def passed_over(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield doubts in "keep": settings that save enough, against which little is certain."""
    rules, blocks = facts.options.rules, slice(0, found.split)
    easy = replace(rules, margin=0.0)
    best = choose(found.unit, found.trained, easy, found.allowed, blocks)
    less = replace(rules, least_saving_pct=rules.least_saving_pct * _NEARLY)
    nearly = choose(found.unit, found.trained, less, found.allowed, blocks)
    if best not in (None, TODAY):
        yield Doubt(
            MEDIUM,
            f"another setting saves enough and only leaves less than {rules.margin:.0%} of the SLO "
            "free",
            "a wider SLO, or a smaller --margin",
            name_of(found, best, facts),
        )
    elif nearly not in (None, TODAY):
        objective = found.trained.objective
        saved = saving_pct(float(objective[nearly]), float(objective[TODAY])) or 0.0
        yield Doubt(
            LOW,
            f"another setting holds the SLO and saves {saved:.1f}%, just less than "
            f"{rules.least_saving_pct:g}%",
            "a smaller --least-saving",
            name_of(found, nearly, facts),
        )
    best = choose(found.unit, found.trained, easy, found.possible, blocks)
    if best not in (None, TODAY) and not found.allowed[best]:
        yield Doubt(
            LOW,
            f"another setting may save enough: it asks pods for usage {RARE_WORDS}",
            "a time with a higher target, in small steps",
            name_of(found, best, facts),
        )
    # (every other limit still counts, and so does one of saturation where a ceiling is known)
    unlimited = found.trained.without(SATURATED, found.unit.is_open)
    best = choose(found.unit, unlimited, easy, found.possible, blocks)
    if best not in (None, TODAY) and found.unit.is_open.any():
        yield Doubt(
            LOW,
            "another setting may save enough: only assumed ceilings speak against it",
            "limits of its pods recorded, or a ceiling stated in a plant file (--plant)",
            name_of(found, best, facts),
        )


def unreliable_runs(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield the runs of today's setting and of the choice that cannot be relied on."""
    for key in found.unit.members:
        for place in dict.fromkeys((TODAY, found.considered)):
            why = facts.unusable.get((key, int(found.unit.settings[place])))
            if why:
                whose = f"{key[1]}/{key[2]} under {name_of(found, place, facts)}"
                yield Doubt(LOW, "a run cannot be relied on", detail=f"{whose}: {why}")


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
                "its base is not known, and with one the pods that it adds do less than modelled",
                STATED_BASE,
            )


def _outside(found: Judged, facts: Facts) -> Iterator[Doubt]:
    """Yield how much of the time the choice asks pods for what they were never seen to do."""
    share = float(found.unit.outside_share(slice(None))[found.considered])
    # (up to a known ceiling the model says what pods do: that was right where it was checked)
    if share > (OUTSIDE_SHARE if found.unit.is_open.any() else MOST_OUTSIDE):
        yield Doubt(
            MEDIUM,
            f"for {share:.0%} of the time it asks pods for usage {RARE_WORDS}",
            "a time with a higher target, in small steps",
        )


def tight_slo(found: Judged, place: int, facts: Facts) -> Iterator[Doubt]:
    """Yield that much of the SLO is used in the worst stretch, and others were not like it.

    A few weeks do not show the worst one. A change leaves medium then, "keep" low.
    """
    worst = max(float(s.pressure("worst")[place]) for s in (found.trained, found.judged))
    parts = (found.split, found.unit.blocks - found.split)
    mean = np.average(
        [float(s.pressure("mean")[place]) for s in (found.trained, found.judged)], weights=parts
    )
    keeps = place == TODAY
    who = name_of(found, TODAY, facts) if keeps else "it"
    if worst > (_MOST_USED_BY_KEEP if keeps else _MOST_USED_BY_CHANGE) and worst > _STEADY * mean:
        yield Doubt(
            LOW if keeps else MEDIUM,
            f"{who} uses {worst:.0%} of the SLO in the worst "
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
