"""Strict decoding of a small YAML document: every complaint names the file and the path in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from hpabatch.errors import UsageError
from hpabatch.history.files import open_regular
from hpabatch.inputs.manifest_documents import DocumentError, parse_documents
from hpabatch.model.quantity import Quantity
from hpabatch.model.suggestions import did_you_mean

MAX_BYTES = 16 * 2**20
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_DURATION_MS = 366 * 86_400_000
# Thousandths are kept in 64 bits; the same limit as for amounts of rows (MILLI_MAX).
_MAX_MILLI = 2**62
_LARGEST = Quantity.from_milli(_MAX_MILLI)


def read_document(path: Path | str, what: str) -> object:
    """Return the one YAML or JSON document of a file; a key given twice is refused.

    Raises:
        UsageError: the file cannot be read, is not YAML, or holds not exactly one document.
    """
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not UTF-8 text"
        raise UsageError(f"{what} {path} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{what} {path} is larger than {MAX_BYTES >> 20} MiB: name another")
    try:
        documents = parse_documents(text)
    except DocumentError as error:
        raise UsageError(f"{what} {path}: {error.describe(0)}") from None
    if len(documents) != 1:
        raise UsageError(f"{what} {path} holds {len(documents)} documents; one is wanted")
    for key, line, _, first in documents[0].duplicates:
        raise UsageError(
            f"{what} {path}: the key {key!r} stands twice, in lines {first + 1} and {line + 1}: "
            "keep one"
        )
    return documents[0].value


class Section:
    """A mapping of the document: each key is taken once, what is left is refused."""

    def __init__(self, value: object, source: str, path: str = "") -> None:
        """Take a mapping found at a path of a source.

        Raises:
            UsageError: it is not a mapping.
        """
        self.source = source
        self.path = path
        if not isinstance(value, Mapping):
            self.refuse("", f"a mapping is wanted, found {show(value)}")
        self._left: dict[str, object] = dict(value)
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        """Whether a key is there and not taken yet."""
        return key in self._left

    def at(self, key: str) -> str:
        """Return the path of a key."""
        return ".".join(part for part in (self.path, key) if part)

    def refuse(self, key: str, problem: str) -> NoReturn:
        """Raise a UsageError about a key (or, with "", about the mapping itself)."""
        place = self.at(key)
        raise UsageError(f"{self.source}: {place + ': ' if place else ''}{problem}")

    def take(self, key: str) -> object:
        """Return a value, None where it is absent or null."""
        self._known.append(key)
        return self._left.pop(key, None)

    def rest(self) -> dict[str, object]:
        """Take all keys that are left (a mapping with free keys)."""
        left, self._left = self._left, {}
        return left

    def section(self, key: str) -> Section | None:
        """Take a mapping, None where it is absent."""
        value = self.take(key)
        return None if value is None else Section(value, self.source, self.at(key))

    def text(self, key: str) -> str | None:
        """Take a text that is not empty."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.refuse(key, f"a text is wanted, found {show(value)}: put it in quotes")
        if not value:
            self.refuse(key, "an empty text")
        return value

    def is_text(self, key: str, word: str) -> bool:
        """Take a key if its value is just this word, and say whether it was."""
        if self._left.get(key) != word:
            return False
        self.take(key)
        return True

    def one_of(self, key: str, allowed: Iterable[str]) -> str | None:
        """Take one of a few texts."""
        value, names = self.text(key), list(allowed)
        if value is not None and value not in names:
            hint = did_you_mean(value, names)
            self.refuse(key, f"{value!r} is not one of {', '.join(names)}{hint}")
        return value

    def whole(self, key: str, minimum: int, maximum: int = 2**31 - 1) -> int | None:
        """Take a whole number within bounds."""
        value = self.take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, f"a whole number is wanted, found {show(value)}")
        if not minimum <= value <= maximum:
            self.refuse(key, f"{value} is not between {minimum} and {maximum}")
        return value

    def number(self, key: str, minimum: float, maximum: float) -> float | None:
        """Take a number within bounds."""
        value = self.take(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"a number is wanted, found {show(value)}")
        if not minimum <= value <= maximum:
            self.refuse(key, f"{value} is not between {minimum:g} and {maximum:g}")
        return float(value)

    def duration_ms(self, key: str) -> int | None:
        """Take a duration such as 500ms, 15s, 1m, 2h or 7d, in ms; a bare 0 is one, too."""
        value = self.take(key)
        if value is None:
            return None
        found = _DURATION.fullmatch("0s" if value == 0 else value if isinstance(value, str) else "")
        if found is None:
            self.refuse(
                key, f"{show(value)} is not a duration: a whole number and ms, s, m, h or d (15s)"
            )
        duration_ms = int(found[1]) * _UNITS_MS[found[2]]
        if duration_ms > _MAX_DURATION_MS:
            self.refuse(key, f"{value} is longer than a year")
        return duration_ms

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Take a text or a list of texts."""
        value = self.take(key)
        if value is None:
            return None
        items = value if isinstance(value, list) else [value]
        for item in items:
            if not isinstance(item, str):
                self.refuse(key, f"a text or a list of texts is wanted, found {show(item)}")
        return tuple(items)

    def close(self) -> None:
        """Refuse the keys that nobody took.

        Raises:
            UsageError: the first of them, with the known key that looks like it.
        """
        for key in self._left:
            known = sorted(set(self._known))
            hint = did_you_mean(key, known)
            self.refuse(key, f"unknown key{hint or f' (known here: {chr(44).join(known)})'}")


def quantity_milli(value: object) -> int | str:
    """Return a Kubernetes quantity (0.5, 500m, 1Gi) in thousandths, or the text of a complaint."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return f"a quantity is wanted (500m, 1Gi), found {show(value)}"
    try:
        quantity = Quantity.parse(value)
    except ValueError as error:
        return f"{value!r} is not a quantity such as 500m or 1Gi: {error}"
    # Thousandths of more would wrap, as they do in Kubernetes.
    if quantity.compare(_LARGEST) > 0:
        return f"{show(value)} is impossibly large: at most {_MAX_MILLI // 1000:.2g} is possible"
    return f"{value!r} is negative" if quantity.sign() < 0 else quantity.milli()


def show(value: object) -> str:
    """Return a value for a message, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
