"""Label selectors: the string grammar of scales, metric selector objects, printing and matching.

Follows apimachinery pkg/labels/selector.go and pkg/apis/meta/v1/helpers.go, with their error
messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

from hpabatch.model import names
from hpabatch.model.objects.field_errors import go_quote
from hpabatch.model.objects.hpa import LabelSelector
from hpabatch.model.versions import Profile

_BLANKS = " \t\r\n"
_SYMBOLS = "=!(),><"
_LONG_SYMBOLS = ("==", "!=")
_END = ""
_OPERATORS = {"=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt", "in": "in", "notin": "notin"}
_BINARY_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_OLD_BINARY_OPERATORS = "'=', '!=', '==', 'in', notin'"
_OBJECT_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}

_MAX_INT64_DIGITS = 19


@dataclass(frozen=True, slots=True)
class SelectorWords:
    """Wording of selector errors in a Kubernetes version; see `model.versions.Profile`.

    `as_fields`: all errors, each with its place; before, the first one without a place.
    """

    as_fields: bool = True
    lists_as_json: bool = True
    label_keys_named: bool = True

    def error(self, path: str, shown: str, detail: str) -> str:
        """Return the error of a value at a place of a requirement."""
        detail = self.named(detail)
        return f"{path}: Invalid value: {shown}: {detail}" if self.as_fields else detail

    def named(self, detail: str) -> str:
        """Return an error about a name in this version's words."""
        if self.label_keys_named:
            return detail
        old = detail.replace("a valid label key must", "a qualified name must")
        return old.replace(" bytes", " characters")

    def values(self, values: tuple[str, ...]) -> str:
        """Return a list as it is shown; an empty one is Go's nil."""
        quoted = [go_quote(value) for value in values]
        if self.lists_as_json:
            return f"[{','.join(quoted)}]" if values else "null"
        return f"[]string{{{', '.join(quoted)}}}" if values else "[]string(nil)"


NEWEST_WORDS = SelectorWords()


