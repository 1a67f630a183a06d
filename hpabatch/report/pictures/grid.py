"""Two fields of a sweep's grid as the columns and rows of a heat map."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hpabatch.engine.advise.specs import Apply, Specs, settings_of
from hpabatch.engine.advise.unit import TODAY_ID, UnitBlocks
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import HpabatchError, UsageError
from hpabatch.model.objects.defaults import default_behavior
from hpabatch.model.objects.hpa import Behavior, HPASpec
from hpabatch.model.settings.fields import SPEC, find_field
from hpabatch.model.settings.setting import todays_number
from hpabatch.model.settings.values import AS_TODAY, Numbers
from hpabatch.model.suggestions import did_you_mean

MOST_VALUES: Final = 16
"""More values of a field are put together to ranges."""

_RANGES: Final = 12
_KEPT: Final = ("setting_id", "setting")


@dataclass(frozen=True, slots=True)
class Side:
    """A field as one side of a heat map.

    `names` are those of its cells in order, `cells` (S,) where each setting of the unit belongs,
    -1: nowhere; `today` where today's value is, None: it is not in the grid. `ranged`: a cell is a
    range of values.
    """

    field: str
    names: tuple[str, ...]
    cells: NDArray[np.int64]
    today: int | None = None
    ranged: bool = False


def grid_fields(result: SweepResult) -> list[str]:
    """Return the fields of a sweep's grid."""
    return [name for name in result.settings.columns if name not in _KEPT]


def parse_fields(result: SweepResult, text: str) -> tuple[str, str]:
    """Return the two fields of a text such as `target,scaleDown.window`.

    Raises:
        UsageError: they are not two, or no fields of this sweep; the message lists those.
    """
    known = grid_fields(result)
    told = f"the sweep's fields are {', '.join(known)}" if known else "the sweep has no fields"
    names = [part.strip() for part in text.split(",")]
    found = []
    for name in names:
        try:
            own = find_field(name)[0]
        except ValueError:
            own = name
        if own not in known:
            raise UsageError(
                f"--heatmap {text}: {name or 'nothing'} is no field of this sweep"
                f"{did_you_mean(name, known)} ({told})"
            )
        found.append(own)
    if len(found) != 2 or found[0] == found[1]:
        raise UsageError(
            f"--heatmap {text}: give two fields, such as target,scaleDown.window ({told})"
        )
    return found[0], found[1]


def sides_of(result: SweepResult, unit: UnitBlocks, fields: tuple[str, str]) -> tuple[Side, Side]:
    """Return the sides that two fields make of a unit's settings.

    A setting that leaves a field as today's is where the grid says `today`; where it says that of
    only one of them, or of none, today's setting itself is in no cell.

    Raises:
        UsageError: a field has too many values that are no numbers.
    """
    todays = Todays(result, unit)
    return _side(result, unit, fields[0], todays), _side(result, unit, fields[1], todays)


def _side(result: SweepResult, unit: UnitBlocks, field: str, todays: Todays) -> Side:
    texts = dict(result.settings.select("setting_id", field).iter_rows())
    own = [texts[k] for k in unit.settings.tolist()]
    values = [AS_TODAY if text is None else str(text) for text in own]
    # Today's setting has no values; only where others leave this field, too, is it a value of it.
    of_grid = {v for k, v in zip(unit.settings.tolist(), values, strict=True) if k != TODAY_ID}
    numbers = {value: _number(field, value) for value in of_grid}
    order = sorted(of_grid, key=lambda value: (*_rank(numbers[value], value), value))
    if len(order) > MOST_VALUES:
        return _ranged(field, values, numbers, todays)
    place = {value: k for k, value in enumerate(order)}
    cells = np.array([place.get(value, -1) for value in values], np.int64)
    same = [k for k, value in enumerate(order) if todays.has(field, value)]
    return Side(field, tuple(order), cells, same[0] if same else None)


