"""Tests of the requests that HPAs make of the metrics APIs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.cluster.objects.decoders import HpaDecoder
from hpabatch.cluster.objects.types import (
    Change,
    ExternalMetricKey,
    HpaObject,
    Kind,
    ObjectMetricKey,
    PodMetricKey,
    metric_key,
    selector_form,
)
from hpabatch.live.passes.lanes import Lanes
from hpabatch.model.objects.hpa import LabelSelector, LabelSelectorRequirement
from hpabatch.model.versions import profile_for
from tests.cluster.wires import merged, packed, wanted, wire


def _hpa(metrics: list[dict[str, Any]] | None, name: str = "web", space: str = "shop") -> HpaObject:
    changes = {"metadata": {"name": name, "namespace": space}, "spec": {"metrics": metrics}}
    thing = HpaDecoder().decode(packed(merged(wire("hpa_v2"), changes))).thing
    assert isinstance(thing, HpaObject)
    return thing


def _pods(name: str, selector: object = None, **target: str) -> dict[str, Any]:
    return {
        "type": "Pods",
        "pods": {"metric": {"name": name, "selector": selector}, "target": {"type": "x", **target}},
    }


_CUSTOM = frozenset(
    {
        PodMetricKey("shop", "rps", "code in (200,204),verb=GET"),
        ObjectMetricKey("shop", "networking.k8s.io", "Ingress", "main", "requests", ""),
        ExternalMetricKey("shop", "queue", "queue=orders"),
    }
)


def test_every_type_of_metric() -> None:
    found = HpaDecoder().decode(packed(wire("hpa_v2"))).thing
    assert isinstance(found, HpaObject)
    assert wanted([found]) == _CUSTOM | {"shop"}
    keys = [metric_key("shop", metric) for metric in found.hpa.spec.metrics]
    assert keys[:2] == [None, None]
    assert set(keys[2:]) == _CUSTOM
    assert len({PodMetricKey("shop", "lag", ""), ExternalMetricKey("shop", "lag", "")}) == 2


def test_what_is_refused_before_it_is_asked_for_wants_nothing() -> None:
    bad_selector = {"matchExpressions": [{"key": "k", "operator": "Near"}]}
    metrics = [
        _pods("no_target"),
        _pods("bad_selector", bad_selector, averageValue="1"),
        {"type": "Sundial"},
        {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value"}}},
    ]
    assert wanted([_hpa(metrics)]) == set()


def test_selectors_form() -> None:
    assert selector_form(None) == ""
    assert selector_form(LabelSelector()) == ""
    requirement = LabelSelectorRequirement("b", "Exists")
    assert selector_form(LabelSelector((("c", "1"), ("a", "2")), (requirement,))) == "a=2,b,c=1"


_METRICS = st.lists(
    st.builds(
        _pods,
        st.sampled_from(["a", "b"]),
        st.sampled_from([None, {"matchLabels": {"x": "1"}}]),
        averageValue=st.just("1"),
    ),
    max_size=2,
)


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from(["shop", "pay"]), st.none() | _METRICS)
    )
)
def test_lanes_want_what_is_there(
    steps: list[tuple[str, str, list[dict[str, Any]] | None]],
) -> None:
    """Those that are left out too: they are decided again within minutes."""
    lanes = Lanes(profile_for("1.37"))
    with pytest.raises(ValueError, match="odd") as caught:
        raise ValueError("odd")
    there: dict[tuple[str, str], HpaObject] = {}
    for name, space, metrics in steps:
        key = (space, name)
        if metrics is None:
            there.pop(key, None)
        else:
            there[key] = _hpa(metrics, name, space)
        lanes.apply(Change(Kind.hpa, key, there.get(key), 1))
        lanes.leave_out(key, caught.value)
        assert lanes.wanted() == wanted(there.values())
