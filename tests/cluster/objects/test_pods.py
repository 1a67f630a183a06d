"""Pods as servers of several versions write them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.cluster.objects.decoders import PodDecoder
from hpabatch.cluster.objects.objects import BrokenObjectError
from hpabatch.cluster.objects.rows import workload_of
from hpabatch.cluster.objects.types import PodObject
from hpabatch.model.objects.decode_fields import api_time_ms
from hpabatch.model.quantity import Quantity
from tests.cluster.wires import merged, packed, wire, wire_bytes


def _pod(document: bytes, decoder: PodDecoder | None = None) -> PodObject:
    thing = (decoder or PodDecoder()).decode(document).thing
    assert isinstance(thing, PodObject)
    return thing


def test_all_that_an_hpa_looks_at() -> None:
    found = PodDecoder().decode(wire_bytes("pod_resized_sidecars"))
    assert found.key == ("shop", "web-7d9f8c6b5-abcde")
    pod = found.thing
    assert isinstance(pod, PodObject)
    assert (pod.namespace, pod.name, pod.uid) == ("shop", "web-7d9f8c6b5-abcde", "a1")
    assert pod.labels == {"app": "web", "pod-template-hash": "7d9f8c6b5"}
    assert pod.owner == "ReplicaSet/web-7d9f8c6b5"
    assert pod.created_ms == api_time_ms("2026-10-07T12:00:00Z")
    assert pod.started_ms == api_time_ms("2026-10-07T12:00:01Z")
    assert (pod.deletion_ms, pod.node, pod.phase) == (None, "node-3", "Running")
    assert (pod.ready, pod.transition_ms) == ("True", api_time_ms("2026-10-07T12:00:09Z"))


def test_requests_are_the_specs_own() -> None:
    template = _pod(wire_bytes("pod_resized_sidecars")).template
    app, helper = template.containers
    assert app.requests.requests == {
        "cpu": Quantity.parse("750m"),
        "memory": Quantity.parse("512Mi"),
    }
    assert app.limits == {"cpu": Quantity.parse("1500m")}
    assert (helper.requests.name, helper.requests.requests, helper.limits) == ("helper", {}, {})
    migrate, mesh = (item.requests for item in template.init_containers)
    assert (migrate.is_sidecar, mesh.is_sidecar) == (False, True)
    assert template.pod_level == {"cpu": Quantity.parse("1"), "memory": Quantity.parse("1Gi")}
    assert template.pod_limits == {"cpu": Quantity.parse("2")}
    assert template.overhead == {"cpu": Quantity.parse("10m"), "memory": Quantity.parse("16Mi")}


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        ("ReplicaSet/web-h4sh", {"pod-template-hash": "h4sh"}, ("Deployment", "web")),
        ("ReplicaSet/web-h4sh", {"rollouts-pod-template-hash": "h4sh"}, ("Rollout", "web")),
        ("ReplicaSet/web-h4sh", {"pod-template-hash": "x"}, ("ReplicaSet", "web-h4sh")),
        ("StatefulSet/web-h4sh", {"pod-template-hash": "h4sh"}, ("StatefulSet", "web-h4sh")),
        (None, {}, None),
    ],
)
def test_the_workload_that_owns_a_pod(
    owner: str | None, labels: dict[str, str], workload: tuple[str, str] | None
) -> None:
    pod = replace(_pod(wire_bytes("pod_bare")), owner=owner, labels=labels)
    assert workload_of(pod) == workload


def test_null_is_absent() -> None:
    pod = _pod(wire_bytes("pod_bare"))
    assert (pod.labels, pod.owner, pod.node, pod.phase) == ({}, None, None, "")
    assert (pod.ready, pod.transition_ms, pod.started_ms) == (None, None, None)
    assert pod.deletion_ms == api_time_ms("2026-10-07T13:00:00Z")
    template = pod.template
    assert (template.containers, template.init_containers) == ((), ())
    assert (template.pod_level, template.pod_limits, template.overhead) == (None, None, None)


def test_pods_of_one_template_share_it() -> None:
    decoder = PodDecoder()
    first = wire("pod_resized_sidecars")
    other = merged(
        first, {"metadata": {"name": "web-2", "uid": "b"}, "status": {"phase": "Failed"}}
    )
    one, two = _pod(packed(first), decoder), _pod(packed(other), decoder)
    assert one.template is two.template
    assert one.labels is two.labels
    resized = merged(first, {"spec": {"overhead": {"cpu": "11m"}}})
    assert _pod(packed(resized), decoder).template != one.template


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"spec": {"containers": 5}}, "pod shop/web-7d9f8c6b5-abcde: Expected"),
        ({"spec": {"overhead": {"cpu": "much"}}}, "pod shop/web-7d9f8c6b5-abcde: quantities must"),
        ({"status": {"startTime": "noon"}}, "pod shop/web-7d9f8c6b5-abcde: 'noon' is not a time"),
        ({"metadata": {"labels": ["a"]}}, "pod shop/web-7d9f8c6b5-abcde: Expected"),
        ({"metadata": {"name": None}}, "a pod without a readable name: metadata.name or"),
        ({"metadata": 7}, "a pod without a readable name: Expected"),
    ],
)
def test_broken_ones_are_named(changes: dict[str, Any], text: str) -> None:
    document = merged(wire("pod_resized_sidecars"), changes)
    with pytest.raises(BrokenObjectError) as caught:
        PodDecoder().decode(packed(document))
    assert str(caught.value).startswith(text)
    known = text.startswith("pod ")
    assert (caught.value.namespace, caught.value.name) == (
        ("shop", "web-7d9f8c6b5-abcde") if known else (caught.value.namespace, "")
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
_PLACES = [
    ("metadata", "labels"), ("metadata", "ownerReferences"), ("metadata", "creationTimestamp"),
    ("spec", "containers"), ("spec", "initContainers"), ("spec", "resources"), ("spec", "overhead"),
    ("spec", "nodeName"), ("status", "conditions"), ("status", "phase"), ("status", "startTime"),
    ("", "spec"), ("", "status"), ("", "metadata"),
]  # fmt: skip


@given(st.sampled_from(_PLACES), _JSON)
def test_any_value_is_read_or_refused(place: tuple[str, str], value: object) -> None:
    document = wire("pod_resized_sidecars")
    part = document[place[0]] if place[0] else document
    part[place[1]] = value
    with suppress(BrokenObjectError):
        PodDecoder().decode(json.dumps(document).encode())
