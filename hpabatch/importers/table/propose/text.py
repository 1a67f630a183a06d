"""Text of a proposed map: YAML with a comment above each key that needs one."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NO_STRINGS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_WIDTH: Final = 96
_READY: Final = (
    "asked: how long after its creation a pod is ready. Otherwise it is inferred from what young "
    "pods use; of totals it is 10s"
)
_GUESSED: Final = "results say that these are guesses; take out what you have stated yourself"


@dataclass(frozen=True, slots=True)
class Entry:
    """A value as YAML (or its `rows`), why it is that, and what is assumed."""

    value: str
    told: str = ""
    assumed: str = ""
    rows: tuple[str, ...] = ()


@dataclass(slots=True)
class Draft:
    """A map: entries by key of each section ("" is the map itself), and comments."""

    level: str = "pod"
    title: list[str] = field(default_factory=list)
    sections: dict[str, dict[str, Entry]] = field(
        default_factory=lambda: {n: {} for n in ("", "columns", "limits", "requests", "hpas")}
    )
    unused: list[str] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)

    def add(self, section: str, key: str, value: str, told: str = "", assumed: str = "") -> None:
        """Add an entry."""
        self.sections[section][key] = Entry(value, told, assumed)

    def assumptions(self) -> list[str]:
        """Return what is assumed, in the order of the text."""
        entries = (entry for part in self.sections.values() for entry in part.values())
        return [entry.assumed for entry in entries if entry.assumed]

    def text(self) -> str:
        """Return the map."""
        lines = [f"# {line}".rstrip() for line in self.title]
        for name, entries in self.sections.items():
            if not name:
                lines += _entries({"level": Entry(self.level), **entries}, "")
            elif entries:
                lines += [f"{name}:", *_entries(entries, "  ")]
                lines += _comment(self.unused, "  ") if name == "columns" else []
        if "ready" not in self.sections["columns"]:
            lines += [*_comment([_READY], ""), "# lives: {ready_after: 20s}"]
        if self.guessed:
            lines += [*_comment([_GUESSED], ""), f"guessed: [{', '.join(self.guessed)}]"]
        return "\n".join(lines) + "\n"


def scalar(text: str) -> str:
    """Return a string as YAML: plain where that reads as the same string."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NO_STRINGS:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text)


def flow(**keys: str) -> str:
    """Return a mapping on one line; values are YAML, empty ones are left out."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in keys.items() if value) + "}"


def quoted_column(name: str) -> str:
    """Return a column's name as expressions have it."""
    return '"' + name.replace('"', '""') + '"'


def _entries(entries: Mapping[str, Entry], indent: str) -> list[str]:
    lines: list[str] = []
    for key, entry in entries.items():
        lines += _comment([entry.told] if entry.told else [], indent)
        lines += _comment([f"assumed: {entry.assumed}"] if entry.assumed else [], indent)
        lines.append(f"{indent}{key}: {entry.value}".rstrip())
        lines += [f"{indent}  {line}" for line in entry.rows]
    return lines


def _comment(sentences: Iterable[str], indent: str) -> list[str]:
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(
            "".join(c if c.isprintable() else "?" for c in sentence),
            _WIDTH,
            initial_indent=f"{indent}# ",
            subsequent_indent=f"{indent}#   ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    ]
