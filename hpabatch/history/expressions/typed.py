"""Row expressions: operands of a bounded size, their types, and conversions between these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, TypeAlias

import polars as pl

from hpabatch.history.expressions.tokens import ExpressionError
from hpabatch.history.polars_errors import BROKEN, first_line

MAX_SIZE: Final = 100_000
"""Nodes of the Polars expression."""
MAX_LEVELS: Final = 400
"""Levels of the Polars expression; Polars overflows its stack at about ten times as many."""
MAX_BYTES: Final = 100_000
"""Bytes of a string that is made."""
COLUMN_BYTES: Final = 1000
"""What a column counts in them."""

_PRINTED = 64  # letters of a number or a timestamp as a string

Value: TypeAlias = bool | int | float | str | date | datetime | None


@dataclass(slots=True)
class Operand:
    """A part of an expression that begins at the character `at`.

    `dtype` is None until it is asked for; `value` is that of a constant. `size` and `depth` are
    those of the Polars expression; a string has at most `length` bytes.
    """

    at: int
    expr: pl.Expr
    dtype: pl.DataType | None = None
    value: Value = None
    size: int = 1
    depth: int = 1
    length: int = _PRINTED


def made(
    at: int, expr: pl.Expr, *parts: Operand,
    dtype: pl.DataType | None = None, levels: int = 1, length: int | None = None,
) -> Operand:  # fmt: skip
    """Return what is made of parts, each named as often as the expression holds it.

    Raises:
        ExpressionError: it is too large for Polars, or may become too long a string.
    """
    size = levels + sum(part.size for part in parts)
    depth = levels + max((part.depth for part in parts), default=0)
    if length is None:
        length = max((part.length for part in parts), default=_PRINTED)
    limit = (
        f"{MAX_LEVELS} operators or branches of CASE in a chain" if depth > MAX_LEVELS
        else f"{MAX_SIZE:,} operations" if size > MAX_SIZE
        else f"{MAX_BYTES:,} bytes in a string ({COLUMN_BYTES:,} for a column)"
        if length > MAX_BYTES else ""
    )  # fmt: skip
    if limit:
        raise ExpressionError(f"expected at most {limit}, got more", at)
    return Operand(at, expr, dtype, None, size, depth, length)


def of_column(at: int, name: str, dtype: pl.DataType) -> Operand:
    """Return a column; one of categories is a string."""
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        expr = pl.col(name).cast(pl.String)
        return Operand(at, expr, pl.String(), depth=2, length=COLUMN_BYTES)
    return Operand(at, pl.col(name), dtype)


def of_constant(at: int, value: Value) -> Operand:
    """Return a constant; a timestamp is without a zone and in UTC."""
    dtypes: dict[type, pl.DataType] = {
        bool: pl.Boolean(), int: pl.Int64(), float: pl.Float64(), str: pl.String(),
        date: pl.Date(), datetime: pl.Datetime("us"),
    }  # fmt: skip
    dtype = dtypes.get(type(value), pl.Null())
    length = len(value.encode()) if isinstance(value, str) else _PRINTED
    expr = pl.lit(value, dtype=dtype if isinstance(value, datetime) else None)
    return Operand(at, expr, dtype, value, length=length)


def joined(operator: str, parts: Sequence[Operand]) -> Operand:
    """Return conditions joined by AND or OR, in a tree of the least depth."""
    left = list(parts)
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        level = [
            made(a.at, a.expr & b.expr if operator == "AND" else a.expr | b.expr, a, b,
                 dtype=pl.Boolean())
            for a, b in pairs
        ]  # fmt: skip
        left = level + left[len(level) * 2 :]
    return left[0]


def strung(at: int, parts: Sequence[Operand], *, ignore_nulls: bool = False) -> Operand:
    """Return values as strings in a row."""
    expr = pl.concat_str([part.expr.cast(pl.String) for part in parts], ignore_nulls=ignore_nulls)
    length = sum(part.length for part in parts)
    return made(at, expr, *parts, dtype=pl.String(), levels=2, length=length)


Schema: TypeAlias = Mapping[str, pl.DataType]
"""Columns of the rows, with their types."""


class Typed:
    """What operands are, of rows with some columns; None: with any columns."""

    def __init__(self, schema: Schema | None) -> None:
        """Know nothing of any operand yet."""
        self.schema = schema
        self.frame = pl.LazyFrame(schema=schema)

    def type_of(self, part: Operand) -> pl.DataType:
        """Return the type that an operand has, of any columns that of NULL.

        Raises:
            ExpressionError: Polars computes nothing of operands of such types.
        """
        if self.schema is None:
            return pl.Null()
        if part.dtype is None:
            try:
                schema = self.frame.select(part.expr.alias("")).collect_schema()
            except BROKEN as error:
                raise ExpressionError(first_line(error), part.at) from None
            part.dtype = schema[""]
        return part.dtype

    def number(self, part: Operand) -> Operand:
        """Return an operand of arithmetic: Int64 or Float64; TRUE is 1."""
        dtype = self.type_of(part)
        if dtype == pl.Null():
            return made(part.at, pl.lit(None, dtype=pl.Int64), part, dtype=pl.Int64())
        if not dtype.is_numeric() and dtype != pl.Boolean():
            remedy = "; write CAST(x AS DOUBLE)" if dtype == pl.String() else ""
            if dtype.is_temporal():
                remedy = "; EXTRACT(EPOCH FROM x) gives seconds"
            raise unexpected("a number", part, remedy)
        whole = dtype.is_integer() or dtype == pl.Boolean()
        number = pl.Int64() if whole else pl.Float64()
        if dtype == number and part.value is None:  # (Polars takes a small constant as Int32)
            return part
        result = made(part.at, part.expr.cast(number), part, dtype=number)
        result.value = part.value
        return result

    def whole(self, part: Operand) -> Operand:
        """Return a whole number (ExpressionError: it has a fraction)."""
        part = self.number(part)
        if part.dtype != pl.Int64():
            problem = "expected a whole number, got one with a fraction that begins"
            raise ExpressionError(problem, part.at, "; write CAST(x AS BIGINT)")
        return part

    def string(self, part: Operand) -> Operand:
        """Return a string (ExpressionError: it is none)."""
        dtype = self.type_of(part)
        if dtype == pl.Null():
            return made(part.at, part.expr.cast(pl.String), part, dtype=pl.String())
        if dtype != pl.String():
            raise unexpected("a string", part, "; write CAST(x AS TEXT)")
        return part

    def condition(self, part: Operand, place: str) -> Operand:
        """Return a condition; `place` says for messages where it stands."""
        dtype = self.type_of(part)
        if dtype == pl.Null():
            return made(part.at, pl.lit(None, dtype=pl.Boolean), part, dtype=pl.Boolean())
        if dtype != pl.Boolean():
            raise unexpected(f"a condition {place}", part)
        return part

    def compared(
        self, at: int, compare: Callable[[pl.Expr, pl.Expr], pl.Expr], left: Operand, right: Operand
    ) -> Operand:
        """Return a comparison of values of one kind."""
        left, right = self.alike(at, "compare", [left, right])
        return made(left.at, compare(left.expr, right.expr), left, right, dtype=pl.Boolean())

    def alike(self, at: int, verb: str, parts: list[Operand]) -> list[Operand]:
        """Return values of one kind, aligned; a choice may be between numbers and strings."""
        kinds = [kind_of(self.type_of(part)) for part in parts]
        groups = {"a number" if kind == "a condition" else kind for kind in kinds} - {"NULL"}
        if len(groups) > 1 and (verb == "compare" or "a time" in groups):
            remedy = "; write CAST(x AS DOUBLE)" if groups == {"a string", "a number"} else ""
            if groups == {"a string", "a time"}:
                remedy = "; write TIMESTAMP '2026-10-07 14:03:00'"
            told = (" with " if verb == "compare" else " and ").join(
                dict.fromkeys(kind for kind in kinds if kind != "NULL")
            )
            raise ExpressionError(f"cannot {verb} {told}", at, remedy)
        return self.aligned(parts)

    def aligned(self, parts: list[Operand]) -> list[Operand]:
        """Return values of which some are timestamps with a time zone and some without, in UTC."""
        dtypes = [self.type_of(part) for part in parts]
        zones = {dtype.time_zone for dtype in dtypes if isinstance(dtype, pl.Datetime)}
        if None not in zones or len(zones) == 1:
            return parts
        return [
            made(part.at, part.expr.dt.convert_time_zone("UTC").dt.replace_time_zone(None), part,
                 dtype=pl.Datetime(dtype.time_unit), levels=2)
            if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None else part
            for part, dtype in zip(parts, dtypes, strict=True)
        ]  # fmt: skip


def kind_of(dtype: pl.DataType) -> str:
    """Return what a type is called in messages."""
    if dtype.is_numeric():
        return "a number"
    if isinstance(dtype, pl.Datetime):
        return "a time"
    names = {
        pl.Boolean(): "a condition", pl.String(): "a string", pl.Date(): "a time",
        pl.Null(): "NULL",
    }  # fmt: skip
    return names.get(dtype, "a list or another type")


def unexpected(what: str, part: Operand, remedy: str = "") -> ExpressionError:
    """Return the error of an operand of another type."""
    got = kind_of(pl.Null() if part.dtype is None else part.dtype)
    return ExpressionError(f"expected {what}, got {got} that begins", part.at, remedy)
