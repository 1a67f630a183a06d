"""Thrift's compact protocol, as far as a Parquet footer needs it: read, change, write.

A struct is a dict from field number to (type, value), in the order of the bytes; nothing needs to
be known of a format's fields to copy them. Specification: apache/thrift,
doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
STRUCT: Final = 12

_LONG_LIST: Final = 15  # in a list's header: the length follows
_MOST_NESTED: Final = 64

Struct: TypeAlias = dict[int, tuple[int, Any]]
Items: TypeAlias = tuple[int, list[Any]]
"""A list: the type of its values, and they."""


def read_struct(data: bytes) -> Struct:
    """Return the struct that some bytes begin with.

    Raises:
        ValueError: the bytes end too early, or are not Thrift.
    """
    try:
        return _Reader(data).struct(0)
    except (IndexError, struct.error) as error:
        raise ValueError("the bytes are not Thrift or are cut short") from error


def write_struct(fields: Struct) -> bytes:
    """Return the bytes of a struct, its fields in the dict's order."""
    return write_fields(fields) + b"\0"


def write_fields(fields: Struct, before: int = 0) -> bytes:
    """Return the bytes of fields that stand in a struct behind the field `before`."""
    out = bytearray()
    for number, (kind, value) in fields.items():
        out += _header(number, before, kind)
        before = number
        if kind not in (TRUE, FALSE):
            out += _value(kind, value)
    return bytes(out)


def write_list(number: int, before: int, kind: int, length: int) -> bytes:
    """Return the bytes that a field begins with which is a list of so many values of a type.

    The values' own bytes follow.
    """
    return _header(number, before, LIST) + _length(kind, length)


def _header(number: int, before: int, kind: int) -> bytes:
    if 0 < number - before <= 15:
        return bytes([number - before << 4 | kind])
    return bytes([kind]) + _integer(number)


def _value(kind: int, value: Any) -> bytes:
    if kind in (I16, I32, I64):
        return _integer(value)
    if kind == BINARY:
        return _varint(len(value)) + value  # type: ignore[no-any-return]
    if kind == STRUCT:
        return write_struct(value)
    if kind in (LIST, SET):
        of, values = value
        return _length(of, len(values)) + b"".join(_value(of, one) for one in values)
    if kind == DOUBLE:
        return struct.pack("<d", value)
    return bytes([value])


def _length(kind: int, length: int) -> bytes:
    if length < _LONG_LIST:
        return bytes([length << 4 | kind])
    return bytes([_LONG_LIST << 4 | kind]) + _varint(length)


def _integer(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Reader:
    """Walks over bytes; an IndexError means that they end too early."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a Thrift number of more than 64 bits")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise IndexError
        found = self.data[self.at : end]
        self.at = end
        return found

    def struct(self, depth: int) -> Struct:
        if depth > _MOST_NESTED:
            raise ValueError("Thrift structs are nested too deeply")
        fields: Struct = {}
        number = 0
        while header := self.byte():
            delta, kind = header >> 4, header & 15
            number = number + delta if delta else self.integer()
            # A boolean field's value is its type.
            value = kind == TRUE if kind in (TRUE, FALSE) else self.value(kind, depth)
            fields[number] = (kind, value)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if kind in (I16, I32, I64):
            return self.integer()
        if kind == BINARY:
            return self.take(self.varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self.items(depth + 1)
        if kind == DOUBLE:
            return struct.unpack("<d", self.take(8))[0]
        if kind in (TRUE, FALSE, BYTE):
            return self.byte()
        raise ValueError(f"Thrift type {kind} is not known")

    def items(self, depth: int) -> Items:
        header = self.byte()
        length, kind = header >> 4, header & 15
        if length == _LONG_LIST:
            length = self.varint()
        if length > len(self.data):
            raise IndexError
        return kind, [self.value(kind, depth) for _ in range(length)]
