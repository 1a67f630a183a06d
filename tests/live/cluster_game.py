"""A made-up cluster that changes at random, what each pass knew of it, and how tables show that.

`Picture` is what a pass knew, kept aside by the game. `Shown` reads the same off a history by the
documented meaning of its tables, and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from hpabatch.cluster.objects.rows import Outcome, labels_text, request_rows, shown_status
from hpabatch.cluster.objects.types import (
    Change,
    ContainerSpec,
    ContainerUsage,
    ExternalMetricKey,
    HpaObject,
    Kind,
    ObjectMetricKey,
    PodMetricKey,
    PodObject,
    PodSample,
    PodTemplate,
    Response,
    Responses,
    ScaleKey,
    ScaleObject,
    SeriesSample,
    UsageSample,
)
from hpabatch.history.base import History
from hpabatch.live.record.recorder import Recorder
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import (
    HPA,
    CrossVersionObjectReference,
    HPASpec,
    HPAStatus,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests

START_MS = 1_790_000_000_000
CLUSTER = "demo"
SPACES = ("shop", "mail")
CUSTOM = [PodMetricKey(space, "rps", "") for space in SPACES]
OBJECTS = [
    ObjectMetricKey("shop", "networking.k8s.io", "Ingress", "web", "hits", "verb=GET"),
    ObjectMetricKey("mail", "", "Namespace", "ignored", "hits", ""),
]
EXTERNAL = [ExternalMetricKey("shop", "lag", "queue=a")]


def template_of(milli: int, pod_level: bool = False) -> PodTemplate:
    amounts = {"cpu": Quantity.parse(f"{milli}m"), "memory": Quantity.parse("64Mi")}
    app = ContainerSpec(ContainerRequests("app", amounts), {"cpu": Quantity.parse("2")})
    side = ContainerSpec(ContainerRequests("proxy", amounts, "Always"))
    return PodTemplate((app,), (side,), amounts if pod_level else None)


def hpa_of(space: str, name: str, uid: str, most: int, status: HPAStatus) -> HPA:
    target = MetricTarget("Utilization", average_utilization=most)
    metric = MetricSpec("Resource", resource=ResourceMetricSource("cpu", target))
    ref = CrossVersionObjectReference("Deployment", name, "apps/v1")
    return HPA(
        name=name,
        namespace=space,
        spec=HPASpec(ref, 1, most, (metric,)),
        status=status,
        labels=(("app", name),),
        uid=uid,
        generation=most,
        creation_timestamp="2026-09-21T00:00:00Z",
    )


Usage = tuple[tuple[str, int | None, int | None], ...]


@dataclass
class Picture:
    """What one pass knew, by namespace and name, pods by that and the first part of their uid."""

    now_ms: int
    started: bool
    pods: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    hpas: dict[tuple[str, str], str] = field(default_factory=dict)
    statuses: dict[tuple[str, str], Any] = field(default_factory=dict)
    scales: dict[tuple[str, str], Any] = field(default_factory=dict)
    usage: dict[tuple[str, str], Any] = field(default_factory=dict)
    fine: set[str] = field(default_factory=set)
    series: dict[tuple[str, ...], Any] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], Any] = field(default_factory=dict)


class Game:
    """A cluster, a recorder of it, and what the passes knew."""

    def __init__(self, seed: int, bare: bool = False) -> None:
        """Begin empty; `bare`: some pods are owned by nothing."""
        self.random = random.Random(seed)
        self.bare = bare
        self.now_ms = START_MS
        self.pass_ms = START_MS
        self.pods: dict[tuple[str, str], PodObject] = {}
        self.hpas: dict[tuple[str, str], HpaObject] = {}
        self.scales: dict[ScaleKey, ScaleObject] = {}
        self.changes: list[Change] = []
        self.pictures: list[Picture] = []
        self.seen_scales: dict[tuple[str, str], Any] = {}
        self.statuses: dict[tuple[str, str], Any] = {}
        self._number = 0
        self._usage: dict[tuple[str, str], UsageSample] = {}
        self._custom: dict[tuple[PodMetricKey, str], PodSample] = {}
        self._series: dict[tuple[Any, str], SeriesSample] = {}
        self._templates = [template_of(100), template_of(200), template_of(100, True)]

    # ---- the cluster

    def tell(self, kind: Kind, key: Any, thing: Any, listed: bool = False) -> None:
        """Add a change at an instant that is not before the last one."""
        self.now_ms += self.random.choice((0, 0, 1, 400))
        self.changes.append(Change(kind, key, thing, self.now_ms, listed))

    def list_all(self) -> None:
        """Tell of everything, as a loop that starts gets to know it."""
        for key, hpa in self.hpas.items():
            self.tell(Kind.hpa, key, hpa, True)
        for place, scale in self.scales.items():
            self.tell(Kind.scale, place, scale, True)
        for name, pod in self.pods.items():
            self.tell(Kind.pod, name, pod, True)

    def stir(self, times: int, quiet: bool = False) -> None:
        """Change something; `quiet`: nobody watches."""
        kept = len(self.changes)
        for _ in range(times):
            self.random.choice(self._events())()
        if quiet:
            del self.changes[kept:]

    def _events(self) -> list[Callable[[], None]]:
        often = [self._add_pod, self._add_pod, self._move_pod, self._move_pod, self._move_pod]
        pods = [self._drop_pod, self._relabel]
        return [
            *often,
            *pods,
            *(self._edit_hpa, self._drop_hpa, self._report),
            self._resize,
            self._fail_scale,
        ]

    def _name(self) -> tuple[str, str]:
        return self.random.choice(SPACES), f"web-{self.random.randrange(4)}"

    def _add_pod(self) -> None:
        space, app = self._name()
        name = f"{app}-h4sh-{self.random.randrange(5)}"
        if (space, name) in self.pods:
            return
        self._number += 1
        listed = self.random.random() < 0.2
        owners = (f"ReplicaSet/{app}-h4sh", f"StatefulSet/{app}")
        owner: str | None = self.random.choice(owners)
        if self.bare and self.random.random() < 0.3:
            owner = None
        pod = PodObject(
            namespace=space,
            name=name,
            uid=f"uid-{self._number}",
            labels={"app": app, "pod-template-hash": "h4sh"},
            owner=owner,
            created_ms=self.now_ms // 1000 * 1000,
            started_ms=None,
            deletion_ms=None,
            node=None,
            phase="Pending",
            ready=None,
            transition_ms=None,
            template=self.random.choice(self._templates),
        )
        self.pods[space, name] = pod
        self.tell(Kind.pod, (space, name), pod, listed)

    def _move_pod(self) -> None:
        if not self.pods:
            return
        key = self.random.choice(sorted(self.pods))
        pod = self.pods[key]
        second = self.now_ms // 1000 * 1000
        if pod.phase == "Pending":
            pod = replace(pod, phase="Running", started_ms=second, ready="False")
            pod = replace(pod, transition_ms=second, node="n1")
        elif self.random.random() < 0.2:
            pod = replace(pod, deletion_ms=second + 30_000)
        elif self.random.random() < 0.3:
            pod = replace(pod, template=self.random.choice(self._templates))
        elif self.random.random() < 0.1:
            pod = replace(pod, phase=self.random.choice(("Failed", "Strange")))
        else:
            ready = "False" if pod.ready == "True" else "True"
            pod = replace(pod, ready=ready, transition_ms=second)
        self.pods[key] = pod
        self.tell(Kind.pod, key, pod)

    def _drop_pod(self) -> None:
        if self.pods:
            key = self.random.choice(sorted(self.pods))
            pod = self.pods.pop(key)
            self.tell(Kind.pod, key, None)
            if self.random.random() < 0.2:  # A list that was cut short, and then one that was not.
                self.pods[key] = pod
                self.tell(Kind.pod, key, pod, True)

    def _relabel(self) -> None:
        if self.pods:
            key = self.random.choice(sorted(self.pods))
            labels = {"app": "other" if self.random.random() < 0.5 else "again"}
            self.pods[key] = replace(self.pods[key], labels=labels)
            self.tell(Kind.pod, key, self.pods[key])

    def _edit_hpa(self) -> None:
        key = self._name()
        before = self.hpas.get(key)
        uid = before.hpa.uid if before else f"hpa-{self.now_ms}-{self.random.random()}"
        status = before.hpa.status if before else HPAStatus()
        hpa = hpa_of(*key, uid, self.random.randrange(2, 9), status)
        problem = "spec: broken" if self.random.random() < 0.15 else ""
        self.hpas[key] = HpaObject(*key, hpa, problem)
        self.tell(Kind.hpa, key, self.hpas[key])

    def _drop_hpa(self) -> None:
        if self.hpas and self.random.random() < 0.5:
            key = self.random.choice(sorted(self.hpas))
            del self.hpas[key]
            self.tell(Kind.hpa, key, None)
            if self.random.random() < 0.5:
                self._edit_hpa()

    def _report(self) -> None:
        if self.hpas:
            key = self.random.choice(sorted(self.hpas))
            one = self.hpas[key]
            status = HPAStatus(self.random.randrange(1, 4), 2, "2026-09-21T00:00:01Z")
            self.hpas[key] = replace(one, hpa=replace(one.hpa, status=status))
            self.tell(Kind.hpa, key, self.hpas[key])

    def _resize(self) -> None:
        space, name = self._name()
        key = ScaleKey("apps", "Deployment", space, name)
        self.scales[key] = ScaleObject(key, self.random.randrange(6), 2, f"app={name}")
        self.tell(Kind.scale, key, self.scales[key])

    def _fail_scale(self) -> None:
        space, name = self._name()
        key = ScaleKey("apps", "Deployment", space, name)
        self.scales[key] = ScaleObject(key, error=f'deployments.apps "{name}" not found', code=1)
        self.tell(Kind.scale, key, self.scales[key])

    # ---- metrics

    def _next_ts(self, before: int | None) -> int:
        """Return the time of a sample: newer, or the same or an older one."""
        kind = self.random.random()
        if before is None or kind < 0.6:
            return self.now_ms - self.random.randrange(0, 60_000)
        if kind < 0.8:
            return before
        return before - self.random.choice((1, 1000, 40_000))

    def _value(self) -> int | None:
        return None if self.random.random() < 0.05 else self.random.randrange(3)

    def _answer_usage(self) -> dict[str, Response]:
        whole = self.random.random() < 0.5
        found: dict[str, Response] = {}
        for spaces in [SPACES] if whole else [(space,) for space in SPACES]:
            items = []
            for key, pod in sorted(self.pods.items()):
                if key[0] not in spaces or self.random.random() < 0.15:
                    self._usage.pop(key, None)
                    continue
                last = self._usage.get(key)
                if last is None or self.random.random() < 0.7:
                    containers = (
                        ContainerUsage("app", self._value(), (self._value() or 1) * 1000),
                        ContainerUsage("proxy", self._value(), 5000),
                    )
                    ts = self._next_ts(last.ts_ms if last else None)
                    last = UsageSample(pod.namespace, pod.name, ts, 15_000, containers)
                self._usage[key] = last
                items.append(last)
            items.append(UsageSample(spaces[0], "nobody", self.now_ms, None, ()))
            error = "the server is currently unable" if self.random.random() < 0.1 else ""
            at = self.now_ms
            found["" if whole else spaces[0]] = Response(at, () if error else tuple(items), error)
        return found

    def _answer_pods(self) -> dict[PodMetricKey, Response]:
        found = {}
        for key in CUSTOM:
            if self.random.random() < 0.2:
                continue
            items = []
            for place in sorted(self.pods):
                if place[0] == key.namespace and self.random.random() < 0.8:
                    last = self._custom.get((key, place[1]))
                    ts = self._next_ts(last.ts_ms if last else None)
                    sample = PodSample(place[1], ts, None, self.random.randrange(-2, 3))
                    self._custom[key, place[1]] = sample
                    items.append(sample)
            found[key] = Response(self.now_ms, tuple(items))
        return found

    def _answer_series(self, key: Any, names: Iterable[str]) -> Response:
        items = []
        for name in names:
            if self.random.random() < 0.8:
                last = self._series.get((key, name))
                ts = self._next_ts(last.ts_ms if last else None)
                sample = SeriesSample(name, ts, self.random.randrange(3))
                self._series[key, name] = sample
                items.append(sample)
        return Response(self.now_ms, tuple(items))

    # ---- passes

    def play(self, recorder: Recorder, started: bool = False) -> Picture:
        """Decide once: cut, hand over, and keep what was known."""
        self.now_ms += self.random.randrange(1, 5000)
        usage, custom = self._answer_usage(), self._answer_pods()
        objects = {key: self._answer_series(key, [""]) for key in OBJECTS}
        external = {key: self._answer_series(key, ["a", "b", ""]) for key in EXTERNAL}
        answers = Responses(usage, custom, objects, external)
        outcomes = {
            key: [Outcome(*self.random.choice((("ok", ""), ("empty", ""), ("error", "no"))), at)]
            for key, one in self.hpas.items()
            if not one.problem
            for at in (self.now_ms,)
        }
        self.now_ms += 1
        self.now_ms = max(self.now_ms, self.pass_ms + 2)
        changes, self.changes = self.changes, []
        self._see_scales(changes)
        recorder.apply(changes)
        recorder.observe(self.now_ms, answers, outcomes)
        recorder.pass_done(self.now_ms, started, len(self.hpas), 7, "1.36")
        picture = self._picture(answers, outcomes, started)
        self.pictures.append(picture)
        self.pass_ms = self.now_ms
        return picture

    def _see_scales(self, changes: Iterable[Change]) -> None:
        """Note what was seen of scales: one that cannot be read has the sizes that it had."""
        for change in changes:
            if isinstance(change.thing, ScaleObject):
                scale = change.thing
                where = (scale.key.namespace, scale.key.name)
                before = self.seen_scales.get(where, (0, 0, "", None))
                fresh = (scale.replicas, scale.status_replicas, scale.selector, None)
                self.seen_scales[where] = (*before[:3], scale.error) if scale.error else fresh

    def _picture(self, answers: Responses, outcomes: Any, started: bool) -> Picture:
        found = Picture(self.now_ms, started)
        for key, pod in self.pods.items():
            found.pods[key] = {
                "uid": pod.uid,
                "labels": labels_text(pod.labels),
                "phase": pod.phase if pod.phase != "Strange" else "Unknown",
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
        for place in self.scales:
            where = (place.namespace, place.name)
            found.scales[where] = self.seen_scales[where]
        for space in SPACES:
            answer = answers.usage_of(space)
            if answer is not None and not answer.error:
                found.fine.add(space)
                for item in answer.samples:
                    assert isinstance(item, UsageSample)
                    key = (item.namespace, item.pod)
                    if item.namespace == space and key in self.pods:
                        found.usage[key] = _usage(item)
        for pods_key, answer in answers.pods.items():
            for owner, pod_name in self.pods:
                if owner == pods_key.namespace:
                    found.series["pod_custom_metrics", pods_key.namespace, pod_name] = None
            for one_pod in answer.samples:
                assert isinstance(one_pod, PodSample)
                place_of = ("pod_custom_metrics", pods_key.namespace, one_pod.pod)
                found.series[place_of] = one_pod.value_milli
        for thing, answer in answers.objects.items():
            name = "mail" if thing.kind == "Namespace" else thing.name
            found.series["object_metrics", thing.namespace, name] = _only(answer)
        for item_key, answer in answers.external.items():
            for name in ("a", "b", ""):
                found.series["external_metrics", item_key.namespace, name] = _only(answer, name)
        found.outcomes = {k: [(o.answer, o.error or None) for o in v] for k, v in outcomes.items()}
        return found


def _usage(item: UsageSample) -> Usage | None:
    rows = tuple(
        (c.name, c.cpu_milli, None if c.memory_milli is None else -(-c.memory_milli // 1000))
        for c in item.containers
    )
    return rows or None


def _only(answer: Response, name: str = "") -> int | None:
    for item in answer.samples:
        if isinstance(item, SeriesSample) and item.series == name:
            return item.value_milli
    return None


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
                found.scales[row["namespace"], row["target"]] = (
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
                place: tuple[str, str, str]
                if table == "pod_custom_metrics":
                    if row["uid"] not in names:
                        continue
                    place = (table, *names[row["uid"]])
                else:
                    place = (table, row["namespace"], str(row.get("name", row.get("series"))))
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
