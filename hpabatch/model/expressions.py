"""Row expressions: the parser of conditions and computed columns.

The grammar has no subquery, table, aggregate or window, so an expression can neither read anything
but the columns of its row nor look at other rows. docs/expressions.md describes it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import NoReturn

from hpabatch.model.expression_functions import (
    ALIASES,
    FUNCTIONS,
    MANY,
    PARTS,
    REFUSED,
    SYNTAX,
    TYPE_ALIASES,
    TYPES,
)
from hpabatch.model.expression_tokens import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_VALUES,
    ExpressionError,
    Kind,
    Token,
    shown,
    tokens,
    unquoted,
)
from hpabatch.model.expression_tree import (
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
)
from hpabatch.model.suggestions import did_you_mean

RESERVED = frozenset(
    {"AND", "BETWEEN", "CASE", "ELSE", "END", "EXISTS", "FALSE", "FROM", "ILIKE", "IN", "IS",
     "LIKE", "NOT", "NULL", "OR", "SELECT", "THEN", "TRUE", "WHEN", "WITH"}
)  # fmt: skip
"""Words that are columns only in double quotes."""

_SUBQUERY = frozenset({"SELECT", "EXISTS", "WITH", "FROM"})
_COMPARISONS = {
    "=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
    "<=>": "IS NOT DISTINCT FROM",
}  # fmt: skip
_MATCHES = {
    "LIKE": ("LIKE", False), "ILIKE": ("ILIKE", False), "RLIKE": ("~", False),
    "REGEXP": ("~", False), "~": ("~", False), "~*": ("~*", False), "!~": ("~", True),
    "!~*": ("~*", True),
}  # fmt: skip
_CONSTANTS: dict[str, bool | None] = {"NULL": None, "TRUE": True, "FALSE": False}
_NEGATABLE = ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP")


@lru_cache(maxsize=32)
def parse_expression(text: str) -> Node:
    """Return the tree of an expression.

    Raises:
        ExpressionError: it is none, or larger than the limits; the message names the position.
    """
    parser = _Parser(text)
    tree = parser.expression()
    parser.expect_end()
    return tree


class _Parser:
    """A parser of one text: a method per level of precedence, the loosest first."""

    def __init__(self, text: str) -> None:
        self.source = tokens(text)
        self.ahead: deque[Token] = deque()
        self.depth = self.nodes = self.values = 0

    def expression(self) -> Node:
        self._deeper(1)
        found = self._many("OR", self._conjunction)
        self.depth -= 1
        return found

    def expect_end(self) -> None:
        token = self._peek()
        if token.word == "OVER":
            self._fail(
                "expected an operator or the end, got OVER", token, "; windows are not known"
            )
        if token.kind is not Kind.end:
            self._fail(f"expected an operator or the end, got {token.show()}", token)

    def _conjunction(self) -> Node:
        return self._many("AND", self._negation)

    def _negation(self) -> Node:
        found: list[Token] = []
        while self._peek().word == "NOT":
            found.append(self._next())
            self._deeper(1)
        node = self._predicate()
        self.depth -= len(found)
        for token in reversed(found):
            node = self._made(Unary(token.at, "NOT", node))
        return node

    def _predicate(self) -> Node:
        node, tests = self._comparison(), 0
        while self._peek().word == "IS":
            at = self._next().at
            tests += 1
            self._deeper(1)
            negated = self._took("NOT")
            if self._took("DISTINCT"):
                self._expect("FROM")
                operator = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
                node = self._made(Comparison(at, operator, node, self._sum()))
                continue
            token = self._next()
            if token.word not in _CONSTANTS:
                self._fail(
                    f"expected NULL, TRUE, FALSE or DISTINCT FROM, got {token.show()}", token
                )
            node = self._made(Is(at, node, _CONSTANTS[token.word], negated))
        self.depth -= tests
        if self._peek().word in _COMPARISONS:
            self._no_chain()
        return node

    def _comparison(self) -> Node:
        left = self._sum()
        token = self._peek()
        negated = token.word == "NOT" and self._peek(1).word in _NEGATABLE
        if negated:
            self._next()
        word = self._peek().word
        if word in _COMPARISONS:
            self._next()
            node: Node = Comparison(token.at, _COMPARISONS[word], left, self._sum())
        elif word == "IN":
            node = self._in(left, negated)
        elif word == "BETWEEN":
            self._next()
            low = self._sum()
            self._expect("AND")
            node = Between(token.at, left, low, self._sum(), negated)
        elif word in _MATCHES:
            node = self._match(left, negated)
        else:
            return left
        if self._peek().word in (*_COMPARISONS, *_MATCHES, "IN", "BETWEEN"):
            self._no_chain()
        return self._made(node)

    def _no_chain(self) -> NoReturn:
        token = self._peek()
        self._fail(
            f"expected AND or OR, got {token.show()}",
            token,
            ": comparisons do not chain; put the first one in parentheses",
        )

    def _in(self, left: Node, negated: bool) -> Node:
        at = self._next().at
        self._expect("(")
        values: list[Literal] = []
        others: list[Node] = []
        while True:
            item = self._listed() or self.expression()
            if isinstance(item, Literal) and not isinstance(item.value, date):
                values.append(item)
                self.values += 1
                if self.values > MAX_VALUES:
                    self._fail(f"expected at most {MAX_VALUES:,} values after IN", self._peek())
            else:
                others.append(item)
            if not self._took(","):
                break
        self._expect(")", "a comma or )")
        return In(at, left, tuple(values), tuple(others), negated)

    def _listed(self) -> Literal | None:
        """Take a constant of a list; None where something else stands there.

        Constants do not count as nodes and are read without the levels of precedence: 100,000 of
        them take 0.3 s.
        """
        sign = self._peek().word == "-"
        token = self._peek(1 if sign else 0)
        if self._peek(2 if sign else 1).word not in (",", ")"):
            return None
        if token.kind is Kind.number:
            value = _number(token)
            if sign:
                self._next()
            self._next()
            return Literal(token.at, -value if sign else value)
        if sign or (token.kind is not Kind.string and token.word not in _CONSTANTS):
            return None
        self._next()
        if token.kind is Kind.string:
            return Literal(token.at, unquoted(token))
        return Literal(token.at, _CONSTANTS[token.word])

    def _match(self, left: Node, negated: bool) -> Node:
        token = self._next()
        operator, opposite = _MATCHES[token.word]
        pattern = self._constant_string(f"a pattern in quotes after {token.text}")
        if self._peek().word == "ESCAPE":
            self._fail("expected AND, OR or the end, got ESCAPE", self._peek(), ": it is not known")
        return Match(token.at, operator, left, unquoted(pattern), pattern.at, negated != opposite)

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._chain(("*", "/", "%"), self._signed)

    def _chain(self, operators: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        first = operand()
        at = self._peek().at
        rest: list[tuple[str, Node]] = []
        while self._peek().word in operators:
            operator = self._next()
            if operator.word == "/" and self._peek().word == "/":
                self._fail("expected a value, got '/'", self._peek(), "; write TRUNC(a / b)")
            rest.append((operator.word, operand()))
            self._count()
        return self._made(Chain(at, first, tuple(rest))) if rest else first

    def _signed(self) -> Node:
        signs: list[Token] = []
        while self._peek().word in ("-", "+"):
            signs.append(self._next())
            self._deeper(1)
        node = self._many("||", self._converted)
        self.depth -= len(signs)
        for token in reversed(signs):
            value = node.value if isinstance(node, Literal) else None
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and isinstance(value, int | float):
                node = Literal(token.at, -value if token.word == "-" else value)
            elif token.word == "-":
                node = self._made(Unary(token.at, "-", node))
        return node

    def _many(self, operator: str, operand: Callable[[], Node]) -> Node:
        operands = [operand()]
        at = self._peek().at
        while self._took(operator):
            operands.append(operand())
        if len(operands) == 1:
            return operands[0]
        return self._made(Many(at, operator, tuple(operands)))

    def _converted(self) -> Node:
        node, casts = self._primary(), 0
        while self._peek().word == "::":
            at = self._next().at
            casts += 1
            self._deeper(1)
            node = self._made(Cast(at, node, *self._type(), strict=True))
        self.depth -= casts
        return node

    def _primary(self) -> Node:
        token = self._next()
        if token.kind is Kind.string:
            return self._made(Literal(token.at, unquoted(token)))
        if token.kind is Kind.number:
            return self._made(Literal(token.at, _number(token)))
        if token.kind is Kind.quoted:
            return self._made(Name(token.at, unquoted(token), quoted=True))
        if token.kind is Kind.word:
            return self._word(token)
        if token.word != "(":
            self._fail(f"expected a value, got {token.show()}", token)
        if self._peek().word in _SUBQUERY:
            self._no_subquery(self._peek())
        node = self.expression()
        self._expect(")", "an operator or )")
        return node

    def _word(self, token: Token) -> Node:
        if token.word in _CONSTANTS:
            return self._made(Literal(token.at, _CONSTANTS[token.word]))
        if token.word == "CASE":
            return self._case(token)
        if token.word in _SUBQUERY:
            self._no_subquery(token)
        if token.word in RESERVED:
            self._fail(
                f"expected a value, got {token.show()}", token,
                f'; write "{token.text}" if it is a column',
            )  # fmt: skip
        if token.word in ("DATE", "TIMESTAMP") and self._peek().kind is Kind.string:
            return self._made(_moment(token, self._next()))
        if self._peek().word == "(":
            return self._call(token)
        return self._made(Name(token.at, token.text))

    def _no_subquery(self, token: Token) -> NoReturn:
        self._fail(
            f"expected a value, got {token.show()}",
            token,
            ": subqueries and tables are not possible",
        )

    def _case(self, token: Token) -> Node:
        operand = None if self._peek().word == "WHEN" else self.expression()
        branches: list[tuple[Node, Node]] = []
        while self._took("WHEN"):
            when = self.expression()
            self._expect("THEN")
            branches.append((when, self.expression()))
        otherwise = self.expression() if branches and self._took("ELSE") else None
        self._expect("END" if branches else "WHEN")
        return self._made(Case(token.at, operand, tuple(branches), otherwise))

    def _call(self, token: Token) -> Node:
        name = ALIASES.get(token.word, token.word)
        if name in REFUSED:
            problem = f"expected a function of one row, got {token.show()}"
            self._fail(problem, token, f"; {REFUSED[name]}")
        if name not in FUNCTIONS and name not in SYNTAX:
            hint = did_you_mean(token.word, [*FUNCTIONS, *ALIASES, *SYNTAX])
            self._fail(
                f"unknown function {token.show()}",
                token,
                hint or "; docs/expressions.md lists the functions",
            )
        self._expect("(")
        if name in ("CAST", "TRY_CAST"):
            operand = self.expression()
            self._expect("AS")
            node: Node = Cast(token.at, operand, *self._type(), strict=name == "CAST")
        elif name == "EXTRACT":
            part = self._part(self._next())
            self._expect("FROM")
            node = Call(token.at, "DATE_PART", (part, self.expression()))
        else:
            node = self._function(token, name)
        self._expect(")", "a comma, an operator or )")
        return self._made(node)

    def _function(self, token: Token, name: str) -> Node:
        arguments: list[Node] = []
        if self._peek().word == "*":
            self._fail("expected a value, got '*'", self._peek())
        if self._peek().word != ")":
            arguments.append(self.expression())
            while len(arguments) < MANY and self._took(","):
                arguments.append(self.expression())
        if name == "IF":
            if len(arguments) != 3:
                self._wrong_number(token, SYNTAX[name], len(arguments))
            return Case(token.at, None, ((arguments[0], arguments[1]),), arguments[2])
        known = FUNCTIONS[name]
        if not known.least <= len(arguments) <= known.most:
            self._wrong_number(token, known.usage, len(arguments))
        if name == "DATE_PART":
            arguments[0] = self._named_part(arguments[0])
        return Call(token.at, name, tuple(arguments))

    def _wrong_number(self, token: Token, usage: str, found: int) -> NoReturn:
        self._fail(f"expected {usage}, got {found} argument{'' if found == 1 else 's'}", token)

    def _part(self, token: Token) -> Literal:
        text = unquoted(token) if token.kind is Kind.string else token.text
        return self._named_part(Literal(token.at, text))

    def _named_part(self, given: Node) -> Literal:
        word = given.value if isinstance(given, Literal) else None
        if not isinstance(word, str) or word.upper() not in PARTS or not word.isascii():
            name = word if isinstance(word, str) else ""
            got = f", got {shown(name)}" if name else ""
            raise ExpressionError(
                f"expected one of {', '.join(PARTS)}{got}", given.at, did_you_mean(name, PARTS)
            )
        return Literal(given.at, word.upper())

    def _type(self) -> tuple[str, tuple[int, ...]]:
        token = self._next()
        name = TYPE_ALIASES.get(token.word, token.word)
        if token.kind is not Kind.word or name not in TYPES:
            hint = did_you_mean(token.word, [*TYPES, *TYPE_ALIASES])
            self._fail(f"expected a type ({', '.join(TYPES)}), got {token.show()}", token, hint)
        if token.word == "DOUBLE":
            self._took("PRECISION")
        if name != "DECIMAL" or not self._took("("):
            return name, ()
        sizes = [self._small("precision", 1, 38)]
        if self._took(","):
            sizes.append(self._small("scale", 0, sizes[0]))
        self._expect(")")
        return name, tuple(sizes)

    def _small(self, what: str, least: int, most: int) -> int:
        token = self._next()
        value = _number(token) if token.kind is Kind.number else None
        if not isinstance(value, int) or not least <= value <= most:
            self._fail(f"expected a {what} from {least} to {most}, got {token.show()}", token)
        return value

    def _constant_string(self, what: str) -> Token:
        token = self._next()
        if token.kind is not Kind.string:
            self._fail(f"expected {what}, got {token.show()}", token)
        return token

    def _peek(self, places: int = 0) -> Token:
        while len(self.ahead) <= places:
            last = self.ahead[-1] if self.ahead else None
            ended = last is not None and last.kind is Kind.end
            self.ahead.append(last if last is not None and ended else next(self.source))
        return self.ahead[places]

    def _next(self) -> Token:
        token = self._peek()
        if token.kind is not Kind.end:
            self.ahead.popleft()
        return token

    def _took(self, word: str) -> bool:
        if self._peek().word != word:
            return False
        self._next()
        return True

    def _expect(self, word: str, told: str = "") -> None:
        token = self._peek()
        if token.word != word:
            self._fail(f"expected {told or word}, got {token.show()}", token)
        self._next()

    def _made(self, node: Node) -> Node:
        self._count()
        return node

    def _count(self) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            limit = f"expected at most {MAX_NODES:,} names, constants and operators, got more"
            self._fail(limit, self._peek(), "; write long lists with IN")

    def _deeper(self, levels: int) -> None:
        self.depth += levels
        if self.depth > MAX_DEPTH:
            self._fail(f"expected at most {MAX_DEPTH} levels of nesting, got more", self._peek())

    def _fail(self, problem: str, token: Token, remedy: str = "") -> NoReturn:
        raise ExpressionError(problem, token.at, remedy)


def _number(token: Token) -> int | float:
    """Return what a number says: whole ones of more than 64 bits are floating-point, too."""
    if token.text.isdigit() and len(token.text) <= 19 and int(token.text) < 2**63:
        return int(token.text)
    value = float(token.text)
    if math.isinf(value):
        raise ExpressionError(
            f"expected a number of at most 1.8e308, got {shown(token.text)}", token.at
        )
    return value


def _moment(word: Token, token: Token) -> Literal:
    """Return a DATE or TIMESTAMP constant; a timestamp without an offset is in UTC."""
    text = unquoted(token)
    try:
        if word.word == "DATE":
            return Literal(word.at, date.fromisoformat(text))
        found = datetime.fromisoformat(text)
    except ValueError:
        form = "2026-10-07" if word.word == "DATE" else "2026-10-07 14:03:00"
        raise ExpressionError(
            f"expected a {word.word} such as '{form}', got {shown(text)}", token.at
        ) from None
    return Literal(word.at, found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found)
