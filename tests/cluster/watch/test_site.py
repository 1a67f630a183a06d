"""Tests of messages on metrics APIs that fail: each response, or all of them at once."""

from __future__ import annotations

from collections.abc import Set
from email.utils import formatdate
from pathlib import Path

import pytest

from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.objects.types import (
    ExternalMetricKey,
    MetricKey,
    PodMetricKey,
    Response,
    Responses,
    clock_ms,
)
from hpabatch.cluster.watch.site import Site, _failing
from hpabatch.cluster.watch.watch import Watcher, WatchState
from hpabatch.model.versions import profile_for
from tests.cluster.fake_api import connected, serving

GET = 'Get "https://10.0.0.1:6443/apis/custom.metrics.k8s.io/v1beta1/namespaces/{}/pods/*/rps"'


def _custom(count: int, text: str) -> Responses:
    keys = [PodMetricKey(f"n{number:03}", "rps", "") for number in range(count)]
    return {key: Response(0, error=text.format(key.namespace)) for key in keys}


def test_a_few_are_named_one_by_one() -> None:
    queue = ExternalMetricKey("shop", "queue", "")
    late = Response(0, error="late")
    responses: Responses = {queue: late, "shop": Response(0, error="no"), "blog": Response(0, ())}
    found = _failing(responses)
    assert found == {
        "metrics.k8s.io in shop": "no", "external.metrics.k8s.io queue in shop": "late",
    }  # fmt: skip
    found = _failing(_custom(10, f"{GET}: EOF"))
    assert list(found) == [f"custom.metrics.k8s.io rps in n{number:03}" for number in range(10)]
    assert found["custom.metrics.k8s.io rps in n003"] == f"{GET.format('n003')}: EOF"


def test_of_many_the_first_are_named() -> None:
    """However many they are just now, so that it is no other line in every pass."""
    said = [_failing(_custom(count, GET)) for count in (11, 500, 2000)]
    assert said[0] == said[1] == said[2]
    assert len(said[0]) == 11
    assert said[0]["custom.metrics.k8s.io"] == "more of them fail"


class _Discovery(Discovery):
    def hpa_version(self) -> str:
        return "v2"


def test_what_failed_in_a_pass_is_said_whatever_was_asked_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Responses] = [_custom(1, "no"), {"blog": Response(0, ())}]
    with (
        serving(lambda got, wire: wire.reply(404)) as server,
        ApiClient(connected(tmp_path, server.url), attempts=1) as client,
    ):
        site = Site(client, _Discovery(client), profile_for("1.37"))

        def fetch(wanted: Set[MetricKey]) -> Responses:
            return answers.pop(0)

        monkeypatch.setattr(site._fetcher, "fetch", fetch)
        for _ in range(2):
            site.fetch(set())
        assert site.problems() == {"custom.metrics.k8s.io rps in n000": "no"}
        site.read_scales()
        assert site.problems() == {}
        site.stop()


@pytest.mark.parametrize("own", [True, False])
def test_hpas_that_cannot_be_decoded(own: bool, tmp_path: Path) -> None:
    """One that has a name is known by it, unless any target may be its own."""
    with ApiClient(connected(tmp_path, "http://127.0.0.1:9"), attempts=1) as client:
        site = Site(client, _Discovery(client), profile_for("1.37"), own=[] if own else None)
        assert (site.blindness(), site.unreadable()) == ("they are not watched yet", {})
        watch = _Watch({"shop/web": "no object"})
        site.watches["horizontalpodautoscalers.autoscaling"] = watch
        assert site.blindness() == ("no object" if own else "")
        assert site.unreadable() == {("shop", "web"): "no object"}
        watch.wrong = {"event": "an event cannot be read"}
        assert site.blindness() == "an event cannot be read"
        assert site.unreadable() == {}
        site.stop()


def test_a_local_clock_that_was_set_back_to_the_servers_time_is_a_problem(tmp_path: Path) -> None:
    with (
        serving(
            lambda got, wire: wire.reply(200, b"{}", {"Date": formatdate(usegmt=True)})
        ) as server,
        ApiClient(connected(tmp_path, server.url), attempts=1) as client,
    ):
        site = Site(client, _Discovery(client), profile_for("1.37"))
        site._inbox._clock = lambda: clock_ms() + 3_600_000
        site._inbox.cut()
        site._inbox._clock = clock_ms
        site.read_scales()
        assert site._skew._thread is not None
        site._skew._thread.join(60)
        assert "more than 2 s behind ours" in site.problems()["clock"]
        site.stop()


class _Watch(Watcher):
    """A watch whose objects could be read, but for some."""

    wrong: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, wrong: dict[str, str]) -> None:
        self.wrong = wrong

    @property
    def state(self) -> WatchState:
        return WatchState("horizontalpodautoscalers.autoscaling", synced=True)

    @property
    def states(self) -> tuple[WatchState, ...]:
        return (self.state,)

    def start(self) -> None:
        pass

    def stop(self, wait_s: float = 1.0) -> bool:
        return True
