"""Statuses, events and reports: what is sent, and what is left out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from hpabatch.cluster.connection.errors import ApiError, Refused, Unreachable
from hpabatch.cluster.connection.writes import Budget
from hpabatch.live.apply import reports as reports_module
from hpabatch.live.apply import statuses as statuses_module
from hpabatch.live.apply.journal import Fields
from hpabatch.live.apply.reports import Reports
from hpabatch.live.apply.statuses import HpaStatuses
from hpabatch.model.messages import NORMAL, WARNING, Event
from hpabatch.model.objects.hpa import HPA, Condition, HPAStatus
from tests.live.apply.fake_writes import Clock, FakeClient
from tests.live.apply.test_scales import OpenFence

PATH = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web"
EVENTS = "/api/v1/namespaces/shop/events"
REPORT = "/api/v1/namespaces/ours/configmaps/hpabatch-report-shop"


class Case:
    def __init__(self) -> None:
        self.client, self.fence, self.clock = FakeClient(), OpenFence(), Clock()
        self.client.put(PATH, spec={"maxReplicas": 10}, status={})
        self.uid = self.client.objects[PATH]["metadata"]["uid"]
        self.lines: list[Fields] = []
        self.budget = Budget(1e6, 1e6, self.clock)
        self.sink = HpaStatuses(
            self.client, "v2", self.budget, self.fence, clock=self.clock, log=self.lines.extend
        )

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


def test_equal_events_are_counted_and_too_many_are_left_out() -> None:
    case = Case()
    one = Event(WARNING, "FailedGetResourceMetric", "no metrics")
    case.run(lambda: case.sink.tell(case.hpa(), [one] * 40))
    (path,) = [path for path in case.client.objects if path.startswith(EVENTS)]
    event = case.client.objects[path]
    assert event["count"] == 25
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
    assert case.sink.dropped == 3
    assert case.sink.problem.startswith("3 events were dropped")
    case.clock.sleep(600)
    assert case.sink.problem == ""


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


def test_reports_of_other_terms_are_no_rivals() -> None:
    """A whole term of another may fit between two passes of a process."""
    client, clock, fence = FakeClient(), Clock(), OpenFence()
    lines: list[Fields] = []
    reports = Reports(client, "ours", "one", Budget(1e6, 1e6), fence, clock, lines.extend)
    for desired, by in ((3, "two"), (4, "three")):
        reports.put(("shop", "a"), HPA("a", "shop", status=HPAStatus(2, desired)))
        reports._write_due()
        assert reports.rival == ""
        client.put(REPORT, metadata={"annotations": {"hpabatch/written-by": by}})
        fence.term += 1
    assert [line["namespace"] for line in lines] == ["shop", "shop"]


@pytest.mark.parametrize(
    ("error", "problem"),
    [(Refused("no", 403), "no"), (AttributeError("no metadata"), "AttributeError: no metadata")],
)
def test_a_report_that_failed_is_written_again(error: Exception, problem: str) -> None:
    client, clock = FakeClient(), Clock()
    reports = Reports(client, "ours", "one", Budget(1e6, 1e6), OpenFence(), clock)
    client.before = lambda m, p: error  # type: ignore[assignment,return-value]
    reports.put(("shop", "a"), HPA("a", "shop", status=HPAStatus(2, 4)))
    reports._write_due()
    assert reports.problem == problem
    client.before = lambda m, p: None
    reports._write_due()
    assert REPORT not in client.objects
    clock.sleep(5)
    reports._write_due()
    assert (REPORT in client.objects, reports.problem) == (True, "")


def test_a_report_has_all_hpas_of_a_namespace_and_knows_a_rival() -> None:
    client, clock = FakeClient(), Clock()
    for _ in range(2):
        reports = Reports(client, "ours", "one", Budget(1e6, 1e6), OpenFence(), clock)
        for name in ("a", "b"):
            reports.put(("shop", name), HPA(name, "shop", status=HPAStatus(2, 4)))
        reports.start()
        reports.stop()
        data = client.objects[REPORT]["data"]
        assert {json.loads(data[name])["desiredReplicas"] for name in "ab"} == {4}
    reports = Reports(client, "ours", "one", Budget(1e6, 1e6), OpenFence(), clock)
    reports.put(("shop", "a"), HPA("a", "shop", status=HPAStatus(2, 4)))
    reports._write_due()
    assert reports.rival == ""
    client.put(REPORT, metadata={"annotations": {"hpabatch/written-by": "two"}})
    reports.put(("shop", "a"), HPA("a", "shop", status=HPAStatus(4, 4)))
    reports._write_due()
    assert reports.rival == "the report ours/hpabatch-report-shop was written by two"


def test_a_new_leader_goes_on_from_the_last_reports() -> None:
    client, clock = FakeClient(), Clock()
    one = Reports(client, "ours", "one", Budget(1e6, 1e6), OpenFence(), clock)
    since = Condition("AbleToScale", "True", "x", "y", "2026-11-24T00:00:00Z")
    status = HPAStatus(2, 4, last_scale_time="2026-11-24T00:01:00Z", conditions=(since,))
    for name in ("a", "b", "gone"):
        one.put(("shop", name), HPA(name, "shop", status=status))
    one._write_due()
    client.objects[REPORT]["data"]["broken"] = "{"
    keys = {("shop", name) for name in ("a", "b", "broken", "new")} | {("blog", "a")}
    two = Reports(client, "ours", "two", Budget(1e6, 1e6), OpenFence(), clock)
    assert two.last(keys) == {("shop", "a"): status, ("shop", "b"): status}
    two.put(("shop", "a"), HPA("a", "shop", status=HPAStatus(4, 4)))
    two._write_due()
    data = client.objects[REPORT]["data"]
    assert {name: json.loads(text)["currentReplicas"] for name, text in data.items()} == {
        "a": 4, "b": 2,
    }  # fmt: skip


def test_reports_of_many_namespaces_are_read_side_by_side_and_over_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a slow server: otherwise nobody would lead."""
    monkeypatch.setattr(reports_module, "_READ_S", 0.35)
    client, reads = FakeClient(), list[str]()
    for k in range(40):
        data = {"a": '{"currentReplicas":2,"desiredReplicas":4}'}
        client.put(f"{REPORT.removesuffix('shop')}s{k}", data=data)

    def slow(method: str, path: str) -> ApiError | None:
        reads.append(path)
        time.sleep(0.1)
        return Unreachable("gone") if len(reads) == 1 else None

    client.before = slow
    reports = Reports(client, "ours", "me", Budget(1e6, 1e6), OpenFence())
    keys = {(f"s{k}", "a") for k in range(40)}
    for _ in range(9):
        with suppress(ApiError):
            assert reports.last(keys).keys() == keys
            break
    else:
        raise AssertionError("never")
    assert len(reads) <= 40 + 1 + 16, "what was read is not read again"
    client.before = lambda method, path: Unreachable("gone")
    with pytest.raises(ApiError, match="gone"):
        reports.last(keys)
