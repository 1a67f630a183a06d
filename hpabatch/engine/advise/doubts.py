"""HPAs without advice under any setting, and the reasons.

Two doubts about saturation were found on fleets whose plant is known
(`benchmarks.recommend_truth`): a ceiling that is only the highest usage seen shows saturation that
was none, and a model that disagrees with the recording about the saturation under today's setting
cannot judge that of another setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.advise.answer import RecommendOptions
from hpabatch.engine.advise.objective import MINUTES_AN_HOUR, Goal
from hpabatch.engine.advise.unit import KEY, TODAY_ID, Key, key_of
from hpabatch.engine.simulate.result import CENSORED_PCT
from hpabatch.engine.sweep.result import SweepResult

SATURATION: Final = frozenset({"saturated_minutes", "unserved", "waiting"})
"""Measures that depend on where a pod's usage is cut off."""

KNOWN_CEILINGS: Final = frozenset({"recorded", "given"})


def unsound(
    result: SweepResult, options: RecommendOptions
) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield the HPAs that get no advice under any setting, and why."""
    swept = set(result.blocks.select(KEY).unique().iter_rows())
    runs = today_sums(result)
    today = result.results.filter((pl.col("setting_id") == TODAY_ID) & ~pl.col("usable"))
    unusable = {(c, n, h): why for c, n, h, why in today.select(*KEY, "why_not").iter_rows()}
    for row in result.hpas.iter_rows(named=True):
        key = key_of(row)
        reasons = [
            *_hpa_reasons(row, options),
            *ceiling_doubts(row, options.goal),
            *contradictions(row, runs.get(key), options.goal),
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

    Args:
        hpa: its row of a sweep's `hpas`.
        goal: what is asked for.
    """
    asked = sorted(SATURATION & {goal.minimize, *(slo.measure for slo in goal.slos)})
    if asked and hpa["ceiling"] not in KNOWN_CEILINGS:
        yield (
            f"ceiling: no limit of its pods was recorded, the highest usage seen stands for it, so "
            f"{' and '.join(asked)} cannot be judged: record limits, state a ceiling in a plant "
            "file (--plant), or ask for under_minutes or short_pod_hours"
        )


def contradictions(
    hpa: Mapping[str, Any], today: Mapping[str, Any] | None, goal: Goal
) -> Iterator[str]:
    """Yield the limits on which recording and model disagree for today's setting.

    Args:
        hpa: its row of a sweep's `hpas`.
        today: its hours and saturated_minutes under today's setting; None: there are none.
        goal: what is asked for.
    """
    share = hpa["censored_pct"]
    if today is None or share is None or today["saturated_minutes"] is None:
        return
    for slo in goal.slos:
        if slo.measure != "saturated_minutes":
            continue
        recorded = share / 100.0 * slo.unit_hours * MINUTES_AN_HOUR
        modelled = today["saturated_minutes"] / today["hours"] * slo.unit_hours
        sides = slo.keeps(np.array([recorded, modelled]))
        if sides[0] != sides[1]:
            yield (
                "model: of saturated_minutes under today's setting the recording says "
                f"{slo.told(recorded)}, the model {slo.told(modelled)}: on different "
                f"sides of {slo.text}"
            )


def today_sums(result: SweepResult) -> dict[Key, Mapping[str, Any]]:
    """Return by HPA the hours and saturated minutes of its run under today's setting."""
    known = pl.col("saturated_minutes")
    rows = (
        result.blocks.filter(pl.col("setting_id") == TODAY_ID)
        .group_by(KEY, maintain_order=True)
        .agg(
            pl.col("hours").sum(),
            pl.when(known.null_count() == 0).then(known.sum()).alias("saturated_minutes"),
        )
    )
    return {key_of(r): r for r in rows.iter_rows(named=True)}
