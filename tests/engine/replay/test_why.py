"""`why` columns: what each metric said at each tick, beside decisions that they do not change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.replay import decisions
from hpabatch.engine.replay.decisions import METRIC_FIELDS
from hpabatch.engine.replay.decisions import WHY_SCHEMA as SCHEMA
from hpabatch.history.reader import open_history
from tests.effort import effort
from tests.engine import naive_align as naive
from tests.engine.made import replay_history
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    METRICS,
    SHOP,
    STEP,
    T0,
    fetch_row,
    histories,
    hpa_row,
    usage_row,
    write_history,
)
from tests.engine.told import CONTAINER, CPU, CPU_WORDS, HITS, LAG, PER_POD, PER_REPLICA, hits, web
from tests.engine.ways import Way, replayed, ways, written

CLOCK: dict[str, Any] = {"sync_period_ms": STEP, "phase_ms": 0, "max_age_ms": 60_000}
GROUPS = ("ready", "unready", "missing", "ignored")
NOT_ASKED = {"forced_min", "forced_max", "zero", "selector", "scale_read", "no_scale"}
ERRORS = {"error": "the metrics API answered with an error", "empty": "no metrics returned"}
NOTHING = dict.fromkeys(METRIC_FIELDS)


def explained(tables: Tables, folder: Path, k8s: str = "1.38", gates: str = "") -> pl.DataFrame:
    """Return the decisions of HPA `one`, with the columns of why."""
    folder.mkdir(exist_ok=True)
    history = open_history(write_history(tables, folder))
    parameters = ReplayParameters(k8s, gates, **CLOCK)
    found = replay_history(history, parameters, why=True).decisions
    return found.filter(pl.col("hpa") == "one")


# ---- nothing changes by asking -------------------------------------------------------------------


@given(tables=histories(), some=ways, others=ways, k8s=st.sampled_from(["1.38", "1.32", "1.20"]))
@settings(max_examples=effort(6))
def test_no_decision_changes_and_no_way_of_cutting_matters(
    tables: Tables, some: Way, others: Way, k8s: str
) -> None:
    parameters = ReplayParameters(k8s, **CLOCK)
    with written(tables, some) as history:
        plain = replayed(history, parameters, some)
        asked = replayed(history, parameters, some, why=True)
    with written(tables, others) as history:
        again = replayed(history, parameters, others, why=True)
    assert_frame_equal(asked.decisions.drop(SCHEMA.names()), plain.decisions, check_exact=True)
    assert (asked.hpas.equals(plain.hpas), asked.skipped) == (True, plain.skipped)
    assert asked.evidence == plain.evidence
    assert asked.decisions.schema == decisions.SCHEMA | SCHEMA
    assert_frame_equal(asked.decisions, again.decisions, check_exact=True)


# ---- numbers computed by hand --------------------------------------------------------------------


def custom(pod: str, value: int) -> Row:
    return usage_row(pod, T0, None) | {"metric": "rps", "selector": "", "value_milli": value}


def lag(series: str, value: int) -> Row:
    row = SHOP | {"metric": "lag", "selector": "env=x,queue=a", "series": series, "ts": T0}
    return row | {"value_milli": value, "fetched_at": None}


def entry(metric: str, proposal: int, ratio: float, step: str, **more: Any) -> Row:
    return NOTHING | {"metric": metric, "proposal": proposal, "ratio": ratio, "step": step} | more


def pods(*counts: int) -> Row:
    return dict(zip((*GROUPS, "stray"), (*counts, 0), strict=True))


def test_what_each_of_seven_metrics_said(tmp_path: Path) -> None:
    memory, unlabelled = METRICS[2], METRICS[10]
    metrics = [CPU, memory, PER_POD, HITS, LAG, unlabelled, PER_REPLICA]
    usage = [usage_row("web-0", T0, 70), usage_row("web-1", T0, 50)]
    tables = web(
        *metrics,
        pod_metrics=usage,
        pod_custom_metrics=[custom("web-0", 9000)],
        external_metrics=[lag("a", 100), lag("b", 40)],
        object_metrics=hits(250),
    )
    (row,) = explained(tables, tmp_path).to_dicts()
    queue = "&LabelSelector{MatchLabels:map[string]string{env: x,queue: a,},"
    queue += "MatchExpressions:[]LabelSelectorRequirement{},}"
    assert row["metrics"] == [
        # 120 of 200 is 60 %, 1.2 times the target, of two pods.
        entry(CPU_WORDS, 3, 1.2, "ratio", utilization_pct=60, average_milli=60, **pods(2, 0, 0, 0)),
        # 1024 bytes a pod is just what is asked for.
        entry("memory resource", 2, 1.0, "within tolerance", average_milli=1_024_000,
              **pods(2, 0, 0, 0)),
        # 9 a pod is 1.8 times 5; with 0 for the pod without a sample 0.9 times.
        entry("pods metric rps", 2, 0.9, "within tolerance after missing and unready pods",
              average_milli=9000, **pods(1, 0, 1, 0)),
        entry("Ingress metric hits", 5, 2.5, "ratio", value_milli=250),
        # 140 over 2 replicas: 70 each.
        entry(f"external metric lag({queue})", 2, 1.0, "within tolerance", average_milli=70),
        NOTHING | {"metric": "external metric lag(nil)", "error": "no metrics returned"},
        # 250 of 100 each.
        entry("external metric hits(nil)", 3, 1.25, "ratio", average_milli=125),
    ]  # fmt: skip
    assert (row["metric"], row["ratio"], row["proposal"]) == ("Ingress metric hits", 2.5, 5)
    assert (row["invalid_metrics"], row["error"]) == (1, "no metrics returned")


def test_a_metric_that_failed_after_its_pods_were_looked_at(tmp_path: Path) -> None:
    tables = web(pod_requests=web()["pod_requests"][:1])
    said = explained(tables, tmp_path)["metrics"][0][0]
    assert said == NOTHING | {"metric": CPU_WORDS, "error": "missing resource request in a pod"} | (
        pods(2, 0, 0, 0)
    )
    failed = explained(web(metric_fetches=[fetch_row("one", 0, T0, "error")]), tmp_path)
    assert failed["metrics"][0][0] == NOTHING | {"metric": CPU_WORDS, "error": ERRORS["error"]}


def test_metrics_are_those_of_the_spec_in_force(tmp_path: Path) -> None:
    specs = [
        hpa_row("one", "web", [CPU, CONTAINER], valid_to=T0 + 2 * STEP),
        hpa_row("one", "web", [HITS], valid_from=T0 + 2 * STEP),
    ]
    found = explained(web(hpas=specs), tmp_path)
    names = [[said["metric"] for said in row] for row in found["metrics"]]
    container = "cpu container resource utilization (percentage of request)"
    assert names == [[CPU_WORDS, container]] * 2 + [["Ingress metric hits"]] * 5
    # Stored as v1: the utilization of cpu comes last, and a container is not told.
    gate = "HPAContainerMetrics=true"
    old = explained(web(hpas=specs), tmp_path, "1.26", gate)["metrics"][0]
    assert [said["metric"] for said in old] == [CPU_WORDS, CPU_WORDS]
    assert [said["utilization_pct"] for said in old] == [50, 50]
    assert [said["ratio"] for said in old] == [50 / 60, 1.0]


# ---- groups counted naively ----------------------------------------------------------------------


def group_of(pod: Row, sample: Any, resource: str, now: int, k8s: str) -> str:
    """Return a pod's group, as in groupPods of upstream's replica_calculator.go."""
    done = ("Failed", "Succeeded") if k8s == "1.38" else ("Failed",)
    if pod["deleting"] or pod["phase"] in done:
        return "ignored"
    if pod["phase"] == "Pending":
        return "unready"
    if sample is None:
        return "missing"
    _, ts, window = sample
    if resource != "cpu":
        return "ready"
    if pod["ready"] is None or pod["start"] is None:
        return "unready"
    if pod["start"] + 300_000 > now:
        waiting = pod["ready"] == "False" or ts < pod["transition"] + window
    else:
        waiting = pod["ready"] == "False" and pod["start"] + 30_000 > pod["transition"]
    return "unready" if waiting else "ready"


def counts_of(seen: Row, m: int, spec: Row, k8s: str) -> Row:
    """Return how many pods of a tick are in each group of a metric; None: it looks at none."""
    metric, answer = spec["metrics"][m], seen["metrics"][m]
    if answer["samples"] is None or answer["answer"] != "ok":
        return dict.fromkeys(GROUPS)
    member = metric[metric["type"][0].lower() + metric["type"][1:]]
    resource = "" if metric["type"] == "Pods" else member["name"]
    found = [
        group_of(pod, sample, resource, seen["now"], k8s)
        for pod, sample in zip(seen["pods"], answer["samples"], strict=True)
    ]
    return {group: found.count(group) for group in GROUPS}


@given(
    tables=histories(),
    k8s=st.sampled_from(["1.38", "1.36"]),
    delay=st.sampled_from([0, 10_000]),
    age=st.sampled_from([0, 400_000]),
)
@settings(max_examples=effort(10))
def test_groups_are_those_of_a_naive_count(tables: Tables, k8s: str, delay: int, age: int) -> None:
    for pod in tables["pods"]:  # some pods are past the time in which they begin
        pod["started"] = None if pod["started"] is None else pod["started"] - age
    tables["controller"] = []
    clock = {"delay": delay, "max_age": 35_000, "period": STEP, "phase": 0, "recorded": False}
    assume(any(naive.instants_of(tables, hpa, clock) for hpa in tables["hpas"]))
    parameters = ReplayParameters(
        k8s, sync_period_ms=STEP, phase_ms=0, delay_ms=delay, max_age_ms=35_000
    )
    way = Way("flat", 1, (1 << 20, 1 << 20), 64, 1, 1 << 18)
    with written(tables, way) as history:
        rows = replayed(history, parameters, way, why=True).decisions.to_dicts()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for row in rows:
        hpa = {"cluster": row["cluster"], "namespace": row["namespace"], "name": row["hpa"]}
        now = (row["ts"] - epoch) // timedelta(milliseconds=1)
        spec, seen = naive.spec_in_force(tables, hpa, now), naive.observe(tables, hpa, now, clock)
        assert spec is not None
        assert seen is not None
        asked = row["binding"] not in NOT_ASKED
        assert len(row["metrics"]) == len(spec["spec"]["metrics"])
        for m, said in enumerate(row["metrics"]):
            counts = counts_of(seen, m, spec["spec"], k8s) if asked else dict.fromkeys(GROUPS)
            assert {name: said[name] for name in GROUPS} == counts
            answer = seen["metrics"][m]["answer"]
            if asked and answer != "ok":
                assert said["error"] == ERRORS[answer]
        assert row["invalid_metrics"] == sum(said["error"] is not None for said in row["metrics"])
        driving = [s for s in row["metrics"] if s["metric"] == row["metric"]]
        assert not row["metric"] or row["ratio"] in [said["ratio"] for said in driving]


# ---- the status ----------------------------------------------------------------------------------


def test_when_a_status_is_written(tmp_path: Path) -> None:
    calm = explained(web(), tmp_path)
    assert calm["status_written"].to_list() == [True] + [False] * 6
    assert calm["last_scale_time"].null_count() == 7
    assert calm["scaled_to_zero"].null_count() == 7
    usage = [usage_row(pod, T0 + 3 * STEP, 51) for pod in ("web-0", "web-1")]
    kept = [row for row in web()["pod_metrics"] if row["ts"] != T0 + 3 * STEP]
    changed = explained(web(pod_metrics=[*kept, *usage]), tmp_path / "changed")
    assert changed["status_written"].to_list() == [True, False, False, True, True, False, False]


def test_a_failure_is_written_once_however_it_is_known(tmp_path: Path) -> None:
    # No sample from the eighth tick on; from the ninth on that is the recorded answer too.
    rows = [row for row in web()["pod_metrics"] if row["ts"] == T0]
    rows.append(usage_row("far-0", T0 + 9 * STEP, 1, cluster="c2"))
    answers = [fetch_row("one", 0, T0 + 8 * STEP, "empty")]
    found = explained(web(pod_metrics=rows, metric_fetches=answers), tmp_path)
    assert found["error"].to_list() == [None] * 7 + ["no metrics returned"] * 3
    assert found["status_written"].to_list() == [True] + [False] * 6 + [True, False, False]
    answers.append(fetch_row("one", 0, T0 + 9 * STEP, "error") | {"error": "no"})
    found = explained(web(pod_metrics=rows, metric_fetches=answers), tmp_path)
    assert found["status_written"].to_list()[7:] == [True, False, True]
