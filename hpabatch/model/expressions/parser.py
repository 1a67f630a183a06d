"""Row expressions: the parser of conditions and computed columns.

The grammar has no subquery, table, aggregate or window, so an expression reads the columns of its
own row and nothing else. docs/expressions.md describes it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import NoReturn

from hpabatch.model.expressions.functions import (
    ALIASES,
    FUNCTIONS,
    MANY,
    PARTS,
    REFUSED,
    SYNTAX,
    TYPE_ALIASES,
    TYPES,
)
from hpabatch.model.expressions.reader import Reader, moment_of, number_of
from hpabatch.model.expressions.tokens import (
    MAX_VALUES,
    ExpressionError,
    Kind,
    Token,
    shown,
    unquoted,
)
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


class _Parser(Reader):
    """A parser of one text: a method per level of precedence, the loosest first."""

    def expression(self) -> Node:
        self.deeper(1)
        found = self._many("OR", self._conjunction)
        self.depth -= 1
        return found

    def expect_end(self) -> None:
        token = self.peek()
        if token.word == "OVER":
            self.fail("expected an operator or the end, got OVER", token, "; windows are not known")
        if token.kind is not Kind.end:
            self.fail(f"expected an operator or the end, got {token.show()}", token)

    def _conjunction(self) -> Node:
        return self._many("AND", self._negation)

    def _negation(self) -> Node:
        found: list[Token] = []
        while self.peek().word == "NOT":
            found.append(self.next())
            self.deeper(1)
        node = self._predicate()
        self.depth -= len(found)
        for token in reversed(found):
            node = self.made(Unary(token.at, "NOT", node))
        return node

    def _predicate(self) -> Node:
        node, tests = self._comparison(), 0
        while self.peek().word == "IS":
            at = self.next().at
            tests += 1
            self.deeper(1)
            negated = self.took("NOT")
            if self.took("DISTINCT"):
                self.expect("FROM")
                operator = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
                node = self.made(Comparison(at, operator, node, self._sum()))
                continue
            token = self.next()
            if token.word not in _CONSTANTS:
                self.fail(f"expected NULL, TRUE, FALSE or DISTINCT FROM, got {token.show()}", token)
            node = self.made(Is(at, node, _CONSTANTS[token.word], negated))
        self.depth -= tests
        if self.peek().word in _COMPARISONS:
            self._no_chain()
        return node

    def _comparison(self) -> Node:
        left = self._sum()
        token = self.peek()
        negated = token.word == "NOT" and self.peek(1).word in _NEGATABLE
        if negated:
            self.next()
        word = self.peek().word
        if word in _COMPARISONS:
            self.next()
            node: Node = Comparison(token.at, _COMPARISONS[word], left, self._sum())
        elif word == "IN":
            node = self._in(left, negated)
        elif word == "BETWEEN":
            self.next()
            low = self._sum()
            self.expect("AND")
            node = Between(token.at, left, low, self._sum(), negated)
        elif word in _MATCHES:
            node = self._match(left, negated)
        else:
            return left
        if self.peek().word in (*_COMPARISONS, *_MATCHES, "IN", "BETWEEN"):
            self._no_chain()
        return self.made(node)

    def _no_chain(self) -> NoReturn:
        token = self.peek()
        self.fail(
            f"expected AND or OR, got {token.show()}",
            token,
            ": comparisons do not chain; put the first one in parentheses",
        )

    def _in(self, left: Node, negated: bool) -> Node:
        at = self.next().at
        self.expect("(")
        values: list[Literal] = []
        others: list[Node] = []
        while True:
            item = self._listed() or self.expression()
            if isinstance(item, Literal) and not isinstance(item.value, date):
                values.append(item)
                self.values += 1
                if self.values > MAX_VALUES:
                    self.fail(f"expected at most {MAX_VALUES:,} values after IN", self.peek())
            else:
                others.append(item)
            if not self.took(","):
                break
        self.expect(")", "a comma or )")
        return In(at, left, tuple(values), tuple(others), negated)

    def _listed(self) -> Literal | None:
        """Take a constant of a list; None where something else stands there.

        Constants do not count as nodes and are read without the levels of precedence: 100,000 of
        them take 0.3 s.
        """
        sign = self.peek().word == "-"
        token = self.peek(1 if sign else 0)
        if self.peek(2 if sign else 1).word not in (",", ")"):
            return None
        if token.kind is Kind.number:
            value = number_of(token)
            if sign:
                self.next()
            self.next()
            return Literal(token.at, -value if sign else value)
        if sign or (token.kind is not Kind.string and token.word not in _CONSTANTS):
            return None
        self.next()
        if token.kind is Kind.string:
            return Literal(token.at, unquoted(token))
        return Literal(token.at, _CONSTANTS[token.word])

    def _match(self, left: Node, negated: bool) -> Node:
        token = self.next()
        operator, opposite = _MATCHES[token.word]
        pattern = self.constant_string(f"a pattern in quotes after {token.text}")
        if self.peek().word == "ESCAPE":
            self.fail("expected AND, OR or the end, got ESCAPE", self.peek(), ": it is not known")
        return Match(token.at, operator, left, unquoted(pattern), pattern.at, negated != opposite)

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._chain(("*", "/", "%"), self._signed)

    def _chain(self, operators: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        first = operand()
        at = self.peek().at
        rest: list[tuple[str, Node]] = []
        while self.peek().word in operators:
            operator = self.next()
            if operator.word == "/" and self.peek().word == "/":
                self.fail("expected a value, got '/'", self.peek(), "; write TRUNC(a / b)")
            rest.append((operator.word, operand()))
            self.count()
        return self.made(Chain(at, first, tuple(rest))) if rest else first

    def _signed(self) -> Node:
        signs: list[Token] = []
        while self.peek().word in ("-", "+"):
            signs.append(self.next())
            self.deeper(1)
        node = self._many("||", self._converted)
        self.depth -= len(signs)
        for token in reversed(signs):
            value = node.value if isinstance(node, Literal) else None
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and isinstance(value, int | float):
                node = Literal(token.at, -value if token.word == "-" else value)
            elif token.word == "-":
                node = self.made(Unary(token.at, "-", node))
        return node

    def _many(self, operator: str, operand: Callable[[], Node]) -> Node:
        operands = [operand()]
        at = self.peek().at
        while self.took(operator):
            operands.append(operand())
        if len(operands) == 1:
            return operands[0]
        return self.made(Many(at, operator, tuple(operands)))

    def _converted(self) -> Node:
        node, casts = self._primary(), 0
        while self.peek().word == "::":
            at = self.next().at
            casts += 1
            self.deeper(1)
            node = self.made(Cast(at, node, *self._type(), strict=True))
        self.depth -= casts
        return node

    def _primary(self) -> Node:
        token = self.next()
        if token.kind is Kind.string:
            return self.made(Literal(token.at, unquoted(token)))
        if token.kind is Kind.number:
            return self.made(Literal(token.at, number_of(token)))
        if token.kind is Kind.quoted:
            return self.made(Name(token.at, unquoted(token), quoted=True))
        if token.kind is Kind.word:
            return self._word(token)
        if token.word != "(":
            self.fail(f"expected a value, got {token.show()}", token)
        if self.peek().word in _SUBQUERY:
            self._no_subquery(self.peek())
        node = self.expression()
        self.expect(")", "an operator or )")
        return node

    def _word(self, token: Token) -> Node:
        if token.word in _CONSTANTS:
            return self.made(Literal(token.at, _CONSTANTS[token.word]))
        if token.word == "CASE":
            return self._case(token)
        if token.word in _SUBQUERY:
            self._no_subquery(token)
        if token.word in RESERVED:
            self.fail(
                f"expected a value, got {token.show()}", token,
                f'; write "{token.text}" if it is a column',
            )  # fmt: skip
        if token.word in ("DATE", "TIMESTAMP") and self.peek().kind is Kind.string:
            return self.made(moment_of(token, self.next()))
        if self.peek().word == "(":
            return self._call(token)
        return self.made(Name(token.at, token.text))

    def _no_subquery(self, token: Token) -> NoReturn:
        self.fail(
            f"expected a value, got {token.show()}",
            token,
            ": subqueries and tables are not possible",
        )

    def _case(self, token: Token) -> Node:
        operand = None if self.peek().word == "WHEN" else self.expression()
        branches: list[tuple[Node, Node]] = []
        while self.took("WHEN"):
            when = self.expression()
            self.expect("THEN")
            branches.append((when, self.expression()))
        otherwise = self.expression() if branches and self.took("ELSE") else None
        self.expect("END" if branches else "WHEN")
        return self.made(Case(token.at, operand, tuple(branches), otherwise))

    def _call(self, token: Token) -> Node:
        name = ALIASES.get(token.word, token.word)
        if name in REFUSED:
            problem = f"expected a function of one row, got {token.show()}"
            self.fail(problem, token, f"; {REFUSED[name]}")
        if name not in FUNCTIONS and name not in SYNTAX:
            hint = did_you_mean(token.word, [*FUNCTIONS, *ALIASES, *SYNTAX])
            self.fail(
                f"unknown function {token.show()}",
                token,
                hint or "; docs/expressions.md lists the functions",
            )
        self.expect("(")
        if name in ("CAST", "TRY_CAST"):
            operand = self.expression()
            self.expect("AS")
            node: Node = Cast(token.at, operand, *self._type(), strict=name == "CAST")
        elif name == "EXTRACT":
            part = self._part(self.next())
            self.expect("FROM")
            node = Call(token.at, "DATE_PART", (part, self.expression()))
        else:
            node = self._function(token, name)
        self.expect(")", "a comma, an operator or )")
        return self.made(node)

    def _function(self, token: Token, name: str) -> Node:
        arguments: list[Node] = []
        if self.peek().word != ")":
            arguments.append(self.expression())
            while len(arguments) < MANY and self.took(","):
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
        self.fail(f"expected {usage}, got {found} argument{'' if found == 1 else 's'}", token)

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
        token = self.next()
        name = TYPE_ALIASES.get(token.word, token.word)
        if token.kind is not Kind.word or name not in TYPES:
            hint = did_you_mean(token.word, [*TYPES, *TYPE_ALIASES])
            self.fail(f"expected a type ({', '.join(TYPES)}), got {token.show()}", token, hint)
        if token.word == "DOUBLE":
            self.took("PRECISION")
        if name != "DECIMAL" or not self.took("("):
            return name, ()
        sizes = [self.small("precision", 1, 38)]
        if self.took(","):
            sizes.append(self.small("scale", 0, sizes[0]))
        self.expect(")")
        return name, tuple(sizes)
