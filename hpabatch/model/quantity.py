"""Kubernetes quantities (`100m`, `1.5Gi`, `1e3`): parsed, scaled and printed as Kubernetes does.

Upstream keeps a parsed quantity in one of two forms, and the form is observable: it decides how
milli-units round and what an overflow gives. So a `Quantity` here carries its form too. All
arithmetic is on integers. Follows apimachinery pkg/api/resource (quantity.go, amount.go,
scale_int.go, suffix.go) of the libraries up to 0.36.4.

Three deliberate differences, none reachable with a sensible quantity: a string without any digit
(`+`, `m`) is refused where upstream reads 0; a string of more than 1000 characters, and a number
of more than 18 digits with an exponent above 1000, are refused where upstream would compute on;
and a decimal amount above the largest suffix prints with an exponent (`1e21`), as later libraries
do, where 0.36.4 would drop the exponent.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import NoReturn

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

FORMAT_ERROR = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX_ERROR = "unable to parse quantity's suffix"

_SYNTAX = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
# What Go's strings.TrimSpace removes, as far as it can stand in a JSON string unescaped.
_BLANKS = " \t\n\v\f\r\x85\xa0"

_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {power: name for name, power in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = ("", *_BINARY_SUFFIXES)

_NANO = -9
_MILLI = -3
_MAX_DIGITS = 18  # of the int64 form
_MAX_BINARY_DIGITS = 14
# amount.go positiveScaleInt64 multiplies by these powers of ten at once and returns the wrapped
# product; every other power goes step by step and gives 0 as soon as a step overflows.
_ONE_STEP_POWERS = frozenset({0, 1, 2, 3, 6, 9})

_MAX_TEXT = 1000
_MAX_BIG_EXPONENT = 1000
_MAX_ALIGNMENT = 2000


class Format(StrEnum):
    """How a quantity was written and will be printed."""

    decimal_si = "DecimalSI"
    binary_si = "BinarySI"
    decimal_exponent = "DecimalExponent"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """`unscaled * 10**exponent`, exactly; `big` tells upstream's inf.Dec form from its int64 form.

    Equality, order and hash go by value: `Quantity.parse("1") == Quantity.parse("1000m")`.
    `text` is the string that upstream keeps and prints again, "" where it keeps none.
    """

    unscaled: int = 0
    exponent: int = 0
    big: bool = False
    format: Format = Format.decimal_si
    text: str = ""

    @classmethod
    def parse(cls, value: str | int | float) -> Quantity:
        """Parse a quantity string, or a JSON number (quantity.go ParseQuantity, UnmarshalJSON).

        Blanks around a string are allowed, as on the wire.

        Raises:
            ValueError: not a quantity; the message is the API server's.
        """
        if isinstance(value, str):
            return _parse_text(value.strip(_BLANKS))
        if isinstance(value, bool):
            raise ValueError(FORMAT_ERROR)
        return _parse_text(json_number(value))

    @classmethod
    def from_milli(cls, value: int, binary: bool = False) -> Quantity:
        """Make a status quantity from int64 milli-units (quantity.go NewMilliQuantity)."""
        return cls(value, _MILLI, format=Format.binary_si if binary else Format.decimal_si)

    def milli(self) -> int:
        """Return the int64 number of milli-units (quantity.go MilliValue).

        Rounds away from zero in the int64 form and up in the big form; an overflow wraps or, in
        the int64 form with some scales, gives 0. Worked number: `1500u` -> 2, `8Ei` -> -1000.
        """
        steps = self.exponent - _MILLI
        if self.big:
            return _scaled_big(self.unscaled, steps)
        if steps < 0:
            magnitude = -(-abs(self.unscaled) // _ten(-steps))
            return -magnitude if self.unscaled < 0 else magnitude
        if steps > _MAX_DIGITS + 3:  # any further step overflows whatever is not zero
            return 0
        product = self.unscaled * _ten(steps)
        if MIN_INT64 <= product <= MAX_INT64:
            return product
        return _wrap64(product) if steps in _ONE_STEP_POWERS else 0

    def approx_float(self) -> float:
        """Return the double that upstream uses for tolerances (quantity.go AsApproximateFloat64).

        One multiplication with the power-of-ten table: `0.3` -> 0.30000000000000004.
        """
        try:
            base = float(self.unscaled)
        except OverflowError:
            base = math.copysign(math.inf, self.sign())
        if self.exponent == 0:
            return base
        # Go's math.Pow10 is 0 below the smallest subnormal and +Inf above the largest double, and
        # 0 * Inf is NaN there: `0e999` is an int64 form with an exponent.
        return base * float(f"1e{self.exponent}")

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1: the sign of the exact difference (quantity.go Cmp)."""
        if self.sign() != other.sign():
            return 1 if self.sign() > other.sign() else -1
        mine, theirs = self._normal(), other._normal()
        my_size = len(str(abs(mine[0]))) + mine[1]
        their_size = len(str(abs(theirs[0]))) + theirs[1]
        if my_size != their_size:  # spares aligning 1 with 1e1000000000
            return self.sign() if my_size > their_size else -self.sign()
        low = min(mine[1], theirs[1])
        left = mine[0] * _ten(mine[1] - low)
        right = theirs[0] * _ten(theirs[1] - low)
        return (left > right) - (left < right)

    def canonical(self) -> str:
        """Return the canonical string (quantity.go CanonicalizeBytes), whatever was written."""
        if self.unscaled == 0:
            return "0"
        if self.format is Format.binary_si:
            whole, exact = self._whole()
            if exact and abs(whole) >= 1024:
                return _print_binary(whole)
        unscaled, exponent = self._normal()
        unscaled *= _ten(exponent % 3)
        exponent -= exponent % 3
        if self.format is not Format.decimal_exponent and exponent in _DECIMAL_NAMES:
            return f"{unscaled}{_DECIMAL_NAMES[exponent]}"
        return f"{unscaled}e{exponent}" if exponent else str(unscaled)

    def __str__(self) -> str:
        """Print as Kubernetes does (quantity.go String).

        That is the canonical string, except where parsing kept the string as written because a
        quick test took it for canonical: `1.500` and `+1` print as they were written.
        """
        return self.text or self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __add__(self, other: Quantity) -> Quantity:
        """Return the exact sum in the form that upstream's Add leaves (quantity.go, amount.go).

        Raises:
            ValueError: the exponents are more than 2000 apart.
        """
        shape = other.format if self.unscaled == 0 else self.format
        if not self.big and not other.big and 0 in (self.unscaled, other.unscaled):
            term = self if other.unscaled == 0 else other
            return Quantity(term.unscaled, term.exponent, format=shape)
        low = min(self.exponent, other.exponent)
        if max(self.exponent, other.exponent) - low > _MAX_ALIGNMENT:
            raise ValueError(f"cannot add {self} and {other}: their exponents are too far apart")
        left = self.unscaled * _ten(self.exponent - low)
        right = other.unscaled * _ten(other.exponent - low)
        total = left + right
        fits = all(MIN_INT64 <= term <= MAX_INT64 for term in (left, right, total))
        return Quantity(total, low, self.big or other.big or not fits, shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._normal() == other._normal()

    def __lt__(self, other: Quantity) -> bool:
        """Compare by value; with it `max` and `sorted` work as upstream's Cmp does."""
        return self.compare(other) < 0

    def __hash__(self) -> int:
        return hash(self._normal())

    def _normal(self) -> tuple[int, int]:
        """Return (unscaled, exponent) with all factors of ten in the exponent; 0 is (0, 0)."""
        unscaled, exponent = self.unscaled, self.exponent
        if unscaled == 0:
            return 0, 0
        while unscaled % 10 == 0:
            unscaled //= 10
            exponent += 1
        return unscaled, exponent

    def _whole(self) -> tuple[int, bool]:
        """Return the whole number and whether it is exact (binary amounts are never vast)."""
        unscaled, exponent = self._normal()
        if exponent < 0:
            return 0, False
        return unscaled * _ten(exponent), True


def json_number(value: int | float) -> str:
    """Return a number as JSON like Go: no exponent between 1e-6 and 1e21.

    Raises:
        ValueError: NaN or an infinity, which JSON has not, or an integer of thousands of digits.
    """
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        _refuse()
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, exponent = repr(value).split("e")
    power = int(exponent)
    return f"{mantissa.removesuffix('.0')}e{'+' if power > 0 else ''}{power}"


def _refuse(message: str = FORMAT_ERROR) -> NoReturn:
    raise ValueError(message)


@lru_cache(maxsize=200_000)
def _parse_text(text: str) -> Quantity:
    """Parse a trimmed string; cached, because the same few quantities recur."""
    if len(text) > _MAX_TEXT:
        _refuse(f"quantity of {len(text)} characters is too long (at most {_MAX_TEXT})")
    if not text.isascii():
        _refuse()
    match = _SYNTAX.fullmatch(text)
    if match is None:
        _refuse()
    whole, fraction = match["whole"] or "0", match["fraction"] or ""
    if not any(digit.isdigit() for digit in text[: match.start("suffix")]):
        _refuse()
    negative = match["sign"] == "-"
    suffix = match["suffix"]
    if suffix in _BINARY_SUFFIXES:
        return _parse_binary(text, negative, whole, fraction, _BINARY_SUFFIXES[suffix])
    if suffix in _DECIMAL_SUFFIXES:
        power, shape = _DECIMAL_SUFFIXES[suffix], Format.decimal_si
    else:
        power, shape = _parse_exponent(suffix), Format.decimal_exponent
    return _parse_decimal(text, negative, whole + fraction, power, len(fraction), shape)


def _parse_exponent(suffix: str) -> int:
    """Return the power of ten of a suffix such as `e3`, cut to int32 as suffix.go does."""
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        _refuse(SUFFIX_ERROR)
    power = int(match[1])
    if not MIN_INT64 <= power <= MAX_INT64:
        _refuse(SUFFIX_ERROR)
    return _wrap32(power)


def _parse_decimal(
    text: str, negative: bool, digits: str, power: int, places: int, shape: Format
) -> Quantity:
    """Parse `digits` with `places` of them after the point, times 10**power."""
    value = -int(digits) if negative else int(digits)
    if len(digits) <= _MAX_DIGITS:
        scale = _wrap32(power - places)
        if scale >= _NANO:
            kept = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
            return Quantity(value, scale, False, shape, text if kept else "")
    if value and power > _MAX_BIG_EXPONENT:
        _refuse(
            f"quantity of {len(digits)} digits has exponent {power} "
            f"(at most {_MAX_BIG_EXPONENT} beyond {_MAX_DIGITS} digits)"
        )
    return Quantity(_to_nano(value, power - places), _NANO, True, shape)


def _parse_binary(text: str, negative: bool, whole: str, fraction: str, power: int) -> Quantity:
    """Parse a Ki, Mi, … quantity; `power` is that of two."""
    sign = -1 if negative else 1
    if not fraction and len(whole) + power * 3 // 10 <= _MAX_BINARY_DIGITS:
        value = int(whole)
        kept = value % 8 != 0
        return Quantity(sign * (value << power), 0, False, Format.binary_si, text if kept else "")
    nano = _to_nano(int(whole + fraction) << power, -len(fraction))
    if nano > MAX_INT64 * 10**9:  # only binary amounts are capped, and at whole units
        return Quantity(sign * MAX_INT64, 0, True, Format.binary_si)
    shape = Format.decimal_si if 0 < nano < 10**9 else Format.binary_si
    return Quantity(sign * nano, _NANO, True, shape)


def _to_nano(value: int, exponent: int) -> int:
    """Return `value * 10**exponent` as a whole number of nano, rounded away from zero."""
    steps = exponent - _NANO
    if steps >= 0:
        return value * _ten(steps)
    if -steps > len(str(abs(value))):  # below one nano: do not build a vast power of ten
        return (value > 0) - (value < 0)
    magnitude = -(-abs(value) // _ten(-steps))
    return -magnitude if value < 0 else magnitude


def _scaled_big(unscaled: int, steps: int) -> int:
    """Return `unscaled * 10**steps` as upstream's big form does (scale_int.go scaledValue)."""
    if steps >= 0:
        # Beyond 18 steps Go converts a float that does not fit; on amd64 that is MinInt64.
        return _wrap64(unscaled * (_ten(steps) if steps <= _MAX_DIGITS else MIN_INT64))
    divisor = _ten(-steps)
    quotient, remainder = divmod(unscaled, divisor)
    if remainder and unscaled < 0 and -unscaled < MAX_INT64:
        quotient += 1  # the short division truncates toward zero, the long one goes down
    return _wrap64(quotient + 1 if remainder else quotient)


def _print_binary(whole: int) -> str:
    """Print a whole number of at least 1024 with as many factors of 1024 in the suffix."""
    factors = 0
    while whole % 1024 == 0 and factors < len(_BINARY_NAMES) - 1:
        whole //= 1024
        factors += 1
    return f"{whole}{_BINARY_NAMES[factors]}"


def _ten(power: int) -> int:
    """Return 10**power (power >= 0) as an int; the bare expression has type Any."""
    return int(10**power)


def _wrap64(value: int) -> int:
    return (value - MIN_INT64) % 2**64 + MIN_INT64


def _wrap32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
