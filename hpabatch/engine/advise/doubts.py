"""Doubts about an answer: one table of rules over what is known of an HPA, a unit or a setting.

Each doubt says which confidence it leaves at most, why, and what would raise it; the lowest counts.
How often answers of each confidence are right is measured (`benchmarks.recommend_truth`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.advise.bounds import has_no_more_pods
from hpabatch.engine.advise.judge import (
    TODAY,
    Judged,
    Standing,
    assumed_use,
    choose,
    saving_pct,
)
from hpabatch.engine.advise.objective import SATURATED, Goal, RecommendOptions, short_number
from hpabatch.engine.advise.request import CONFIDENCES, HIGH, LOW, MEDIUM, JudgeRules
from hpabatch.engine.advise.specs import Inputs, base_taken, name_of
from hpabatch.engine.advise.unit import (
    AT_MAX,
    KEY,
    MOST_OUTSIDE,
    OUTSIDE_SHARE,
    TODAY_ID,
    Key,
    Mask,
    UnitBlocks,
    key_of,
    unit_blocks,
)
from hpabatch.engine.fidelity.answer import UNTOLD, WRONG
from hpabatch.engine.fit.pods import STARTS, TOTALS
from hpabatch.engine.fit.workload import BASE_TAKEN, FITTED, OPEN
from hpabatch.engine.simulate.result import CENSORED_PCT
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.inputs.lenses import Lens, lens_of, lenses_of_spec, words_of
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


SATURATION: Final = frozenset({SATURATED, "unserved", "waiting"})
"""Measures that depend on where a pod's usage is cut off."""

KNOWN_CEILINGS: Final = frozenset({"recorded", "given", FITTED})
MOST_BASE_SHARE: Final = 1 / 3
"""Of a pod's usage, and so of a saving by fewer pods: a larger fitted base leaves medium."""
USUAL_SKILL: Final = 0.6
"""Of 26 simulated workloads that follow the model, 25 had a higher skill."""
MOST_RESCALES_OFF: Final = 0.5
"""Of the recorded rescales: a model that is off by more leaves medium."""
MOST_RESCALES_TIMES: Final = 2.0
"""Times the recorded rescales: a model that has more leaves low. A controller that decides once a
minute rescales a flapping HPA a third as often as one that decides on each sample four times."""
FEWEST_RESCALES: Final = 20.0
"""Recorded ones below which being off says little."""
MOST_CENSORED_PCT: Final = 10.0
"""Above this share of work that is only a lower bound confidence is low."""
_MOST_USED_BY_KEEP: Final = 0.5
_MOST_USED_BY_CHANGE: Final = 0.2
"""Share of an SLO's limit above which a setting's use of it in the worst stretch is a doubt."""
_STEADY: Final = 1.2
"""Times the mean that a worst stretch may be, for a measure that is much the same in all."""
_MOST_USED_STEADILY: Final = 0.5
"""Share of an SLO's limit that even such a measure of a change may use."""
_NEARLY: Final = 0.5
"""Share of the least saving that makes a setting worth a doubt in "keep"."""

STATED_BASE: Final = "its base stated in a plant file (`hpabatch fit HISTORY --init-plant FILE`)"
_MORE_CHANGES: Final = "more changes of size recorded"
_MORE_WEEKS: Final = "more weeks of history"
_SMALL_STEPS: Final = "a time with a higher target, in small steps"
_CEILINGS: Final = "limits of its pods recorded, or a ceiling stated in a plant file (--plant)"
_UNKNOWN: Final = "whether these are the controller's settings is not known"
_NO_BASE: Final = "base: what a pod uses without work cannot be told, and is taken as 0"
_RARE: Final = "usage beyond 99 % of the recorded minutes"
HELD_OPEN: Final = (
    "at maxReplicas its metrics asked for more, and how much its pods can do is not known"
)
WHAT_PODS_CAN: Final = (
    "limits of its pods recorded (is one equal to the request that they reach?), a ceiling stated "
    "in a plant file (--plant), or a sweep of a larger maxReplicas"
)
_ASSUMED: Final = (
    "ceiling assumed: no limit of its pods is known, so saturation is judged over a range of "
    "ceilings"
)

Facts = Mapping[str, Any]
"""What a rule reads, by name."""


