"""JSON codec of the dataclasses of `model.objects.hpa`: a field's name and type are its form.

`min_replicas: int | None` is the integer `minReplicas`, None where it is absent or null. A field
whose type has no None is empty then; when it is written, an empty list or map is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import fields as fields_of
from functools import partial
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from hpabatch.model.objects.decode_fields import Fields
from hpabatch.model.quantity import Quantity

T = TypeVar("T")

_PLAIN: Final[dict[object, Callable[[Fields, str], Any]]] = {
    str: Fields.string,
    str | None: Fields.optional_string,
    int: lambda fields, key: fields.integer(key) or 0,
    int | None: Fields.integer,
    Quantity | None: Fields.quantity,
    tuple[str, ...]: Fields.strings,
    tuple[tuple[str, str], ...]: Fields.string_map,
}
# Strings that the API leaves out when they are empty (omitempty).
_OMITTED_STRINGS: Final = ("apiVersion",)


class _Member(NamedTuple):
    name: str
    key: str
    read: Callable[[Fields, str, Collection[str]], Any]
    is_optional: bool


_MEMBERS: Final[dict[type, tuple[_Member, ...]]] = {}


def read_as(kind: type[T], fields: Fields, without: Collection[str] = ()) -> T:
    """Return the dataclass of an object; keys in `without` are unknown to the object's version."""
    values = {
        name: read(fields, key, without)
        for name, key, read, _ in _members(kind)
        if key not in without
    }
    return kind(**values)


def read_part(kind: type[T], fields: Fields, key: str) -> T:
    """Return the dataclass of a member of an object; an absent one is empty."""
    part = fields.read(key, partial(read_as, kind))
    return kind() if part is None else part


def encode(item: object) -> dict[str, object]:
    """Return a dataclass as a JSON object, members in the order of its fields."""
    written: dict[str, object] = {}
    for name, key, _, is_optional in _members(type(item)):
        value = getattr(item, name)
        is_left_out = not is_optional and (value == () or (value == "" and key in _OMITTED_STRINGS))
        if value is not None and not is_left_out:
            written[key] = _encoded(value)
    return written


def _encoded(value: Any) -> object:
    if isinstance(value, str | int):
        return value
    if isinstance(value, Quantity):
        return str(value)
    if not isinstance(value, tuple):
        return encode(value)
    if value and isinstance(value[0], tuple):  # a map as pairs
        return dict(value)
    return [_encoded(item) for item in value]


def _members(kind: Any) -> tuple[_Member, ...]:
    if kind not in _MEMBERS:
        hints = get_type_hints(kind)
        _MEMBERS[kind] = tuple(
            _Member(item.name, _camel(item.name), _reader(hint), NoneType in get_args(hint))
            for item in fields_of(kind)
            for hint in (hints[item.name],)
        )
    return _MEMBERS[kind]


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def _reader(hint: Any) -> Callable[[Fields, str, Collection[str]], Any]:
    if hint in _PLAIN:
        plain = _PLAIN[hint]
        return lambda fields, key, without: plain(fields, key)
    is_optional = NoneType in get_args(hint)
    kind = get_args(hint)[0] if is_optional else hint
    is_list = get_origin(kind) is tuple
    item = get_args(kind)[0] if is_list else kind

    def read(fields: Fields, key: str, without: Collection[str]) -> Any:
        build = partial(read_as, item, without=without)
        value = fields.read_all(key, build) if is_list else fields.read(key, build)
        return value if is_optional or value is not None else kind()

    return read
