"""What speaks against judging an HPA's saturation by its model, whatever the settings.

Both doubts were found on fleets whose plant is known (`benchmarks.recommend_truth`): a ceiling that
is only the highest usage seen makes saturation up, and a model that disagrees with the recording
about today's saturation is no judge of another setting's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from hpabatch.engine.advise.objective import Goal, Slo, short_number
from hpabatch.engine.advise.unit import KEY, TODAY_ID, Key
from hpabatch.engine.sweep.result import SweepResult

SATURATION: Final = frozenset({"saturated_minutes", "unserved", "waiting"})
"""Measures that hang on where a pod's usage is cut off."""

KNOWN_CEILINGS: Final = frozenset({"recorded", "given"})
_MINUTES_AN_HOUR: Final = 60.0


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
    """Yield where recording and model disagree whether today's setting holds a limit.

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
        recorded = share / 100.0 * slo.unit_hours * _MINUTES_AN_HOUR
        modelled = today["saturated_minutes"] / today["hours"] * slo.unit_hours
        if holds(slo, recorded) != holds(slo, modelled):
            yield (
                "model: of saturated_minutes under today's setting the recording says "
                f"{short_number(slo.shown(recorded))}{slo.unit}, the model "
                f"{short_number(slo.shown(modelled))}{slo.unit}: on different sides of {slo.text}"
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
    return {(r["cluster"], r["namespace"], r["hpa"]): r for r in rows.iter_rows(named=True)}


def holds(slo: Slo, value: float) -> bool:
    """Say whether a value for `unit_hours` keeps to a limit."""
    return value < slo.limit if slo.strict else value <= slo.limit
