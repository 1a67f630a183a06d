"""Lenses of sources that show what the controller saw: none is used.

A fleet runs in closed loop; a real Prometheus scrapes its raw counters, and a recorder writes what
its metrics API answers.
"""

from __future__ import annotations

import json
import uuid
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from benchmarks.answers_record import K8S, SYNC_MS
from benchmarks.lens_truth import write
from benchmarks.truth_fleet import FleetOptions, make_fleet
from benchmarks.truth_record import TODAY, case_of
from hpabatch.cluster.objects.types import (
    Change,
    ContainerUsage,
    HpaObject,
    Kind,
    PodObject,
    Response,
    Responses,
    ScaleKey,
    ScaleObject,
    UsageSample,
)
from hpabatch.engine.fidelity.lens import LensEstimate, through_lens
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.engine.simulate.export import export_run
from hpabatch.history.reader import open_history
from hpabatch.live.record.recorder import Recorder
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.versions import profile_for
from tests.live.documents import template_of
from tests.real.imports import bring, serve, write_manifests
from tests.real.openmetrics_site import Site, Tables, read_tables
from tests.real.prometheus import missing, running_prometheus

pytestmark = pytest.mark.compiled

HOURS = 12
SAMPLE_MS = 30_000
OPTIONS = FleetOptions(
    hpas=8, weeks=1, seed=7, sample_ms=SAMPLE_MS, shapes=("bursty", "crowds", "scheduled")
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the controllers of a fleet see, as a history."""
    steps = HOURS * 3_600_000 // SYNC_MS
    cases = [
        replace(case_of(t, t.spec, TODAY, 0, 1, SYNC_MS), steps=steps) for t in make_fleet(OPTIONS)
    ]
    tables = export_run(cases, profile_for(K8S), seed=7).tables
    return write(tables, tmp_path_factory.mktemp("source") / "history")


def estimated(history: Path) -> LensEstimate:
    plan = plan_replay(open_history(history), ReplayParameters(K8S))
    seen, (found,) = through_lens(plan, "auto")
    assert seen.evidence["lens"] == "none", found
    assert seen.lenses == seen.ratios == ()
    return found


def named_as_in_a_cluster(tables: Tables) -> Tables:
    """Return tables with uids, owners and labels as a cluster gives them, and some memory."""
    target = pl.col("target")
    labels = (pl.lit('{"app":"'), target, pl.lit('","pod-template-hash":"5d4c"}'))
    changes: Mapping[str, dict[str, pl.Expr]] = {
        "pods": {
            "owner": pl.format("ReplicaSet/{}-5d4c", target),
            "labels": pl.concat_str(labels),
            "node": pl.lit("node"),
        },
        "pod_metrics": {
            "memory_bytes": pl.lit(100 << 20, pl.Int64),
            "fetched_at": pl.lit(None, pl.Int64),
        },
        "scales": {"selector": pl.format("app={}", target)},
    }
    found = {}
    for name in ("pods", "pod_metrics", "pod_states", "pod_requests", "scales", "hpas"):
        frame = tables[name].with_columns(**changes.get(name, {}))
        if "uid" in frame.columns and name != "hpas":
            uids = frame["uid"].unique(maintain_order=True).to_list()
            other = [str(uuid.uuid5(uuid.NAMESPACE_OID, uid)) for uid in uids]
            frame = frame.with_columns(pl.col("uid").replace_strict(uids, other))
        found[name] = frame
    return found


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_raw_counters_of_a_prometheus_need_no_lens(source: Path, tmp_path: Path) -> None:
    tables = named_as_in_a_cluster(read_tables(str(source)))
    site = Site(scrape_ms=15_000, offset_ms=3_123).placed(tables)
    manifests = write_manifests(tables, tmp_path)
    with running_prometheus(tmp_path, serve(tables, site, tmp_path)) as url:
        bring(url, site, tmp_path / "history", cluster_label="cluster", hpas=(str(manifests),))
    found = estimated(tmp_path / "history")
    assert min(found.searched_changes, found.judged_changes) > 30
    assert found.ratio is not None
    assert found.ratio.low <= 1 <= found.ratio.high


def test_what_a_recorder_saw_needs_no_lens(source: Path, tmp_path: Path) -> None:
    record(read_tables(str(source)), tmp_path / "history")
    found = estimated(tmp_path / "history")
    assert min(found.searched_changes, found.judged_changes) > 30
    assert found.ratio is not None
    assert found.ratio.low <= 1 <= found.ratio.high


def record(tables: Tables, place: Path) -> None:
    """Let a recorder see a cluster pass by pass, as tables tell it."""
    last_ms = int(tables["pod_metrics"]["fetched_at"].max())  # type: ignore[arg-type]
    recorder = Recorder(place, "proof", segment_s=1e9, clock=lambda: last_ms + 1)
    changes = sorted(changes_of(tables), key=lambda change: change.seen_ms)
    recorder.controller(changes[0].seen_ms, "observed", K8S, {})
    shown: dict[tuple[str, str], UsageSample] = {}
    done = 0
    fetched = tables["pod_metrics"].sort("fetched_at", "ts")
    for (now,), rows in fetched.group_by("fetched_at", maintain_order=True):
        assert isinstance(now, int)
        until = bisect_right(changes, now, key=lambda change: change.seen_ms)
        recorder.apply(changes[done:until])
        for change in changes[done:until]:
            if change.kind is Kind.pod and change.thing is None:
                shown.pop(change.key, None)  # type: ignore[arg-type]
        done = until
        for row in rows.iter_rows(named=True):
            usage = ContainerUsage(row["container"], row["cpu_milli"], None)
            sample = UsageSample(
                row["namespace"], row["pod"], row["ts"], row["window_ms"], (usage,)
            )
            shown[row["namespace"], row["pod"]] = sample
        answers = Responses({"": Response(now, tuple(shown.values()))})
        recorder.observe(now, answers, {})
        recorder.pass_done(now, k8s=K8S)
    assert recorder.close()


def changes_of(tables: Tables) -> Iterator[Change]:
    """Yield the changes of objects that tables tell."""
    for row in tables["hpas"].iter_rows(named=True):
        hpa, problems = hpa_from_json(row["spec"])
        assert not problems
        spec = default_hpa(HPA(name=row["name"], namespace=row["namespace"], spec=hpa.spec)).spec
        known = HPA(name=row["name"], namespace=row["namespace"], uid=row["name"], spec=spec)
        thing = HpaObject(row["namespace"], row["name"], known)
        yield Change(Kind.hpa, (row["namespace"], row["name"]), thing, row["valid_from"])
    for row in tables["scales"].iter_rows(named=True):
        key = ScaleKey("apps", row["target_kind"], row["namespace"], row["target"])
        sizes = row["spec_replicas"], row["status_replicas"]
        yield Change(Kind.scale, key, ScaleObject(key, *sizes, row["selector"]), row["ts"])
    requests = dict(tables["pod_requests"].select("uid", "cpu_milli").iter_rows())
    lives = {row["uid"]: row for row in tables["pods"].iter_rows(named=True)}
    for row in tables["pod_states"].iter_rows(named=True):
        life = lives[row["uid"]]
        yield Change(
            Kind.pod, (row["namespace"], life["pod"]), pod_of(life, row, requests), row["ts"]
        )
    for life in lives.values():
        if life["gone"] is not None:
            yield Change(Kind.pod, (life["namespace"], life["pod"]), None, life["gone"])


def pod_of(life: dict[str, Any], state: dict[str, Any], requests: dict[str, int]) -> PodObject:
    """Return a pod as it is from a state on."""
    asked = {"containers": [{"name": "main", "requests": {"cpu": f"{requests[life['uid']]}m"}}]}
    deletion_ms = life["deletion_requested"]
    return PodObject(
        namespace=life["namespace"],
        name=life["pod"],
        uid=life["uid"],
        labels=json.loads(life["labels"]),
        owner=None,
        created_ms=life["created"],
        started_ms=life["started"] if state["phase"] == "Running" else None,
        deletion_ms=deletion_ms if deletion_ms and deletion_ms <= state["ts"] else None,
        node="node",
        phase=state["phase"],
        ready=state["ready"],
        transition_ms=state["last_transition"],
        template=template_of(json.dumps(asked)),
    )
