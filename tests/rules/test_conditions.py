"""Conditions: four slots in the order of insertion."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.layout.records import HEAD_CONDITIONS, HEAD_LENGTH, I64
from hpabatch.rules.conditions import has_condition, remove_condition, set_condition


def conditions(*initial: int) -> I64:
    head = np.full(HEAD_LENGTH, 77, np.int64)
    head[HEAD_CONDITIONS : HEAD_CONDITIONS + 4] = [*initial, 0, 0, 0, 0][:4]
    return head


def slots(head: I64) -> list[int]:
    outside = np.delete(head, range(HEAD_CONDITIONS, HEAD_CONDITIONS + 4))
    assert (outside == 77).all()
    return [int(code) for code in head[HEAD_CONDITIONS : HEAD_CONDITIONS + 4]]


def test_a_new_type_is_appended_and_a_known_one_replaced_in_place() -> None:
    head = conditions()
    set_condition(head, codes.SUCCEEDED_GET_SCALE)
    set_condition(head, codes.VALID_METRIC_FOUND)
    set_condition(head, codes.READY_FOR_NEW_SCALE)
    assert slots(head) == [codes.READY_FOR_NEW_SCALE, codes.VALID_METRIC_FOUND, 0, 0]
    set_condition(head, codes.NOT_SCALED_TO_ZERO)
    set_condition(head, codes.DESIRED_WITHIN_RANGE)
    expected = [18, 32, codes.NOT_SCALED_TO_ZERO, codes.DESIRED_WITHIN_RANGE]
    assert slots(head) == expected


def test_there_is_no_fifth_type() -> None:
    head = conditions(18, 32, 48, 65)
    set_condition(head, 5 << 4)
    assert slots(head) == [18, 32, 48, 65]


def test_removing_closes_the_gap() -> None:
    head = conditions(18, 65, 32, 48)
    remove_condition(head, codes.SCALED_TO_ZERO)
    assert slots(head) == [18, 32, 48, 0]
    remove_condition(head, codes.SCALED_TO_ZERO)
    assert slots(head) == [18, 32, 48, 0]
    set_condition(head, codes.IS_SCALED_TO_ZERO)
    assert slots(head) == [18, 32, 48, 64]


def test_having_a_condition_means_status_and_reason_too() -> None:
    head = conditions(18, 65)
    assert has_condition(head, codes.NOT_SCALED_TO_ZERO)
    assert not has_condition(head, codes.IS_SCALED_TO_ZERO)


def test_a_condition_code_carries_its_type() -> None:
    types = ["", "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"]
    for code, words in codes.CONDITIONS.items():
        assert types[code >> 4] == words.type


@given(st.lists(st.sampled_from(sorted(codes.CONDITIONS)), max_size=12))
def test_conditions_are_a_map_in_order_of_insertion(settings: list[int]) -> None:
    head, expected = conditions(), dict[int, int]()
    for code in settings:
        set_condition(head, code)
        expected[code >> 4] = code
    assert [c for c in slots(head) if c] == list(expected.values())
    for code in codes.CONDITIONS:
        assert has_condition(head, code) == (code in expected.values())
