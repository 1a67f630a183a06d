"""HPAs without advice under any setting, and the reasons; where recording and model disagree.

A model that shows less saturation under today's setting than was recorded shows too little of it
under any setting, as fleets whose plant is known tell (`benchmarks.recommend_truth`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.advise.answer import RecommendOptions
from hpabatch.engine.advise.objective import SATURATED, Goal
from hpabatch.engine.advise.unit import KEY, TODAY_ID, Key, UnitBlocks, key_of
from hpabatch.engine.fit.workload import OPEN
from hpabatch.engine.simulate.result import CENSORED_PCT
from hpabatch.engine.sweep.result import SweepResult

SATURATION: Final = frozenset({SATURATED, "unserved", "waiting"})
"""Measures that depend on where a pod's usage is cut off."""

KNOWN_CEILINGS: Final = frozenset({"recorded", "given"})


def unsound(
    result: SweepResult, options: RecommendOptions
) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield the HPAs that get no advice under any setting, and why."""
    swept = set(result.blocks.select(KEY).unique().iter_rows())
    today = result.results.filter((pl.col("setting_id") == TODAY_ID) & ~pl.col("usable"))
    unusable = {(c, n, h): why for c, n, h, why in today.select(*KEY, "why_not").iter_rows()}
    for row in result.hpas.iter_rows(named=True):
        key = key_of(row)
        reasons = [
            *_hpa_reasons(row, options),
            *ceiling_doubts(row, options.goal),
        ]
        if key not in swept:
            reasons.append("the sweep has nothing of it")
        if not reasons and unusable.get(key):
            whose = f"{key[1]}/{key[2]} under today's setting"
            reasons.append(f"the run of {whose} cannot be relied on: {unusable[key]}")
        if reasons:
            yield key, tuple(reasons)


def _hpa_reasons(row: Mapping[str, Any], options: RecommendOptions) -> Iterator[str]:
    if row["problems"]:
        yield f"plant: {row['problems']}"
    if row["censored_pct"] is not None and row["censored_pct"] > CENSORED_PCT:
        yield (
            f"censored: {row['censored_pct']:.0f}% of its work is only a lower bound, as pods were "
            f"at their ceiling (more than {CENSORED_PCT:.0f}%)"
        )
    if row["advice"] is None:
        yield "fidelity was not measured"
    elif not row["advice"]:
        yield f"fidelity: {row['why_not']}"
    if row["days"] < options.min_history_days:
        yield (
            f"too little history: {row['days']:.1f} days are fewer than "
            f"{options.min_history_days:g} (--min-history)"
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
    if asked:
        yield (
            f"ceiling: no limit of its pods was recorded, so {' and '.join(asked)} cannot be "
            "judged: record limits, state a ceiling in a plant file (--plant), or ask for "
            "saturated_minutes in --slo, under_minutes or short_pod_hours"
        )


def contradictions(unit: UnitBlocks, goal: Goal) -> Iterator[str]:
    """Yield the limits on which recording and model disagree for today's setting.

    Args:
        unit: the blocks of its HPAs.
        goal: what is asked for.
    """
    for slo in goal.slos:
        if slo.measure not in unit.recorded:
            continue
        hours = np.maximum(unit.hours.sum(axis=1), 1e-9)
        sides = (unit.recorded[slo.measure], unit.values[slo.measure][:, 0])
        recorded, modelled = (values.sum(axis=1) / hours * slo.unit_hours for values in sides)
        for m, (_, namespace, name) in enumerate(unit.members):
            both = np.array([recorded[m], modelled[m]])
            kept = slo.keeps(both)
            if not np.isnan(both).any() and kept[0] != kept[1]:
                yield (
                    f"model: of {slo.measure} of {namespace}/{name} under today's setting the "
                    f"recording says {slo.told(float(both[0]))}, the model "
                    f"{slo.told(float(both[1]))}: on different sides of {slo.text}; the worse "
                    "counts"
                )
