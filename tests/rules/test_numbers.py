"""Go's arithmetic, compiled and interpreted alike, checked against Python's unbounded numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpabatch.rules.numbers import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    add64,
    ceil_to_int32,
    ceil_to_int64,
    div64,
    divide,
    float_to_int32,
    float_to_int64,
    mul64,
    sub64,
    to_int32,
)

EDGES = [0, 1, -1, 2, -2, 100, INT32_MAX, INT32_MIN, INT32_MAX + 1, INT32_MIN - 1]
EDGES += [INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1, 2**62, -(2**62)]
int64 = st.one_of(st.sampled_from(EDGES), st.integers(INT64_MIN, INT64_MAX))
float64 = st.one_of(
    st.floats(),
    st.integers(INT64_MIN, INT64_MAX).map(float),
    st.floats(-3e9, 3e9),
)


def wrapped(value: int, bits: int) -> int:
    """Return the signed number in the low bits, the definition of two's complement."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def truncated(value: float, bits: int) -> int:
    """Return the integer part of a float, or the smallest number where it does not fit."""
    lowest = -(1 << (bits - 1))
    if math.isnan(value) or math.isinf(value):
        return lowest
    whole = math.trunc(Fraction(value))
    return whole if lowest <= whole <= -lowest - 1 else lowest


@given(int64, int64)
def test_int64_addition_wraps_silently(a: int, b: int) -> None:
    assert add64(a, b) == wrapped(a + b, 64)


@given(int64, int64)
def test_int64_subtraction_wraps_silently(a: int, b: int) -> None:
    assert sub64(a, b) == wrapped(a - b, 64)


@given(int64, int64)
def test_int64_multiplication_wraps_silently(a: int, b: int) -> None:
    assert mul64(a, b) == wrapped(a * b, 64)


@given(int64, int64.filter(bool))
@example(INT64_MIN, -1)
@example(-7, 2)
@example(7, -2)
@example(-8, 2)
def test_integer_division_truncates_toward_zero(a: int, b: int) -> None:
    quotient = abs(a) // abs(b)
    assert div64(a, b) == wrapped(quotient if (a < 0) == (b < 0) else -quotient, 64)


@given(int64)
def test_int64_to_int32_keeps_the_low_32_bits(value: int) -> None:
    assert to_int32(value) == wrapped(value, 32)


@given(float64)
@example(2147483647.5)
@example(-2147483648.5)
@example(-2147483649.0)
@example(2147483648.0)
def test_float_to_int32_truncates_and_what_does_not_fit_is_the_smallest(value: float) -> None:
    assert float_to_int32(value) == truncated(value, 32)


@given(float64)
@example(9223372036854774784.0)  # the largest float below 2**63
@example(float(2**63))
@example(-float(2**63))
def test_float_to_int64_truncates_and_what_does_not_fit_is_the_smallest(value: float) -> None:
    assert float_to_int64(value) == truncated(value, 64)


@given(float64)
def test_ceil_rounds_toward_plus_infinity(value: float) -> None:
    finite = math.isfinite(value)
    expected = float(math.ceil(Fraction(value))) if finite else value
    assert ceil_to_int32(value) == truncated(expected, 32)
    assert ceil_to_int64(value) == truncated(expected, 64)


@given(st.floats(), st.floats())
@example(0.0, 0.0)
@example(-0.0, 0.0)
@example(1.0, -0.0)
@example(math.nan, 0.0)
@example(-math.inf, 0.0)
@example(1.0, math.nan)
def test_float_division_is_ieee_754(a: float, b: float) -> None:
    with np.errstate(all="ignore"):
        expected = float(np.float64(a) / np.float64(b))
    result = divide(a, b)
    if math.isnan(expected):
        assert math.isnan(result)
    else:
        assert result == expected
        assert math.copysign(1.0, result) == math.copysign(1.0, expected)


def test_numpy_scalars_do_as_well_as_python_numbers() -> None:
    i: Any = np.int64  # what interpreted rules read from arrays
    assert add64(i(INT64_MAX), i(1)) == INT64_MIN
    assert sub64(i(INT64_MIN), i(1)) == INT64_MAX
    assert mul64(i(2**62), i(2)) == INT64_MIN
    assert div64(i(-7), i(2)) == -3
    assert to_int32(i(2**31)) == INT32_MIN
    assert divide(np.float64(1.0), np.float64(0.0)) == math.inf


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -1e300])
def test_nan_infinity_and_huge_floats_are_the_smallest_integer(value: float) -> None:
    assert float_to_int32(value) == -2147483648
    assert float_to_int64(value) == -9223372036854775808
    assert ceil_to_int32(value) == -2147483648
    assert ceil_to_int64(value) == -9223372036854775808
