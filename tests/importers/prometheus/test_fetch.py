from __future__ import annotations

import pytest

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.queries import Query, SeriesRequest
from tests.importers.prometheus.made import Series
from tests.importers.prometheus.responses import Memory

MINUTE = 60_000
DAY = 86_400_000
QUERY = Query("x", ("x",))


def fleet(pods: int, minutes: int = 1440) -> list[Series]:
    return [
        ({"__name__": "x", "pod": f"p{k}"}, [(m * MINUTE, k + m / 7) for m in range(minutes)])
        for k in range(pods)
    ]


def request(pods: int) -> SeriesRequest:
    return SeriesRequest(QUERY, "raw", 0, DAY, {"pod": tuple(f"p{k}" for k in range(pods))})


def test_what_was_too_large_once_is_not_asked_for_again() -> None:
    server = Memory(fleet(4), most=900)
    with server:
        server.joined([request(4)])
        first, refused = len(server.asked), server.halved
        server.joined([SeriesRequest(QUERY, "raw", DAY, 2 * DAY, request(4).names)])
        assert server.halved == refused
        assert len(server.asked) - first == first - refused


def test_a_size_is_too_large_only_where_a_half_succeeds() -> None:
    server = Memory(fleet(4), most=5)
    with server:
        with pytest.raises(UsageError):
            server.joined([request(4)])
        server.most = 1 << 30
        first = len(server.asked)
        server.joined([request(4)])
    assert len(server.asked) == first + 1


def test_what_cannot_be_cut_is_told() -> None:
    server = Memory(fleet(1), most=5)
    with (
        server,
        pytest.raises(UsageError, match="cannot be divided further"),
    ):
        server.joined([request(1)])


def test_a_long_query_is_cut_by_names_first() -> None:
    names = tuple(f"{'x' * 600}{k}" for k in range(8))
    series: list[Series] = [({"__name__": "x", "pod": name}, [(MINUTE, 1.0)]) for name in names]
    server = Memory(series, most=1)
    with server:
        found = server.joined([SeriesRequest(QUERY, "raw", 0, 10 * MINUTE, {"pod": names})])
        assert found.count == 8
    asked = [ask for ask in server.asked if isinstance(ask, SeriesRequest)]
    assert [len(ask.names["pod"]) for ask in asked[:2]] == [8, 4]


def test_an_answer_larger_than_wanted_makes_the_next_ones_smaller() -> None:
    server = Memory(fleet(4), most_samples=1000)
    with server:
        server.joined([request(4)])
        first = len(server.asked)
        found = server.joined([SeriesRequest(QUERY, "raw", 1, DAY + 1, request(4).names)])
    assert first == 1
    assert len(server.asked) > 3
    assert found.count == 4 * 1439
