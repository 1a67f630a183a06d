"""Syntax of a label's key and value, and the messages on others.

Upstream: apimachinery ``pkg/util/validation``.
"""

from __future__ import annotations

import re

_NAME_FORM = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_FORM = f"({_NAME_FORM})?"
_LABEL_FORM = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORM = rf"{_LABEL_FORM}(\.{_LABEL_FORM})*"


def _pattern_problem(message: str, form: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{form}')"


_NAME_PROBLEM = _pattern_problem(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character",
    _NAME_FORM,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_PROBLEM = _pattern_problem(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character",
    _VALUE_FORM,
    "MyValue",
    "my_value",
    "12345",
)
_SUBDOMAIN_PROBLEM = _pattern_problem(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character",
    _SUBDOMAIN_FORM,
    "example.com",
)


def _too_long(length: int) -> str:
    return f"must be no more than {length} bytes"


def key_problems(key: str, words: str) -> list[str]:
    """``IsLabelKey``: an optional DNS prefix and a name of at most 63 characters."""
    parts = key.split("/")
    if len(parts) > 2:
        return [
            f"{words} {_NAME_PROBLEM} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    problems = []
    if len(parts) == 2:
        problems += [f"prefix part {problem}" for problem in _prefix_problems(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append(f"name part {_too_long(63)}")
    if not re.fullmatch(_NAME_FORM, name):
        problems.append(f"name part {_NAME_PROBLEM}")
    return problems


def _prefix_problems(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    problems = [_too_long(253)] if len(prefix.encode()) > 253 else []
    if not re.fullmatch(_SUBDOMAIN_FORM, prefix):
        problems.append(_SUBDOMAIN_PROBLEM)
    return problems


def value_problems(value: str) -> list[str]:
    """``IsValidLabelValue``: empty or a name of at most 63 characters."""
    problems = [_too_long(63)] if len(value.encode()) > 63 else []
    if not re.fullmatch(_VALUE_FORM, value):
        problems.append(_VALUE_PROBLEM)
    return problems
