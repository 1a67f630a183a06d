"""Rows per pod: lives, uids, requests over time, readiness, sizes; checked on small tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.history.columns import AFTER_MS
from hpabatch.importers.table.pods import ready_after
from hpabatch.model.selectors import parse_selector
from tests.importers.cluster_made import spec_of, workload, write_objects
from tests.importers.tables import BEGIN_S, POD_MAP, merged, run_import, seconds

LIVES = {"edge": "0s", "ran_before": "0s", "before": "10s", "keep": "20s", "ready_after": "5s"}


def rows(*samples: tuple[int, str], **columns: list[Any]) -> pl.DataFrame:
    """Return rows of (seconds, pod); other columns by name."""
    return pl.DataFrame(
        {
            "ts": [BEGIN_S + second for second, _ in samples],
            "pod": [pod for _, pod in samples],
            "app": [pod.split("-")[0] for _, pod in samples],
            "cpu": [0.1] * len(samples),
            "mem": [1.0] * len(samples),
            **columns,
        }
    )


def lives_of(tables: dict[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    pods = tables["pods"].sort("created", "pod")
    return list(zip(pods["pod"], seconds(pods, "created"), seconds(pods, "gone"), strict=True))


def test_a_life_goes_from_before_the_first_sample_to_after_the_last(tmp_path: Path) -> None:
    data = rows((0, "a-1"), (100, "a-1"), (50, "a-2"), (1000, "a-2"))
    result, tables = run_import(tmp_path, merged(POD_MAP, {"lives": LIVES}), data)
    assert lives_of(tables) == [("a-1", -10, 120), ("a-2", 40, 1020)]
    states = tables["pod_states"].filter(pl.col("uid") == tables["pods"]["uid"][0])
    assert states.select("phase", "ready").rows() == [("Pending", "False"), ("Running", "True")]
    assert seconds(states, "ts") == [-10, -5]
    assert tables["pods"]["origin"].unique().to_list() == ["recorded"]
    assert tables["pods"]["owner"].unique().to_list() == ["Deployment/a"]
    assert result.workloads.rows() == [("default", "shop", "Deployment", "a", 2, 1, 2, 2, None)]


def test_pods_at_the_edges_were_there_before_and_stay(tmp_path: Path) -> None:
    lives = LIVES | {"edge": "60s", "ran_before": "600s"}
    data = rows((0, "a-1"), (59, "a-2"), (60, "a-3"), (961, "a-1"), (940, "a-2"), (1000, "a-3"))
    _, tables = run_import(tmp_path, merged(POD_MAP, {"lives": lives}), data)
    found = {pod: (created, gone) for pod, created, gone in lives_of(tables)}
    assert found == {"a-1": (-600, None), "a-2": (-541, 960), "a-3": (50, None)}


def test_a_pod_that_missed_the_first_sample_of_its_kind_was_not_there(tmp_path: Path) -> None:
    lives = LIVES | {"edge": "300s", "ran_before": "600s"}
    data = rows(
        *((60 * k, "a-1") for k in range(20)),
        *((60 * k, "a-2") for k in range(1, 20)),  # the first minute's load was a-1's alone
        *((60 * k + 59, "a-3") for k in range(20)),  # the same minute, later in it
    )
    _, tables = run_import(tmp_path, merged(POD_MAP, {"lives": lives}), data)
    created = {pod: created for pod, created, _ in lives_of(tables)}
    assert created == {"a-1": -600, "a-2": 50, "a-3": -541}


def test_a_silence_ends_a_life_only_if_the_map_says_so(tmp_path: Path) -> None:
    data = rows((0, "a-1"), (30, "a-1"), (500, "a-1"), (530, "a-1"))
    for gap, count in (("never", 1), ("500s", 1), ("469s", 2)):
        folder = tmp_path / gap
        folder.mkdir()
        _, tables = run_import(folder, merged(POD_MAP, {"lives": LIVES | {"gap": gap}}), data)
        assert tables["pods"]["uid"].n_unique() == count
        assert tables["pod_metrics"].group_by("uid").len()["len"].to_list() == [4 // count] * count
    assert lives_of(tables) == [("a-1", -10, 50), ("a-1", 490, 550)]


def test_a_name_that_comes_back_is_another_pod(tmp_path: Path) -> None:
    minutes = range(240)
    data = rows(
        *((60 * m, f"a-{m // 10 % 12}") for m in minutes),  # names recur after 110 minutes
        *((60 * m, "a-x") for m in minutes if m not in range(60, 69)),  # too short a silence
        *((60 * m, "a-x") for m in range(600, 660)),  # six hours without any row: an outage
    )
    _, tables = run_import(tmp_path, merged(POD_MAP, {}), data)
    assert tables["pods"]["pod"].value_counts().sort("pod").rows() == [
        *sorted((f"a-{k}", 2) for k in range(12)), ("a-x", 1)
    ]  # fmt: skip
    assert tables["scales"]["spec_replicas"].max() == 2


def test_more_pods_than_the_hpa_allows_are_told_once(tmp_path: Path) -> None:
    data = rows(*((60 * m, f"a-{k}") for m in range(60) for k in range(2 + (m >= 30))))
    said = merged(POD_MAP, {"hpas": {"template": {"min": 1, "max": 2, "cpu": "50%"}}})
    result, _ = run_import(tmp_path, said, data)
    (told,) = (text for text in result.warnings if "maxReplicas" in text)
    assert told.startswith(
        "shop/a has up to 3 pods, more than its HPA's maxReplicas 2, for 30m: do names of pods "
        "come back (lives.gap)"
    )


def test_pods_of_one_row_each_are_as_many_as_they_are(tmp_path: Path) -> None:
    data = rows(*((60 * m, f"a-{m}{k}") for m in range(60) for k in "xy"))
    _, tables = run_import(tmp_path, merged(POD_MAP, {"lives": {"edge": "300s"}}), data)
    assert tables["scales"]["spec_replicas"].to_list() == [2]


def test_a_silence_of_one_of_several_pods(tmp_path: Path) -> None:
    times = [(0, "a-1"), (30, "a-1"), (500, "a-1"), (0, "a-2"), (250, "a-2"), (500, "a-2")]
    _, tables = run_import(
        tmp_path, merged(POD_MAP, {"lives": LIVES | {"gap": "300s"}}), rows(*times)
    )
    assert tables["pods"].group_by("pod").len().sort("pod").rows() == [("a-1", 2), ("a-2", 1)]


def test_a_name_that_recurs_is_another_pod_by_its_uid(tmp_path: Path) -> None:
    said = merged(POD_MAP, {"columns": {"uid": "uid"}, "lives": LIVES | {"keep": "90s"}})
    data = rows((0, "a-0"), (30, "a-0"), (60, "a-0"), (90, "a-0"), uid=["x", "x", "y", None])
    _, tables = run_import(tmp_path, said, data)
    uids = tables["pods"].sort("created")["uid"].to_list()
    assert uids[:2] == ["x", "y"]
    assert len(uids[2]) == 36  # where the table has none
    # One pod of a name at a time: the first is gone when the second is first seen.
    assert lives_of(tables) == [("a-0", -10, 60), ("a-0", 60, 90), ("a-0", 90, 180)]
    assert tables["pod_metrics"].group_by("uid").len().sort("uid")["len"].to_list()[-2:] == [2, 1]


def test_containers_are_summed_by_nobody_and_have_their_own_requests(tmp_path: Path) -> None:
    said = {
        "columns": {"container": "c"},
        "limits": {"cpu": {"workloads": {"a": "1", "shop/a/proxy": "200m"}}},
        "requests": {"cpu": {"of_limit": 0.5}, "memory": "64Mi"},
    }
    data = rows((0, "a-1"), (0, "a-1"), (0, "a-1"), c=["proxy", "app", ""])
    result, tables = run_import(tmp_path, merged(POD_MAP, said), data)
    assert result.dropped == {"no container": 1}  # cAdvisor's row for the whole pod
    requests = tables["pod_requests"].sort("index")
    names = ["container", "cpu_milli", "cpu_limit_milli", "memory_milli", "memory_limit_milli"]
    assert requests.select(names).rows() == [
        ("app", 500, 1000, (64 << 20) * 1000, None),
        ("proxy", 100, 200, (64 << 20) * 1000, None),
    ]
    assert tables["pod_metrics"]["container"].to_list() == ["app", "proxy"]


def test_a_request_that_changes_is_a_resize_in_place(tmp_path: Path) -> None:
    amount = {"column": "req", "unit": "cores"}
    said = {"requests": {"cpu": amount}, "limits": {"cpu": "2"}, "lives": LIVES}
    data = rows(
        (0, "a-1"), (30, "a-1"), (60, "a-1"), (90, "a-1"), (0, "a-2"),
        req=[None, 0.5, 0.5, 0.7, None],
    )  # fmt: skip
    _, tables = run_import(tmp_path, merged(POD_MAP, said), data)
    pods = tables["pods"].select("uid", "pod")
    requests = tables["pod_requests"].join(pods, on="uid").sort("pod", "valid_from")
    assert requests.select("pod", "cpu_milli", "cpu_limit_milli").rows() == [
        ("a-1", 500, 2000), ("a-1", 700, 2000), ("a-2", None, 2000),
    ]  # fmt: skip
    assert seconds(requests, "valid_from") == [-10, 90, -10]


def test_a_ready_column_gives_the_states(tmp_path: Path) -> None:
    said = {"columns": {"ready": "ok"}, "lives": {"ready_after": None, "before": "10s"}}
    data = rows(*[(30 * k, "a-1") for k in range(5)], ok=["true", None, "False", "0", "TRUE"])
    _, tables = run_import(tmp_path, merged(POD_MAP, said), data)
    states = tables["pod_states"]
    assert states.select("phase", "ready").rows() == [
        ("Pending", "False"), ("Running", "True"), ("Running", "False"), ("Running", "True"),
    ]  # fmt: skip
    assert seconds(states, "ts") == [-10, 0, 60, 120]
    (tmp_path / "bad").mkdir()
    result, _ = run_import(tmp_path / "bad", merged(POD_MAP, said), data.with_columns(ok=pl.when(
        pl.col("ts") == BEGIN_S).then(pl.lit("true")).otherwise(pl.lit("maybe"))))  # fmt: skip
    assert result.dropped == {"ready is neither true nor false": 4}


@pytest.mark.parametrize(
    ("scales", "found"),
    [
        ({}, [(0, 1), (100, 2), (200, 1)]),
        ({"from": "pods", "at_least": 0}, [(0, 1), (100, 2), (200, 1), (400, 0)]),
        ({"from": "pods", "at_least": 2}, [(0, 2)]),
        ({"from": "most_common"}, [(0, 1)]),
    ],
)
def test_sizes_from_pods(
    tmp_path: Path, scales: dict[str, Any], found: list[tuple[int, int]]
) -> None:
    lives = {"edge": "0s", "ran_before": "0s", "before": "0s", "keep": "0s"}
    data = rows((0, "a-1"), (200, "a-1"), (100, "a-2"), (400, "a-2"), (500, "b-1"), (0, "b-1"))
    said = merged(POD_MAP, {"lives": lives, "scales": scales})
    _, tables = run_import(tmp_path, said, data)
    scale = tables["scales"].filter(pl.col("target") == "a")
    assert list(zip(seconds(scale, "ts"), scale["spec_replicas"], strict=True)) == found
    assert (scale["spec_replicas"] == scale["status_replicas"]).all()


def test_sizes_from_a_column_of_pod_rows(tmp_path: Path) -> None:
    data = rows(
        (0, "a-1"), (30, "a-1"), (30, "a-2"), (60, "a-2"), (90, "a-2"), size=[1, 2, 2, 2, 3]
    )
    said = merged(POD_MAP, {"columns": {"replicas": {"column": "size"}}, "lives": LIVES})
    _, tables = run_import(tmp_path, said, data)
    scale = tables["scales"]
    assert list(zip(seconds(scale, "ts"), scale["spec_replicas"], strict=True)) == [
        (-10, 1), (30, 2), (90, 3),
    ]  # fmt: skip


def test_selectors_match_the_pods_whatever_the_workload_is_called(tmp_path: Path) -> None:
    data = rows((0, "a-1"), (0, "a-2"), (0, "a-3"), app=["a", "a b/c", "x" * 80])
    _, tables = run_import(tmp_path, POD_MAP, data)
    labels = {row["target"]: json.loads(row["labels"]) for row in tables["pods"].to_dicts()}
    for row in tables["scales"].to_dicts():
        selector = parse_selector(row["selector"])
        assert [name for name in labels if selector.matches(labels[name])] == [row["target"]]


def test_custom_metrics_and_a_pattern_for_the_workload(tmp_path: Path) -> None:
    said = {
        "columns": {
            "workload": {"column": "pod", "pattern": "^(.*)-[0-9]+$"},
            "cpu": None,
            "memory": None,
            "metrics": {"rps": {"column": "rps"}, "lag": {"column": "lag", "unit": "milli"}},
        },
        "window": "30s",
    }
    data = rows((0, "a-1"), (0, "nodash"), (60, "a-1"), rps=[1.5, 1, None], lag=[-3.0, 1, 4.9])
    result, tables = run_import(tmp_path, merged(POD_MAP, said), data)
    assert result.dropped == {"no workload": 1}
    custom = tables["pod_custom_metrics"]
    assert custom.select("metric", "value_milli", "window_ms").rows() == [
        ("lag", -3, 30_000), ("lag", 4, 30_000), ("rps", 1500, 30_000),
    ]  # fmt: skip
    assert "pod_metrics" not in tables or tables["pod_metrics"].is_empty()


def test_hpas_by_template_with_exceptions(tmp_path: Path) -> None:
    said = {
        "hpas": {
            "template": {"min": 1, "max": 8, "cpu": "50%", "memory": "1Gi"},
            "workloads": {"b": {"max": 20, "behavior": {"scaleDown": {"selectPolicy": "Disabled"}}},
                          "shop/c": None, "zzz": None},
        },
        "columns": {"memory": {"unit": "GiB"}},
    }  # fmt: skip
    data = rows((0, "a-1"), (0, "b-1"), (0, "c-1"))
    result, tables = run_import(tmp_path, merged(POD_MAP, said), data)
    specs = {row["name"]: json.loads(row["spec"]) for row in tables["hpas"].to_dicts()}
    assert sorted(specs) == ["a", "b"]
    assert specs["a"]["maxReplicas"] == 8
    assert specs["a"]["scaleTargetRef"] == {
        "kind": "Deployment", "name": "a", "apiVersion": "apps/v1",
    }  # fmt: skip
    assert specs["b"]["maxReplicas"] == 20
    assert specs["b"]["behavior"]["scaleDown"]["selectPolicy"] == "Disabled"
    assert [m["resource"]["name"] for m in specs["b"]["metrics"]] == ["cpu", "memory"]
    assert result.warnings == ("no such workload here: hpas.workloads.zzz",)


MINUTE_MS = 60_000


def told(starting: int, minutes: int, pods: int = 12) -> set[int]:
    """Return the waits of a workload whose pods use 100m once they are ready, else `starting`."""
    rows, lives = [], []
    for pod in range(pods + 1):
        begin = pod * 5 * MINUTE_MS
        lives.append((pod, 0, "c", "shop", "web", "Deployment", begin, pod == 0))
        for minute in range(60 - 4 * pod if pod else 90):
            used = starting if pod and minute < minutes else 100
            rows.append((pod, 0, begin + minute * MINUTE_MS, used))
    names = ["pod", "life", "cluster", "namespace", "target", "kind", "begin", "was_there"]
    frame = pl.DataFrame(lives, schema=names, orient="row")
    frame = frame.with_columns(created=pl.col("begin") + AFTER_MS)
    samples = pl.DataFrame(rows, schema=["pod", "life", "ts", "cpu"], orient="row")
    return set(ready_after(samples, frame, "pod").to_list())


@pytest.mark.parametrize(
    ("starting", "minutes", "pods", "wait_ms"),
    [
        (10, 2, 12, 90_000),  # half a spacing before the first sample that is like the others'
        (300, 1, 12, 30_000),
        (110, 2, 12, 0),  # what looks like work
        (300, 0, 12, 0),
        (300, 20, 12, 0),  # never like the others while young
        (300, 1, 5, 0),  # too few pods
    ],
)
def test_pods_are_ready_when_they_use_what_older_ones_do(
    starting: int, minutes: int, pods: int, wait_ms: int
) -> None:
    assert told(starting, minutes, pods) == {wait_ms}


@pytest.mark.parametrize("beside", [False, True])  # objects that are not the pods
@pytest.mark.parametrize("before_s", [0, 30])
def test_an_import_counts_from_the_creation(tmp_path: Path, before_s: int, beside: bool) -> None:
    rows = [
        (BEGIN_S + 60 * minute, "web", f"web-{pod}", 0.3 if pod and minute == 2 * pod else 0.1, 1.0)
        for pod in range(12)
        for minute in range(2 * pod, 60)
    ]
    data = pl.DataFrame(rows, schema=["ts", "app", "pod", "cpu", "mem"], orient="row")
    lives = {"edge": "1s", "ran_before": "600s", "before": f"{before_s}s"}
    objects = [write_objects(tmp_path, [workload("web", 2, spec_of())])] if beside else []
    _, tables = run_import(tmp_path, merged(POD_MAP, {"lives": lives}), data, objects=objects)
    starts = tables["pod_states"].filter(pl.col("ready") == "True").sort("ts")
    # Half a spacing after the first sample, however long before it the pod was created.
    assert seconds(starts, "ts")[1:] == [120 * pod + 30 for pod in range(1, 12)]
