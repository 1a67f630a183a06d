"""Tests of numbers as strings: beside what was recorded, shares of a run, without exponents."""

from __future__ import annotations

import pytest

from hpabatch.report.capacity import HPA_HEADS
from hpabatch.report.numbers import beside, significant
from hpabatch.report.simulate import HEADS


@pytest.mark.parametrize(
    ("modelled", "recorded", "cell"),
    [
        (0.0, 79.0, "0 (79)"),
        (79.0, 0.0, "79 (0)"),
        (100.0, 104.0, "100"),  # nearer than 5 %
        (100.0, 106.0, "100 (106)"),
        (0.2, 0.4, "0"),  # it would be shown as the same
        (0.0, 0.0, "0"),
        (5.0, None, "5"),
        (None, 5.0, ""),
    ],
)
def test_what_was_recorded_stands_beside_if_it_differs(
    modelled: float | None, recorded: float | None, cell: str
) -> None:
    shown = "" if modelled is None else f"{modelled:.0f}"
    assert beside(shown, modelled, recorded) == cell


def test_the_time_at_the_maximum_is_a_share_of_the_run() -> None:
    """As in a replay, whose `14h` beside `539m` was read as millicores."""
    heads = [next(h for h in heads if h.name == "AT MAX") for heads in (HEADS, HPA_HEADS)]
    row = {"at_max_minutes": 840.0, "held_minutes": 840.0, "hours": 56.0}
    assert [head.cell(row) for head in heads] == ["25%", "25%"]
    assert [head.meaning for head in heads] == [heads[0].meaning] * 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [(3.808e-05, "<0.0001"), (0.5, "0.5"), (1.23456, "1.235"), (2e6, "2,000,000")],
)
def test_numbers_have_no_exponent(value: float, shown: str) -> None:
    assert significant(value) == shown
