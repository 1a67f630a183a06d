"""Patches: merged into today's object they give exactly the spec that is wanted, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import (
    Behavior,
    CrossVersionObjectReference,
    HPASpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    ResourceMetricSource,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.settings.patch import apply_patch, patch_document, patch_version, spec_patch
from hpabatch.model.versions import PROFILES
from tests.model.settings_made import WEB, specs

WRITTEN = specs(written=True)


def merged(today: HPASpec, patch: dict[str, object]) -> HPASpec:
    """Return the spec that a server stores: the patched document with its defaults."""
    document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    spec: Any = apply_patch({"spec": encode_spec(today)}, {"spec": patch})
    hpa, problems = decode_hpa(document | spec)
    assert not problems
    return default_spec(hpa.spec)


@given(WRITTEN, WRITTEN)
def test_today_with_the_patch_is_what_is_wanted(today: HPASpec, other: HPASpec) -> None:
    wanted = default_spec(other)
    patch = spec_patch(today, wanted)
    assert merged(today, patch) == wanted
    assert merged(default_spec(today), patch) == wanted
    assert (patch == {}) == (default_spec(today) == wanted)


@given(WRITTEN, st.integers(77, 79))
def test_only_what_changes_is_named(today: HPASpec, most: int) -> None:
    wanted = replace(default_spec(today), max_replicas=most)
    assert spec_patch(today, wanted) == {"maxReplicas": most}


def test_a_patch_by_hand() -> None:
    cpu = MetricSpec(
        "Resource",
        resource=ResourceMetricSource("cpu", MetricTarget("Utilization", None, None, 60)),
    )
    today = HPASpec(WEB, 2, 10, (cpu,), None)
    rules = ScalingRules(stabilization_window_seconds=60)
    target = MetricTarget("Utilization", None, None, 75)
    wanted = default_spec(
        HPASpec(
            WEB,
            2,
            10,
            (replace(cpu, resource=ResourceMetricSource("cpu", target)),),
            Behavior(scale_down=rules),
        )
    )
    assert patch_document("api", "shop", spec_patch(today, wanted)) == {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "api", "namespace": "shop"},
        "spec": {
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 75},
                    },
                }
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
        },
    }


@pytest.mark.parametrize(
    ("k8s", "version"),
    [("1.20", "autoscaling/v2beta2"), ("1.26", "autoscaling/v2"), ("1.38", "autoscaling/v2")],
)
def test_old_clusters_get_an_older_version(k8s: str, version: str) -> None:
    assert patch_version(PROFILES[k8s]) == version


def test_merging_keeps_what_is_not_named_and_null_removes() -> None:
    value = {"a": {"b": 1, "c": [1, 2]}, "d": 4}
    assert apply_patch(value, {"a": {"c": [3], "b": None}, "e": {"f": 5}}) == {
        "a": {"c": [3]},
        "d": 4,
        "e": {"f": 5},
    }
    assert value == {"a": {"b": 1, "c": [1, 2]}, "d": 4}


def test_a_zero_beside_an_average_is_not_sent() -> None:
    """Servers that store HPAs as v1 hand it out, and refuse every update in which it stands."""
    target = MetricTarget(
        type="AverageValue",
        value=Quantity.from_milli(0),
        average_value=Quantity.from_milli(5000),
    )
    described = CrossVersionObjectReference(kind="Service", name="web")
    source = ObjectMetricSource(described, MetricIdentifier("requests"), target)
    metric = MetricSpec(type="Object", object=source)
    today = HPASpec(CrossVersionObjectReference("Deployment", "web"), 1, 5, (metric,))
    patch = spec_patch(today, replace(today, max_replicas=7))
    assert patch["maxReplicas"] == 7
    sent: Any = patch["metrics"]
    assert sent[0]["object"]["target"] == {"type": "AverageValue", "averageValue": "5"}
    assert spec_patch(today, today) == {}
