"""An exported run, replayed with its own decisions, decides the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import hpabatch
from benchmarks.exported_run import ExportedRun, export_run, source_of, streams_of
from hpabatch.api.recording import Recording
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.loop import SimulationResult, simulate
from hpabatch.history.store.upkeep import check_history
from hpabatch.history.store.writer import write_table
from hpabatch.model.plant import (
    EXTERNAL,
    RESOURCE,
    TOTAL,
    Event,
    Pipeline,
    Signal,
    signal_name,
)
from hpabatch.model.versions import profile_for
from tests.effort import effort
from tests.engine.simulated import (
    START_MS,
    SYNC_MS,
    hpa_spec,
    random_fleet,
    small_case,
    with_max_age,
)

SEEDS = range(effort(12))
HPAS = 5
KEYS = ["cluster", "namespace", "hpa", "ts"]
COMPARED = ("replicas", "proposal", "stabilized", "desired", "binding")
PROFILE = profile_for("1.38")


def written(run: ExportedRun, folder: Path) -> Recording:
    for name, frame in run.tables.items():
        write_table(frame, folder / f"{name}.parquet", name)
    return hpabatch.open(folder)


def replayed(run: ExportedRun, folder: Path) -> pl.DataFrame:
    """Return the decisions of a replay with the run's own arguments."""
    words: dict[str, Any] = dict(zip(run.arguments[::2], run.arguments[1::2], strict=True))
    return (
        written(run, folder)
        .replay(
            k8s=words["--k8s"],
            events=words["--events"],
            phase=words["--phase"],
            sync_period=words["--sync-period"],
            max_age=words["--max-age"],
        )
        .decisions.with_columns(pl.col("cluster", "namespace", "hpa", "binding").cast(pl.String))
        .sort(KEYS)
    )


def simulated(cases: Sequence[SimulationCase], k8s: str, seed: int) -> pl.DataFrame:
    points = simulate(cases, profile_for(k8s), seed=seed, keep_points=True).points
    assert points is not None
    return points.sort(KEYS)


def assert_same_decisions(decisions: pl.DataFrame, points: pl.DataFrame, place: str) -> None:
    assert decisions.select(KEYS).equals(points.select(KEYS)), place
    for name in COMPARED:
        both = decisions.select(*KEYS, name).with_columns(simulated=points[name])
        differing = both.filter(pl.col(name).ne_missing(pl.col("simulated")))
        assert differing.is_empty(), f"{place}: {name}\n{differing}"


def fits(case: SimulationCase) -> bool:
    """Say whether a resource is measured of the pod or of containers, not both."""
    names = [name.split("/") for name in case.workload.plant.signals]
    whole = {parts[1] for parts in names if parts[0] == "resource"}
    return not any(parts[0] == "container" and parts[-1] in whole for parts in names)


def without_shared_series(cases: Sequence[SimulationCase]) -> list[SimulationCase]:
    """Return the cases but those with an Object or External metric of one before them."""
    seen: set[tuple[str, ...]] = set()
    kept = []
    for case in cases:
        w = case.workload
        found = {source_of(stream.metric, w.namespace) for stream in streams_of(case)}
        keys = {(w.cluster, w.namespace, *source) for source in found if source is not None}
        if not keys & seen:
            seen |= keys
            kept.append(case)
    return kept


@cache
def exportable(seed: int) -> tuple[list[SimulationCase], str]:
    cases, k8s = random_fleet(seed, HPAS)
    return without_shared_series([case for case in cases if fits(case)]), k8s


@cache
def run_of(seed: int) -> SimulationResult:
    cases, k8s = exportable(seed)
    return simulate(cases, profile_for(k8s), seed=seed, keep_points=True)


@pytest.mark.compiled
@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_of_an_exported_run_decides_the_same(seed: int, tmp_path: Path) -> None:
    cases, k8s = exportable(seed)
    if not cases:
        pytest.skip("no HPA of this draw can be exported")
    points = run_of(seed).points
    assert points is not None
    decisions = replayed(export_run(cases, profile_for(k8s), seed=seed), tmp_path)
    assert_same_decisions(decisions, points.sort(KEYS), f"seed {seed}")
    assert check_history(hpabatch.open(tmp_path).history).rows() == [], f"seed {seed}"


def test_short_chunks_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases, k8s = exportable(3)
    plain = export_run(cases, profile_for(k8s), seed=3)
    monkeypatch.setattr("benchmarks.exported_run.LOG_ROWS", 1)  # one tick at once
    early = export_run(cases, profile_for(k8s), seed=3)
    assert plain.arguments == early.arguments
    assert plain.tables.keys() == early.tables.keys()
    for name, frame in plain.tables.items():
        assert frame.equals(early.tables[name]), name


@pytest.mark.parametrize(("lost_ms", "gone_ms"), [(2 * SYNC_MS + 7, 2 * SYNC_MS + 7),
                                                 (2 * SYNC_MS, 3 * SYNC_MS)])  # fmt: skip
