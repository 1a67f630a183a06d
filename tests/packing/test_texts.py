"""Texts as numbers."""

from __future__ import annotations

from hpabatch.packing.texts import NO_TEXT, Texts


def test_equal_texts_have_equal_numbers() -> None:
    texts = Texts()
    numbers = [texts.number(text) for text in ("a", "b", "a", "", "c", "b")]
    assert numbers == [1, 2, 1, NO_TEXT, 3, 2]
    assert [texts[number] for number in numbers] == ["a", "b", "a", "", "c", "b"]
