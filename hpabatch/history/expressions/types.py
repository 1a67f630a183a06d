"""Row expressions: types of compiled operands, and their conversions to common types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

import polars as pl

from hpabatch.model.expressions.tokens import ExpressionError
from hpabatch.model.expressions.tree import Literal

INTEGER, DOUBLE, TEXT, BOOLEAN = "INTEGER", "DOUBLE", "TEXT", "BOOLEAN"
DATE, TIMESTAMP, NULL, OTHER = "DATE", "TIMESTAMP", "NULL", "OTHER"
NUMBERS: Final = (INTEGER, DOUBLE)
TIMES: Final = (DATE, TIMESTAMP)

# Letters of a number or a timestamp as a string.
_PRINTED = 64

CASTS: Final[dict[str, tuple[str, pl.DataType]]] = {
    "BIGINT": (INTEGER, pl.Int64()),
    "BOOLEAN": (BOOLEAN, pl.Boolean()),
    "DATE": (DATE, pl.Date()),
    "DECIMAL": (DOUBLE, pl.Decimal(38, 9)),
    "DOUBLE": (DOUBLE, pl.Float64()),
    "INTEGER": (INTEGER, pl.Int32()),
    "REAL": (DOUBLE, pl.Float32()),
    "SMALLINT": (INTEGER, pl.Int16()),
    "TEXT": (TEXT, pl.String()),
    "TIMESTAMP": (TIMESTAMP, pl.Datetime("us")),
    "TINYINT": (INTEGER, pl.Int8()),
}


@dataclass(frozen=True, slots=True)
class Typed:
    """A compiled operand.

    `at` is its position in the text. `aware`: a timestamp with a time zone. `size` and `depth` are
    those of the Polars expression. A string is at most `grown` times as long as the longest column
    of its row, and `added` bytes more.
    """

    at: int
    kind: str
    expr: pl.Expr
    size: int = 1
    depth: int = 1
    aware: bool = False
    grown: int = 0
    added: int = 0

    @staticmethod
    def of(
        at: int, kind: str, expr: pl.Expr, *parts: Typed, grown: int = 0, added: int = 0
    ) -> Typed:
        """Return what is made of parts; name a part as often as the expression holds it."""
        size = 1 + sum(part.size for part in parts)
        depth = 1 + max((part.depth for part in parts), default=0)
        return Typed(at, kind, expr, size, depth, grown=grown, added=added)

    def deeper(self, levels: int) -> Typed:
        """Return the same, so many levels deeper."""
        return replace(self, size=self.size + levels, depth=self.depth + levels)


def of_column(at: int, name: str, dtype: pl.DataType) -> Typed:
    """Return a column."""
    expr = pl.col(name)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return Typed(at, TEXT, expr.cast(pl.String), 2, 2, grown=1)
    if dtype == pl.String():
        return Typed(at, TEXT, expr, grown=1)
    if dtype.is_integer():
        return Typed(at, INTEGER, expr)
    if dtype.is_numeric():
        return Typed(at, DOUBLE, expr)
    if isinstance(dtype, pl.Datetime):
        return Typed(at, TIMESTAMP, expr, aware=dtype.time_zone is not None)
    kinds = {pl.Boolean(): BOOLEAN, pl.Date(): DATE, pl.Null(): NULL}
    return Typed(at, kinds.get(dtype, OTHER), expr)


def of_literal(node: Literal) -> Typed:
    """Return a constant."""
    match node.value:
        case None:
            return Typed(node.at, NULL, pl.lit(None))
        case bool():
            return Typed(node.at, BOOLEAN, pl.lit(node.value))
        case int():
            return Typed(node.at, INTEGER, pl.lit(node.value))
        case float():
            return Typed(node.at, DOUBLE, pl.lit(node.value))
        case str():
            size = len(node.value.encode(errors="surrogatepass"))
            return Typed(node.at, TEXT, pl.lit(node.value), added=size)
        case datetime():
            return Typed(node.at, TIMESTAMP, pl.lit(node.value, dtype=pl.Datetime("us")))
        case date():
            return Typed(node.at, DATE, pl.lit(node.value))


def as_number(found: Typed) -> Typed:
    """Return an operand of arithmetic: Int64 or Float64; TRUE is 1.

    Raises:
        ExpressionError: it is no number.
    """
    if found.kind == NULL:
        return Typed(found.at, INTEGER, pl.lit(None, dtype=pl.Int64))
    if found.kind == DOUBLE:
        return Typed.of(found.at, DOUBLE, found.expr.cast(pl.Float64), found)
    if found.kind in (INTEGER, BOOLEAN):
        return Typed.of(found.at, INTEGER, found.expr.cast(pl.Int64), found)
    remedy = "; write CAST(x AS DOUBLE)" if found.kind == TEXT else ""
    if found.kind in TIMES:
        remedy = "; EXTRACT(EPOCH FROM x) gives seconds"
    raise ExpressionError(f"expected a number, got a value of type {found.kind} that begins",
                          found.at, remedy)  # fmt: skip


def as_double(found: Typed) -> Typed:
    """Return a number as Float64.

    Raises:
        ExpressionError: it is no number.
    """
    number = as_number(found)
    return (
        number
        if number.kind == DOUBLE
        else Typed.of(found.at, DOUBLE, number.expr.cast(pl.Float64), number)
    )


def as_text(found: Typed) -> Typed:
    """Return any value as a string.

    Raises:
        ExpressionError: a list, a structure or bytes.
    """
    if found.kind == TEXT:
        return found
    if found.kind == OTHER:
        raise ExpressionError("expected a string, got a list or another type that begins", found.at)
    return Typed.of(found.at, TEXT, found.expr.cast(pl.String), found, added=_PRINTED)


def as_string(found: Typed) -> Typed:
    """Return an argument that must be a string already, or NULL.

    Raises:
        ExpressionError: another type.
    """
    if found.kind in (TEXT, NULL):
        return as_text(found)
    raise ExpressionError(
        f"expected a string, got a value of type {found.kind} that begins", found.at,
        "; write CAST(x AS TEXT)",
    )  # fmt: skip


def as_boolean(found: Typed, place: str) -> Typed:
    """Return a condition.

    Raises:
        ExpressionError: it is neither TRUE nor FALSE nor NULL.
    """
    if found.kind == BOOLEAN:
        return found
    if found.kind == NULL:
        return Typed(found.at, BOOLEAN, pl.lit(None, dtype=pl.Boolean))
    raise ExpressionError(
        f"expected a condition {place}, got a value of type {found.kind} that begins", found.at
    )


def comparable(at: int, left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Return two operands of a comparison: numbers, strings, conditions or times.

    A timestamp with a time zone and one without are compared in UTC.

    Raises:
        ExpressionError: they are of different types.
    """
    one, other = _group(left.kind), _group(right.kind)
    if one != other and NULL not in (one, other):
        remedy = "; write CAST(x AS DOUBLE)" if {one, other} == {"a string", "a number"} else ""
        if TIMES[1] in (left.kind, right.kind) and "a string" in (one, other):
            remedy = "; write TIMESTAMP '2026-10-07 14:03:00'"
        raise ExpressionError(f"cannot compare {one} with {other}", at, remedy)
    if TIMESTAMP in (left.kind, right.kind) and left.aware != right.aware:
        return _in_utc(left), _in_utc(right)
    return left, right


