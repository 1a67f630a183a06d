"""Label selectors: the string grammar of a scale's selector and the object form of metrics.

Upstream: apimachinery ``pkg/labels/selector.go`` (``Parse``) and ``pkg/apis/meta/v1/helpers.go``
(``LabelSelectorAsSelector``). Only whether a selector is valid matters here, so nothing is matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_END = ""
_TOKENS = re.compile(r"\s*(==|!=|[=!><(),]|[^\s=!><(),]+)")
_SYMBOLS = frozenset(["=", "==", "!", "!=", ">", "<", "(", ")", ","])
_SET_OPERATORS = ("in", "notin")
_EXACT_OPERATORS = ("=", "==", "!=", ">", "<")

_NAME = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")


class SelectorError(Exception):
    """The selector cannot be converted; the text is upstream's for errors of the grammar."""


class _Parser:
    """Recursive descent over the token list; the empty string stands for the end."""

    def __init__(self, text: str) -> None:
        self.tokens = [match.group(1) for match in _TOKENS.finditer(text)]
        self.position = 0

    def peek(self) -> str:
        """Return the next token without taking it."""
        return self.tokens[self.position] if self.position < len(self.tokens) else _END

    def take(self) -> str:
        """Return the next token and step over it."""
        token = self.peek()
        self.position += 1
        return token

    def selector(self) -> None:
        """Check the whole string: requirements separated by commas."""
        token = self.peek()
        if token == _END:
            return
        if not (_is_word(token) or token == "!"):
            raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
        while True:
            self.requirement()
            token = self.take()
            if token == _END:
                return
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            token = self.peek()
            if not (_is_word(token) or token == "!"):
                raise SelectorError(f"found '{token}', expected: identifier after ','")

    def requirement(self) -> None:
        """Check one requirement (``parseRequirement``)."""
        negated = self.peek() == "!"
        if negated:
            self.take()
        key = self.take()
        if not _is_word(key):
            raise _requirement_error(f"found '{key}', expected: identifier")
        _check_key(key)
        if negated or self.peek() in (_END, ","):
            return
        operator = self.take()
        if operator in _SET_OPERATORS:
            _check_values(self.value_list())
        elif operator in _EXACT_OPERATORS:
            self.exact_value(operator)
        else:
            raise _requirement_error(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def exact_value(self, operator: str) -> None:
        """Check the value after ``=`` and its kin; a missing one is the empty string."""
        if self.peek() in (_END, ","):
            value = ""
        else:
            value = self.take()
            if not _is_word(value):
                raise _requirement_error(f"found '{value}', expected: identifier")
        if operator in ("<", ">") and not _INTEGER.fullmatch(value):
            raise _requirement_error("for 'Gt', 'Lt' operators, the value must be an integer")
        _check_values([value])

    def value_list(self) -> list[str]:
        """Check ``(a,b)`` (``parseValues`` and ``parseIdentifiersList``)."""
        token = self.take()
        if token != "(":
            raise _requirement_error(f"found '{token}' expected: '('")
        token = self.peek()
        if token == ")":
            self.take()
            return [""]
        if not (_is_word(token) or token == ","):
            raise _requirement_error(f"found '{token}', expected: ',', ')' or identifier")
        values: list[str] = []
        while self.peek() != ")":
            token = self.take()
            if _is_word(token):
                values.append(token)
                if self.peek() not in (",", ")"):
                    raise _requirement_error(f"found '{self.peek()}', expected: ',' or ')'")
            elif token == ",":
                self.after_list_comma()
            else:
                raise _requirement_error(f"found '{token}', expected: ',', or identifier")
        self.take()
        return values

    def after_list_comma(self) -> None:
        """Step over the second of two commas; something must follow it, not the bracket."""
        if self.peek() != ",":
            return
        self.take()
        if self.peek() == ")":
            raise _requirement_error("found ')', expected: ',', or identifier")


def _requirement_error(text: str) -> SelectorError:
    return SelectorError(f"unable to parse requirement: {text}")


def _is_word(token: str) -> bool:
    return token != _END and token not in _SYMBOLS


def _check_key(key: str) -> None:
    """Check a label key: an optional DNS prefix and a name of at most 63 characters."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (_DNS_SUBDOMAIN.fullmatch(prefix) and len(prefix) <= 253):
        raise _requirement_error(f"invalid label key {key!r}")
    if not _NAME.fullmatch(name) or len(name) > 63:
        raise _requirement_error(f"invalid label key {key!r}")


def _check_values(values: Iterable[str]) -> None:
    """Check label values: empty or a name of at most 63 characters."""
    for value in values:
        if value and not (_NAME.fullmatch(value) and len(value) <= 63):
            raise _requirement_error(f"invalid label value {value!r}")


@lru_cache(maxsize=10_000)
def selector_error(text: str) -> str | None:
    """Return the parse error of a selector string, or None if it is valid."""
    try:
        _Parser(text).selector()
    except SelectorError as error:
        return str(error)
    return None


def check_metric_selector(selector: dict[str, Any] | None) -> None:
    """Raise SelectorError if a metric's label selector object cannot be converted."""
    if selector is None:
        return
    for key, value in (selector.get("matchLabels") or {}).items():
        _check_key(key)
        _check_values([value])
    for expression in selector.get("matchExpressions") or []:
        operator, values = expression["operator"], expression.get("values") or []
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            raise SelectorError(f'"{operator}" is not a valid label selector operator')
        if (operator in ("In", "NotIn")) != bool(values):
            raise SelectorError(f"wrong number of values for operator {operator}")
        _check_key(expression["key"])
        _check_values(values)


def print_metric_selector(selector: dict[str, Any] | None) -> str:
    """Print a metric selector as Go's ``%v`` does in reasons and messages."""
    if selector is None:
        return "nil"
    labels = selector.get("matchLabels") or {}
    label_text = "".join(f"{key}: {labels[key]}," for key in sorted(labels))
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{expression['key']},Operator:{expression['operator']},"
        f"Values:[{' '.join(expression.get('values') or [])}],"
        "},"
        for expression in selector.get("matchExpressions") or []
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{label_text}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
