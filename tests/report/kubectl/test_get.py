"""The table of `kubectl get hpa`, beside what tests/real holds against a real server's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpabatch.errors import UsageError
from hpabatch.model.objects.hpa import (
    HPA,
    CrossVersionObjectReference,
    MetricSpec,
    MetricStatus,
    MetricTarget,
)
from hpabatch.report.kubectl import get_rows, get_table
from tests.model.settings_made import average, pods, resource, utilization
from tests.report.kubectl_hpas import NOW_MS, current, hpa

CPU = resource("cpu", utilization(80))
MEMORY = resource("memory", average("100Mi"))
RPS = pods("rps", average("500m"))


def targets(item: HPA, k8s: str = "1.36") -> str:
    (row,) = get_rows([item], NOW_MS, k8s=k8s)
    return row.targets


@pytest.mark.parametrize(
    ("metric", "status", "shown"),
    [
        (CPU, current(CPU, percent=45), "cpu: 45%/80%"),
        (CPU, current(RPS, average="1"), "cpu: <unknown>/80%"),
        (resource("cpu", MetricTarget("Utilization")), None, "cpu: <unknown>/<auto>"),
        (RPS, current(RPS), "<nil>/500m"),
        (pods("rps", MetricTarget("AverageValue")), None, "<unknown>/<nil>"),
        (MetricSpec("Nonsense"), None, "<unknown type>"),
        (MetricSpec("Pods", resource=CPU.resource), None, "<unknown type>"),
    ],
)
def test_targets_that_no_server_of_1_20_shows(
    metric: MetricSpec, status: MetricStatus | None, shown: str
) -> None:
    item = hpa(metric, statuses=None if status is None else (status,))
    assert targets(item) == shown


def test_targets_without_the_name_of_the_resource_before_1_30() -> None:
    item = hpa(CPU, MEMORY, statuses=(current(CPU, percent=45),))
    assert targets(item, "1.30") == "cpu: 45%/80%, memory: <unknown>/100Mi"
    assert targets(item, "1.29") == targets(item, "1.20") == "45%/80%, <unknown>/100Mi"


def test_targets_show_two_metrics() -> None:
    assert targets(hpa()) == "<none>"
    statuses = (current(CPU, percent=45), current(RPS, average="66m"))
    assert targets(hpa(CPU, RPS, statuses=statuses)) == "cpu: 45%/80%, 66m/500m"
    assert targets(hpa(CPU, RPS, MEMORY, statuses=statuses)) == "cpu: 45%/80%, 66m/500m + 1 more..."
    assert targets(hpa(*[CPU] * 5)).endswith(" + 3 more...")


def test_table() -> None:
    items = [
        hpa(CPU, statuses=(current(CPU, percent=45),)),
        replace(hpa(RPS, name="a-long-name", min_replicas=None), creation_timestamp=None),
    ]
    rows = get_rows(items, NOW_MS, k8s="1.36")
    assert get_table(rows, False) == (
        "NAME          REFERENCE        TARGETS          MINPODS   MAXPODS   REPLICAS   AGE\n"
        "web           Deployment/web   cpu: 45%/80%     2         10        3          3d1h\n"
        "a-long-name   Deployment/web   <unknown>/500m   <unset>   10        3          <unknown>\n"
    )


def test_a_table_without_rows_is_nothing() -> None:
    assert get_table([], False) == ""


def test_a_cell_ends_at_its_first_line_end() -> None:
    item = hpa(CPU)
    reference = CrossVersionObjectReference("De\x1bploy", "we\nb")
    item = replace(item, spec=replace(item.spec, scale_target_ref=reference))
    assert "   De\\x1bploy/we\\nb   " in get_table(get_rows([item], NOW_MS, k8s="1.36"), False)


def test_a_version_that_is_none() -> None:
    with pytest.raises(UsageError):
        get_rows([], NOW_MS, k8s="latest")
