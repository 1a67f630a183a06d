"""YAML as Kubernetes reads it: plain scalars, keys, duplicates, tags, aliases, depth."""

from __future__ import annotations

import math

import pytest
import yaml

from hpabatch.inputs.kubernetes_yaml import (
    KubernetesLoader,
    TooDeepError,
    check_depth,
    compose,
    plain_value,
)


def _load(text: str) -> object:
    loader = KubernetesLoader(text)
    try:
        assert loader.check_node()
        return loader.construct_document(compose(loader, text))
    finally:
        loader.dispose()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # booleans, y and n included
        ("y", True), ("Y", True), ("yes", True), ("on", True), ("true", True), ("TRUE", True),
        ("n", False), ("N", False), ("No", False), ("off", False), ("False", False),
        ("tRue", "tRue"), ("yEs", "yEs"),
        # null
        ("", None), ("~", None), ("null", None), ("NULL", None), ("nUll", "nUll"),
        # integers
        ("0", 0), ("12", 12), ("-12", -12), ("+12", 12), ("014", 12), ("0o14", 12), ("-014", -12),
        ("0x1F", 31), ("0X1f", 31), ("-0x1F", -31), ("0b101", 5), ("1_000", 1000), ("0_7", 7),
        ("9223372036854775807", 2**63 - 1), ("18446744073709551615", 2**64 - 1),
        # floats
        ("1e3", 1000.0), ("1E+3", 1000.0), ("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("-1.5", -1.5),
        ("08", 8.0), ("18446744073709551616", 2.0**64), ("1_000.5", 1000.5), ("+.5", 0.5),
        (".inf", math.inf), ("-.Inf", -math.inf),
        # strings
        ("=", "="), ("12:30:45", "12:30:45"), ("2001-12-14", "2001-12-14"), ("1.2.3", "1.2.3"),
        ("1e", "1e"), ("0o9", "0o9"), ("0xZ", "0xZ"), ("-", "-"), ("..", ".."), ("1m", "1m"),
        ("1e999", "1e999"), ("_1", "_1"), ("._5", "._5"), ("e3", "e3"),
    ],
)  # fmt: skip
def test_plain_scalars(text: str, value: object) -> None:
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


def test_not_a_number() -> None:
    found = plain_value(".nan")
    assert isinstance(found, float)
    assert math.isnan(found)


def test_quoted_scalars_are_strings() -> None:
    assert _load("[\"y\", '1e3', !!str 5, |\n  12\n]".replace("|\n  12\n", "'12'")) == [
        "y", "1e3", "5", "12"
    ]  # fmt: skip


def test_keys_become_strings() -> None:
    assert _load("{1: a, y: b, 1.5: c, 1e3: d, 'x': e, no: f}") == {
        "1": "a", "true": "b", "1.5": "c", "1000": "d", "x": "e", "false": "f"
    }  # fmt: skip


@pytest.mark.parametrize("text", ["{~: a}", "{[1]: a}", "? {a: b}\n: c\n"])
def test_other_keys_are_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="neither text nor number"):
        _load(text)


def test_tags() -> None:
    assert _load("!Thing {a: !Ref b, c: !x [1]}") == {"a": "b", "c": [1]}
    assert _load("[!!int '5', !!float '1.5', !!bool 'y', !!null '']") == [5, 1.5, True, None]
    assert _load("[!!timestamp 2001-12-14, !!binary YQ==]") == ["2001-12-14", "YQ=="]
    assert _load("!!set {a, b}") == {"a": None, "b": None}
    with pytest.raises(yaml.YAMLError, match="'x' is not a int"):
        _load("!!int x")


def test_merge_keys() -> None:
    assert _load("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n") == {
        "a": {"x": 1, "true": 2}, "b": {"x": 3, "true": 2}
    }  # fmt: skip


def test_duplicate_keys_are_noted_and_the_last_counts() -> None:
    loader = KubernetesLoader("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n<<: {d: 1}\n<<: {d: 2}\n")
    assert loader.check_node()
    document = loader.construct_document(compose(loader, ""))
    assert isinstance(document, dict)
    assert document["a"] == 3
    assert document["b"] == {"c": 2}
    assert sorted(loader.duplicates) == [("a", 4, 0, 0), ("c", 3, 2, 2)]


def test_aliases_without_measure_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 7)]
    with pytest.raises(TooDeepError, match="more than 1,000,000 values"):
        _load("\n".join(lines))


@pytest.mark.parametrize("text", ["a: &x [*x]", "&a {b: *a}", "&a {<<: *a}"])
def test_an_alias_of_itself_is_refused(text: str) -> None:
    with pytest.raises(TooDeepError, match="an alias of itself"):
        _load(text)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "{a: " * 5000, "- " * 5000, "? " * 5000,
     "\n".join(" " * depth + "a:" for depth in range(300))],
)  # fmt: skip
def test_deep_nesting_is_refused_before_it_is_built(text: str) -> None:
    with pytest.raises(TooDeepError, match="deeper than 200 levels"):
        check_depth(text)


def test_wide_is_not_deep() -> None:
    check_depth('{"a": [' + "[1], " * 1000 + '{"b": []}]}')
    check_depth("[" + "[1], " * 1000 + "]")
    check_depth("a: 1")