class Rule(NamedTuple):
    """A doubt that facts give reason for.

    Attributes:
        left: the highest confidence that it leaves by some facts; nothing: it does not apply.
        why: as in `Doubt`, with facts in braces; `remedy` and `detail` likewise.
    """

    left: Callable[[Facts], object]
    why: str
    remedy: str = ""
    detail: str = ""


def doubts_by(rules: Iterable[Rule], facts: Facts) -> Iterator[Doubt]:
    """Yield the doubts of the rules that apply to some facts."""
    for left, *texts in rules:
        if most := left(facts):
            yield Doubt(str(most), *(text.format(**facts) for text in texts))


def _below(value: float | None, least: float) -> bool:
    return value is not None and value < least


def _above(value: float | None, most: float) -> bool:
    return value is not None and value > most


SCORE_RULES: Final = (
    Rule(
        lambda f: f["controller_answer"] is None and f["scored"] and LOW,
        f"the recording gives no fidelity score: {_UNKNOWN}",
        "a history with ticks and samples of this HPA (`hpabatch fidelity` says what it lacks)",
    ),
    Rule(
        lambda f: f["controller_answer"] is None and not f["scored"] and LOW,
        f"fidelity was not measured: {_UNKNOWN}",
        "a sweep without --no-fidelity",
    ),
    Rule(
        lambda f: f["controller_answer"] == UNTOLD and MEDIUM,
        "whether the stated settings are the controller's cannot be told from this recording",
        "samples at a shorter interval, or a longer history with more rescales "
        "(`hpabatch fidelity` says which settings look alike)",
    ),
    Rule(  # (what that means for an answer hangs on the setting: see CHANGE_RULES, KEEP_RULES)
        lambda f: f["problems"] and (MEDIUM if base_taken(f["problems"]) else LOW),
        "{problem}",
        f"{STATED_BASE}, or {_MORE_CHANGES}",
        "{problem_detail}",
    ),
    Rule(
        lambda f: f["plant_unscored"] is not None and MEDIUM,
        "model: not checked against the recording",
        _MORE_CHANGES,
        "{plant_unscored}",
    ),
    Rule(
        lambda f: f["plant_unscored"] is None and f["plant_why_not"] is not None and MEDIUM,
        "model: it does not predict the recorded usage well",
        STATED_BASE,
        "{plant_why_not}",
    ),
    Rule(
        lambda f: (
            (f["plant_unscored"] or f["plant_why_not"]) is None
            and _below(f["plant_skill"], USUAL_SKILL)
            and MEDIUM
        ),
        f"model: skill {{plant_skill:.2f}} (1: perfect); a right one has {USUAL_SKILL:g} or more",
        STATED_BASE,
    ),
    Rule(
        lambda f: _above(f["base_share"], MOST_BASE_SHARE) and MEDIUM,
        "base: {base_share:.0%} of a pod's usage is a fitted base; the same share of a saving by "
        "fewer pods rests on it",
        STATED_BASE,
    ),
    # What is assumed of when pods are ready matters where changes of size show that starting pods
    # use something of their own, or where only totals are recorded, which cannot show it.
    Rule(
        lambda f: f["starts"] == STARTS[TOTALS] and MEDIUM,
        "pods: only their total is recorded, so what they use while they start counts as work",
        "rows per pod",
    ),
    Rule(
        lambda f: (
            f["starts"] not in (None, STARTS[TOTALS])
            and (HIGH if f["starting_share"] is None else MEDIUM)
        ),
        "{starts}; {starting}",
        "when pods are ready, recorded (`columns.ready` or `lives.ready_after` of a map)",
    ),
)
"""By the scores of an HPA: facts are those of `_score_facts`."""

