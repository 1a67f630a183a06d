"""The stream of changes: which scales go on, what is watched, when a target counts as not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hpabatch.cluster.apis.discovery import Resource
from hpabatch.cluster.apis.scales import ScaleBook
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.objects.types import Change, HpaObject, Inbox, Kind, ScaleKey, ScaleObject
from hpabatch.cluster.watch.feed import Feed
from hpabatch.cluster.watch.watch import Watcher, WatchState
from hpabatch.layout import codes
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.defaults import default_hpa
from tests.cluster.asked import Kinds

WEB = ScaleKey("apps", "Deployment", "shop", "web")


class Watch(Watcher):
    """A watch that lists when it is told to."""

    def __init__(self, name: str, began: list[str]) -> None:
        began.append(name)
        self.synced = False

    @property
    def states(self) -> tuple[WatchState, ...]:
        return (WatchState("", synced=self.synced),)

    def start(self) -> None:
        pass

    def stop(self, wait_s: float = 1.0) -> bool:
        return True


class Asked(ApiClient):
    """Answers every request for a scale, and notes it."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def get(self, path: str, *args: object, **kwargs: object) -> bytes:
        self.asked.append(path)
        return b'{"spec":{"replicas":3},"status":{"replicas":2,"selector":"app=web"}}'


class Case:
    """A feed with an inbox to put changes into, and what was asked for."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.asked: list[str] = []
        self.now = 1000
        self.inbox = Inbox(clock=lambda: self.now)
        self.feed = Feed(self.inbox, self._book, self._watch)
        self.feed.start()

    def _book(self, watched: Callable[[ScaleKey], bool]) -> ScaleBook:
        kinds = Kinds(resources={("apps", "Rollout"): Resource("apps", "v1", "rollouts")})
        return ScaleBook(Asked(self.asked), kinds, watched=watched)

    def _watch(self, group: str, resource: str) -> Watch:
        return Watch(f"{resource}.{group}" if group else resource, self.began)

    def hpa(self, name: str = "web", kind: str = "Deployment", target: str = "web") -> None:
        ref = {"apiVersion": "apps/v1", "kind": kind, "name": target}
        document = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"scaleTargetRef": ref, "maxReplicas": 3},
        }
        hpa = default_hpa(decode_hpa(document)[0])
        self.inbox.put(Kind.hpa, ("shop", name), HpaObject("shop", name, hpa))

    def scale(self, key: ScaleKey = WEB, replicas: int = 2) -> None:
        self.inbox.put(Kind.scale, key, ScaleObject(key, replicas, replicas, "app=web"))

    def scales(self) -> list[Change]:
        return [change for change in self.feed.cut().changes if change.kind is Kind.scale]

    def listed(self) -> None:
        for name in ("deployments.apps",):
            watch = self.feed.watches[name]
            assert isinstance(watch, Watch)
            watch.synced = True


@pytest.fixture
def case() -> Iterator[Case]:
    found = Case()
    yield found
    found.feed.stop()


def test_workloads_are_watched_once_an_hpa_scales_their_kind(case: Case) -> None:
    assert case.began == ["horizontalpodautoscalers.autoscaling", "pods"]
    case.hpa()
    case.hpa("other", "StatefulSet")
    case.feed.learn()
    assert case.began[2:] == ["deployments.apps", "statefulsets.apps"]
    case.hpa("third")
    case.feed.cut()
    assert len(case.began) == 4


def test_only_the_scales_of_targets_go_on(case: Case) -> None:
    case.hpa()
    case.feed.learn()
    case.listed()
    case.scale()
    case.scale(WEB._replace(name="other"))
    found = case.scales()
    assert [change.key for change in found] == [WEB]


def test_a_target_that_was_known_before_its_hpa_is_told_with_it(case: Case) -> None:
    case.hpa("first", target="else")
    case.feed.learn()
    case.listed()
    case.scale(replicas=7)
    assert all(change.key != WEB for change in case.scales())
    case.now += 50
    case.hpa()
    cut = case.feed.cut()
    told = [c for c in cut.changes if c.key == WEB]
    assert [c.thing.replicas for c in told if isinstance(c.thing, ScaleObject)] == [7]
    assert all(c.seen_ms < cut.now_ms for c in cut.changes)


def test_a_target_is_not_missing_before_its_watch_has_listed(case: Case) -> None:
    case.hpa()
    assert case.scales() == []
    assert case.feed.read_scales() == 0
    case.listed()
    (change,) = case.scales()
    assert isinstance(change.thing, ScaleObject)
    assert change.thing.code == codes.SCALE_GET_FAILED
    assert "not found" in change.thing.error
    assert case.asked == []


def test_other_kinds_are_asked_for_and_told_when_they_change(case: Case) -> None:
    case.hpa(kind="Rollout")
    case.feed.learn()
    assert case.feed.read_scales() == 1
    (change,) = case.scales()
    assert isinstance(change.thing, ScaleObject)
    assert (change.thing.replicas, change.thing.status_replicas) == (3, 2)
    case.feed.read_scales()
    assert case.scales() == []


def test_an_hpa_that_goes_takes_its_target_with_it(case: Case) -> None:
    case.hpa()
    case.feed.learn()
    case.listed()
    case.scale()
    assert len(case.scales()) == 1
    case.inbox.put(Kind.hpa, ("shop", "web"), None)
    gone = [c for c in case.feed.cut().changes if c.kind is Kind.scale]
    assert [(c.key, c.thing) for c in gone] == [(WEB, None)]
    case.scale(replicas=9)
    assert case.scales() == []
