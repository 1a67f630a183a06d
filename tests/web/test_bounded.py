"""Bodies within a size and a time, packed in whatever way."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import count

import httpx2
import pytest

from hpabatch.web.network import pieces_of

GZIP = {"Content-Encoding": "gzip"}
BODY = b"abc" * 1_000_000


def reply(raw: Iterator[bytes], **headers: str) -> httpx2.Response:
    request = httpx2.Request("GET", "http://x")
    return httpx2.Response(200, headers=headers, stream=_Stream(raw), request=request)


class _Stream(httpx2.SyncByteStream):
    def __init__(self, raw: Iterator[bytes]) -> None:
        self._raw = raw

    def __iter__(self) -> Iterator[bytes]:
        return self._raw


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[k : k + size] for k in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 7, 1000, 10**7])
def test_bodies_come_out_as_they_were(size: int) -> None:
    packed = gzip.compress(BODY)
    assert b"".join(pieces_of(reply(cut(packed, size), **GZIP), 1, lambda: 0)) == BODY
    assert b"".join(pieces_of(reply(cut(BODY[:5000], size)), 1, lambda: 0)) == BODY[:5000]
    assert list(pieces_of(reply(iter(()), **GZIP), 1, lambda: 0)) == []


def test_a_piece_is_no_larger_than_a_mebibyte() -> None:
    pieces = list(pieces_of(reply(iter([gzip.compress(bytes(10**7))]), **GZIP), 1, lambda: 0))
    assert sum(map(len, pieces)) == 10**7
    assert max(map(len, pieces)) == 2**20


@pytest.mark.parametrize(
    ("flags", "silent"),
    [(8, b"name"), (0, b"\x00\x00\x00\xff\xff")],
    ids=["a name without an end", "blocks without a byte"],
)
def test_what_unfolds_to_nothing_has_a_deadline(flags: int, silent: bytes) -> None:
    head = bytes([0x1F, 0x8B, 8, flags, *bytes(6)])
    raw = iter([head, *[silent] * 1000])
    ticks = count()
    with pytest.raises(httpx2.ReadTimeout):
        list(pieces_of(reply(raw, **GZIP), 20, lambda: next(ticks)))
    assert len(list(raw)) > 900, "most of it was not waited for"


@pytest.mark.parametrize("more", [b"more", gzip.compress(b"more")], ids=["text", "gzip"])
def test_what_comes_after_the_end_is_refused(more: bytes) -> None:
    raw = iter([gzip.compress(b"all"), *[more] * 1000])
    with pytest.raises(httpx2.DecodingError, match="after the end"):
        list(pieces_of(reply(raw, **GZIP), 1, lambda: 0))
    assert len(list(raw)) == 999


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "deflate", "zstd", "odd"])
def test_other_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(httpx2.DecodingError, match="not requested"):
        list(pieces_of(reply(iter([b"x"]), **{"Content-Encoding": encoding}), 1, lambda: 0))


def test_what_is_not_packed_as_it_says_is_refused() -> None:
    with pytest.raises(httpx2.DecodingError):
        list(pieces_of(reply(iter([b"{}"]), **GZIP), 1, lambda: 0))
