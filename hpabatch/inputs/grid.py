"""Settings that a sweep tries: grids such as `target=50:85:5`, and policy set files.

All mistakes of all grids come in one message. The keys of policy set files are those of
`spec.behavior`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate, product
from pathlib import Path
from typing import Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Key, ListOf, MapOf, Record
from hpabatch.inputs.documents import MistakesError, Place, read_document, show
from hpabatch.model.objects.hpa import ScalingPolicy, ScalingRules
from hpabatch.model.objects.validate import MAX_PERIOD_S
from hpabatch.model.settings.fields import (
    DEFAULT,
    FIELDS,
    NAMED_TARGET,
    SHIPPED,
    Field,
    PolicySet,
    canonical_value,
    field_order,
    find_field,
)
from hpabatch.model.settings.setting import TODAY, Setting, made_setting
from hpabatch.model.settings.values import AS_TODAY, Amount, Numbers, Shape
from hpabatch.model.suggestions import did_you_mean

_SHAPES: Final[tuple[Shape, ...]] = ("plain", "decimal", "binary")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """A range: `count` amounts from `first` on, `step` apart."""

    kind: Numbers
    first: Amount
    step: Fraction
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, k: int) -> str:
        number = self.first.number + k * self.step
        return self.kind.text(Amount(self.first.operation, number, self.first.shape))


Values = tuple[str, ...] | Span
"""Values, each in the one way to write it."""


@dataclass(frozen=True)
class Axis:
    """A field and the values of it that a grid has, in the order they were given."""

    field: str
    items: tuple[Values, ...]

    @cached_property
    def _ends(self) -> list[int]:
        """The number of values up to the end of each item."""
        return list(accumulate(map(len, self.items)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[str]:
        return (item[k] for item in self.items for k in range(len(item)))

    def at(self, k: int) -> str:
        """Return the value at a place."""
        place = bisect_right(self._ends, k)
        return self.items[place][k - self._ends[place] + len(self.items[place])]

    def some(self, most: int) -> list[str]:
        """Return the distinct values; of too many the first and the last ones."""
        places: Sequence[int] = range(len(self))
        if len(self) > most:
            half = most // 2
            places = [*range(half), *range(len(self) - half, len(self))]
        return list(dict.fromkeys(self.at(k) for k in places))

    def bounds(self) -> tuple[int, int] | None:
        """Return the least and the largest value; None where one is no absolute whole number."""
        ends = [end for item in self.items for end in (item[0], item[len(item) - 1])]
        numbers = [int(end) for end in ends if end.isdigit()]
        return (min(numbers), max(numbers)) if len(numbers) == len(ends) else None


def read_items(
    field: Field, text: str, sets: Mapping[str, PolicySet]
) -> tuple[tuple[Values, ...], list[str]]:
    """Return the values and ranges of a list, and the mistakes of the others."""
    found: list[Values] = []
    problems: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        try:
            if not part:
                raise ValueError(f"expected {field.kind.wants}, got nothing")
            if ":" in part:
                found.append(_span(field, part))
            else:
                found.append((canonical_value(field, part, sets),))
        except ValueError as error:
            problems.append(str(error))
    return tuple(found), problems


def _span(field: Field, text: str) -> Span:
    """Return the range of `50:85:5`, whose end counts (ValueError: it is none)."""
    kind, ends = field.kind, text.split(":")
    if not isinstance(kind, Numbers):
        raise ValueError(f"{text!r} is a range, which there are of numbers only; list the values")
    if len(ends) != 3 or not all(ends):
        raise ValueError(f"{text!r} is not a range FROM:TO:STEP")
    low, high = kind.parse(ends[0]), kind.parse(ends[1])
    if low.operation != high.operation:
        raise ValueError(f"{text!r} begins and ends with different kinds of values")
    if low.number > high.number:
        raise ValueError(f"{text!r} is empty: {ends[0]} is above {ends[1]}")
    step, shape = _step(kind, ends[2], low.operation)
    shape = max((low.shape, high.shape, shape), key=_SHAPES.index)
    count = (high.number - low.number) // step + 1
    first = Amount(low.operation, low.number, shape)
    return Span(kind, first, step, int(count))


def _step(kind: Numbers, text: str, operation: str) -> tuple[Fraction, Shape]:
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


MAX_SETTINGS: Final = 100_000
_SHOWN_VALUES = 1000  # of an axis, where there are no settings to take them from
_SHOWN_TEXT = 200
_EXAMPLE = "--grid target=50:85:5"


class GridError(MistakesError):
    """Mistakes of grids and groups, each a sentence."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Settings to try. The first is TODAY, no two are equal; `fields` are in the fields' order.

    `values` by field are those that occur. `notes` are sentences for the user. With `mistakes`
    (sentences) there are no settings but TODAY; `grid_check.check_grid` then refuses it.
    """

    fields: tuple[str, ...]
    settings: tuple[Setting, ...]
    values: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()


def read_grids(grids: Sequence[str], sets: Mapping[str, PolicySet]) -> Grid:
    """Return the settings of all combinations of the grids' values.

    All mistakes of all grids are in `Grid.mistakes`.
    """
    axes: dict[str, Axis] = {}
    mistakes: list[str] = []
    for text in grids:
        axis, found = _read_axis(text, sets)
        told = text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]}…"
        mistakes += [f"--grid {told}: {problem}" for problem in dict.fromkeys(found)]
        if axis is not None and axis.field in axes:
            mistakes.append(f"--grid {text}: the field {axis.field} has another grid already")
        elif axis is not None:
            axes[axis.field] = axis
    chosen = [axes[name] for name in sorted(axes, key=field_order)]
    mistakes += _common_mistakes(grids, chosen)
    fields = tuple(axis.field for axis in chosen)
    if mistakes:
        values = tuple(tuple(axis.some(_SHOWN_VALUES)) for axis in chosen)
        return Grid(fields, (TODAY,), values, mistakes=tuple(mistakes))
    settings, notes = _settings(chosen)
    occurring: dict[str, dict[str, None]] = {field: {} for field in fields}
    for setting in settings:
        given = dict(setting.values)
        for field in fields:
            occurring[field][given.get(field, AS_TODAY)] = None
    return Grid(fields, settings, tuple(tuple(v) for v in occurring.values()), notes)


def _read_axis(text: str, sets: Mapping[str, PolicySet]) -> tuple[Axis | None, list[str]]:
    """Return the axis of a grid as far as it can be read, and its mistakes."""
    # A metric's own selector may have an = in it.
    name, equals, values = text.rpartition("=")
    name = name.strip()
    if not equals or not name:
        return None, [f"expected FIELD=VALUES, such as {_EXAMPLE.removeprefix('--grid ')}"]
    try:
        own, field = find_field(name)
    except ValueError as error:
        known = [f.name for f in FIELDS]
        hint = did_you_mean(name, [n for n in known if n != NAMED_TARGET])
        return None, [f"{error}{hint} (known: {', '.join(known)})"]
    items, problems = read_items(field, values, sets)
    return (Axis(own, items) if items else None), problems


def _common_mistakes(grids: Sequence[str], axes: Sequence[Axis]) -> Iterator[str]:
    """Yield the mistakes of the axes together."""
    if not grids:
        yield f"expected one or more grids, such as {_EXAMPLE}, got none"
    size = math.prod(len(axis) for axis in axes)
    if size > MAX_SETTINGS:
        parts = " x ".join(f"{len(axis):,} ({axis.field})" for axis in axes)
        yield (
            f"expected at most {MAX_SETTINGS:,} settings, got {parts} = {size:,}: use wider steps"
        )
    by_name = {axis.field: axis for axis in axes}
    if "min" in by_name and "max" in by_name:
        # Numbers only: of a value that is relative it is known for each HPA alone.
        low, high = by_name["min"].bounds(), by_name["max"].bounds()
        if low is not None and high is not None and low[0] > high[1]:
            told = f"from {low[0]} on) is above every max (up to {high[1]})"
            yield f"every min of the grid ({told}"


def _settings(axes: Sequence[Axis]) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """Return TODAY and the settings of a grid without mistakes, and what there is to note."""
    notes = []
    found: dict[Setting, None] = {TODAY: None}
    impossible = 0
    for values in product(*axes):
        given = dict(zip((axis.field for axis in axes), values, strict=True))
        if min_above_max(given):
            impossible += 1
        else:
            found[made_setting(given)] = None
    if impossible:
        notes.append(f"combinations left out because their min is above their max: {impossible:,}")
    return tuple(found), tuple(notes)


def min_above_max(values: Mapping[str, str]) -> bool:
    """Whether values of fields have a min above their max, whatever the HPA; numbers only."""
    low, high = values.get("min", ""), values.get("max", "")
    return low.isdigit() and high.isdigit() and int(low) > int(high)


WHAT: Final = "policy file"
_MAX_INT32 = 2**31 - 1
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?", re.ASCII)

POLICY: Final = Record(
    ScalingPolicy,
    "A policy",
    "At most `value` pods, or percent of them, are added (removed) in any `periodSeconds`.",
    (
        Key("type", kinds.word("Pods", "Percent"), "what `value` counts", field="type",
            required=True),
        Key("value", kinds.whole(1, _MAX_INT32), "how many", field="value", required=True),
        Key("periodSeconds", kinds.whole(1, MAX_PERIOD_S), "in how many seconds",
            field="period_seconds", required=True),
    ),
)  # fmt: skip

_POLICIES = ListOf(POLICY, "a list of policies, each after a dash", 100, only_lists=True)

DIRECTION: Final = Record(
    partial(ScalingRules, select_policy="Max"),
    "A direction",
    "The policies and which of them counts. Windows and tolerances are fields of a grid: "
    "`scaleDown.window`, `tolerance`.",
    (
        Key("selectPolicy", kinds.word("Max", "Min", "Disabled"), "which policy counts",
            field="select_policy", default="Max"),
        Key("policies", _POLICIES, "the policies", field="policies",
            default="those of the set `default`"),
    ),
    some=True,
)  # fmt: skip


def _shipped(direction: str) -> tuple[ScalingPolicy, ...] | None:
    rules = DEFAULT.rules(direction)
    return None if rules is None else rules.policies


SET: Final = Record(
    partial(PolicySet, ""),
    "A policy set",
    "",
    tuple(
        Key(
            name,
            replace(DIRECTION, of=partial(ScalingRules, select_policy="Max", policies=policies)),
            f"the rules for scaling {way}", field=field, default="as today",
        )
        for name, field, way, policies in (
            ("scaleUp", "scale_up", "up", _shipped("scaleUp")),
            ("scaleDown", "scale_down", "down", _shipped("scaleDown")),
        )
    ),
    some=True,
)  # fmt: skip


def _check_name(name: str) -> None:
    if name in SHIPPED or name == AS_TODAY:
        what = "comes with hpabatch" if name in SHIPPED else "means today's policies"
        raise ValueError(f"expected another name of a policy set, got {name}, which {what}")
    if not _NAME.fullmatch(name):
        raise ValueError(
            "expected a policy set's name of up to 63 lower-case letters, digits, - . _, got "
            f"{show(name)}"
        )


_SETS = MapOf(SET, "a mapping of names to policy sets", _check_name)


def read_policy_sets(path: Path | str) -> dict[str, PolicySet]:
    """Return the policy sets of a file by name; those that are shipped are not among them.

    Raises:
        UsageError: the file cannot be read; all mistakes in it with their lines and keys.
    """
    return policy_sets_of(read_document(path, WHAT))


def policy_sets_of(document: Place) -> dict[str, PolicySet]:
    """Return the policy sets of a document by name.

    Raises:
        MistakesError: all mistakes in it.
    """
    return {name: replace(found, name=name) for name, found in _SETS.read(document)}


def all_policy_sets(own: Mapping[str, PolicySet]) -> dict[str, PolicySet]:
    """Return the shipped sets and a file's own."""
    return {**SHIPPED, **own}
