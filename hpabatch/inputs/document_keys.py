"""Which keys a mapping may have and what their values are, said once: to the reader and the docs.

A `Kind` says what a value must be and reads it; a `Shape` is a mapping with known keys. Everything
wrong is refused with a UsageError that names the place, the value and what is allowed there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hpabatch.inputs.documents import Place, show


class Kind(Protocol):
    """What a value may be."""

    @property
    def wants(self) -> str:
        """What is wanted, after "is not" and in the docs: `a duration such as 15s`."""

    def read(self, place: Place) -> Any:
        """Return the value that a place stands for.

        Raises:
            UsageError: it is something else.
        """


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value. `parse` gets it and raises a ValueError with its complaint, or with none."""

    wants: str
    parse: Callable[[Any], Any]

    def read(self, place: Place) -> Any:
        """Return the parsed value; an absent one (null) is none."""
        if place.value is None:
            place.refuse(f"nothing is given; wanted: {self.wants}")
        try:
            return self.parse(place.value)
        except ValueError as error:
            place.refuse(str(error) or f"{show(place.value)} is not {self.wants}")


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values, or one value for a list of one; never empty. Reads as a tuple."""

    item: Kind
    wants: str
    most: int = 1000
    only_lists: bool = False

    def read(self, place: Place) -> tuple[Any, ...]:
        """Return the items."""
        if not isinstance(place.value, list):
            if self.only_lists:
                place.refuse(f"{show(place.value)} is not {self.wants}")
            return (self.item.read(place),)
        if not 1 <= len(place.value) <= self.most:
            place.refuse(f"a list of {len(place.value)} items; from 1 to {self.most} are possible")
        return tuple(self.item.read(item) for item in place.items())


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping: what it holds and means; `default` is for the docs.

    `field` is its name in what `Shape.read` returns.
    """

    name: str
    kind: Kind
    meaning: str
    field: str
    default: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A mapping with known keys. `title` is its heading in the docs, `text` what stands below.

    `example` is shown there, a step or entry that must read without fault.
    `short` is a key whose value may stand for the whole mapping: `growth: 1.4`; it must be the only
    required one.
    """

    title: str
    text: str
    keys: tuple[Key, ...]
    short: str | None = None
    example: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the keys."""
        return [key.name for key in self.keys]

    @property
    def wants(self) -> str:
        """What is wanted."""
        mapping = f"a mapping with the keys {', '.join(self.names)}"
        if self.short is None:
            return mapping
        key = next(key for key in self.keys if key.name == self.short)
        return f"{key.kind.wants}, or {mapping}"

    def read(self, place: Place) -> dict[str, Any]:
        """Return the values of the keys that are there, by field.

        Raises:
            UsageError: not a mapping, an unknown key, a missing one, or a wrong value.
        """
        if not isinstance(place.value, Mapping):
            return self._read_short(place)
        members = place.members()
        known = {key.name: key for key in self.keys}
        for name in members:
            if name not in known:
                place.refuse_key(name, known)
        for key in self.keys:
            if key.required and key.name not in members:
                place.refuse(f"the key {key.name} is missing: {key.kind.wants}")
        return {known[name].field: known[name].kind.read(part) for name, part in members.items()}

    def _read_short(self, place: Place) -> dict[str, Any]:
        if place.value is None:
            place.refuse(f"nothing is given; wanted: {self.wants}")
        key = next((key for key in self.keys if key.name == self.short), None)
        is_list = isinstance(place.value, list)
        if key is None or (is_list and not isinstance(key.kind, ListOf)):
            place.refuse(f"{show(place.value)} is not {self.wants}")
        return {key.field: key.kind.read(place)}


@dataclass(frozen=True, slots=True)
class Built:
    """A mapping of a shape that becomes an object; `build` checks what keys say together.

    `build` gets the place (of the mapping) and what the shape has read.
    """

    shape: Shape
    build: Callable[[Place, dict[str, Any]], Any]

    @property
    def wants(self) -> str:
        """What is wanted."""
        return self.shape.wants

    def read(self, place: Place) -> Any:
        """Return the object."""
        return self.build(place, self.shape.read(place))


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping whose keys are free names; reads as pairs in the order of the file.

    `check` gets each key and raises a ValueError with its complaint.
    """

    item: Kind
    wants: str
    check: Callable[[str], None]

    def read(self, place: Place) -> tuple[tuple[str, Any], ...]:
        """Return (key, value) of each member; there must be one."""
        if not isinstance(place.value, Mapping) or not place.value:
            found = "an empty mapping" if place.value == {} else show(place.value)
            place.refuse(f"{found} is not {self.wants}")
        found_pairs = []
        for key, part in place.members().items():
            try:
                self.check(key)
            except ValueError as error:
                part.refuse(str(error))
            found_pairs.append((key, self.item.read(part)))
        return tuple(found_pairs)


def member_of(place: Place, name: str) -> Place:
    """Return the place of a key that `Shape.read` has found (of a short form, the whole)."""
    return place.members()[name] if isinstance(place.value, Mapping) else place
