"""Go's integer and float arithmetic, the same compiled and interpreted.

Everything that divides, truncates, converts or may wrap goes through here. Go truncates where
Python floors; Go's int64 wraps where Python grows; a float that does not fit an integer is left to
the platform by Go, and amd64's answer (the smallest integer) is what the controller shows in
practice. Source: The Go Programming Language Specification, "Integer overflow", "Conversions";
Intel SDM, CVTTSD2SI.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from hpabatch._jit import compiled_as, rule

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_TWO_63: Final = float(2**63)


@compiled_as(lambda value: np.uint64(value))
def _word(value: int) -> int:
    """Return an operand of arithmetic that may wrap: compiled, as an unsigned word.

    Numba tells LLVM that signed arithmetic never overflows; LLVM then takes the sign of
    a * 100 from a, and a test of a product that did wrap goes the wrong way.
    """
    return int(value)


@compiled_as(lambda value: np.int64(value))
def _wrap64(value: int) -> int:
    """Return the low 64 bits of a sum or product of words as a signed number."""
    return (value + 2**63) % 2**64 - 2**63


@rule
def add64(a: int, b: int) -> int:
    """Return a + b as int64, wrapping."""
    return _wrap64(_word(a) + _word(b))


@rule
def sub64(a: int, b: int) -> int:
    """Return a - b as int64, wrapping."""
    return _wrap64(_word(a) - _word(b))


@rule
def mul64(a: int, b: int) -> int:
    """Return a * b as int64, wrapping."""
    return _wrap64(_word(a) * _word(b))


@rule
def div64(a: int, b: int) -> int:
    """Return a / b truncated toward zero; b must not be 0. MinInt64 / -1 is MinInt64."""
    if a >= 0 and b > 0:
        # Nearly always, and without the corrections of a floored quotient (7 ns of a tick).
        return int(np.int64(np.uint64(a) // np.uint64(b)))
    if b == -1:  # the processor traps on MinInt64 / -1
        return sub64(0, a)
    quotient = int(a) // int(b)
    if quotient < 0 and quotient * int(b) != int(a):
        return quotient + 1
    return quotient


@rule
def to_int32(value: int) -> int:
    """Return the low 32 bits of an int64 as a signed number."""
    return (_wrap64(_word(value) + _word(2147483648)) & 0xFFFFFFFF) - 2147483648


@rule
def float_to_int32(value: float) -> int:
    """Truncate toward zero; NaN and what does not fit give MinInt32 (amd64)."""
    if -2147483649.0 < value < 2147483648.0:
        return int(value)
    return INT32_MIN


@rule
def float_to_int64(value: float) -> int:
    """Truncate toward zero; NaN and what does not fit give MinInt64 (amd64)."""
    if -_TWO_63 <= value < _TWO_63:
        return int(value)
    return INT64_MIN


@rule
def ceil_to_int32(value: float) -> int:
    """Return int32(math.Ceil(value)) as Go on amd64 computes it."""
    if math.isnan(value):
        return INT32_MIN
    return float_to_int32(float(np.ceil(value)))


@rule
def ceil_to_int64(value: float) -> int:
    """Return int64(math.Ceil(value)) as Go on amd64 computes it."""
    if math.isnan(value):
        return INT64_MIN
    return float_to_int64(float(np.ceil(value)))


@rule
def divide(a: float, b: float) -> float:
    """Return a / b as IEEE 754 does: +-Inf or NaN where b is zero, never an exception."""
    if b == 0.0:
        if a == 0.0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return float(a) / float(b)
