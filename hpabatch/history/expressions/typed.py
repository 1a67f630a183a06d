"""Row expressions: operands of a bounded size, their types and conversions, and functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl

from hpabatch.history.checks import BROKEN, first_line
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


Schema: TypeAlias = Mapping[str, pl.DataType]
"""Columns of the rows, with their types."""


class Typed:
    """What operands are, of rows with some columns; None: with any columns."""

    def __init__(self, schema: Schema | None) -> None:
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

    def call(self, at: int, name: str, parts: list[Operand]) -> Operand:
        """Return the value of a function.

        Raises:
            ExpressionError: the arguments are too few, too many, of other types, or not constant.
        """
        function = FUNCTIONS[name]
        needed, _, optional = function.takes.partition("[")
        letters = "v" * len(parts) if needed == "*" else needed + optional
        if not parts or not len(needed) <= len(parts) <= len(letters):
            names = ", ".join(_ARGUMENTS.get(letter, "value, ...") for letter in needed)
            names += "".join(f"[, {_ARGUMENTS[letter]}]" for letter in optional)
            got = f"{len(parts)} argument{'' if len(parts) == 1 else 's'}"
            raise ExpressionError(f"expected {name}({names}), got {got}", at)
        convert = {"n": self.number, "i": self.whole, "s": self.string}
        parts = [
            convert[letter](part) if letter in convert else part
            for letter, part in zip(letters, parts, strict=False)
        ]
        if name in ("COALESCE", "GREATEST", "LEAST"):
            parts = self.alike(at, "choose between", parts)
        elif name != "NULLIF":
            parts = self.aligned(parts)
        if name == "CONCAT":
            return strung(at, parts, ignore_nulls=True)
        values: list[Any] = [part.expr for part in parts]
        for k, (letter, part) in enumerate(zip(letters, parts, strict=False)):
            if letter in _CONSTANTS:
                values[k] = part.value
                if type(part.value) is not _CONSTANTS[letter]:
                    what = "string" if letter == "q" else "number"
                    problem = f"expected a constant {what} as argument {k + 1} of {name}"
                    raise ExpressionError(problem, part.at)
        try:
            expr = function.compute(*values)
        except ValueError as error:
            raise ExpressionError(str(error), parts[1].at) from None
        if name == "NULLIF":
            equal = self.compared(at, pl.Expr.eq, *parts)
            expr = pl.when(equal.expr.not_().fill_null(value=True)).then(parts[0].expr)
        used = [*parts, *parts] if function.twice else parts
        length = function.length(parts[0].length, *values[1:]) if function.length else None
        return made(at, expr, *used, levels=2, length=length)


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


MAX_PATTERN: Final = 1000
"""Characters of a regular expression."""

TYPES: Final[dict[str, pl.DataType]] = {
    "BIGINT": pl.Int64(), "BOOLEAN": pl.Boolean(), "DATE": pl.Date(),
    "DECIMAL": pl.Decimal(38, 9), "DOUBLE": pl.Float64(), "INTEGER": pl.Int32(),
    "REAL": pl.Float32(), "SMALLINT": pl.Int16(), "TEXT": pl.String(),
    "TIMESTAMP": pl.Datetime("us"), "TINYINT": pl.Int8(),
}  # fmt: skip
TYPE_ALIASES: Final = {
    "BOOL": "BOOLEAN", "CHAR": "TEXT", "DATETIME": "TIMESTAMP", "FLOAT": "DOUBLE",
    "FLOAT4": "REAL", "FLOAT8": "DOUBLE", "INT": "INTEGER", "INT2": "SMALLINT", "INT4": "INTEGER",
    "INT8": "BIGINT", "INT64": "BIGINT", "NUMERIC": "DECIMAL", "STRING": "TEXT", "VARCHAR": "TEXT",
}  # fmt: skip
ALIASES: Final = {
    "CEILING": "CEIL", "CHAR_LENGTH": "LENGTH", "CHARACTER_LENGTH": "LENGTH", "IFNULL": "COALESCE",
    "POW": "POWER", "SUBSTRING": "SUBSTR", "TRUNCATE": "TRUNC",
}  # fmt: skip
PARTS: Final[dict[str, Callable[[pl.Expr], pl.Expr]]] = {
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
    "EPOCH": lambda time: time.dt.timestamp("us") / 1e6,
}
"""Parts of a date or timestamp for EXTRACT."""


class Function(NamedTuple):
    """A function of one row.

    `takes` has a letter per argument, the optional ones after `[`; `*` is any number. `compute`
    takes expressions, and constants (q: a string, k: a whole number) as they are; its ValueError
    is about a constant. `length` gives that of a string, from that of the first argument and the
    constants. `twice`: the expression holds arguments twice.
    """

    takes: str
    compute: Callable[..., pl.Expr]
    length: Callable[..., int] | None = None
    twice: bool = False


_CONSTANTS: Final[dict[str, type]] = {"q": str, "k": int}
_ARGUMENTS: Final = {
    "n": "number", "i": "whole number", "s": "string", "v": "value",
    "q": "'constant'", "k": "constant number",
}  # fmt: skip
_GROUP = re.compile(r"\$|\\([0-9]|\\)")


def checked(pattern: str) -> str:
    """Return a regular expression that can be compiled (ValueError: it cannot be)."""
    if len(pattern) > MAX_PATTERN:
        got = f"{len(pattern):,}"
        raise ValueError(f"expected a pattern of at most {MAX_PATTERN} characters, got {got}")
    try:
        pl.Series([""]).str.contains(pattern)
    except BROKEN as error:
        # The sentence stands after a drawing of the pattern.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["an error"]
        reason = next((line for line in lines if line.startswith("error:")), lines[0])
        reason = reason.removeprefix("error:").strip().removeprefix("regex error:").strip()
        raise ValueError(f"expected a regular expression, got {reason[:200]}") from None
    return pattern


def _regexp_like(value: pl.Expr, pattern: str, flags: str = "") -> pl.Expr:
    if set(flags) - set("imsx"):
        raise ValueError(f"expected flags among i, m, s and x, got {flags[:40]!r}")
    prefix = f"(?{''.join(dict.fromkeys(flags))})" if flags else ""
    return value.str.contains(checked(prefix + pattern))


def _regexp_replace(value: pl.Expr, pattern: str, new: str) -> pl.Expr:
    r"""Return the first match replaced, where `\1` is a group, which Polars writes `${1}`."""

    def written(part: re.Match[str]) -> str:
        if part[0] == "$":
            return "$$"
        return "\\" if part[1] == "\\" else f"${{{part[1]}}}"

    return value.str.replace(checked(pattern), _GROUP.sub(written, new))


def _replace(value: pl.Expr, old: str, new: str) -> pl.Expr:
    if not old:
        raise ValueError("expected a string to replace, got ''")
    return value.str.replace_all(old, new, literal=True)


def _split_part(value: pl.Expr, separator: str, place: int) -> pl.Expr:
    if not separator or not 0 < abs(place) <= 1000:
        raise ValueError("expected a separator and a part from 1 to 1000 or from -1 to -1000")
    part = value.str.split(separator).list.get(place - (place > 0), null_on_oob=True)
    return pl.when(value.is_not_null()).then(part.fill_null(""))


def _substr(value: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    """Return characters from a start, where characters before the first count, too."""
    before = start - 1
    if length is not None:
        length = (length + before.clip(upper_bound=0)).clip(lower_bound=0)
    return value.str.slice(before.clip(lower_bound=0), length)


def _round(value: pl.Expr, digits: int = 0) -> pl.Expr:
    if not 0 <= digits <= 15:
        raise ValueError("expected a constant from 0 to 15 as argument 2 of ROUND")
    return value.round(digits, mode="half_to_even")


def remainder(value: pl.Expr, by: pl.Expr) -> pl.Expr:
    """Return the remainder with the sign of the first, as SQL has it; Polars' has the other's."""
    return (value.abs() % by.abs()) * value.sign()


FUNCTIONS: Final[dict[str, Function]] = {
    "ABS": Function("n", lambda x: x.abs()),
    "CEIL": Function("n", lambda x: x.ceil()),
    "COALESCE": Function("*", lambda *x: pl.coalesce(*x)),
    "CONCAT": Function("*", lambda *x: pl.concat_str(*x)),
    "ENDS_WITH": Function("ss", lambda s, end: s.str.ends_with(end)),
    "EXP": Function("n", lambda x: x.exp()),
    "FLOOR": Function("n", lambda x: x.floor()),
    "GREATEST": Function("*", lambda *x: pl.max_horizontal(*x)),
    "LEAST": Function("*", lambda *x: pl.min_horizontal(*x)),
    "LEFT": Function("si", lambda s, n: s.str.head(n)),
    "LENGTH": Function("s", lambda s: s.str.len_chars().cast(pl.Int64)),
    "LN": Function("n", lambda x: x.log()),
    "LOG10": Function("n", lambda x: x.log10()),
    "LOG2": Function("n", lambda x: x.log(2)),
    "LOWER": Function("s", lambda s: s.str.to_lowercase()),
    "LTRIM": Function("s[q", lambda s, letters=None: s.str.strip_chars_start(letters)),
    "MOD": Function("nn", remainder, twice=True),
    "NULLIF": Function("vv", lambda x, y: x, twice=True),  # (`Typed.call` compares)
    "POWER": Function("nn", lambda x, y: x.cast(pl.Float64).pow(y.cast(pl.Float64))),
    "REGEXP_LIKE": Function("sq[q", _regexp_like),
    "REGEXP_REPLACE": Function("sqq", _regexp_replace, lambda length, _, new: (
        length * (1 + len(_GROUP.findall(new))) + len(new.encode()))),
    "REPLACE": Function("sqq", _replace, lambda length, old, new: (
        length * max(1, -(-len(new.encode()) // len(old.encode()))))),
    "RIGHT": Function("si", lambda s, n: s.str.tail(n)),
    "ROUND": Function("n[k", _round),
    "RTRIM": Function("s[q", lambda s, letters=None: s.str.strip_chars_end(letters)),
    "SIGN": Function("n", lambda x: x.sign()),
    "SPLIT_PART": Function("sqk", _split_part, twice=True),
    "SQRT": Function("n", lambda x: x.sqrt()),
    "STARTS_WITH": Function("ss", lambda s, start: s.str.starts_with(start)),
    "STRPOS": Function("ss", lambda s, part: (
        s.str.find(part, literal=True).cast(pl.Int64) + 1).fill_null(0)),
    "SUBSTR": Function("si[i", _substr, twice=True),
    "TRIM": Function("s", lambda s: s.str.strip_chars()),
    "TRUNC": Function("n", lambda x: x.truncate()),
    "UPPER": Function("s", lambda s: s.str.to_uppercase()),
}  # fmt: skip
SYNTAX: Final = ("CAST", "TRY_CAST", "EXTRACT", "DATE_PART", "IF")
"""Functions that the parser itself knows."""
