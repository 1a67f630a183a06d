"""Label selectors: the string grammar of a scale's selector and the object form of metrics.

Upstream: apimachinery ``pkg/labels/selector.go`` (``Parse``, ``NewRequirement``), ``pkg/apis/meta/
v1/helpers.go`` (``LabelSelectorAsSelector``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .gomath import MAX_INT64, MIN_INT64
from .label_syntax import key_problems, value_problems

_END = ""
_TOKENS = re.compile(r"[ \t\r\n]*(==|!=|[=!><(),]|[^ \t\r\n=!><(),]+)")
_SYMBOLS = frozenset(["=", "==", "!", "!=", ">", "<", "(", ")", ","])
_SET_OPERATORS = ("in", "notin")
_EXACT_OPERATORS = ("=", "==", "!=", ">", "<")
_OBJECT_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}

_INTEGER = re.compile(r"[+-]?[0-9]+")


class SelectorError(Exception):
    """The selector cannot be converted; the text is upstream's."""


class Requirement(NamedTuple):
    """One condition: the operator as the string form has it, ``exists`` or ``!`` without values."""

    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """``Requirement.Matches``: an absent label satisfies only !, != and notin."""
        value = labels.get(self.key)
        if self.operator in ("!=", "notin"):
            return value is None or value not in self.values
        if self.operator == "!":
            return value is None
        if value is None or self.operator == "exists":
            return value is not None
        if self.operator in ("<", ">"):
            if not _is_int64(value):
                return False
            less = int(value) < int(self.values[0])
            return less if self.operator == "<" else int(value) > int(self.values[0])
        return value in self.values


class Dialect(NamedTuple):
    """How the apimachinery libraries of a release word their errors."""

    field_errors: bool = True  # False: the first error only, in plain words
    json_lists: bool = True  # False: a list is printed as Go source
    object_word: str = "label"  # "pod" before
    operators_listed_anew: bool = True
    length_in_bytes: bool = True  # False: in characters
    key_words: str = "a valid label key"  # "a qualified name" before


_NEWEST = Dialect()


