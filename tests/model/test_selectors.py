"""Label selectors: grammar, objects, matching, messages of each version beside the reference's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.model.objects.hpa import LabelSelector, LabelSelectorRequirement
from hpabatch.model.selectors import (
    NEWEST_WORDS,
    Requirement,
    Selector,
    SelectorWords,
    go_print,
    parse_selector,
    selector_from_object,
    selector_words,
)
from hpabatch.model.versions import PROFILES
from tests.reference import selector as reference
from tests.reference.profiles import PROFILES as REFERENCE_PROFILES


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


LONG = "a" * 64


def test_the_newest_words_are_the_usual_ones() -> None:
    assert selector_words(PROFILES["1.38"]) == NEWEST_WORDS
    assert selector_words(PROFILES["1.20"]) == SelectorWords(False, False, False)


_WORD = st.text(alphabet="aZ0-_./b ", max_size=6) | st.just(LONG)
_SELECTOR = st.lists(
    st.sampled_from([*"=!(),><", "==", "!=", " in ", " notin ", " "]) | _WORD, max_size=8
).map("".join)


# Every place at which a text may end or go wrong, and names that are none.
_TEXTS = (
    "-k",
    "=",
    ",a",
    "app=web,!",
    "!=v",
    "!!k",
    "k=(",
    "k===v",
    "cheddar cheese in (a",
    "k (a)",
    "k gt 5",
    "k in a",
    "k in",
    "k in (=",
    "k in (",
    "k in (a",
    "k in (a b)",
    "k in (a,=",
    "k in (a,",
    "k in (,,)",
    "!k=v",
    "k=v w",
    "k,",
    "k,=",
    "k=a@b",
    "k in (a,@,$)",
    "k>x",
    "k>",
    "k>9223372036854775808",
    "k>" + "9" * 5000, "a/b/c", f"k={LONG}", "k x",
)  # fmt: skip


def check_text(text: str, k8s: str) -> str | None:
    """Compare what a version says of a text with the reference, and return it."""
    ours = None
    try:
        parse_selector(text, selector_words(PROFILES[k8s]))
    except ValueError as error:
        ours = str(error)
    assert ours == reference.selector_error(text, REFERENCE_PROFILES[k8s].selectors)
    return ours


@pytest.mark.parametrize("text", _TEXTS, ids=range(len(_TEXTS)))
def test_bad_texts_say_what_the_reference_says(text: str) -> None:
    assert all(check_text(text, k8s) for k8s in PROFILES)


@given(_SELECTOR, st.sampled_from(list(PROFILES)))
def test_parsing_says_what_the_reference_says(text: str, k8s: str) -> None:
    check_text(text, k8s)


_EXPRESSION = st.fixed_dictionaries(
    {
        "key": _WORD,
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Near", ""]),
        "values": st.lists(_WORD, max_size=3),
    }
)


_BAD_OBJECTS: list[tuple[dict[str, str], list[dict[str, Any]]]] = [
    ({}, [{"key": "k", "operator": "Near", "values": []}]),
    ({}, [{"key": "k", "operator": "", "values": []}]),
    ({}, [{"key": "k", "operator": "In", "values": []}]),
    ({}, [{"key": "k", "operator": "Exists", "values": ["a", "b"]}]),
    ({}, [{"key": "-k", "operator": "In", "values": ["a b", "-"]}]),
    ({"-": "v"}, [{"key": "k", "operator": "Near", "values": []}]),
]


def check_object(labels: dict[str, str], expressions: list[dict[str, Any]], k8s: str) -> str | None:
    """Compare what a version says of an object with the reference, and return it."""
    document = {"matchLabels": labels, "matchExpressions": expressions}
    selector = LabelSelector(
        tuple(sorted(labels.items())),
        tuple(
            LabelSelectorRequirement(e["key"], e["operator"], tuple(e["values"]))
            for e in expressions
        ),
    )
    theirs = ours = None
    try:
        reference.check_metric_selector(document, REFERENCE_PROFILES[k8s].selectors)
    except reference.SelectorError as error:
        theirs = str(error)
    try:
        selector_from_object(selector, selector_words(PROFILES[k8s]))
    except ValueError as error:
        ours = str(error)
    assert ours == theirs
    return ours


@pytest.mark.parametrize(("labels", "expressions"), _BAD_OBJECTS)
def test_bad_objects_say_what_the_reference_says(
    labels: dict[str, str], expressions: list[dict[str, Any]]
) -> None:
    assert all(check_object(labels, expressions, k8s) for k8s in PROFILES)


@given(
    st.dictionaries(_WORD, _WORD, max_size=2),
    st.lists(_EXPRESSION, max_size=2),
    st.sampled_from(list(PROFILES)),
)
def test_objects_say_what_the_reference_says(
    labels: dict[str, str], expressions: list[dict[str, Any]], k8s: str
) -> None:
    check_object(labels, expressions, k8s)
