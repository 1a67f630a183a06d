"""Sensitivity of a replay: the same replay under other assumptions.

Delay, max age and phase are seldom recorded. Each is varied alone, everything else as in the plan,
over the same time: if the agreement hardly moves, the assumption does not matter; if it does, that
value is worth finding out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import polars as pl

from hpabatch.engine.columns.replay import SENSITIVITY
from hpabatch.engine.fleet.clocks import Clocks
from hpabatch.engine.fleet.parameters import SAMPLE_TABLES
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.summary import KEY, total

AS_ASKED: Final = "as asked"
PHASE_PARTS: Final = 4
CHANGED_SHARE: Final = 0.01  # an HPA's agreement changed if it did by more than this

COLUMNS: Final = SENSITIVITY.meanings
SCHEMA: Final = pl.Schema(
    {
        "setting": pl.String(),
        **dict.fromkeys(("delay_ms", "max_age_ms", "phase_shift_ms"), pl.Int64()),
        **dict.fromkeys(("agreement_share", "agreement_change", "undecided_share"), pl.Float64()),
        "decided_replica_hours": pl.Float64(),
        "rescales": pl.Int64(),
        "hpas_changed": pl.Int64(),
        "most_changed": pl.String(),
        "most_change": pl.Float64(),
    }
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One variation: what it is called, how far the phase is shifted, and its plan."""

    name: str
    phase_shift_ms: int
    plan: ReplayPlan


def settings_of(plan: ReplayPlan) -> list[Setting]:
    """Return the plan as it is, then its variations.

    The delay one sync period more and less, half and twice the max age, and the phase shifted by
    quarters of the period. What nothing hangs on is left out: the delay where every sample has its
    fetch time, the max age where a recorder says until when each stood, the phase of recorded
    instants, values that hide every sample.
    """
    settled = plan.settled
    period_ms, delay_ms, max_age_ms = settled.sync_period_ms, settled.delay_ms, settled.max_age_ms
    found = [Setting(AS_ASKED, 0, plan)]

    def vary(name: str, value_ms: int) -> None:
        values: dict[str, int] = {f"{name}_ms": value_ms}
        varied = replace(settled, **values)  # type: ignore[arg-type]
        if varied.delay_ms < varied.max_age_ms:
            words = f"{name.replace('_', ' ')} {_seconds(value_ms)}"
            found.append(Setting(words, 0, replace(plan, settled=varied, whole=False)))

    if _has_delay(plan):
        if delay_ms:
            vary("delay", max(delay_ms - period_ms, 0))
        vary("delay", delay_ms + period_ms)
    if not settled.all_stand:
        vary("max_age", max_age_ms // 2)
        vary("max_age", max_age_ms * 2)
    if not plan.clocks.recorded and not plan.clocks.passes:
        for part in range(1, PHASE_PARTS):
            shift_ms = period_ms * part // PHASE_PARTS
            clocks = _shifted(plan.clocks, shift_ms)
            words = f"phase {_seconds(shift_ms)} later"
            found.append(Setting(words, shift_ms, replace(plan, clocks=clocks, whole=False)))
    return found


def _has_delay(plan: ReplayPlan) -> bool:
    spans = pl.concat([plan.history.span(table) for table in SAMPLE_TABLES])
    return spans["unfetched_first"].count() > 0


def _shifted(clocks: Clocks, shift_ms: int) -> Clocks:
    """Return the same clocks, every sync a little later."""
    return replace(
        clocks,
        grid=replace(clocks.grid, phase_ms=clocks.grid.phase_ms + shift_ms),
        estimated={
            key: sync._replace(
                phase_ms=(sync.phase_ms + shift_ms) % sync.period_ms,
                anchor_ms=sync.anchor_ms + shift_ms,
            )
            for key, sync in clocks.estimated.items()
        },
    )


def _seconds(time_ms: int) -> str:
    return f"{time_ms / 1000:g} s"


def compare(settings: Sequence[Setting], summaries: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return one row per setting with the columns `COLUMNS`; the first is what others change.

    Args:
        settings: of `settings_of`.
        summaries: the summary of each, in the same order; two of them are in memory.
    """
    rest = iter(summaries)
    asked = next(rest)
    base = total(asked)
    rows: list[dict[str, Any]] = []
    for setting, summary in zip(settings, chain([asked], rest), strict=True):
        totals, of = total(summary), setting.plan.settled
        known = base.agreement_share is not None and totals.agreement_share is not None
        rows.append(
            {
                "setting": setting.name,
                "delay_ms": setting.plan.settled.delay_ms,
                "max_age_ms": None if of.all_stand else of.max_age_ms,
                "phase_shift_ms": setting.phase_shift_ms,
                "agreement_share": totals.agreement_share,
                "agreement_change": (totals.agreement_share or 0.0) - (base.agreement_share or 0.0)
                if known
                else None,
                "undecided_share": totals.undecided_share,
                "decided_replica_hours": totals.decided_replica_hours,
                "rescales": totals.rescales,
                **_most_changed(asked, summary),
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def _most_changed(base: pl.DataFrame, summary: pl.DataFrame) -> dict[str, Any]:
    """Return how many HPAs' agreement changed, and which one's most."""
    other = summary.select(*KEY, other="agreement_share")
    changes = (
        base.select(*KEY, "agreement_share")
        .join(other, on=KEY)
        .with_columns(change=pl.col("other") - pl.col("agreement_share"))
        .filter(pl.col("change").abs() > CHANGED_SHARE)
        .sort([pl.col("change").abs(), *KEY], descending=[True, False, False, False])
    )
    if changes.is_empty():
        return {"hpas_changed": 0, "most_changed": None, "most_change": None}
    first = changes.row(0, named=True)
    name = "/".join(part for part in (first["cluster"], first["namespace"], first["hpa"]) if part)
    change = float(first["change"])
    return {
        "hpas_changed": changes.height,
        "most_changed": name,
        "most_change": change if math.isfinite(change) else None,
    }
