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
    told: tuple[str, ...] = ()
    assumed: str = ""
    rows: tuple[str, ...] = ()


@dataclass(slots=True)
class Draft:
    """A map in parts, each with the entries by key; "" is the section itself."""

    level: str = "pod"
    title: list[str] = field(default_factory=list)
    top: dict[str, Entry] = field(default_factory=dict)
    columns: dict[str, Entry] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    limits: dict[str, Entry] = field(default_factory=dict)
    requests: dict[str, Entry] = field(default_factory=dict)
    hpas: dict[str, Entry] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)

    def assumptions(self) -> list[str]:
        """Return what is assumed, in the order of the text."""
        parts = (self.top, self.columns, self.limits, self.requests, self.hpas)
        return [entry.assumed for part in parts for entry in part.values() if entry.assumed]

    def text(self) -> str:
        """Return the map."""
        lines = [f"# {line}".rstrip() for line in self.title]
        lines += _entries({"level": Entry(self.level), **self.top}, "")
        lines += ["columns:", *_entries(self.columns, "  ")]
        lines += _comment(self.unused, "  ")
        for name in ("limits", "requests", "hpas"):
            entries: Mapping[str, Entry] = getattr(self, name)
            if entries:
                lines += [f"{name}:", *_entries(entries, "  ")]
        if "ready" not in self.columns:
            lines += _comment([_READY], "")
            lines.append("# lives: {ready_after: 20s}")
        if self.guessed:
            lines += _comment([_GUESSED], "")
            lines.append(f"guessed: [{', '.join(self.guessed)}]")
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


def _entries(entries: Mapping[str, Entry], indent: str) -> list[str]:
    lines: list[str] = []
    for key, entry in entries.items():
        lines += _comment(entry.told, indent)
        if entry.assumed:
            lines += _comment([f"assumed: {entry.assumed}"], indent)
        if entry.rows:
            lines += [f"{indent}{key}:", *(f"{indent}  {line}" for line in entry.rows)]
        else:
            lines.append(f"{indent}{key}: {entry.value}")
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
