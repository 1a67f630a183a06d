"""The book of scales: from watches, asked for, and what is not there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hpabatch.cluster.apis.discovery import Resource
from hpabatch.cluster.apis.scales import ScaleBook, target_key
from hpabatch.cluster.connection.errors import Busy
from hpabatch.cluster.objects.types import Change, Kind, ScaleKey, ScaleObject
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import CrossVersionObjectReference
from tests.cluster.asked import Asked, Kinds
from tests.cluster.wires import packed

_WEB = ScaleKey("apps", "Deployment", "shop", "web")
_ROLL = ScaleKey("argoproj.io", "Rollout", "shop", "roll")
_ROLL_PATH = "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/roll/scale"
_ROLL_SCALE = packed({"spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "app=roll"}})
_KINDS = Kinds(
    resources={
        ("argoproj.io", "Rollout"): Resource("argoproj.io", "v1alpha1", "rollouts"),
        ("apps", "Deployment"): Resource("apps", "v1", "deployments"),
        ("", "ReplicationController"): Resource("", "v1", "replicationcontrollers"),
    }
)


@pytest.mark.parametrize(
    ("api_version", "group"),
    [
        ("apps/v1", "apps"),
        ("v1", ""),
        ("", ""),
        ("/", ""),
        ("/v1", ""),
        ("a/", "a"),
        ("a/b/c", "a/b/c"),
    ],
)
def test_target_keys(api_version: str, group: str) -> None:
    found = target_key("shop", CrossVersionObjectReference("Kind", "name", api_version))
    assert found == ScaleKey(group, "Kind", "shop", "name")


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close every book at the end of its test, so that no thread stays behind."""
    made: list[ScaleBook] = []
    begin = ScaleBook.__init__

    def noted(self: ScaleBook, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(ScaleBook, "__init__", noted)
    yield
    for book in made:
        book.close()


def _seen(scale: ScaleObject | None, key: ScaleKey = _WEB, at_ms: int = 5) -> Change:
    return Change(Kind.scale, key, scale, at_ms)


def test_a_target_that_is_not_there() -> None:
    book = ScaleBook(Asked(), _KINDS)
    missing = ScaleObject(
        _WEB, error='deployments/scale.apps "web" not found', code=codes.SCALE_GET_FAILED
    )
    assert book.settle([], [_WEB], 10) == [_seen(missing, at_ms=9)]
    assert book.settle([], [_WEB], 20) == []
    assert book.scale_of(_WEB) == missing
    there = _seen(ScaleObject(_WEB, 4, 4, "app=web"), at_ms=25)
    assert book.settle([there], [_WEB], 30) == [there]
    assert book.scale_of(_WEB) == there.thing
    gone = _seen(None, at_ms=35)
    assert book.settle([gone], [_WEB], 40) == [gone, _seen(missing, at_ms=39)]
    assert book.settle([], [], 50) == [_seen(None, at_ms=49)]
    assert book.scale_of(_WEB) is None


def test_other_kinds_are_asked_for() -> None:
    replies: dict[str, bytes | Exception] = {_ROLL_PATH: _ROLL_SCALE}
    client = Asked(replies)
    book = ScaleBook(client, _KINDS)
    there = ScaleObject(_ROLL, 2, 1, "app=roll")
    assert book.settle([], [_ROLL], 10) == []
    assert book.scale_of(_ROLL) is None
    assert book.refresh([_ROLL, _WEB, _ROLL]) == 1
    assert client.paths == [_ROLL_PATH]
    assert book.settle([_seen(ScaleObject(_WEB))], [_ROLL, _WEB], 20)[1:] == [
        _seen(there, _ROLL, 19)
    ]
    book.refresh([_ROLL, _WEB])
    assert book.settle([], [_ROLL, _WEB], 30) == []
    replies[_ROLL_PATH] = Busy("the server is busy", 503)
    book.refresh([_ROLL, _WEB])
    failed = ScaleObject(_ROLL, error="the server is busy", code=codes.SCALE_GET_FAILED)
    assert book.settle([], [_ROLL, _WEB], 40) == [_seen(failed, _ROLL, 39)]
    replies[_ROLL_PATH] = b"{"
    book.refresh([_ROLL])
    book.settle([], [_ROLL], 50)
    found = book.scale_of(_ROLL)
    assert found is not None
    assert found.error.startswith("a scale of Rollout shop/roll without a readable name")


def test_no_such_kind_and_no_version() -> None:
    alien = ScaleKey("", "Sundial", "shop", "sun")
    wrong = ScaleKey("a/b/c", "Deployment", "shop", "web")
    client = Asked()
    book = ScaleBook(client, _KINDS)
    assert book.refresh([alien, wrong]) == 1
    book.settle([], [alien, wrong], 10)
    assert book.scale_of(alien) == ScaleObject(
        alien,
        error='no matches for kind "Sundial" in group ""',
        code=codes.SCALE_NO_RESOURCE,
    )
    assert book.scale_of(wrong) == ScaleObject(
        wrong, error="unexpected GroupVersion string: a/b/c", code=codes.SCALE_BAD_VERSION
    )
    assert client.paths == []


def test_one_that_hangs_is_an_error_and_whose_turn_never_came_stays_as_it_was() -> None:
    release = threading.Event()

    def hang(timeout: float) -> bytes:
        release.wait()
        return b""

    other = _ROLL._replace(name="sol")
    replies: dict[str, object] = {
        _ROLL_PATH: _ROLL_SCALE, _ROLL_PATH.replace("/roll/", "/sol/"): _ROLL_SCALE,
    }  # fmt: skip
    book = ScaleBook(Asked(replies), _KINDS, workers=1, deadline_s=0.5)  # type: ignore[arg-type]
    # Again where the machine itself stood still until the deadline.
    until, targets = time.monotonic() + 60, [_ROLL, other]
    while not all((scale := book.scale_of(key)) and not scale.error for key in targets):
        assert time.monotonic() < until
        book.refresh(targets)
        book.settle([], targets, 10)
    before = book.scale_of(other)
    replies[_ROLL_PATH] = hang
    try:
        told: list[Change] = []
        while not told:
            assert time.monotonic() < until
            book.refresh(targets)
            told = book.settle([], targets, 20)
        late = ScaleObject(_ROLL, error="context deadline exceeded", code=codes.SCALE_GET_FAILED)
        assert told == [_seen(late, _ROLL, 19)]
        assert book.scale_of(other) == before
    finally:
        release.set()
