"""Values of one field of a grid: lists and ranges, `50:85:5,today`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Final

from hpabatch.model.settings.fields import Field, canonical_value
from hpabatch.model.settings.policy_sets import PolicySet
from hpabatch.model.settings.values import (
    Amount,
    Numbers,
    Shape,
    rounded_quantity,
)

_SHAPES: Final[tuple[Shape, ...]] = ("plain", "decimal", "binary")
_FACTOR_STEP: Final = Fraction(1, 100)
_OPEN_STEPS: Final = 1000
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Listed:
    """A single value, in the one way to write it."""

    text: str

    def __len__(self) -> int:
        """Return 1."""
        return 1

    def at(self, k: int) -> str:
        """Return the value."""
        return self.text

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The least and the largest number; None where it is not an absolute whole one."""
        return (int(self.text), int(self.text)) if self.text.isdigit() else None


@dataclass(frozen=True, slots=True)
class Span:
    """A range: `count` amounts from `first` on, `step` apart; `last` is not exceeded.

    `is_coarse`: quantities in it are rounded, as those of no step are.
    """

    kind: Numbers
    first: Amount
    last: Fraction
    step: Fraction
    count: int
    is_coarse: bool = False

    def __len__(self) -> int:
        """Return the number of values."""
        return self.count

    def at(self, k: int) -> str:
        """Return the value at a place."""
        number = self.first.number + k * self.step
        if self.is_coarse:
            number = min(
                max(rounded_quantity(number, self.first.shape), self.first.number), self.last
            )
        return self.kind.text(Amount(self.first.operation, number, self.first.shape))

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The least and the largest number; None where they are not absolute whole ones."""
        ends = self.at(0), self.at(self.count - 1)
        return (int(ends[0]), int(ends[1])) if ends[0].isdigit() and ends[1].isdigit() else None


@dataclass(frozen=True)
class Axis:
    """A field and the values of it that a grid has, in the order they were given."""

    field: str
    items: tuple[Listed | Span, ...]

    @cached_property
    def _ends(self) -> list[int]:
        """The number of values up to the end of each item."""
        return list(accumulate(map(len, self.items)))

    def __len__(self) -> int:
        """Return the number of values."""
        return self._ends[-1]

    def __iter__(self) -> Iterator[str]:
        """Yield the values."""
        return (item.at(k) for item in self.items for k in range(len(item)))

    def at(self, k: int) -> str:
        """Return the value at a place."""
        place = bisect_right(self._ends, k)
        return self.items[place].at(k - self._ends[place] + len(self.items[place]))

    def some(self, most: int) -> list[str]:
        """Return the distinct values; of too many the first and the last ones."""
        places: Sequence[int] = range(len(self))
        if len(self) > most:
            half = most // 2
            places = [*range(half), *range(len(self) - half, len(self))]
        return list(dict.fromkeys(self.at(k) for k in places))

    def least(self) -> int | None:
        """Return the smallest value, None where one is not an absolute whole number."""
        found = [item.bounds for item in self.items]
        return None if None in found else min(bounds[0] for bounds in found if bounds)

    def most(self) -> int | None:
        """Return the largest value, None where one is not an absolute whole number."""
        found = [item.bounds for item in self.items]
        return None if None in found else max(bounds[1] for bounds in found if bounds)


def read_items(
    field: Field, text: str, sets: Mapping[str, PolicySet], open_ranges: bool
) -> tuple[tuple[Listed | Span, ...], list[str]]:
    """Return the values and ranges of a list, and the mistakes of the others.

    `open_ranges`: a range may do without a step.
    """
    found: list[Listed | Span] = []
    problems: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        try:
            if not part:
                raise ValueError(f"expected {field.kind.wants}, got nothing")
            if ":" in part:
                found.append(_span(field, part, open_ranges))
            else:
                found.append(Listed(canonical_value(field, part, sets)))
        except ValueError as error:
            problems.append(str(error))
    return tuple(found), problems


def _span(field: Field, text: str, open_ranges: bool) -> Span:
    """Return the range of `50:85:5`, whose end counts (ValueError: it is none)."""
    kind, ends = field.kind, text.split(":")
    if not isinstance(kind, Numbers):
        raise ValueError(f"{text!r} is a range, which there are of numbers only; list the values")
    if len(ends) not in (2, 3) or not all(ends):
        raise ValueError(f"{text!r} is not a range FROM:TO:STEP")
    low, high = kind.parse(ends[0]), kind.parse(ends[1])
    if low.operation != high.operation:
        raise ValueError(f"{text!r} begins and ends with different kinds of values")
    if low.number > high.number:
        raise ValueError(f"{text!r} is empty: {ends[0]} is above {ends[1]}")
    if len(ends) == 2 and not open_ranges:
        raise ValueError(f"{text!r} has no step, as in FROM:TO:STEP; only --sample N needs none")
    shapes = [low.shape, high.shape]
    step, is_coarse = None, False
    if len(ends) == 3:
        step, shape = _step(kind, ends[2], low.operation)
        shapes.append(shape)
    shape = max(shapes, key=_SHAPES.index)
    if step is None:
        step = _FACTOR_STEP if low.operation == "x" else kind.finest
        if step is None:
            is_coarse = shape != "plain"
            step = (high.number - low.number) / _OPEN_STEPS if is_coarse else Fraction(1)
    if step <= 0:
        step = Fraction(1)  # a range of one value; a step of 0 was refused
    count = (high.number - low.number) // step + 1
    first = Amount(low.operation, low.number, shape)
    return Span(kind, first, high.number, step, int(count), is_coarse)


def _step(kind: Numbers, text: str, operation: str) -> tuple[Fraction, Shape]:
    """Return the step of a range; of factors it may be written as one."""
    shape: Shape = "plain"
    if operation == "x":
        number = text.removeprefix("x")
        if not _DECIMAL.fullmatch(number):
            raise ValueError(f"{text!r} is not a step between factors, such as 0.1")
        step = Fraction(number)
    else:
        step, shape = kind.read(text.removeprefix("+") if operation else text)
    if step <= 0:
        raise ValueError(f"{text!r} is no step: it leads nowhere")
    return step, shape
