r"""Safe printing of names and messages: none controls a terminal or forges a line.

Names of objects, paths and messages may hold anything. What Unicode calls other or a separator
(control and format characters, bidirectional overrides, zero-width characters, tags, surrogates,
private use, line and paragraph separators, every blank but the space) and what is ignorable by
default (variation selectors, fillers) is printed as an escape of Python: `\n`, `\r`, `\t`, `\x1b`,
`\u202e`, `\U000e0041`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_IGNORABLE: Final = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff"
)
_SUSPECT: Final = re.compile(rf"[^ -~\u00a1-\u02ff]|[\u00ad\\{_IGNORABLE}]")
_INVISIBLE: Final = re.compile(f"[{_IGNORABLE}]")
_SHORT: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}
_FORMULA: Final = re.compile("[=+@\uff0b\uff0d\uff1d\uff20-].")
_NUMBER: Final = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?([eE][+-]?[0-9]+)?%?")


def printable(name: str) -> str:
    r"""Return a name with invisible characters escaped, and `\` as `\\`.

    The escapes are reversible, so different names are never shown alike.
    """
    return _SUSPECT.sub(lambda found: _escape(found[0]), name)


def printable_line(message: str) -> str:
    r"""Return a message as one line: like `printable`, but `\` stays as it is.

    Messages quote values, whose own escapes would be doubled.
    """
    return _SUSPECT.sub(lambda found: found[0] if found[0] == "\\" else _escape(found[0]), message)


def listed(words: Collection[str]) -> str:
    """Return words for a sentence: `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def printable_lines(text: str) -> str:
    """Return several lines, each as `printable_line` returns it."""
    return "\n".join(printable_line(line) for line in text.split("\n"))


def printable_cell(text: str) -> str:
    r"""Return a string as a cell of CSV: like `printable`, and no formula for a spreadsheet.

    Spreadsheets calculate what begins with `=`, `+`, `-` or `@`: unless it is a number, that
    character is escaped, too (`\x3d`).
    """
    cell = printable(text)
    if _FORMULA.match(cell) is None or _NUMBER.fullmatch(cell) is not None:
        return cell
    return _numbered(cell[0]) + cell[1:]


def printable_json(text: str) -> str:
    """Return equal JSON with invisible characters as `\\uXXXX`."""
    return _SUSPECT.sub(lambda found: _json_escape(found[0]), text)


def encodable(text: str) -> str:
    """Return a string that UTF-8 can encode: surrogate pairs joined, lone surrogates replaced.

    YAML reads the two escapes of a pair as two characters; arguments keep bytes that are no UTF-8.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(character: str) -> str:
    return _SHORT.get(character) or (character if _shows(character) else _numbered(character))


def _json_escape(character: str) -> str:
    if character in "\\\n" or _shows(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[k : k + 4]}" for k in range(0, len(units), 4))


def _shows(character: str) -> bool:
    return character.isprintable() and _INVISIBLE.match(character) is None


def _numbered(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def counted(number: int, noun: str) -> str:
    """Return `1 HPA`, `1,200 HPAs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
