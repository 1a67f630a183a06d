"""Declared fields of YAML files: kinds of values, mappings with known keys.

A file declares its fields once, for the reader and the reference in the docs. The reader raises all
mistakes of a document in one MistakesError; what fields mean together is checked where the fields
of a mapping are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hpabatch.inputs.documents import Mistakes, Place


class Kind(Protocol):
    """A kind of value."""

    @property
    def wants(self) -> str:
        """A noun phrase, after "expected" and in the docs: `a duration such as 15s`."""

    def read(self, place: Place) -> Any:
        """Return the value that a place stands for.

        Raises:
            MistakesError: it is something else.
        """


class WrongValueError(ValueError):
    """A value of another kind: the problem, and what to do."""

    def __init__(self, problem: str, fix: str = "") -> None:
        """Keep both; the message has them as one sentence."""
        super().__init__(f"{problem}; {fix}" if fix else problem)
        self.problem, self.fix = problem, fix


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value. `parse` raises a ValueError with a sentence, or without one."""

    wants: str
    parse: Callable[[Any], Any]

    def read(self, place: Place) -> Any:
        """Return the parsed value; null is none."""
        if place.value is None:
            place.expected(self.wants)
        try:
            return self.parse(place.value)
        except WrongValueError as error:
            place.refuse(error.problem, error.fix)
        except ValueError as error:
            if not str(error):
                place.expected(self.wants)
            place.refuse(str(error))


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
                place.expected(self.wants)
            return (self.item.read(place),)
        if not 1 <= len(place.value) <= self.most:
            place.refuse(f"expected from 1 to {self.most} items, got {len(place.value)}")
        mistakes = Mistakes()
        found = tuple(mistakes.tried(self.item.read, item) for item in place.items())
        mistakes.refuse()
        return found


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
    """A mapping with known keys. `title` is its heading in the docs, `text` stands below.

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
            MistakesError: not a mapping, unknown keys, missing ones, or wrong values.
        """
        if not isinstance(place.value, Mapping):
            return self._read_short(place)
        members, mistakes = place.members(), Mistakes()
        unknown = [*place.unknown_keys(self.names)]
        mistakes.add(*unknown)
        for key in self.keys:
            misspelled = any(told.endswith(f"did you mean {key.name}?") for told in unknown)
            if key.required and key.name not in members and not misspelled:
                mistakes.add(place.problem(f"expected the key {key.name}: {key.kind.wants}"))
        found = {
            key.field: mistakes.tried(key.kind.read, members[key.name])
            for key in self.keys
            if key.name in members
        }
        mistakes.refuse()
        return found

    def _read_short(self, place: Place) -> dict[str, Any]:
        key = next((key for key in self.keys if key.name == self.short), None)
        is_list = isinstance(place.value, list)
        if key is None or place.value is None or (is_list and not isinstance(key.kind, ListOf)):
            place.expected(self.wants)
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

    `check` gets each key and raises a ValueError with a sentence.
    """

    item: Kind
    wants: str
    check: Callable[[str], None]

    def read(self, place: Place) -> tuple[tuple[str, Any], ...]:
        """Return (key, value) of each member; there must be one."""
        if not isinstance(place.value, Mapping) or not place.value:
            place.expected(self.wants)
        mistakes = Mistakes()
        found = []
        for key, part in place.members().items():
            try:
                self.check(key)
            except ValueError as error:
                mistakes.add(part.problem(str(error)))
            found.append((key, mistakes.tried(self.item.read, part)))
        mistakes.refuse()
        return tuple(found)


def member_of(place: Place, name: str) -> Place:
    """Return the place of a key that `Shape.read` has found (of a short form, the whole)."""
    return place.members()[name] if isinstance(place.value, Mapping) else place
