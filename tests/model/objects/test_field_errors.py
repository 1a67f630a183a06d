"""Field errors print as Go prints them."""

from __future__ import annotations

import pytest

from hpabatch.model.objects.field_errors import (
    go_quote,
    invalid_typed,
)


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
