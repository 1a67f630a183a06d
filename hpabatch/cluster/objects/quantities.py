"""Quantities of metrics APIs in milli-units, fast: thousands come anew every few seconds."""

from __future__ import annotations

from hpabatch.model.quantity import Quantity

_UNITS_PER_MILLI = {"n": 1_000_000, "u": 1000, "m": 1}
_BINARY_MILLI = {"Ki": (1024_000, 11), "Mi": (1024_000 << 10, 8), "Gi": (1024_000 << 20, 5)}
_MAX_DIGITS = 18
_MAX_WHOLE_DIGITS = 15


def milli_of(value: str | int | float) -> int:
    """Return what `Quantity.parse(value).milli()` returns, for all that it takes.

    The forms that metrics servers write (`123456789n`, `52m`, `123456Ki`, `104857600`) are read
    at once, as far as upstream keeps them exactly in 64 bits: more is rounded up to whole milli.

    Raises:
        ValueError: not a quantity.
    """
    if type(value) is str and value.isascii():
        digits, unit = value[:-1], value[-1:]
        if digits.isdigit():
            divisor = _UNITS_PER_MILLI.get(unit)
            if divisor is not None and len(digits) <= _MAX_DIGITS:
                return -(-int(digits) // divisor)
            if unit.isdigit() and len(digits) < _MAX_WHOLE_DIGITS:
                return int(value) * 1000
        elif unit == "i":
            factor, most = _BINARY_MILLI.get(value[-2:], (0, 0))
            digits = value[:-2]
            if len(digits) <= most and digits.isdigit():
                return int(digits) * factor
    return Quantity.parse(value).milli()
