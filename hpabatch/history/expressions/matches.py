"""Row expressions: LIKE and regular expressions."""

from __future__ import annotations

import re

import polars as pl

from hpabatch.history.expressions.types import BOOLEAN, Typed, as_string
from hpabatch.history.polars_errors import BROKEN
from hpabatch.model.expressions.tokens import ExpressionError
from hpabatch.model.expressions.tree import Match

MAX_PATTERN = 1000
"""Characters of a pattern."""

# The syntax of Rust's regex crate, whose time is linear in the string's length.
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&\-~]")


def match(node: Match, operand: Typed) -> Typed:
    """Return whether a string matches a pattern.

    Raises:
        ExpressionError: the operand is no string, or the pattern is none.
    """
    string = as_string(operand)
    if node.operator in ("LIKE", "ILIKE"):
        expr = _like(string.expr, node)
    else:
        flags = "(?i)" if node.operator == "~*" else ""
        expr = string.expr.str.contains(checked_pattern(flags + node.pattern, node.pattern_at))
    if node.negated:
        expr = expr.not_()
    return Typed.of(operand.at, BOOLEAN, expr, string).deeper(int(node.negated))


def checked_pattern(pattern: str, at: int) -> str:
    """Return a regular expression that can be compiled.

    Raises:
        ExpressionError: it cannot be, or is too large.
    """
    if (fault := pattern_fault(pattern)) is not None:
        raise ExpressionError(fault, at)
    return pattern


def pattern_fault(pattern: str) -> str | None:
    """Return why a regular expression cannot be compiled, None if it can."""
    if len(pattern) > MAX_PATTERN:
        return f"expected a pattern of at most {MAX_PATTERN} characters, got {len(pattern):,}"
    try:
        pl.Series([""]).str.contains(pattern)
    except BROKEN as error:
        return f"expected a regular expression, got {_reason(error)}"
    return None


def _reason(error: BaseException) -> str:
    """Return the sentence of a regex error, which stands after a drawing of the pattern."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = [line for line in lines if line.startswith("error:")]
    told = found[0].removeprefix("error:") if found else lines[0] if lines else "an error"
    return told.removeprefix("regex error:").strip()[:200]


def is_plain(node: Match) -> bool:
    """Whether a LIKE needs no regular expression: `%` stands at its ends alone."""
    inner = node.pattern.strip("%")
    return node.operator == "LIKE" and "%" not in inner and "_" not in inner


def _like(string: pl.Expr, node: Match) -> pl.Expr:
    """Return a LIKE: `%` is any characters, `_` is one, everything else stands for itself."""
    pattern = node.pattern
    inner = pattern.strip("%")
    if is_plain(node):
        starts, ends = pattern.endswith("%"), pattern.startswith("%")
        if not inner:
            return string.str.starts_with("") if pattern else string == ""
        if starts and ends:
            return string.str.contains(inner, literal=True)
        if starts:
            return string.str.starts_with(inner)
        return string.str.ends_with(inner) if ends else string == inner
    flags = "(?is)" if node.operator == "ILIKE" else "(?s)"
    wild = {"%": ".*", "_": "."}
    body = "".join(wild.get(letter) or _SPECIAL.sub(r"\\\g<0>", letter) for letter in pattern)
    return string.str.contains(checked_pattern(f"{flags}^{body}$", node.pattern_at))
