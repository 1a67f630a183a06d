"""Pods as an API server keeps them: lists in pages, watches, what happened, what was forgotten."""

from __future__ import annotations

import json
import threading
from typing import Any

import msgspec

from hpabatch.cluster.objects.objects import Decoded, WireBytes
from hpabatch.cluster.objects.types import Kind, PodKey, PodObject, PodTemplate
from tests.cluster.fake_api import Got, Json, Wire, status

PATH = "/api/v1/pods"


class NameDecoder:
    """Makes pods of names, uids and labels; counts, and refuses what is labelled broken."""

    kind = Kind.pod

    def __init__(self) -> None:
        self.decoded = 0

    def decode(self, raw: WireBytes) -> Decoded:
        self.decoded += 1
        found: Any = msgspec.json.decode(raw)
        meta = found["metadata"]
        labels = meta.get("labels") or {}
        if "broken" in labels:
            raise ValueError(f"pod {meta['name']} is broken")
        key = (meta.get("namespace") or "", meta["name"])
        thing = PodObject(
            *key, meta["uid"], labels, None, 0, None, None, None, "Running", None, None,
            PodTemplate(),
        )  # fmt: skip
        return Decoded(key, thing)


class Store:
    """Answers lists and watches of pods as an API server does.

    Attributes:
        pods: as they are now.
        begun: how many watches were.
        lists: how many lists were begun.
    """

    def __init__(self, bookmarks: bool = False) -> None:
        self.pods: dict[PodKey, Json] = {}
        self.version = 100
        self.begun = 0
        self.lists = 0
        self.forbidden: set[str] = set()
        self._bookmarks = bookmarks
        self._log: list[tuple[int, str, Json]] = []
        self._oldest = 100
        self._more = threading.Condition()
        self._snapshots: dict[str, tuple[int, list[Json]]] = {}
        self._ends = 0
        self._expired = 0

    def put(self, name: str, namespace: str = "shop", uid: str = "", **labels: str) -> None:
        """Make a pod, or change its labels."""
        with self._more:
            key = namespace, name
            self.version += 1
            old = self.pods.get(key)
            uid = old["metadata"]["uid"] if old else uid or f"u{self.version}"
            self.pods[key] = {
                "metadata": {
                    "name": name, "namespace": namespace, "uid": uid, "labels": labels,
                    "resourceVersion": str(self.version),
                }
            }  # fmt: skip
            self._say("MODIFIED" if old else "ADDED", self.pods[key])

    def delete(self, name: str, namespace: str = "shop") -> None:
        with self._more:
            self.version += 1
            old = self.pods.pop((namespace, name))
            meta = {**old["metadata"], "resourceVersion": str(self.version)}
            self._say("DELETED", {"metadata": meta})

    def forget(self) -> None:
        """Forget what happened so far, lists under way too, as a compaction does."""
        with self._more:
            self._oldest = self.version
            self._log.clear()
            self._snapshots.clear()

    def end_watches(self) -> None:
        """End all watches as if their time was over."""
        with self._more:
            self._ends += 1
            self._more.notify_all()

    def uids(self) -> dict[PodKey, tuple[str, Json]]:
        with self._more:
            return {
                key: (pod["metadata"]["uid"], pod["metadata"]["labels"])
                for key, pod in self.pods.items()
            }

    def __call__(self, got: Got, wire: Wire) -> None:
        """Answer a request."""
        namespace = got.path.split("/")[4] if got.path.count("/") > 3 else ""
        if namespace in self.forbidden:
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            wire.reply(403, status(403, f"pods is forbidden {where}", "Forbidden"))
        elif got.is_watch:
            self._watch(got, wire, namespace)
        else:
            self._list(got, wire, namespace)

    def _say(self, kind: str, pod: Json) -> None:
        self._log.append((self.version, kind, pod))
        self._more.notify_all()

    def _list(self, got: Got, wire: Wire, namespace: str) -> None:
        with self._more:
            token, start = "", 0
            if "continue" in got.params:
                token, _, begin = got.params["continue"].rpartition("-")
                start = int(begin)
            else:
                self.lists += 1
                token = f"t{self.lists}"
                inside = [
                    pod for key, pod in sorted(self.pods.items()) if namespace in ("", key[0])
                ]
                self._snapshots[token] = self.version, inside
            kept = self._snapshots.get(token)
        if kept is None:
            wire.reply(410, status(410, "The provided continue parameter is too old", "Expired"))
            return
        version, pods = kept
        end = start + int(got.params["limit"])
        meta = {"resourceVersion": str(version)}
        if end < len(pods):
            meta["continue"] = f"{token}-{end}"
        wire.reply(200, {"kind": "PodList", "metadata": meta, "items": pods[start:end] or None})

    def _watch(self, got: Got, wire: Wire, namespace: str) -> None:
        after = int(got.params["resourceVersion"])
        with self._more:
            self.begun += 1
            ends = self._ends
            if after < self._oldest:
                old = status(410, "too old resource version", "Expired")
                self._expired += 1
                wire.reply(410, old) if self._expired % 2 else _as_event(wire, old)
                return
        wire.begin()
        while not wire.stopped.is_set():
            with self._more:
                news = [one for one in self._log if one[0] > after]
                if not news and self._ends == ends:
                    self._more.wait(0.1)
                over, oldest = self._ends != ends, self._oldest
            for version, kind, pod in news:
                after = version
                if namespace in ("", pod["metadata"]["namespace"]):
                    wire.event(kind, pod)
            if self._bookmarks and news:
                wire.event("BOOKMARK", _bookmark(after))
            if over:
                return wire.end()
            if after < oldest:
                return wire.event("ERROR", status(410, "too old resource version", "Expired"))
        wire.cut()


def _as_event(wire: Wire, error: Json) -> None:
    wire.begin()
    wire.event("ERROR", error)
    wire.end()


def _bookmark(version: int) -> Json:
    """Return a bookmark's object as servers write it, with lists that are null."""
    text = (
        '{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d","creationTimestamp":'
        'null},"spec":{"containers":null},"status":{"conditions":null}}'
    )
    found: Json = json.loads(text % version)
    return found
