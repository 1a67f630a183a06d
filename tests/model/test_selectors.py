"""Label selectors: grammar, objects, matching, messages of each version beside the reference's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpabatch.model.objects.hpa import LabelSelector, LabelSelectorRequirement
from hpabatch.model.selectors import (
    NEWEST_WORDS,
    Requirement,
    Selector,
    SelectorWords,
    parse_selector,
    selector_from_object,
    selector_words,
)
from hpabatch.model.versions import PROFILES
from tests.reference import selector as reference
from tests.reference.profiles import PROFILES as REFERENCE_PROFILES


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


_PART = st.builds(
    str.format,
    st.sampled_from([
        "{0}", "!{0}", "{0}={1}", "{0} = {1}", "{0}=={1}", "{0}!={1}", "{0} in ({1},{2})",
        "{0} in ()", "{0} notin ({1},{2})", "{0} in ({1},,{2})", "{0}>5", "{0}<6", "{0}=",
        "{0} in (,)", "{0} in (,{1})", "{0} in ({1},)",
    ]),
    st.sampled_from(["k", "j", "in", "notin", "app.io/n"]),
    st.sampled_from(["a", "b", "notin", "5"]),
    st.sampled_from(["a", "in", "4", ""]),
)  # fmt: skip
_LABELS = st.dictionaries(
    st.sampled_from(["k", "j", "in", "notin", "app.io/n"]),
    st.sampled_from(["", "a", "b", "in", "notin", "4", "5", "6", "-4", "x"]),
)


@given(st.lists(_PART, max_size=3).map(",".join), _LABELS)
@example("k in (,),j in (,a),in in (a,)", {"k": ""})
@example("k<5,j>5", {"k": "4", "j": "6"})
def test_matching_as_in_the_reference(text: str, labels: dict[str, str]) -> None:
    if check_text(text, "1.38") is not None:
        return
    ours = parse_selector(text)
    assert ours.matches(labels) == reference.matches(reference.parse_selector(text), labels)
    assert parse_selector(str(ours)) == ours


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
