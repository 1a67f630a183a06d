"""Ways in which the history of a fleet whose truth is known comes to its reader.

The full export; one sample a pod and minute as CSV through `import table`, without readiness; the
same as totals of workloads; samples that the controller saw through a lens; the full export with
specs that are not the controller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import yaml

from benchmarks.answers_truth import (
    SYNC_MS,
    WRONG_BY,
    Known,
    Source,
    rows_per_workload,
    thinned,
    wrong_spec,
)
from benchmarks.exported_run import export_run
from benchmarks.lens_truth import drawn, recorded, seen_through
from benchmarks.truth_fleet import CLUSTER, CPU, Truth
from benchmarks.truth_record import TODAY, case_of, limits_of, write_tables
from hpabatch.api.imports import import_table
from hpabatch.inputs.lenses import Lens
from hpabatch.model.objects.encode import encode_hpa, spec_to_json
from hpabatch.model.plant import RESOURCE, Pipeline
from hpabatch.model.versions import Profile

FULL: Final = "full export"
CSV: Final = "CSV, 1 a minute"
TOTALS: Final = "CSV of totals"
LENS: Final = "through a lens"
WRONG: Final = "wrong specs"
WAYS: Final = (FULL, CSV, LENS, CSV, FULL, WRONG)
"""By the number of a batch: a third through CSV."""
_DRAWS: Final = 100
_MINUTE: Final = Source(60_000)


@dataclass(frozen=True, slots=True)
class Recording:
    """A fleet to be recorded: its first `weeks`, by syncs of `sync_ms`."""

    fleet: Sequence[Truth]
    weeks: int
    sync_ms: int
    seed: int
    profile: Profile

    def tables(self) -> dict[str, pl.DataFrame]:
        """Run today's settings; return the tables of the history."""
        cases = [case_of(t, t.spec, TODAY, 0, self.weeks, self.sync_ms) for t in self.fleet]
        return export_run(cases, self.profile, seed=self.seed).tables


def as_it_is(fleet: Sequence[Truth], way: str, seed: int, batch: int) -> list[Truth]:
    """Return the fleet as it really is: behind a lens controllers read means."""
    if way != LENS:
        return list(fleet)
    return [_reads(t, lens_of(seed, batch).smoothing_ms or SYNC_MS) for t in fleet]


def lens_of(seed: int, batch: int) -> Lens:
    """Return the lens of a batch: the first drawn that changes anything."""
    draws = (drawn(seed, batch * _DRAWS + k) for k in range(_DRAWS))
    return next(lens for lens in draws if lens.changes)


def _reads(truth: Truth, window_ms: int) -> Truth:
    plant, workload = truth.workload.plant, truth.workload
    pipeline = Pipeline(window_ms=window_ms, max_age_ms=plant.pipelines[RESOURCE].max_age_ms)
    return replace(
        truth,
        workload=replace(workload, plant=replace(plant, pipelines={RESOURCE: pipeline})),
    )


def write_history(asked: Recording, way: str, batch: int, folder: Path) -> Path:
    """Record a fleet, and write it in one way; return the folder of the history."""
    if way in (CSV, TOTALS):
        return _as_csv(asked, folder, of_totals=way == TOTALS)
    if way == LENS:
        tables = _behind(asked, lens_of(asked.seed, batch))
    else:
        tables = asked.tables()
    if way == WRONG:
        tables["hpas"] = _with_wrong_specs(tables["hpas"], asked)
    return write_tables(tables, limits_of(asked.fleet), folder / "history")


def _behind(asked: Recording, lens: Lens) -> dict[str, pl.DataFrame]:
    """Return the tables with the samples of which the controller saw means, at other times."""
    fleet = [seen_through(t, lens) for t in asked.fleet]
    return recorded(replace(asked, fleet=fleet).tables(), lens)


def _with_wrong_specs(hpas: pl.DataFrame, asked: Recording) -> pl.DataFrame:
    wrong = {}
    for truth in asked.fleet:
        random = np.random.Generator(np.random.PCG64([asked.seed, *truth.workload.hpa.encode()]))
        ways = [by for by in WRONG_BY if by != "metric"]
        drawn_first = [ways[k] for k in random.permutation(len(ways))]
        specs = (wrong_spec(Known(truth, None), by) for by in drawn_first)
        spec = next(found for found in specs if found is not None)
        hpa = replace(Known(truth, None).hpa, spec=spec)
        wrong[truth.workload.hpa] = spec_to_json(hpa)
    return hpas.with_columns(spec=pl.col("name").replace_strict(wrong, return_dtype=pl.String()))


def _as_csv(asked: Recording, folder: Path, *, of_totals: bool) -> Path:
    """Write a sample a minute, of each pod or of all of a workload, and import it.

    Beside it is what a user knows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = asked.tables()
    rows, whose = thinned(tables["pod_metrics"], _MINUTE), "pod"
    if of_totals:
        rows, whose = rows_per_workload(rows, tables["scales"]), "replicas"
    rows.select("namespace", "target", whose, "cpu_milli", "memory_bytes", "ts").with_columns(
        pl.col("ts").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
    ).write_csv(folder / "usage.csv")
    hpas = [_object(t) for t in asked.fleet]
    (folder / "hpas.yaml").write_text(yaml.safe_dump_all(hpas, sort_keys=False))
    (folder / "map.yaml").write_text(yaml.safe_dump(_map(asked.fleet, whose), sort_keys=False))
    import_table(folder / "usage.csv", map=folder / "map.yaml", out=folder / "history")
    return folder / "history"


def _object(truth: Truth) -> dict[str, Any]:
    return dict(encode_hpa(Known(truth, None).hpa))


def _map(fleet: Sequence[Truth], whose: str) -> dict[str, Any]:
    def name(truth: Truth) -> str:
        return f"{truth.workload.namespace}/{truth.workload.hpa}"

    requests = {name(t): f"{t.workload.plant.signals[CPU].request_milli}m" for t in fleet}
    limits = {f"{n}/{target}": f"{milli}m" for (n, target), milli in limits_of(fleet).items()}
    sums = {"of": "sum"} if whose == "replicas" else {}
    return {
        "level": "workload" if sums else "pod",
        "columns": {
            "time": "ts",
            "cluster": {"value": CLUSTER},
            "namespace": "namespace",
            "workload": "target",
            whose: whose,
            "cpu": {"column": "cpu_milli", "unit": "millicores", **sums},
            "memory": {"column": "memory_bytes", "unit": "bytes", **sums},
        },
        "window": "30s",
        "requests": {"cpu": {"workloads": requests}},
        "hpas": {"manifests": ["hpas.yaml"]},
        **({"limits": {"cpu": {"workloads": limits}}} if limits else {}),
    }
