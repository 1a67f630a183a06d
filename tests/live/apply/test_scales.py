"""Writing of a scale: conflicts, lost responses, fences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpabatch.cluster.apis.discovery import Discovery, Resource
from hpabatch.cluster.connection.errors import ApiError, Busy, Unreachable, Withheld
from hpabatch.cluster.connection.writes import Budget
from hpabatch.cluster.objects.types import ScaleKey, ScaleObject
from hpabatch.live.apply.scales import Outcome, ScaleWriter
from tests.live.apply.fake_writes import Clock, FakeClient

KEY = ScaleKey("apps", "Deployment", "shop", "web")
TARGET = "/apis/apps/v1/namespaces/shop/deployments/web"
PATH = f"{TARGET}/scale"


class Apis(Discovery):
    def __init__(self) -> None:
        """Ask nobody."""

    def scale_resource(self, group: str, kind: str) -> Resource:
        return Resource("apps", "v1", "deployments")


class OpenFence:
    text = ""
    term = 1

    def refusal(self, longest_s: float) -> str:
        return self.text


class Case:
    def __init__(self) -> None:
        self.client, self.clock, self.fence = FakeClient(), Clock(), OpenFence()
        self.client.put(
            TARGET, metadata={"namespace": "shop", "name": "web"}, spec={"replicas": 2},
            status={"selector": "app=web"},
        )  # fmt: skip
        self.writer = ScaleWriter(
            self.client, Apis(), Budget(10, 100, self.clock), self.fence, sleep=self.clock.sleep
        )  # fmt: skip

    @property
    def size(self) -> int:
        return int(self.client.objects[TARGET]["spec"]["replicas"])

    def puts(self) -> int:
        return sum(method == "PUT" for method, _ in self.client.sent)


def test_the_scale_is_read_and_put_back_with_another_size() -> None:
    case = Case()
    assert case.writer.write(KEY, 2, 4, None).error == ""
    assert case.client.sent == [("GET", PATH), ("PUT", PATH)]
    assert case.size == 4
    assert case.client.objects[TARGET]["status"] == {"selector": "app=web"}


def test_a_size_that_was_not_decided_on_is_left_alone() -> None:
    case = Case()
    written = case.writer.write(KEY, 3, 4, None)
    assert "the size is 2, and 3 was decided on" in written.error
    assert (written.outcome, written.uncertain) == (Outcome.MOVED, False)
    assert case.puts() == 0


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_too_many_requests_are_repeated_when_the_server_says(method: str) -> None:
    case, left = Case(), [2]

    def refuse(asked: str, path: str) -> ApiError | None:
        if asked != method or not left[0]:
            return None
        left[0] -= 1
        error = Busy("too many requests", 429)
        error.retry_after = 1.0
        return error

    case.client.before = refuse
    assert case.writer.write(KEY, 2, 4, None).error == ""
    assert case.size == 4
    assert case.clock.now == pytest.approx(1002, abs=0.05)


@pytest.mark.parametrize(("wait_s", "puts"), [(1.0, 5), (60.0, 1)])
def test_too_many_requests_without_a_time_or_for_long_are_a_failure(
    wait_s: float, puts: int
) -> None:
    case = Case()
    case.client.before = lambda m, p: Busy("no time", 429) if m == "PUT" else None
    assert case.writer.write(KEY, 2, 4, None).error == "no time"
    assert case.puts() == 1

    def refuse(method: str, path: str) -> ApiError | None:
        error = Busy("for long", 429)
        error.retry_after = wait_s
        return error if method == "PUT" else None

    case.client.before, before = refuse, case.puts()
    written = case.writer.write(KEY, 2, 4, None)
    assert (written.error, written.uncertain) == ("for long", False)
    assert case.puts() - before == puts


@pytest.mark.parametrize(
    ("conflicts", "puts", "size"), [(1, 2, 4), (4, 5, 4), (5, 5, 2), (9, 5, 2)]
)
def test_a_conflict_is_tried_again_five_times_in_all(conflicts: int, puts: int, size: int) -> None:
    case = Case()
    left = [conflicts]

    def interfere(method: str, path: str) -> None:
        if method == "PUT" and left[0]:
            left[0] -= 1
            case.client.put(PATH, status={"selector": "app=web", "replicas": left[0]})

    case.client.before = interfere
    written = case.writer.write(KEY, 2, 4, None)
    assert (case.puts(), case.size) == (puts, size)
    assert written.error == ("" if size == 4 else "the object has been modified")
    assert case.clock.now == pytest.approx(1000 + 0.0105 * (puts - 1), abs=0.0005 * puts)


@pytest.mark.parametrize("error", [Unreachable("reset"), Busy("timeout", 504)])
@pytest.mark.parametrize("made", [True, False])
def test_a_lost_response_is_settled_by_the_scale_itself(error: ApiError, made: bool) -> None:
    """A scale that does not show the size settles nothing: the write may come after the reading."""
    case = Case()

    def lose(method: str, path: str) -> ApiError | None:
        return error if method == "PUT" else None

    if made:
        case.client.after = lose
    else:
        case.client.before = lose
    written = case.writer.write(KEY, 2, 4, None)
    assert (written.error, written.uncertain) == ("" if made else error.text, not made)
    assert case.puts() == 1, "an uncertain write is not repeated"


def test_what_is_no_scale_is_an_error_of_that_target() -> None:
    case = Case()
    case.client.put(PATH, spec={"replicas": "many"})
    assert "expected a Scale, got another object" in case.writer.write(KEY, 2, 4, None).error
    assert case.puts() == 0


@pytest.mark.parametrize("when", ["first", "afterwards"])
def test_no_response_raises(when: str) -> None:
    """An exception would lose what is known of the pass's other writes."""
    case = Case()

    def spoil(method: str, path: str) -> ApiError | None:
        if method == "PUT":
            case.client.put(PATH, spec={"replicas": float("inf")})
            return Unreachable("reset")
        return None

    if when == "first":
        case.client.put(PATH, spec={"replicas": float("inf")})
    else:
        case.client.after = spoil
    written = case.writer.write(KEY, 2, 4, None)
    assert "got another object: OverflowError: " in written.error
    assert written.uncertain is (when == "afterwards")


