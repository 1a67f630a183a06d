"""Label selectors: the grammar with every parse error, objects, printing, matching."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.model.objects.hpa import LabelSelector, LabelSelectorRequirement
from hpabatch.model.selectors import (
    Requirement,
    Selector,
    go_print,
    parse_selector,
    selector_from_object,
)
from tests.reference import selector as reference

OPERATORS = "expected: in, notin, =, ==, !=, gt, lt"
REQUIREMENT = "unable to parse requirement: "


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


@pytest.mark.parametrize(
    ("text", "error"),
    [
        # at the start
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        # key, or the value of an exact operator
        ("app=web,!", REQUIREMENT + "found '', expected: identifier"),
        ("!=v", "found '!=', expected: !, identifier, or 'end of string'"),
        ("!!k", REQUIREMENT + "found '!', expected: identifier"),
        ("k=(", REQUIREMENT + "found '(', expected: identifier"),
        ("k===v", REQUIREMENT + "found '=', expected: identifier"),
        # operator
        ("cheddar cheese in (a", REQUIREMENT + f"found 'cheese', {OPERATORS}"),
        ("k (a)", REQUIREMENT + f"found '(', {OPERATORS}"),
        ("k gt 5", REQUIREMENT + f"found 'gt', {OPERATORS}"),
        # no parenthesis
        ("k in a", REQUIREMENT + "found 'a' expected: '('"),
        ("k in", REQUIREMENT + "found '' expected: '('"),
        # first thing in the list
        ("k in (=", REQUIREMENT + "found '=', expected: ',', ')' or identifier"),
        ("k in (", REQUIREMENT + "found '', expected: ',', ')' or identifier"),
        # after a listed value
        ("k in (a", REQUIREMENT + "found '', expected: ',' or ')'"),
        ("k in (a b)", REQUIREMENT + "found 'b', expected: ',' or ')'"),
        # after a comma in the list
        ("k in (a,=", REQUIREMENT + "found '=', expected: ',', or identifier"),
        ("k in (a,", REQUIREMENT + "found '', expected: ',', or identifier"),
        ("k in (,,)", REQUIREMENT + "found ')', expected: ',', or identifier"),
        # after a requirement
        ("!k=v", "found '=', expected: ',' or 'end of string'"),
        ("k=v w", "found 'w', expected: ',' or 'end of string'"),
        # after a comma between requirements
        ("k,", "found '', expected: identifier after ','"),
        ("k,=", "found '=', expected: identifier after ','"),
    ],
)  # fmt: skip
def test_parse_errors(text: str, error: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_selector(text)
    assert str(raised.value) == error


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("-k", REQUIREMENT + '<nil>: Invalid value: "-k": name part must consist of'),
        ("k=a@b", REQUIREMENT + 'values[0][k]: Invalid value: "a@b": a valid label must be an'),
        ("k in (a,@,$)", REQUIREMENT + '[values[0][k]: Invalid value: "$": a valid label'),
        ("k>x", REQUIREMENT + "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the"),
        ("k>", REQUIREMENT + "values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators"),
        ("k>9223372036854775808", REQUIREMENT + "values[0]: Invalid value"),
        ("k>" + "9" * 5000, REQUIREMENT + "[values[0]: Invalid value"),
    ],
)  # fmt: skip
def test_bad_keys_and_values(text: str, start: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_selector(text)
    assert str(raised.value).startswith(start)


@settings(deadline=None)
@given(st.text("aInotn=!(),>< \t1-", max_size=14))
def test_errors_agree_with_the_reference(text: str) -> None:
    mine = None
    try:
        parse_selector(text)
    except ValueError as error:
        mine = str(error)
    if mine is None or "Invalid value" not in mine:
        assert mine == reference.selector_error(text)


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


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        (_object((), LabelSelectorRequirement("k", "Near")),
         '"Near" is not a valid label selector operator'),
        (_object((), LabelSelectorRequirement("k", "")),
         '"" is not a valid label selector operator'),
        (_object((), LabelSelectorRequirement("k", "In")),
         "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        (_object((), LabelSelectorRequirement("k", "Exists", ("a", "b"))),
         'values: Invalid value: ["a","b"]: values set must be empty for exists and does not '
         "exist"),
    ],
)  # fmt: skip
def test_objects_that_do_not_convert(selector: LabelSelector, error: str) -> None:
    with pytest.raises(ValueError) as raised:
        selector_from_object(selector)
    assert str(raised.value) == error


def test_labels_are_converted_before_expressions() -> None:
    selector = _object((("-", "v"),), LabelSelectorRequirement("k", "Near"))
    with pytest.raises(ValueError, match='key: Invalid value: "-"'):
        selector_from_object(selector)


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
