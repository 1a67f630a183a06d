"""The part of Go's templates: the adapter's own test cases, trimming, and what is not read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.importers.prometheus.metrics.go_template import Value, parse_template

DATA: dict[str, Value] = {
    "Series": "foo",
    "LabelMatchers": 'namespace="shop",pod=~"a|b"',
    "LabelValuesByName": {"pod": "a|b", "namespace": "shop"},
    "GroupBy": "pod,container",
    "GroupBySlice": ("pod", "container"),
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("series <<.Series>>", "series foo"),
        ("sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
         'sum(foo{namespace="shop",pod=~"a|b"}) by (pod,container)'),
        ('<<index .LabelValuesByName "pod">>', "a|b"),
        ("<<index .LabelValuesByName `pod`>>", "a|b"),
        ('<<index .LabelValuesByName "none">>', ""),
        ("<<.LabelValuesByName.pod>>", "a|b"),
        ("<<.LabelValuesByName.none>>", "<no value>"),
        ("<<.LabelValuesByName>>", "map[namespace:shop pod:a|b]"),
        ("<<.GroupBySlice>>", "[pod container]"),
        ("<<index .GroupBySlice 1>>", "container"),
        ("a <<- .Series ->>\n b", "afoob"),
        ("a <<- .Series>> b", "afoo b"),
        ('a<</* one >> comment " */>>b', "ab"),
        ("a <<- /* comment */ ->> b", "ab"),
        ("<<  .Series  >>", "foo"),
        ("1 >> 2", "1 >> 2"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_is_printed(text: str, wanted: str) -> None:
    assert parse_template(text).execute(DATA) == wanted


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("<<range .GroupBySlice>><<.>><<end>>", "`range` in <<range .GroupBySlice>>"),
        ("<<if .Series>>x<<end>>", "`if` in <<if .Series>>"),
        ('<<printf "%s" .Series>>', "`printf` in"),
        ("<<.Series | len>>", "this action in <<.Series | len>>"),
        ("<<$x := .Series>>", "this action in <<$x := .Series>>"),
        ("<<.>>", "this action in <<.>>"),
        ("<<>>", "this action in <<>>"),
        ('<<index .LabelValuesByName "a" "b">>', "`index` in"),
    ],
)
def test_another_construct_is_named_and_not_executed(text: str, named: str) -> None:
    template = parse_template(f"sum({text})")
    assert template.problem.startswith(named)
    with pytest.raises(ValueError, match="beyond what is read"):
        template.execute(DATA)


@pytest.mark.parametrize("text", ["a <<.Series", "<<", 'x <<index .M "a>>', "<</* a >>"])
def test_an_action_that_does_not_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not end with >>"):
        parse_template(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("<<.Resource>>", r"\.Resource does not exist; there are \.Series"),
        ("<<index .GroupBySlice 2>>", r"\.GroupBySlice has no entry 2"),
        ('<<index .Series "a">>', r"\.Series has no entry 'a'"),
        ("<<.GroupBySlice.pod>>", r"\.GroupBySlice has no entry 'pod'"),
    ],
)
def test_what_fails_in_go_fails(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        parse_template(text).execute(DATA)


def test_a_quoted_delimiter_ends_no_action() -> None:
    assert parse_template('<<index .LabelValuesByName ">>">>|').execute(DATA) == "|"


@given(st.text(alphabet='<>.-_ "`\\aS/*\n', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        template = parse_template(text)
    except ValueError:
        return
    try:
        template.execute({"S": "x", "a": {"a": "b"}})
    except ValueError:
        assert "<<" in text


@given(st.text(max_size=60))
def test_a_text_without_actions_stays(text: str) -> None:
    if "<<" not in text:
        assert parse_template(text).execute({}) == text
