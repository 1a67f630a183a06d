"""Sweeps of small pieces of the demo data, in the engine's own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.simulate.run import LoopOptions
from hpabatch.engine.sweep.run import (
    SweepOptions,
    SweepPlan,
    finish_results,
    plan_sweep,
    prepare_part,
    run_part,
    units_frame,
)
from hpabatch.history.reader import open_history
from hpabatch.inputs.grid import read_grids
from hpabatch.model.settings.fields import SHIPPED
from tests.cli.histories import START, cut_day

KEY = ["cluster", "namespace", "hpa"]
HOUR_MS = 3_600_000
Where = Callable[[pl.DataFrame], pl.DataFrame]


def only(*names: str) -> Where:
    """Return what selects HPAs by namespace/name."""
    name = pl.concat_str("namespace", pl.lit("/"), "hpa")
    return lambda frame: frame.filter(name.is_in(list(names)))


def planned(
    grids: Sequence[str],
    history: Path,
    where: Where | None = None,
    *,
    groups: Sequence[str] = (),
    parameters: ReplayParameters | None = None,
    fidelity: bool = False,
    **loop: Any,
) -> SweepPlan:
    """Return the plan of a sweep of two hours, unless told otherwise."""
    options = SweepOptions(
        grid=read_grids(grids, SHIPPED),
        sets=SHIPPED,
        groups=tuple(groups),
        loop=LoopOptions(**({"length_ms": 2 * HOUR_MS} | loop)),
        fidelity=fidelity,
    )
    return plan_sweep(open_history(history), parameters or ReplayParameters(), options, where)


def swept(sweep: SweepPlan) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return results and blocks of a sweep, as its files have them."""
    results, blocks = [], []
    for number in range(len(sweep.parts)):
        part = prepare_part(sweep, number)
        for first, last in sweep.chunks:
            found = run_part(sweep, part, first, last)
            results.append(found[0])
            blocks.append(found[1])
    return (
        finish_results(pl.concat(results), units_frame(sweep)),
        pl.concat(blocks).sort(*KEY, "setting_id", "block"),
    )


def cut(folder: Path, *names: str, hours: float = 2.25, since: int = 8) -> Path:
    """Write the last day of some targets (namespace/name) with a few hours of its samples."""

    def where(rows: pl.LazyFrame) -> pl.LazyFrame:
        columns = rows.collect_schema().names()
        for column in ("target", "name", "hpa"):
            if column in columns and "kind" not in columns:
                name = pl.concat_str("namespace", pl.lit("/"), column)
                return rows.filter(pl.col(column).is_null() | name.is_in(list(names)))
        return rows

    begin = START + timedelta(hours=since)
    return cut_day(folder, where, begin, begin + timedelta(hours=hours))
