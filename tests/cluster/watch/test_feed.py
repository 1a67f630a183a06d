"""The stream of changes: scales from watches and from requests, and when one is not there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from hpabatch.cluster.apis.discovery import Resource
from hpabatch.cluster.connection.errors import Busy
from hpabatch.cluster.objects.types import Change, HpaObject, Inbox, Kind, ScaleKey, ScaleObject
from hpabatch.cluster.watch.feed import Feed
from hpabatch.cluster.watch.watch import Watcher, WatchState
from hpabatch.layout import codes
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.defaults import default_hpa
from tests.cluster.asked import Asked, Kinds
from tests.cluster.wires import packed

WEB = ScaleKey("apps", "Deployment", "shop", "web")
MISSING = 'deployments/scale.apps "web" not found'
SCALE = packed({"spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=web"}})
KINDS = Kinds(resources={("argoproj.io", "Rollout"): Resource("argoproj.io", "v1", "rollouts")})


def path_of(name: str) -> str:
    return f"/apis/argoproj.io/v1/namespaces/shop/rollouts/{name}/scale"


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


class Case(Feed):
    """A feed with an inbox to put changes into, and what was asked for."""

    def __init__(self, workers: int = 8, deadline_s: float = 5.0) -> None:
        self.began: list[str] = []
        self.replies: dict[str, object] = {path_of("web"): SCALE}
        self.client = Asked(self.replies)  # type: ignore[arg-type]
        self.now = 1000
        self.inbox = Inbox(clock=lambda: self.now)
        super().__init__(self.inbox, self.client, KINDS, workers=workers, deadline_s=deadline_s)
        self.start()

    def _watch(self, group: str, resource: str) -> Watch:
        return Watch(f"{resource}.{group}" if group else resource, self.began)

    def hpa(
        self, name: str = "web", kind: str = "Deployment", target: str = "web", group: str = ""
    ) -> None:
        version = "argoproj.io/v1" if kind == "Rollout" else "apps/v1"
        ref = {"apiVersion": group or version, "kind": kind, "name": target}
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

    def told(self) -> list[tuple[str, object]]:
        """Return target and size, or error, of each scale that is passed on."""
        return [(change.key[-1], _said(change.thing)) for change in self.scales()]

    def scales(self) -> list[Change]:
        return [change for change in self.cut().changes if change.kind is Kind.scale]

    def listed(self) -> None:
        for name in ("deployments.apps",):
            watch = self.watches[name]
            assert isinstance(watch, Watch)
            watch.synced = True


def _said(thing: object) -> object:
    return (thing.error or thing.replicas) if isinstance(thing, ScaleObject) else None


@pytest.fixture
def case() -> Iterator[Case]:
    found = Case()
    yield found
    found.stop()


def test_workloads_are_watched_once_an_hpa_scales_their_kind(case: Case) -> None:
    assert case.began == ["horizontalpodautoscalers.autoscaling", "pods"]
    case.hpa()
    case.hpa("other", "StatefulSet")
    case.learn()
    assert case.began[2:] == ["deployments.apps", "statefulsets.apps"]
    case.hpa("third")
    case.cut()
    assert len(case.began) == 4


def test_only_the_scales_of_targets_go_on(case: Case) -> None:
    case.hpa()
    case.learn()
    case.listed()
    case.scale()
    case.scale(WEB._replace(name="other"))
    found = case.scales()
    assert [change.key for change in found] == [WEB]


def test_a_target_that_was_known_before_its_hpa_is_told_with_it(case: Case) -> None:
    case.hpa("first", target="else")
    case.learn()
    case.listed()
    case.scale(replicas=7)
    assert all(change.key != WEB for change in case.scales())
    case.now += 50
    case.hpa()
    cut = case.cut()
    told = [c for c in cut.changes if c.key == WEB]
    assert [c.thing.replicas for c in told if isinstance(c.thing, ScaleObject)] == [7]
    assert all(c.seen_ms < cut.now_ms for c in cut.changes)


def test_a_target_is_not_missing_before_its_watch_has_listed(case: Case) -> None:
    case.hpa()
    assert case.told() == []
    assert case.read_scales() == 0
    case.listed()
    assert case.told() == [("web", MISSING)]
    assert case.told() == []
    case.scale(replicas=4)
    assert case.told() == [("web", 4)]
    case.inbox.put(Kind.scale, WEB, None)
    assert case.told() == [("web", None), ("web", MISSING)]
    assert case.client.paths == []


def test_other_kinds_are_asked_for_and_told_when_they_change(case: Case) -> None:
    case.hpa(kind="Rollout")
    assert case.told() == []
    for reply, told in (
        (SCALE, [("web", 3)]),
        (SCALE, []),
        (Busy("the server is busy", 503), [("web", "the server is busy")]),
        (b"{", None),
    ):
        case.replies[path_of("web")] = reply
        assert case.read_scales() == 1
        found = case.told()
        assert found == told or str(found[0][1]).startswith("a scale of Rollout shop/web without")


def test_no_such_kind_and_no_version(case: Case) -> None:
    case.hpa("alien", "Sundial", "sun", group="v1")
    case.hpa("wrong", target="none", group="a/b/c")
    case.learn()
    assert case.read_scales() == 1
    found = [change.thing for change in case.cut().changes if change.kind is Kind.scale]
    assert {(thing.error, thing.code) for thing in found if isinstance(thing, ScaleObject)} == {
        ("unexpected GroupVersion string: a/b/c", codes.SCALE_BAD_VERSION),
        ('no matches for kind "Sundial" in group ""', codes.SCALE_NO_RESOURCE),
    }


def test_a_scale_whose_turn_never_came_stays_as_it_was() -> None:
    case = Case()
    case.hpa("web", "Rollout")
    case.learn()
    until = time.monotonic() + 60
    while case.told() != [("web", 3)]:
        assert time.monotonic() < until
        case.read_scales()
    case._deadline_s = 0
    case.read_scales()
    assert case.told() == []
    case.stop()


def test_one_that_hangs_is_an_error() -> None:
    case, release, until = Case(workers=2, deadline_s=0.5), threading.Event(), time.monotonic() + 60
    case.hpa("web", "Rollout")
    case.hpa("sol", "Rollout", "sol")
    case.learn()

    def hang(timeout: float) -> bytes:
        release.wait()
        return b""

    case.replies[path_of("sol")] = hang
    try:
        told: dict[str, object] = {}
        # Again where the machine itself stood still until the deadline.
        while told != {"web": 3, "sol": "context deadline exceeded"}:
            assert time.monotonic() < until
            case.read_scales()
            told |= dict(case.told())
    finally:
        release.set()
        case.stop()


def test_an_hpa_that_goes_takes_its_target_with_it(case: Case) -> None:
    case.hpa()
    case.learn()
    case.listed()
    case.scale()
    assert len(case.scales()) == 1
    case.inbox.put(Kind.hpa, ("shop", "web"), None)
    gone = [c for c in case.cut().changes if c.kind is Kind.scale]
    assert [(c.key, c.thing) for c in gone] == [(WEB, None)]
    case.scale(replicas=9)
    assert case.scales() == []
