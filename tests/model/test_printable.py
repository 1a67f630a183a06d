"""Tests of printable strings from outside, which can be read back."""

from __future__ import annotations

import json

import pytest

from hpabatch.model.printable import (
    encodable,
    printable,
    printable_cell,
    printable_json,
    printable_line,
    printable_lines,
)
from tests.cli.hostile import NASTY, raw_characters, unescaped

EVERY = "".join(map(chr, (*range(0x3400), *range(0xD7A0, 0x12000), *range(0xE0000, 0xE0100))))


@pytest.mark.parametrize("name", ["web", "shop/web-1.x_y", "Ünïcödé 日本 ≥", 'it\'s "so" <b>|`*'])
def test_usual_names_stay_as_they_are(name: str) -> None:
    shown = (printable, printable_line, printable_lines, printable_cell, printable_json)
    assert {show(name) for show in shown} == {name}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb\r\t", r"a\nb\r\t"),
        (r"a\nb", r"a\\nb"),
        ("\x1b[31m\x7f\x9b", r"\x1b[31m\x7f\x9b"),
        ("\u202e\u2066\u200b\ufeff\u2028\u2029", r"\u202e\u2066\u200b\ufeff\u2028\u2029"),
        ("\U000e0041\ud800\ue000", r"\U000e0041\ud800\ue000"),
        ("\xa0\xad\u3000\u3164\ufe0f\u034f", r"\xa0\xad\u3000\u3164\ufe0f\u034f"),
    ],
)
def test_what_does_not_show_is_escaped(name: str, shown: str) -> None:
    assert printable(name) == shown
    assert printable_line(name) == shown.replace(r"\\", "\\")


def test_no_character_is_left_and_all_come_back() -> None:
    shown = printable(EVERY)
    assert shown.isprintable()
    assert raw_characters(shown) == []
    assert unescaped(shown) == EVERY
    text = EVERY.encode(errors="ignore").decode()  # the halves of a pair would be one in JSON
    assert json.loads(printable_json(json.dumps(text, ensure_ascii=False))) == text
    assert printable_line(printable_line(EVERY)) == printable_line(EVERY)


def test_line_ends_of_ours_stay() -> None:
    assert printable_lines("a\nb\r\x85c") == "a\nb\\r\\x85c"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", r"\x3d1+1"),
        ("@cmd", r"\x40cmd"),
        ("-1+cmd|' /C calc'!A0", r"\x2d1+cmd|' /C calc'!A0"),
        ("+x", r"\x2bx"),
        ("\uff1dx", r"\uff1dx"),
        ("\t=x", r"\t=x"),
        *((text, text) for text in ("-", "-1", "+2.5%", "-1,000", "1e-3", "-1e-3", "a=b", "")),
    ],
)
def test_a_cell_is_no_formula(text: str, cell: str) -> None:
    assert printable_cell(text) == cell
    assert unescaped(cell) == text or cell == text


def test_text_that_utf_8_has() -> None:
    assert encodable("a\ud83d\ude00b\ud800") == "a\U0001f600b\ufffd"
    assert encodable(NASTY) == NASTY
