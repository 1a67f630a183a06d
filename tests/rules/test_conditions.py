"""Conditions: four slots in the order of insertion."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.layout.records import HEAD_CONDITIONS, HEAD_LENGTH, I64
from hpabatch.rules.conditions import has_condition, set_condition
from hpabatch.rules.status import is_true


def conditions(*initial: int) -> I64:
    head = np.full(HEAD_LENGTH, 77, np.int64)
    head[HEAD_CONDITIONS : HEAD_CONDITIONS + 4] = [*initial, 0, 0, 0, 0][:4]
    return head


def slots(head: I64) -> list[int]:
    outside = np.delete(head, range(HEAD_CONDITIONS, HEAD_CONDITIONS + 4))
    assert (outside == 77).all()
    return [int(code) for code in head[HEAD_CONDITIONS : HEAD_CONDITIONS + 4]]


def test_there_is_no_fifth_type() -> None:
    head = conditions(18, 32, 48, 65)
    set_condition(head, 5 << 4)
    assert slots(head) == [18, 32, 48, 65]


@given(st.lists(st.sampled_from(sorted(codes.CONDITIONS)), max_size=12))
def test_conditions_are_a_map_in_order_of_insertion(settings: list[int]) -> None:
    head, expected = conditions(), dict[int, int]()
    for code in settings:
        set_condition(head, code)
        expected[code >> 4] = code
    assert [c for c in slots(head) if c] == list(expected.values())
    for code in codes.CONDITIONS:
        assert has_condition(head, code) == (code in expected.values())


def test_the_status_of_every_condition() -> None:
    for code, words in codes.CONDITIONS.items():
        assert bool(is_true(code)) is (words.status == "True"), words
    for kind in codes.CONDITION_TYPES.values():
        assert is_true((kind << 4) + codes.OTHER_TRUE)
        assert not is_true((kind << 4) + codes.OTHER_FALSE)
