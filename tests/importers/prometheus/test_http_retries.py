"""Tests of retries: which requests, how often, how long the client waits; time is not real here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest

from hpabatch.importers.prometheus.client.http import GaveUpError, Server
from hpabatch.importers.prometheus.client.replies import retry_after_s
from tests.importers.prometheus.mock_server import (
    AT,
    ONE,
    TWO,
    URL,
    Clock,
    Mock,
    Replying,
    again,
    failure,
    page,
    success,
    vector,
)

# --- what is tried again -------------------------------------------------------------------------


PASSING: list[Replying] = [
    *[failure(status, "later") for status in (408, 422, 425, 429, 500, 502, 503, 504, 520)],
    page(),
    page(502),
    httpx2.Response(200, content=b'{"status":"succ'),
    httpx2.Response(204),
    success({"resultType": "matrix", "result": []}),
    success({"resultType": "vector", "result": []}, warnings=["a store is away"]),
    vector(at_ms=AT + 1),
    vector("one"),
    httpx2.ConnectError("[Errno 111] Connection refused"),
    httpx2.ConnectTimeout("timed out"),
    httpx2.ReadTimeout("timed out"),
    httpx2.ReadError("[Errno 104] Connection reset by peer"),
    httpx2.RemoteProtocolError("peer closed connection without sending complete message body"),
    httpx2.DecodingError("Error -3 while decompressing data"),
    httpx2.ProxyError("502 Bad Gateway"),
]


@pytest.mark.parametrize("reply", PASSING, ids=range(len(PASSING)))
def test_what_may_pass_is_tried_again(reply: Replying) -> None:
    mock = Mock([again(reply)])
    server = mock.server()
    assert server.fetch(TWO).points["value"].to_list() == [1.0]
    assert len(mock.sent) == 2
    (told,) = mock.told
    assert told.startswith(URL)
    assert "retry in 1 s (2 of " in told
    assert server.figures.retries == 1
    assert 0.7 < sum(mock.clock.slept) < 1.3


def test_waits_grow_up_to_the_longest() -> None:
    mock = Mock(otherwise=lambda _: failure(500, "x"))
    with pytest.raises(GaveUpError):
        mock.server(longest_wait_s=20).fetch(ONE)
    waits = mock.clock.slept
    assert len(waits) == 7
    for wait, about in zip(waits, (1, 2, 4, 8, 16, 20, 20), strict=True):
        assert 0.75 * about <= wait <= min(20, 1.25 * about)


def test_an_address_where_nobody_is_is_told_of_soon() -> None:
    refused = httpx2.ConnectError("[Errno -2] Name or service not known")

    def reply(request: httpx2.Request) -> httpx2.Response:
        raise refused

    clock = Clock()
    server = Server(URL, clock=clock, sleep=clock.sleep, transport=httpx2.MockTransport(reply))
    with pytest.raises(GaveUpError, match=r"cannot be reached.*It was tried 4 times"):
        server.build_info()
    assert sum(clock.slept) < 10


# --- Retry-After ---------------------------------------------------------------------------------

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "10"}, 10.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Mon, 99999999999999999999 Jan 2020 00:00:00 GMT"}, None),
        ({"retry-after": f"Mon, 01 Jan 2020 00:00:00 +{'9' * 30}"}, None),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30), usegmt=True)}, 30.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=30), usegmt=True)}, 0.0),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:30 -0000"}, 30.0),
        (
            {  # a server whose clock is an hour behind
                "retry-after": format_datetime(NOW - timedelta(seconds=3590), usegmt=True),
                "date": format_datetime(NOW - timedelta(hours=1), usegmt=True),
            },
            10.0,
        ),
    ],
)
def test_retry_after(headers: dict[str, str], wait: float | None) -> None:
    assert retry_after_s(headers, NOW.timestamp()) == wait


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_is_left_alone_as_long_as_it_asks(status: int) -> None:
    mock = Mock([failure(status, "x", Retry_After="17")])
    assert mock.server().fetch(ONE).count == 1
    assert mock.clock.slept == [17.0]
    mock = Mock([failure(status, "x", Retry_After="86400")])
    assert mock.server(longest_wait_s=60).fetch(ONE).count == 1
    assert mock.clock.slept == [60.0]
