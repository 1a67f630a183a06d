"""Go's integer and float conversions on amd64, for Python's unbounded integers.

Everything here takes and returns plain ``int`` and ``float``; "wraps" means that only the low
32 or 64 bits of the exact result count, as in Go.
"""

from __future__ import annotations

import math

MAX_INT32 = 2**31 - 1
MIN_INT32 = -(2**31)
MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)


def wrap32(value: int) -> int:
    """Return the low 32 bits of ``value`` as a signed number."""
    return (value + 2**31) % 2**32 - 2**31


def wrap64(value: int) -> int:
    """Return the low 64 bits of ``value`` as a signed number."""
    return (value + 2**63) % 2**64 - 2**63


def trunc_div(numerator: int, denominator: int) -> int:
    """Divide like Go: toward zero (Python's ``//`` goes toward minus infinity)."""
    quotient = abs(numerator) // abs(denominator)
    if (numerator < 0) != (denominator < 0):
        quotient = -quotient
    return wrap64(quotient)  # MinInt64 / -1 is MinInt64 in Go


def float_div(numerator: float, denominator: float) -> float:
    """Divide like IEEE 754: no exception, but an infinity or NaN for a zero denominator."""
    if denominator != 0.0:
        return numerator / denominator
    if numerator == 0.0 or math.isnan(numerator):
        return math.nan
    return math.copysign(math.inf, numerator) * math.copysign(1.0, denominator)


def float_to_int32(value: float) -> int:
    """``int32(value)``: toward zero; NaN, infinities and out-of-range values give MinInt32."""
    if not math.isfinite(value):
        return MIN_INT32
    result = math.trunc(value)
    return result if MIN_INT32 <= result <= MAX_INT32 else MIN_INT32


def float_to_int64(value: float) -> int:
    """``int64(value)``: toward zero; NaN, infinities and out-of-range values give MinInt64."""
    if not math.isfinite(value):
        return MIN_INT64
    result = math.trunc(value)
    return result if MIN_INT64 <= result <= MAX_INT64 else MIN_INT64


def ceil_float(value: float) -> float:
    """``math.Ceil(value)``: still a float, so NaN and the infinities pass through."""
    return float(math.ceil(value)) if math.isfinite(value) else value


def ceil_to_int32(value: float) -> int:
    """``int32(math.Ceil(value))``."""
    return float_to_int32(ceil_float(value))


def ceil_to_int64(value: float) -> int:
    """``int64(math.Ceil(value))``."""
    return float_to_int64(ceil_float(value))