def matches(requirements: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    """Say whether a set of labels satisfies all requirements (none: everything matches)."""
    return all(requirement.matches(labels) for requirement in requirements)


# --- the string form ------------------------------------------------------------------------------


class _Parser:
    """Recursive descent over the token list; the empty string stands for the end."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.dialect = dialect
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

    def selector(self) -> tuple[Requirement, ...]:
        """Read the whole string: requirements separated by commas."""
        token = self.peek()
        if token == _END:
            return ()
        if not (_is_word(token) or token == "!"):
            raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
        requirements = []
        while True:
            requirements.append(self.requirement())
            token = self.take()
            if token == _END:
                return tuple(requirements)
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            token = self.peek()
            if not (_is_word(token) or token == "!"):
                raise SelectorError(f"found '{token}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        """Read one requirement; its errors have a prefix."""
        try:
            return self.bare_requirement()
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from error

    def bare_requirement(self) -> Requirement:
        """Read one requirement (``parseRequirement``)."""
        negated = self.peek() == "!"
        if negated:
            self.take()
        key = self.take()
        if not _is_word(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        if key_problems(key, self.dialect.key_words):  # the path is a nil pointer here
            raise SelectorError(_wrong_key("<nil>", key, self.dialect))
        if negated:
            return Requirement(key, "!", ())
        if self.peek() in (_END, ","):
            return Requirement(key, "exists", ())
        operator = self.take()
        if operator in _SET_OPERATORS:
            values = self.value_list()
        elif operator in _EXACT_OPERATORS:
            values = [self.exact_value()]
        else:
            new = "in, notin, =, ==, !=, gt, lt"
            old = "'=', '!=', '==', 'in', notin'"
            expected = new if self.dialect.operators_listed_anew else old
            raise SelectorError(f"found '{operator}', expected: {expected}")
        return new_requirement(key, operator, sorted(set(values)), self.dialect)

    def exact_value(self) -> str:
        """Read the value after ``=`` and its kin; a missing one is the empty string."""
        if self.peek() in (_END, ","):
            return ""
        value = self.take()
        if not _is_word(value):
            raise SelectorError(f"found '{value}', expected: identifier")
        return value

    def value_list(self) -> list[str]:
        """Read ``(a,b)`` (``parseValues`` and ``parseIdentifiersList``)."""
        token = self.take()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        token = self.peek()
        if token == ")":
            self.take()
            return [""]
        if not (_is_word(token) or token == ","):
            raise SelectorError(f"found '{token}', expected: ',', ')' or identifier")
        values: list[str] = []
        while True:
            token = self.take()
            if _is_word(token):
                values.append(token)
                if self.peek() == ")":
                    break
                if self.peek() != ",":
                    raise SelectorError(f"found '{self.peek()}', expected: ',' or ')'")
            elif token == ",":
                if not values:
                    values.append("")
                if self.peek() == ")":
                    values.append("")
                    break
                if self.peek() == ",":
                    self.take()
                    values.append("")
            else:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
        self.take()
        return values


def _is_word(token: str) -> bool:
    return token != _END and token not in _SYMBOLS


@lru_cache(maxsize=10_000)
def parse_selector(text: str, dialect: Dialect = _NEWEST) -> tuple[Requirement, ...]:
    """Parse a selector string (``labels.Parse``); raises SelectorError."""
    return _Parser(text, dialect).selector()


def selector_error(text: str, dialect: Dialect = _NEWEST) -> str | None:
    """Return the parse error of a selector string, or None if it is valid."""
    try:
        parse_selector(text, dialect)
    except SelectorError as error:
        return str(error)
    return None


# --- one requirement ------------------------------------------------------------------------------


def new_requirement(
    key: str, operator: str, values: list[str], dialect: Dialect = _NEWEST
) -> Requirement:
    """``labels.NewRequirement``: all problems together, or the first in the old libraries."""
    problems: list[str] = []
    if key_problems(key, dialect.key_words):
        problems.append(_wrong_key("key", key, dialect))
    count_problem = _count_problem(operator, values)
    if count_problem:
        shown = _print_list(values, dialect)
        problems.append(_invalid("values", shown, count_problem, dialect))
    if operator in ("<", ">"):
        problems += [
            _invalid(f"values[{index}]", go_quote(value), _NOT_A_NUMBER, dialect)
            for index, value in enumerate(values)
            if not _is_int64(value)
        ]
    problems += [
        _wrong_value(index, key, value, dialect)
        for index, value in enumerate(values)
        if value_problems(value)
    ]
    if problems and not dialect.field_errors:
        raise SelectorError(problems[0])
    if problems:
        distinct = list(dict.fromkeys(problems))
        raise SelectorError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")
    return Requirement(key, operator, tuple(values))


_NOT_A_NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"


def _count_problem(operator: str, values: list[str]) -> str | None:
    if operator in _SET_OPERATORS and not values:
        return "for 'in', 'notin' operators, values set can't be empty"
    if operator in ("exists", "!") and values:
        return "values set must be empty for exists and does not exist"
    return None


def _is_int64(text: str) -> bool:
    """Say whether ``strconv.ParseInt`` takes the text."""
    if not _INTEGER.fullmatch(text) or len(text.lstrip("+-0")) > 19:
        return False
    return MIN_INT64 <= int(text) <= MAX_INT64


def _invalid(path: str, shown: str, detail: str, dialect: Dialect) -> str:
    """A field error of the kind Invalid; the old libraries had the detail only."""
    return f"{path}: Invalid value: {shown}: {detail}" if dialect.field_errors else detail


def _wrong_key(path: str, key: str, dialect: Dialect) -> str:
    detail = _in_unit("; ".join(key_problems(key, dialect.key_words)), dialect)
    if not dialect.field_errors:
        return f"invalid label key {go_quote(key)}: {detail}"
    return _invalid(path, go_quote(key), detail, dialect)


def _wrong_value(index: int, key: str, value: str, dialect: Dialect) -> str:
    detail = _in_unit("; ".join(value_problems(value)), dialect)
    if not dialect.field_errors:
        return f"invalid label value: {go_quote(value)}: at key: {go_quote(key)}: {detail}"
    return _invalid(f"values[{index}][{key}]", go_quote(value), detail, dialect)


def _in_unit(detail: str, dialect: Dialect) -> str:
    """Lengths were said to be in characters, but always counted in bytes."""
    if dialect.length_in_bytes:
        return detail
    return re.sub("(must be no more than [0-9]+) bytes", r"\1 characters", detail)


def _print_list(values: list[str], dialect: Dialect) -> str:
    if dialect.json_lists:  # an empty list of an object is a nil slice
        return json.dumps(values, separators=(",", ":"), ensure_ascii=False) if values else "null"
    if not values:
        return "[]string(nil)"
    return f"[]string{{{', '.join(go_quote(value) for value in values)}}}"


def go_quote(text: str) -> str:
    """Go's ``%q``, for printable text."""
    return json.dumps(text, ensure_ascii=False)


# --- the object form ------------------------------------------------------------------------------


def check_metric_selector(selector: dict[str, Any] | None, dialect: Dialect = _NEWEST) -> None:
    """``LabelSelectorAsSelector``: raise SelectorError if the object cannot be converted.

    Upstream takes the labels in random order; here it is that of their keys.
    """
    labels = (selector or {}).get("matchLabels") or {}
    for key in sorted(labels):
        new_requirement(key, "=", [labels[key]], dialect)
    for expression in (selector or {}).get("matchExpressions") or []:
        operator = expression.get("operator") or ""
        if operator not in _OBJECT_OPERATORS:
            raise SelectorError(
                f"{go_quote(operator)} is not a valid {dialect.object_word} selector operator"
            )
        values = list(expression.get("values") or [])
        new_requirement(expression["key"], _OBJECT_OPERATORS[operator], values, dialect)


def print_metric_selector(selector: dict[str, Any] | None) -> str:
    """Print a metric selector as Go's ``%v`` does in reasons and messages."""
    if selector is None:
        return "nil"
    labels = selector.get("matchLabels") or {}
    label_text = "".join(f"{key}: {labels[key]}," for key in sorted(labels))
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{expression['key']},Operator:{expression.get('operator') or ''},"
        f"Values:[{' '.join(expression.get('values') or [])}],"
        "},"
        for expression in selector.get("matchExpressions") or []
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{label_text}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
