"""Doubts about an answer: the facts of an HPA, a unit or a setting, put to the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

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
from hpabatch.engine.advise.request import LOW, JudgeRules
from hpabatch.engine.advise.rules import (
    CHANGE_RULES,
    HPA_RULES,
    KEEP_RULES,
    KNOWN_CEILINGS,
    MOST_USED_BY_CHANGE,
    NEARLY,
    NO_BASE,
    PASSED_RULES,
    SATURATION,
    SCORE_RULES,
    UNIT_RULES,
    Doubt,
    Facts,
    above,
    below,
    confidence_of,
    doubts_by,
)
from hpabatch.engine.advise.specs import Inputs, name_of
from hpabatch.engine.advise.unit import (
    AT_MAX,
    KEY,
    TODAY_ID,
    Key,
    Mask,
    UnitBlocks,
    key_of,
    unit_blocks,
)
from hpabatch.engine.fidelity.answer import WRONG
from hpabatch.engine.fit.pods import STARTS
from hpabatch.engine.fit.workload import BASE_TAKEN, OPEN
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.inputs.lenses import Lens, lens_of, lenses_of_spec, words_of
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import HPASpec


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
    if below(row["plant_skill_high"], 0):
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
        "kept": " and ".join(inputs.specs.kept_targets(found.unit)),
    }
    yield from doubts_by(KEEP_RULES, known)


def held_open(found: Judged, place: int, inputs: Inputs) -> bool:
    """Say whether a maxReplicas that a setting leaves may hold pods at a ceiling that is not known.

    Not where even the lowest assumed ceiling is hardly reached, today and under the setting. A
    limit on something else than saturation says nothing of that.
    """
    unit, used = found.unit, [_assumed_use(found, each, inputs) for each in (TODAY, place)]
    may = any(share is None or share > MOST_USED_BY_CHANGE for share in used)
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

    less = replace(rules, least_saving_pct=rules.least_saving_pct * NEARLY)
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
        "problem": NO_BASE if first == BASE_TAKEN else first if own else f"model: {first}",
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
        "nears_assumed": above(used, MOST_USED_BY_CHANGE),
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
