"""SQL expressions of a map: only such that give each row a value of its own.

A table is read in pieces of whatever size, so an aggregate or a window would be one of the piece
and not of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import polars as pl

from hpabatch.errors import HistoryError

BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException)

_PROBED_ROWS = 8
_REMEDY = "it is not computed row by row: compute it in the table before the import"
# Nodes of polars' expressions that look at other rows; `_across_rows` finds them by name.
_ACROSS = frozenset(
    {"Agg", "Over", "Window", "Rolling", "Len", "Explode", "Gather", "Filter", "Slice", "Sort",
     "SortBy", "Shift", "Quantile", "Correlation", "Any", "All"}
)  # fmt: skip
# Names and values, and the functions on texts, lists and times (whose Slice is one of the text).
_LEAVES = frozenset({"Literal", "Column", "StringExpr", "ListExpr", "ArrayExpr", "TemporalExpr"})


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, its name if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def check_sql(text: str) -> tuple[str, ...]:
    """Return the columns that an SQL expression reads.

    Raises:
        ValueError: it is not an SQL expression, or not one that works row by row.
    """
    try:
        expression = pl.sql_expr(text)
        names = tuple(dict.fromkeys(expression.meta.root_names()))
        tree = json.loads(expression.meta.serialize(format="json"))
    except (*BROKEN, ValueError, RecursionError) as error:
        raise ValueError(f"{text!r} is not an SQL expression: {first_line(error)}") from None
    found = next(_across_rows(tree), None)
    if found is not None:
        raise ValueError(f"{text!r} looks at other rows (an aggregate or a window): {_REMEDY}")
    return names


def _across_rows(tree: object) -> Iterator[str]:
    """Yield the names of nodes that look at other rows; names in literals and columns are none."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str) and node in _ACROSS:
            yield node
        elif isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            yield from (name for name in node if name in _ACROSS)
            waiting += [item for name, item in node.items() if name not in _LEAVES]


def probe(rows: pl.DataFrame, expression: pl.Expr, told: str) -> None:
    """Refuse an expression that gives rows other values together than alone.

    Args:
        rows: of the table; a few of them are looked at.
        expression: computed from them.
        told: file, place in the map and expression, for the message.

    Raises:
        HistoryError: values or their number differ.
    """
    step = max(1, rows.height // _PROBED_ROWS)
    chosen = rows.gather_every(step).head(_PROBED_ROWS)
    together = chosen.select(expression.alias("found")).to_series()
    alone = [
        chosen[k : k + 1].select(expression.alias("found")).to_series()
        for k in range(chosen.height)
    ]
    constant = len(together) == 1 and not expression.meta.root_names()
    if constant or not alone:
        return
    if len(together) != chosen.height or any(len(one) != 1 for one in alone):
        raise HistoryError(f"{told} gives not one value per row: {_REMEDY}")
    if not together.equals(pl.concat(alone)):
        raise HistoryError(f"{told} looks at other rows: {_REMEDY}")