def test_nothing_begins_behind_the_fence() -> None:
    case = Case()
    case.fence.text = "the lease ends"
    written = case.writer.write(KEY, 2, 4, None)
    assert (written.outcome, written.error) == (Outcome.WAITS, "hpabatch: waits: the lease ends")
    assert case.puts() == 0
    case.fence.text = ""
    case.client.before = lambda m, p: Withheld("it was not sent") if m == "PUT" else None
    written = case.writer.write(KEY, 2, 4, None)
    assert (written.outcome, written.uncertain) == (Outcome.WAITS, False)
    assert written.error == "hpabatch: waits: it was not sent"


def _seen(case: Case, **more: Any) -> ScaleObject:
    metadata = case.client.objects[TARGET]["metadata"]
    known = {"uid": metadata["uid"], "version": metadata["resourceVersion"]}
    return ScaleObject(KEY, 2, 2, "app=web", **known, **more)


def test_a_size_that_changes_between_two_attempts_stays() -> None:
    case = Case()
    left = [1]

    def interfere(method: str, path: str) -> None:
        if method == "PUT" and left:
            left.clear()
            case.client.put(TARGET, spec={"replicas": 7})

    case.client.before = interfere
    assert case.writer.write(KEY, 2, 4, None).outcome is Outcome.MOVED
    assert (case.size, case.puts()) == (7, 1)


def test_a_size_that_a_watch_has_shown_takes_one_request() -> None:
    case = Case()
    assert case.writer.write(KEY, 2, 4, _seen(case)).error == ""
    assert case.client.sent == [("PUT", PATH)]
    assert case.size == 4


@pytest.mark.parametrize("change", ["status", "size", "another"])
def test_a_target_that_has_changed_since_is_read(change: str) -> None:
    case = Case()
    seen = _seen(case)
    if change == "another":
        seen = replace(seen, uid="gone", version=_seen(case).version)
    else:
        case.client.put(TARGET, spec={"replicas": 3 if change == "size" else 2})
    outcome = case.writer.write(KEY, 2, 4, seen).outcome
    assert outcome is (Outcome.MOVED if change == "size" else Outcome.DONE)
    assert [method for method, _ in case.client.sent][:2] == ["PUT", "GET"]
    assert case.size == (3 if change == "size" else 4)


def test_requests_wait_for_their_budget() -> None:
    clock = Clock()
    budget = Budget(10, 2, clock)
    assert [budget.take() for _ in range(4)] == [0, 0, pytest.approx(0.1), pytest.approx(0.2)]
    clock.sleep(1)
    assert budget.try_take()
    assert budget.take() == 0
    assert not budget.try_take()
