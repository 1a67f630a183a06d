"""A running watch: the lines of one response, until the server ends it or its time is over."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Final

import httpx2

from hpabatch.cluster.connection.errors import TooLarge
from hpabatch.cluster.connection.wire import Wire
from hpabatch.web.bounded import plain_pieces
from hpabatch.web.network import Sockets

LINE_BYTES: Final = 32 * 2**20
_REPLY_S: Final = 30.0
"""Time limit of the beginning of a watch."""
_GRACE_S: Final = 30.0
"""A server counts as gone when a watch lasts longer than requested by this."""


class WatchStream:
    """A running watch. One thread enters it and reads its lines, any thread may end it."""

    def __init__(
        self, wire: Wire, path: str, params: Mapping[str, str], timeout_s: int, longest_line: int
    ) -> None:
        """Prepare; see `ApiClient.watch`."""
        self._wire = wire
        self._path = path
        self._params = params
        self._timeout_s = timeout_s
        self._longest_line = longest_line
        self._sockets = Sockets()
        self._stack = ExitStack()
        self._response: httpx2.Response | None = None

    def __enter__(self) -> WatchStream:
        """Begin.

        Raises:
            ApiError: it was refused, or there was no response.
        """
        with ExitStack() as stack:
            response = stack.enter_context(
                self._wire.replied("watch", self._path, self._params, _REPLY_S, self._sockets)
            )
            if response.status_code != 200:
                raise self._wire.refusal(response, self._path)
            # From now on there may be no data until the server ends it.
            response.request.extensions["timeout"]["read"] = self._timeout_s + _GRACE_S
            self._response = response
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        """End it, and close its connection."""
        return self._stack.__exit__(type(error) if error else None, error, None)

    def __iter__(self) -> Iterator[bytes]:
        """Yield its lines, each one event, until the server ends it.

        Raises:
            TooLarge: a line is too long.
        """
        assert self._response is not None, "enter it first"
        return split_lines(self._pieces(self._response), self._longest_line, self._path)

    def _pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        """Yield the pieces until the server ends the watch, or should have ended it."""
        until = time.monotonic() + self._timeout_s + _GRACE_S
        for piece in plain_pieces(response):
            yield piece
            if time.monotonic() > until:
                return

    def end(self) -> None:
        """End it from another thread: its reader gets an Unreachable instead of the next line."""
        self._sockets.shut()


def split_lines(pieces: Iterator[bytes], longest: int, what: str = "") -> Iterator[bytes]:
    """Yield the lines of a body that comes in pieces, without their ends.

    Raises:
        TooLarge: a line is longer than `longest` bytes; the message has its beginning.
    """
    kept: list[bytes] = []
    size = 0
    for piece in pieces:
        start, end = 0, piece.find(b"\n")
        while end >= 0:
            line = piece[start:end]
            if kept:
                kept.append(line)
                line = b"".join(kept)
                kept, size = [], 0
            if len(line) > longest:
                raise TooLarge(_too_long(line, longest, what), 200)
            if line:
                yield line
            start, end = end + 1, piece.find(b"\n", end + 1)
        if start < len(piece):
            kept.append(piece[start:])
            size += len(piece) - start
            if size > longest:
                raise TooLarge(_too_long(b"".join(kept), longest, what), 200)
    if kept:
        yield b"".join(kept)


def _too_long(line: bytes, longest: int, what: str) -> str:
    """Return the message for a line that is too long, with the object's name if it is found."""
    found = [
        match.group(1).decode("utf-8", "replace")
        for field in (b"namespace", b"name")
        if (match := re.search(rb'"%b":"([^"\\]{1,253})"' % field, line[:4096]))
    ]
    named = f" ({'/'.join(found)})" if found else ""
    return f"{what}: an event of more than {longest / 2**20:.3g} MiB{named} was not read"
