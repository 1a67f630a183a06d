"""Metrics that no controller can use: what is refused of them, and with which error."""

from __future__ import annotations

import pytest

from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPASpec, MetricSpec
from hpabatch.packing.specs import PackedMetric, pack_metric, stream_keys
from tests.rules.helpers import Json, external, hpa_spec, object_metric, pods_metric, resource

BAD: Json = {"matchExpressions": [{"key": "a", "operator": "Near"}]}


def mistyped() -> Json:
    """Return an Object metric whose target is of another type than its member."""
    document = object_metric(value="1")
    document["object"]["target"]["type"] = "AverageValue"
    return document


def unusable(source: int, error: int) -> PackedMetric:
    return PackedMetric(codes.METRIC_UNUSABLE, source, error)


@pytest.mark.parametrize(
    ("document", "source", "error"),
    [
        (resource(), codes.SOURCE_RESOURCE, codes.METRIC_BAD_TARGET),
        (pods_metric(None), codes.SOURCE_PODS, codes.METRIC_BAD_TARGET),
        (pods_metric("1", BAD), codes.SOURCE_PODS, codes.METRIC_BAD_SELECTOR),
        (object_metric(), codes.SOURCE_OBJECT, codes.METRIC_BAD_TARGET),
        (object_metric(selector=BAD), codes.SOURCE_OBJECT, codes.METRIC_BAD_SELECTOR),
        (mistyped(), codes.SOURCE_OBJECT, codes.METRIC_BAD_TARGET),
        (external(selector=BAD), codes.SOURCE_EXTERNAL, codes.METRIC_BAD_TARGET),
        (external(value="1", selector=BAD), codes.SOURCE_EXTERNAL, codes.METRIC_BAD_SELECTOR),
        ({"type": "Odd"}, codes.SOURCE_UNKNOWN, codes.METRIC_UNKNOWN_TYPE),
    ],
)
def test_what_no_metric_can_be(document: Json, source: int, error: int) -> None:
    assert pack_metric(hpa_spec(document).metrics[0]) == unusable(source, error)


@pytest.mark.parametrize(
    ("document", "kind", "milli"),
    [
        (resource(60, average="250m"), codes.RESOURCE_AVERAGE, 250),
        (external(value="5", average="6"), codes.EXTERNAL_AVERAGE, 6000),
    ],
)
def test_of_two_targets_the_average_wins(document: Json, kind: int, milli: int) -> None:
    found = pack_metric(hpa_spec(document).metrics[0])
    assert (found.kind, found.target_milli) == (kind, milli)


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("Resource", codes.SOURCE_RESOURCE),
        ("ContainerResource", codes.SOURCE_CONTAINER_RESOURCE),
        ("Pods", codes.SOURCE_PODS),
        ("Object", codes.SOURCE_OBJECT),
        ("External", codes.SOURCE_EXTERNAL),
    ],
)
def test_a_type_without_its_member_has_no_target(kind: str, source: int) -> None:
    assert pack_metric(MetricSpec(type=kind)) == unusable(source, codes.METRIC_BAD_TARGET)
    key = stream_keys(HPASpec(metrics=(MetricSpec(type=kind),)))[0]
    assert (key.type, key.subject, key.resource, key.container) == (kind, "", "", "")
