"""The client over real sockets, through a proxy that does to it what networks and gateways do."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from hpabatch.importers.prometheus.client.http import GaveUpError, Limits, Server
from hpabatch.importers.prometheus.client.queries import Query
from hpabatch.importers.prometheus.client.samples import Samples
from hpabatch.importers.prometheus.client.series_requests import RangeRequest, SeriesRequest
from tests.importers.prometheus.canned_server import canned_server, pod_values
from tests.importers.prometheus.faulty_proxy import FAULTS, LIES, FaultyProxy

AT = 1_700_000_000_000
QUERY = Query("x", ("x",))
PODS = [f"pod-{k}" for k in range(12)]
# Waits of milliseconds, and one attempt more than the proxy's faults in a row allow for.
QUICK = Limits(attempts=8, first_wait_s=0.001, longest_wait_s=0.02)


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with canned_server() as url:
        yield url


def ask(server: Server, pod: str) -> Samples:
    return server.fetch(SeriesRequest(QUERY, "raw", AT - 600_000, AT, {"pod": (pod,)}))


def is_right(found: Samples, pod: str) -> bool:
    wanted = [(ts * 1000, float(str(v))) for ts, v in pod_values(pod, AT, 600)]  # type: ignore[operator]
    return found.points.select("ts", "value").rows() == wanted


def test_all_is_well(upstream: str) -> None:
    with FaultyProxy(upstream, rate=0) as proxy, Server(proxy.url) as server:
        assert all(is_right(ask(server, pod), pod) for pod in PODS)
        found = server.fetch(RangeRequest("x", 'x{pod=~"a|b"}', 0, 180_000, 60_000))
        assert found.points["value"].to_list() == [60.0, 120.0, 180.0] * 2
        assert server.label_values("pod", ["x"], 0, AT) == ["a", "b"]
        figures = server.figures
    assert proxy.seen.requests == figures.requests == len(PODS) + 2
    assert proxy.seen.faults == {"": figures.requests}
    assert 0 < figures.received_bytes < figures.bytes, "responses were compressed"
    assert figures.waited_s > 0


@pytest.mark.parametrize("seed", range(3))
def test_it_ends_right_whatever_happens_on_the_way(upstream: str, seed: int) -> None:
    told: list[str] = []
    with (
        FaultyProxy(upstream, seed=seed, rate=0.6) as proxy,
        Server(proxy.url, limits=QUICK, tell=told.append) as server,
        ThreadPoolExecutor(4) as pool,
    ):
        found = list(pool.map(lambda pod: ask(server, pod), PODS))
        figures = server.figures
    assert all(is_right(one, pod) for one, pod in zip(found, PODS, strict=True))
    assert proxy.seen.most_at_once <= QUICK.concurrency
    faults = proxy.seen.requests - proxy.seen.faults[""] - proxy.seen.faults["slow"]
    assert len(told) == figures.retries == faults > 3


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind != "slow"])
def test_it_stops_with_a_sentence_if_that_never_ends(upstream: str, kind: str) -> None:
    with FaultyProxy(upstream, always=kind) as proxy, Server(proxy.url, limits=QUICK) as server:
        with pytest.raises(GaveUpError) as caught:
            ask(server, "pod-1")
        told = str(caught.value)
    assert told.startswith(proxy.url)
    assert told.endswith("times; to continue, repeat the command with --resume")
    assert proxy.seen.faults[kind] == (5 if kind in LIES or kind in ("html", "no-json") else 8)


def test_loopback_is_asked_directly(upstream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Server(upstream, limits=QUICK) as server:
        assert is_right(ask(server, "pod-1"), "pod-1")


def test_many_answers_at_once_are_not_mixed_up(upstream: str) -> None:
    with (
        FaultyProxy(upstream, seed=3, rate=0.3) as proxy,
        Server(proxy.url, limits=Limits(concurrency=8, first_wait_s=0.001)) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        names = [f"pod-{'x' * (k % 40)}{k}" for k in range(200)]
        found = list(pool.map(lambda pod: ask(server, pod), names))
    assert all(is_right(one, pod) for one, pod in zip(found, names, strict=True))
    assert pl.concat([one.series.select("pod") for one in found])["pod"].to_list() == names
