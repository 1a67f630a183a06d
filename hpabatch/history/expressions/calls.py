"""Row expressions: the functions of `model.expressions.functions`, compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import polars as pl

from hpabatch.history.expressions.matches import checked_pattern
from hpabatch.history.expressions.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    TIMES,
    Typed,
    as_double,
    as_number,
    as_string,
    as_text,
    comparable,
    united,
)
from hpabatch.model.expressions.tokens import ExpressionError
from hpabatch.model.expressions.tree import Call, Literal

Build: TypeAlias = Callable[[Call, Sequence[Typed]], Typed]

_MAX_DIGITS = 15
# What means something in a replacement: `\\1` is a group, `\\\\` a backslash, `$` itself.
_SPECIAL = re.compile(r"\$|\\([0-9]|\\)")
# Capitals of one letter may take this many times its bytes.
_CASE_GROWTH = 3
_TIME_OF_DAY = ("HOUR", "MINUTE", "SECOND")


def _number(compute: Callable[[pl.Expr], pl.Expr]) -> Build:
    """Return a function of one number that keeps its type."""

    def build(node: Call, parts: Sequence[Typed]) -> Typed:
        number = as_number(parts[0])
        return Typed.of(node.at, number.kind, compute(number.expr), number)

    return build


def _whole(compute: Callable[[pl.Expr], pl.Expr]) -> Build:
    """Return a function that makes numbers whole: whole ones stay."""

    def build(node: Call, parts: Sequence[Typed]) -> Typed:
        number = as_number(parts[0])
        if number.kind == INTEGER:
            return number
        return Typed.of(node.at, DOUBLE, compute(number.expr), number)

    return build


def _double(compute: Callable[[pl.Expr], pl.Expr]) -> Build:
    def build(node: Call, parts: Sequence[Typed]) -> Typed:
        number = as_double(parts[0])
        return Typed.of(node.at, DOUBLE, compute(number.expr), number)

    return build


def _string(compute: Callable[[pl.Expr], pl.Expr], growth: int = 1) -> Build:
    """Return a function of one string that gives one, at most `growth` times as long."""

    def build(node: Call, parts: Sequence[Typed]) -> Typed:
        text = as_string(parts[0])
        return Typed.of(
            node.at, TEXT, compute(text.expr), text,
            grown=text.grown * growth, added=text.added * growth,
        )  # fmt: skip

    return build


def _test(compute: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Build:
    def build(node: Call, parts: Sequence[Typed]) -> Typed:
        one, other = (as_string(part) for part in parts)
        return Typed.of(node.at, BOOLEAN, compute(one.expr, other.expr), one, other)

    return build


def _trimmed(compute: Callable[[pl.Expr, str | None], pl.Expr]) -> Build:
    def build(node: Call, parts: Sequence[Typed]) -> Typed:
        letters = _constant_text(node, 1) if len(parts) > 1 else None
        return _string(lambda text: compute(text, letters))(node, parts)

    return build


def _kept(text: Typed, node: Call, expr: pl.Expr, *parts: Typed) -> Typed:
    """Return a part of a string."""
    return Typed.of(node.at, TEXT, expr, text, *parts, grown=text.grown, added=text.added)


def _constant_text(node: Call, place: int) -> str:
    argument = node.arguments[place]
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise ExpressionError(
            f"expected a constant string as argument {place + 1} of {node.name}", argument.at
        )
    return argument.value


def _constant_whole(node: Call, place: int, least: int, most: int) -> int:
    argument = node.arguments[place]
    value = argument.value if isinstance(argument, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ExpressionError(
            f"expected a constant from {least} to {most} as argument {place + 1} of {node.name}",
            argument.at,
        )
    return value


def _integer(part: Typed) -> Typed:
    number = as_number(part)
    if number.kind != INTEGER:
        raise ExpressionError("expected a whole number, got a DOUBLE that begins", part.at,
                              "; write CAST(x AS BIGINT)")  # fmt: skip
    return number


def _coalesce(node: Call, parts: Sequence[Typed]) -> Typed:
    kind, values = united(node.at, parts)
    return _chosen(node, kind, pl.coalesce([value.expr for value in values]), values)


def _chosen(node: Call, kind: str, expr: pl.Expr, values: Sequence[Typed]) -> Typed:
    found = Typed.of(
        node.at, kind, expr, *values,
        grown=max(value.grown for value in values), added=max(value.added for value in values),
    )  # fmt: skip
    return replace(found, aware=any(value.aware for value in values))


def _extreme(compute: Callable[..., pl.Expr]) -> Build:
    def build(node: Call, parts: Sequence[Typed]) -> Typed:
        for part in parts[1:]:
            comparable(part.at, parts[0], part)
        kind, values = united(node.at, parts)
        return _chosen(node, kind, compute([value.expr for value in values]), values)

    return build


def _concat(node: Call, parts: Sequence[Typed]) -> Typed:
    texts = [as_text(part) for part in parts]
    return Typed.of(
        node.at, TEXT, pl.concat_str([text.expr for text in texts], ignore_nulls=True), *texts,
        grown=sum(text.grown for text in texts), added=sum(text.added for text in texts),
    )  # fmt: skip


def _nullif(node: Call, parts: Sequence[Typed]) -> Typed:
    one, other = parts
    left, right = comparable(node.at, one, other)
    expr = pl.when(left.expr == right.expr).then(pl.lit(None)).otherwise(one.expr)
    found = Typed.of(node.at, one.kind, expr, left, one, right, grown=one.grown, added=one.added)
    return replace(found, aware=one.aware).deeper(1)


def _mod(node: Call, parts: Sequence[Typed]) -> Typed:
    """Return the remainder with the sign of the first, as SQL has it; Polars' has the other's."""
    one, other = (as_number(part) for part in parts)
    kind = DOUBLE if DOUBLE in (one.kind, other.kind) else INTEGER
    expr = (one.expr.abs() % other.expr.abs()) * one.expr.sign()
    return Typed.of(node.at, kind, expr, one, one, other).deeper(2)


def _power(node: Call, parts: Sequence[Typed]) -> Typed:
    one, other = (as_double(part) for part in parts)
    return Typed.of(node.at, DOUBLE, one.expr.pow(other.expr), one, other)


def _round(node: Call, parts: Sequence[Typed]) -> Typed:
    digits = _constant_whole(node, 1, 0, _MAX_DIGITS) if len(parts) > 1 else 0
    return _whole(lambda number: number.round(digits, mode="half_to_even"))(node, parts[:1])


def _length(node: Call, parts: Sequence[Typed]) -> Typed:
    text = as_string(parts[0])
    return Typed.of(node.at, INTEGER, text.expr.str.len_chars().cast(pl.Int64), text).deeper(1)


def _left(node: Call, parts: Sequence[Typed]) -> Typed:
    text, count = as_string(parts[0]), _integer(parts[1])
    return _kept(text, node, text.expr.str.head(count.expr), count)


def _right(node: Call, parts: Sequence[Typed]) -> Typed:
    text, count = as_string(parts[0]), _integer(parts[1])
    return _kept(text, node, text.expr.str.tail(count.expr), count)


def _substr(node: Call, parts: Sequence[Typed]) -> Typed:
    """Return characters from a start, where characters before the first count, too."""
    text, start = as_string(parts[0]), _integer(parts[1])
    before = start.expr - 1
    offset = before.clip(lower_bound=0)
    if len(parts) == 2:
        return _kept(text, node, text.expr.str.slice(offset), start).deeper(2)
    length = _integer(parts[2])
    count = (length.expr + before.clip(upper_bound=0)).clip(lower_bound=0)
    return _kept(text, node, text.expr.str.slice(offset, count), start, start, length).deeper(3)


def _split_part(node: Call, parts: Sequence[Typed]) -> Typed:
    text, separator = as_string(parts[0]), _constant_text(node, 1)
    number = _constant_whole(node, 2, -1000, 1000)
    if not separator or number == 0:
        raise ExpressionError("expected a separator and a part from 1 or from -1", node.at)
    place = number - 1 if number > 0 else number
    part = text.expr.str.split(separator).list.get(place, null_on_oob=True).fill_null("")
    return _kept(text, node, pl.when(text.expr.is_not_null()).then(part), text).deeper(3)


def _replace(node: Call, parts: Sequence[Typed]) -> Typed:
    text, old, new = as_string(parts[0]), _constant_text(node, 1), _constant_text(node, 2)
    if not old:
        raise ExpressionError("expected a string to replace, got ''", node.arguments[1].at)
    growth = max(1, -(-len(new.encode(errors="replace")) // len(old.encode(errors="replace"))))
    return Typed.of(
        node.at, TEXT, text.expr.str.replace_all(old, new, literal=True), text,
        grown=text.grown * growth, added=text.added * growth,
    )  # fmt: skip


def _regexp_like(node: Call, parts: Sequence[Typed]) -> Typed:
    text, pattern = as_string(parts[0]), _constant_text(node, 1)
    flags = _constant_text(node, 2) if len(parts) > 2 else ""
    if set(flags) - set("imsx"):
        raise ExpressionError(f"expected flags among i, m, s and x, got {flags[:40]!r}",
                              node.arguments[2].at)  # fmt: skip
    if flags:
        pattern = f"(?{''.join(dict.fromkeys(flags))}){pattern}"
    checked = checked_pattern(pattern, node.arguments[1].at)
    return Typed.of(node.at, BOOLEAN, text.expr.str.contains(checked), text)


def _regexp_replace(node: Call, parts: Sequence[Typed]) -> Typed:
    text, pattern = as_string(parts[0]), _constant_text(node, 1)
    pattern = checked_pattern(pattern, node.arguments[1].at)
    new, groups = _with_groups(_constant_text(node, 2))
    return Typed.of(
        node.at, TEXT, text.expr.str.replace(pattern, new), text,
        grown=text.grown * (1 + groups),
        added=text.added * (1 + groups) + len(new.encode(errors="replace")),
    )  # fmt: skip


def _with_groups(new: str) -> tuple[str, int]:
    r"""Return a replacement as Polars writes it, and its number of groups: `\1` becomes `${1}`."""
    groups = 0

    def written(found: re.Match[str]) -> str:
        nonlocal groups
        if found[0] == "$":
            return "$$"
        if found[1] == "\\":
            return "\\"
        groups += 1
        return f"${{{found[1]}}}"

    return _SPECIAL.sub(written, new), groups


def _strpos(node: Call, parts: Sequence[Typed]) -> Typed:
    one, other = (as_string(part) for part in parts)
    found = one.expr.str.find(other.expr, literal=True).cast(pl.Int64) + 1
    return Typed.of(node.at, INTEGER, found.fill_null(0), one, other).deeper(3)


def _date_part(node: Call, parts: Sequence[Typed]) -> Typed:
    time, part = parts[1], _constant_text(node, 0)
    if time.kind == NULL:
        return Typed(node.at, INTEGER, pl.lit(None, dtype=pl.Int64))
    if time.kind not in TIMES or (time.kind == DATE and part in _TIME_OF_DAY):
        raise ExpressionError(f"expected a timestamp, got a value of type {time.kind} that begins",
                              time.at, "; write CAST(x AS TIMESTAMP)")  # fmt: skip
    if part == "EPOCH":
        epoch = time.expr.dt.timestamp("us") / 1e6
        return Typed.of(node.at, DOUBLE, epoch, time).deeper(1)
    return Typed.of(node.at, INTEGER, _PARTS[part](time.expr).cast(pl.Int64), time).deeper(2)


_PARTS: Final[dict[str, Callable[[pl.Expr], pl.Expr]]] = {
    "YEAR": lambda time: time.dt.year(),
    "QUARTER": lambda time: time.dt.quarter(),
    "MONTH": lambda time: time.dt.month(),
    "WEEK": lambda time: time.dt.week(),
    "DAY": lambda time: time.dt.day(),
    "DOY": lambda time: time.dt.ordinal_day(),
    "DOW": lambda time: time.dt.weekday() % 7,
    "ISODOW": lambda time: time.dt.weekday(),
    "HOUR": lambda time: time.dt.hour(),
    "MINUTE": lambda time: time.dt.minute(),
    "SECOND": lambda time: time.dt.second(),
}

CALLS: Final[dict[str, Build]] = {
    "ABS": _number(lambda number: number.abs()),
    "CEIL": _whole(lambda number: number.ceil()),
    "COALESCE": _coalesce,
    "CONCAT": _concat,
    "DATE_PART": _date_part,
    "ENDS_WITH": _test(lambda one, other: one.str.ends_with(other)),
    "EXP": _double(lambda number: number.exp()),
    "FLOOR": _whole(lambda number: number.floor()),
    "GREATEST": _extreme(pl.max_horizontal),
    "LEAST": _extreme(pl.min_horizontal),
    "LEFT": _left,
    "LENGTH": _length,
    "LN": _double(lambda number: number.log()),
    "LOG10": _double(lambda number: number.log10()),
    "LOG2": _double(lambda number: number.log(2)),
    "LOWER": _string(lambda text: text.str.to_lowercase(), _CASE_GROWTH),
    "LTRIM": _trimmed(lambda text, letters: text.str.strip_chars_start(letters)),
    "MOD": _mod,
    "NULLIF": _nullif,
    "POWER": _power,
    "REGEXP_LIKE": _regexp_like,
    "REGEXP_REPLACE": _regexp_replace,
    "REPLACE": _replace,
    "RIGHT": _right,
    "ROUND": _round,
    "RTRIM": _trimmed(lambda text, letters: text.str.strip_chars_end(letters)),
    "SIGN": _number(lambda number: number.sign()),
    "SPLIT_PART": _split_part,
    "SQRT": _double(lambda number: number.sqrt()),
    "STARTS_WITH": _test(lambda one, other: one.str.starts_with(other)),
    "STRPOS": _strpos,
    "SUBSTR": _substr,
    "TRIM": _trimmed(lambda text, letters: text.str.strip_chars(letters)),
    "TRUNC": _whole(lambda number: number.truncate()),
    "UPPER": _string(lambda text: text.str.to_uppercase(), _CASE_GROWTH),
}
