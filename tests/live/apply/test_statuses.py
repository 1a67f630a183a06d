"""Statuses and events: what is sent, and what is left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from hpabatch.cluster.connection.errors import ApiError, Refused, Unreachable
from hpabatch.cluster.connection.writes import Budget
from hpabatch.live.apply import statuses as statuses_module
from hpabatch.live.apply.statuses import HpaStatuses
from hpabatch.model.messages import NORMAL, WARNING, Event
from hpabatch.model.objects.hpa import HPA, HPAStatus
from tests.live.apply.fake_writes import Clock, FakeClient
from tests.live.apply.test_scales import OpenFence

PATH = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web"
EVENTS = "/api/v1/namespaces/shop/events"


class Case:
    def __init__(self) -> None:
        self.client, self.fence, self.clock = FakeClient(), OpenFence(), Clock()
        self.client.put(PATH, spec={"maxReplicas": 10}, status={})
        self.uid = self.client.objects[PATH]["metadata"]["uid"]
        self.budget = Budget(1e6, 1e6, self.clock)
        self.sink = HpaStatuses(self.client, "v2", self.budget, self.fence, clock=self.clock)

    def hpa(self, desired: int = 4, uid: str = "") -> HPA:
        status = HPAStatus(2, desired)
        return HPA("web", "shop", status=status, uid=uid or self.uid)

    def run(self, *put: Callable[[], None]) -> list[tuple[str, str]]:
        """Put, let the thread write it, and return what was sent."""
        for one in put:
            one()
        begun = len(self.client.sent)
        self.sink.start()
        self.sink.stop()
        return self.client.sent[begun:]


def test_of_an_hpa_only_the_newest_status_is_written_with_the_whole_object() -> None:
    case = Case()
    key = ("shop", "web")
    for desired in (3, 4, 5):
        case.sink.put(key, case.hpa(desired))
    before = case.budget._left
    sent = case.run()
    assert sent == [("GET", PATH), ("PUT", f"{PATH}/status")]
    assert round(before - case.budget._left) == len(sent)
    written = case.client.objects[PATH]
    assert written["status"]["desiredReplicas"] == 5
    assert written["spec"] == {"maxReplicas": 10}


@pytest.mark.parametrize("when", ["GET", "PUT"])
def test_an_hpa_that_is_edited_since_its_decision_keeps_its_edit(when: str) -> None:
    """Its status is written on what is there; after a conflict the next pass writes it."""
    case = Case()

    def edit(method: str, path: str) -> None:
        if method == when:
            case.client.put(PATH, spec={"maxReplicas": 3})

    case.client.before = edit
    case.run(lambda: case.sink.put(("shop", "web"), case.hpa()))
    assert case.client.objects[PATH]["spec"] == {"maxReplicas": 3}
    assert bool(case.client.objects[PATH]["status"]) == (when == "GET")
    assert case.sink.problem == ""


def test_the_status_of_another_object_of_that_name_is_left_alone() -> None:
    case = Case()
    assert case.run(lambda: case.sink.put(("shop", "web"), case.hpa(uid="old"))) == [("GET", PATH)]


def test_a_stop_says_whether_a_request_is_still_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hpabatch.live.apply.statuses.DRAIN_S", 0.01)
    monkeypatch.setattr("hpabatch.live.apply.statuses.TIMEOUT_S", 0.01)
    case, begun, goes_on = Case(), threading.Event(), threading.Event()

    def hangs(method: str, path: str) -> None:
        begun.set()
        goes_on.wait()

    case.client.before = hangs
    case.sink.put(("shop", "web"), case.hpa())
    case.sink.start()
    begun.wait()
    assert not case.sink.stop()
    goes_on.set()
    case.sink._thread.join()
    assert case.sink.stop()


def test_of_too_many_events_of_an_object_some_are_left_out() -> None:
    case = Case()
    one = Event(WARNING, "FailedGetResourceMetric", "no metrics")
    case.run(lambda: case.sink.tell(case.hpa(), [one] * 40))
    paths = [path for path in case.client.objects if path.startswith(EVENTS)]
    assert len(paths) == 25
    event = case.client.objects[paths[0]]
    assert event["involvedObject"]["uid"] == case.uid
    assert event["source"] == {"component": "horizontal-pod-autoscaler"}


def test_a_refused_status_is_told_and_becomes_an_event() -> None:
    case = Case()
    case.client.before = lambda m, p: Refused("forbidden", 403) if m == "PUT" else None
    case.run(lambda: case.sink.put(("shop", "web"), case.hpa()))
    (path,) = [path for path in case.client.objects if path.startswith(EVENTS)]
    assert case.client.objects[path]["reason"] == "FailedUpdateStatus"


def test_statuses_and_events_are_written_in_turn() -> None:
    case = Case()
    for name in "abc":
        case.client.put(PATH.replace("web", name), metadata={"uid": name})
        case.sink.put(("shop", name), replace(case.hpa(uid=name), name=name))
    case.sink.tell(case.hpa(), [Event(NORMAL, "A", "1"), Event(NORMAL, "B", "2")])
    sent = [path for method, path in case.run() if method != "GET"]
    assert [path == EVENTS for path in sent] == [False, True, False, True, False]


def test_an_objects_events_stay_limited_however_many_others_have_some() -> None:
    case, asked = Case(), [Event(WARNING, "X", "y")]
    for _ in range(30):
        case.sink._may_tell("web")
    for n in range(4090):
        case.sink._may_tell(f"uid-{n}")
        assert not case.sink._may_tell("web")
    case.sink.tell(case.hpa(), asked * 2003)
    assert len(case.sink._events) == 2000


def test_after_failures_of_the_server_statuses_wait_longer_and_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refusal is that HPA's; a success ends it."""
    monkeypatch.setattr(statuses_module, "_MOST_WAIT_S", 1.5)
    case, waits = Case(), []
    for error in [Refused("no", 403), *[Unreachable("gone")] * 3, None, Unreachable("gone")]:
        case.client.before = lambda method, path, error=error: error  # type: ignore[misc]
        case.sink._write(case.hpa(), None)
        waits.append(case.sink._wait_s)
    assert waits == [0, 0.5, 1, 1.5, 0, 0.5]
    times: list[float] = []

    def fail(method: str, path: str) -> ApiError:
        times.append(time.monotonic())
        return Unreachable("gone")

    case.client.before = fail
    case.sink.put(("shop", "web"), case.hpa())
    case.sink.tell(case.hpa(), [Event(NORMAL, "X", "y")])
    case.sink.start()
    while len(times) < 2:
        time.sleep(0.01)
    case.sink.stop()
    assert times[1] - times[0] > 0.2
