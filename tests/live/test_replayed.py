"""Tests of recorded loops: a replay makes their decisions again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from hpabatch.cluster.objects.types import Change, ContainerUsage, Kind, Response, UsageSample
from hpabatch.history.reader import open_history
from hpabatch.history.store.upkeep import check_history, compact
from hpabatch.live.record import segments
from hpabatch.live.record.recorder import Recorder
from tests.effort import effort
from tests.live.documents import START_MS, pod_object
from tests.live.recorded import Recorded

VERSIONS = ("1.20", "1.26", "1.33", "1.36", "1.37")


@pytest.mark.parametrize("k8s", VERSIONS)
@pytest.mark.parametrize("seed", range(effort(1)))
def test_a_recorded_run_replays_to_the_same_decisions(seed: int, k8s: str, tmp_path: Path) -> None:
    zero = (seed + VERSIONS.index(k8s)) % 2 == 0
    recorded = Recorded(1000 + seed, k8s, tmp_path / "history", zero=zero)
    for _ in range(40):
        recorded.one_pass()
    recorded.stop()
    assert recorded.compare() > 40
    recorded.check_end()


@pytest.mark.parametrize("k8s", VERSIONS[::4])
@pytest.mark.parametrize("how", ["taken up", "anew", "killed"])
@pytest.mark.parametrize("seed", range(effort(1)))
def test_a_loop_that_was_started_again(seed: int, how: str, k8s: str, tmp_path: Path) -> None:
    recorded = Recorded(2000 + seed, k8s, tmp_path / "history", zero=seed % 3 == 2)
    state = tmp_path / "state.json"
    for k in range(30):
        recorded.one_pass()
        if how == "killed" and k % 4 == 3:
            recorded.flush()
        if k % 10 == 9:
            recorded.decider.save(state, "test")
            (recorded.kill if how == "killed" else recorded.stop)()
            for _ in range(5):
                recorded.world.step()
            recorded.relist()
            recorded.start(state if how == "taken up" else None)
    recorded.stop()
    assert recorded.compare() > 40
    rows = open_history(tmp_path / "history").read("provenance")
    gaps = rows.filter(pl.col("subject") == "passes").sort("valid_from")
    assert (gaps["valid_from"].to_physical() - 1).to_list() == recorded.ends[:2]


def test_compaction_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compactions: list[object] = []
    monkeypatch.setattr(segments, "compact", lambda *a, **k: compactions.append(compact(*a, **k)))
    recorded = Recorded(7, "1.37", tmp_path / "history", compact_every_s=1e-9)
    for _ in range(8):
        recorded.one_pass()
        recorded.flush()
    recorded.stop()
    assert len(compactions) > 2
    assert recorded.compare() > 8


def test_a_sample_that_comes_late_begins_when_it_did(tmp_path: Path) -> None:
    """An API with two servers goes back and forth; readiness asks when a sample began."""
    recorder = Recorder(tmp_path, "c", segment_s=1e9, clock=lambda: START_MS + 9000)
    pod = pod_object("shop", {"name": "web-0", "phase": "Running", "labels": {}})
    recorder.apply([Change(Kind.pod, ("shop", "web-0"), pod, START_MS)])
    given = [(-5000, 30_000), (-9000, 15_000), (-9000, None), (-4000, None)]
    for k, (ago_ms, window_ms) in enumerate(given):
        now_ms, usage = START_MS + 1000 * (k + 1), (ContainerUsage("app", k, 1000 + k // 3),)
        sample = UsageSample("shop", "web-0", START_MS + ago_ms, window_ms, usage)
        recorder.observe(now_ms, {"": Response(now_ms, (sample,))}, {})
        recorder.pass_done(now_ms)
    assert recorder.close()
    rows = open_history(tmp_path).read("pod_metrics")
    ts = (rows["ts"].to_physical() - START_MS).to_list()
    assert ts == [-5000, -4999, -4998, -4000]
    began = [at - (window or 0) for at, window in zip(ts, rows["window_ms"], strict=True)]
    assert began == [ago_ms - (window or 0) for ago_ms, window in given]
    assert rows["window_ms"][3] is None


def test_events_of_one_ms_are_in_order(tmp_path: Path) -> None:
    recorded = Recorded(5, "1.37", tmp_path)
    world = recorded.world
    key = ("shop", "web")
    world.put_hpa(world._new_hpa(key))
    recorded.one_pass()
    edited = world.hpas[key]["metadata"] | {"generation": 2}
    world.put_hpa(world.hpas[key] | {"spec": world.draw_spec(), "metadata": edited})
    world.remove_hpa(key)
    world.put_hpa(world._new_hpa(key))
    told = [(replace(change, seen_ms=world.now_ms), d) for change, d in world.changes]
    world.changes = told
    recorded.one_pass()
    recorded.stop()
    assert open_history(tmp_path).read("hpas").filter(pl.col("name") == "web").height >= 3
    assert recorded.compare() > 0


@pytest.mark.parametrize("seed", range(effort(1)))
def test_a_cluster_without_pods(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what there was nothing there is no table; that is no lack."""
    recorded = Recorded(3000 + seed, "1.37", tmp_path)
    monkeypatch.setattr(recorded.world, "put_pod", lambda namespace, pod: None)
    for _ in range(20):
        recorded.one_pass()
    recorded.stop()
    history = open_history(tmp_path, "replay")
    assert not {"pods", "pod_metrics", "pod_states", "pod_requests"} & set(history.tables)
    assert check_history(history).is_empty()
    assert recorded.compare() > 20
