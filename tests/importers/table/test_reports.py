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
from tests.importers.tables import import_table, read_tables, run_import, write_csv

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


GET = """\
NAMESPACE   NAME   REFERENCE        TARGETS              MINPODS   MAXPODS   REPLICAS   AGE
shop        cart   Deployment/cart  cpu: 81%/80%         1         3         1          40m
shop        cart   Deployment/cart  cpu: 95%/80%         1         3         1          41m
shop        web    Deployment/web   cpu: <unknown>/50%   2         9         2          3d
"""
DESCRIBE = """\
$ kubectl describe hpa cart -n shop
Name:                                                  cart
Namespace:                                             shop
Reference:                                             Deployment/cart
Metrics:                                               ( current / target )
  resource cpu on pods  (as a percentage of request):  95% (950m) / 80%
Min replicas:                                          1
Max replicas:                                          3
Deployment pods:                                       1 current / 1 desired
"""
TOP = """\
NAME                    CPU(cores)   MEMORY(bytes)
cart-7d4b9c6f5-x2x9k    950m         210Mi
"""


@pytest.mark.parametrize("text", [GET, DESCRIBE], ids=["get", "describe"])
def test_what_kubectl_prints_of_an_hpa_explains_its_decision(tmp_path: Path, text: str) -> None:
    source, place = write_csv(tmp_path, text, "hpa.txt"), tmp_path / "map.yaml"
    propose([source], str(place), start="2026-10-07T12:00:00Z")
    import_table([source], place, tmp_path / "history")
    found = explain(open_history(tmp_path / "history"), ExplainRequest(name="cart")).text
    assert "goes from 1 to 2 replicas: cpu is at 95% of the requests (target 80%)" in found


OLD_DESCRIBE = DESCRIBE.replace("95% (950m) / 80%", "186% (372m) / 40%")
FAILED = """\
NAME    REFERENCE        TARGETS                         MINPODS   MAXPODS   REPLICAS   AGE
my-hpa  Deployment/cart  <unknown>/500m (avg), 20%/80%   2         5         3          16d
"""
UNKNOWN_CPU = DESCRIBE.replace("95% (950m)", "<unknown>")
MEMORY = (
    "  resource memory on pods  (as a percentage of request): 120% (240Mi) / 80%\nMin replicas:"
)
PARTS = [
    (FAILED, "stays at 3 replicas: 1 of its 2 metrics failed"),
    (FAILED.replace("20%/80%", "120%/80%"), "goes from 3 to 5 replicas"),
    (
        FAILED.replace("<unknown>/500m (avg), 20%/80%", "1% / 25%"),
        "(target 25%), which asks for 1 replica",
    ),
    (OLD_DESCRIBE.replace("replicas: 3", "replicas: 60"), "goes from 1 to 3 replicas"),
    (FAILED.replace("<unknown>/500m (avg), 20%/80%", "0%/50%, 90%/50%"), "goes from 3 to 5 rep"),
    (UNKNOWN_CPU.replace("Min replicas:", MEMORY), "is at 120% of the requests (target 80%)"),
    (DESCRIBE.replace("Min replicas:", MEMORY), "is at 120% of the requests (target 80%)"),
]


@pytest.mark.parametrize(
    ("text", "decision"),
    PARTS,
    ids=["down", "up", "one_percent", "described", "two", "described_unknown", "described_two"],
)
def test_a_metric_without_a_value_keeps_the_hpa_from_shrinking(
    tmp_path: Path, text: str, decision: str
) -> None:
    source, place = write_csv(tmp_path, text, "hpa.txt"), tmp_path / "map.yaml"
    propose([source], str(place), start="2026-10-07T12:00:00Z")
    import_table([source], place, tmp_path / "history")
    found = explain(open_history(tmp_path / "history"), ExplainRequest(name="cart")).text
    assert decision in found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (UNKNOWN_CPU, "a percentage with a value, got none beside <unknown>/80%: where no metric"),
        (FAILED.replace("20%/80%", "1500m/1"), "a percentage with a value, got none beside <unk"),
        (DESCRIBE.rpartition("Deployment pods")[0], "expected a size, got none"),
    ],
    ids=["no_value", "no_percentage", "no_size"],
)
def test_what_kubectl_could_not_tell_is_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        propose([write_csv(tmp_path, text, "hpa.txt")], None, start="2026-10-07T12:00:00Z")


def test_each_hpa_of_kubectl_get_has_its_own_settings(tmp_path: Path) -> None:
    source, place = write_csv(tmp_path, GET, "hpa.txt"), tmp_path / "map.yaml"
    text = propose([source], str(place), start="2026-10-07T12:00:00Z").text
    assert "web: {min: 2, max: 9, cpu: 50%}" in text


def test_kubectl_top_is_one_instant(tmp_path: Path) -> None:
    source, place = write_csv(tmp_path, TOP, "top.txt"), tmp_path / "map.yaml"
    propose([source], str(place), start="2026-10-07T12:00:00Z")
    import_table([source], place, tmp_path / "history")
    usage = read_tables(tmp_path / "history")["pod_metrics"]
    assert usage.select("target", "cpu_milli", "memory_bytes").rows() == [("cart", 950, 210 << 20)]
