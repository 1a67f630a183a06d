"""Reader of files of JSON documents: audit logs, recorded watches.

A document stands on one line or over several lines. A new document begins with a brace at the start
of a line, so a document that was cut short (its writer was killed, or is still writing) costs only
itself. One document at a time is in memory.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hpabatch.errors import UnreadableError
from hpabatch.history.files import open_regular

MAX_BYTES: Final = 256 * 2**20
"""Of one document; the largest are lists of all HPAs."""

_MAX_REMARKS: Final = 5
_GZIP = b"\x1f\x8b"
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_DEPTH = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}

Wanted = Callable[[bytes], bool]
"""Whether the text of a document is worth decoding."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object of a file, and the line in which it begins, from 1."""

    path: Path
    line: int
    value: dict[str, Any]

    @property
    def place(self) -> str:
        """Return `file:line`."""
        return f"{self.path}:{self.line}"


@dataclass(slots=True)
class Remarks:
    """Warnings; of many of a kind the first ones, and the number of the others."""

    told: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, text: str) -> None:
        """Add a warning of a kind, which is a phrase for the plural, e.g. "documents cut short"."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= _MAX_REMARKS:
            self.told.append(text)

    def count(self, kind: str) -> None:
        """Count an event of a kind that is reported as a number."""
        self.numbers[kind] = self.numbers.get(kind, 0) + 1

    def all(self) -> tuple[str, ...]:
        """Return all warnings."""
        more = [
            f"{count - _MAX_REMARKS} more {kind}"
            for kind, count in self.counts.items()
            if count > _MAX_REMARKS
        ]
        return (*self.told, *more, *(f"{count} {kind}" for kind, count in self.numbers.items()))


class DocumentReader:
    """Reader of the documents of one file; `wanted` may be set between two of them.

    Attributes:
        wanted: documents on one line of which this is false are skipped; None: all are decoded.
        skipped: how many were.
    """

    def __init__(self, path: Path, remarks: Remarks) -> None:
        """Take a file, which may be compressed by gzip."""
        self.path = path
        self.remarks = remarks
        self.wanted: Wanted | None = None
        self.skipped = 0
        self._found = False

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the file.

        Raises:
            UnreadableError: the file cannot be read, or does not hold JSON documents.
        """
        start, depth, size, parts = 0, 0, 0, list[bytes]()
        for number, line in self._lines():
            if parts and line.startswith(b"{"):
                self._cut(start)
                parts = []
            if not parts:
                found = self._one_line(number, line)
                if found is not None:
                    yield from found
                    continue
                start, depth, size = number, 0, 0
            parts.append(line)
            depth, size = depth + _depth(line), size + len(line)
            if size > MAX_BYTES:
                raise self._too_large(start)
            if depth <= 0:
                yield from self._decoded(start, b"".join(parts))
                parts = []
        if parts:
            self._cut(start)

    def _one_line(self, number: int, line: bytes) -> list[Document] | None:
        """Return the document of a line, if it holds one; None: it goes on in the next lines."""
        if not line.strip():
            return []
        if not line.startswith(b"{"):
            self._no_json(number, line)
            return []
        if not line.rstrip().endswith(b"}"):
            return None
        if self.wanted is not None and not self.wanted(line):
            self.skipped += 1
            return []
        value = _loads(line)
        if value is None:
            # It may be the first line of several, such as {"a": {}.
            return None if _depth(line) > 0 else self._decoded(number, line)
        self._found = True
        return [Document(self.path, number, value)]

    def _decoded(self, number: int, text: bytes) -> list[Document]:
        value = _loads(text)
        if value is None:
            self._no_json(number, text)
            return []
        self._found = True
        return [Document(self.path, number, value)]

    def _no_json(self, number: int, text: bytes) -> None:
        shown = text.strip()[:60].decode("utf-8", "replace")
        if not self._found:
            raise UnreadableError(
                f"{self.path}:{number}: expected a JSON object, got {shown!r}; see "
                "docs/hpa-events.md for how to record an audit log or a watch"
            )
        self.remarks.add("lines that are not JSON", f"{self.path}:{number}: not JSON, ignored")

    def _cut(self, number: int) -> None:
        self.remarks.add(
            "documents that are cut short", f"{self.path}:{number}: cut short, ignored"
        )

    def _too_large(self, number: int) -> UnreadableError:
        return UnreadableError(
            f"{self.path}:{number}: a document of more than {MAX_BYTES // 2**20} MiB; an audit log "
            "has a JSON object on each line"
        )

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        try:
            with open_regular(self.path) as file:
                packed = file.peek(len(_GZIP)).startswith(_GZIP)
                stream = gzip.GzipFile(fileobj=file) if packed else file
                while line := stream.readline(MAX_BYTES + 1):
                    number += 1
                    if len(line) > MAX_BYTES:
                        raise self._too_large(number)
                    yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        except EOFError:
            self.remarks.add("files that are cut short", f"{self.path}: the gzip file is cut short")
        except (OSError, zlib.error) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise UnreadableError(f"{self.path} cannot be read: {reason}") from error


def _loads(text: bytes) -> dict[str, Any] | None:
    """Return a JSON object, None if the text is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _depth(line: bytes) -> int:
    """Return how many brackets a line opens more than it closes; JSON texts have no line breaks."""
    return sum(_DEPTH.get(found, 0) for found in _STRUCTURE.findall(line))
