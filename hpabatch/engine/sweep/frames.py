"""Frames of a sweep beside its results: settings, units and HPAs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.fit.pods import STARTS
from hpabatch.engine.fit.workload import FITTED, OPEN, Fact
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.run import KEY, Loop
from hpabatch.engine.simulate.work import key_of
from hpabatch.engine.sweep.blocks import UNITS, block_count
from hpabatch.engine.sweep.context import COLUMNS as CONTEXT_COLUMNS
from hpabatch.engine.sweep.context import Context
from hpabatch.inputs.grid import Grid
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA
from hpabatch.packing.workloads import primary_signal

if TYPE_CHECKING:
    from hpabatch.engine.sweep.run import SweepPlan, SweptPart


_HPA_SCHEMA: Final = {
    **dict.fromkeys((*KEY, "target_kind", "target", "spec"), pl.String()),
    **dict.fromkeys(("min_replicas", "max_replicas", "cpu_milli", "memory_milli"), pl.Int64()),
    "days": pl.Float64(),
    "blocks": pl.Int32(),
    "problems": pl.String(),
    "censored_pct": pl.Float64(),
    "ceiling": pl.String(),
    **dict.fromkeys(("base_share", "starting_share"), pl.Float64()),
    "starts_assumed": pl.String(),
    **dict.fromkeys(CONTEXT_COLUMNS, pl.String()),
}
SCORES: Final = {
    **dict.fromkeys(KEY, pl.String()),
    "advice": pl.Boolean(),
    "why_not": pl.String(),
    **dict.fromkeys(("plant_unscored", "plant_why_not"), pl.String()),
    **dict.fromkeys(("plant_skill", "plant_skill_low", "plant_skill_high"), pl.Float64()),
    "controller_answer": pl.String(),
    "controller_explained_share": pl.Float64(),
}
"""Columns of the fidelity scores that a sweep keeps."""


def settings_frame(grid: Grid) -> pl.DataFrame:
    """Return one row per setting: setting_id, setting, and a column per field of the grid."""
    values = [dict(setting.values) for setting in grid.settings]
    return pl.DataFrame(
        {
            "setting_id": pl.Series(range(len(grid.settings)), dtype=pl.Int32),
            "setting": pl.Series([s.name for s in grid.settings], dtype=pl.String),
            **{
                name: pl.Series([v.get(name) for v in values], dtype=pl.String)
                for name in grid.fields
            },
        }
    )


def units_frame(sweep: SweepPlan) -> pl.DataFrame:
    """Return the unit of each HPA."""
    rows = [
        (*key_of(sweep.plan.chosen[k]), unit.name) for unit in sweep.units for k in unit.members
    ]
    return pl.DataFrame(rows, schema=[*KEY, "unit"], orient="row").sort(KEY)


def hpas_frame(sweep: SweepPlan, part: SweptPart) -> pl.DataFrame:
    """Return one row per HPA of a scored part that was simulated: its spec, scores, problems."""
    rows: list[dict[str, Any]] = []
    unit_ms = UNITS[sweep.unit]
    for known in part.cases:
        case, spec = known.case, known.today
        key = case.key[:3]
        length_ms = case.steps * case.period_ms
        rows.append(
            dict(zip(KEY, key, strict=True))
            | {
                "target_kind": spec.scale_target_ref.kind,
                "target": spec.scale_target_ref.name,
                "spec": spec_to_json(HPA(name=key[2], namespace=key[1], spec=spec)),
                "min_replicas": spec.min_replicas,
                "max_replicas": spec.max_replicas,
                "cpu_milli": case.requested.cpu_milli,
                "memory_milli": case.requested.memory_milli,
                "days": length_ms / UNITS["day"],
                "blocks": block_count(length_ms, unit_ms),
                "problems": "; ".join(part.loop.problems[key]),
                "censored_pct": part.loop.censored[key],
                "ceiling": _ceiling_source(part.loop, case),
                "base_share": _fitted_share(part.loop, case, "base"),
                "starting_share": _fitted_share(part.loop, case, "startup"),
                "starts_assumed": _starts_assumed(part.loop, case),
            }
            | sweep.contexts.get(key, Context()).columns()
        )
    frame = pl.DataFrame(rows, schema=_HPA_SCHEMA, orient="row")
    joined = frame.join(part.scores, on=KEY, how="left", maintain_order="left")
    return joined.join(units_frame(sweep), on=KEY, how="left", maintain_order="left")


def _fact(loop: Loop, case: SimulationCase, name: str) -> Fact | None:
    return next((fact for fact in loop.facts[case.key[:3]] if fact.name == name), None)


def _fitted_share(loop: Loop, case: SimulationCase, name: str) -> float | None:
    """Return an amount of the work's signal as a share of a pod's median usage; None: not fitted.

    That of fewer pods saved by a higher target which rests on a base is the same share.
    """
    signal = f"signals.{primary_signal(case.workload.plant)}"
    amount, used = _fact(loop, case, f"{signal}.{name}"), _fact(loop, case, f"{signal}.observed")
    if amount is None or amount.source != FITTED or used is None or not used.value:
        return None
    return (amount.value or 0.0) / used.value


def _starts_assumed(loop: Loop, case: SimulationCase) -> str | None:
    """Return what is assumed of when pods are ready; None: nothing, or no pod started."""
    fact = _fact(loop, case, "pods.startup")
    return next((name for name, note in STARTS.items() if fact and fact.note == note), None)


def _ceiling_source(loop: Loop, case: SimulationCase) -> str | None:
    """Return where the ceiling of the work's signal is from (`Fact.source`); None: no such work.

    OPEN where `none` is stated, too: it bounds no usage.
    """
    found = _fact(loop, case, f"signals.{primary_signal(case.workload.plant)}.ceiling")
    if found is None:
        return None
    return OPEN if found.value is None else found.source
