"""Doubts about an answer, and refusals, that an HPA itself gives reason for.

Refused is only what is wrong or cannot be known: settings that are not the controller's, a model
that is worse than none. Little history, few changes, a recording that cannot tell or a ceiling that
is assumed lower the confidence instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.advise.confidence import HIGH, LOW, MEDIUM, Doubt, confidence_of
from hpabatch.engine.advise.facts import RecommendOptions, base_taken
from hpabatch.engine.advise.judged_doubts import STATED_BASE
from hpabatch.engine.advise.objective import SATURATED, Goal, short_number
from hpabatch.engine.advise.unit import (
    AT_MAX,
    KEY,
    TODAY_ID,
    Key,
    UnitBlocks,
    key_of,
    unit_blocks,
)
from hpabatch.engine.fidelity.answer import UNTOLD, WRONG
from hpabatch.engine.fit.pods import STARTS, TOTALS
from hpabatch.engine.fit.workload import OPEN
from hpabatch.engine.simulate.result import CENSORED_PCT
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.inputs.lenses import Lens, lenses_of_spec, words_of
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import HPASpec

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
