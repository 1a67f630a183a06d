"""Specs as servers up to 1.26 hand them back: order, lost metrics, targets' types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPASpec, MetricSpec
from hpabatch.model.objects.stored import as_stored, stored_order
from hpabatch.model.versions import PROFILES, Profile

Json = dict[str, Any]
V20, V26, V32 = PROFILES["1.20"], PROFILES["1.26"], PROFILES["1.32"]

CPU_SHARE: Json = {"averageUtilization": 50}
CPU_AVERAGE: Json = {"averageValue": "100m"}


def resource(target: Json, name: str = "cpu", container: str | None = None) -> Json:
    if container is None:
        return {"type": "Resource", "resource": {"name": name, "target": target}}
    member = {"name": name, "container": container, "target": target}
    return {"type": "ContainerResource", "containerResource": member}


def pods(target: Json) -> Json:
    return {"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": target}}


def of_object(target: Json) -> Json:
    described = {"kind": "Service", "name": "main"}
    member = {"metric": {"name": "hits"}, "describedObject": described, "target": target}
    return {"type": "Object", "object": member}


def external(target: Json) -> Json:
    return {"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}


def spec(*metrics: Json) -> HPASpec:
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
            "metrics": list(metrics),
        },
    }
    return decode_hpa(document)[0].spec


def targets(stored: HPASpec) -> list[Json]:
    """Return the targets of a spec, as in a document."""
    metrics: Any = encode_spec(stored)["metrics"]
    shown = []
    for metric in metrics:
        member = next(value for key, value in metric.items() if key != "type")
        shown.append(member["target"])
    return shown


def stored_target(metric: Json, profile: Profile = V26) -> Json:
    """Return what becomes of one metric's target."""
    (target,) = targets(as_stored(spec(metric), profile))
    return target


def test_newer_servers_keep_what_was_written() -> None:
    odd = spec(resource(CPU_SHARE), resource(CPU_SHARE), of_object({"type": "Utilization"}))
    assert as_stored(odd, V32) is odd
    assert stored_order(odd, V32) == (0, 1, 2)


@pytest.mark.parametrize("profile", [V20, V26])
def test_the_cpu_utilization_comes_last_and_a_second_one_is_lost(profile: Profile) -> None:
    written = spec(
        resource({"type": "Utilization", "averageUtilization": 50}),
        resource({"averageUtilization": 90}, "memory"),
        resource({"averageUtilization": 70}),
        resource({"averageUtilization": 60}, container="app"),
    )
    assert stored_order(written, profile) == (1, 3, 0)
    stored = as_stored(written, profile)
    shares = [target["averageUtilization"] for target in targets(stored)]
    assert shares == [90, 60, 50]
    assert stored.max_replicas == written.max_replicas


def test_an_average_of_cpu_before_it_hides_the_utilization_in_1_20() -> None:
    written = spec(resource(CPU_AVERAGE), resource(CPU_SHARE), pods({"averageValue": "1"}))
    assert stored_order(written, V20) == (0, 2)
    assert stored_order(written, V26) == (0, 2, 1)
    after = spec(resource(CPU_SHARE), resource(CPU_AVERAGE))
    assert stored_order(after, V20) == stored_order(after, V26) == (1, 0)


def test_both_members_of_a_cpu_metric_leave_the_utilization() -> None:
    both = resource({"averageUtilization": 50, "averageValue": "1"})
    assert stored_target(both) == {"type": "Utilization", "averageUtilization": 50}


@pytest.mark.parametrize("profile", [V20, V26])
def test_without_metrics_the_server_adds_one(profile: Profile) -> None:
    assert stored_order(spec(), profile) == (None,)
    assert targets(as_stored(spec(), profile)) == [
        {"type": "Utilization", "averageUtilization": 80}
    ]


@pytest.mark.parametrize(
    ("metric", "target"),
    [
        (resource({"type": "Value", "value": "5"}, "memory"), {"type": "AverageValue"}),
        (
            resource({"type": "Utilization", "averageValue": "5"}, "memory"),
            {"type": "AverageValue", "averageValue": "5"},
        ),
        (
            resource({"type": "AverageValue", "averageUtilization": 9}, "memory"),
            {"type": "Utilization", "averageUtilization": 9},
        ),
        (
            resource({"averageUtilization": 9, "averageValue": "5"}, container="app"),
            {"type": "Utilization", "averageUtilization": 9, "averageValue": "5"},
        ),
        (resource({"value": "5"}), {"type": "AverageValue"}),
        (pods({"type": "Value", "value": "5"}), {"type": "AverageValue", "averageValue": "0"}),
        (pods({"averageValue": "2"}), {"type": "AverageValue", "averageValue": "2"}),
        (
            of_object({"type": "Value", "averageValue": "2"}),
            {"type": "AverageValue", "value": "0", "averageValue": "2"},
        ),
        (
            of_object({"type": "Value", "value": "3", "averageValue": "2"}),
            {"type": "AverageValue", "value": "3", "averageValue": "2"},
        ),
        (of_object({"type": "AverageValue", "value": "3"}), {"type": "Value", "value": "3"}),
        (of_object({"type": "Utilization"}), {"type": "Value", "value": "0"}),
        (external({"averageUtilization": 50}), {"type": "AverageValue"}),
        (
            external({"type": "Value", "averageValue": "2"}),
            {"type": "AverageValue", "averageValue": "2"},
        ),
        (
            external({"type": "AverageValue", "value": "3", "averageValue": "2"}),
            {"type": "Value", "value": "3", "averageValue": "2"},
        ),
    ],
)
def test_the_type_of_a_target_follows_from_its_members(metric: Json, target: Json) -> None:
    assert stored_target(metric) == target


def test_a_metric_of_an_unknown_type_stays() -> None:
    odd = HPASpec(metrics=(MetricSpec("Bogus"),))
    assert as_stored(odd, V26) == odd


_TARGETS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["Utilization", "Value", "AverageValue"]),
        "value": st.just("3"),
        "averageValue": st.just("2"),
        "averageUtilization": st.just(70),
    },
)
_METRICS = st.one_of(
    st.builds(resource, _TARGETS, st.sampled_from(["cpu", "memory"])),
    st.builds(resource, _TARGETS, st.just("cpu"), st.just("app")),
    st.builds(pods, _TARGETS),
    st.builds(of_object, _TARGETS),
    st.builds(external, _TARGETS),
)


def test_of_two_metrics_of_cpu_old_servers_lose_one_when_they_store_again() -> None:
    """The utilization goes last, and what is not the first of cpu is not looked at."""
    both = spec(resource({"averageUtilization": 70}, "cpu"), resource({"averageValue": "2"}, "cpu"))
    once = as_stored(both, V20)
    assert len(once.metrics) == 2
    assert as_stored(once, V20).metrics == once.metrics[:1]
    assert as_stored(as_stored(both, V26), V26) == as_stored(both, V26)


@given(st.lists(_METRICS, max_size=5), st.sampled_from([V20, V26]))
def test_storing_twice_changes_nothing_more(metrics: list[Json], profile: Profile) -> None:
    of_cpu = [m for m in metrics if m.get("resource", {}).get("name") == "cpu"]
    assume(profile.first_cpu_utilization_kept or len(of_cpu) < 2)
    once = as_stored(spec(*metrics), profile)
    assert as_stored(once, profile) == once
    assert stored_order(once, profile) == tuple(range(len(once.metrics)))
    assert len(stored_order(spec(*metrics), profile)) == len(once.metrics)
