"""A watcher against a server at the wire: lists, renewals, errors, and nothing lost in between."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.objects.types import Change, Inbox, Kind, PodKey, PodObject
from hpabatch.cluster.watch.watch import Collection, Watcher, WatchLimits, WatchState
from tests.cluster.asked import by_resource, shows
from tests.cluster.fake_api import (
    FakeApi,
    Got,
    Json,
    Script,
    Wire,
    connected,
    serving,
    status,
)
from tests.cluster.fake_store import NameDecoder, Store

PODS = Collection("", "v1", "pods")
QUICK = WatchLimits(first_wait_s=0.01, longest_wait_s=0.05, page_objects=3, line_bytes=4000)


class Seen:
    """What an inbox gave, checked as it comes: a new uid only after a removal."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.changes: list[Change] = []
        self.pods: dict[PodKey, PodObject] = {}

    def take(self) -> list[Change]:
        changes, _ = self.inbox.cut()
        for change in changes:
            key, thing = (change.key[0], change.key[1]), change.thing
            if thing is None:
                del self.pods[key]  # a removal is of something that was there
            else:
                assert isinstance(thing, PodObject)
                assert key not in self.pods or self.pods[key].uid == thing.uid
                assert self.pods.get(key) != thing
                self.pods[key] = thing
        self.changes += changes
        return changes

    def uids(self) -> dict[PodKey, tuple[str, object]]:
        self.take()
        return {key: (pod.uid, pod.labels) for key, pod in self.pods.items()}


