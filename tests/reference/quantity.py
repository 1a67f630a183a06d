"""Kubernetes quantities, as apimachinery ``pkg/api/resource`` of the 0.36.4 libraries has them.

A quantity is exact (an integer times a power of ten), but which of upstream's two internal forms
it has decides how ``MilliValue`` rounds and overflows, so the form is kept.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from .gomath import MAX_INT64, MIN_INT64, trunc_div, wrap64

_SYNTAX = re.compile(
    r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)"
)
_DECIMAL_SUFFIX = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAME = {power: suffix for suffix, power in _DECIMAL_SUFFIX.items()} | {0: ""}

# quantity.go positiveScaleInt64 multiplies at once by these powers of ten and returns the wrapped
# product; any other power goes step by step and gives 0 as soon as one step overflows.
_ONE_STEP_POWERS = (0, 1, 2, 3, 6, 9)

_MAX_INT64_DIGITS = 18


class Quantity(NamedTuple):
    """``unscaled * 10**exponent``; ``big`` tells upstream's inf.Dec form from the int64 form."""

    unscaled: int
    exponent: int
    big: bool


@lru_cache(maxsize=200_000)
def parse(text: str) -> Quantity:
    """Parse a quantity string (quantity.go ``ParseQuantity``)."""
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise ValueError(f"not a quantity: {text!r}")
    sign_text, whole, fraction, exponent_text, suffix = match.groups()
    sign = -1 if sign_text == "-" else 1
    whole = whole.lstrip("0") or "0"
    fraction = fraction or ""
    if suffix in _BINARY_SUFFIX:
        return _parse_binary(sign, whole, fraction, _BINARY_SUFFIX[suffix])
    exponent = int(exponent_text) if exponent_text else _DECIMAL_SUFFIX.get(suffix or "", 0)
    scale = exponent - len(fraction)
    value = int(whole + fraction)
    if len(whole + fraction) <= _MAX_INT64_DIGITS and scale >= -9:
        return Quantity(sign * value, scale, big=False)
    return Quantity(sign * _nano_away_from_zero(value, scale), -9, big=True)


def _parse_binary(sign: int, whole: str, fraction: str, power: int) -> Quantity:
    """Parse the digits of a Ki, Mi, ... quantity; the power is that of two."""
    if not fraction and len(whole) + power * 3 // 10 <= 14:
        return Quantity(sign * int(whole) * 2**power, 0, big=False)
    nano = _nano_away_from_zero(int(whole + fraction) * 2**power, -len(fraction))
    if nano > MAX_INT64 * 10**9:  # only the binary form is capped, and at whole units
        return Quantity(sign * MAX_INT64, 0, big=True)
    return Quantity(sign * nano, -9, big=True)


def _nano_away_from_zero(value: int, scale: int) -> int:
    """Return ``value * 10**scale`` (value >= 0) as a whole number of nano, rounded up."""
    steps = scale + 9
    if steps >= 0:
        return int(value * 10**steps)
    return int(-(-value // 10**-steps))


def milli_of(quantity: Quantity) -> int:
    """``MilliValue()``: the int64 number of thousandths, overflow as upstream has it."""
    steps = quantity.exponent + 3
    if quantity.big:
        return _milli_of_big(quantity.unscaled, steps)
    if steps < 0:  # rounded away from zero
        magnitude = -(-abs(quantity.unscaled) // 10**-steps)
        return int(-magnitude if quantity.unscaled < 0 else magnitude)
    product = int(quantity.unscaled * 10**steps)
    if MIN_INT64 <= product <= MAX_INT64:
        return product
    return wrap64(product) if steps in _ONE_STEP_POWERS else 0


def _milli_of_big(unscaled: int, steps: int) -> int:
    """scale_int.go ``scaledValue``: one more than the quotient whenever there is a remainder."""
    if steps >= 0:
        return wrap64(unscaled * 10**steps)
    divisor = 10**-steps
    if abs(unscaled) < MAX_INT64:
        quotient = trunc_div(unscaled, divisor)
    else:  # upstream's slow path divides with big.Int.DivMod, which is Euclidean
        quotient = unscaled // divisor
    return wrap64(quotient + 1 if unscaled % divisor else quotient)


@lru_cache(maxsize=200_000)
def milli(text: str) -> int:
    """Return ``MilliValue()`` of a quantity string."""
    return milli_of(parse(text))


@lru_cache(maxsize=10_000)
def approx_float(text: str) -> float:
    """``AsApproximateFloat64()``: one float multiply with the power-of-ten table, if any."""
    quantity = parse(text)
    if quantity.exponent == 0:
        return float(quantity.unscaled)
    return float(quantity.unscaled) * float(f"1e{quantity.exponent}")


def add(left: Quantity, right: Quantity) -> Quantity:
    """quantity.go ``Add``: the int64 form stays while the sum fits, else the big form."""
    if not left.big and not right.big:
        if left.unscaled == 0:
            return right
        if right.unscaled == 0:
            return left
    low, left_value, right_value = _align(left, right)
    total = left_value + right_value
    fits = all(MIN_INT64 <= value <= MAX_INT64 for value in (left_value, right_value, total))
    return Quantity(total, low, big=left.big or right.big or not fits)


def compare(left: Quantity, right: Quantity) -> int:
    """``Cmp``: the sign of the exact difference."""
    _, left_value, right_value = _align(left, right)
    return (left_value > right_value) - (left_value < right_value)


def _align(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    """Return the lower exponent and both unscaled values at it."""
    low = min(left.exponent, right.exponent)
    left_value = int(left.unscaled * 10 ** (left.exponent - low))
    right_value = int(right.unscaled * 10 ** (right.exponent - low))
    return low, left_value, right_value


def text_of_milli(milli_value: int, binary: bool = False) -> str:
    """Print ``NewMilliQuantity(milli_value, format)``: the canonical form of a new quantity.

    ``binary`` is the format BinarySI, which falls back to DecimalSI below 1024 and for fractions.
    """
    if binary and abs(milli_value) >= 1024 * 1000 and milli_value % 1000 == 0:
        return _binary_text(milli_value // 1000)
    if milli_value == 0:
        return "0"
    number, exponent = milli_value, -3
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    while exponent % 3 != 0:
        number, exponent = number * 10, exponent - 1
    return f"{number}{_DECIMAL_NAME[exponent]}"


def _binary_text(value: int) -> str:
    suffixes = ["", *_BINARY_SUFFIX]
    while value % 1024 == 0 and len(suffixes) > 1:
        value, suffixes = value // 1024, suffixes[1:]
    return f"{value}{suffixes[0]}"
