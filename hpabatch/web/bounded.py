"""Bodies of HTTP responses, read up to a limit of size and time."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import httpx2

_TAKEN: Final = ("", "identity", "gzip")
"""gzip compresses at most about a thousandfold; compressed twice, or by a denser code, 64 KiB can
expand to more than any memory."""
_PIECE_BYTES: Final = 2**20


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
