"""Row expressions: operands, which are Polars expressions of a bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, TypeAlias

import polars as pl

from hpabatch.history.expressions.tokens import ExpressionError

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
