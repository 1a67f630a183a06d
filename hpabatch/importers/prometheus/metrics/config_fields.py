"""One mapping of a configuration, read field by field: mistakes are collected, none is raised.

So a file with five mistakes is corrected once. What nobody asked for is a mistake, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hpabatch.errors import UsageError
from hpabatch.inputs.fields import show
from hpabatch.model.suggestions import did_you_mean

_SHOWN = 30  # mistakes; a file with more is of another kind


@dataclass(slots=True)
class Mistakes:
    """What is wrong with some files, in the order of reading."""

    found: list[str] = field(default_factory=list)

    def add(self, place: str, problem: str) -> None:
        """Note a mistake; `place` is the file and the path in it."""
        self.found.append(f"{place}: {problem}")

    def refuse(self) -> None:
        """Raise what was found.

        Raises:
            UsageError: all mistakes, a line each where there are several.
        """
        if len(self.found) == 1:
            raise UsageError(self.found[0])
        if self.found:
            shown = [*self.found[:_SHOWN]]
            more = len(self.found) - _SHOWN
            shown += [f"and {more} more"] if more > 0 else []
            raise UsageError(f"{len(self.found)} mistakes:", *(f"  {line}" for line in shown))


class ConfigFields:
    """A mapping at a path of a source; each getter says what is wrong with its field's value."""

    def __init__(self, value: object, source: str, path: str, mistakes: Mistakes) -> None:
        """Take a value; one that is no mapping is a mistake and then read as an empty one."""
        self.source, self.path, self.mistakes = source, path, mistakes
        self._known: list[str] = []
        self._value: Mapping[str, object] = {}
        self._is_mapping = isinstance(value, Mapping)
        if isinstance(value, Mapping):
            self._value = value
        else:
            self.mistake("", f"a mapping is wanted, found {show(value)}")

    def __contains__(self, key: str) -> bool:
        """Whether a key is there with a value."""
        return self._value.get(key) is not None

    def at(self, key: str) -> str:
        """Return the path of a key, of the mapping itself for ""."""
        return ".".join(part for part in (self.path, key) if part)

    def place(self, key: str = "") -> str:
        """Return the source and the path of a key, for messages."""
        return ": ".join(part for part in (self.source, self.at(key)) if part)

    def mistake(self, key: str, problem: str) -> None:
        """Note a mistake at a key."""
        self.mistakes.add(self.place(key), problem)

    def get(self, key: str) -> object:
        """Return a value of any type, None where it is absent or null."""
        self._known.append(key)
        return self._value.get(key)

    def text(self, key: str, required: bool = False) -> str:
        """Return a text, "" where it is absent (which `required` makes a mistake)."""
        value = self.get(key)
        if isinstance(value, str):
            if required and not value.strip():
                self.mistake(key, "an empty text")
            return value
        if value is not None:
            self.mistake(key, f"a text is wanted, found {show(value)}: put it in quotes")
        elif required and self._is_mapping:
            self.mistake(key, "is missing")
        return ""

    def flag(self, key: str) -> bool | None:
        """Return true or false, None where it is absent."""
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.mistake(key, f"true or false is wanted, found {show(value)}")
        return None

    def whole(self, key: str, minimum: int, maximum: int) -> int | None:
        """Return a whole number within bounds, None where it is absent."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
            return value
        self.mistake(
            key, f"a whole number from {minimum:,} to {maximum:,} is wanted, found {show(value)}"
        )
        return None

    def one_of(self, key: str, allowed: Iterable[str], required: bool = False) -> str:
        """Return one of a few words, "" where it is absent or another (a mistake)."""
        names, value = list(allowed), self.text(key, required)
        if not value or value in names:
            return value
        hint = did_you_mean(value, names)
        self.mistake(key, f"{value!r} is not one of {', '.join(names)}{hint}")
        return ""

    def child(self, key: str) -> ConfigFields | None:
        """Return a mapping, None where it is absent."""
        value = self.get(key)
        if value is None:
            return None
        return ConfigFields(value, self.source, self.at(key), self.mistakes)

    def children(self, key: str) -> list[ConfigFields]:
        """Return a list of mappings, none where it is absent."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.mistake(key, f"a list is wanted, found {show(value)}")
            return []
        return [
            ConfigFields(item, self.source, f"{self.at(key)}[{place}]", self.mistakes)
            for place, item in enumerate(value)
        ]

    def members(self) -> dict[str, ConfigFields]:
        """Return a mapping of mappings under free names."""
        self._known.extend(self._value)
        return {
            name: ConfigFields(item, self.source, self.at(name), self.mistakes)
            for name, item in self._value.items()
        }

    def texts(self, key: str) -> dict[str, str]:
        """Return a mapping of texts under free names."""
        inner = self.child(key)
        return {} if inner is None else inner.all_texts()

    def all_texts(self) -> dict[str, str]:
        """Return the members of this mapping, all of which are to be texts; those that are."""
        for name in self._value:
            self.text(name)
        return {name: item for name, item in self._value.items() if isinstance(item, str)}

    def left(self) -> list[str]:
        """Return the keys that nobody asked for."""
        return [key for key in self._value if key not in self._known]

    def close(self) -> None:
        """Note every key that nobody asked for as a mistake."""
        known = sorted(set(self._known))
        for key in self.left():
            hint = did_you_mean(key, known) or f" (known here: {', '.join(known)})"
            self.mistake(key, f"unknown key{hint}")
