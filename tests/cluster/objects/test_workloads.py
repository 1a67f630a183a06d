"""Sizes and selectors of workloads, and of the Scale objects of all versions."""

from __future__ import annotations

from typing import Any

import pytest

from hpabatch.cluster.objects.decoders import WorkloadDecoder, read_scale
from hpabatch.cluster.objects.objects import BrokenObjectError
from hpabatch.cluster.objects.types import ScaleKey, ScaleObject
from hpabatch.layout import codes
from tests.cluster.wires import packed

_KEY = ScaleKey("apps", "Deployment", "shop", "web")


def _workload(selector: object, **spec: object) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5"},
        "spec": {"selector": selector, "template": {"spec": {"containers": []}}, **spec},
        "status": {"replicas": 3, "readyReplicas": 1},
    }


def _scale(document: object) -> ScaleObject:
    thing = WorkloadDecoder("apps", "Deployment").decode(packed(document)).thing
    assert isinstance(thing, ScaleObject)
    return thing


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"matchLabels": None, "matchExpressions": None}, ""),
        ({"matchLabels": {"app": ""}}, "app="),
        (
            {
                "matchLabels": {"z": "1"},
                "matchExpressions": [
                    {"key": "m", "operator": "In", "values": ["y", "x"]},
                    {"key": "n", "operator": "NotIn", "values": ["q"]},
                    {"key": "a", "operator": "DoesNotExist"},
                    {"key": "b", "operator": "Exists", "values": None},
                ],
            },
            "!a,b,m in (x,y),n notin (q),z=1",
        ),
    ],
)
def test_selectors(selector: object, text: str) -> None:
    assert _scale(_workload(selector)).selector == text


def test_a_controllers_selector_is_a_map() -> None:
    decoder = WorkloadDecoder("", "ReplicationController")
    for selector, text in (({"b": "2", "a": None}, "a=,b=2"), (None, ""), ({}, "")):
        thing = decoder.decode(packed(_workload(selector))).thing
        assert isinstance(thing, ScaleObject)
        assert thing.selector == text


def test_a_selector_that_does_not_convert_is_the_scales_error() -> None:
    scale = _scale(_workload({"matchExpressions": [{"key": "a", "operator": "Near"}]}, replicas=4))
    assert scale.code == codes.SCALE_GET_FAILED
    assert scale.error == '"Near" is not a valid label selector operator'


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (_workload({"matchLabels": 7}), "Deployment shop/web: Expected `object"),
        (_workload({}, replicas="3"), "Deployment shop/web: Expected `int"),
        ({"metadata": {"name": "web"}}, "Deployment /web: metadata.name or metadata.namespace"),
    ],
)
def test_broken_ones_are_named(document: object, text: str) -> None:
    with pytest.raises(BrokenObjectError, match=f"^{text}"):
        WorkloadDecoder("apps", "Deployment").decode(packed(document))


@pytest.mark.parametrize(
    ("status", "selector"),
    [
        ({"replicas": 3, "selector": "app=web,tier in (a,b)"}, "app=web,tier in (a,b)"),
        ({"replicas": 3, "selector": None}, ""),
        ({"replicas": 3}, ""),
    ],
)
def test_scales(status: object, selector: str) -> None:
    document = {"kind": "Scale", "spec": {"replicas": 2}, "status": status}
    assert read_scale(_KEY, packed(document)) == ScaleObject(_KEY, 2, 3, selector)


@pytest.mark.parametrize(
    "body", [b"[]", b"", b'{"spec":{"replicas":9999999999}}', b'{"status":{"selector":[]}}']
)
def test_no_scales(body: bytes) -> None:
    with pytest.raises(BrokenObjectError):
        read_scale(_KEY, body)
