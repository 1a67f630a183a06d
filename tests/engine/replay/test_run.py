"""Replays from Parquet to decisions: hand-computed loops, messages, independence, determinism."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.replay.run import ReplayResult
from hpabatch.errors import HistoryError
from hpabatch.history.reader import open_history
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.defaults import default_hpa
from tests.engine.made import replay_history, summarize
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    METRICS,
    SHOP,
    T0,
    empty_tables,
    hpa_row,
    pod_row,
    request_row,
    scale_row,
    start_row,
    state_row,
    usage_row,
    write_history,
)

SYNC = 15_000
PARAMETERS = ReplayParameters("1.38")
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "none"}
HITS_PER_POD: Row = {
    "type": "Object",
    "object": {
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
        "metric": {"name": "hits"},
        "target": {"type": "AverageValue", "averageValue": "1"},
    },
}


def hits(values: list[int]) -> list[Row]:
    """Return one sample of HITS_PER_POD per tick."""
    row = SHOP | {"kind": "Service", "name": "web", "metric": "hits", "fetched_at": None}
    return [
        row | {"selector": "", "ts": T0 + k * SYNC, "value_milli": 1000 * v}
        for k, v in enumerate(values)
    ]


def workload(name: str, *metrics: Row, replicas: int = 1, **more: Any) -> Tables:
    """Return the tables of one workload with one busy pod and an HPA of the same name."""
    tables = empty_tables()
    pod = f"{name}-0"
    tables["pods"] = [pod_row(pod)]
    tables["pod_requests"] = [request_row(pod)]
    tables["pod_states"] = [state_row(pod)]
    tables["pod_metrics"] = [usage_row(pod, T0 + k * 2 * SYNC, 30 + k) for k in range(5)]
    tables["scales"] = [scale_row(name, T0 - 1000, replicas)]
    tables["hpas"] = [hpa_row(name, name, list(metrics) or METRICS[:1], **more)]
    return tables


def together(*parts: Tables) -> Tables:
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def replay(
    tables: Tables, folder: Path, parameters: ReplayParameters = PARAMETERS, **more: Any
) -> ReplayResult:
    folder.mkdir(exist_ok=True)
    return replay_history(open_history(write_history(tables, folder)), parameters, **more)


def of(result: ReplayResult, hpa: str, cluster: str = "c1") -> pl.DataFrame:
    return result.decisions.filter((pl.col("hpa") == hpa) & (pl.col("cluster") == cluster))


# ---- decisions computed by hand ----------------------------------------------------------------


@pytest.mark.parametrize("events", ["recorded", "decided"])
def test_a_recording_that_follows_the_decisions_agrees_at_every_tick(
    tmp_path: Path, events: str
) -> None:
    # 2 -> 7 wanted: at most max(2 * 2, 4) at once, then 7. Then 3 is enough, but the proposals of
    # 7 at 15 s and 30 s count until they are more than 300 s old: down at 345 s, tick 23.
    tables = workload("web", HITS_PER_POD, max_replicas=10)
    tables["object_metrics"] = hits([2, 7, 7] + [3] * 22)
    tables["scales"] = [
        scale_row("web", T0 + ms, n)
        for ms, n in [(-1000, 2), (15_000, 4), (30_000, 7), (345_000, 3)]
    ]
    result = replay(tables, tmp_path, ReplayParameters("1.38", events=events))
    found = of(result, "web")
    assert found["desired"].to_list() == [2, 4] + [7] * 21 + [3, 3]
    assert found["applied"].to_list() == found["desired"].to_list()
    assert found["replicas"].to_list() == [2, 2, 4] + [7] * 21 + [3]
    assert [k for k, yes in enumerate(found["rescaled"]) if yes] == [1, 2, 23]
    assert found["binding"].to_list()[:4] == ["tolerance", "legacy_limit", "metric", "window_down"]
    assert summarize(result.decisions, result.hpas)["agreement_share"].to_list() == [1.0]
    assert result.evidence["sync_period"] == "15000 ms (assumed)"
    assert result.evidence["max_age"] == "60000 ms (estimated)"


@pytest.mark.parametrize(
    ("events", "desired"),
    [
        # At most 2 pods more per 60 s. The recording jumps by 3 at 20 s, so the budget is spent
        # until that is 60 s ago: 90 s. Before, 1 + 2 is open at every tick.
        ("recorded", [3, 3, 4, 4, 4, 4, 6]),
        # Its own +2 at 0 s spends the budget until 60 s, though nobody applied it: nothing at 15 s,
        # 4 is the limit at 30 s and 45 s, +2 again at 60 s.
        ("decided", [3, 1, 4, 4, 6, 4, 4]),
    ],
)
def test_what_spends_a_policys_budget(tmp_path: Path, events: str, desired: list[int]) -> None:
    rules = {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}
    tables = workload("web", HITS_PER_POD, max_replicas=10, spec={"behavior": {"scaleUp": rules}})
    tables["object_metrics"] = hits([10] * 7)
    tables["scales"].append(scale_row("web", T0 + 20_000, 4))
    tables["pod_metrics"] = tables["pod_metrics"][:1]
    result = replay(tables, tmp_path, ReplayParameters("1.38", events=events))
    assert of(result, "web")["desired"].to_list() == desired


# ---- flags that change -------------------------------------------------------------------------

AT_ONCE: Row = {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
KEEN, LAZY = {"tolerance": 0.05}, {"tolerance": 0.9}


def noisy(**more: Any) -> Tables:
    """Return a workload of two pods that is a little over and under its target in turn."""
    tables = workload("web", HITS_PER_POD, replicas=2, spec=AT_ONCE)
    tables["object_metrics"] = hits([3, 1] * 6)
    for table in tables:
        tables[table] = [row | more for row in tables[table]]
    return tables


def observed_flags(*rows: tuple[int, Row], cluster: str = "c1") -> list[Row]:
    return [
        start_row(T0 + ms, event="observed", flags=flags, cluster=cluster) for ms, flags in rows
    ]


def decided(tables: Tables, folder: Path, cluster: str = "c1") -> pl.DataFrame:
    return of(replay(tables, folder), "web", cluster)


def with_flags(folder: Path, *rows: tuple[int, Row]) -> pl.DataFrame:
    return decided(noisy() | {"controller": observed_flags(*rows)}, folder)


@pytest.fixture(scope="module")
def keen(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    return with_flags(tmp_path_factory.mktemp("keen"), (0, KEEN))


@pytest.fixture(scope="module")
def lazy(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    return with_flags(tmp_path_factory.mktemp("lazy"), (0, LAZY))


@pytest.mark.parametrize("change", [-5_000, 1, 30_000, 59_999, 60_000, 60_001, 75_000, 10**9])
def test_flags_that_change_hold_from_their_own_tick_on(
    tmp_path: Path, keen: pl.DataFrame, lazy: pl.DataFrame, change: int
) -> None:
    # Nothing is remembered here, so the replay is one with the first flags and then one with the
    # second. Midnight, where the next day's samples are read, is at 60 s.
    assert keen["desired"].to_list() == [3, 1] * 6
    assert lazy["desired"].to_list() == [2] * 12
    early = pl.col("ts").to_physical() < T0 + change
    expected = pl.concat([keen.filter(early), lazy.filter(~early)])
    both = with_flags(tmp_path, (-20_000, KEEN), (change, LAZY))
    assert both["desired"].equals(expected["desired"])


def test_a_longer_window_from_a_flag_keeps_what_was_recommended_before(tmp_path: Path) -> None:
    # From 60 s on the window is five minutes: it holds all that was wanted since 45 s at least.
    tables = workload("web", HITS_PER_POD, replicas=6, max_replicas=10)
    tables["object_metrics"] = hits([6, 5, 4, 3, 2, 1, 1, 1])
    tables["controller"] = observed_flags(
        (0, {"downscale-stabilization": "15s"}), (60_000, {"downscale-stabilization": "5m"})
    )
    found = decided(tables, tmp_path)
    assert found["desired"].to_list()[:4] == [6, 6, 5, 4]
    assert min(found["desired"].to_list()[4:]) >= 4


# ---- what is wrong is told, the rest goes on ---------------------------------------------------


def test_usage_that_no_history_has_is_told_once(tmp_path: Path) -> None:
    """Of manifests over a history of other metrics: one sentence, not one for each of them."""
    tables = together(workload("web", METRICS[0]), workload("api", METRICS[0]), workload("ok"))
    tables["hpas"] = [row for row in tables["hpas"] if row["name"] != "ok"]
    tables["pod_metrics"] = []
    tables["object_metrics"] = hits([6, 5, 4])
    found = replay(tables, tmp_path).warnings
    (told,) = [text for text in found if "Resource metric" in text or "has no sample" in text]
    assert told.startswith("2 HPAs (shop/api, …) read cpu or memory of pods, of which the history")


def test_whatever_cannot_be_replayed_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    tables = together(
        workload("good"),
        workload("refused", {"type": "Nope"}),
        workload("silent", METRICS[5]),
        workload("ended", valid_to=T0 - 50_000),
        workload("moved", spec={"scaleTargetRef": REPLICA_SET}),
    )
    tables["pod_metrics"].append(usage_row("good-9", T0, 5))
    result = replay(tables, tmp_path)
    assert result.hpas["hpa"].to_list() == ["good", "silent"]
    reasons = {skipped.hpa: skipped.reason for skipped in result.skipped}
    assert "refuses it: spec.metrics[0].type" in reasons["refused"]
    assert "none of its specs was in force" in reasons["ended"]
    assert "ReplicaSet/none has no row in the scales table" in reasons["moved"]
    assert set(reasons) == {"refused", "ended", "moved"}
    told = "1 row of pods that the pods table does not hold, left out: record those pods"
    assert f"pod_metrics: {told}" in result.warnings
    assert any("shop/silent: Pods metric rps: no sample of it" in w for w in result.warnings)
    assert of(result, "silent")["invalid_metrics"].to_list() == [1] * 9
    assert of(result, "silent")["error"].unique().to_list() == ["no metrics returned"]
    assert of(result, "good")["invalid_metrics"].sum() == 0


def test_an_hpa_that_got_another_target_is_replayed_since_then(tmp_path: Path) -> None:
    tables = workload("web", valid_from=T0 + 30_000)
    old = workload("old", valid_to=T0 + 30_000)
    old["hpas"][0] |= {"name": "web"}
    result = replay(together(tables, old), tmp_path)
    assert of(result, "web")["ts"].to_physical()[0] == T0 + 30_000
    assert "its target was Deployment/old before" in result.skipped[0].reason


def test_a_uid_that_stands_for_two_pods_counts_once_and_is_told(tmp_path: Path) -> None:
    tables = workload("web")
    tables["pods"].append(pod_row("web-0", target=None))
    result = replay(tables, tmp_path)
    told = "the uid of a later row, left out: a uid stands for one pod, correct the others"
    assert f"pods: 1 row with {told}" in result.warnings
    alone = replay(workload("web"), tmp_path / "alone")
    assert result.decisions.equals(alone.decisions)


def test_a_sample_with_a_wrong_year_is_refused_before_memory_runs_out(tmp_path: Path) -> None:
    tables = workload("web")
    tables["pod_metrics"].append(usage_row("web-0", 1_000_000_000_000, 5))
    told = "samples from 2001-09-09T01:46:40Z to 2026-10-07T00:01:00Z make [0-9]+ ticks for each"
    with pytest.raises(HistoryError, match=told):
        replay(tables, tmp_path)


def test_a_history_without_any_sample_has_nothing_to_replay(tmp_path: Path) -> None:
    tables = workload("web")
    tables["pod_metrics"] = []
    with pytest.raises(HistoryError, match="holds no sample of any metric"):
        replay(tables, tmp_path)


# ---- independence and determinism --------------------------------------------------------------


def digest(frame: pl.DataFrame) -> str:
    return hashlib.sha256(frame.write_csv().encode()).hexdigest()


def shop() -> Tables:
    """Return three workloads, of which two HPAs are ambiguous."""
    tables = together(
        workload("web", *METRICS[:2]),
        workload("api", METRICS[0], HITS_PER_POD, replicas=4),
        workload("db", METRICS[3], replicas=3),
    )
    tables["hpas"].append(hpa_row("rival", "db", METRICS[:1]))
    tables["object_metrics"] = hits([1, 4, 9, 4, 1])
    tables["controller"] = [start_row(T0 + 40_000)]
    return tables


def test_the_same_history_gives_the_same_bytes_in_any_order_of_rows(tmp_path: Path) -> None:
    tables, found = shop(), set()
    for k in range(3):
        for rows in tables.values():
            random.Random(k).shuffle(rows)
        result = replay(tables, tmp_path / str(k))
        found.add((digest(result.decisions), digest(result.hpas), result.warnings))
    assert len(found) == 1


@pytest.mark.parametrize("hpa", ["web", "api", "db", "rival"])
def test_an_hpa_replayed_alone_decides_what_it_decides_among_others(
    tmp_path: Path, hpa: str
) -> None:
    full = replay(shop(), tmp_path)
    alone = replay(shop(), tmp_path, select=lambda frame: frame.filter(pl.col("hpa") == hpa))
    assert alone.hpas["hpa"].to_list() == [hpa]
    assert alone.decisions.equals(of(full, hpa))
    ambiguous = full.decisions.filter(pl.col("scaling_active") == "AmbiguousSelector")
    assert ambiguous["hpa"].unique().sort().to_list() == ["db", "rival"]


def test_manifests_in_any_order_give_the_same_rows_as_the_recorded_hpas(tmp_path: Path) -> None:
    manifests = []
    for row in shop()["hpas"]:
        document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
        metadata = {"name": row["name"], "namespace": "shop"}
        hpa, problems = decode_hpa(document | {"metadata": metadata, "spec": row["spec"]})
        assert not problems
        manifests.append(default_hpa(hpa))
    recorded = replay(shop(), tmp_path)
    forward = replay(shop(), tmp_path, manifests=manifests)
    backward = replay(shop(), tmp_path, manifests=manifests[::-1])
    assert forward.decisions.equals(recorded.decisions)
    assert backward.decisions.equals(recorded.decisions)
    twice = replay(shop(), tmp_path, manifests=[*manifests, manifests[0]])
    assert twice.decisions.equals(recorded.decisions)
    assert "a later manifest has the same name" in twice.skipped[0].reason
