"""Row expressions on the columns of a frame: compiled to Polars, with their types checked.

`model.expressions.parser` is the parser. A compiled expression is bounded in size and depth, so
that Polars, which plans recursively, neither overflows its stack nor takes long; operators of any
number of operands become balanced trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import polars as pl

from hpabatch.history.expressions.calls import CALLS
from hpabatch.history.expressions.matches import is_plain, match
from hpabatch.history.expressions.types import (
    BOOLEAN,
    CASTS,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    NUMBERS,
    TEXT,
    TIMES,
    Typed,
    as_boolean,
    as_number,
    as_text,
    balanced,
    comparable,
    of_column,
    of_literal,
    united,
)
from hpabatch.model.expressions.parser import parse_expression
from hpabatch.model.expressions.tokens import ExpressionError, shown
from hpabatch.model.expressions.tree import (
    Between,
    Call,
    Case,
    Cast,
    Chain,
    Comparison,
    In,
    Is,
    Literal,
    Many,
    Match,
    Name,
    Node,
    Unary,
    bottom_up,
    children,
)
from hpabatch.model.suggestions import did_you_mean

MAX_SIZE = 100_000
"""Nodes of a compiled expression."""
MAX_COMPILED_DEPTH = 400
"""Levels of a compiled expression; Polars overflows its stack at about ten times as many."""
MAX_GROWTH = 100
"""Length of a string at most, in lengths of the longest column of its row."""
MAX_ADDED = 100_000
"""Bytes that a string may have beyond that."""
MAX_PATTERNS = 100
"""Regular expressions in one expression: compiling one may take 10 MB and 0.1 s."""

Schema = Mapping[str, pl.DataType]


def compile_expression(text: str, schema: Schema) -> pl.Expr:
    """Return an expression that gives each row one value.

    Args:
        text: the expression.
        schema: names and types of the columns that it may use.

    Raises:
        ExpressionError: it is no expression on these columns; the message names the position.
    """
    return _compiled(text, schema).expr


def compile_condition(text: str, schema: Schema) -> pl.Expr:
    """Return a condition, as `compile_expression`.

    Raises:
        ExpressionError: as `compile_expression`, or it is not TRUE or FALSE but something else.
    """
    found = _compiled(text, schema)
    if found.kind != BOOLEAN:
        raise ExpressionError(
            f"expected a condition, got a value of type {found.kind} that begins", found.at
        )
    return found.expr


def _compiled(text: str, schema: Schema) -> Typed:
    """Compile operands before what is made of them, without recursion."""
    tree = parse_expression(text)
    compiler = _Compiler(schema)
    done: list[Typed] = []
    for node in bottom_up(tree):
        count = len(children(node))
        parts = done[len(done) - count :]
        del done[len(done) - count :]
        done.append(_checked(compiler.build(node, parts)))
    return done[0]


def _checked(found: Typed) -> Typed:
    """Refuse what has become too large (ExpressionError)."""
    if found.depth > MAX_COMPILED_DEPTH:
        what = f"{MAX_COMPILED_DEPTH} operators or branches of CASE in a chain"
        raise ExpressionError(f"expected at most {what}, got more", found.at)
    if found.size > MAX_SIZE:
        raise ExpressionError(f"expected at most {MAX_SIZE:,} operations, got more", found.at)
    if found.kind == TEXT and (found.grown > MAX_GROWTH or found.added > MAX_ADDED):
        raise ExpressionError(
            f"expected a string at most {MAX_GROWTH} times as long as the columns and "
            f"{MAX_ADDED:,} bytes more, got a longer one",
            found.at,
        )
    return found


class _Compiler:
    """Compiles nodes whose operands are compiled."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.lower = {name.lower(): name for name in schema}
        self.patterns = 0

    def build(self, node: Node, parts: list[Typed]) -> Typed:
        """Return a compiled node; `parts` are its compiled operands."""
        match node:
            case Literal():
                return of_literal(node)
            case Name():
                return self._column(node)
            case Many():
                return _many(node, parts)
            case Chain():
                return _chain(node, parts)
            case Unary():
                return _unary(node, parts[0])
            case Comparison():
                return _comparison(node.at, node.operator, *parts)
            case Is():
                return _is(node, parts[0])
            case In():
                return _in(node, parts)
            case Between():
                return _between(node, *parts)
            case Match():
                return self._match(node, parts[0])
            case Case():
                return _case(node, parts)
            case Cast():
                return _cast(node, parts[0])
            case Call():
                self._count_pattern(node.at if node.name.startswith("REGEXP") else 0)
                return CALLS[node.name](node, parts)

    def _column(self, node: Name) -> Typed:
        name = node.name
        if name not in self.schema and not node.quoted:
            name = self.lower.get(name.lower(), name)
        if name in self.schema:
            return of_column(node.at, name, self.schema[name])
        hint = did_you_mean(name, self.schema)
        if node.quoted and not hint:
            hint = "; a string stands in 'single quotes'"
        raise ExpressionError(f"unknown column {shown(name)}", node.at, hint)

    def _match(self, node: Match, operand: Typed) -> Typed:
        self._count_pattern(0 if is_plain(node) else node.pattern_at)
        return match(node, operand)

    def _count_pattern(self, at: int) -> None:
        self.patterns += at > 0
        if self.patterns > MAX_PATTERNS:
            raise ExpressionError(f"expected at most {MAX_PATTERNS} patterns, got more", at)


