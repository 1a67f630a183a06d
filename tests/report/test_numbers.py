"""Tests of numbers as strings: a measure with what was recorded of it."""

from __future__ import annotations

import pytest

from hpabatch.report.numbers import beside


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
