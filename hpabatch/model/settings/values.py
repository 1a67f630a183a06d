"""Values of settings as they are written: `70`, `5m`, `x0.8`, `+2`, `Max`, `fast`.

A number is absolute, a factor of today's value (`x0.8`) or a difference to it (`+2`, `-60`). Each
kind of value reads what users write and has one canonical form, so that equal values are one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

from hpabatch.model.quantity import Format, Quantity
from hpabatch.model.times import parse_duration_ms, show_duration

AS_TODAY: Final = "today"
"""The value of a field that stays as it is."""

MAX_REPLICAS: Final = 100_000
MAX_WINDOW_S: Final = 3600
MAX_MILLI: Final = 2**53
"""Thousandths of a target: 9 TB, or 9e12 of anything counted."""

MILLI: Final = Fraction(1, 1000)

_MAX_FACTOR = 1000
_DECIMALS = 6
_PLAIN = re.compile(r"[0-9]{1,16}", re.ASCII)
_DECIMAL = re.compile(rf"[0-9]{{1,9}}(?:\.[0-9]{{1,{_DECIMALS}}})?", re.ASCII)

Operation = Literal["", "x", "+"]
Shape = Literal["plain", "decimal", "binary"]
"""Form of a target: a whole number (percent), with a decimal unit (500m), with a binary unit."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of a kind's unit: absolute (""), a factor ("x") or a difference ("+")."""

    operation: Operation
    number: Fraction
    shape: Shape = "plain"

    @property
    def is_today(self) -> bool:
        """Whether it changes nothing, whatever today's value is."""
        return bool(self.operation) and self.number == (1 if self.operation == "x" else 0)


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A kind of number.

    `read` and `write` are for absolute numbers, from `low` to `high` in the kind's unit (None: no
    bound of its own). `finest` is the step of a range that names none, None: a thousandth of it.
    """

    wants: str
    read: Callable[[str], tuple[Fraction, Shape]]
    write: Callable[[Fraction, Shape], str]
    low: Fraction | int
    high: int | None
    finest: Fraction | None
    relative: bool = True

    def parse(self, text: str) -> Amount:
        """Return the amount of a string.

        Raises:
            ValueError: it is not of this kind; the message quotes it.
        """
        return _parse_number(self, text)

    def text(self, amount: Amount) -> str:
        """Return the canonical form of an amount, which `parse` reads again."""
        if amount.is_today:
            return AS_TODAY
        if amount.operation == "x":
            return f"x{decimal_text(amount.number)}"
        if amount.operation == "+":
            sign = "+" if amount.number > 0 else "-"
            return sign + self.write(abs(amount.number), amount.shape)
        return self.write(amount.number, amount.shape)

    def checked(self, number: Fraction, what: str) -> Fraction:
        """Return a number that lies within the bounds (ValueError: it does not)."""
        if number < self.low or (self.high is not None and number > self.high):
            raise ValueError(f"{what} is not {self.span}")
        return number

    @property
    def span(self) -> str:
        """The bounds in words: `from 0 to 3600`, `at least 1m`."""
        least = self.write(Fraction(self.low), "plain")
        if self.high is None:
            return f"at least {least}"
        return f"from {least} to {self.write(Fraction(self.high), 'plain')}"


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """A kind of word: one of a few, capital letters or not."""

    words: tuple[str, ...]
    neutral: str = ""

    @property
    def wants(self) -> str:
        """The expected values, for messages after "is not"."""
        return f"one of {', '.join(self.words)}"

    def parse(self, text: str) -> str:
        """Return the word as in the API; `neutral`, which changes nothing, as today.

        Raises:
            ValueError: it is none of them; the message quotes it.
        """
        found = {word.lower(): word for word in self.words}.get(text.lower())
        if found is None:
            raise ValueError(f"{text!r} is not {self.wants}")
        return AS_TODAY if found == self.neutral else found


@dataclass(frozen=True, slots=True, eq=False)
class SetNames:
    """The kind of a policy set's name; the sets are given when it is parsed."""

    wants: str = "the name of a policy set"

    def parse(self, text: str, known: Iterable[str]) -> str:
        """Return the name (ValueError: there is no such set)."""
        names = list(known)
        if text not in names:
            raise ValueError(f"{text!r} is not {self.wants} (known: {', '.join(names)})")
        return text


