"""HPAs of all versions, and what is kept of them from event to event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpabatch.cluster.objects.decoders import HpaDecoder
from hpabatch.cluster.objects.objects import BrokenObjectError
from hpabatch.cluster.objects.types import HpaObject
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPAStatus
from tests.cluster.wires import merged, packed, wire

_NAMES = ["hpa_v2", "hpa_v2beta2", "hpa_v1", "hpa_no_status"]


def _hpa(document: object, decoder: HpaDecoder | None = None) -> HpaObject:
    thing = (decoder or HpaDecoder()).decode(packed(document)).thing
    assert isinstance(thing, HpaObject)
    return thing


def _plain(document: dict[str, Any]) -> HPA:
    hpa, problems = decode_hpa(document)
    assert not [problem for problem in problems if problem.severity is Severity.error]
    return default_hpa(hpa)


@pytest.mark.parametrize("name", _NAMES)
def test_is_what_the_model_reads(name: str) -> None:
    document = wire(name)
    found = HpaDecoder().decode(packed(document))
    metadata = document["metadata"]
    assert found.key == (metadata["namespace"], metadata["name"])
    assert found.thing == HpaObject(metadata["namespace"], metadata["name"], _plain(document))


def test_list_items_are_of_the_lists_version() -> None:
    item = wire("hpa_v2_list_item")
    hpa = _hpa(item).hpa
    assert (hpa.api_version, hpa.spec.min_replicas, len(hpa.spec.metrics)) == (
        "autoscaling/v2",
        1,
        1,
    )
    assert hpa.status == HPAStatus()
    old = wire("hpa_v1")
    del old["apiVersion"], old["kind"]
    hpa = _hpa(old, HpaDecoder("autoscaling/v1")).hpa
    assert [metric.type for metric in hpa.spec.metrics] == ["Pods", "Resource"]
    with pytest.raises(ValueError, match="autoscaling/v3 is none of"):
        HpaDecoder("autoscaling/v3")


@pytest.mark.parametrize("name", ["hpa_v2", "hpa_v2beta2", "hpa_v1"])
def test_spec_is_read_once(name: str) -> None:
    decoder, document = HpaDecoder(), wire(name)
    first = _hpa(document, decoder).hpa
    later = merged(
        document, {"status": {"desiredReplicas": 6}, "metadata": {"resourceVersion": "x"}}
    )
    if name == "hpa_v1":
        annotations = later["metadata"]["annotations"]
        annotations["autoscaling.alpha.kubernetes.io/conditions"] = "[]"
    second = _hpa(later, decoder).hpa
    assert (second.spec is first.spec) == (name != "hpa_v1")  # its status is in annotations
    assert second == _plain(later)
    assert second.status != first.status


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"maxReplicas": 12}},
        {"metadata": {"labels": {"app": "other"}}},
        {"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/scale-up-tolerance": "1"}}},
        {"metadata": {"generation": 9}},
        {"metadata": {"uid": "other"}},
        {"apiVersion": "autoscaling/v2"},
    ],
)
def test_what_changed_is_read_again(change: dict[str, Any]) -> None:
    decoder, document = HpaDecoder(), wire("hpa_v2beta2")
    _hpa(document, decoder)
    later = merged(document, change)
    assert _hpa(later, decoder).hpa == _plain(later)
    assert _hpa(document, decoder).hpa == _plain(document)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"maxReplicas": 0}, "spec.maxReplicas: Invalid value: 0: must be greater than 0"),
        ({"minReplicas": -1}, "spec.minReplicas: Invalid value: -1"),
        ({"maxReplicas": "many"}, 'spec.maxReplicas: Invalid value: "many": must be an integer'),
        ({"metrics": 7}, "spec.metrics: Invalid value: 7: must be a list"),
        ({"behavior": {"scaleUp": {"policies": []}}}, "spec.behavior.scaleUp.policies: Required"),
    ],
)  # fmt: skip
def test_problems(spec: dict[str, Any], text: str) -> None:
    decoder = HpaDecoder()
    broken = merged(wire("hpa_v2"), {"spec": spec})
    for _ in range(2):
        thing = _hpa(broken, decoder)
        assert text in thing.problem
        assert (thing.namespace, thing.name, thing.hpa.uid[:4]) == ("shop", "web", "0b7c")
    assert _hpa(wire("hpa_v2"), decoder).problem == ""


def test_broken_ones_are_named() -> None:
    with pytest.raises(BrokenObjectError, match=r"^horizontalpodautoscaler shop/web: "):
        HpaDecoder().decode(packed(merged(wire("hpa_v2"), {"metadata": {"uid": 7}})))
    with pytest.raises(BrokenObjectError, match="without a readable name"):
        HpaDecoder().decode(b'{"metadata":{}}')
    deep = b'{"metadata":{"name":"a","namespace":"b"},"spec":' + b"[" * 9000 + b"]" * 9000 + b"}"
    with pytest.raises(BrokenObjectError):
        HpaDecoder().decode(deep)


_TEXT = st.sampled_from([None, "", "cpu", "Resource", "Pods", "Object", "External", "Tide"])
_QUANTITY = st.sampled_from([None, "1", "63m", "130752000", 7, 0.5, "much", True])
_CURRENT = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "value": _QUANTITY,
        "averageValue": _QUANTITY,
        "averageUtilization": st.sampled_from([None, 7, -1, 2**31, 1.0, "7"]),
    },
)
_SELECTOR = st.sampled_from(
    [None, {}, {"matchLabels": {"b": "1", "a": None}}, {"matchExpressions": [None, {"key": "k"}]},
     {"matchExpressions": [{"key": "k", "operator": "In", "values": ["x", None]}]}, 7]
)  # fmt: skip
_MEMBER = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "name": _TEXT,
        "container": _TEXT,
        "current": _CURRENT,
        "metric": st.none() | st.fixed_dictionaries({"name": _TEXT, "selector": _SELECTOR}),
        "describedObject": st.none() | st.fixed_dictionaries({"kind": _TEXT, "name": _TEXT}),
    },
)
_METRIC = st.none() | st.fixed_dictionaries(
    {"type": _TEXT},
    optional=dict.fromkeys(
        ["object", "pods", "resource", "containerResource", "external"], _MEMBER
    ),
)
_TIME = st.sampled_from([None, "2026-10-07T12:00:00Z", "noon", 7])
_STATUS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "currentReplicas": st.sampled_from([None, 0, 7, 2**31, -(2**31), "7", 7.0]),
        "desiredReplicas": st.integers(0, 9),
        "lastScaleTime": _TIME,
        "observedGeneration": st.sampled_from([None, 0, 3, 2**63, 2**63 - 1]),
        "currentMetrics": st.none() | st.lists(_METRIC, max_size=3),
        "conditions": st.none()
        | st.lists(
            st.none() | st.fixed_dictionaries({"type": _TEXT, "lastTransitionTime": _TIME}),
            max_size=2,
        ),
    },
)


@given(_STATUS)
@example({"currentReplicas": 2**31})
@example({"observedGeneration": 2**63})
@example({"desiredReplicas": 7.0})
def test_status_is_what_the_model_reads(status: object) -> None:
    document = wire("hpa_v2") | {"status": status}
    thing = _hpa(json.loads(json.dumps(document)))
    hpa, problems = decode_hpa(document)
    errors = [str(item) for item in problems if item.severity is Severity.error]
    assert thing.problem == "; ".join(errors)
    if not errors:
        assert thing.hpa.status == hpa.status
