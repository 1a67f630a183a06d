"""Tests of the requests that HPAs make of the metrics APIs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hpabatch.cluster.objects.hpas import HpaDecoder
from hpabatch.cluster.objects.types import (
    ExternalMetricKey,
    HpaObject,
    ObjectMetricKey,
    PodMetricKey,
    Wanted,
)
from hpabatch.cluster.objects.wanted import WantedBook, metric_key, selector_form
from hpabatch.model.objects.hpa import LabelSelector, LabelSelectorRequirement
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


_EVERYTHING = Wanted(
    usage=frozenset({"shop"}),
    pods=frozenset({PodMetricKey("shop", "rps", "code in (200,204),verb=GET")}),
    objects=frozenset(
        {ObjectMetricKey("shop", "networking.k8s.io", "Ingress", "main", "requests", "")}
    ),
    external=frozenset({ExternalMetricKey("shop", "queue", "queue=orders")}),
)


def test_every_type_of_metric() -> None:
    found = HpaDecoder().decode(packed(wire("hpa_v2"))).thing
    assert isinstance(found, HpaObject)
    assert wanted([found]) == _EVERYTHING
    keys = [metric_key("shop", metric) for metric in found.hpa.spec.metrics]
    assert keys[:2] == [None, None]
    assert set(keys[2:]) == {*_EVERYTHING.pods, *_EVERYTHING.objects, *_EVERYTHING.external}


def test_what_is_refused_before_it_is_asked_for_wants_nothing() -> None:
    bad_selector = {"matchExpressions": [{"key": "k", "operator": "Near"}]}
    metrics = [
        _pods("no_target"),
        _pods("bad_selector", bad_selector, averageValue="1"),
        {"type": "Sundial"},
        {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value"}}},
    ]
    assert wanted([_hpa(metrics)]) == Wanted()


def test_selectors_form() -> None:
    assert selector_form(None) == ""
    assert selector_form(LabelSelector()) == ""
    requirement = LabelSelectorRequirement("b", "Exists")
    assert selector_form(LabelSelector((("c", "1"), ("a", "2")), (requirement,))) == "a=2,b,c=1"


def test_the_book_gives_the_same_object_while_nothing_changes() -> None:
    book = WantedBook()
    thing = _hpa(None)
    book.put(("shop", "web"), thing)
    first = book.wanted()
    book.put(("shop", "web"), thing)
    book.put(("shop", "never"), None)
    assert book.wanted() is first


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
def test_the_book_is_what_is_there(
    steps: list[tuple[str, str, list[dict[str, Any]] | None]],
) -> None:
    book = WantedBook()
    there: dict[tuple[str, str], HpaObject] = {}
    for name, space, metrics in steps:
        key = (space, name)
        if metrics is None:
            there.pop(key, None)
            book.put(key, None)
        else:
            there[key] = _hpa(metrics, name, space)
            book.put(key, there[key])
        assert book.wanted() == wanted(there.values())