HPA_RULES: Final = (
    Rule(
        lambda f: not f["slos"] and LOW,
        "nothing limits what least {minimize} does to users: there is no --slo",
        "a limit that must hold (--slo 'saturated_minutes<10/week')",
    ),
    *SCORE_RULES,
    Rule(
        lambda f: f["days"] < f["asked"] and (LOW if f["days"] < f["asked"] / 2 else MEDIUM),
        "history: {days:.1f} days are fewer than {asked:g}",
        "{asked:g} days of history",
    ),
    Rule(
        lambda f: (
            _above(f["censored_pct"], CENSORED_PCT)
            and (LOW if f["censored_pct"] > MOST_CENSORED_PCT and not f["lifts"] else MEDIUM)
        ),
        "demand: {censored_pct:.0f}% of its work is only a lower bound, as pods were at their "
        "ceiling",
        "a history in which pods are at their limit less of the time",
    ),
    Rule(
        lambda f: f.get("ceiling") == FITTED and MEDIUM,
        "ceiling: no limit of its pods is recorded; usage is cut off as if there were one",
        _CEILINGS,
    ),
)
"""By what is known of an HPA, whatever setting the answer is."""

UNIT_RULES: Final = (
    Rule(
        lambda f: (
            f.get("seen", 0) >= FEWEST_RESCALES
            and abs(f["ran"] - f["seen"]) > MOST_RESCALES_OFF * f["seen"]
            and (LOW if f["ran"] > MOST_RESCALES_TIMES * f["seen"] else MEDIUM)
        ),
        "model: {ran:,.0f} rescales under today's setting, {seen:,.0f} recorded",
        "the controller's sync period, where it is not the assumed one (--sync-period), or sizes "
        "recorded at every sync",
        "{name}",
    ),
    Rule(
        lambda f: f.get("disagree") and MEDIUM,
        "model: {slo} today: recorded {recorded}, modelled {modelled}; the worse counts",
        "a look at what its pods do at their ceiling (`hpabatch simulate`)",
        "{name}",
    ),
    Rule(
        lambda f: f.get("lenses") and MEDIUM,
        "the controller saw samples through a lens (lag, scale), not as recorded",
        "a recording of what the metrics API answers (`hpabatch record`)",
        "{lenses}",
    ),
    Rule(
        lambda f: f.get("scaled") and MEDIUM,
        "usage or every target is off by one factor: compare the targets with the cluster's",
        "the scale stated in a lens file (--lens)",
        "{scaled}",
    ),
    Rule(
        lambda f: f.get("ratios") and LOW,
        "targets or samples are off by a factor; advice is relative to today's targets",
        "the scale stated in a lens file (--lens)",
        "{ratios}",
    ),
)
"""By recording, model and lenses of a unit: facts are each of `_unit_facts`, in their order."""

CHANGE_RULES: Final = (
    Rule(
        lambda f: f["more_without_base"] and LOW,
        "its base is not known; if pods have one, those that it adds do less than modelled",
        STATED_BASE,
    ),
    Rule(lambda f: f["nears_assumed"] and MEDIUM, _ASSUMED, _CEILINGS),
    Rule(  # (no limit is below a request, and a node keeps that free)
        lambda f: f["is_assumed"] and not f["nears_assumed"] and HIGH,
        "no limit of its pods is known, but it hardly reaches the lowest assumed ceiling",
        _CEILINGS,
    ),
    Rule(  # (up to a ceiling the model says what pods do: it was right where it was checked)
        lambda f: (
            f["outside"] > (OUTSIDE_SHARE if f["is_open"] else MOST_OUTSIDE)
            and (MEDIUM if f["is_open"] and (f["nears_assumed"] or not f["is_assumed"]) else HIGH)
        ),
        f"for {{outside:.0%}} of the time it asks pods for {_RARE}",
        _SMALL_STEPS,
    ),
    Rule(  # (a few weeks do not show the worst one)
        lambda f: (
            f["worst"] > max(_MOST_USED_BY_CHANGE, min(_STEADY * f["mean"], _MOST_USED_STEADILY))
            and MEDIUM
        ),
        "it uses {worst:.0%} of the SLO in the worst {block} and {mean:.0%} on average: a worse "
        "one may break it",
        "a wider SLO, or a larger --margin",
    ),
    Rule(
        lambda f: f["resampled"] is None and MEDIUM,
        "one training block says nothing about how much weeks differ",
        "three weeks of history or more: two to choose on, one to judge",
    ),
    Rule(
        lambda f: not f["changed"] and MEDIUM,
        "no choice made on earlier blocks was a change that a later one could confirm",
        _MORE_WEEKS,
    ),
    Rule(
        lambda f: f["missed"] and (LOW if 2 * f["missed"] > f["changed"] else MEDIUM),
        "in {missed} of {changed} blocks a choice made on earlier ones was no better than today's",
        _MORE_WEEKS,
    ),
    Rule(
        lambda f: f["today_holds"] and _below(f["saved"], f["least"]) and MEDIUM,
        "on the judged blocks it saves {saved:.1f}%, less than {least:g}%",
        _MORE_WEEKS,
    ),
)
"""By the judging of a change: facts are those of `_change_facts`."""

