"""History of a fleet whose truth is known: today's run of the first weeks, as seen from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from benchmarks.exported_run import export_run
from benchmarks.truth_fleet import CPU, START_MS, TOLD, WEEK_MS, Truth
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.requested import Requested
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.history.store.writer import write_table
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.versions import ControllerFlags, Profile

TODAY: Final = "today"
FLAGS: Final = ControllerFlags()


def case_of(
    truth: Truth, spec: HPASpec, setting: str, first_week: int, weeks: int, sync_ms: int
) -> SimulationCase:
    """Return the true workload under a spec, from a week on."""
    request = truth.workload.plant.signals[CPU].request_milli
    return SimulationCase(
        workload=truth.workload,
        periods=(SpecPeriod(START_MS, NEVER_MS, spec),),
        setting=setting,
        start_ms=START_MS + first_week * WEEK_MS,
        period_ms=sync_ms,
        steps=weeks * WEEK_MS // sync_ms,
        flags=FLAGS,
        requested=Requested(cpu_milli=request),
    )


def record(
    fleet: Sequence[Truth], folder: Path, profile: Profile, weeks: int, sync_ms: int, seed: int
) -> None:
    """Write today's run of the first weeks as the history of a fleet."""
    cases = [case_of(t, t.spec, TODAY, 0, weeks, sync_ms) for t in fleet]
    write_history(cases, limits_of(fleet), folder, profile, seed)


def limits_of(fleet: Sequence[Truth]) -> dict[tuple[str, str], int | None]:
    """Return the cpu limits that are recorded, by namespace and target, in milli."""
    return {
        (t.workload.namespace, t.spec.scale_target_ref.name): t.workload.plant.signals[
            CPU
        ].ceiling_milli
        for t in fleet
        if t.limit == TOLD
    }


def write_history(
    cases: Sequence[SimulationCase],
    limits: Mapping[tuple[str, str], int | None],
    folder: Path,
    profile: Profile,
    seed: int,
) -> None:
    """Write runs as a history; `limits` are cpu limits by namespace and target, in milli."""
    write_tables(export_run(cases, profile, seed=seed).tables, limits, folder)


def write_tables(
    tables: dict[str, pl.DataFrame],
    limits: Mapping[tuple[str, str], int | None],
    folder: Path,
) -> Path:
    """Write the tables of a run as a history with cpu limits, in milli; return its folder."""
    tables["pod_requests"] = _with_limits(tables["pod_requests"], limits)
    tables["pod_metrics"] = _in_order(tables["pod_metrics"], tables["pods"])
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        write_table(frame, folder / f"{name}.parquet", name)
    return folder


def _with_limits(
    requests: pl.DataFrame, limits: Mapping[tuple[str, str], int | None]
) -> pl.DataFrame:
    names = ["namespace", "target"]
    schema = {**dict.fromkeys(names, pl.String()), "limit": pl.Int64()}
    rows = [(*key, limit) for key, limit in limits.items()]
    known = pl.DataFrame(rows, schema=schema, orient="row")
    joined = requests.join(known, on=names, how="left", maintain_order="left")
    return joined.with_columns(cpu_limit_milli="limit").select(requests.columns)


def _in_order(samples: pl.DataFrame, pods: pl.DataFrame) -> pl.DataFrame:
    """Return samples in the order of their table, which a writer finds out by sorting texts."""
    names = ["cluster", "namespace", "target", "uid", "pod"]
    order = pods.select(names).sort(names).select("uid").with_row_index("place")
    placed = samples.join(order, on="uid", how="left", maintain_order="left")
    return placed.sort("place", "container", "ts").drop("place")
