"""The part of Go's text/template that prometheus-adapter's configurations use.

Delimiters are `<<` and `>>`. Actions print a field (`<<.Series>>`), an entry of a map
(`<<.LabelValuesByName.pod>>`, `<<index .LabelValuesByName "pod">>`) or of a list
(`<<index .GroupBySlice 0>>`); blanks can be trimmed (`<<- … ->>`), and there are comments. Every
other construct (range, if, with, printf, pipelines, variables) is named in `Template.problem` and
never executed: a query that is only nearly the adapter's own would bring other values.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hpabatch.inputs.documents import show

Value = str | tuple[str, ...] | Mapping[str, str]
"""Types of fields: a string, a slice of strings, a map of strings."""

LEFT: Final = "<<"
RIGHT: Final = ">>"
_NO_VALUE: Final = "<no value>"
_BLANKS: Final = " \t\r\n"

_FIELD = re.compile(r"\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?", re.ASCII)
_INDEX = re.compile(
    r"index\s+\.([A-Za-z_]\w*)\s+(?:(\"(?:[^\"\\]|\\.)*\"|`[^`]*`)|([0-9]{1,9}))", re.ASCII
)
_COMMENT = re.compile(r"/\*.*\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Action:
    """An action that prints a field, or an entry of it."""

    field: str
    key: str | int | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template.

    Attributes:
        text: as written.
        parts: texts and actions in order.
        problem: why it cannot be executed here, a sentence; "": it can.
    """

    text: str
    parts: tuple[str | _Action, ...]
    problem: str = ""

    def execute(self, data: Mapping[str, Value]) -> str:
        """Return the text with the actions' values.

        Raises:
            ValueError: there is a `problem`, or an action that fails in Go, too: a field that
                does not exist, a list that is too short.
        """
        if self.problem:
            raise ValueError(self.problem)
        return "".join(p if isinstance(p, str) else _print(p, data) for p in self.parts)


def parse_template(text: str) -> Template:
    """Return a template; what is not understood here is its `problem`.

    Raises:
        ValueError: Go would refuse it, too: an action that does not end.
    """
    parts: list[str | _Action] = []
    problem = ""
    position, trim = 0, False
    while True:
        start = text.find(LEFT, position)
        plain = text[position:] if start < 0 else text[position:start]
        plain = plain.lstrip(_BLANKS) if trim else plain
        if start < 0:
            parts.append(plain)
            break
        body, position, trims = _action_text(text, start)
        parts.append(plain.rstrip(_BLANKS) if trims[0] else plain)
        trim = trims[1]
        action = _parse_action(body)
        if isinstance(action, str):
            problem = problem or action
        elif action is not None:
            parts.append(action)
    return Template(text, tuple(part for part in parts if part != ""), problem)


def _action_text(text: str, start: int) -> tuple[str, int, tuple[bool, bool]]:
    """Return an action's text, where it ends, and whether blanks before and after it go."""
    begin = start + len(LEFT)
    before = text[begin : begin + 1] == "-" and text[begin + 1 : begin + 2] in (*_BLANKS,)
    begin += before
    end = begin
    if text[begin:].lstrip(_BLANKS).startswith("/*"):  # a comment may hold what it likes
        end = text.find("*/", begin)
        end = len(text) if end < 0 else end + len("*/")
    while end < len(text) and not text.startswith(RIGHT, end):
        if text[end] in '"`':
            end = _string_end(text, end)
        end += 1
    if end >= len(text):
        raise ValueError(f"the template's action {show(text[start:])} does not end with {RIGHT}")
    body = text[begin:end]
    after = len(body) > 1 and body[-1] == "-" and body[-2] in _BLANKS
    return (body[:-1] if after else body).strip(_BLANKS), end + len(RIGHT), (before, after)


def _string_end(text: str, start: int) -> int:
    """Return where the quoted string that starts here ends, or the text's end."""
    end = start + 1
    while end < len(text) and text[end] != text[start]:
        end += 2 if text[end] == "\\" and text[start] == '"' else 1
    return min(end, len(text))


def _parse_action(body: str) -> _Action | str | None:
    """Return the action, None for a comment, or a sentence about what is not understood."""
    if _COMMENT.fullmatch(body):
        return None
    found = _FIELD.fullmatch(body)
    if found is not None:
        return _Action(found[1], found[2], "field" if found[2] else "")
    found = _INDEX.fullmatch(body)
    if found is not None:
        return _Action(found[1], _literal(found[2]) if found[2] else int(found[3]), "index")
    word = body.split(None, 1)[0] if body else ""
    what = f"`{word}`" if word.isalpha() else "this action"
    return (
        f"{what} in {LEFT}{body}{RIGHT} is beyond what is read of Go's templates: fields such as "
        f'{LEFT}.Series{RIGHT}, and {LEFT}index .LabelValuesByName "label"{RIGHT}'
    )


def _literal(text: str) -> str:
    """Return what a Go string literal stands for."""
    if text.startswith("`"):
        return text[1:-1]
    try:
        return str(ast.literal_eval(text))  # the escapes that label names could have are alike
    except (SyntaxError, ValueError):
        return text[1:-1]


def _print(action: _Action, data: Mapping[str, Value]) -> str:
    if action.field not in data:
        known = ", ".join(f".{name}" for name in data)
        raise ValueError(f"the template's field .{action.field} does not exist; there are {known}")
    value = data[action.field]
    if action.key is None:
        return _show(value)
    if isinstance(value, Mapping) and isinstance(action.key, str):
        # A missing entry is the zero value to `index`, and no value at all as a field.
        return value.get(action.key, "" if action.by == "index" else _NO_VALUE)
    if isinstance(value, tuple) and isinstance(action.key, int) and action.key < len(value):
        return value[action.key]
    raise ValueError(f"the template's field .{action.field} has no entry {action.key!r}")


def _show(value: Value) -> str:
    """Return a value as Go prints it: slices and maps in brackets, maps by key."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{value[key]}' for key in sorted(value))}]"
    return f"[{' '.join(value)}]"
