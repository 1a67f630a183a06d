"""Watches of a real API server: many objects, restarts, compaction, and what no right allows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hpabatch.cluster.apis.discovery import Discovery, Resource
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.connect import connect
from hpabatch.cluster.connection.errors import Expired, NotFound
from hpabatch.cluster.objects.types import Change, Inbox
from hpabatch.cluster.watch.watch import Collection, Memory, Watcher, WatchLimits
from tests.cluster.asked import by_resource, shows
from tests.cluster.fake_store import NameDecoder
from tests.real.api_writes import Writer
from tests.real.cluster import missing, running_cluster

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PODS = Collection("", "v1", "pods")
PATH = PODS.path()
COUNT = 1203
Key = tuple[str, str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with running_cluster(tmp_path_factory.mktemp("watched"), flags=["--audit"]) as cluster:
        writer = Writer(cluster)
        for name in ("shop", "blog", "secret"):
            writer.namespace(name)
        writer.pods("shop", (f"p{number:04}" for number in range(COUNT)))
        yield writer


def client_of(server: Writer, config: str = "kubeconfig") -> ApiClient:
    return ApiClient(connect(server.folder / config, None, False, {}))


class Run:
    """A watcher under way and what came of it."""

    def __init__(self, watcher: Watcher, inbox: Inbox) -> None:
        self.watcher = watcher
        self.changes: list[Change] = []
        self.uids: dict[Key, str] = {}
        self.versions: dict[Key, object] = {}
        self._inbox = inbox

    def take(self) -> None:
        for change in self._inbox.cut()[0]:
            key = change.key[0], change.key[1]
            self.changes.append(change)
            if change.thing is None:
                del self.uids[key]
            else:
                uid = change.thing.uid  # type: ignore[union-attr]
                assert self.uids.get(key) in (None, uid)
                self.uids[key] = uid

    def wait(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while True:
            self.take()
            if holds():
                return
            assert time.monotonic() < until, self.watcher.states
            time.sleep(0.02)


@contextmanager
def watching(
    client: ApiClient, namespaces: tuple[str, ...] = (), limits: WatchLimits | None = None
) -> Iterator[Run]:
    inbox = Inbox()
    watcher = Watcher(client, inbox, PODS, NameDecoder(), namespaces, limits)
    run = Run(watcher, inbox)
    watcher.start()
    try:
        yield run
    finally:
        assert watcher.stop(60)


def uids(client: ApiClient) -> dict[Key, str]:
    items = json.loads(client.get(PATH))["items"]
    metas = [item["metadata"] for item in items]
    return {(meta["namespace"], meta["name"]): meta["uid"] for meta in metas}


def expired(client: ApiClient) -> Expired:
    """Return the error of a watch from the very first version."""
    memory = Memory(NameDecoder(), Inbox())
    try:
        with client.watch(PATH, "1", timeout_s=5) as stream:
            for line in stream:
                memory.event(line)
    except Expired as error:
        return error
    raise AssertionError("it was not too old")


def test_a_chunked_list_and_changes(server: Writer) -> None:
    with client_of(server) as client, watching(client) as run:
        run.wait(lambda: run.watcher.state.synced)
        assert run.uids == uids(client)
        assert len(run.uids) >= COUNT
        assert by_resource(client.requests)["list", "pods"] == 3
        assert all(change.listed for change in run.changes)
        listed, before = len(run.changes), run.uids["shop", "p0004"]
        server.pod("blog", "made")
        server.label("shop", "p0003", app="y")
        server.delete("shop", "p0004")
        server.pod("shop", "p0004")
        run.wait(lambda: run.uids.get(("shop", "p0004"), before) != before)
        assert run.uids == uids(client)
        told = [(change.key[1], change.thing is None) for change in run.changes[listed:]]
        assert told[:2] == [("made", False), ("p0003", False)]
        assert told[-2:] == [("p0004", True), ("p0004", False)]
        assert not any(change.listed for change in run.changes[listed:])
        assert run.watcher.state.failed == 0


def test_versions_that_were_compacted(server: Writer) -> None:
    with client_of(server) as client:
        pages = client.list_pages(PATH, chunk=400)
        first = next(pages)
        assert (len(first.items), first.first) == (400, True)
        server.label("shop", "p0001", app="z")
        server.compact()
        rest = list(pages)
        assert [page.first for page in rest] == [True, False, False, False]
        assert sum(len(page.items) for page in rest) == len(uids(client))


def test_a_server_that_is_killed_and_started_again(server: Writer) -> None:
    quick = WatchLimits(first_wait_s=0.1, longest_wait_s=0.5)
    with client_of(server) as client, watching(client, limits=quick) as run:
        run.wait(lambda: run.watcher.state.synced)
        known, count = dict(run.uids), len(run.changes)
        server.kill()
        run.wait(lambda: bool(run.watcher.state.last_error))
        assert run.watcher.state.synced
        server.start()
        server.delete("shop", "p0007")
        server.pod("shop", "p0007")
        server.pod("shop", "fresh")
        server.compact()
        run.wait(lambda: not run.watcher.state.last_error)
        run.wait(lambda: run.uids == uids(client))
        assert run.uids[("shop", "p0007")] != known[("shop", "p0007")]
        # What did not change is not told again, though the list may have been needed.
        keys = {change.key[1] for change in run.changes[count:]}
        assert keys == {"p0007", "fresh"}
        assert expired(client).text.startswith("too old resource version: 1 (")


def test_where_a_user_may_look(server: Writer) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/blog"
    server.pod("blog", "mine")
    with client_of(server, "scaler.kubeconfig") as client:
        quick = WatchLimits(first_wait_s=0.1, longest_wait_s=0.5)
        with watching(client, ("blog", "secret"), quick) as run:
            run.wait(lambda: run.watcher.state.refused)
            text = 'pods is forbidden: User "scaler" cannot list resource "pods" in API group ""'
            assert run.watcher.state.last_error == f'{text} in the namespace "blog"'
            rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
            server.send("POST", f"{rbac}/roles", {"metadata": {"name": "look"}, "rules": rules})
            subject = {"kind": "User", "name": "scaler", "apiGroup": "rbac.authorization.k8s.io"}
            role = {"kind": "Role", "name": "look", "apiGroup": "rbac.authorization.k8s.io"}
            server.send(
                "POST",
                f"{rbac}/rolebindings",
                {"metadata": {"name": "look"}, "subjects": [subject], "roleRef": role},
            )
            run.wait(lambda: ("blog", "mine") in run.uids)
            run.wait(lambda: run.watcher.state.synced)
            assert shows(run.watcher, "blog")
            assert not shows(run.watcher, "secret")
            assert {key[0] for key in run.uids} == {"blog"}
            server.delete("blog", "mine")
            run.wait(lambda: ("blog", "mine") not in run.uids)


def test_what_the_server_serves(server: Writer) -> None:
    with client_of(server) as client:
        found = Discovery(client)
        assert found.server_version().startswith("v1.20.")
        assert found.hpa_version() == "v2"
        assert found.scale_resource("apps", "Deployment") == Resource("apps", "v1", "deployments")
        assert found.scale_resource("", "Pod") == Resource("", "v1", "pods")
        with pytest.raises(NotFound, match='no matches for kind "Web" in group "apps"'):
            found.scale_resource("apps", "Web")
        with pytest.raises(NotFound, match="no custom metrics API"):
            found.custom_metrics_version()


def test_nothing_was_written(server: Writer) -> None:
    """The audit log of this file's server shows reads only, of whoever is called hpabatch."""

    def verbs() -> set[str]:
        lines = (server.folder / "log" / "audit.log").read_text().splitlines()
        return {json.loads(line)["verb"] for line in lines if "hpabatch/" in line}

    until = time.monotonic() + 30
    while not verbs() >= {"get", "list", "watch"}:  # it is written in batches
        assert time.monotonic() < until
        time.sleep(0.2)
    assert verbs() == {"get", "list", "watch"}


@pytest.mark.parametrize(
    ("root", "resource", "text"),
    [
        ("/apis/apps/v1", "deployments", "deployments/scale.apps"),
        ("/apis/apps/v1", "statefulsets", "statefulsets.apps"),
        ("/apis/apps/v1", "replicasets", "replicasets/scale.apps"),
        ("/api/v1", "replicationcontrollers", "replicationcontrollers/scale.autoscaling"),
    ],
)
def test_no_such_target(server: Writer, root: str, resource: str, text: str) -> None:
    """Each kind has its own words, which the controller quotes."""
    with client_of(server) as client:
        with pytest.raises(NotFound) as caught:
            client.get(f"{root}/namespaces/shop/{resource}/web/scale")
        assert caught.value.text == f'{text} "web" not found'
