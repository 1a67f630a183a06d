"""Large fleets: lawful, independent of how they are cut, continued, plausible."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.fleet.__main__ import app
from benchmarks.fleet.draw import FleetRequest
from benchmarks.fleet.large import fleet_parts, fleet_tables, write_fleet
from benchmarks.fleet.parts import DAY_MS
from hpabatch.errors import UsageError
from hpabatch.history.schema import TABLES
from hpabatch.history.store.append import StoreWriter, open_writer
from hpabatch.history.store.writer import prepare_rows
from tests.data.laws import assert_lawful
from tests.effort import effort

Tables = dict[str, pl.DataFrame]

SMALL = FleetRequest(hpas=6, pods=5, days=2, step_ms=300_000, metrics="mix", seed=3)
# Enough for every type of metric, and for a weekend.
MIXED = FleetRequest(
    hpas=40, pods=5, days=2, step_ms=300_000, metrics="mix", start="2026-10-09", late=0.05
)


def prepared(tables: Tables) -> Tables:
    """Return tables checked against the registry and sorted."""
    return {name: prepare_rows(frame, TABLES[name], name) for name, frame in tables.items()}


def tables_of(request: FleetRequest) -> Tables:
    request.check()
    return prepared(fleet_tables(request))


def assert_same(tables: Tables, others: Tables) -> None:
    assert tables.keys() == others.keys()
    for table, frame in tables.items():
        assert frame.equals(others[table]), table


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def mixed() -> Tables:
    return tables_of(MIXED)


@pytest.fixture(scope="module")
def small() -> Tables:
    return tables_of(SMALL)


# -- laws


@settings(max_examples=effort(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    request=st.builds(
        FleetRequest,
        hpas=st.integers(1, 4),
        pods=st.integers(1, 6),
        days=st.integers(1, 3),
        step_ms=st.sampled_from([3_600_000, 600_000, 1_350_000]),
        seed=st.integers(0, 2**63 - 1),
        metrics=st.sampled_from(["cpu", "mix"]),
        gaps=st.sampled_from([0.0, 0.3, 0.9]),
        late=st.sampled_from([0.0, 0.5, 1.0]),
        jitter_ms=st.sampled_from([0, 1, 1_000, 599_999]),
        containers=st.integers(1, 4),
        clusters=st.integers(1, 2),
    ),
    block=st.integers(1, 4),
)
def test_every_fleet_is_lawful_however_it_is_cut(request: FleetRequest, block: int) -> None:
    tables = tables_of(request)
    assert_lawful({name: frame.lazy() for name, frame in tables.items()})
    end = request.start_ms + request.days * DAY_MS
    for table, frame in tables.items():
        if day := TABLES[table].day:
            ms = frame[day].dt.epoch("ms")
            assert ms.is_between(request.start_ms, end, closed="left").all(), table
    sizes = tables["scales"].join(tables["hpas"], left_on="target", right_on="name")
    for size, text in sizes["spec_replicas", "spec"].rows():
        spec = json.loads(text)
        assert spec["minReplicas"] <= size <= spec["maxReplicas"]
    parts: dict[str, list[pl.DataFrame]] = {}
    for _, frames in fleet_parts(request, block_hpas=block):
        for table, frame in frames:
            parts.setdefault(table, []).append(frame)
    assert_same(tables, prepared({name: pl.concat(frames) for name, frames in parts.items()}))


@pytest.mark.parametrize("more", [{"hpas": 9}, {"days": 4}])
def test_a_larger_fleet_begins_with_the_smaller_one(small: Tables, more: dict[str, Any]) -> None:
    large = tables_of(replace(SMALL, **more))
    end = pl.lit(SMALL.first_day + timedelta(days=SMALL.days))
    for table in ("pod_metrics", "pod_states", "scales", "hpas", "pod_custom_metrics"):
        target = "name" if table == "hpas" else "target"
        rows = large[table].filter(pl.col(target).is_in(small["hpas"]["name"].to_list()))
        if TABLES[table].day:
            rows = rows.filter(pl.col(TABLES[table].day) < end)
        assert small[table].equals(rows), table
    lives = small["pods"].join(large["pods"], on=["target", "pod", "uid", "created"], suffix="_2")
    assert lives.height == small["pods"].height
    ended = lives.filter(pl.col("gone").is_not_null())
    assert ended["gone"].equals(ended["gone_2"])


@pytest.mark.parametrize("other", [{"seed": 4}, {"cluster": "other"}])
def test_another_seed_or_cluster_is_another_fleet(small: Tables, other: dict[str, Any]) -> None:
    usage = tables_of(replace(SMALL, **other))["pod_metrics"]["cpu_milli"]
    assert not usage.equals(small["pod_metrics"]["cpu_milli"])


# -- a store


@pytest.mark.parametrize("frames", [3, 25])
def test_an_interrupted_run_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: int
) -> None:
    request = replace(SMALL, days=3)
    write_fleet(request, open_writer(tmp_path / "whole"))
    store = open_writer(tmp_path / "parts")
    part = type(store.part("x"))
    add, added = part.add, []

    def stop(self: Any, table: str, frame: pl.DataFrame) -> None:
        added.append(table)
        if len(added) == frames:
            raise KeyboardInterrupt
        add(self, table, frame)

    with monkeypatch.context() as patch:
        patch.setattr(part, "add", stop)
        with pytest.raises(KeyboardInterrupt):
            write_fleet(request, store)
    write_fleet(request, open_writer(tmp_path / "parts"))
    whole = files_of(tmp_path / "whole")
    assert files_of(tmp_path / "parts") == whole
    write_fleet(request, open_writer(tmp_path / "parts"))
    assert files_of(tmp_path / "parts") == whole


def test_a_store_of_something_else_is_refused(tmp_path: Path, small: Tables) -> None:
    def refused(store: StoreWriter, request: FleetRequest) -> None:
        with pytest.raises(UsageError, match="already holds a history"):
            write_fleet(request, store)

    store = open_writer(tmp_path / "other")
    with store.part() as part:
        part.add("controller", small["controller"])
    refused(store, SMALL)
    write_fleet(SMALL, open_writer(tmp_path / "fleet"))
    refused(open_writer(tmp_path / "fleet"), replace(SMALL, seed=8))


def test_the_command_takes_options_and_refuses_what_is_not_possible(
    tmp_path: Path, small: Tables
) -> None:
    options = ("--hpas", "6", "--pods", "5", "--days", "2", "--step", "5m", "--metrics", "mix")
    made = CliRunner().invoke(app, [str(tmp_path / "out"), *options, "--seed", "3"])
    assert (made.exit_code, made.stdout) == (0, "")
    files = (tmp_path / "out" / "pod_metrics").rglob("*.parquet")
    assert sum(pl.read_parquet(file).height for file in files) == small["pod_metrics"].height
    for wrong, message in (
        (("--step", "7s"), "--step 7s: expected a time of which a day has a whole number"),
        (("--jitter", "20m"), "--jitter 20m: expected less than --step"),
        (("--start", "2026-02-30"), "--start: expected a day such as 2026-10-05"),
        (("--gaps", "nan"), "--gaps: expected a finite number"),
    ):
        refused = CliRunner().invoke(app, [str(tmp_path / "no"), *wrong])
        assert message in str(refused.exception)
    assert not (tmp_path / "no").exists()


# -- contents


def test_every_trouble_and_type_of_metric_occurs(mixed: Tables) -> None:
    states = set(mixed["pod_states"].select("phase", "ready").unique().iter_rows())
    assert states == {
        ("Pending", None),
        ("Running", "False"),
        ("Running", "True"),
        ("Failed", "False"),
    }
    # Rollouts: several ReplicaSets under one selector.
    owners = mixed["pods"].group_by("target").agg(pl.col("owner").n_unique())
    assert owners["owner"].max() in (2, 3)
    # Restarts in place: ready again without being another pod.
    again = mixed["pod_states"].filter(ready="True").group_by("uid").len()
    assert again["len"].max() == 2
    specs = [json.loads(text) for text in mixed["hpas"]["spec"]]
    types = {metric["type"] for spec in specs for metric in spec["metrics"]}
    assert types == {"Resource", "ContainerResource", "Pods", "Object", "External"}
    assert 0 < sum("behavior" in spec for spec in specs) < len(specs)
    for table in ("external_metrics", "object_metrics", "pod_custom_metrics"):
        assert mixed[table]["value_milli"].max() > 0  # type: ignore[operator]


def test_recorded_sizes_agree_with_the_pods(mixed: Tables) -> None:
    failed = mixed["pod_states"].filter(phase="Failed").select("uid", failed="ts")
    pods = mixed["pods"].join(failed, on="uid", how="left").select(
        "target", "created", end=pl.min_horizontal("deletion_requested", "failed")
    )  # fmt: skip
    rows = mixed["scales"].join(pods, on="target")
    alive = (pl.col("created") <= pl.col("ts")) & (
        pl.col("end").is_null() | (pl.col("end") > pl.col("ts"))
    )
    counts = rows.group_by("target", "ts", "status_replicas").agg(alive=alive.sum())
    # An eviction is made good within a second, without a row.
    assert ((counts["alive"].cast(pl.Int64()) - counts["status_replicas"]).abs() <= 1).all()


def test_sizes_and_usage_are_about_what_was_asked_for() -> None:
    request = FleetRequest(
        hpas=12, pods=20, step_ms=300_000, jitter_ms=0, gaps=0.0, containers=2
    )  # fmt: skip
    tables = tables_of(request)
    usage = tables["pod_metrics"]
    scrapes = request.hpas * request.pods * request.steps * request.containers
    assert 0.75 < usage.height / scrapes < 1.3
    # Every pod has its own place in the step, and keeps to it.
    place = pl.col("ts").dt.epoch("ms") % request.step_ms
    places = usage.group_by("uid").agg(place.n_unique().alias("n"), place.first().alias("place"))
    assert (places["n"].max(), places["place"].n_unique() > 100) == (1, True)
    percent = pl.col("spec").str.extract(r'"averageUtilization":(\d+)').cast(pl.Float64())
    targets = tables["hpas"].select(percent / 100, target="name")
    usage = usage.join(tables["pod_requests"], on=["uid", "container"], suffix="_request")
    pods = usage.group_by("target", "uid", "ts").agg(pl.col("cpu_milli", "cpu_milli_request").sum())
    shares = pods.group_by("target").agg(
        share=pl.col("cpu_milli").sum() / pl.col("cpu_milli_request").sum()
    )
    ratio = (pl.col("share") / pl.col("spec")).is_between(0.8, 1.2).all()
    assert shares.join(targets, on="target").select(ratio).item()
    memory = usage["memory_bytes"] * 1000 / usage["memory_milli"]
    assert memory.is_between(0.2, 1.0).all()
    assert (usage["memory_bytes"] % 4096 == 0).all()


def test_gaps_jitter_and_late_samples_are_as_asked_for(mixed: Tables) -> None:
    request = replace(MIXED, hpas=8, metrics="cpu", late=0.0, gaps=0.0, jitter_ms=0)
    whole = tables_of(request)["pod_metrics"]
    assert whole["fetched_at"].null_count() == whole.height
    holed = tables_of(replace(request, gaps=0.2))["pod_metrics"]
    assert 0.15 < 1.0 - holed.height / whole.height < 0.23
    longest = holed.group_by("uid").agg(pl.col("ts").sort().diff().max())
    assert (longest["ts"] >= timedelta(minutes=50)).any()
    kept = holed.join(whole, on=["uid", "ts", "cpu_milli", "memory_bytes"], how="semi")
    assert kept.height == holed.height
    shaken = tables_of(replace(request, jitter_ms=2_500))["pod_metrics"]
    place = pl.col("ts").dt.epoch("ms") % request.step_ms
    spans = shaken.group_by("uid").agg(width=place.max() - place.min(), last=place.max())
    assert 2_000 < spans["width"].max() <= 2_500  # type: ignore[operator]
    assert spans["last"].max() < request.step_ms  # type: ignore[operator]
    samples = mixed["pod_metrics"]
    delay = (samples["fetched_at"] - samples["ts"]).dt.total_milliseconds()
    assert delay.min() == 700
    assert 0.04 < (delay >= MIXED.step_ms).mean() < 0.06  # type: ignore[operator]
    assert delay.max() <= 4 * MIXED.step_ms + 700  # type: ignore[operator]
