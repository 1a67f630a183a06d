"""Tests of messages on unusable label selectors, by version, beside the reference's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.model.objects.hpa import LabelSelector, LabelSelectorRequirement
from hpabatch.model.selectors import (
    NEWEST_WORDS,
    SelectorWords,
    parse_selector,
    selector_from_object,
    selector_words,
)
from hpabatch.model.versions import PROFILES
from tests.reference import selector as reference
from tests.reference.profiles import PROFILES as REFERENCE_PROFILES

LONG = "a" * 64


def error_of(text: str, k8s: str) -> str:
    """Return what a version says of a scale's selector."""
    with pytest.raises(ValueError) as caught:
        parse_selector(text, selector_words(PROFILES[k8s]))
    return str(caught.value)


def test_the_newest_words_are_the_usual_ones() -> None:
    assert selector_words(PROFILES["1.38"]) == NEWEST_WORDS
    assert selector_words(PROFILES["1.20"]) == SelectorWords(False, False, False)


def test_a_label_key_was_a_qualified_name() -> None:
    """The libraries speak of label keys since their checks of names moved (1.35 assumed)."""
    start = 'unable to parse requirement: <nil>: Invalid value: "a/b/c": a '
    assert error_of("a/b/c", "1.35").startswith(f"{start}valid label key must consist")
    assert error_of("a/b/c", "1.33").startswith(f"{start}qualified name must consist")
    assert error_of("a/b/c", "1.20").startswith(
        'unable to parse requirement: invalid label key "a/b/c": a qualified name must consist'
    )


def test_lengths_were_said_to_be_in_characters() -> None:
    start = f'unable to parse requirement: values[0][k]: Invalid value: "{LONG}": must be no more '
    assert error_of(f"k={LONG}", "1.35") == f"{start}than 63 bytes"
    assert error_of(f"k={LONG}", "1.33") == f"{start}than 63 characters"
    assert error_of(f"k={LONG}", "1.20") == (
        f'unable to parse requirement: invalid label value: "{LONG}": at key: "k": must be no more '
        "than 63 characters"
    )


def test_the_operators_that_were_expected() -> None:
    start = "unable to parse requirement: found 'x', expected: "
    assert error_of("k x", "1.26") == f"{start}in, notin, =, ==, !=, gt, lt"
    assert error_of("k x", "1.20") == f"{start}'=', '!=', '==', 'in', notin'"


def test_old_versions_say_the_first_error_only() -> None:
    selector = LabelSelector(
        match_expressions=(LabelSelectorRequirement("-k", "In", ("a b", "-")),)
    )
    with pytest.raises(ValueError) as caught:
        selector_from_object(selector, selector_words(PROFILES["1.20"]))
    assert str(caught.value).startswith('invalid label key "-k": name part must consist')
    with pytest.raises(ValueError) as caught:
        selector_from_object(selector, selector_words(PROFILES["1.26"]))
    assert str(caught.value).startswith('[key: Invalid value: "-k": name part must consist')


def test_lists_were_shown_as_go_source() -> None:
    selector = LabelSelector(
        match_expressions=(LabelSelectorRequirement("k", "Exists", ("a", "b")),)
    )
    shown = {}
    for k8s in ("1.32", "1.33"):
        with pytest.raises(ValueError) as caught:
            selector_from_object(selector, selector_words(PROFILES[k8s]))
        shown[k8s] = str(caught.value)
    detail = "values set must be empty for exists and does not exist"
    assert shown["1.32"] == f'values: Invalid value: []string{{"a", "b"}}: {detail}'
    assert shown["1.33"] == f'values: Invalid value: ["a","b"]: {detail}'


_WORD = st.text(alphabet="aZ0-_./b ", max_size=6) | st.just(LONG)
_SELECTOR = st.lists(
    st.sampled_from([*"=!(),><", "==", "!=", " in ", " notin ", " "]) | _WORD, max_size=8
).map("".join)


@given(_SELECTOR, st.sampled_from(list(PROFILES)))
def test_parsing_says_what_the_reference_says(text: str, k8s: str) -> None:
    ours = None
    try:
        parse_selector(text, selector_words(PROFILES[k8s]))
    except ValueError as error:
        ours = str(error)
    assert ours == reference.selector_error(text, REFERENCE_PROFILES[k8s].selectors)


_EXPRESSION = st.fixed_dictionaries(
    {
        "key": _WORD,
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Near", ""]),
        "values": st.lists(_WORD, max_size=3),
    }
)


@given(
    st.dictionaries(_WORD, _WORD, max_size=2),
    st.lists(_EXPRESSION, max_size=2),
    st.sampled_from(list(PROFILES)),
)
def test_objects_say_what_the_reference_says(
    labels: dict[str, str], expressions: list[dict[str, Any]], k8s: str
) -> None:
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
