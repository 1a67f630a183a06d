"""Conditions on HPAs and rows: evaluation, and errors in one sentence."""

from __future__ import annotations

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.history.checks import BROKEN, first_line
from hpabatch.history.expressions.parser import compile_condition
from hpabatch.history.expressions.tokens import ExpressionError
from hpabatch.history.expressions.typed import Schema


def condition_on(text: str, schema: Schema, told: str) -> pl.Expr:
    """Return a condition on HPAs; `told` is its name in messages: its place and source.

    Raises:
        UsageError: it is not a condition on these columns.
    """
    try:
        return compile_condition(text, schema)
    except ExpressionError as error:
        raise _no_condition(told, schema, str(error)) from None


def evaluate(frame: pl.DataFrame, expr: pl.Expr) -> pl.Series:
    """Return one value per row of a frame, also where an expression has no column.

    Raises:
        PolarsError: a value cannot be converted.
    """
    found = frame.select(expr.alias("found")).to_series()
    constant = len(found) == 1 and frame.height != 1
    return found.new_from_index(0, frame.height) if constant else found


def is_true(frame: pl.DataFrame, condition: pl.Expr, told: str) -> pl.Series:
    """Return for which rows of a frame a condition is true (Boolean without nulls).

    Raises:
        UsageError: a value cannot be converted; `told` is the condition's name in the message.
    """
    try:
        found = evaluate(frame, condition)
    except BROKEN as error:
        raise _no_condition(told, frame.schema, first_line(error)) from None
    return found.fill_null(value=False)


def _no_condition(told: str, schema: Schema, reason: str) -> UsageError:
    return UsageError(
        f"{told}: {reason}; give a condition on {', '.join(schema)}, such as "
        "\"namespace = 'shop' AND max_replicas > 5\""
    )


def quoted(text: str) -> str:
    """Return a condition for a message, in quotes; of a long one the beginning."""
    return repr(text if len(text) <= 200 else f"{text[:200]}…")
