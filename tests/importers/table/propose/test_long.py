"""Long tables that are known by their values, whatever their columns are called."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hpabatch.importers.table.propose.run import propose_map

WORKLOADS = (("shop", "web", 2, 0.4), ("shop", "api", 3, 0.9), ("pay", "ledger", 1, 0.2))


def proposed(folder: Path, head: str, names: tuple[str, str, str]) -> dict[str, object]:
    """Return the map of a table with rows of sizes, cores and bytes."""
    rows = [
        f"2026-10-07T10:{m:02}:00Z,{space},{app},{name},{value}"
        for m in range(10)
        for space, app, size, cpu in WORKLOADS
        for name, value in zip(names, (size, cpu, size << 28), strict=True)
    ]
    (folder / "a.csv").write_text("\n".join([head, *rows, ""]))
    found: dict[str, object] = yaml.safe_load(propose_map([str(folder / "a.csv")]).text)
    return found


@pytest.mark.parametrize("metric", ["metric", "what", "kpi_label"])
@pytest.mark.parametrize("value", ["val", "value", "reading", "v"])
def test_a_long_table_is_known_by_its_values(tmp_path: Path, metric: str, value: str) -> None:
    names = ("replicas_available", "cpu_cores_total", "mem_bytes_total")
    found = proposed(tmp_path, f"timestamp,team_ns,app,{metric},{value}", names)
    assert found["level"] == "workload"
    assert found["pivot"] == {"name": metric, "value": value}
    columns = found["columns"]
    assert isinstance(columns, dict)
    assert (columns["namespace"], columns["workload"]) == ("team_ns", "app")
    assert columns["replicas"] == "replicas_available"
    assert columns["cpu"] == {"column": "cpu_cores_total", "unit": "cores", "of": "sum"}
    assert columns["memory"] == {"column": "mem_bytes_total", "unit": "bytes", "of": "sum"}


def test_workloads_that_are_called_as_measures_are_no_metrics(tmp_path: Path) -> None:
    rows = [
        f"2026-10-07T10:{m:02}:00Z,{name},0.4"
        for m in range(10)
        for name in ("cpu-hog", "web", "api")
    ]
    (tmp_path / "a.csv").write_text("\n".join(["time,app,cpu", *rows, ""]))
    assert "pivot" not in propose_map([str(tmp_path / "a.csv")]).text
