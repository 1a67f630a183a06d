"""Row expressions: the parser of conditions and computed columns, which builds Polars expressions.

The grammar has no subquery, table, aggregate or window, so an expression reads the columns of its
own row and nothing else. docs/expressions.md describes it.

Polars' SQL is no substitute: it reads `a IS DISTINCT FROM b AND c` as `a IS DISTINCT FROM (b
AND c)`, casts no string column to a date, and takes over 20 s for 25 unclosed `CAST(LENGTH(`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import NoReturn

import polars as pl

from hpabatch.history.expressions.tokens import ExpressionError, Token, shown, tokens
from hpabatch.history.expressions.typed import (
    ALIASES,
    FUNCTIONS,
    PARTS,
    SYNTAX,
    TYPE_ALIASES,
    TYPES,
    Operand,
    Schema,
    Typed,
    Value,
    checked,
    joined,
    kind_of,
    made,
    of_column,
    of_constant,
    remainder,
    strung,
    unexpected,
)
from hpabatch.model.printable import counted
from hpabatch.model.suggestions import did_you_mean

MAX_VALUES = 200_000
"""Constants in all `IN` lists together."""
MAX_WORDS = 40_000
"""Names, constants, operators and calls, without the constants of `IN` lists."""
MAX_DEPTH = 40
"""Parentheses, calls and CASE inside of each other."""
MAX_PATTERNS = 100
"""Regular expressions in one expression: compiling one may take 10 MB."""

RESERVED = frozenset(
    {"AND", "BETWEEN", "CASE", "ELSE", "END", "EXISTS", "FALSE", "FROM", "ILIKE", "IN", "IS",
     "LIKE", "NOT", "NULL", "OR", "SELECT", "THEN", "TRUE", "WHEN", "WITH"}
)  # fmt: skip
"""Words that are columns only in double quotes."""

_SUBQUERY = frozenset({"SELECT", "EXISTS", "WITH", "FROM"})
_COMPARISONS: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": pl.Expr.eq, "==": pl.Expr.eq, "<>": pl.Expr.ne, "!=": pl.Expr.ne, "<": pl.Expr.lt,
    "<=": pl.Expr.le, ">": pl.Expr.gt, ">=": pl.Expr.ge, "<=>": pl.Expr.eq_missing,
}  # fmt: skip
# The operator without its negation, and whether it is negated.
_MATCHES = {
    "LIKE": ("LIKE", False), "ILIKE": ("ILIKE", False), "RLIKE": ("~", False),
    "REGEXP": ("~", False), "~": ("~", False), "~*": ("~*", False), "!~": ("~", True),
    "!~*": ("~*", True),
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "+": pl.Expr.add, "-": pl.Expr.sub, "*": pl.Expr.mul, "/": pl.Expr.truediv, "%": remainder,
}  # fmt: skip
_CONSTANTS: dict[str, bool | None] = {"NULL": None, "TRUE": True, "FALSE": False}
_NEGATABLE = ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP")
_ACROSS = frozenset(
    {"AVG", "COUNT", "FIRST", "LAG", "LAST", "LEAD", "MAX", "MEAN", "MEDIAN", "MIN", "ROW_NUMBER",
     "STDDEV", "SUM"}
)  # fmt: skip
# The syntax of Rust's regex crate, whose time is linear in the string's length.
_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in r"\.+*?()|[]{}^$#&-~"})
_WILD = str.maketrans({"%": ".*", "_": "."}) | _SPECIAL


def compile_expression(source: str, schema: Schema) -> pl.Expr:
    """Return an expression that gives each row one value.

    Args:
        source: the text of the expression.
        schema: names and types of the columns that it may use.

    Raises:
        ExpressionError: it is no expression on these columns; the message names the position.
    """
    return _parsed(source, tuple(schema.items()))[0].expr


def compile_condition(source: str, schema: Schema) -> pl.Expr:
    """Return a condition, as `compile_expression`.

    Raises:
        ExpressionError: as `compile_expression`, or it is not TRUE or FALSE but something else.
    """
    result = _parsed(source, tuple(schema.items()))[0]
    if result.dtype != pl.Boolean():
        raise unexpected("a condition", result)
    return result.expr


def columns(source: str) -> tuple[str, ...]:
    """Return the names of the columns that an expression reads, each once, as they are written.

    Raises:
        ExpressionError: it is no expression, whatever columns there are.
    """
    return _parsed(source, None)[1]


@lru_cache(maxsize=32)
def _parsed(
    source: str, schema: tuple[tuple[str, pl.DataType], ...] | None
) -> tuple[Operand, tuple[str, ...]]:
    """Return the compiled expression and its columns; without a schema, any may be there."""
    known = None if schema is None else dict(schema)
    parser = _Parser(source, known)
    result = parser.expression()
    parser.expect_end()
    parser.type_of(result)
    return result, tuple(parser.columns)


class _Parser(Typed):
    """A parser of one text: a method per level of precedence, the loosest first."""

    def __init__(self, source: str, schema: Schema | None) -> None:
        super().__init__(schema)
        self.source = tokens(source)
        self.ahead: deque[Token] = deque()
        self.lower = {name.lower(): name for name in schema or ()}
        self.columns: dict[str, None] = {}
        self.depth = self.words = self.values = self.patterns = 0

    def peek(self, places: int = 0) -> Token:
        """Return the next token, or one of those after it."""
        while len(self.ahead) <= places:
            ended = bool(self.ahead) and self.ahead[-1].kind == "end"
            self.ahead.append(self.ahead[-1] if ended else next(self.source))
        return self.ahead[places]

    def next(self) -> Token:
        """Take the next token; the end stays."""
        token = self.peek()
        self.words += 1
        if self.words > MAX_WORDS:
            limit = f"expected at most {MAX_WORDS:,} names, constants and operators, got more"
            self.fail(limit, token, "; write long lists with IN")
        if token.kind != "end":
            self.ahead.popleft()
        return token

    def took(self, word: str) -> bool:
        """Take the next token if it is this word or symbol; return whether it was."""
        if self.peek().word != word:
            return False
        self.next()
        return True

    def expect(self, word: str, name: str = "") -> None:
        """Take a required word or symbol; `name` is what messages call it."""
        if not self.took(word):
            self.fail(f"expected {name or word}, got {self.peek().show()}", self.peek())

    def fail(self, problem: str, token: Token, remedy: str = "") -> NoReturn:
        raise ExpressionError(problem, token.at, remedy)

    def expect_end(self) -> None:
        token = self.peek()
        if token.kind != "end":
            self.fail(f"expected an operator or the end, got {token.show()}", token)

    def expression(self) -> Operand:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"expected at most {MAX_DEPTH} levels of nesting, got more", self.peek())
        result = self._logical("OR", lambda: self._logical("AND", self._negation))
        self.depth -= 1
        return result

    def _logical(self, operator: str, operand: Callable[[], Operand]) -> Operand:
        parts = [operand()]
        while self.took(operator):
            parts.append(operand())
        if len(parts) == 1:
            return parts[0]
        return joined(operator, [self.condition(part, f"after {operator}") for part in parts])

    def _negation(self) -> Operand:
        negations: list[Token] = []
        while self.peek().word == "NOT":
            negations.append(self.next())
        result = self._predicate()
        for token in reversed(negations):
            condition = self.condition(result, "after NOT")
            result = made(token.at, condition.expr.not_(), condition, dtype=pl.Boolean())
        return result

    def _predicate(self) -> Operand:
        result = self._comparison()
        while self.took("IS"):
            negated = self.took("NOT")
            token = self.next()
            if token.word == "DISTINCT":
                self.expect("FROM")
                compare = pl.Expr.eq_missing if negated else pl.Expr.ne_missing
                result = self.compared(token.at, compare, result, self._sum())
                continue
            if token.word not in _CONSTANTS:
                self.fail(f"expected NULL, TRUE, FALSE or DISTINCT FROM, got {token.show()}", token)
            value = _CONSTANTS[token.word]
            if value is None:
                expr = result.expr.is_not_null() if negated else result.expr.is_null()
            else:
                condition = self.condition(result, "before IS").expr
                compare = pl.Expr.ne_missing if negated else pl.Expr.eq_missing
                expr = compare(condition, pl.lit(value))
            result = made(result.at, expr, result, dtype=pl.Boolean())
        self._expect_no_comparison(_COMPARISONS)
        return result

    def _comparison(self) -> Operand:
        left = self._sum()
        token = self.peek()
        negated = token.word == "NOT" and self.peek(1).word in _NEGATABLE
        if negated:
            self.next()
        word = self.peek().word
        if word in _COMPARISONS:
            self.next()
            result = self.compared(token.at, _COMPARISONS[word], left, self._sum())
        elif word == "IN":
            result = self._in(left)
        elif word == "BETWEEN":
            self.next()
            low = self.compared(left.at, pl.Expr.ge, left, self._sum())
            self.expect("AND")
            result = joined("AND", [low, self.compared(left.at, pl.Expr.le, left, self._sum())])
        elif word in _MATCHES:
            result = self._match(left)
        else:
            return left
        self._expect_no_comparison((*_COMPARISONS, *_MATCHES, "IN", "BETWEEN"))
        if negated:
            return made(left.at, result.expr.not_(), result, dtype=pl.Boolean())
        return result

    def _expect_no_comparison(self, words: object) -> None:
        token = self.peek()
        if token.word and token.word in words:  # type: ignore[operator]
            remedy = ": comparisons do not chain; put the first one in parentheses"
            self.fail(f"expected AND or OR, got {token.show()}", token, remedy)

    def _in(self, left: Operand) -> Operand:
        self.next()
        self.expect("(")
        values: list[tuple[int, Value]] = []
        others: list[Operand] = []
        while True:
            constant = self._listed()
            if constant is not None:
                values.append(constant)
                self.values += 1
                if self.values > MAX_VALUES:
                    self.fail(f"expected at most {MAX_VALUES:,} values after IN", self.peek())
            else:
                item = self.expression()
                others.append(self.compared(item.at, pl.Expr.eq, left, item))
            if self.peek().word != ",":
                break
            self.ahead.popleft()
        self.expect(")", "a comma or )")
        return joined("OR", [*others, *([self._among(left, values)] if values else [])])

    def _listed(self) -> tuple[int, Value] | None:
        """Take a constant of a list and its position; None where something else stands there.

        Constants are read without the levels of precedence: 100,000 of them take 0.3 s.
        """
        sign = self.peek().word == "-"
        token = self.peek(int(sign))
        if self.peek(1 + sign).word not in (",", ")"):
            return None
        if token.kind == "number":
            value: Value = -_number_of(token) if sign else _number_of(token)
        elif sign or (token.kind != "string" and token.word not in _CONSTANTS):
            return None
        else:
            value = token.unquoted() if token.kind == "string" else _CONSTANTS[token.word]
        for _ in range(1 + sign):
            self.ahead.popleft()
        return token.at, value

    def _match(self, left: Operand) -> Operand:
        token = self.next()
        operator, negated = _MATCHES[token.word]
        pattern = self.next()
        if pattern.kind != "string":
            self.fail(f"expected a pattern in quotes after {token.text}, got {pattern.show()}",
                      pattern)  # fmt: skip
        if self.peek().word == "ESCAPE":
            self.fail("expected AND, OR or the end, got ESCAPE", self.peek(), ": it is not known")
        value, like = self.string(left), pattern.unquoted()
        inner = like.strip("%")
        if operator == "LIKE" and "%" not in inner and "_" not in inner:
            expr = _plain_like(value.expr, like, inner)
        else:
            self._count_pattern(pattern)
            flags = {"LIKE": "(?s)^", "ILIKE": "(?is)^", "~": "", "~*": "(?i)"}[operator]
            regex = like if operator[0] == "~" else like.translate(_WILD) + "$"
            try:
                expr = value.expr.str.contains(checked(flags + regex))
            except ValueError as error:
                raise ExpressionError(str(error), pattern.at) from None
        expr = expr.not_() if negated else expr
        return made(left.at, expr, value, dtype=pl.Boolean(), levels=2)

    def _count_pattern(self, token: Token) -> None:
        self.patterns += 1
        if self.patterns > MAX_PATTERNS:
            self.fail(f"expected at most {MAX_PATTERNS} patterns, got more", token)

    def _sum(self) -> Operand:
        return self._chain(("+", "-"), lambda: self._chain(("*", "/", "%"), self._signed))

    def _chain(self, operators: tuple[str, ...], operand: Callable[[], Operand]) -> Operand:
        result = operand()
        while self.peek().word in operators:
            operator = self.next().word
            if operator == self.peek().word == "/":
                self.fail("expected a value, got '/'", self.peek(), "; write TRUNC(a / b)")
            left, right = self.number(result), self.number(operand())
            floating = operator == "/" or pl.Float64() in (left.dtype, right.dtype)
            dtype = pl.Float64() if floating else pl.Int64()
            parts = [left, left, right] if operator == "%" else [left, right]
            expr = _ARITHMETIC[operator](left.expr, right.expr)
            result = made(left.at, expr, *parts, dtype=dtype, levels=3 if operator == "%" else 1)
        return result

    def _signed(self) -> Operand:
        signs: list[Token] = []
        while self.peek().word in ("-", "+"):
            signs.append(self.next())
        parts = [self._converted()]
        while self.took("||"):
            parts.append(self._converted())
        result = parts[0]
        if len(parts) > 1:
            result = strung(result.at, parts)
        for token in reversed(signs):
            if type(result.value) in (int, float):
                value = result.value if token.word == "+" else -result.value  # type: ignore[operator]
                result = of_constant(token.at, value)
            elif token.word == "-":
                part = self.number(result)
                result = made(token.at, -part.expr, part, dtype=part.dtype)
        return result

    def _converted(self) -> Operand:
        result = self._primary()
        while self.took("::"):
            result = self._cast(result, self._type(), strict=True)
        return result

    def _primary(self) -> Operand:
        token = self.next()
        match token.kind:
            case "string":
                return of_constant(token.at, token.unquoted())
            case "number":
                return of_constant(token.at, _number_of(token))
            case "quoted":
                return self._column(token, token.unquoted())
            case "word":
                return self._word(token)
        if token.word != "(":
            self.fail(f"expected a value, got {token.show()}", token)
        result = self.expression()
        self.expect(")", "an operator or )")
        return result

    def _word(self, token: Token) -> Operand:
        if token.word in _CONSTANTS:
            return of_constant(token.at, _CONSTANTS[token.word])
        if token.word == "CASE":
            return self._case(token)
        if token.word in RESERVED:
            remedy = f'; write "{token.text}" if it is a column'
            if token.word in _SUBQUERY:
                remedy = ": subqueries and tables are not possible"
            self.fail(f"expected a value, got {token.show()}", token, remedy)
        if token.word in ("DATE", "TIMESTAMP") and self.peek().kind == "string":
            return of_constant(token.at, _moment_of(token, self.next()))
        if self.peek().word == "(":
            return self._call(token)
        return self._column(token, token.text)

    def _column(self, token: Token, name: str) -> Operand:
        self.columns[name] = None
        if self.schema is None:
            return of_column(token.at, name, pl.Null())
        if name not in self.schema and token.kind == "word":
            name = self.lower.get(name.lower(), name)
        if name not in self.schema:
            hint = did_you_mean(name, self.schema)
            if token.kind == "quoted" and not hint:
                hint = "; a string stands in 'single quotes'"
            self.fail(f"unknown column {shown(name)}", token, hint)
        result = of_column(token.at, name, self.schema[name])
        is_alone = self.words == 1 and self.peek().kind == "end"
        if self.schema[name].is_nested() and not is_alone and self.peek().word != "IS":
            raise unexpected("a column of numbers, strings or times", result)
        return result

    def _case(self, token: Token) -> Operand:
        subject = None if self.peek().word == "WHEN" else self.expression()
        conditions: list[Operand] = []
        values: list[Operand] = []
        while self.took("WHEN"):
            when = self.expression()
            if subject is not None:
                when = self.compared(when.at, pl.Expr.eq, subject, when)
            conditions.append(self.condition(when, "after WHEN"))
            self.expect("THEN")
            values.append(self.expression())
        otherwise = values and self.took("ELSE")
        values.append(self.expression() if otherwise else of_constant(token.at, None))
        self.expect("END" if conditions else "WHEN")
        return _choice(token.at, conditions, self.alike(token.at, "choose between", values))

    def _call(self, token: Token) -> Operand:
        name = ALIASES.get(token.word, token.word)
        if name not in FUNCTIONS and name not in SYNTAX:
            known = [*FUNCTIONS, *ALIASES, *SYNTAX, *self.lower.values()]
            hint = did_you_mean(token.text, known)
            if token.text.lower() in self.lower:
                hint = ": it is a column; write an operator such as IN before ("
            if name in _ACROSS:
                hint = ": it looks at other rows; LEAST and GREATEST compare values of one row"
            self.fail(f"unknown function {token.show()}", token,
                      hint or "; docs/expressions.md lists the functions")  # fmt: skip
        self.expect("(")
        if name in ("CAST", "TRY_CAST"):
            operand = self.expression()
            self.expect("AS")
            result = self._cast(operand, self._type(), strict=name == "CAST")
        elif name in ("EXTRACT", "DATE_PART"):
            word = self.next()
            said = word.unquoted() if word.kind == "string" else word.text
            part = said.upper() if said.isascii() else ""
            if part not in PARTS:
                got = f", got {shown(said)}" if said else ""
                hint = did_you_mean(said, PARTS)
                self.fail(f"expected one of {', '.join(PARTS)}{got}", word, hint)
            self.expect("FROM" if name == "EXTRACT" else ",")
            time = self.expression()
            dtype = self.type_of(time)
            clock = part in ("HOUR", "MINUTE", "SECOND")
            if kind_of(dtype) not in ("a time", "NULL") or (clock and dtype == pl.Date()):
                raise unexpected("a timestamp", time, "; write CAST(x AS TIMESTAMP)")
            expr = pl.lit(None) if dtype == pl.Null() else PARTS[part](time.expr)
            expr = expr if part == "EPOCH" else expr.cast(pl.Int64)
            result = made(token.at, expr, time, levels=3)
        else:
            arguments: list[Operand] = []
            while self.peek().word != ")" and (not arguments or self.took(",")):
                arguments.append(self.expression())
            if name == "IF":
                if len(arguments) != 3:
                    usage = "IF(condition, value, value)"
                    self.fail(f"expected {usage}, got {counted(len(arguments), 'argument')}", token)
                values = self.alike(token.at, "choose between", arguments[1:])
                result = _choice(token.at, [self.condition(arguments[0], "of IF")], values)
            else:
                if name.startswith("REGEXP"):
                    self._count_pattern(token)
                result = self.call(token.at, name, arguments)
        self.expect(")", "a comma, an operator or )")
        return result

    def _type(self) -> pl.DataType:
        token = self.next()
        name = TYPE_ALIASES.get(token.word, token.word)
        if name not in TYPES:
            hint = did_you_mean(token.word, [*TYPES, *TYPE_ALIASES])
            self.fail(f"expected a type ({', '.join(TYPES)}), got {token.show()}", token, hint)
        if token.word == "DOUBLE":
            self.took("PRECISION")
        dtype = TYPES[name]
        if name == "DECIMAL" and self.took("("):
            precision = self._small("precision", 1, 38)
            scale = self._small("scale", 0, precision) if self.took(",") else 0
            self.expect(")")
            dtype = pl.Decimal(precision, scale)
        return dtype

    def _small(self, what: str, least: int, most: int) -> int:
        token = self.next()
        value = _number_of(token) if token.kind == "number" else None
        if not isinstance(value, int) or not least <= value <= most:
            self.fail(f"expected a {what} from {least} to {most}, got {token.show()}", token)
        return value

    def _among(self, operand: Operand, values: list[tuple[int, Value]]) -> Operand:
        """Return whether a value is one of constants; with NULL among them it is never false."""
        known = [(at, value) for at, value in values if value is not None]
        dtype = self.type_of(operand)
        if not known or dtype == pl.Null():
            return made(operand.at, pl.lit(None, dtype=pl.Boolean), operand, dtype=pl.Boolean())
        for at, value in {type(value): (at, value) for at, value in reversed(known)}.values():
            self.compared(at, pl.Expr.eq, operand, of_constant(at, value))
        expr = operand.expr
        if dtype != pl.String():
            whole = dtype.is_integer() and all(type(value) is int for _, value in known)
            dtype = pl.Int64() if whole else pl.Float64()
            expr = expr.cast(dtype)
        listed = pl.Series([value for _, value in known], dtype=dtype, strict=False)
        expr = expr.is_in(listed.implode())
        if len(known) < len(values):
            expr = pl.when(expr).then(pl.lit(value=True))
        return made(operand.at, expr, operand, dtype=pl.Boolean())

    def _cast(self, part: Operand, dtype: pl.DataType, *, strict: bool) -> Operand:
        old, expr = self.type_of(part), part.expr
        if old != pl.String() or not dtype.is_temporal():
            expr = expr.cast(dtype, strict=strict)
        elif dtype == pl.Date():
            expr = expr.str.to_date("%Y-%m-%d", strict=strict)
        else:
            # 2026-10-07, 2026-10-07 14:03 and 2026-10-07T14:03:00.5
            expr = expr.str.replace("^([0-9-]{10})$", "$1 00:00")
            expr = expr.str.replace("^([0-9-]{10})[ T]([0-9:]{5})$", "$1 $2:00")
            expr = expr.str.replace("T", " ", literal=True)
            form = "%Y-%m-%d %H:%M:%S%.f"
            expr = expr.str.to_datetime(form, time_unit="us", strict=strict, exact=True)
        return made(part.at, expr, part, dtype=dtype, levels=4)


def _plain_like(value: pl.Expr, pattern: str, inner: str) -> pl.Expr:
    """Return a LIKE with `%` at its ends alone, which needs no regular expression."""
    starts, ends = pattern.endswith("%"), pattern.startswith("%")
    if not inner:
        return value.str.starts_with("") if pattern else value == ""
    if starts and ends:
        return value.str.contains(inner, literal=True)
    if starts:
        return value.str.starts_with(inner)
    return value.str.ends_with(inner) if ends else value == inner


def _choice(at: int, conditions: list[Operand], values: list[Operand]) -> Operand:
    """Return a CASE: a value per condition, and the last one where none is true."""
    expr = values[-1].expr
    for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        expr = pl.when(condition.expr).then(value.expr).otherwise(expr)
    length = max(value.length for value in values)
    # Known where all are of one type: to ask Polars at every level takes seconds.
    dtypes = {value.dtype for value in values}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    return made(at, expr, *conditions, *values, dtype=dtype, levels=len(values), length=length)


def _number_of(token: Token) -> int | float:
    """Return the value of a number; a whole number of more than 64 bits is floating-point."""
    if token.text.isdigit() and len(token.text) <= 19 and int(token.text) < 2**63:
        return int(token.text)
    value = float(token.text)
    if math.isinf(value):
        got = shown(token.text)
        raise ExpressionError(f"expected a number of at most 1.8e308, got {got}", token.at)
    return value


def _moment_of(word: Token, token: Token) -> date | datetime:
    """Return a DATE or TIMESTAMP constant; a timestamp without an offset is in UTC."""
    source = token.unquoted()
    try:
        if word.word == "DATE":
            return date.fromisoformat(source)
        moment = datetime.fromisoformat(source)
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # in UTC it may be before year 1 or after 9999
        form = "2026-10-07" if word.word == "DATE" else "2026-10-07 14:03:00"
        raise ExpressionError(
            f"expected a {word.word} such as '{form}', got {shown(source)}", token.at
        ) from None
