"""Mappings read field by field: for files whose keys depend on each other.

Mistakes are noted, not raised: `Mistakes.refuse` raises all of them at the end. A key that nobody
asked for is a mistake, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Kind
from hpabatch.inputs.documents import Mistakes, Place, show
from hpabatch.model.suggestions import nearest


class Fields:
    """A mapping of a document. A value that is wrong is noted and then counts as absent."""

    def __init__(self, place: Place, mistakes: Mistakes) -> None:
        """Take a value; one that is no mapping is a mistake and read as an empty one."""
        self.here, self.mistakes = place, mistakes
        self.is_mapping = isinstance(place.value, Mapping)
        self._members: dict[str, Place] = place.members() if self.is_mapping else {}
        self._known: dict[str, None] = {}
        self._missing: dict[str, str] = {}
        if not self.is_mapping:
            mistakes.add(place.problem(f"expected a mapping, got {show(place.value)}"))

    def __contains__(self, key: str) -> bool:
        """Whether a key is there with a value."""
        return self.value(key) is not None

    def value(self, key: str) -> object:
        """Return a value of any type, None where it is absent or null."""
        member = self._members.get(key)
        return None if member is None else member.value

    def at(self, key: str) -> Place:
        """Return the place of a key, that of the mapping for a key that is absent."""
        if key in self._members:
            return self._members[key]
        return self.here.within(".".join(filter(None, (self.here.path, key))), None)

    def path(self, key: str) -> str:
        """Return the path of a key within the document."""
        return self.at(key).path

    def mistake(self, key: str, problem: str, fix: str = "") -> None:
        """Note a mistake at a key, at the mapping itself for ""."""
        place = self.at(key) if key else self.here
        self.mistakes.add(place.problem(problem, fix))

    def refuse(self, key: str, problem: str, fix: str = "") -> NoReturn:
        """Raise a MistakesError of one mistake at a key."""
        place = self.at(key) if key else self.here
        place.refuse(problem, fix)

    def missing(self, key: str, wanted: str) -> None:
        """Note that a key is absent; one whose value is wrong was noted already."""
        if self.is_mapping and key not in self:
            self._missing[key] = self.at(key).problem(f"expected {wanted}, got nothing")
            self.mistakes.add(self._missing[key])

    def get(self, key: str) -> object:
        """Return a value of any type, None where it is absent or null; the key is known then."""
        self._known[key] = None
        return self.value(key)

    def read(self, key: str, kind: Kind) -> Any:
        """Return a value of a kind, None where it is absent, null or wrong."""
        if self.get(key) is None:
            return None
        return self.mistakes.tried(kind.read, self._members[key])

    def text(self, key: str, required: bool = False) -> str:
        """Return a string, "" where it is absent (which `required` makes a mistake) or wrong."""
        value = self.get(key)
        if isinstance(value, str) and not required:
            return value
        if required:
            self.missing(key, "a string")
        return self.read(key, kinds.text()) or ""

    def one_of(self, key: str, allowed: Iterable[str], required: bool = False) -> str:
        """Return one of a few words, "" where it is absent or another."""
        kind = kinds.word(*allowed)
        if required:
            self.missing(key, kind.wants)
        return self.read(key, kind) or ""

    def whole(self, key: str, minimum: int, maximum: int = 2**31 - 1) -> int | None:
        """Return a whole number within bounds, None where it is absent or wrong."""
        found: int | None = self.read(key, kinds.whole(minimum, maximum))
        return found

    def child(self, key: str) -> Fields | None:
        """Return a mapping, None where it is absent."""
        return None if self.get(key) is None else Fields(self._members[key], self.mistakes)

    def children(self, key: str) -> list[Fields]:
        """Return a list of mappings, none where it is absent."""
        value = self.get(key)
        if isinstance(value, list):
            return [Fields(item, self.mistakes) for item in self._members[key].items()]
        if value is not None:
            self.mistake(key, f"expected a list, got {show(value)}")
        return []

    def members(self) -> dict[str, Place]:
        """Return the places of all members; their keys are free names."""
        self._known.update(dict.fromkeys(self._members))
        return self._members

    def mappings(self, key: str) -> dict[str, Fields]:
        """Return the mappings below a key by their free names, none where it is absent."""
        inner = self.child(key)
        members = {} if inner is None else inner.members()
        return {name: Fields(item, self.mistakes) for name, item in members.items()}

    def texts(self) -> dict[str, str]:
        """Return the members of this mapping, all of which are to be strings; those that are."""
        found = {name: (self.text(name), self.value(name)) for name in self._members}
        return {name: value for name, (_, value) in found.items() if isinstance(value, str)}

    def get_all(self, keys: Iterable[str]) -> None:
        """Make keys known."""
        self._known.update(dict.fromkeys(keys))

    def left(self) -> list[str]:
        """Return the paths of the keys that nobody asked for."""
        return [place.path for key, place in self._members.items() if key not in self._known]

    def close(self) -> None:
        """Note every key that nobody asked for as a mistake.

        A key that is missing because it is misspelled is told once, as the unknown key.
        """
        if not self.is_mapping:
            return
        for key in self._members:
            near = "" if key in self._known else nearest(key, self._known)
            self.mistakes.found.pop(self._missing.get(near, ""), None)
        self.mistakes.add(*self.here.unknown_keys(self._known))
