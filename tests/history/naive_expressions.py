"""Expressions computed one row at a time, of the tuples of `expression_trees`; needs no hpabatch.

None is NULL. NaN is equal to itself and larger than every other number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def computed(tree: tuple[Any, ...], row: Mapping[str, Any]) -> Any:
    """Return the value of a tree for a row."""
    match tree:
        case ("constant", value):
            return value
        case ("column", name):
            return row[name]
        case ("AND" | "OR" as kind, left, right):
            return _joined(kind == "OR", [computed(left, row), computed(right, row)])
        case ("case", when, then, other):
            return computed(then if computed(when, row) is True else other, row)
        case ("is", inner, wanted, negated):
            return (computed(inner, row) is wanted) != negated
        case ("call", "COALESCE", *arguments):
            return next((v for v in (computed(a, row) for a in arguments) if v is not None), None)
        case ("call", "GREATEST", *arguments):
            found = [v for v in (computed(a, row) for a in arguments) if v is not None]
            plain = [v for v in found if not _is_nan(v)]
            return max(plain) if plain else (found[0] if found else None)
        case ("in", inner, values, negated):
            equal = [_compared("=", computed(inner, row), value) for value in values]
            return _negated(_joined(True, equal), negated)
        case ("between", inner, low, high, negated):
            value = computed(inner, row)
            ends = [_compared(">=", value, computed(low, row)),
                    _compared("<=", value, computed(high, row))]  # fmt: skip
            return _negated(_joined(False, ends), negated)
        case ("IS DISTINCT FROM", left, right):
            one, other = computed(left, row), computed(right, row)
            if one is None or other is None:
                return one is not other
            return not _compared("=", one, other)
    values = [computed(part, row) for part in tree[1:] if isinstance(part, tuple)]
    return None if None in values else _of_values(tree, values)


def _of_values(tree: tuple[Any, ...], values: list[Any]) -> Any:
    match tree:
        case ("NOT", _):
            return not values[0]
        case ("minus", _):
            return -values[0]
        case ("call", "ABS", _):
            return abs(values[0])
        case ("call", "LENGTH", _):
            return len(values[0])
        case ("call", "UPPER", _):
            return values[0].upper()
        case ("join", _, _):
            return values[0] + values[1]
        case ("like", _, pattern, negated):
            return _is_like(values[0], pattern) != negated
        case ("+" | "-" | "*" | "/" | "%" as operator, _, _):
            return _arithmetic(operator, *values)
    return _compared(tree[0], *values)


def _arithmetic(operator: str, one: Any, other: Any) -> Any:
    whole = isinstance(one, int) and isinstance(other, int)
    if operator == "%" and whole:
        return math.fmod(one, other) if other else None
    one, other = (one, other) if whole and operator != "/" else (float(one), float(other))
    match operator:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
        case "%":
            if math.isinf(other) and not (math.isinf(one) or _is_nan(one)):
                return one
            return math.nan if not other or math.isinf(one) else math.fmod(one, other)
    if other:
        return one / other
    if not one or _is_nan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


def _negated(found: bool | None, negated: bool) -> bool | None:
    return None if found is None else found != negated


def _joined(either: bool, values: list[bool | None]) -> bool | None:
    if either in values:
        return either
    return None if None in values else not either


def _compared(operator: str, one: Any, other: Any) -> bool | None:
    if one is None or other is None:
        return None
    one, other = _order(one), _order(other)
    found = {
        "=": one == other, "<>": one != other, "<": one < other, "<=": one <= other,
        ">": one > other, ">=": one >= other,
    }  # fmt: skip
    return bool(found[operator])


def _order(value: Any) -> tuple[bool, Any]:
    return (True, 0) if _is_nan(value) else (False, value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_is_like(text[k:], pattern[1:]) for k in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _is_like(text[1:], pattern[1:])
