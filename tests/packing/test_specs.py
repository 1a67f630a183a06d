"""Specs as columns: which target a metric uses, streams, flags that fill what is unset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpabatch.layout import codes
from hpabatch.layout.records import Records
from hpabatch.model.objects.hpa import Behavior, HPASpec, MetricSpec, ScalingPolicy, ScalingRules
from hpabatch.model.versions import ControllerFlags, Profile, profile_for
from hpabatch.packing.specs import (
    PackedMetric,
    SpecRows,
    lane_streams,
    pack_lanes,
    pack_metric,
    stream_keys,
)
from tests.rules.helpers import (
    Json,
    external,
    hpa_spec,
    object_metric,
    pods_metric,
    policies,
    resource,
)

BAD: Json = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
FLAGS = ControllerFlags(0.2, 1000, 2000, 3500)
PROFILE = profile_for("1.38")


def metric_of(document: Json) -> MetricSpec:
    return hpa_spec(document).metrics[0]


def packed(kind: int, source: int, **fields: Any) -> PackedMetric:
    return PackedMetric(kind, source, **fields)


def unusable(source: int, error: int) -> PackedMetric:
    return PackedMetric(codes.METRIC_UNUSABLE, source, error)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            resource(60),
            packed(codes.RESOURCE_UTILIZATION, codes.SOURCE_RESOURCE, is_cpu=True, target_pct=60),
        ),
        (
            resource(70, name="memory"),
            packed(codes.RESOURCE_UTILIZATION, codes.SOURCE_RESOURCE, target_pct=70),
        ),
        (  # both targets: the average wins
            resource(60, average="250m"),
            packed(codes.RESOURCE_AVERAGE, codes.SOURCE_RESOURCE, is_cpu=True, target_milli=250),
        ),
        (resource(), unusable(codes.SOURCE_RESOURCE, codes.METRIC_BAD_TARGET)),
        (
            resource(60, container="app"),
            packed(
                codes.RESOURCE_UTILIZATION,
                codes.SOURCE_CONTAINER_RESOURCE,
                is_cpu=True,
                target_pct=60,
            ),
        ),
        (
            resource(average="1Ki", name="memory", container="app"),
            packed(codes.RESOURCE_AVERAGE, codes.SOURCE_CONTAINER_RESOURCE, target_milli=1_024_000),
        ),
        (
            pods_metric("100m"),
            packed(codes.PODS_AVERAGE, codes.SOURCE_PODS, target_milli=100),
        ),
        (pods_metric(None), unusable(codes.SOURCE_PODS, codes.METRIC_BAD_TARGET)),
        (pods_metric("1", BAD), unusable(codes.SOURCE_PODS, codes.METRIC_BAD_SELECTOR)),
        (
            object_metric(value="2k"),
            packed(codes.OBJECT_VALUE, codes.SOURCE_OBJECT, target_milli=2_000_000),
        ),
        (
            object_metric(average="3"),
            packed(codes.OBJECT_AVERAGE, codes.SOURCE_OBJECT, target_milli=3000),
        ),
        (object_metric(), unusable(codes.SOURCE_OBJECT, codes.METRIC_BAD_TARGET)),
        (object_metric(selector=BAD), unusable(codes.SOURCE_OBJECT, codes.METRIC_BAD_SELECTOR)),
        (
            external(value="5"),
            packed(codes.EXTERNAL_VALUE, codes.SOURCE_EXTERNAL, target_milli=5000),
        ),
        (  # both: the average wins, whatever the type says
            external(value="5", average="6"),
            packed(codes.EXTERNAL_AVERAGE, codes.SOURCE_EXTERNAL, target_milli=6000),
        ),
        (external(), unusable(codes.SOURCE_EXTERNAL, codes.METRIC_BAD_TARGET)),
        (external(selector=BAD), unusable(codes.SOURCE_EXTERNAL, codes.METRIC_BAD_TARGET)),
        (
            external(value="1", selector=BAD),
            unusable(codes.SOURCE_EXTERNAL, codes.METRIC_BAD_SELECTOR),
        ),
        (
            external(average="1", selector=BAD),
            unusable(codes.SOURCE_EXTERNAL, codes.METRIC_BAD_SELECTOR),
        ),
        ({"type": "Odd"}, unusable(codes.SOURCE_UNKNOWN, codes.METRIC_UNKNOWN_TYPE)),
    ],
)
def test_which_target_a_metric_uses(document: Json, expected: PackedMetric) -> None:
    assert pack_metric(metric_of(document)) == expected


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


def test_an_object_target_of_another_type_than_its_member_is_unusable() -> None:
    document = object_metric(value="1")
    document["object"]["target"]["type"] = "AverageValue"
    expected = unusable(codes.SOURCE_OBJECT, codes.METRIC_BAD_TARGET)
    assert pack_metric(metric_of(document)) == expected


# ---- streams -------------------------------------------------------------------------------------


def test_a_stream_is_what_a_metric_observes_without_its_target() -> None:
    edited = [hpa_spec(resource(60), external(value="1")), hpa_spec(resource(80))]
    assert stream_keys(edited[0])[0] == stream_keys(edited[1])[0]
    keys = lane_streams(edited)
    assert [(k.type, k.resource, k.nth) for k in keys] == [
        ("Resource", "cpu", 0),
        ("External", "", 0),
    ]


def test_equal_metrics_in_one_spec_are_different_streams() -> None:
    spec = hpa_spec(external(value="1"), external(average="1"), external(value="1", name="other"))
    assert [key.nth for key in stream_keys(spec)] == [0, 1, 0]
    assert len(lane_streams([spec, spec])) == 3


def test_subjects_tell_metrics_apart() -> None:
    narrow: Json = {"matchLabels": {"a": "b"}}
    documents = [
        resource(60),
        resource(60, name="memory"),
        resource(60, container="app"),
        resource(60, container="side"),
        pods_metric("1"),
        pods_metric("1", narrow),
        object_metric(value="1"),
        object_metric(value="1", selector=narrow),
        external(value="1"),
        external(value="1", selector=narrow),
        {"type": "Odd"},
    ]
    keys = stream_keys(hpa_spec(*documents))
    assert len(set(keys)) == len(documents)
    assert {key.nth for key in keys} == {0}
    assert [key.resource for key in keys[:4]] == ["cpu", "memory", "cpu", "cpu"]
    assert [key.container for key in keys[:4]] == ["", "", "app", "side"]


# ---- spec rows -----------------------------------------------------------------------------------


def rows(*specs: HPASpec, profile: Profile = PROFILE) -> tuple[Records, Records, Records]:
    table = SpecRows(FLAGS, profile)
    streams = lane_streams(specs)
    assert [table.add(spec, 10, streams) for spec in specs] == list(range(len(specs)))
    return table.tables()


def test_flags_fill_what_behavior_leaves_unset() -> None:
    specs, table, _ = rows(hpa_spec(resource(60), behavior={}))
    spec = specs[0]
    assert spec.has_behavior == 1
    # whole seconds of the flag of 3.5 s
    assert (int(spec.up_window_ms), int(spec.down_window_ms)) == (0, 3000)
    assert (float(spec.up_tolerance), float(spec.down_tolerance)) == (0.2, 0.2)
    assert (int(spec.first_up), int(spec.first_down), int(spec.last_down)) == (0, 2, 3)
    assert table.tolist() == [
        (codes.POLICY_PODS, 4, 15_000),
        (codes.POLICY_PERCENT, 100, 15_000),
        (codes.POLICY_PERCENT, 100, 15_000),
    ]


def test_without_behavior_there_are_no_policies() -> None:
    specs, table, _ = rows(hpa_spec(resource(60), low=2, high=9))
    spec = specs[0]
    assert (int(spec.has_behavior), len(table)) == (0, 0)
    assert (int(spec.min_replicas), int(spec.max_replicas)) == (2, 9)
    assert int(spec.has_object_or_external) == 0


def test_what_behavior_sets_is_taken() -> None:
    behavior = {
        "scaleUp": policies(
            ("Pods", 5, 30), selectPolicy="Min", stabilizationWindowSeconds=60, tolerance="0.05"
        ),
        "scaleDown": policies(
            ("Percent", 6, 90),
            selectPolicy="Disabled",
            stabilizationWindowSeconds=0,
            tolerance="0.5",
        ),
    }
    specs, table, _ = rows(hpa_spec(external(value="1"), behavior=behavior))
    spec = specs[0]
    assert (int(spec.up_window_ms), int(spec.down_window_ms)) == (60_000, 0)
    assert (int(spec.up_select), int(spec.down_select)) == (
        codes.SELECT_MIN,
        codes.SELECT_DISABLED,
    )
    assert (float(spec.up_tolerance), float(spec.down_tolerance)) == (0.05, 0.5)
    assert int(spec.has_object_or_external) == 1
    assert table.tolist() == [
        (codes.POLICY_PODS, 5, 30_000),
        (codes.POLICY_PERCENT, 6, 90_000),
    ]


def test_tolerances_need_their_gate() -> None:
    behavior: Json = {"scaleUp": {"tolerance": "0.05"}, "scaleDown": {"tolerance": "0"}}
    old = replace(PROFILE, gate_configurable_tolerance=False)
    specs, _, _ = rows(hpa_spec(resource(60), behavior=behavior), profile=old)
    assert (float(specs[0].up_tolerance), float(specs[0].down_tolerance)) == (0.2, 0.2)
    specs, _, _ = rows(hpa_spec(resource(60), behavior=behavior))
    assert (float(specs[0].up_tolerance), float(specs[0].down_tolerance)) == (0.05, 0.0)


@pytest.mark.parametrize(
    ("behavior", "up", "down"),
    [
        (Behavior(), 0.2, 0.2),
        (Behavior(ScalingRules(), None), 0.2, 0.2),
        (Behavior(None, ScalingRules(policies=(ScalingPolicy("Odd", 1, 1),))), 0.2, 0.2),
    ],
)
def test_a_behavior_without_defaults_is_packed_too(
    behavior: Behavior, up: float, down: float
) -> None:
    spec = replace(hpa_spec(resource(60)), behavior=behavior, min_replicas=None)
    specs, _, _ = rows(spec)
    assert (float(specs[0].up_tolerance), float(specs[0].down_tolerance)) == (up, down)
    assert int(specs[0].min_replicas) == 1


def test_metrics_point_to_their_streams() -> None:
    first = hpa_spec(resource(60), external(value="1"))
    second = hpa_spec(external(value="2"), {"type": "Odd"}, resource(60))
    specs, _, metrics = rows(first, second)
    assert specs.first_metric.tolist() == [0, 2]
    assert specs.last_metric.tolist() == [2, 5]
    assert metrics.stream.tolist() == [10, 11, 11, 12, 10]
    assert metrics.target_milli.tolist() == [0, 1000, 2000, 0, 0]
    assert metrics.error.tolist() == [0, 0, 0, codes.METRIC_UNKNOWN_TYPE, 0]
    assert metrics.is_cpu.tolist() == [1, 0, 0, 0, 1]


def test_lanes_carry_flags_and_switches() -> None:
    profile = replace(PROFILE, succeeded_pods_ignored=False)
    lanes = pack_lanes(2, FLAGS, profile)
    assert lanes.cpu_initialization_ms.tolist() == [1000, 1000]
    assert lanes.readiness_delay_ms.tolist() == [2000, 2000]
    assert lanes.downscale_stabilization_ms.tolist() == [3500, 3500]
    assert lanes.switches.tolist() == [profile.switches()] * 2
    assert lanes.first_tick.tolist() == lanes.last_change.tolist() == [0, 0]
