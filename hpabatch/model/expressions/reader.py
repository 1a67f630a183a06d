"""Row expressions: the token reader below the parser, which enforces the limits."""

from __future__ import annotations

import math
from collections import deque
from datetime import UTC, date, datetime
from typing import NoReturn

from hpabatch.model.expressions.tokens import (
    MAX_DEPTH,
    MAX_NODES,
    ExpressionError,
    Kind,
    Token,
    shown,
    tokens,
    unquoted,
)
from hpabatch.model.expressions.tree import Literal, Node


class Reader:
    """Token reader with lookahead; every fault is an ExpressionError."""

    def __init__(self, text: str) -> None:
        """Begin at the first token."""
        self.source = tokens(text)
        self.ahead: deque[Token] = deque()
        self.depth = self.nodes = self.values = 0

    def peek(self, places: int = 0) -> Token:
        """Return the next token, or one of those after it."""
        while len(self.ahead) <= places:
            last = self.ahead[-1] if self.ahead else None
            ended = last is not None and last.kind is Kind.end
            self.ahead.append(last if last is not None and ended else next(self.source))
        return self.ahead[places]

    def next(self) -> Token:
        """Take the next token; the end stays."""
        token = self.peek()
        if token.kind is not Kind.end:
            self.ahead.popleft()
        return token

    def took(self, word: str) -> bool:
        """Take the next token if it is this word or symbol; return whether it was."""
        if self.peek().word != word:
            return False
        self.next()
        return True

    def expect(self, word: str, told: str = "") -> None:
        """Take a required word or symbol; `told` names it in messages."""
        token = self.peek()
        if token.word != word:
            self.fail(f"expected {told or word}, got {token.show()}", token)
        self.next()

    def made(self, node: Node) -> Node:
        """Count a node."""
        self.count()
        return node

    def count(self) -> None:
        """Count a node, and refuse too many."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            limit = f"expected at most {MAX_NODES:,} names, constants and operators, got more"
            self.fail(limit, self.peek(), "; write long lists with IN")

    def deeper(self, levels: int) -> None:
        """Go deeper, and refuse too deep."""
        self.depth += levels
        if self.depth > MAX_DEPTH:
            self.fail(f"expected at most {MAX_DEPTH} levels of nesting, got more", self.peek())

    def fail(self, problem: str, token: Token, remedy: str = "") -> NoReturn:
        """Raise an ExpressionError about a token."""
        raise ExpressionError(problem, token.at, remedy)

    def small(self, what: str, least: int, most: int) -> int:
        """Take a whole number within bounds."""
        token = self.next()
        value = number_of(token) if token.kind is Kind.number else None
        if not isinstance(value, int) or not least <= value <= most:
            self.fail(f"expected a {what} from {least} to {most}, got {token.show()}", token)
        return value

    def constant_string(self, what: str) -> Token:
        """Take a string."""
        token = self.next()
        if token.kind is not Kind.string:
            self.fail(f"expected {what}, got {token.show()}", token)
        return token


def number_of(token: Token) -> int | float:
    """Return the value of a number; a whole number of more than 64 bits is floating-point."""
    if token.text.isdigit() and len(token.text) <= 19 and int(token.text) < 2**63:
        return int(token.text)
    value = float(token.text)
    if math.isinf(value):
        raise ExpressionError(
            f"expected a number of at most 1.8e308, got {shown(token.text)}", token.at
        )
    return value


def moment_of(word: Token, token: Token) -> Literal:
    """Return a DATE or TIMESTAMP constant; a timestamp without an offset is in UTC."""
    text = unquoted(token)
    try:
        if word.word == "DATE":
            return Literal(word.at, date.fromisoformat(text))
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            found = found.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # in UTC it may be before year 1 or after 9999
        form = "2026-10-07" if word.word == "DATE" else "2026-10-07 14:03:00"
        raise ExpressionError(
            f"expected a {word.word} such as '{form}', got {shown(text)}", token.at
        ) from None
    return Literal(word.at, found)
