"""Names of what metrics measure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.hpa import MetricSpec
from hpabatch.model.plant import signal_name


def metric_of(given: dict[str, Any]) -> MetricSpec:
    hpa, _ = hpa_from_json(json.dumps({"maxReplicas": 1, "metrics": [given]}))
    return hpa.spec.metrics[0]


def external(selector: dict[str, Any]) -> MetricSpec:
    metric = {"name": "depth", "selector": selector}
    return metric_of({"type": "External", "external": {"metric": metric, "target": {}}})


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"type": "Resource", "resource": {"name": "cpu"}}, "resource/cpu"),
        (
            {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app"}},
            "container/app/cpu",
        ),
        ({"type": "Pods", "pods": {"metric": {"name": "rps"}}}, "pods/rps"),
        (
            {
                "type": "Object",
                "object": {
                    "describedObject": {"kind": "Ingress", "name": "web"},
                    "metric": {"name": "hits"},
                },
            },
            "object/Ingress/web/hits",
        ),
        ({"type": "External", "external": {"metric": {"name": "depth"}}}, "external/depth"),
        ({"type": "Mystery"}, "Mystery"),
    ],
)
def test_a_metric_is_named_by_what_it_measures(given: dict[str, Any], name: str) -> None:
    assert signal_name(metric_of(given)) == name


def test_selectors_tell_metrics_apart_even_bad_ones() -> None:
    assert signal_name(external({"matchLabels": {"b": "2", "a": "1"}})) == "external/depth{a=1,b=2}"
    bad = [
        signal_name(external({"matchExpressions": [{"key": "a", "operator": operator}]}))
        for operator in ("Near", "Far")
    ]
    assert len(set(bad)) == 2
    assert all(name.startswith("external/depth{") for name in bad)
