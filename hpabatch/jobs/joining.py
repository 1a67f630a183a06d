"""Joining Parquet files of one schema without reading their rows.

A Parquet file is `PAR1`, the row groups' bytes, and a footer that says where each one is. So files
are joined by copying the bytes between, in order, and writing one footer with every place moved:
at the speed of the disk, in bounded memory (the places stand in a temporary file until all are
known), and the same bytes for the same parts. Field numbers are those of apache/parquet-format,
src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

from hpabatch.errors import UnreadableError
from hpabatch.jobs import thrift
from hpabatch.jobs.thrift import Items, Struct

MAGIC: Final = b"PAR1"
_TAIL: Final = 8  # the footer's length, and MAGIC again
_PIECE: Final = 1 << 22
_MOST_FOOTER: Final = (1 << 31) - 1

# FileMetaData
_SCHEMA: Final = 2
_ROWS: Final = 3
_GROUPS: Final = 4
_KEY_VALUES: Final = 5
# RowGroup
_COLUMNS: Final = 1
_GROUP_ROWS: Final = 3
_GROUP_OFFSET: Final = 5
_ORDINAL: Final = 7
_MOST_ORDINAL: Final = (1 << 15) - 1
# ColumnChunk: file_offset, offset_index_offset, column_index_offset
_CHUNK_OFFSETS: Final = (2, 4, 6)
_META: Final = 3
# ColumnMetaData: data_page_offset, index_page_offset, dictionary_page_offset, bloom_filter_offset
_META_OFFSETS: Final = (9, 10, 11, 14)


def join_parquet(parts: Iterable[Path], metadata: Mapping[str, str], sink: Path) -> int:
    """Write one file with the row groups of all parts, in their order; return its rows.

    Args:
        parts: Parquet files of one schema, at least one.
        metadata: the key-value metadata; those of the parts are dropped.
        sink: where the file goes; it is overwritten.

    Raises:
        UnreadableError: a part is not a Parquet file, or has another schema.
        OSError: a part cannot be read, or the file cannot be written.
    """
    footer: Struct = {}
    first, rows, count = sink, 0, 0
    with sink.open("wb") as out, TemporaryFile(dir=sink.parent) as groups:
        out.write(MAGIC)
        for part in parts:
            with part.open("rb") as file:
                theirs, end = _read_footer(part, file)
                if not footer:
                    footer, first = {k: v for k, v in theirs.items() if k != _GROUPS}, part
                if theirs[_SCHEMA] != footer[_SCHEMA]:
                    raise UnreadableError(f"{part}: its columns are not those of {first}")
                shift = out.tell() - len(MAGIC)
                try:
                    for group in theirs[_GROUPS][1][1]:
                        if group[_GROUP_ROWS][1]:
                            groups.write(thrift.write_struct(_moved(group, shift, count)))
                            count += 1
                    rows += theirs[_ROWS][1]
                except (KeyError, TypeError, ValueError):
                    raise _unreadable(part) from None
                _copy(part, file, out, end)
        _write_footer(out, footer, groups, count, rows, metadata)
    return rows


def _read_footer(part: Path, file: IO[bytes]) -> tuple[Struct, int]:
    size = file.seek(0, os.SEEK_END)
    length = -1
    if size >= len(MAGIC) + _TAIL:
        file.seek(size - _TAIL)
        tail = file.read(_TAIL)
        length = int.from_bytes(tail[:4], "little") if tail[4:] == MAGIC else -1
    end = size - _TAIL - length
    if length < 0 or end < len(MAGIC):
        raise UnreadableError(f"{part} is not a Parquet file or was cut short; remove it")
    file.seek(end)
    try:
        footer = thrift.read_struct(file.read(length))
    except ValueError:
        raise _unreadable(part) from None
    if _SCHEMA not in footer:
        raise _unreadable(part)
    return footer, end


def _unreadable(part: Path) -> UnreadableError:
    return UnreadableError(f"{part}: its Parquet footer cannot be read; remove it")


def _moved(group: Struct, shift: int, ordinal: int) -> Struct:
    kind, chunks = group[_COLUMNS][1]
    moved = {**group, _COLUMNS: (thrift.LIST, (kind, [_moved_chunk(c, shift) for c in chunks]))}
    _add(moved, _GROUP_OFFSET, shift)
    if _ORDINAL in moved:
        if ordinal > _MOST_ORDINAL:
            del moved[_ORDINAL]
        else:
            moved[_ORDINAL] = (thrift.I16, ordinal)
    return moved


def _moved_chunk(chunk: Struct, shift: int) -> Struct:
    moved, meta = dict(chunk), dict(chunk[_META][1])
    for number in _CHUNK_OFFSETS:
        _add(moved, number, shift)
    for number in _META_OFFSETS:
        _add(meta, number, shift)
    moved[_META] = (thrift.STRUCT, meta)
    return moved


def _add(fields: Struct, number: int, shift: int) -> None:
    """Move a place; 0 means that there is none."""
    if number in fields and fields[number][1]:
        kind, value = fields[number]
        fields[number] = (kind, value + shift)


def _copy(part: Path, file: IO[bytes], out: IO[bytes], end: int) -> None:
    file.seek(len(MAGIC))
    left = end - len(MAGIC)
    while left:
        piece = file.read(min(left, _PIECE))
        if not piece:
            raise UnreadableError(f"{part} became shorter while it was read; write it again")
        out.write(piece)
        left -= len(piece)


def _write_footer(
    out: IO[bytes],
    footer: Struct,
    groups: IO[bytes],
    count: int,
    rows: int,
    metadata: Mapping[str, str],
) -> None:
    """Write a footer whose row groups, so many, stand as bytes in a file of their own."""
    pairs: list[Any] = [
        {1: (thrift.BINARY, name.encode()), 2: (thrift.BINARY, text.encode())}
        for name, text in sorted(metadata.items())
    ]
    items: Items = (thrift.STRUCT, pairs)
    whole = {
        **footer,
        _ROWS: (thrift.I64, rows),
        _KEY_VALUES: (thrift.LIST, items),
    }
    before = {number: whole[number] for number in sorted(whole) if number < _GROUPS}
    behind = {number: whole[number] for number in sorted(whole) if number > _GROUPS}
    begin = out.tell()
    out.write(thrift.write_fields(before))
    out.write(thrift.write_list(_GROUPS, max(before), thrift.STRUCT, count))
    groups.seek(0)
    shutil.copyfileobj(groups, out)
    out.write(thrift.write_fields(behind, _GROUPS) + b"\0")
    size = out.tell() - begin
    if size > _MOST_FOOTER:
        raise UnreadableError(
            f"{count:,} row groups do not fit into one Parquet file; name a folder for the result"
        )
    out.write(size.to_bytes(4, "little") + MAGIC)
