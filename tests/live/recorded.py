"""A loop over a random cluster with its recorder, and what a replay makes of the recording.

Both sides are read alike: the numbers of a decision and of each of its metrics, and the texts of
events and errors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from hpabatch.cluster.apis.discovery import missing_scale
from hpabatch.cluster.objects.rows import shown_status
from hpabatch.cluster.objects.types import PodKey, ScaleKey
from hpabatch.engine.explain.moment import status_reader
from hpabatch.engine.explain.status import LaneWords, StatusReader
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.engine.shards.run import run_step, shard_steps
from hpabatch.history.reader import open_history
from hpabatch.history.store.upkeep import check_history
from hpabatch.layout import codes
from hpabatch.layout.results import DECISION, DETAIL, METRIC_DECISION, Results
from hpabatch.live.passes.columns import TICKS
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.memory import load
from hpabatch.live.passes.words import PassWords
from hpabatch.live.record.recorder import Recorder
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.texts import Texts
from tests.live.cases import World
from tests.live.documents import Json, hpa_of, key_of_target

K8S = "1.37"
CLUSTER = "c"
FLAGS = ControllerFlags()
Key = tuple[int, str, str]
"""Instant, namespace and name."""


class Cluster(World):
    """A random cluster that does nothing that none does.

    Every target has a scale or an error, as `ScaleBook` sees to. A pod has a uid of its own, keeps
    its containers, and is started once, before it is ready. A status is never taken back. A sample
    has some value; memory is in whole bytes, and no more than the history can hold.
    """

    def new_pod(self, name: str) -> Json:
        pod = super().new_pod(name)
        self.born += 1
        return pod | {"uid": f"pod-{self.born}"}

    def put_pod(self, namespace: str, pod: Json) -> None:
        before = self.pods.get((namespace, pod["name"]))
        if before is not None and _containers(before) != _containers(pod):
            pod = {name: part for name, part in pod.items() if name not in _SPECS}
            pod |= {name: part for name, part in before.items() if name in _SPECS}
        started = before and before["uid"] == pod["uid"] and before["start_time"]
        if started:
            pod = pod | {"start_time": started}
        elif pod["start_time"] is None:
            pod = pod | {"phase": "Pending", "ready": None}
        super().put_pod(namespace, pod)

    def draw_answers(self) -> None:
        super().draw_answers()
        self.usage = {
            key: item for key, item in self.usage.items() if any(item["containers"].values())
        }

    def _usage(self, pod: Json) -> Json:
        usage = super()._usage(pod)
        for container in usage["containers"].values():
            if not container.get("memory", "Mi").endswith("Mi"):
                container["memory"] = "300Mi"
        return usage

    def put_hpa(self, document: Json, problem: str = "") -> None:
        meta = document["metadata"]
        before = self.hpas.get((meta["namespace"], meta["name"]))
        if before and before["metadata"]["uid"] == meta["uid"] and _is_empty(document["status"]):
            document = document | {"status": before["status"]}
        super().put_hpa(document, problem)
        key = key_of_target(meta["namespace"], document)
        if key not in self.scales:
            self.remove_scale(key)

    def remove_scale(self, key: ScaleKey) -> None:
        error = missing_scale(key)
        self.put_scale(key, {"error": error.error, "code": error.code})


_SPECS = ("containers", "init_containers", "pod_requests")


def _is_empty(status: Json) -> bool:
    return not (status and (status["conditions"] or status["desiredReplicas"]))


def _containers(pod: Json) -> list[list[str]]:
    return [[c["name"] for c in pod.get(part, ())] for part in _SPECS[:2]]


def flushed(recorder: Recorder, timeout_s: float = 60) -> bool:
    """Let a recorder write everything now; return whether it is done in that time."""
    recorder._hand_over()
    done = recorder._writer.drain(timeout_s)
    recorder._say_changes()
    return done


class Recorded:
    """A loop over a cluster that changes at random, and its recorder.

    Attributes:
        said: what the loop decided, by instant and HPA.
        passes: their instants (ms); `ends`: of the last that each process stored.
    """

    def __init__(
        self, seed: int, k8s: str, folder: Path | str, zero: bool = False, **options: Any
    ) -> None:
        self.k8s, self.folder, self.profile = k8s, folder, profile_for(k8s)
        self.options = options
        self.passes: list[int] = []
        self.ends: list[int] = []
        rng = random.Random(seed)
        self.world = Cluster(rng, int(k8s.split(".")[1]), zero)
        self.said: dict[Key, Json] = {}
        self._flushed_ms = 0
        self.start()

    def start(self, state: Path | None = None) -> None:
        """Begin a loop and a recorder, as a process does."""
        saved = load(state, "test") if state else None
        self.decider = Decider(self.profile, FLAGS, saved)
        self.recorder = Recorder(
            self.folder, CLUSTER, segment_s=1e9, clock=lambda: self.world.now_ms + 1, **self.options
        )
        self.recorder.controller(self.world.now_ms, "observed", self.k8s, {})

    def one_pass(self) -> None:
        """Let the world go on, and decide."""
        for _ in range(3):
            self.world.step()
        self.world.draw_answers()
        changes = [change for change, _ in self.world.take()]
        self.world.now_ms += 1
        now_ms, answers = self.world.now_ms, self.world.answers()
        self.passes.append(now_ms)
        self.decider.apply(changes)
        self.recorder.apply(changes)
        result = self.decider.decide(now_ms, answers)
        self.recorder.observe(now_ms, answers, self.decider.outcomes())
        self.recorder.pass_done(now_ms, result.start, len(result), 1, self.k8s)
        words: Any = getattr(result.why, "__self__")  # noqa: B009
        self.said |= _said_live(self.decider, words)
        self.world.now_ms += self.world.rng.choice([1_000, 15_000, 15_000, 60_000])

    def stop(self) -> None:
        """End the process."""
        assert self.recorder.close()
        self.ends += self.passes[-1:]

    def flush(self) -> None:
        """Let everything so far become a part of the store."""
        assert flushed(self.recorder)
        self._flushed_ms = self.world.now_ms

    def kill(self) -> None:
        """End the process without any notice: what is not yet in the store is lost."""
        self.recorder._writer.close(60.0)
        self.said = {key: said for key, said in self.said.items() if key[0] <= self._flushed_ms}
        self.passes = [ms for ms in self.passes if ms <= self._flushed_ms]
        self.ends += self.passes[-1:]

    def relist(self) -> None:
        """Tell everything anew, as a new process finds it."""
        told = self.world.everything()
        self.world.changes = [(replace(change, listed=True), None) for change in told]

    def compare(
        self, stored: Callable[[int], bool] = lambda ms: True, without: Collection[int] = ()
    ) -> int:
        """Compare every decision at the instants that are stored with its replay; count them."""
        history = open_history(self.folder)
        findings = check_history(history)
        assert findings.is_empty(), findings.rows()
        assert history.read("passes")["ts"].to_physical().to_list() == list(
            filter(stored, self.passes)
        )
        again, skipped = self.replayed()
        # A replay begins those anew with their last target, where the loop went on.
        moved = {(s.namespace, s.hpa) for s in skipped if "target was" in s.reason}
        said = {key: row for key, row in self.said.items() if stored(key[0])}
        compared = 0
        for key, row in said.items():
            if key[1:] not in moved:
                assert again.get(key) == row, (key, again.get(key), row)
                compared += 1
        assert not {key for key in set(again) - set(said) if key[0] not in without}
        return compared

    def check_end(self) -> None:
        """Check that the last objects and statuses of the history are those of the cluster."""
        history, world = open_history(self.folder), self.world
        pods = history.read("pods").filter(pl.col("gone").is_null())
        assert set(pods.select("namespace", "pod").iter_rows()) == set(world.pods)
        hpas = history.read("hpas").filter(pl.col("valid_to").is_null())
        sound = set(world.hpas) - set(world.problems)
        assert set(hpas.select("namespace", "name").iter_rows()) == sound
        rows = history.read("hpa_status").sort("ts").select(
            "namespace", "name", "current_replicas", "desired_replicas", "current_metrics",
            "conditions", pl.col("last_scale_time").to_physical(), "observed_generation",
        )  # fmt: skip
        shown = {row[:2]: row[2:] for row in rows.iter_rows()}
        for key, document in world.hpas.items():
            status = shown_status(hpa_of(document).status)
            if status is not None:
                assert shown[key] == tuple(status), key

    def replayed(self) -> tuple[dict[Key, Json], tuple[Skipped, ...]]:
        """Return what a replay decides at the passes, and which HPAs it leaves out, in part."""
        plan = plan_replay(
            open_history(self.folder), ReplayParameters(instants="passes"), whole=True
        )
        found: dict[Key, Json] = {}
        for step in shard_steps(plan, range(len(plan.shards))):
            run_step(plan, step)
            if step.last:
                shard = step.shard
                reader = status_reader(shard)
                for h, candidate in enumerate(shard.candidates):
                    lane = shard.fleet.lanes[h]
                    key = (candidate.namespace, candidate.name)
                    for t in range(lane.first_tick, lane.last_tick):
                        found[int(shard.fleet.ticks.now_ms[t]), *key] = _row(reader, key, t)
        return found, plan.skipped


def _said_live(decider: Decider, words: PassWords) -> Iterator[tuple[Key, Json]]:
    reader = words._reader
    for h, lane in enumerate(decider._columns.lanes):
        t = TICKS * h + TICKS - 1
        yield (int(reader.fleet.ticks.now_ms[t]), *lane.key), _row(reader, lane.key, t)


def _row(reader: StatusReader, key: PodKey, t: int) -> Json:
    """Return everything that is said of an HPA at a tick."""
    words = LaneWords(key[0], name=key[1])
    fleet, decision = reader.fleet, decision_row(reader.results.decisions[t])
    spec = fleet.specs[fleet.ticks.spec[t]]
    rows = [
        t + int(fleet.streams[fleet.metrics[m].stream].answer_offset)
        for m in range(spec.first_metric, spec.last_metric)
    ]
    metrics = [metric_row(reader.results, row, reader.texts) for row in rows]
    return {
        **decision,
        "binding_name": codes.BINDINGS[decision["binding"]].name,
        "metrics": [_compared(metric) for metric in metrics],
        "events": [(e.type, e.reason, e.message) for e in reader.events(words, t)],
        "error": reader.error(words, t),
    }


def _compared(metric: Json) -> Json:
    """Return what means something of a metric: of one that failed only why."""
    if metric["code"] in (codes.METRIC_OK, codes.METRIC_NOT_COMPUTED):
        return metric
    return {name: metric[name] for name in ("code", "text")}


def metric_row(results: Results, row: int, texts: Texts) -> Json:
    """Return one METRIC_DECISION and its DETAIL, texts as such."""
    said, detail = results.metrics[row], results.details[row]
    found: Json = {name: said[name].item() for name in METRIC_DECISION.names or ()}
    found["ratio"] = "nan" if found["ratio"] != found["ratio"] else found["ratio"]
    found |= {name: detail[name].item() for name in DETAIL.names or () if name != "text"}
    if found["code"] == codes.METRIC_NOT_COMPUTED:
        return {"code": codes.METRIC_NOT_COMPUTED}
    return found | {"text": texts[int(detail["text"])]}


def decision_row(row: Any) -> dict[str, int]:
    """Return a DECISION as plain numbers."""
    return {name: int(row[name]) for name in DECISION.names or ()}
