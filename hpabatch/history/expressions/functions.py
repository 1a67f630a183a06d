"""Row expressions: the functions, types and parts of a timestamp that an expression may name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from hpabatch.history.expressions.tokens import ExpressionError
from hpabatch.history.expressions.typed import Operand, made, strung
from hpabatch.history.polars_errors import BROKEN

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


def call(at: int, name: str, parts: Sequence[Operand]) -> Operand:
    """Return the value of a function, whose arguments of numbers are converted already.

    Raises:
        ExpressionError: the arguments are too few, too many, or not constant.
    """
    function = FUNCTIONS[name]
    needed, _, optional = function.takes.partition("[")
    letters = "v" * len(parts) if needed == "*" else needed + optional
    if not parts or not len(needed) <= len(parts) <= len(letters):
        names = ", ".join(_ARGUMENTS.get(letter, "value, ...") for letter in needed)
        names += "".join(f"[, {_ARGUMENTS[letter]}]" for letter in optional)
        got = f"{len(parts)} argument{'' if len(parts) == 1 else 's'}"
        raise ExpressionError(f"expected {name}({names}), got {got}", at)
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
    used = [*parts, *parts] if function.twice else parts
    length = function.length(parts[0].length, *values[1:]) if function.length else None
    return made(at, expr, *used, levels=2, length=length)


def pattern_fault(pattern: str) -> str | None:
    """Return why a regular expression cannot be compiled, None if it can."""
    if len(pattern) > MAX_PATTERN:
        return f"expected a pattern of at most {MAX_PATTERN} characters, got {len(pattern):,}"
    try:
        pl.Series([""]).str.contains(pattern)
    except BROKEN as error:
        # The sentence stands after a drawing of the pattern.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["an error"]
        reason = next((line for line in lines if line.startswith("error:")), lines[0])
        reason = reason.removeprefix("error:").strip().removeprefix("regex error:").strip()
        return f"expected a regular expression, got {reason[:200]}"
    return None


def checked(pattern: str) -> str:
    """Return a regular expression that can be compiled (ValueError: it cannot be)."""
    if (fault := pattern_fault(pattern)) is not None:
        raise ValueError(fault)
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


def _regexp_length(length: int, _: str, new: str) -> int:
    return length * (1 + len(_GROUP.findall(new))) + len(new.encode())


def _replace(value: pl.Expr, old: str, new: str) -> pl.Expr:
    if not old:
        raise ValueError("expected a string to replace, got ''")
    return value.str.replace_all(old, new, literal=True)


def _replaced_length(length: int, old: str, new: str) -> int:
    return length * max(1, -(-len(new.encode()) // len(old.encode())))


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
    "NULLIF": Function("vv", lambda x, y: x, twice=True),  # (the parser compares)
    "POWER": Function("nn", lambda x, y: x.cast(pl.Float64).pow(y.cast(pl.Float64))),
    "REGEXP_LIKE": Function("sq[q", _regexp_like),
    "REGEXP_REPLACE": Function("sqq", _regexp_replace, _regexp_length),
    "REPLACE": Function("sqq", _replace, _replaced_length),
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
