"""Replies within a time and a size: deadlines of HTTP clients, bodies that are read up to a limit.

The HTTP library bounds the time between two pieces of a reply. A server that sends a byte of its
headers, or an interim reply (1xx), now and then is bounded by nothing: hence a deadline under it.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpcore2
import httpx2

_TAKEN: Final = ("", "identity", "gzip")
"""Packed once by gzip a body is a thousandth of its size at least; packed twice, or by a denser
code, 64 KiB can unfold to more than any memory."""
_PIECE_BYTES: Final = 2**20


class Deadline:
    """Until when a thread's requests may take; each thread has its own."""

    def __init__(self) -> None:
        """Begin without any."""
        self._own = threading.local()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Let whatever this thread waits for inside end in time, with httpx2.ReadTimeout."""
        self._own.until = time.monotonic() + seconds
        try:
            yield
        finally:
            self._own.until = None

    def left(self, timeout: float | None) -> float | None:
        """Return how long one wait may take (s), which was allowed to take `timeout`."""
        until: float | None = getattr(self._own, "until", None)
        if until is None:
            return timeout
        left = max(until - time.monotonic(), 0.001)
        return left if timeout is None else min(timeout, left)

    def keep(self, transports: Iterable[httpx2.BaseTransport | None]) -> None:
        """Let connections that these make from now on keep the deadline."""
        for transport in transports:
            if isinstance(transport, httpx2.HTTPTransport):
                # The library takes a backend for its pools, but hands none to them.
                pool: Any = transport._pool
                pool._network_backend = _Backend(pool._network_backend, self)


class _Backend(httpcore2.NetworkBackend):
    """Opens connections that keep a deadline."""

    def __init__(self, inner: httpcore2.NetworkBackend, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def connect_tcp(self, host: str, port: int, *given: Any, **named: Any) -> _Stream:
        return _Stream(self._inner.connect_tcp(host, port, *given, **named), self._deadline)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream(httpcore2.NetworkStream):
    """A connection that keeps a deadline."""

    def __init__(self, inner: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(self, *given: Any, **named: Any) -> _Stream:
        return _Stream(self._inner.start_tls(*given, **named), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def pieces_of(
    reply: httpx2.Response, until: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[bytes]:
    """Yield the pieces of a body, at least one for whatever comes; they may be empty.

    Args:
        reply: whose body was not read yet.
        until: by the clock; a piece that comes later is the last attempt.
        clock: seconds that only go forward.

    Raises:
        httpx2.ReadTimeout: it was still coming at the deadline.
        httpx2.DecodingError: it is packed in a way that could unfold to any size, or not packed as
            it says.
    """
    for piece in plain_pieces(reply):
        yield piece
        if clock() > until:
            raise httpx2.ReadTimeout("the answer was still coming", request=reply.request)


def plain_pieces(reply: httpx2.Response) -> Iterator[bytes]:
    """Yield the pieces of a body however long it takes, see `pieces_of`."""
    encoding = reply.headers.get("content-encoding", "").strip().lower()
    if encoding not in _TAKEN:
        raise httpx2.DecodingError("a Content-Encoding that was not asked for")
    return _unpacked(reply.iter_raw()) if encoding == "gzip" else reply.iter_raw()


def _unpacked(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what gzip packed, at least one piece for each that came.

    The HTTP library's decoder is silent while nothing comes out: a header without an end, or what
    follows the end, which it keeps in memory.
    """
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    for packed in raw:
        try:
            piece = unpacker.decompress(packed, _PIECE_BYTES)
            yield piece
            while piece:
                piece = unpacker.decompress(unpacker.unconsumed_tail, _PIECE_BYTES)
                yield piece
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from None
        if unpacker.unused_data:
            raise httpx2.DecodingError("bytes after the end of what gzip packed")


def read_body(reply: httpx2.Response, most: int, until: float) -> tuple[bytes, bool]:
    """Return a body, and whether that is all of it: not if it is larger than `most` bytes.

    Raises:
        httpx2.HTTPError: see `pieces_of`, or the connection failed.
    """
    pieces, size = [], 0
    for piece in pieces_of(reply, until):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            return b"".join(pieces)[:most], False
    return b"".join(pieces), True
