"""Axes show what matters; numbers are as long as their room."""

from __future__ import annotations

import numpy as np
import pytest

from hpabatch.report.pictures.front import spread
from hpabatch.report.pictures.scale import view_of
from hpabatch.report.pictures.style import (
    amount,
    short_amount,
)


def test_a_plain_view_has_everything_in_it() -> None:
    view = view_of(np.array([10.0, 12.0, 20.0]), [10.0, 14.0])
    assert view.linear is None
    assert view.low < 10
    assert view.high > 20


def test_far_away_values_are_cut_off_but_never_more_than_half() -> None:
    values = np.array([10.0, 11.0, 11.5, 12.0, 12.5, 90.0])
    view = view_of(values, [10.0, 12.0])
    assert view.high < 20
    assert view.shows(values).tolist() == [True] * 5 + [False]
    crowd = np.array([10.0, 12.0, *np.linspace(80, 90, 20)])
    assert view_of(crowd, [10.0, 12.0]).shows(crowd).mean() >= 0.5


def test_orders_of_magnitude_are_logarithmic_with_a_place_for_zero() -> None:
    view = view_of(np.array([0.0, 0.5, 3.0, 40.0, 900.0]), [0.0, 3.0])
    assert view.linear is not None
    assert view.low < 0 < view.linear <= 1


def test_one_value_only_is_never_shown_with_less_than_nothing() -> None:
    view = view_of(np.zeros(3), [0.0])
    assert view.high == 1.0
    assert -0.1 < view.low < 0
    assert view_of(np.array([5.0]), [5.0]).low == 2.5


def test_named_points_are_the_ends_and_far_from_each_other() -> None:
    at = np.array([[0, 0], [2, 0], [50, 0], [52, 0], [100, 0], [np.nan, 0]], float)
    order = [0, 1, 2, 3, 4, 5]
    assert spread(at, order, [], most=8, apart=15) == [0, 2, 4]
    assert spread(at, order, [], most=2, apart=15) == [0, 4]
    assert spread(at, order, [2], most=8, apart=15) == [0, 4]
    assert spread(at, [], [], most=8, apart=15) == []


@pytest.mark.parametrize(
    ("value", "long", "short"),
    [
        (0, "0", "0"),
        (0.0001, "1.0e-04", "1.0e-04"),
        (0.1234, "0.123", "0.123"),
        (9.996, "10", "10"),
        (28.04, "28", "28"),
        (99.96, "100", "100"),
        (1234.4, "1,234", "1,234"),
        (12_345, "12,345", "12.3k"),
        (999_600, "999,600", "1M"),
        (4.2e9, "4,200,000,000", "4.2G"),
    ],
)
def test_numbers_for_people(value: float, long: str, short: str) -> None:
    assert amount(value) == long
    assert short_amount(value) == short
