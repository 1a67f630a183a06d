"""Proposed maps of real traces; they are no part of the project: HPABATCH_TRACES names a folder."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from hpabatch.importers.table.propose.run import propose_map
from hpabatch.importers.table.run import ImportResult
from tests.importers.tables import import_table
from tests.real.settings import VARIABLE

FOLDER = Path(os.environ.get(VARIABLE, "") or ".")
pytestmark = pytest.mark.skipif(
    not os.environ.get(VARIABLE), reason=f"{VARIABLE} does not name the folder of the traces"
)


def imported(folder: Path, frame: pl.DataFrame) -> tuple[str, ImportResult]:
    source = folder / "trace.parquet"
    frame.write_parquet(source)
    text = propose_map([str(source)]).text
    (folder / "map.yaml").write_text(text)
    return text.replace("\n  #   ", " "), import_table([str(source)], folder / "map.yaml", None)


def test_pods_of_two_applications(tmp_path: Path) -> None:
    rows = pl.read_parquet(FOLDER / "k8s_pods_nezha.parquet")
    rows = rows.filter(pl.col("workload").str.contains("^(ts-[a-b]|cart|front|email)"))
    text, result = imported(tmp_path, rows)
    for part in ("level: pod", "workload: workload", "unit: MiB}",
                 "cpu: {column: cpu_millicores, unit: millicores}"):  # fmt: skip
        assert part in text
    assert result.written["pod_metrics"] == rows.height
    assert set(result.workloads["hpa"]) == set(rows["workload"])


def test_runs_of_a_real_hpa(tmp_path: Path) -> None:
    rows = pl.read_parquet(FOLDER / "hpa_runs_scalereval.parquet")
    one = pl.col("scaler") == pl.col("scaler").first()
    rows = rows.filter(one, pl.col("service").str.contains("^(cart|front)"))
    text, result = imported(tmp_path, rows)
    for part in ("level: workload", "replicas: replicas",
                 "unit: millicores, of: mean}", "unit: MiB, of: mean}"):  # fmt: skip
        assert part in text
    runs = rows.drop_nulls("replicas").select("app", "service").unique()
    assert result.workloads.height == runs.height
    assert result.workloads["replicas_max"].max() == rows["replicas"].max()


def test_virtual_machines(tmp_path: Path) -> None:
    rows = pl.read_parquet(FOLDER / "vm_cpu_bitbrains.parquet")
    rows = rows.filter(pl.col("series").str.ends_with("9"))
    text, result = imported(tmp_path, rows)
    assert "each series is one pod" in text
    assert result.written["pod_metrics"] == rows.height