def _group(kind: str) -> str:
    """Return what a kind is called in messages; those of one name can be compared."""
    if kind in (*NUMBERS, BOOLEAN):
        return "a number"
    names = {TEXT: "a string", DATE: "a time", TIMESTAMP: "a time", NULL: NULL}
    return names.get(kind, "a list or another type")


def _in_utc(found: Typed) -> Typed:
    if not found.aware:
        return found
    naive = found.expr.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return replace(Typed.of(found.at, TIMESTAMP, naive, found), aware=False)


def united(at: int, parts: Sequence[Typed]) -> tuple[str, list[Typed]]:
    """Return the type of values of which one is taken, and the values as such.

    A string among them makes all of them strings; timestamps with and without a time zone are
    brought to UTC.

    Raises:
        ExpressionError: they have no type in common.
    """
    kinds = {part.kind for part in parts} - {NULL}
    if TEXT in kinds and len(kinds) > 1:
        return TEXT, [part if part.kind == NULL else as_text(part) for part in parts]
    if kinds <= set(NUMBERS) or kinds <= {BOOLEAN, INTEGER}:
        kind = DOUBLE if DOUBLE in kinds else INTEGER if INTEGER in kinds else BOOLEAN
        return kind if kinds else NULL, list(parts)
    if len(kinds) > 1:
        raise ExpressionError(f"expected values of one type, got {' and '.join(sorted(kinds))}", at)
    if len({part.aware for part in parts if part.kind != NULL}) > 1:
        return TIMESTAMP, [_in_utc(part) for part in parts]
    return next(iter(kinds)), list(parts)


def balanced(at: int, operator: str, parts: Iterable[Typed]) -> Typed:
    """Return conditions joined by AND or OR, in a tree of the least depth."""
    left = list(parts)
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        joined = [
            Typed.of(at, BOOLEAN, a.expr & b.expr if operator == "AND" else a.expr | b.expr, a, b)
            for a, b in pairs
        ]
        left = joined + left[len(joined) * 2 :]
    return left[0]
