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
from tests.reference.profiles import PROFILES as REFERENCE
from tests.reference.stored import stored_metrics

Json = dict[str, Any]
V20, V26, V32 = PROFILES["1.20"], PROFILES["1.26"], PROFILES["1.32"]

CPU_SHARE: Json = {"averageUtilization": 50}


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


def test_newer_servers_keep_what_was_written() -> None:
    odd = spec(resource(CPU_SHARE), resource(CPU_SHARE), of_object({"type": "Utilization"}))
    assert as_stored(odd, V32) is odd
    assert stored_order(odd, V32) == (0, 1, 2)


@pytest.mark.parametrize("profile", [V20, V26])
def test_without_metrics_the_server_adds_one(profile: Profile) -> None:
    assert stored_order(spec(), profile) == (None,)
    assert targets(as_stored(spec(), profile)) == [
        {"type": "Utilization", "averageUtilization": 80}
    ]


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


@given(st.lists(_METRICS, min_size=1, max_size=5), st.sampled_from([V20, V26]))
def test_stored_as_the_reference_stores(metrics: list[Json], profile: Profile) -> None:
    expected = stored_metrics(metrics, REFERENCE[profile.name])
    written = spec(*metrics)
    assert encode_spec(as_stored(written, profile))["metrics"] == [metric for metric, _ in expected]
    assert stored_order(written, profile) == tuple(place for _, place in expected)


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
