"""Reader of files of JSON documents: audit logs, recorded watches.

A document stands on one line, so one that was cut short (its writer was killed, or still writes)
costs only itself. One document at a time is in memory.
"""

from __future__ import annotations

import gzip
import json
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

Wanted = Callable[[bytes], bool]
"""Whether the text of a document is worth decoding."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object of a file, and its line, from 1."""

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
        wanted: documents of which this is false are skipped; None: all are decoded.
    """

    def __init__(self, path: Path, remarks: Remarks) -> None:
        """Take a file, which may be compressed by gzip."""
        self.path = path
        self.remarks = remarks
        self.wanted: Wanted | None = None
        self._found = False

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the file.

        Raises:
            UnreadableError: the file cannot be read, or does not hold JSON documents.
        """
        for number, line in self._lines():
            text = line.strip()
            is_whole = text.startswith(b"{") and text.endswith(b"}")
            if is_whole and self.wanted is not None and not self.wanted(text):
                continue
            value = _loads(text)
            if value is not None:
                self._found = True
                yield Document(self.path, number, value)
            elif text.startswith(b"{") and (self._found or not is_whole):
                told = f"{self.path}:{number}: cut short, ignored"
                self.remarks.add("documents that are cut short", told)
            elif text:
                self._no_json(number, text)

    def _no_json(self, number: int, text: bytes) -> None:
        shown = text.strip()[:60].decode("utf-8", "replace")
        if not self._found:
            raise UnreadableError(
                f"{self.path}:{number}: expected a JSON object on a line, got {shown!r}; see "
                "docs/prometheus.md for how to record an audit log or a watch"
            )
        self.remarks.add("lines that are not JSON", f"{self.path}:{number}: not JSON, ignored")

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        try:
            with open_regular(self.path) as file:
                packed = file.peek(len(_GZIP)).startswith(_GZIP)
                stream = gzip.GzipFile(fileobj=file) if packed else file
                while line := stream.readline(MAX_BYTES + 1):
                    number += 1
                    if len(line) > MAX_BYTES:
                        raise UnreadableError(
                            f"{self.path}:{number}: a document of more than {MAX_BYTES // 2**20} "
                            "MiB; an audit log has a JSON object on each line"
                        )
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