def _many(node: Many, parts: list[Typed]) -> Typed:
    if node.operator == "||":
        texts = [as_text(part) for part in parts]
        return Typed.of(
            node.at, TEXT, pl.concat_str([part.expr for part in texts]), *texts,
            grown=sum(part.grown for part in texts), added=sum(part.added for part in texts),
        )  # fmt: skip
    operands = [as_boolean(part, f"after {node.operator}") for part in parts]
    return balanced(node.at, node.operator, operands)


def _chain(node: Chain, parts: list[Typed]) -> Typed:
    found = as_number(parts[0])
    for (operator, _), part in zip(node.rest, parts[1:], strict=True):
        # At each step: Polars frees operands by recursion, so a long chain overflows the stack.
        found = _checked(_arithmetic(operator, found, as_number(part)))
    return found


def _arithmetic(operator: str, left: Typed, right: Typed) -> Typed:
    kind = DOUBLE if DOUBLE in (left.kind, right.kind) else INTEGER
    make = partial(Typed.of, left.at)
    match operator:
        case "+":
            return make(kind, left.expr + right.expr, left, right)
        case "-":
            return make(kind, left.expr - right.expr, left, right)
        case "*":
            return make(kind, left.expr * right.expr, left, right)
        case "/":
            return make(DOUBLE, left.expr / right.expr, left, right)
        case _:
            return CALLS["MOD"](Call(left.at, "MOD", ()), [left, right])


def _unary(node: Unary, operand: Typed) -> Typed:
    if node.operator == "NOT":
        condition = as_boolean(operand, "after NOT")
        return Typed.of(node.at, BOOLEAN, condition.expr.not_(), condition)
    number = as_number(operand)
    return Typed.of(node.at, number.kind, -number.expr, number)


def _comparison(at: int, operator: str, left: Typed, right: Typed) -> Typed:
    left, right = comparable(at, left, right)
    a, b = left.expr, right.expr
    match operator:
        case "=":
            found = a == b
        case "<>":
            found = a != b
        case "<":
            found = a < b
        case "<=":
            found = a <= b
        case ">":
            found = a > b
        case ">=":
            found = a >= b
        case "IS DISTINCT FROM":
            found = a.ne_missing(b)
        case _:
            found = a.eq_missing(b)
    return Typed.of(left.at, BOOLEAN, found, left, right)


def _is(node: Is, operand: Typed) -> Typed:
    if node.value is None:
        found = operand.expr.is_not_null() if node.negated else operand.expr.is_null()
    else:
        condition = as_boolean(operand, "before IS")
        wanted = pl.lit(node.value)
        compare = condition.expr.ne_missing if node.negated else condition.expr.eq_missing
        found = compare(wanted)
    return Typed.of(operand.at, BOOLEAN, found, operand)


def _in(node: In, parts: list[Typed]) -> Typed:
    operand = parts[0]
    found = [_comparison(other.at, "=", operand, other) for other in parts[1:]]
    if node.values:
        found.append(_among(operand, node))
    either = balanced(operand.at, "OR", found)
    return Typed.of(operand.at, BOOLEAN, either.expr.not_(), either) if node.negated else either


