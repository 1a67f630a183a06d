"""Bounded HTTP responses: deadlines of clients, and bodies read up to a limit.

The HTTP library bounds the time between two pieces of a response. A server that now and then sends
a byte of its headers, or an interim response (1xx), is not bounded by that: hence a deadline below
the library.
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
"""gzip compresses at most about a thousandfold; compressed twice, or by a denser code, 64 KiB can
expand to more than any memory."""
_PIECE_BYTES: Final = 2**20


class Deadline:
    """Deadline of a thread's requests; each thread has its own."""

    def __init__(self) -> None:
        """Begin without a deadline."""
        self._own = threading.local()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """End this thread's waits inside the block in time, with httpx2.ReadTimeout."""
        self._own.until = time.monotonic() + seconds
        try:
            yield
        finally:
            self._own.until = None

    def left(self, timeout: float | None) -> float | None:
        """Return the time limit of one wait (s) whose own limit is `timeout`."""
        until: float | None = getattr(self._own, "until", None)
        if until is None:
            return timeout
        left = max(until - time.monotonic(), 0.001)
        return left if timeout is None else min(timeout, left)

    def keep(self, transports: Iterable[httpx2.BaseTransport | None]) -> None:
        """Apply the deadline to connections that these transports open from now on."""
        for transport in transports:
            if isinstance(transport, httpx2.HTTPTransport):
                # The library takes a backend for its pools, but hands none to them.
                pool: Any = transport._pool
                pool._network_backend = _Backend(pool._network_backend, self)


class _Backend(httpcore2.NetworkBackend):
    """Network backend whose connections keep a deadline."""

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
    response: httpx2.Response, until: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[bytes]:
    """Yield the pieces of a body, at least one per received chunk; they may be empty.

    Args:
        response: its body was not read yet.
        until: by the clock; no piece is awaited after that.
        clock: monotonic seconds.

    Raises:
        httpx2.ReadTimeout: it was not complete at the deadline.
        httpx2.DecodingError: its encoding is unsupported, as it could expand to any size, or wrong.
    """
    for piece in plain_pieces(response):
        yield piece
        if clock() > until:
            raise httpx2.ReadTimeout("the response was not complete", request=response.request)


def plain_pieces(response: httpx2.Response) -> Iterator[bytes]:
    """Yield the pieces of a body however long it takes, see `pieces_of`."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _TAKEN:
        raise httpx2.DecodingError("a Content-Encoding that was not requested")
    return _unpacked(response.iter_raw()) if encoding == "gzip" else response.iter_raw()


def _unpacked(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield decompressed pieces, at least one per received chunk.

    The HTTP library's decoder yields nothing while there is no output: for a header without an
    end, or for data after the end, which it keeps in memory.
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


def read_body(response: httpx2.Response, most: int, until: float) -> tuple[bytes, bool]:
    """Return a body, and whether that is all of it: not if it is larger than `most` bytes.

    Raises:
        httpx2.HTTPError: see `pieces_of`, or the connection failed.
    """
    pieces, size = [], 0
    for piece in pieces_of(response, until):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            return b"".join(pieces)[:most], False
    return b"".join(pieces), True