def selector_words(profile: Profile) -> SelectorWords:
    """Return a profile's wording of selector errors."""
    return SelectorWords(profile.errors_wrapped, profile.lists_as_json, profile.label_keys_named)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition; `operator` is one of `= == != in notin exists ! gt lt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels meets the condition."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        number = None if value is None else _int64(value)
        limit = _int64(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if self.operator == "gt" else number < limit

    def __str__(self) -> str:
        """Print as labels.Requirement.String() does."""
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case _:
                symbol = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
                return f"{self.key}{symbol}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements joined by AND, sorted by key; none means everything.

    `nothing` marks the selector of an unset object, which matches no labels and prints as "".
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels meets all requirements."""
        return not self.nothing and all(item.matches(labels) for item in self.requirements)

    def __str__(self) -> str:
        """Print as labels.Selector.String() does; this is the query-string form too.

        "" (everything, or unset) means that the query parameter is left out.
        """
        return ",".join(str(item) for item in self.requirements)


@lru_cache(maxsize=100_000)
def parse_selector(text: str, words: SelectorWords = NEWEST_WORDS) -> Selector:
    """Parse a selector string such as `app=web,tier in (a,b),!canary`.

    Raises:
        ValueError: it does not parse; the message is upstream's.
    """
    return _Parser(text, words).parse()


def selector_from_object(
    selector: LabelSelector | None, words: SelectorWords = NEWEST_WORDS
) -> Selector:
    """Convert a selector object (metav1.LabelSelectorAsSelector): labels first, then expressions.

    Raises:
        ValueError: a bad operator, key or value; the first error, in upstream's words.
    """
    if selector is None:
        return Selector(nothing=True)
    found = [_requirement(key, "=", (value,), words) for key, value in selector.match_labels]
    for item in selector.match_expressions:
        operator = _OBJECT_OPERATORS.get(item.operator)
        if operator is None:
            whose = "label" if words.as_fields else "pod"
            raise ValueError(f"{go_quote(item.operator)} is not a valid {whose} selector operator")
        found.append(_requirement(item.key, operator, item.values, words))
    return Selector(_by_key(found))


def go_print(selector: LabelSelector | None) -> str:
    """Print a selector object as Go's %v of the API type does; unset is `nil`."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{item.key},Operator:{item.operator},"
        f"Values:[{' '.join(item.values)}],}},"
        for item in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _by_key(found: list[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(found, key=lambda item: item.key))


def _requirement(
    key: str, operator: str, values: tuple[str, ...], words: SelectorWords
) -> Requirement:
    """Check and make a requirement (labels.NewRequirement); all its errors in one message."""
    errors = _key_errors(key, "key", words)
    if operator in ("in", "notin") and not values:
        text = "for 'in', 'notin' operators, values set can't be empty"
        errors.append(words.error("values", words.values(values), text))
    if operator in ("exists", "!") and values:
        text = "values set must be empty for exists and does not exist"
        errors.append(words.error("values", words.values(values), text))
    for index, value in enumerate(values):
        if operator in ("gt", "lt") and _int64(value) is None:
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(words.error(f"values[{index}]", go_quote(value), text))
    for index, value in enumerate(values):
        complaints = "; ".join(names.label_value(value))
        if complaints and words.as_fields:
            errors.append(words.error(f"values[{index}][{key}]", go_quote(value), complaints))
        elif complaints:
            place = f"{go_quote(value)}: at key: {go_quote(key)}"
            errors.append(f"invalid label value: {place}: {words.named(complaints)}")
    if errors:
        unique = list(dict.fromkeys(errors))
        alone = len(unique) == 1 or not words.as_fields
        raise ValueError(unique[0] if alone else "[" + ", ".join(unique) + "]")
    return Requirement(key, operator, values)


def _key_errors(key: str, path: str, words: SelectorWords) -> list[str]:
    complaints = "; ".join(names.qualified_name(key))
    if not complaints:
        return []
    if not words.as_fields:
        return [f"invalid label key {go_quote(key)}: {words.named(complaints)}"]
    return [words.error(path, go_quote(key), complaints)]


def _int64(text: str) -> int | None:
    """Return the integer of a decimal string (strconv.ParseInt), or None."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits.lstrip("0")) > _MAX_INT64_DIGITS:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _parts(text: str) -> list[tuple[str, bool]]:
    """Split into (text, is a word), the end of the string being an empty symbol."""
    parts: list[tuple[str, bool]] = []
    position = 0
    while position < len(text):
        rune = text[position]
        if rune in _BLANKS:
            position += 1
        elif rune in _SYMBOLS:
            size = 2 if text[position : position + 2] in _LONG_SYMBOLS else 1
            parts.append((text[position : position + size], False))
            position += size
        else:
            end = position
            while end < len(text) and text[end] not in _BLANKS + _SYMBOLS:
                end += 1
            parts.append((text[position:end], True))
            position = end
    return [*parts, (_END, False)]


class _Parser:
    """A recursive-descent parser with upstream's error messages.

    `in` and `notin` are words except where an operator is expected.
    """

    def __init__(self, text: str, words: SelectorWords) -> None:
        self._words = words
        self._parts = _parts(text)
        self._position = 0

    def parse(self) -> Selector:
        found: list[Requirement] = []
        while True:
            part, word = self._peek()
            if word or part == "!":
                try:
                    found.append(self._parse_requirement())
                except ValueError as error:
                    raise ValueError(f"unable to parse requirement: {error}") from None
                if not self._parse_separator():
                    return Selector(_by_key(found))
            elif part == _END:
                return Selector(_by_key(found))
            else:
                _fail(part, ", expected: !, identifier, or 'end of string'")

    def _parse_separator(self) -> bool:
        """Read the separator after a requirement; False at the end."""
        part, word = self._next()
        if part == _END and not word:
            return False
        if part != "," or word:
            _fail(part, ", expected: ',' or 'end of string'")
        part, word = self._peek()
        if not word and part != "!":
            _fail(part, ", expected: identifier after ','")
        return True

    def _parse_requirement(self) -> Requirement:
        part, word = self._next()
        absent = part == "!" and not word
        if absent:
            part, word = self._next()
        if not word:
            _fail(part, ", expected: identifier")
        errors = _key_errors(part, "<nil>", self._words)
        if errors:
            raise ValueError(errors[0])
        if absent:
            return _requirement(part, "!", (), self._words)
        if self._peek() in ((_END, False), (",", False)):
            return _requirement(part, "exists", (), self._words)
        operator, _ = self._next()
        if operator not in _OPERATORS:
            new = self._words.as_fields
            _fail(operator, f", expected: {_BINARY_OPERATORS if new else _OLD_BINARY_OPERATORS}")
        values = self._parse_list() if operator in ("in", "notin") else self._parse_value()
        return _requirement(part, _OPERATORS[operator], values, self._words)

    def _parse_value(self) -> tuple[str, ...]:
        if self._peek() in ((_END, False), (",", False)):
            return ("",)
        part, word = self._next()
        if not word:
            _fail(part, ", expected: identifier")
        return (part,)

    def _parse_list(self) -> tuple[str, ...]:
        """Read `(a,b)`: sorted and without duplicates; an empty place is an empty value."""
        part, word = self._next()
        if part != "(" or word:
            _fail(part, " expected: '('")
        part, word = self._peek()
        if part == ")":
            self._next()
            return ("",)
        if not word and part != ",":
            _fail(part, ", expected: ',', ')' or identifier")
        values = self._parse_items()
        self._next()  # the closing parenthesis, which ended the items
        return tuple(sorted(values))

    def _parse_items(self) -> set[str]:
        values: set[str] = set()
        while True:
            part, word = self._next()
            follower, _ = self._peek()
            if word:
                values.add(part)
                if follower == ")":
                    return values
                if follower != ",":
                    _fail(follower, ", expected: ',' or ')'")
            elif part == ",":
                if not values:
                    values.add("")
                if follower == ")":
                    values.add("")
                    return values
                if follower == ",":
                    self._next()
                    values.add("")
            else:
                _fail(part, ", expected: ',', or identifier")

    def _peek(self) -> tuple[str, bool]:
        return self._parts[self._position]

    def _next(self) -> tuple[str, bool]:
        part = self._parts[self._position]
        if self._position < len(self._parts) - 1:
            self._position += 1
        return part


def _fail(part: str, expected: str) -> NoReturn:
    raise ValueError(f"found '{part}'{expected}")