@lru_cache(maxsize=100_000)
def _parse_number(kind: Numbers, text: str) -> Amount:
    operation = text[:1]
    if operation in ("x", "+", "-") and not kind.relative:
        raise ValueError(f"{text!r} is relative to today's, which this field cannot be")
    if operation == "x":
        return Amount("x", _factor(text))
    number, shape = kind.read(text[1:] if operation in ("+", "-") else text)
    if operation not in ("+", "-"):
        return Amount("", kind.checked(number, repr(text)), shape)
    if kind.high is not None and number > kind.high - kind.low:
        raise ValueError(f"{text!r} cannot lead to a value {kind.span}, whatever today's is")
    return Amount("+", -number if operation == "-" else number, shape)


def _factor(text: str) -> Fraction:
    if not _DECIMAL.fullmatch(text[1:]) or not 0 < Fraction(text[1:]) <= _MAX_FACTOR:
        raise ValueError(
            f"{text!r} is not a factor such as x0.8: a number above 0, at most {_MAX_FACTOR}, of "
            f"at most {_DECIMALS} decimals"
        )
    return Fraction(text[1:])


def decimal_text(number: Fraction) -> str:
    """Return a number with at most six decimals and no trailing zeros: 3/2 -> `1.5`."""
    millionths = number * 10**_DECIMALS
    assert millionths.denominator == 1
    whole, rest = divmod(abs(millionths.numerator), 10**_DECIMALS)
    sign = "-" if number < 0 else ""
    return f"{sign}{whole}.{rest:0{_DECIMALS}}".rstrip("0").rstrip(".")


def rounded(number: Fraction, step: Fraction = Fraction(1)) -> Fraction:
    """Return the nearest multiple of a step, halves rounded up."""
    return (number / step + Fraction(1, 2)).__floor__() * step


def _whole(wants: str) -> Callable[[str], tuple[Fraction, Shape]]:
    def read(text: str) -> tuple[Fraction, Shape]:
        if not _PLAIN.fullmatch(text):
            raise ValueError(f"{text!r} is not {wants}")
        return Fraction(int(text)), "plain"

    return read


def _write_whole(number: Fraction, shape: Shape) -> str:
    return str(int(number))


_REPLICAS_WANTS: Final = f"a whole number of replicas from 0 to {MAX_REPLICAS:,}"
REPLICAS: Final = Numbers(
    _REPLICAS_WANTS, _whole(_REPLICAS_WANTS), _write_whole, 0, MAX_REPLICAS, Fraction(1)
)
MAXIMUM: Final = Numbers(
    f"a whole number of replicas from 1 to {MAX_REPLICAS:,}",
    _whole(_REPLICAS_WANTS), _write_whole, 1, MAX_REPLICAS, Fraction(1),
)  # fmt: skip

_WINDOW_WANTS: Final = f"whole seconds from 0 to {MAX_WINDOW_S}, or a duration such as 5m"


def _duration_ms(text: str, wants: str) -> int:
    """Return a duration; a bare number is seconds."""
    if _PLAIN.fullmatch(text):
        return int(text) * 1000
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {wants}") from None