def _among(operand: Typed, node: In) -> Typed:
    """Return whether a value is one of the constants; with NULL among them it is never false."""
    values = [item for item in node.values if item.value is not None]
    if not values or operand.kind == NULL:
        return Typed.of(operand.at, BOOLEAN, pl.lit(None, dtype=pl.Boolean), operand)
    kinds: dict[str, Typed] = {}
    for item in values:
        kinds.setdefault(type(item.value).__name__, of_literal(item))
    for sample in kinds.values():
        comparable(sample.at, operand, sample)
    expr = operand.expr
    if operand.kind in NUMBERS or operand.kind == BOOLEAN:
        listed = pl.Series([float(item.value) for item in values], dtype=pl.Float64)  # type: ignore[arg-type]
        whole = operand.kind == INTEGER and all(type(item.value) is int for item in values)
        if whole:
            listed = pl.Series([item.value for item in values], dtype=pl.Int64)
        expr = expr.cast(listed.dtype)
    else:
        listed = pl.Series([item.value for item in values], dtype=pl.String)
    found = expr.is_in(listed.implode())
    if len(values) < len(node.values):
        found = pl.when(found).then(pl.lit(value=True))
    return Typed.of(operand.at, BOOLEAN, found, operand)


def _between(node: Between, operand: Typed, low: Typed, high: Typed) -> Typed:
    above, below = (">=", "<=") if not node.negated else ("<", ">")
    ends = [
        _comparison(operand.at, above, operand, low),
        _comparison(operand.at, below, operand, high),
    ]
    return balanced(operand.at, "OR" if node.negated else "AND", ends)


def _case(node: Case, parts: list[Typed]) -> Typed:
    waiting = list(parts)
    subject = waiting.pop(0) if node.operand is not None else None
    otherwise = waiting.pop() if node.otherwise is not None else None
    conditions, values = waiting[::2], waiting[1::2]
    if subject is not None:
        conditions = [_comparison(c.at, "=", subject, c) for c in conditions]
    else:
        conditions = [as_boolean(c, "after WHEN") for c in conditions]
    ends = [] if otherwise is None else [otherwise]
    kind, results = united(node.at, [*values, *ends])
    made = results[-1].expr if ends else pl.lit(None)
    for condition, value in zip(conditions[::-1], results[: len(values)][::-1], strict=True):
        made = pl.when(condition.expr).then(value.expr).otherwise(made)
    found = Typed.of(
        node.at, kind, made, *conditions, *values, *ends,
        grown=max(value.grown for value in [*values, *ends]),
        added=max(value.added for value in [*values, *ends]),
    )  # fmt: skip
    return replace(found, aware=any(result.aware for result in results)).deeper(len(values))


def _cast(node: Cast, operand: Typed) -> Typed:
    kind, dtype = CASTS[node.type]
    if node.type == "DECIMAL":
        dtype = pl.Decimal(
            *(node.arguments or (38, 9)), *((0,) if len(node.arguments) == 1 else ())
        )
    if operand.kind == NULL:
        return Typed.of(node.at, kind, pl.lit(None, dtype=dtype), operand)
    if kind == TEXT:
        return as_text(operand)
    if operand.kind == TEXT and kind in TIMES:
        return _parsed(node, kind, operand)
    return Typed.of(node.at, kind, operand.expr.cast(dtype, strict=node.strict), operand)


def _parsed(node: Cast, kind: str, text: Typed) -> Typed:
    """Return 2026-10-07 as a date; that, 2026-10-07 14:03 or 2026-10-07T14:03:00.5 as a time."""
    if kind == DATE:
        expr = text.expr.str.to_date("%Y-%m-%d", strict=node.strict)
    else:
        clock = text.expr.str.replace(r"^([0-9-]{10})$", "$1 00:00")
        seconds = clock.str.replace("^([0-9-]{10})[ T]([0-9:]{5})$", "$1 $2:00")
        plain = seconds.str.replace("T", " ", literal=True)
        expr = plain.str.to_datetime(
            "%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=node.strict, exact=True
        )
    return Typed.of(node.at, kind, expr, text).deeper(3)
