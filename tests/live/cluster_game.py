"""A random cluster, what each pass knew of it, and how tables show that.

`Picture` is what a pass knew, kept aside by the game. `Shown` reads the same off a history by the
documented meaning of its tables, and nothing else.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from hpabatch.cluster.objects.rows import Outcome, labels_text, request_rows, shown_status
from hpabatch.cluster.objects.types import (
    Change,
    HpaObject,
    Kind,
    PodObject,
    PodSample,
    Responses,
    ScaleObject,
    SeriesSample,
    UsageSample,
)
from hpabatch.history.base import History
from hpabatch.live.record.recorder import Recorder
from hpabatch.model.objects.encode import spec_to_json
from tests.live.cases import NAMESPACES
from tests.live.documents import START_MS
from tests.live.recorded import Cluster

CLUSTER = "demo"
OWNERS = ("ReplicaSet/web-h4sh", "StatefulSet/web", None)
_MOST = 2**63 - 1

Usage = tuple[tuple[str, int | None, int | None], ...]


@dataclass
class Picture:
    """What one pass knew, by namespace and name, pods by that and the first part of their uid."""

    now_ms: int
    started: bool
    pods: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    hpas: dict[tuple[str, str], str] = field(default_factory=dict)
    statuses: dict[tuple[str, str], Any] = field(default_factory=dict)
    scales: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    usage: dict[tuple[str, str], Any] = field(default_factory=dict)
    fine: set[str] = field(default_factory=set)
    series: dict[tuple[str, ...], Any] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], Any] = field(default_factory=dict)


class Game:
    """A cluster, a recorder of it, and what the passes knew."""

    def __init__(self, seed: int) -> None:
        """Begin empty."""
        self.random = random.Random(seed)
        self.world = Cluster(self.random)
        self.pass_ms = START_MS
        self.pods: dict[Any, PodObject] = {}
        self.hpas: dict[Any, HpaObject] = {}
        self.scales: dict[tuple[str, str, str], Any] = {}  # as far as told
        self.changes: list[Change] = []
        self.pictures: list[Picture] = []

    @property
    def now_ms(self) -> int:
        return self.world.now_ms

    @now_ms.setter
    def now_ms(self, ms: int) -> None:
        self.world.now_ms = ms

    # ---- the cluster

    def list_all(self) -> None:
        """Tell of everything, as a loop that starts gets to know it."""
        self.changes += [
            replace(one, listed=True) for one in map(self._see, self.world.everything())
        ]

    def stir(self, times: int, quiet: bool = False) -> None:
        """Change something; `quiet`: nobody watches."""
        world = self.world
        often = [world.draw_pod, world.draw_pod_change, world.draw_hpa, world.draw_size]
        for _ in range(times):
            self.random.choice([*often, *often, world.draw_scale])()
        seen = [self._see(change) for change, _ in world.take()]
        self.changes += [] if quiet else seen

    def _see(self, change: Change) -> Change:
        """Keep an object as it is now; a pod gets an owner, and a node once it is started."""
        thing, key = change.thing, change.key
        if isinstance(thing, PodObject):
            owner = OWNERS[zlib.crc32(thing.uid.encode()) % len(OWNERS)]
            thing = replace(thing, owner=owner, node="n1" if thing.started_ms else None)
            self.pods[key] = thing
        elif isinstance(thing, HpaObject):
            self.hpas[key] = thing
        elif change.kind is not Kind.scale:
            (self.pods if change.kind is Kind.pod else self.hpas).pop(key, None)
        return replace(change, thing=thing)

    # ---- passes

    def play(self, recorder: Recorder, started: bool = False) -> Picture:
        """Decide once: cut, hand over, and keep what was known."""
        self.now_ms = max(self.now_ms + self.random.randrange(50, 5000), self.pass_ms + 50)
        self.world.draw_answers()
        answers, at_ms = self.world.answers(), self.now_ms
        said = (("ok", ""), ("empty", ""), ("error", "no"))
        outcomes = {
            key: [Outcome(*self.random.choice(said), at_ms)]
            for key, one in self.hpas.items() if not one.problem
        }  # fmt: skip
        self.now_ms += 1
        changes, self.changes = self.changes, []
        for change in changes:
            if isinstance(change.thing, ScaleObject):
                scale = change.thing
                where = (scale.key.namespace, scale.key.kind, scale.key.name)
                # One that cannot be read has the sizes that it had.
                before = self.scales.get(where, (0, 0, "", None))
                fresh = (scale.replicas, scale.status_replicas, scale.selector, None)
                self.scales[where] = (*before[:3], scale.error) if scale.error else fresh
        recorder.apply(changes)
        recorder.observe(self.now_ms, answers, outcomes)
        recorder.pass_done(self.now_ms, started, len(self.hpas), 7, "1.36")
        picture = self._picture(answers, outcomes, started)
        self.pictures.append(picture)
        self.pass_ms = self.now_ms
        return picture

    def _picture(self, answers: Responses, outcomes: Any, started: bool) -> Picture:
        found = Picture(self.now_ms, started, scales=dict(self.scales))
        for key, pod in self.pods.items():
            found.pods[key] = {
                "uid": pod.uid,
                "labels": labels_text(pod.labels),
                "phase": pod.phase,
                "ready": pod.ready,
                "transition": pod.transition_ms,
                "started": pod.started_ms,
                "deleting": pod.deletion_ms is not None,
                "requests": set(request_rows(pod.template)),
            }
        for key, one in self.hpas.items():
            if not one.problem:
                found.hpas[key] = spec_to_json(one.hpa)
            shown = shown_status(one.hpa.status)
            if shown is not None:
                found.statuses[key] = (one.hpa.uid, *shown)
        for space in NAMESPACES:
            answer = answers.usage_of(space)
            if answer is not None and not answer.error:
                found.fine.add(space)
                for item in answer.samples:
                    assert isinstance(item, UsageSample)
                    key = (item.namespace, item.pod)
                    if item.namespace == space and key in self.pods:
                        found.usage[key] = _usage(item)
        found.series = self._series(answers)
        found.outcomes = {k: [(o.answer, o.error or None) for o in v] for k, v in outcomes.items()}
        return found

    def _series(self, answers: Responses) -> dict[tuple[str, ...], int | None]:
        """Return the value of every pod and series that was asked for, None: it has none."""
        found: dict[tuple[str, ...], int | None] = {}
        for pods, answer in answers.pods.items():
            request, own = ("pod_custom_metrics", *pods), pods.namespace
            if not answer.error:
                found |= {(*request, name): None for space, name in self.pods if space == own}
            for item in answer.samples:
                assert isinstance(item, PodSample)
                if (own, item.pod) in self.pods:
                    found[*request, item.pod] = _value(item)
        for thing, answer in answers.objects.items():
            place = (thing.namespace, thing.kind, thing.name, thing.metric, thing.selector)
            for item in answer.samples:
                found["object_metrics", *place] = _value(item)
        for series, answer in answers.external.items():
            request = ("external_metrics", *series)
            if not answer.error:
                found |= {(*request, f"n={k}"): None for k in range(3)}
            for item in answer.samples:
                assert isinstance(item, SeriesSample)
                found[*request, item.series] = _value(item)
        return found


def _value(item: Any) -> int:
    return min(max(int(item.value_milli), -_MOST), _MOST)


def _usage(item: UsageSample) -> Usage | None:
    rows = tuple(
        (c.name, c.cpu_milli, None if c.memory_milli is None else -(-c.memory_milli // 1000))
        for c in sorted(item.containers)
    )
    return rows or None


class Shown:
    """What a history shows at an instant."""

    def __init__(self, history: History) -> None:
        def rows(table: str) -> list[dict[str, Any]]:
            frame = history.read(table, optional=True)
            times = [n for n, t in frame.schema.items() if isinstance(t, pl.Datetime)]
            return frame.with_columns(pl.col(times).to_physical()).rows(named=True)

        self.tables = {
            name: rows(name)
            for name in (
                *("pods", "pod_states", "pod_requests", "hpas", "hpa_status", "scales", "passes"),
                *("pod_metrics", "pod_custom_metrics", "object_metrics", "external_metrics"),
                *("metric_fetches", "provenance"),
            )
        }

    def at(self, now_ms: int, started: bool) -> Picture:
        """Return the picture at an instant; samples of all, whether they were fetched or not."""
        found = Picture(now_ms, started)
        names: dict[str, tuple[str, str]] = {}
        for row in self.tables["pods"]:
            gone = row["gone"]
            if row["created"] <= now_ms and (gone is None or now_ms < gone):
                key = (row["namespace"], row["pod"])
                assert key not in found.pods, "two pods of one name at once"
                names[row["uid"]] = key
                found.pods[key] = self._pod(row, now_ms)
        for row in self.tables["hpas"]:
            if row["valid_from"] <= now_ms and (
                row["valid_to"] is None or now_ms < row["valid_to"]
            ):
                assert (row["namespace"], row["name"]) not in found.hpas
                found.hpas[row["namespace"], row["name"]] = row["spec"]
        for row in sorted(self.tables["hpa_status"], key=lambda one: one["ts"]):
            if row["ts"] <= now_ms:
                found.statuses[row["namespace"], row["name"]] = (
                    row["uid"],
                    *(row["current_replicas"], row["desired_replicas"], row["current_metrics"]),
                    *(row["conditions"], row["last_scale_time"], row["observed_generation"]),
                )
        for row in self.tables["scales"]:
            if row["ts"] < now_ms:
                found.scales[row["namespace"], row["target_kind"], row["target"]] = (
                    *(row["spec_replicas"], row["status_replicas"], row["selector"], row["error"]),
                )
        for row in self.tables["metric_fetches"]:
            if row["ts"] <= now_ms:
                place = (row["namespace"], row["name"])
                found.outcomes[place] = [(row["answer"], row["error"])]
        found.usage = self._usage(names, now_ms)
        found.series = self._series(names, now_ms)
        return found

    def _pod(self, row: dict[str, Any], now_ms: int) -> dict[str, Any]:
        states = [
            s for s in self.tables["pod_states"] if s["uid"] == row["uid"] and s["ts"] <= now_ms
        ]
        last = max(states, key=lambda s: s["ts"], default=None)
        asked = [r for r in self.tables["pod_requests"] if r["uid"] == row["uid"]]
        first = min((r["valid_from"] for r in asked), default=0)
        newest: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for r in sorted(asked, key=lambda one: one["valid_from"]):
            if r["valid_from"] <= max(now_ms, first):
                values = tuple(r.values())[8:]
                newest[r["container"], r["kind"], r["index"]] = values
        return {
            "uid": row["uid"].partition("#")[0],
            "labels": row["labels"],
            "phase": last["phase"] if last else "Pending",
            "ready": last["ready"] if last else None,
            "transition": last["last_transition"] if last else None,
            "started": row["started"] if (row["started"] or 2**62) <= now_ms else None,
            "deleting": (row["deletion_requested"] or 2**62) <= now_ms,
            "requests": {
                (*key, *values)
                for key, values in newest.items()
                if key[1] not in ("pod", "overhead") or any(v is not None for v in values)
            },
        }

    def _usage(self, names: dict[str, tuple[str, str]], now_ms: int) -> dict[Any, Any]:
        """Return what is visible: the newest sample that had arrived; a row of nulls withdraws."""
        steps: dict[str, dict[int, list[dict[str, Any]]]] = {}
        for row in self.tables["pod_metrics"]:
            if row["uid"] in names:
                steps.setdefault(row["uid"], {}).setdefault(row["ts"], []).append(row)
        found = {}
        for uid, by_ts in steps.items():
            seen = [
                ts for ts, rows in by_ts.items() if max(r["fetched_at"] for r in rows) <= now_ms
            ]
            if seen:
                rows = by_ts[max(seen)]
                if any(r["cpu_milli"] is not None or r["memory_bytes"] is not None for r in rows):
                    found[names[uid]] = tuple(
                        (r["container"], r["cpu_milli"], r["memory_bytes"]) for r in rows
                    )
        return found

    def _series(self, names: dict[str, tuple[str, str]], now_ms: int) -> dict[Any, Any]:
        best: dict[Any, tuple[int, Any]] = {}
        for table in ("pod_custom_metrics", "object_metrics", "external_metrics"):
            for row in self.tables[table]:
                if row["fetched_at"] > now_ms:
                    continue
                names_of = {"pod_custom_metrics": ("namespace", "metric", "selector")} | {
                    "object_metrics": ("namespace", "kind", "name", "metric", "selector"),
                    "external_metrics": ("namespace", "metric", "selector", "series"),
                }
                place = (table, *(row[name] for name in names_of[table]))
                if table == "pod_custom_metrics":
                    if row["uid"] not in names:
                        continue
                    place = (*place, names[row["uid"]][1])
                if place not in best or row["ts"] > best[place][0]:
                    best[place] = (row["ts"], row["value_milli"])
        return {place: value for place, (_, value) in best.items()}


def compare(known: Picture, shown: Picture) -> None:
    """Assert that a history shows what a pass knew."""
    assert shown.pods.keys() == known.pods.keys()
    for name, pod in known.pods.items():
        if pod["phase"] == "Pending":
            # Times of objects are whole seconds: the start may be told as before it was seen. Of
            # a pending pod nobody asks for it.
            shown.pods[name]["started"] = pod["started"]
        assert shown.pods[name] == pod, name
    assert shown.hpas == known.hpas
    assert _chosen(shown.statuses, known.statuses) == known.statuses
    assert _chosen(shown.scales, known.scales) == known.scales
    for space in known.fine:
        ours = {key: rows for key, rows in known.usage.items() if key[0] == space}
        theirs = {key: rows for key, rows in shown.usage.items() if key[0] == space}
        assert theirs == {key: rows for key, rows in ours.items() if rows is not None}
    assert {key: shown.series.get(key) for key in known.series} == known.series
    assert _chosen(shown.outcomes, known.outcomes) == known.outcomes


def _chosen(found: dict[Any, Any], keys: Iterable[Any]) -> dict[Any, Any]:
    return {key: found.get(key) for key in keys}