KEEP_RULES: Final = (
    Rule(
        lambda f: f["worst"] > max(_MOST_USED_BY_KEEP, _STEADY * f["mean"]) and LOW,
        "today's setting uses {worst:.0%} of the SLO in the worst {block} and {mean:.0%} on "
        "average: a worse one may break it",
        "a wider SLO",
    ),
    Rule(lambda f: f["is_assumed"] and MEDIUM, _ASSUMED, _CEILINGS),
    Rule(lambda f: f["held_open"] and LOW, HELD_OPEN, WHAT_PODS_CAN),
    Rule(  # (of 23 such answers on fleets whose plant is known all were right)
        lambda f: f["baseless"] and MEDIUM,
        "its base is not known, and with one settings with fewer pods may save more",
        STATED_BASE,
    ),
    Rule(
        lambda f: f["rejected"] and LOW,
        "another setting may be better than today's",
        _MORE_WEEKS,
    ),
)
PASSED_RULES: Final = (
    Rule(
        lambda f: f.get("easy") and MEDIUM,
        "another setting saves enough and only leaves less than {margin:.0%} of the SLO free",
        "a wider SLO, or a smaller --margin",
        "{easy}",
    ),
    Rule(
        lambda f: f.get("nearly") and LOW,
        "another setting holds the SLO and saves {saved:.1f}%, just less than {least:g}%",
        "a smaller --least-saving",
        "{nearly}",
    ),
    Rule(
        lambda f: f.get("outside") and LOW,
        f"another setting may save enough: it asks pods for {_RARE}",
        _SMALL_STEPS,
        "{outside}",
    ),
    Rule(
        lambda f: f.get("unlimited") and LOW,
        "another setting may save enough: only assumed ceilings speak against it",
        _CEILINGS,
        "{unlimited}",
    ),
)
"""By the settings that "keep" passes over, against which little is certain."""


def refused(result: SweepResult, goal: Goal) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield the HPAs that get no advice under any setting, and why.

    Refused is only what is wrong or cannot be known: settings that are not the controller's, a
    model that is worse than none.
    """
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


def refusals(row: Facts) -> Iterator[str]:
    """Yield why the scores of an HPA allow no advice, by its row of a sweep or of `fidelity`."""
    if row["controller_answer"] == WRONG:
        yield f"fidelity: {row['why_not']}"
    if _below(row["plant_skill_high"], 0):
        yield (
            f"model: it predicts usage worse than no model does (skill "
            f"{row['plant_skill']:.2f}, at most {row['plant_skill_high']:.2f})"
        )


def ceiling_doubts(hpa: Facts, goal: Goal) -> Iterator[str]:
    """Yield why measures of saturation that a goal asks for mean nothing for an HPA.

    A limit of saturated_minutes is judged over the range of assumed ceilings; nothing else is.
    `hpa` is its row of a sweep's `hpas`.
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


def score_doubts(row: Facts) -> Iterator[Doubt]:
    """Yield what the scores leave open of an HPA, by its row of `fidelity`."""
    return doubts_by(SCORE_RULES, _score_facts(row, scored=True))


