"""Import of the text that kubectl prints of HPAs and pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.api.statuses import explain
from hpabatch.engine.explain.request import ExplainRequest
from hpabatch.errors import UsageError
from hpabatch.history.reader import open_history
from hpabatch.importers.table.propose.run import propose
from tests.importers.tables import import_table, read_tables, write_csv

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
