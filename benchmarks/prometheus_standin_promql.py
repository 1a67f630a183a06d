"""The part of PromQL that an import speaks, read as Prometheus reads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

OVER_TIME: Final = (
    "last_over_time", "min_over_time", "max_over_time", "count_over_time", "present_over_time",
)  # fmt: skip
AGGREGATIONS: Final = ("count", "group", "sum", "min", "max")


class QueryError(ValueError):
    """Prometheus would answer 400 bad_data."""


@dataclass(frozen=True)
class Matcher:
    """A label matcher.

    Attributes:
        label: its name.
        operator: =, !=, =~ or !~.
        values: of `=`, and of `=~` where it lists plain texts: what is wanted; None: see `fits`.
        fits: whether a label's value ("" where there is no label) fits.
    """

    label: str
    operator: str
    values: frozenset[str] | None
    fits: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Selector:
    """Series; `range_ms` None: an instant vector."""

    matchers: tuple[Matcher, ...]
    range_ms: int | None = None

    def wanted(self, label: str) -> frozenset[str] | None:
        """Return the values that a label may have, None: not listed."""
        listed = [m.values for m in self.matchers if m.label == label and m.values is not None]
        return frozenset.intersection(*listed) if listed else None


@dataclass(frozen=True, slots=True)
class OverTime:
    """A function of the samples of a range."""

    name: str
    of: Selector


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One number per group of series; `by` None: of all."""

    name: str
    by: tuple[str, ...]
    of: Expression


Expression = Selector | OverTime | Aggregation

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<operator>=~|!~|!=|=)|(?P<mark>[{}()\[\],])
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)|(?P<duration>(?:[0-9]+(?:ms|[smhdwy]))+))""",
    re.VERBOSE,
)
_UNIT_MS: Final = {
    "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
    "y": 31_536_000_000,
}  # fmt: skip
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_LITERAL: Final = re.compile(r"(?:[^\\.+*?()\[\]{}|^$]|\\[\\.+*?()\[\]{}|^$\-])*")


def parse(text: str) -> Expression:
    """Return what a query says.

    Raises:
        QueryError: it says something else, or nothing.
    """
    reader = _Reader(text)
    found = reader.expression()
    reader.end()
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise self.error(at, f"unexpected character: {text[at:].strip()[0]!r}")
            self.tokens.append((match.lastgroup, match[match.lastgroup], match.start()))
            at = match.end()
        self.at = 0

    def error(self, place: int, why: str) -> QueryError:
        return QueryError(f'invalid parameter "query": 1:{place + 1}: parse error: {why}')

    def peek(self, text: str = "") -> bool:
        return self.at < len(self.tokens) and (not text or self.tokens[self.at][1] == text)

    def take(self, kind: str, text: str = "") -> str:
        if not self.peek():
            raise self.error(len(self.text), "unexpected end of input")
        found, value, place = self.tokens[self.at]
        if found != kind or (text and value != text):
            raise self.error(place, f"unexpected {value!r}, expected {text or kind}")
        self.at += 1
        return value

    def end(self) -> None:
        if self.peek():
            _, value, place = self.tokens[self.at]
            raise self.error(place, f"unexpected {value!r}")

    def expression(self) -> Expression:
        if self.peek("{"):
            return self.selector("")
        name, place = self.take("name"), self.tokens[self.at - 1][2]
        if name in AGGREGATIONS and (self.peek("(") or self.peek("by")):
            return self.aggregation(name)
        if self.peek("("):
            if name not in OVER_TIME:
                raise self.error(place, f'unknown function with name "{name}"')
            self.take("mark", "(")
            of = self.expression()
            self.take("mark", ")")
            if not isinstance(of, Selector) or of.range_ms is None:
                raise self.error(place, f'expected type range vector in call to function "{name}"')
            return OverTime(name, of)
        return self.selector(name)

    def aggregation(self, name: str) -> Aggregation:
        by = self.by() if self.peek("by") else None
        self.take("mark", "(")
        of = self.expression()
        self.take("mark", ")")
        if by is None:
            by = self.by() if self.peek("by") else ()
        if isinstance(of, Selector) and of.range_ms is not None:
            raise self.error(0, "expected type instant vector in aggregation expression")
        return Aggregation(name, by, of)

    def by(self) -> tuple[str, ...]:
        self.take("name", "by")
        self.take("mark", "(")
        names = []
        while not self.peek(")"):
            names.append(self.take("name"))
            if not self.peek(")"):
                self.take("mark", ",")
        self.take("mark", ")")
        return tuple(names)

    def selector(self, name: str) -> Selector:
        matchers = [matcher("__name__", "=", name)] if name else []
        if self.peek("{"):
            self.take("mark", "{")
            while not self.peek("}"):
                label, operator = self.take("name"), self.take("operator")
                matchers.append(matcher(label, operator, _unquoted(self.take("text"))))
                if not self.peek("}"):
                    self.take("mark", ",")
            self.take("mark", "}")
        if not any(not one.fits("") for one in matchers):
            raise self.error(0, "vector selector must contain at least one non-empty matcher")
        range_ms = None
        if self.peek("["):
            self.take("mark", "[")
            range_ms = duration_ms(self.take("duration"))
            if not range_ms:
                raise self.error(0, "duration must be greater than 0")
            self.take("mark", "]")
        return Selector(tuple(matchers), range_ms)


def _unquoted(text: str) -> str:
    if text[0] == "`":
        return text[1:-1]

    def plain(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise QueryError(f'invalid parameter "query": unknown escape sequence U+{match[1]}')
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", plain, text[1:-1])


def duration_ms(text: str) -> int:
    """Return a duration such as 1h30m (ms)."""
    parts = re.findall(r"([0-9]+)(ms|[smhdwy])", text)
    return sum(int(number) * _UNIT_MS[unit] for number, unit in parts)


def matcher(label: str, operator: str, value: str) -> Matcher:
    """Return a matcher; a pattern that lists plain texts becomes a set.

    Raises:
        QueryError: the pattern is none.
    """
    if operator in ("=", "!="):
        equal = operator == "="
        return Matcher(
            label, operator, frozenset([value]) if equal else None,
            lambda text: (text == value) is equal,
        )  # fmt: skip
    positive = operator == "=~"
    parts = _alternatives(value)
    if parts is not None:
        return Matcher(
            label, operator, parts if positive else None, lambda text: (text in parts) is positive
        )
    try:
        pattern = re.compile(value)
    except re.error as error:
        raise QueryError(f'invalid parameter "query": error parsing regexp: {error}') from None
    return Matcher(
        label, operator, None, lambda text: (pattern.fullmatch(text) is not None) is positive
    )


def _alternatives(pattern: str) -> frozenset[str] | None:
    """Return the texts of a|b|c, None: it is no such list."""
    parts = pattern.split("|")
    if any(_LITERAL.fullmatch(part) is None for part in parts):
        return None
    return frozenset(re.sub(r"\\(.)", r"\1", part) for part in parts)