def test_lost_pods_are_gone(lost_ms: int, gone_ms: int, tmp_path: Path) -> None:
    """What is lost at a tick's own instant was there at that tick and never seen again."""
    events = (Event(START_MS + lost_ms, "lose", 500),)
    case = small_case(hpa_spec(low=4), [900] * 6, initial=4, events=events)
    run = export_run([case], PROFILE)
    lost = run.tables["pods"].filter(pl.col("gone").is_not_null())
    assert lost["gone"].to_physical().to_list() == [START_MS + gone_ms] * 2
    assert lost["deletion_requested"].equals(lost["gone"])
    assert_same_decisions(replayed(run, tmp_path), simulated([case], "1.38", 0), "lost")


def test_one_series_under_two_names_stands_once(tmp_path: Path) -> None:
    target = {"type": "Value", "value": "9"}
    metrics = [
        {
            "type": "Object",
            "object": {
                "describedObject": {"apiVersion": version, "kind": "Ingress", "name": "web"},
                "metric": {"name": "hits"},
                "target": target,
            },
        }
        for version in ("networking.k8s.io/v1", "extensions/v1beta1")
    ]
    case = small_case(hpa_spec(more=metrics), [900] * 3)
    case = with_signals(case, object__Ingress__web__hits=Signal(TOTAL, "external"))
    run = export_run([case], PROFILE)
    assert run.tables["object_metrics"].height == 3
    assert_same_decisions(replayed(run, tmp_path), simulated([case], "1.38", 0), "twice")
    assert check_history(hpabatch.open(tmp_path).history).rows() == []


def test_arguments_name_all_that_a_replay_cannot_know() -> None:
    case = replace(small_case(hpa_spec(), [900] * 3), start_ms=START_MS + 4321)
    case = with_max_age(case, 77_000)
    run = export_run([case], profile_for("1.36"))
    assert " ".join(run.arguments) == (
        "--k8s 1.36 --events decided --phase 4321ms --sync-period 15000ms --max-age 77000ms"
    )
    flags = run.tables["controller"]["flags"].to_list()
    assert '"horizontal-pod-autoscaler-tolerance": "0.1"' in flags[0]
    assert run.tables["controller"]["version"].to_list() == ["1.36"]


def test_feature_gates_are_named_where_they_are_not_as_in_the_version() -> None:
    case = small_case(hpa_spec(), [900] * 3)
    run = export_run([case], profile_for("1.35", "HPAScaleToZero=true,PodLevelResources=true"))
    words: dict[str, Any] = dict(zip(run.arguments[::2], run.arguments[1::2], strict=True))
    assert words["--k8s"] == "1.35"
    assert words["--feature-gates"] == "HPAScaleToZero=true"


def test_a_lane_whose_pods_do_not_fit_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.exported_run._FIRST_COHORTS", 1)
    case = small_case(hpa_spec(), [900, 900, 9000, 9000, 40_000, 40_000, 900])
    run = export_run([case], PROFILE)
    assert run.tables["pods"].height > 30
    assert_same_decisions(replayed(run, tmp_path), simulated([case], "1.38", 0), "full")


def with_signals(case: SimulationCase, **signals: Signal) -> SimulationCase:
    """Return the case with more signals; `__` in a name is `/`."""
    plant = case.workload.plant
    more = {name.replace("__", "/"): signal for name, signal in signals.items()}
    plant = replace(plant, signals=plant.signals | more)
    work = dict(case.workload.work) | {name: np.array([100]) for name in more}
    return replace(case, workload=replace(case.workload, plant=plant, work=work))


def test_what_no_tick_could_see_is_not_exported(tmp_path: Path) -> None:
    """A total that is always too old when it shows, and a metric that the rules refuse."""
    target = {"type": "Value", "value": "9"}
    late = {"type": "External", "external": {"metric": {"name": "late"}, "target": target}}
    bad = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    refused = {
        "type": "External",
        "external": {"metric": {"name": "bad", "selector": bad}, "target": target},
    }
    case = small_case(hpa_spec(more=[late, refused]), [900] * 6)
    (name,) = [n for n in map(signal_name, case.periods[0].spec.metrics) if "bad" in n]
    case = with_signals(case, external__late=Signal(TOTAL, EXTERNAL))
    case = with_signals(case, **{name.replace("/", "__"): Signal(TOTAL, EXTERNAL)})
    plant = case.workload.plant
    max_age_ms = plant.pipelines[RESOURCE].max_age_ms
    pipelines = {
        **plant.pipelines,
        EXTERNAL: Pipeline(lag_ms=max_age_ms + 1, max_age_ms=max_age_ms),
    }
    plant = replace(plant, pipelines=pipelines)
    case = replace(case, workload=replace(case.workload, plant=plant))
    run = export_run([case], PROFILE)
    assert "external_metrics" not in run.tables
    assert_same_decisions(replayed(run, tmp_path), simulated([case], "1.38", 0), "late")