def _read_window(text: str) -> tuple[Fraction, Shape]:
    window_ms = _duration_ms(text, _WINDOW_WANTS)
    if window_ms % 1000:
        raise ValueError(f"{text!r} is not {_WINDOW_WANTS}")
    return Fraction(window_ms // 1000), "plain"


WINDOW: Final = Numbers(_WINDOW_WANTS, _read_window, _write_whole, 0, MAX_WINDOW_S, Fraction(1))

_SYNC_WANTS: Final = "a duration from 1s to 1h, such as 15s"


def _read_sync(text: str) -> tuple[Fraction, Shape]:
    return Fraction(_duration_ms(text, _SYNC_WANTS)), "plain"


SYNC: Final = Numbers(
    _SYNC_WANTS, _read_sync, lambda number, _: show_duration(int(number)), 1000, 3_600_000,
    Fraction(1000), relative=False,
)  # fmt: skip

_TOLERANCE_WANTS: Final = "a share from 0 to 1 such as 0.05 or 5%"
TOLERANCE_STEP: Final = Fraction(1, 10_000)


def _read_tolerance(text: str) -> tuple[Fraction, Shape]:
    number = text.removesuffix("%")
    if _DECIMAL.fullmatch(number):
        found = Fraction(number) / (100 if text.endswith("%") else 1)
        if (found * 10**_DECIMALS).denominator == 1:
            return found, "plain"
    elif re.fullmatch(r"[0-9]{1,6}m", text, re.ASCII):  # a Kubernetes quantity
        return Fraction(int(text[:-1]), 1000), "plain"
    raise ValueError(f"{text!r} is not {_TOLERANCE_WANTS}")


TOLERANCE: Final = Numbers(
    _TOLERANCE_WANTS, _read_tolerance, lambda number, _: decimal_text(number), 0, 1, MILLI,
)  # fmt: skip

_TARGET_WANTS: Final = "a whole percentage such as 70, or a quantity such as 500m or 100Mi"


def _read_target(text: str) -> tuple[Fraction, Shape]:
    percent = text.removesuffix("%")
    if percent != text and _PLAIN.fullmatch(percent):
        raise ValueError(f"{text!r} is not {_TARGET_WANTS}: {percent} alone means percent")
    try:
        quantity = Quantity.parse(text)
    except ValueError:  # with upstream's regular expression for a reason
        raise ValueError(f"{text!r} is not {_TARGET_WANTS}") from None
    if quantity.sign() < 0:
        raise ValueError(f"{text!r} is not {_TARGET_WANTS}")
    if quantity.compare(Quantity.from_milli(MAX_MILLI)) > 0:
        raise ValueError(f"{text!r} is impossibly large: at most {MAX_MILLI // 1000:,}")
    number = exact(quantity)
    if (number * 1000).denominator != 1:
        raise ValueError(f"{text!r} is finer than 1m, which the controller cannot tell apart")
    if _PLAIN.fullmatch(text):
        return number, "plain"
    is_binary = quantity.format is Format.binary_si and number.denominator == 1
    return number, "binary" if is_binary else "decimal"


def exact(quantity: Quantity) -> Fraction:
    """Return a quantity as an exact number."""
    return Fraction(quantity.unscaled) * Fraction(10) ** quantity.exponent


def quantity_text(number: Fraction, shape: Shape) -> str:
    """Return a number of whole thousandths as a quantity; only a plain one has no unit."""
    if shape == "plain" and number.denominator == 1:
        return str(int(number))
    if shape == "binary" and number.denominator == 1:
        text = Quantity(int(number), 0, format=Format.binary_si).canonical()
    else:
        text = Quantity.from_milli(int(number * 1000)).canonical()
    return f"{int(number * 1000)}m" if text.isdigit() and number else text


def rounded_quantity(number: Fraction, shape: Shape) -> Fraction:
    """Return a number rounded to the largest unit of which it has 100: at most half a percent off.

    Units are m, 1, k, M, … or bytes, Ki, Mi, …; it is never rounded to 0.
    """
    base, unit = (1024, Fraction(1)) if shape == "binary" else (1000, MILLI)
    least = unit
    while number >= 100 * unit * base:
        unit *= base
    return max(rounded(number, unit), least)


TARGET: Final = Numbers(_TARGET_WANTS, _read_target, quantity_text, MILLI, None, None)

SELECT: Final = Words(("Max", "Min", "Disabled"))
COMBINE: Final = Words(("max", "min", "mean"), neutral="max")
PERCENTAGE_OF: Final = Words(("request", "limit"), neutral="request")
POLICIES: Final = SetNames()

Kind = Numbers | Words | SetNames