def _ranged(
    field: str,
    values: Sequence[str],
    numbers: dict[str, tuple[str, Fraction] | None],
    todays: Todays,
) -> Side:
    """Put many numbers together to ranges of equal width."""
    known = {value: number for value, number in numbers.items() if number is not None}
    signs = {sign for sign, _ in known.values()}
    if len(known) < len(numbers) or len(signs) != 1:
        raise UsageError(
            f"--heatmap: {field} has {len(numbers)} values, which are not all numbers of one kind; "
            f"at most {MOST_VALUES} such can be drawn: take another field"
        )
    sign = signs.pop()
    least, most = (f(number for _, number in known.values()) for f in (min, max))
    step = _step(most - least)
    first = least // step
    count = max(-((first * step - most) // step), 1)

    def cell(number: Fraction) -> int:
        return int(min(number // step - first, count - 1))

    cells = [cell(known[value][1]) if value in known else -1 for value in values]
    edges = [float((first + k) * step) for k in range(int(count) + 1)]
    mark = "±" if sign == "+" else sign
    names = [f"{mark}{a:.6g}–{b:.6g}" for a, b in itertools.pairwise(edges)]
    now = todays.number(field, sign)
    today = None if now is None or not least <= now <= most else cell(now)
    return Side(field, tuple(names), np.array(cells, np.int64), today, ranged=True)


def _step(span: Fraction) -> Fraction:
    """Return a round width of ranges, of which there are then about ten."""
    tens = Fraction(10) ** math.floor(math.log10(span / _RANGES))
    return next(f * tens for f in _ROUND if f * tens * _RANGES >= span)


_ROUND: Final = tuple(Fraction(n, 2) for n in (2, 4, 10, 20))


def _number(field: str, value: str) -> tuple[str, Fraction] | None:
    """Return the operation and the number of a value, None if it is none."""
    kind = find_field(field)[1].kind
    if value == AS_TODAY or not isinstance(kind, Numbers):
        return None
    amount = kind.parse(value)
    return amount.operation, amount.number


def _rank(number: tuple[str, Fraction] | None, value: str) -> tuple[int, Fraction]:
    """Return what sorts values: absolute ones, factors, differences; then words, today first."""
    if number is None:
        return (-1, Fraction(0)) if value == AS_TODAY else (9, Fraction(_WORDS.get(value, 0)))
    operation, size = number
    return ("", "x", "+").index(operation), size


_WORDS: Final = {"gentle": -3, "default": -2, "fast": -1}  # from slow to quick


# ---- today's value ------------------------------------------------------------------------------


class Todays:
    """Today's values of the fields, where all HPAs of a unit have one and the same."""

    def __init__(self, result: SweepResult, unit: UnitBlocks) -> None:
        """Take what there is."""
        self.apply = settings_of(result)
        self.specs = Specs(result, self.apply)
        self.members = unit.members

    def has(self, field: str, value: str) -> bool:
        """Say whether a value of a field is today's."""
        kind = find_field(field)[1]
        if value == AS_TODAY:
            return True
        if isinstance(kind.kind, Numbers):
            amount = kind.kind.parse(value)
            return self.number(field, amount.operation) == amount.number
        if kind.where != SPEC:
            return False
        return all(_same(self.apply, self.specs.written(k), field, value) for k in self.members)

    def number(self, field: str, operation: str) -> Fraction | None:
        """Return today's number of a field; as a factor that is 1, as a difference 0."""
        if operation:
            return Fraction(1 if operation == "x" else 0)
        specs = [self.specs.written(key) for key in self.members]
        flags = self.specs.flags
        found = {todays_number(spec, field, each) for spec in specs for each in flags}
        return found.pop() if len(found) == 1 else None


def _same(apply: Apply, spec: HPASpec, field: str, value: str) -> bool:
    """Say whether a value leaves a spec as it is, with the defaults of behavior spelled out."""
    try:
        found, today = apply({field: value}, spec), apply({}, spec)
    except HpabatchError:
        return False
    return default_behavior(found.behavior or Behavior()) == default_behavior(
        today.behavior or Behavior()
    )
