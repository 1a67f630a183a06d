"""Declared keys of YAML files: dataclasses whose fields say what they are read from.

A field declares its key once, with the kind of value, the meaning and the default, for the reader
and the reference in the docs. The reader raises all mistakes of a document in one MistakesError;
what fields mean together is checked where the fields of a mapping are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, Protocol

from hpabatch.inputs.documents import Mistakes, Place

_KEY: Final = "key"
_PARTS: Final = "parts"


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
    least: int = 1

    def read(self, place: Place) -> tuple[Any, ...]:
        """Return the items."""
        if not isinstance(place.value, list):
            if self.only_lists:
                place.expected(self.wants)
            return (self.item.read(place),)
        if not place.value and self.least:
            place.expected(self.wants)
        count = len(place.value)
        if not self.least <= count <= self.most:
            place.refuse(f"expected from {self.least} to {self.most:,} items, got {count:,}")
        mistakes = Mistakes()
        found = tuple(mistakes.tried(self.item.read, item) for item in place.items())
        mistakes.refuse()
        return found


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping whose keys are free names; reads as pairs in the order of the file.

    `check` gets each key and raises a ValueError with a sentence. With `nulls`, null is absent.
    """

    item: Kind
    wants: str
    check: Callable[[str], None] | None = None
    may_be_empty: bool = False
    nulls: bool = False

    def read(self, place: Place) -> tuple[tuple[str, Any], ...]:
        """Return (key, value) of each member."""
        if not isinstance(place.value, Mapping) or not (place.value or self.may_be_empty):
            place.expected(self.wants)
        mistakes = Mistakes()
        found = []
        for name, part in place.members().items():
            if self.nulls and part.value is None:
                continue
            try:
                if self.check is not None:
                    self.check(name)
            except ValueError as error:
                mistakes.add(part.problem(str(error)))
            found.append((name, mistakes.tried(self.item.read, part)))
        mistakes.refuse()
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping: what it holds and means; `default` is for the docs.

    `field` is its name in what a `Record` reads.
    """

    name: str
    kind: Kind
    meaning: str = ""
    field: str = ""
    default: str = ""
    required: bool = False


def key(name: str, kind: Kind, meaning: str = "", default: Any = MISSING, shown: str = "") -> Any:
    """Return a dataclass field that is read from a key; without a default it is required.

    `shown` is the default in the docs.
    """
    declared = Key(name, kind, meaning, default=shown, required=default is MISSING)
    return field(default=default, metadata={_KEY: declared})


def part(of: type[Any]) -> Any:
    """Return a dataclass field that is a dataclass read from keys of the same mapping."""
    if any(item.required for item in keys_of(of)):
        return field(metadata={_PARTS: of})
    return field(default_factory=of, metadata={_PARTS: of})


def keys_of(of: type[Any]) -> Iterator[Key]:
    """Yield the declared keys of a dataclass, those of its parts in their place."""
    for item in fields(of):
        if (declared := item.metadata.get(_KEY)) is not None:
            yield replace(declared, field=item.name)
        elif (inner := item.metadata.get(_PARTS)) is not None:
            yield from keys_of(inner)


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys that becomes an object.

    A dataclass `of` declares its keys; others, such as `dict`, take them by name. Its field `place`
    gets the place in the file. `check_keys` gets the `Place` of the mapping before the object is
    made; its method `checked` refuses what the keys say together, and returns the object.

    Attributes:
        title: its heading in the docs; `text` stands below.
        more: keys that the dataclass does not declare, or declares as another kind.
        short: a key whose value may stand for the whole mapping: `growth: 1.4`; the only required.
        example: is shown there, a step or entry that must read without fault.
        some: whether one key must be there, whichever.
        nulls: whether a key with null is absent.
        without: keys of the dataclass that are unknown here.
        others: whether other keys are left, as of objects of Kubernetes.
    """

    of: Callable[..., Any]
    title: str = ""
    text: str = ""
    more: tuple[Key, ...] = ()
    short: str | None = None
    example: str = ""
    some: bool = False
    nulls: bool = False
    without: tuple[str, ...] = ()
    others: bool = False

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys."""
        declared = keys_of(self.of) if isinstance(self.of, type) and is_dataclass(self.of) else ()
        own = {item.name: item for item in (*declared, *self.more)}
        return tuple(item for name, item in own.items() if name not in self.without)

    @property
    def names(self) -> list[str]:
        """The names of the keys."""
        return [item.name for item in self.keys]

    @property
    def wants(self) -> str:
        """What is wanted."""
        if self.nulls:
            return "a mapping"
        mapping = f"a mapping with the keys {', '.join(self.names)}"
        return mapping if self.short is None else f"{self._short_key.kind.wants}, or {mapping}"

    @property
    def _short_key(self) -> Key:
        return next(item for item in self.keys if item.name == self.short)

    def read(self, place: Place) -> Any:
        """Return the object.

        Raises:
            MistakesError: not a mapping, unknown keys, missing ones, or wrong values.
        """
        if not isinstance(place.value, Mapping):
            return self._read_short(place)
        if self.some and not place.value:
            place.expected(f"one or more of {', '.join(self.names)}")
        members, mistakes, keys = place.members(), Mistakes(), self.keys
        unknown = {} if self.others else place.unknown(item.name for item in keys)
        mistakes.add(*(sentence for sentence, _ in unknown.values()))
        misspelled = {nearest for _, nearest in unknown.values()}
        if self.nulls:
            members = {name: item for name, item in members.items() if item.value is not None}
        for item in keys:
            if item.required and item.name not in {*members, *misspelled}:
                mistakes.add(
                    place.at(item.name).problem(f"expected {item.kind.wants}, got nothing")
                )
        given = {
            item.field: mistakes.tried(item.kind.read, members[item.name])
            for item in keys
            if item.name in members
        }
        mistakes.refuse()
        return self._made(place, given)

    def _read_short(self, place: Place) -> Any:
        if self.short is None or place.value is None:
            place.expected(self.wants)
        item = self._short_key
        if isinstance(place.value, list) and not isinstance(item.kind, ListOf):
            place.expected(self.wants)
        return self._made(place, {item.field: item.kind.read(place)})

    def _made(self, place: Place, given: dict[str, Any]) -> Any:
        if hasattr(self.of, "check_keys"):
            self.of.check_keys(place)
        if isinstance(self.of, type) and is_dataclass(self.of):
            return _made(self.of, place, given)
        return self.of(**given)


def record_of(
    kinds: Mapping[str, Kind],
    *required: str,
    of: Callable[..., Any] = dict,
    others: bool = False,
) -> Record:
    """Return the kind of a mapping by its keys, which are read by their names; null is absent."""
    keys = (Key(name, kind, field=name, required=name in required) for name, kind in kinds.items())
    return Record(of, more=tuple(keys), nulls=True, others=others)


def _made(
    of: type[Any], place: Place, given: Mapping[str, Any], stands: Place | None = None
) -> Any:
    """Return a dataclass of the given values, those of its parts among them.

    A part `stands` where its last key does.
    """
    values = {}
    for item in fields(of):
        if (inner := item.metadata.get(_PARTS)) is not None:
            there = place.members() if isinstance(place.value, Mapping) else {}
            own = [there[declared.name] for declared in keys_of(inner) if declared.name in there]
            values[item.name] = _made(inner, place, given, own[-1] if own else place)
        elif item.name in given:
            values[item.name] = given[item.name]
        elif item.name == "place":
            values["place"] = str(stands or place)
    made = of(**values)
    return made.checked(place) if hasattr(made, "checked") else made


def member_of(place: Place, name: str) -> Place:
    """Return the place of a key that a `Record` has read (of a short form, the whole)."""
    return place.members()[name] if isinstance(place.value, Mapping) else place


def never(wants: str, fix: str) -> Scalar:
    """Return the kind of a key that is known, but wrong here."""

    def parse(value: object) -> None:
        raise WrongValueError(f"expected {wants}", fix)

    return Scalar(wants, parse)
