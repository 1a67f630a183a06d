"""What speaks against relying on an answer, of the HPA itself: refusals, and doubts.

Refused is only what is wrong or cannot be known: settings that are not the controller's, a model
that is worse than none. Little history, few changes, a recording that cannot tell or a ceiling that
is assumed lower the confidence instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.advise.answer import RecommendOptions
from hpabatch.engine.advise.confidence import LOW, MEDIUM, Doubt
from hpabatch.engine.advise.objective import MINUTES_AN_HOUR, Goal
from hpabatch.engine.advise.unit import KEY, TODAY_ID, Key, key_of
from hpabatch.engine.fidelity.answer import UNTOLD, WRONG
from hpabatch.engine.simulate.result import CENSORED_PCT
from hpabatch.engine.sweep.result import SweepResult

SATURATION: Final = frozenset({"saturated_minutes", "unserved", "waiting"})
"""Measures that depend on where a pod's usage is cut off."""

KNOWN_CEILINGS: Final = frozenset({"recorded", "given"})
MOST_CENSORED_PCT: Final = 10.0
"""Above this share of work that is only a lower bound confidence is low."""


def refused(result: SweepResult) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield the HPAs that get no advice under any setting, and why."""
    swept = set(result.blocks.select(KEY).unique().iter_rows())
    for row in result.hpas.iter_rows(named=True):
        key, reasons = key_of(row), list(_wrong(row))
        if key not in swept:
            reasons.append("the sweep has nothing of it")
        if reasons:
            yield key, tuple(reasons)


def _wrong(row: Mapping[str, Any]) -> Iterator[str]:
    if row["controller_answer"] == WRONG:
        yield f"fidelity: {row['why_not']}"
    if row["plant_skill_high"] is not None and row["plant_skill_high"] < 0:
        yield (
            f"plant: its model predicts usage worse than no model does (skill "
            f"{row['plant_skill']:.2f}, at most {row['plant_skill_high']:.2f})"
        )


def doubts(
    row: Mapping[str, Any], options: RecommendOptions, today: Mapping[str, Any] | None
) -> Iterator[Doubt]:
    """Yield what lowers the confidence in any answer on an HPA.

    Args:
        row: its row of a sweep's `hpas`.
        options: what is asked for.
        today: its hours and saturated_minutes under today's setting; None: there are none.
    """
    yield from _controller(row)
    yield from _plant(row)
    yield from _history(row, options)
    for why in ceiling_doubts(row, options.goal):
        yield Doubt(LOW, why, "record limits, or state a ceiling in a plant file (--plant)")
    for why in contradictions(row, today, options.goal):
        yield Doubt(LOW, why, "look at what its pods do at their limit (`hpabatch simulate`)")


def _controller(row: Mapping[str, Any]) -> Iterator[Doubt]:
    answer = row["controller_answer"]
    if answer is None:
        why = "fidelity was not measured: whether these are the controller's settings is not known"
        yield Doubt(LOW, why, "sweep with --fidelity")
    elif answer == UNTOLD:
        yield Doubt(
            MEDIUM,
            "whether the stated settings are the controller's cannot be told from this recording",
            "samples at a shorter interval, or a longer history with more rescales "
            "(`hpabatch fidelity` says which settings look alike)",
        )


def _plant(row: Mapping[str, Any]) -> Iterator[Doubt]:
    stated = "its base stated in a plant file (`hpabatch fit --init-plant`)"
    if row["problems"]:
        yield Doubt(LOW, f"plant: {row['problems']}", f"{stated}, or more changes of size recorded")
    if row["plant_unscored"] is not None:
        why = f"plant: not checked against the recording, {row['plant_unscored']}"
        yield Doubt(MEDIUM, why, "a longer history with more changes of size")
    elif row["plant_why_not"] is not None:
        yield Doubt(MEDIUM, f"plant: {row['plant_why_not']}", stated)


def _history(row: Mapping[str, Any], options: RecommendOptions) -> Iterator[Doubt]:
    days, asked = row["days"], options.min_history_days
    if days < asked:
        yield Doubt(
            LOW if days < asked / 2 else MEDIUM,
            f"history: {days:.1f} days are fewer than {asked:g}",
            f"{asked:g} days of history",
        )
    censored = row["censored_pct"]
    if censored is not None and censored > CENSORED_PCT:
        yield Doubt(
            LOW if censored > MOST_CENSORED_PCT else MEDIUM,
            f"demand: {censored:.0f}% of its work is only a lower bound, as pods were at their "
            "ceiling",
            "a history in which pods are at their limit less of the time",
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
