"""Label selectors: the grammar with every parse error, objects, printing, matching."""

from __future__ import annotations

import pytest

from hpabatch.model.objects.hpa import LabelSelector, LabelSelectorRequirement
from hpabatch.model.selectors import (
    Requirement,
    Selector,
    go_print,
    parse_selector,
    selector_from_object,
)


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", ()),
        ("  ", ()),
        ("k=v", (("k", "=", ("v",)),)),
        ("k==v", (("k", "==", ("v",)),)),
        ("k!=v", (("k", "!=", ("v",)),)),
        ("k in (b,a,b)", (("k", "in", ("a", "b")),)),
        ("k notin (a)", (("k", "notin", ("a",)),)),
        ("k", (("k", "exists", ()),)),
        ("!k", (("k", "!", ()),)),
        ("k>5", (("k", "gt", ("5",)),)),
        ("k<5", (("k", "lt", ("5",)),)),
        ("z=1, a = 2\t", (("a", "=", ("2",)), ("z", "=", ("1",)))),
        ("k=", (("k", "=", ("",)),)),
        ("k=,j", (("j", "exists", ()), ("k", "=", ("",)))),
        ("k in ()", (("k", "in", ("",)),)),
        ("k in (,)", (("k", "in", ("",)),)),
        ("k in (a,,b)", (("k", "in", ("", "a", "b")),)),
        ("k in (,a)", (("k", "in", ("", "a")),)),
        ("k in (a,)", (("k", "in", ("", "a")),)),
        ("in", (("in", "exists", ()),)),
        ("in in (notin)", (("in", "in", ("notin",)),)),
        ("in,notin=in", (("in", "exists", ()), ("notin", "=", ("in",)))),
        ("app.io/n=v", (("app.io/n", "=", ("v",)),)),
    ],
)
def test_grammar(text: str, requirements: tuple[tuple[str, str, tuple[str, ...]], ...]) -> None:
    assert parse_selector(text).requirements == tuple(Requirement(*item) for item in requirements)


def _object(
    labels: tuple[tuple[str, str], ...] = (), *expressions: LabelSelectorRequirement
) -> LabelSelector:
    return LabelSelector(labels, expressions)


def test_objects_and_their_query_strings() -> None:
    assert str(selector_from_object(None)) == ""
    assert str(selector_from_object(LabelSelector())) == ""
    selector = _object(
        (("queue", "tasks"), ("app", "web")),
        LabelSelectorRequirement("tier", "In", ("b", "a")),
        LabelSelectorRequirement("zone", "NotIn", ("x",)),
        LabelSelectorRequirement("blue", "Exists"),
        LabelSelectorRequirement("canary", "DoesNotExist"),
    )
    assert str(selector_from_object(selector)) == (
        "app=web,blue,!canary,queue=tasks,tier in (a,b),zone notin (x)"
    )


def test_strings_print_back() -> None:
    assert str(parse_selector("b>5,a<3, c!=x,d==y")) == "a<3,b>5,c!=x,d==y"


def test_go_print() -> None:
    assert go_print(None) == "nil"
    assert go_print(LabelSelector()) == (
        "&LabelSelector{MatchLabels:map[string]string{},"
        "MatchExpressions:[]LabelSelectorRequirement{},}"
    )
    selector = _object((("b", "2"), ("a", "1")), LabelSelectorRequirement("k", "In", ("x", "y")))
    assert go_print(selector) == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},"
        "MatchExpressions:[]LabelSelectorRequirement{"
        "LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
    )


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True), ("k=v", {"k": "v"}, True), ("k=v", {"k": "w"}, False), ("k=v", {}, False),
        ("k==v", {"k": "v"}, True), ("k!=v", {}, True), ("k!=v", {"k": "v"}, False),
        ("k in (a,b)", {"k": "b"}, True), ("k notin (a)", {"k": "b"}, True),
        ("k notin (a)", {"k": "a"}, False), ("k", {"k": ""}, True), ("k", {}, False),
        ("!k", {}, True), ("!k", {"k": "v"}, False), ("k>5", {"k": "6"}, True),
        ("k>5", {"k": "5"}, False), ("k<5", {"k": "-4"}, True), ("k<5", {"k": "x"}, False),
        ("k<5", {}, False), ("k=,j", {"k": "", "j": "x"}, True), ("k=v,j", {"k": "v"}, False),
    ],
)  # fmt: skip
def test_matching(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_selector(text).matches(labels) is matches


def test_an_unset_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not selector_from_object(None).matches({"a": "b"})
    assert selector_from_object(LabelSelector()).matches({"a": "b"})


def test_a_limit_that_is_no_number_matches_nothing() -> None:
    assert not Selector((Requirement("k", "gt", ("x",)),)).matches({"k": "5"})
