"""Logs of experiments: relative times, percentages beside a target, values that are no pod's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.api.statuses import explain
from hpabatch.engine.explain.request import ExplainRequest
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.importers.table.propose.run import propose
from tests.importers.tables import import_table, run_import, write_csv

SECONDS = """\
second,deployment_current_replicas,pod_cpu_cores
0,1,0.0011
30,1,0.0826
60,4,0.1372
"""
RELATIVE: dict[str, Any] = {
    "level": "workload",
    "columns": {
        "time": {"column": "second", "unit": "s"},
        "workload": {"value": "app"},
        "replicas": "deployment_current_replicas",
        "cpu": {"column": "pod_cpu_cores", "unit": "cores", "of": "sum"},
    },
}
WATCH = """\
time,hpa,target_pct,current_pct,replicas,min,max
2021-11-04T08:04:28Z,ping-adapter,80,81,1,1,3
2021-11-04T08:04:43Z,ping-adapter,80,81,1,1,3
2021-11-04T08:04:58Z,ping-adapter,80,95,1,1,3
2021-11-04T08:05:13Z,ping-adapter,80,60,2,1,3
"""
QUEUE = """\
ts,app,size,queue,rps
2026-10-07T12:00:00Z,worker,1,8,100
2026-10-07T12:00:30Z,worker,2,95,900
"""
SHARED: dict[str, Any] = {
    "level": "workload",
    "columns": {
        "time": "ts",
        "workload": "app",
        "replicas": "size",
        "metrics": {
            "depth": {"column": "queue", "type": "External", "selector": "queue=orders"},
            "rps": {"column": "rps", "type": "Object", "object": "Ingress/web"},
        },
    },
}


def times(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Return the times of the usage."""
    return tables["pod_metrics"]["ts"].unique().sort().dt.strftime("%F %T").to_list()


@pytest.mark.parametrize(("unit", "last"), [("s", "12:01:00"), ("m", "13:00:00")])
def test_relative_times_count_from_their_start(tmp_path: Path, unit: str, last: str) -> None:
    time = {"column": "second", "unit": unit, "start": "2026-10-07T12:00:00Z"}
    stated = {**RELATIVE, "columns": RELATIVE["columns"] | {"time": time}}
    _, tables = run_import(tmp_path, stated, SECONDS)
    assert times(tables)[-1] == f"2026-10-07 {last}"


def test_the_start_option_counts_instead_of_the_map(tmp_path: Path) -> None:
    _, tables = run_import(tmp_path, RELATIVE, SECONDS, start="2026-10-07 14:00")
    assert times(tables)[-1] == "2026-10-07 14:01:00"
    with pytest.raises(UsageError, match="--start: expected a date and time"):
        run_import(tmp_path, RELATIVE, SECONDS, start="14:00")


def test_a_map_of_relative_times_is_proposed_with_their_start(tmp_path: Path) -> None:
    source, place = write_csv(tmp_path, SECONDS), tmp_path / "map.yaml"
    propose([source], str(place), start="2026-10-07T12:00:00Z")
    assert "{column: second, unit: s, start: '2026-10-07T12:00:00Z'}" in place.read_text()
    import_table([source], place, tmp_path / "history")
    with pytest.raises(UsageError, match="--start: expected relative times, got '2021-11-04T08:04"):
        propose([write_csv(tmp_path, WATCH)], None, start="2026-10-07T12:00:00Z")


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """A history of percentages beside their target, by the map that is proposed for them."""
    source, place = write_csv(tmp_path, WATCH), tmp_path / "map.yaml"
    text = propose([source], str(place)).text
    assert "of: mean" in text
    assert "template: {min: 1, max: 3, cpu: 80%}" in text
    assert "guessed" not in text
    import_table([source], place, tmp_path / "history")
    return tmp_path / "history"


def verdict(history: Path, **options: Any) -> str:
    """Return the explanation of a decision on the only HPA."""
    request = ExplainRequest(name="default/ping-adapter", **options)
    return explain(open_history(history), request).text


def test_a_percentage_of_a_workload_is_the_mean_of_its_pods(watched: Path) -> None:
    grown = "goes from 1 to 2 replicas: cpu is at 95% of the requests (target 80%)"
    assert grown in verdict(watched)
    same = "stays at 1 replica: cpu is at 81% of the requests (target 80%), within the tolerance"
    assert same in verdict(watched, at="2021-11-04 08:04:30")


def test_stated_flags_and_requests_count_instead_of_recorded_ones(watched: Path) -> None:
    assert "stays at 1 replica" in verdict(watched, tolerance=0.2)
    halved = verdict(watched, requests=("ping-adapter=500m",))
    assert "to 3 replicas: cpu is at 190% of the requests" in halved
    with pytest.raises(UsageError, match="did you mean ping-adapter"):
        verdict(watched, requests=("ping-adaptor=1",))
    with pytest.raises(UsageError, match=r"--requests ping-adapter=x: expected \["):
        verdict(watched, requests=("ping-adapter=x",))


def test_values_that_are_no_pods(tmp_path: Path) -> None:
    _, tables = run_import(tmp_path, SHARED, QUEUE)
    found = tables["external_metrics"].select("metric", "selector", "series", "value_milli").rows()
    assert found == [("depth", "queue=orders", "", 8000), ("depth", "queue=orders", "", 95_000)]
    found = tables["object_metrics"].select("kind", "name", "metric", "value_milli").rows()
    assert found == [("Ingress", "web", "rps", 100_000), ("Ingress", "web", "rps", 900_000)]


def test_values_of_a_namespace_that_differ_are_told(tmp_path: Path) -> None:
    other = QUEUE + "2026-10-07T12:00:30Z,web,1,94,900\n"
    result, _ = run_import(tmp_path, SHARED, other)
    assert any("1 value: rows of one time" in text for text in result.warnings)
    with pytest.raises(RefusedError, match="1 rows of one time"):
        run_import(tmp_path / "history", SHARED, other, strict=True)


@pytest.mark.parametrize(
    "targets", [("80", "80", "40"), ("80", "80", "80")], ids=["of_each", "of_all"]
)
def test_settings_that_columns_state_are_those_of_the_hpas(
    tmp_path: Path, targets: tuple[str, str, str]
) -> None:
    names = ("ping-adapter", "ping-adapter", "cart")
    rows = [
        f"2021-11-04T08:0{k}:28Z,{name},{target},81,2,1,3\n"
        for k, (name, target) in enumerate(zip(names, targets, strict=True))
    ]
    source = write_csv(tmp_path, WATCH.partition("\n")[0] + "\n" + "".join(rows))
    text = propose([source], str(tmp_path / "map.yaml")).text
    of_each = len(set(targets)) > 1
    assert ("cart: {min: 1, max: 3, cpu: 40%}" in text) is of_each
    assert ("template: {min: 1, max: 3, cpu: 80%}" in text) is not of_each