class Watched:
    """A watcher under way, and what came."""

    def __init__(self, server: FakeApi, client: ApiClient, watcher: Watcher, inbox: Inbox) -> None:
        self.server = server
        self.client = client
        self.watcher = watcher
        self.seen = Seen(inbox)

    def wait(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < until, (self.watcher.states, self.seen.uids())
            time.sleep(0.005)


@contextmanager
def watched(
    folder: Path,
    script: Script,
    namespaces: tuple[str, ...] = (),
    limits: WatchLimits = QUICK,
    user: Json | None = None,
) -> Iterator[Watched]:
    before = set(threading.enumerate())
    with serving(script) as server:
        inbox = Inbox()
        with ApiClient(connected(folder, server.url, user), attempts=1) as client:
            watcher = Watcher(client, inbox, PODS, NameDecoder(), namespaces, limits)
            found = Watched(server, client, watcher, inbox)
            watcher.start()
            try:
                yield found
            finally:
                assert watcher.stop(30)
        assert all(got.method == "GET" for got in server.got)
    assert set(threading.enumerate()) <= before


def test_lists_in_pages_then_watches(tmp_path: Path) -> None:
    store = Store(bookmarks=True)
    for number in range(8):
        store.put(f"p{number}")
    with watched(tmp_path, store) as run:
        run.wait(lambda: run.watcher.state.synced)
        assert run.seen.uids() == store.uids()
        assert all(change.listed for change in run.seen.changes)
        store.put("p3", tier="web")
        store.delete("p4")
        store.put("new", "other")
        run.wait(lambda: run.seen.uids() == store.uids())
        assert [(c.key[1], c.thing is None, c.listed) for c in run.seen.changes[8:]] == [
            ("p3", False, False), ("p4", True, False), ("new", False, False),
        ]  # fmt: skip
        assert [got.params.get("limit") for got in run.server.got[:4]] == ["3", "3", "3", None]
        watch = run.server.got[3].params
        assert watch["allowWatchBookmarks"] == "true"
        assert 300 <= int(watch["timeoutSeconds"]) <= 600
        assert watch["resourceVersion"] == "108"
        run.wait(lambda: run.watcher.state.objects == 8)  # what came is counted a little later
        state = run.watcher.state
        assert (state.relists, state.failed, state.last_error) == (0, 0, "")
        assert by_resource(run.client.requests) == {("list", "pods"): 3, ("watch", "pods"): 1}


def test_bookmarks_move_the_version(tmp_path: Path) -> None:
    versions: list[str] = []

    def script(got: Got, wire: Wire) -> None:
        if not got.is_watch:
            return wire.reply(200, {"metadata": {"resourceVersion": "5"}, "items": []})
        versions.append(got.params["resourceVersion"])
        wire.begin()
        wire.chunk(
            b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d","labels":null},'
            b'"spec":{"containers":null}}}\n' % (100 + len(versions))
        )
        if len(versions) < 3:
            return wire.end()
        wire.stopped.wait()
        wire.cut()

    with watched(tmp_path, script) as run:
        run.wait(lambda: len(versions) == 3)
        assert versions == ["5", "101", "102"]
        assert run.watcher.state.broken == 0


def test_an_expired_version_is_listed_again_and_the_difference_told(tmp_path: Path) -> None:
    store = Store()
    for name in ("a", "kept", "changed", "gone", "again"):  # without "a" it would list after a cut
        store.put(name)
    with watched(tmp_path, store) as run:
        for times in (1, 2):  # by status and by event: see Store
            run.wait(lambda: run.watcher.state.synced)
            run.wait(lambda: run.seen.uids() == store.uids())
            done = len(run.seen.changes)
            begun = store.begun
            with store._more:  # the watch sees nothing of this before it has ended
                store._ends += 1
                store.put("changed", at=str(times))
                if times == 1:
                    store.delete("gone")
                store.delete("again")
                store.put("again", at=str(times))
                store.forget()
            run.wait(lambda begun=begun: store.begun >= begun + 2)  # type: ignore[misc]
            run.wait(lambda: run.seen.uids() == store.uids())
            told = [(c.key[1], c.thing is None) for c in run.seen.changes[done:]]
            assert sorted(told[:3]) == [("again", False), ("again", True), ("changed", False)]
            assert told.index(("again", True)) < told.index(("again", False))
            assert told[3:] == [("gone", True)][: 2 - times]
            assert all(c.listed for c in run.seen.changes[done:])
        assert run.watcher.state.relists == 2


@pytest.mark.parametrize("how", ["cut", "reset", "half a line", "status 500", "status 429", "html"])
def test_faults_of_a_watch_lose_nothing(tmp_path: Path, how: str) -> None:
    store = Store()
    store.put("a")
    faults = 3

    def script(got: Got, wire: Wire) -> None:
        nonlocal faults
        if not got.is_watch or not faults:
            return store(got, wire)
        faults -= 1
        if how == "status 500":
            wire.reply(500, status(500, "etcdserver: leader changed", "InternalError"))
        elif how == "status 429":
            wire.reply(429, b"", {"Retry-After": "1"})
        elif how == "html":
            wire.begin()
            wire.chunk(b"<html>\n<body>sign in</body>\n</html>")
            wire.end()
        else:
            wire.begin()
            if how == "half a line":
                wire.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"x"')
            wire.reset() if how == "reset" else wire.cut()

    with watched(tmp_path, script) as run:
        run.wait(lambda: store.begun == 1)
        store.put("b")
        run.wait(lambda: run.seen.uids() == store.uids())
        run.wait(lambda: not run.watcher.state.last_error)
        assert faults == 0
        assert run.watcher.state.failed >= 3
        # What a server says of itself is no reason to list again, unless it goes on saying so.
        assert run.watcher.state.relists == {"status 500": 1, "status 429": 1, "html": 3}.get(
            how, 0
        )


def test_broken_objects_are_named_once_and_the_rest_goes_on(tmp_path: Path) -> None:
    store = Store()
    store.put("good")
    store.put("bad", broken="yes")
    with watched(tmp_path, store) as run:
        run.wait(lambda: run.watcher.state.synced)
        assert list(run.seen.uids()) == [("shop", "good")]
        store.put("bad", broken="still")
        store.put("other")
        run.wait(lambda: ("shop", "other") in run.seen.uids())
        assert run.watcher.state.broken == 2
        assert run.watcher.wrong == {"shop/bad": "pod bad is broken"}
        store.put("bad")
        run.wait(lambda: run.seen.uids() == store.uids())
        run.wait(lambda: not run.watcher.wrong)
        store.put("bad", broken="again")  # stays as it was last understood
        store.put("end")
        run.wait(lambda: ("shop", "end") in run.seen.uids())
        assert run.seen.pods[("shop", "bad")].labels == {}
        assert run.watcher.wrong == {"shop/bad": "pod bad is broken"}
        store.delete("bad")
        run.wait(lambda: run.seen.uids() == store.uids())


def test_a_broken_object_that_is_another_removes_the_one_before(tmp_path: Path) -> None:
    store = Store()
    store.put("a")
    with watched(tmp_path, store) as run:
        run.wait(lambda: store.begun == 1)
        with store._more:
            store.delete("a")
            store._log.pop()  # as if the removal was never told
            store.put("a", broken="yes")
        run.wait(lambda: run.watcher.state.broken == 1)
        assert run.seen.uids() == {}
        store.delete("a")
        store.put("b")
        run.wait(lambda: list(run.seen.uids()) == [("shop", "b")])


@pytest.mark.parametrize(
    ("line", "told", "relists"),
    [
        (b'{"type":"ADDED","object":{"metadata":{"name":"x","uid":', "an event cannot be read", 1),
        (b'{"type":"ADDED","object":{"metadata":{"namespace":"shop","name":"big","x":"'
         + b"y" * 9000 + b'"}}}', "was not read", 1),
        (b'{"type":"SURPRISE","object":{}}', "unknown type 'SURPRISE'", 0),
        (b'{"type":"ADDED","object":{"metadata":null}}', "an object without a name", 0),
        (b'{"type":"ADDED","object":{"metadata":[]}}', "metadata cannot be read", 0),
        (b'{"type":"ERROR","object":{}}', "an error that is no Status", 1),
        (b"\xff\xfe", "an event cannot be read", 1),
    ],
)  # fmt: skip
def test_lines_that_cannot_be_read(tmp_path: Path, line: bytes, told: str, relists: int) -> None:
    store = Store()
    store.put("a")
    begun = 0
    runs: list[Watched] = []
    errors: list[str] = []

    def script(got: Got, wire: Wire) -> None:
        nonlocal begun
        begun += got.is_watch
        if begun:
            while not runs:
                time.sleep(0.001)
            errors.append(runs[0].watcher.state.last_error)
        if not got.is_watch or begun > 1:
            return store(got, wire)
        store.put("b")  # lost with the broken line
        wire.begin()
        wire.event("ADDED", store.pods[("shop", "b")])
        if relists:
            store.put("c")
        wire.chunk(line + b"\n")
        store.put("d")
        if not relists:
            wire.event("ADDED", store.pods[("shop", "d")])
            wire.end()
            return
        wire.stopped.wait(20)

    with watched(tmp_path, script) as run:
        runs.append(run)
        run.wait(lambda: run.seen.uids() == store.uids() and begun > 1)
        assert any(told in one for one in [*errors, *run.watcher.wrong.values()])
        assert run.watcher.state.relists == relists


def test_namespaces_are_watched_where_it_is_allowed(tmp_path: Path) -> None:
    store = Store()
    store.forbidden |= {"secret"}
    for namespace in ("shop", "blog", "secret", "elsewhere"):
        store.put("a", namespace)
    names = ("shop", "blog", "secret", "shop")
    with watched(tmp_path, store, names) as run:
        run.wait(lambda: run.watcher.state.synced)
        assert set(run.seen.uids()) == {("shop", "a"), ("blog", "a")}
        store.put("b")
        run.wait(lambda: ("shop", "b") in run.seen.uids())
        states = {one.namespace: one for one in run.watcher.states}
        assert set(states) == {"shop", "blog", "secret"}
        assert states["secret"].refused
        assert not states["secret"].synced
        assert "forbidden" in run.watcher.state.last_error
        run.wait(lambda: run.watcher.state.objects == 3)
        assert shows(run.watcher, "shop")
        assert not shows(run.watcher, "secret")
        store.forbidden.clear()
        run.wait(lambda: ("secret", "a") in run.seen.uids())
        run.wait(lambda: run.watcher.state.last_error == "")


def test_what_may_be_listed_but_not_watched_is_listed_again_and_again(tmp_path: Path) -> None:
    store = Store()
    store.put("a")

    def script(got: Got, wire: Wire) -> None:
        if got.is_watch:
            wire.reply(403, status(403, "pods is forbidden: cannot watch", "Forbidden"))
        else:
            store(got, wire)

    with watched(tmp_path, script) as run:
        run.wait(lambda: run.watcher.state.synced)
        store.put("b")
        run.wait(lambda: run.seen.uids() == store.uids())
        text = "pods is forbidden: cannot watch"
        run.wait(lambda: run.watcher.state.last_error == text)


def test_a_watch_whose_server_never_replies_stops_soon(tmp_path: Path) -> None:
    asked = threading.Event()

    def script(got: Got, wire: Wire) -> None:
        if not got.is_watch:
            return wire.reply(200, {"metadata": {"resourceVersion": "5"}, "items": []})
        asked.set()
        wire.stopped.wait()

    with watched(tmp_path, script) as run:
        assert asked.wait(60)
        assert run.watcher.stop(20)  # a reply is waited for longer


def test_a_server_that_takes_its_time_to_refuse_a_watch_is_listed_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long an answer took: a watch that never began does not count as one that lasted."""
    monkeypatch.setattr("hpabatch.cluster.watch.watch._SETTLED_S", 0.01)
    store = Store()

    def script(got: Got, wire: Wire) -> None:
        if got.is_watch:
            time.sleep(0.05)
            wire.reply(500, status(500, "etcdserver: leader changed", "InternalError"))
        else:
            store(got, wire)

    with watched(tmp_path, script) as run:
        run.wait(lambda: run.watcher.state.relists > 0)
        assert run.watcher.state.failed >= 3


@pytest.mark.parametrize("seed", range(4))
def test_whatever_fails_the_end_is_the_same(tmp_path: Path, seed: int) -> None:
    """Churn while watches are cut, ended and expired, and lists fail: states agree at the end."""
    chance = random.Random(seed)
    store = Store(bookmarks=bool(seed % 2))
    calm = threading.Event()

    def script(got: Got, wire: Wire) -> None:
        if not calm.is_set() and chance.random() < 0.2:
            wire.reset() if chance.random() < 0.5 else wire.reply(503, b"")
            return
        store(got, wire)

    with watched(tmp_path, script) as run:
        for _ in range(400):
            name = f"p{chance.randrange(12)}"
            if ("shop", name) in store.pods and chance.random() < 0.4:
                store.delete(name)
            else:
                store.put(name, at=str(chance.random()))
            what = chance.random()
            if what < 0.02:
                run.server.cut_all()
            elif what < 0.04:
                store.end_watches()
            elif what < 0.06:
                store.forget()
            if chance.random() < 0.2:
                time.sleep(0.002)
                run.seen.take()  # checks every change on its way
        calm.set()
        run.wait(lambda: run.seen.uids() == store.uids())
        assert run.watcher.state.broken == 0


class _Failing(Inbox):
    """An inbox with a bug."""

    failures = 1

    def put(self, kind: Kind, key: object, thing: object, listed: bool = False) -> int:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("a bug")
        return super().put(kind, key, thing, listed)  # type: ignore[arg-type]


def test_a_bug_is_told_and_does_not_end_the_watch(tmp_path: Path) -> None:
    store = Store()
    store.put("a")
    store.put("b")
    inbox = _Failing()
    with serving(store) as server, ApiClient(connected(tmp_path, server.url)) as client:
        watcher = Watcher(client, inbox, PODS, NameDecoder(), limits=QUICK)
        watcher.start()
        run = Watched(server, client, watcher, inbox)
        run.wait(lambda: watcher.state.synced)
        assert watcher.stop(30)
        assert (watcher.state.failed, watcher.state.last_error) == (1, "")
        assert run.seen.uids() == store.uids()


def test_an_error_is_the_same_at_every_attempt(tmp_path: Path) -> None:
    """Not so the query of the address that it quotes, which says for how long to watch."""
    store, away = Store(), threading.Event()
    store.put("a")

    def script(got: Got, wire: Wire) -> None:
        if got.is_watch and away.is_set():
            wire.reset()
        else:
            store(got, wire)

    with watched(tmp_path, script) as run:
        run.wait(lambda: store.begun >= 1)
        away.set()
        run.server.cut_all()
        run.wait(lambda: run.watcher.state.failed >= 8)
        error = run.watcher.state.last_error
        assert '"http' in error
        assert "?" not in error
        away.clear()
        run.wait(lambda: not run.watcher.state.last_error)


def test_watches_that_need_not_be_waited_for() -> None:
    """Scales of workloads can be requested one by one; HPAs and pods cannot."""
    assert not WatchState("deployments.apps", failed=2).has_listed
    for state in (WatchState("deployments.apps", refused=True), WatchState("pods", failed=3)):
        assert state.is_hopeless
        assert state.has_listed == (state.name != "pods")
    assert WatchState("pods", synced=True, failed=3).has_listed