def unit_doubts(
    unit: UnitBlocks,
    rows: Mapping[Key, Facts],
    today: Mapping[Key, HPASpec],
    told: Facts,
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
        lifts: the answer lifts maxReplicas, so more work than is known speaks for it, too.
    """
    asked = {
        "slos": {slo.measure for slo in options.goal.slos},
        "minimize": options.goal.minimize,
        "asked": options.min_history_days,
        "lifts": lifts,
    }
    scored = bool((told.get("request") or {}).get("fidelity"))
    found: list[Doubt] = []
    for key in unit.members:
        found += doubts_by(HPA_RULES, _score_facts(rows[key], scored=scored) | asked)
    for facts in _unit_facts(unit, options.goal, today, told):
        found += doubts_by(UNIT_RULES, facts)
    return found


def doubts_of_change(found: Judged, inputs: Inputs) -> Iterator[Doubt]:
    """Yield what speaks against relying on the chosen change."""
    yield from unreliable_runs(found, inputs)
    yield from doubts_by(CHANGE_RULES, _change_facts(found, inputs))


def doubts_of_keep(found: Judged, inputs: Inputs) -> Iterator[Doubt]:
    """Yield what speaks against relying on today's setting."""
    yield from unreliable_runs(found, inputs)
    known = _pressure_facts(found, TODAY, inputs) | {
        "baseless": inputs.baseless & set(found.unit.members),
        "rejected": found.choice != TODAY,
        "is_assumed": _assumed_use(found, TODAY, inputs) is not None,
        "held_open": held_open(found, TODAY, inputs),
    }
    yield from doubts_by(KEEP_RULES, known)


def held_open(found: Judged, place: int, inputs: Inputs) -> bool:
    """Say whether a maxReplicas that a setting leaves may hold pods at a ceiling that is not known.

    Not where even the lowest assumed ceiling is hardly reached, today and under the setting. A
    limit on something else than saturation says nothing of that.
    """
    unit, used = found.unit, [_assumed_use(found, each, inputs) for each in (TODAY, place)]
    may = any(share is None or share > _MOST_USED_BY_CHANGE for share in used)
    held = AT_MAX in unit.values and bool((unit.held_at_max & unit.is_open).any())
    return may and held and bool(inputs.options.goal.slos) and not found.lifts(place)


def _assumed_use(found: Judged, place: int, inputs: Inputs) -> float | None:
    return assumed_use(found.unit, inputs.options.goal, place, inputs.block_unit)


def passed_over(found: Judged, inputs: Inputs) -> Iterator[Doubt]:
    """Yield doubts in "keep": settings that save enough, against which little is certain."""
    rules, blocks = inputs.options.rules, slice(0, found.split)
    easy = replace(rules, margin=0.0)

    def best(trained: Standing, rules: JudgeRules, allowed: Mask) -> int:
        return choose(found.unit, trained, rules, allowed, blocks) or TODAY

    less = replace(rules, least_saving_pct=rules.least_saving_pct * _NEARLY)
    chosen = {"easy": best(found.trained, easy, found.allowed)}
    if chosen["easy"] == TODAY:
        chosen["nearly"] = best(found.trained, less, found.allowed)
    outside = best(found.trained, easy, found.possible)
    chosen["outside"] = TODAY if found.allowed[outside] else outside
    if found.unit.is_open.any():
        # (every other limit still counts, and so does one of saturation with a known ceiling)
        unlimited = found.trained.without(SATURATED, found.unit.is_open)
        chosen["unlimited"] = best(unlimited, easy, found.possible)
    names = {how: name_of(found, s, inputs) for how, s in chosen.items() if s != TODAY}
    objective = found.trained.objective
    nearly = saving_pct(float(objective[chosen.get("nearly", TODAY)]), float(objective[TODAY]))
    known = {"margin": rules.margin, "least": rules.least_saving_pct, "saved": nearly or 0.0}
    return doubts_by(PASSED_RULES, names | known)


def unreliable_runs(found: Judged, inputs: Inputs) -> Iterator[Doubt]:
    """Yield the runs of today's setting and of the choice that cannot be relied on."""
    for key in found.unit.members:
        for place in dict.fromkeys((TODAY, found.considered)):
            why = inputs.unusable.get((key, int(found.unit.settings[place])))
            if why:
                whose = f"{key[1]}/{key[2]} under {name_of(found, place, inputs)}"
                yield Doubt(LOW, "a run cannot be relied on", detail=f"{whose}: {why}")


# ---- facts ---------------------------------------------------------------------------------------

_OPTIONAL: Final = ("problems", "base_share", "starts_assumed", "starting_share")
"""Facts that `fidelity` has not, and sweeps of development versions have not all."""


def _score_facts(row: Facts, *, scored: bool) -> dict[str, Any]:
    """Return what is known of an HPA; `scored`: the sweep was asked for fidelity scores."""
    known: dict[str, Any] = {**dict.fromkeys(_OPTIONAL), **row}
    problems, assumed, share = (known[n] for n in ("problems", "starts_assumed", "starting_share"))
    own = (problems or "").startswith("plant ")
    first, _, details = (problems or "").partition(": " if own else "; ")
    used = f"one that starts uses {share or 0.0:.0%} of a pod's usage"
    return known | {
        "scored": scored,
        "problem": _NO_BASE if first == BASE_TAKEN else first if own else f"model: {first}",
        "problem_detail": details,
        # (sweeps of development versions hold the words)
        "starts": STARTS.get(assumed, assumed),
        "starting": "changes of size show no usage of starts" if share is None else used,
    }


def _unit_facts(
    unit: UnitBlocks, goal: Goal, today: Mapping[Key, HPASpec], told: Facts
) -> Iterator[dict[str, Any]]:
    """Yield where recording and model differ under today's setting, and through which lenses."""
    whole, names = slice(None), [f"{namespace}/{name}" for _, namespace, name in unit.members]
    measures = ["rescales", *(slo.measure for slo in goal.slos)]
    sides = {
        measure: [
            values[:, 0].sum(axis=1)
            for values in (
                unit.recorded_of(measure, whole),
                unit.modelled_of(measure, [0], whole),
            )
        ]
        for measure in measures
        if measure in unit.recorded
    }
    for name, seen, ran in zip(names, *sides.get("rescales", ((), ())), strict=False):
        yield {"name": name, "seen": seen, "ran": ran}
    hours = np.maximum(unit.hours.sum(axis=1), 1e-9)
    for slo in goal.slos:
        rates = [values / hours * slo.unit_hours for values in sides.get(slo.measure, ())]
        for name, *both in zip(names, *rates, strict=False) if rates else ():
            kept = slo.keeps(np.array(both))
            recorded, modelled = (short_number(slo.shown(value)) for value in both)
            yield {
                "name": name,
                "slo": slo.text,
                "recorded": recorded,
                "modelled": modelled,
                "disagree": not np.isnan(both).any() and kept[0] != kept[1],
            }
    lenses, ratios = ([Lens(**one) for one in told.get(k, ())] for k in ("lenses", "lens_ratios"))
    scaled = [
        one for one in ratios if lens_of(lenses, one.cluster or "", one.signal).scale == one.scale
    ]
    known = {
        "lenses": lenses,
        "scaled": scaled,
        "ratios": [one for one in ratios if one not in scaled],
    }
    for key in unit.members:
        own = {name: lenses_of_spec(some, key[0], today[key]) for name, some in known.items()}
        yield {name: words_of(some) for name, some in own.items() if some}


def _pressure_facts(found: Judged, place: int, inputs: Inputs) -> dict[str, Any]:
    """Return how much of the SLO a setting uses, in the worst stretch and on average."""
    stands = (found.trained, found.judged)
    parts = (found.split, found.unit.blocks - found.split)
    means = [float(s.pressure("mean")[place]) for s in stands]
    return {
        "worst": max(float(s.pressure("worst")[place]) for s in stands),
        "mean": np.average(means, weights=parts),
        "block": inputs.block_unit,
    }


def _change_facts(found: Judged, inputs: Inputs) -> dict[str, Any]:
    place, unit, specs = found.considered, found.unit, inputs.specs
    setting_id = int(unit.settings[place])
    changed = [fold for fold in found.folds if fold.choice not in (None, TODAY)]
    objective = found.judged.objective
    used = _assumed_use(found, place, inputs)
    return _pressure_facts(found, place, inputs) | {
        "is_assumed": used is not None,
        "nears_assumed": _above(used, _MOST_USED_BY_CHANGE),
        # More pods may do less than is modelled: what each uses by itself is taken as 0.
        "more_without_base": any(
            not all(
                has_no_more_pods(specs.today(key), specs.under(key, setting_id), flags)
                for flags in specs.flags
            )
            for key in unit.members
            if key in inputs.baseless
        ),
        "outside": float(unit.outside_share(slice(None))[place]),
        "is_open": unit.is_open.any(),
        "resampled": found.resampled,
        "changed": len(changed),
        "missed": sum(not fold.better for fold in changed),
        "today_holds": found.judged.holds(inputs.options.rules.robust)[TODAY],
        "saved": saving_pct(float(objective[place]), float(objective[TODAY])),
        "least": inputs.options.rules.least_saving_pct,
    }
