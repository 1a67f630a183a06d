"""Field errors print as Go prints them."""

from __future__ import annotations

import pytest

from hpabatch.model.objects.field_errors import (
    forbidden,
    go_quote,
    invalid,
    invalid_typed,
    not_supported,
    required,
    too_long,
)
from hpabatch.model.quantity import Quantity


def test_each_kind() -> None:
    assert str(required("spec.scaleTargetRef.name")) == "spec.scaleTargetRef.name: Required value"
    assert str(required("a", "must be")) == "a: Required value: must be"
    assert str(forbidden("a", "no")) == "a: Forbidden: no"
    assert str(invalid("a", 0, "must be greater than 0")) == (
        "a: Invalid value: 0: must be greater than 0"
    )
    assert str(invalid("a", "", "bad")) == 'a: Invalid value: "": bad'
    assert str(invalid("a", Quantity.parse("-1.5"), "bad")) == 'a: Invalid value: "-1500m": bad'
    assert str(not_supported("a", "X", ("Disabled", "Max", "Min"))) == (
        'a: Unsupported value: "X": supported values: "Disabled", "Max", "Min"'
    )
    assert str(too_long("a", 262144)) == "a: Too long: may not be more than 262144 bytes"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('a"b\\', '"a\\"b\\\\"'), ("\t\n\r\v\f\a\b", '"\\t\\n\\r\\v\\f\\a\\b"'), ("é", '"é"'),
        ("\x01", '"\\x01"'), ("\u200b", '"\\u200b"'), ("\U000e0001", '"\\U000e0001"'),
        ("<&>", '"<&>"'),
    ],
)  # fmt: skip
def test_plain_strings_are_quoted_as_percent_q(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


def test_named_string_types_are_quoted_as_json() -> None:
    assert invalid_typed("a", "<&>\n", "bad").value == '"\\u003c\\u0026\\u003e\\n"'
