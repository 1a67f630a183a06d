"""The synthetic fleet of any size: determinism, independence, plausibility, resuming."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.history.schema import TABLES
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.writer import prepare_rows
from hpabatch.importers.synth.fleet import start_ms
from hpabatch.importers.synth.request import DAY_MS, SynthRequest
from hpabatch.importers.synth.scale.run import PART_ROWS, cut_slices, fleet_parts, write_fleet
from hpabatch.importers.synth.scale.samples import PlayedWorkload
from hpabatch.importers.synth.scale.streams import Purpose, Streams
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.versions import profile_for
from tests.effort import effort

Tables = dict[str, pl.DataFrame]

SMALL = SynthRequest(hpas=6, pods=5, days=2, step_ms=300_000, metrics="mix", seed=3)
# Enough for every type of metric, and for a weekend.
MIXED = SynthRequest(
    hpas=40, pods=8, days=2, step_ms=300_000, metrics="mix", start="2026-10-09", late=0.05
)


def tables_of(
    fleet: SynthRequest, block_hpas: int | None = None, part_rows: int = PART_ROWS
) -> Tables:
    """Return all rows of a fleet, each table checked against the registry and sorted."""
    fleet.check()
    found: dict[str, list[pl.DataFrame]] = {}
    for part in fleet_parts(fleet, block_hpas=block_hpas, part_rows=part_rows):
        for table, frame in part.tables().items():
            found.setdefault(table, []).append(frame)
    return {
        table: prepare_rows(pl.concat(frames), TABLES[table], table)
        for table, frames in found.items()
    }


def assert_same(one: Tables, other: Tables) -> None:
    assert one.keys() == other.keys()
    for table, frame in one.items():
        assert frame.equals(other[table]), table


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def mixed() -> Tables:
    return tables_of(MIXED)


@pytest.fixture(scope="module")
def plain() -> tuple[SynthRequest, Tables]:
    fleet = SynthRequest(hpas=30, pods=20, days=1, step_ms=60_000, jitter_ms=0, gaps=0.0)
    return fleet, tables_of(fleet)


# -- determinism and independence


def test_the_same_settings_give_the_same_bytes(tmp_path: Path) -> None:
    for run in ("a", "b"):
        write_fleet(SMALL, open_writer(tmp_path / run))
    first = files_of(tmp_path / "a")
    assert sum(name.endswith(".parquet") for name in first) > 10
    assert first == files_of(tmp_path / "b")


def test_another_seed_or_cluster_is_another_fleet() -> None:
    own = tables_of(SMALL)["pod_metrics"]["cpu_milli"]
    for other in (replace(SMALL, seed=4), replace(SMALL, cluster="other")):
        assert not own.equals(tables_of(other)["pod_metrics"]["cpu_milli"])


@settings(max_examples=effort(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(block=st.integers(1, 7), rows=st.integers(1, 20_000))
def test_the_cut_into_parts_changes_nothing(block: int, rows: int) -> None:
    assert_same(tables_of(SMALL), tables_of(SMALL, block_hpas=block, part_rows=rows))


def test_more_hpas_change_no_other() -> None:
    few, many = tables_of(SMALL), tables_of(replace(SMALL, hpas=9))
    targets = few["scales"]["target"].unique().to_list()
    for table, column in (
        ("pod_metrics", "target"),
        ("pods", "target"),
        ("pod_states", "target"),
        ("scales", "target"),
        ("hpas", "name"),
    ):
        assert few[table].equals(many[table].filter(pl.col(column).is_in(targets))), table


def test_more_days_change_no_earlier_one() -> None:
    short, long = tables_of(SMALL), tables_of(replace(SMALL, days=4))
    end = pl.lit(start_ms(SMALL.first_day + timedelta(days=SMALL.days)))
    before = pl.col("ts").dt.epoch("ms") < end
    for table in ("pod_metrics", "pod_states", "scales", *custom_tables(short)):
        assert short[table].equals(long[table].filter(before)), table
    assert short["hpas"].equals(long["hpas"])
    lives = short["pods"].join(long["pods"], on=["target", "pod", "uid"], suffix="_long")
    assert lives.height == short["pods"].height
    assert (lives["created"] == lives["created_long"]).all()
    both = lives.filter(pl.col("gone").is_not_null())
    assert (both["gone"] == both["gone_long"]).all()


def test_more_days_change_no_last_minute_of_a_day() -> None:
    """Every 15 s, without jitter: the values after the last whole minute, too."""
    fine = replace(MIXED, hpas=4, pods=3, days=1, step_ms=15_000, jitter_ms=0, gaps=0.0)
    short, long = tables_of(fine), tables_of(replace(fine, days=2))
    end = pl.lit(start_ms(fine.first_day + timedelta(days=1)))
    for table in ("pod_metrics", *custom_tables(short)):
        assert short[table].equals(long[table].filter(pl.col("ts").dt.epoch("ms") < end)), table


def custom_tables(tables: Tables) -> list[str]:
    return [name for name in tables if name.endswith("_metrics") and name != "pod_metrics"]


def test_streams_have_addresses() -> None:
    streams = Streams(7, "c/ns/app")

    def draw(*address: Any) -> list[int]:
        return [int(n) for n in streams.open(*address).integers(0, 2**62, 4)]

    addresses = [
        (Purpose.usage, 1, 2),
        (Purpose.usage, 2, 1),
        (Purpose.usage, 1, 3),
        (Purpose.custom, 1, 2),
    ]
    assert len({tuple(draw(*address)) for address in addresses}) == len(addresses)
    assert draw(*addresses[0]) == draw(*addresses[0])
    others = [Streams(8, "c/ns/app"), Streams(7, "c/ns/app2")]
    first = [s.open(Purpose.usage).random() for s in (streams, *others)]
    assert len(set(first)) == 3


# -- the registry


@settings(max_examples=effort(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    fleet=st.builds(
        SynthRequest,
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
    )
)
def test_all_rows_conform(fleet: SynthRequest) -> None:
    tables = tables_of(fleet)
    needed = {"pods", "pod_requests", "pod_states", "scales", "hpas", "pod_metrics", "controller"}
    assert needed <= tables.keys()
    assert tables["hpas"].height == fleet.hpas
    first = start_ms(fleet.first_day)
    for table, frame in tables.items():
        if TABLES[table].day:
            ms = frame[TABLES[table].day].dt.epoch("ms")
            assert ms.is_between(first, first + fleet.days * DAY_MS, closed="left").all(), table


def test_a_part_is_of_one_day_and_of_bounded_size() -> None:
    fleet = SynthRequest(hpas=3, pods=40, days=2, step_ms=60_000)
    steps = DAY_MS // fleet.step_ms
    shares = []
    for part in fleet_parts(fleet, part_rows=20_000):
        tables = part.tables()
        shares.append(part.share)
        if "pod_metrics" in tables:
            assert tables["pod_metrics"].height <= 20_000 + steps
            assert tables["pod_metrics"]["ts"].dt.date().n_unique() == 1
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 10


def test_slices_hold_every_pod_once() -> None:
    played = [PlayedWorkload(SMALL, index) for index in range(SMALL.hpas)]
    for rows in (1, 700, 2_000, PART_ROWS):
        found = [
            (one.work.name, place)
            for chosen in cut_slices(played, 1, rows)
            for one, places in chosen
            for place in places.tolist()
        ]
        wanted = [(one.work.name, p) for one in played for p in one.sampled(1)[0].tolist()]
        assert found == wanted


# -- what it must contain


def test_specs_are_valid_and_of_all_types(mixed: Tables) -> None:
    types = set()
    behaviors = 0
    for name, text in mixed["hpas"].select("name", "spec").iter_rows():
        hpa, problems = hpa_from_json(text)
        named = HPA(name=name, namespace="n", spec=hpa.spec, api_version=hpa.api_version)
        assert not problems, text
        assert not validate_hpa(default_hpa(named), profile_for("1.38")), text
        types |= {metric["type"] for metric in json.loads(text)["metrics"]}
        behaviors += "behavior" in json.loads(text)
    assert types == {"Resource", "ContainerResource", "Pods", "Object", "External"}
    assert 0 < behaviors < mixed["hpas"].height
    assert sorted(custom_tables(mixed)) == [
        "external_metrics",
        "object_metrics",
        "pod_custom_metrics",
    ]


def test_only_cpu_unless_asked(plain: tuple[SynthRequest, Tables]) -> None:
    _, tables = plain
    assert custom_tables(tables) == []
    for text in tables["hpas"]["spec"]:
        (metric,) = json.loads(text)["metrics"]
        assert metric["resource"]["name"] == "cpu"
        assert 50 <= metric["resource"]["target"]["averageUtilization"] <= 80


def test_names_and_namespaces() -> None:
    tables = tables_of(replace(SMALL, hpas=60, clusters=2, days=1, step_ms=3_600_000, gaps=0.0))
    names = tables["hpas"].select("cluster", "namespace", "name")
    assert names["namespace"].value_counts().sort("namespace")["count"].to_list() == [25, 25, 10]
    assert sorted(names["cluster"].unique()) == ["synthetic-1", "synthetic-2"]
    assert tables["controller"]["cluster"].to_list() == ["synthetic-1", "synthetic-2"]
    # A namespace is in one cluster.
    assert names.select("cluster", "namespace").unique().height == 3
    pattern = re.compile(r"app-\d{5}-[a-z0-9]{10}-[a-z0-9]{5}")
    assert all(pattern.fullmatch(pod) for pod in tables["pods"]["pod"])


def test_pods_have_every_trouble(mixed: Tables) -> None:
    states = set(mixed["pod_states"].select("phase", "ready").unique().iter_rows())
    assert states == {
        ("Pending", None),
        ("Running", "False"),
        ("Running", "True"),
        ("Failed", "False"),
    }
    pods = mixed["pods"]
    assert pods["uid"].n_unique() == pods.height
    # Rollouts: two ReplicaSets under one selector.
    owners = pods.group_by("target").agg(pl.col("owner").n_unique())
    assert owners["owner"].max() in (2, 3)
    # Restarts in place: ready again without being another pod.
    again = mixed["pod_states"].filter(ready="True").group_by("uid").len()
    assert again["len"].max() == 2


def test_lives_are_consistent(mixed: Tables) -> None:
    pods = mixed["pods"]
    for earlier, later in pairwise(["created", "started", "deletion_requested", "gone"]):
        assert (pods[earlier] <= pods[later]).all()
    for table in ("pod_metrics", "pod_custom_metrics"):
        samples = mixed[table].join(pods, on="uid", suffix="_pod")
        assert samples.height == mixed[table].height
        assert (samples["ts"] > samples["started"]).all()
        assert samples.select((pl.col("ts") < pl.col("gone")).fill_null(value=True).all()).item()
        for name in ("pod", "target", "namespace", "cluster"):
            assert (samples[name] == samples[f"{name}_pod"]).all()
    for table in ("pod_requests", "pod_states"):
        owned = mixed[table].join(pods, on="uid", suffix="_pod")
        assert (owned["target"] == owned["target_pod"]).all()
        assert set(owned["uid"]) == set(pods["uid"])
    states = mixed["pod_states"].filter(pl.col("last_transition").is_not_null())
    assert (states["last_transition"] <= states["ts"]).all()


def test_pods_carry_the_labels_of_the_selector(mixed: Tables) -> None:
    selectors = dict(mixed["scales"].select("target", "selector").unique().iter_rows())
    for target, text in mixed["pods"].select("target", "labels").unique().iter_rows():
        key, _, value = selectors[target].partition("=")
        assert json.loads(text)[key] == value


def test_recorded_sizes_agree_with_the_pods(mixed: Tables) -> None:
    failed = mixed["pod_states"].filter(phase="Failed").select("uid", failed="ts")
    pods = mixed["pods"].join(failed, on="uid", how="left")
    ends = pods.select(pl.min_horizontal("deletion_requested", "failed")).to_series()
    rows = mixed["scales"].sample(200, seed=1)
    for row in rows.iter_rows(named=True):
        alive = pods.filter(
            (pl.col("target") == row["target"])
            & (pl.col("created") <= row["ts"])
            & (ends.is_null() | (ends > row["ts"]))
        )
        # An eviction is made good within a second, without a row.
        assert abs(alive.height - row["status_replicas"]) <= 1, row


def test_sizes_stay_within_the_bounds_of_the_spec(mixed: Tables) -> None:
    specs = {name: json.loads(spec) for name, spec in mixed["hpas"].select("name", "spec").rows()}
    for target, size in mixed["scales"].select("target", "spec_replicas").iter_rows():
        assert specs[target]["minReplicas"] <= size <= specs[target]["maxReplicas"]


# -- the numbers are plausible


def test_the_mean_size_is_about_what_was_asked(plain: tuple[SynthRequest, Tables]) -> None:
    fleet, tables = plain
    scrapes = fleet.hpas * fleet.pods * fleet.days * fleet.steps
    assert 0.75 < tables["pod_metrics"].height / scrapes < 1.3
    assert fleet.samples == scrapes


def test_usage_is_about_the_target(plain: tuple[SynthRequest, Tables]) -> None:
    _, tables = plain
    requests = tables["pod_requests"].select("uid", "cpu_milli")
    targets = tables["hpas"].select(
        target="name",
        percent=pl.col("spec").map_elements(
            lambda text: json.loads(text)["metrics"][0]["resource"]["target"]["averageUtilization"],
            return_dtype=pl.Int64,
        ),
    )
    samples = tables["pod_metrics"].join(requests, on="uid", suffix="_request")
    ratio = 100.0 * pl.col("cpu_milli") / (pl.col("cpu_milli_request") * pl.col("percent"))
    ratios = samples.join(targets, on="target").group_by("target").agg(mean=ratio.mean())
    assert ratios["mean"].is_between(0.8, 1.2).all()


def test_memory_is_plausible(mixed: Tables) -> None:
    requests = mixed["pod_requests"].select("uid", "container", "memory_milli")
    samples = mixed["pod_metrics"].join(requests, on=["uid", "container"])
    share = samples["memory_bytes"] * 1000 / samples["memory_milli"]
    assert share.is_between(0.2, 1.0).all()
    assert (samples["memory_bytes"] % 4096 == 0).all()
    assert samples.group_by("uid").agg(pl.col("memory_bytes").n_unique())["memory_bytes"].max() != 1


def test_demand_has_nights_and_weekends() -> None:
    one = PlayedWorkload(replace(MIXED, hpas=1, days=7, start="2026-10-05"), 0)
    days = one.demand.reshape(7, 1440)
    assert days.min(axis=1).mean() < 0.8 * days.max(axis=1).mean()
    assert (one.demand > 0).all()
    assert days[5:].mean() < days[:5].mean()
    assert len({spec for spec, _ in one.scales.values()}) > 3


def test_samples_keep_to_their_step() -> None:
    fleet = replace(SMALL, metrics="cpu", jitter_ms=0, gaps=0.0)
    tables = tables_of(fleet)
    offsets = (
        tables["pod_metrics"]
        .group_by("uid")
        .agg(
            (pl.col("ts").dt.epoch("ms") % fleet.step_ms).n_unique().alias("offsets"),
            pl.col("ts").diff().max().dt.total_milliseconds().alias("longest"),
            (pl.col("ts").dt.epoch("ms") % fleet.step_ms).first().alias("offset"),
        )
    )
    assert offsets["offsets"].max() == 1
    assert offsets["offset"].n_unique() > 10
    assert offsets["longest"].drop_nulls().unique().to_list() == [fleet.step_ms]
    assert (tables["pod_metrics"]["window_ms"] == fleet.step_ms).all()


@pytest.mark.parametrize("jitter_ms", [1, 2_500, 4_000, 299_999])
def test_jitter_is_bounded(jitter_ms: int) -> None:
    base = replace(SMALL, metrics="cpu", gaps=0.0, jitter_ms=jitter_ms)
    spread = (
        tables_of(base)["pod_metrics"]
        .group_by("uid")
        .agg(
            (pl.col("ts").dt.epoch("ms") % base.step_ms).min().alias("low"),
            (pl.col("ts").dt.epoch("ms") % base.step_ms).max().alias("high"),
            pl.len(),
        )
    )
    width = spread["high"] - spread["low"]
    assert width.max() == jitter_ms or 0.8 * jitter_ms < float(np.max(width.to_numpy())) < jitter_ms
    assert spread["high"].max() < base.step_ms  # type: ignore[operator]


def test_gaps_lose_about_their_share() -> None:
    whole = tables_of(replace(MIXED, gaps=0.0))["pod_metrics"]
    holed = tables_of(replace(MIXED, gaps=0.2))["pod_metrics"]
    assert 0.15 < 1.0 - holed.height / whole.height < 0.23
    # What is left is what it was.
    key = ["uid", "container", "ts"]
    both = holed.join(whole, on=key)
    longest = holed.sort("uid", "ts").group_by("uid").agg(pl.col("ts").diff().max())
    assert (longest["ts"] >= timedelta(minutes=50)).any()
    assert both["cpu_milli"].equals(both["cpu_milli_right"])


def test_late_samples_have_fetch_times(mixed: Tables) -> None:
    samples = mixed["pod_metrics"]
    delay = (samples["fetched_at"] - samples["ts"]).dt.total_milliseconds()
    assert delay.null_count() == 0
    assert delay.min() == 700
    late = delay >= MIXED.step_ms
    assert 0.04 < float(late.sum()) / len(late) < 0.06
    assert int(np.max(delay.to_numpy())) <= 4 * MIXED.step_ms + 700
    assert mixed["object_metrics"]["fetched_at"].null_count() == 0


def test_fetch_times_are_null_by_default() -> None:
    samples = tables_of(SMALL)["pod_metrics"]
    assert samples["fetched_at"].null_count() == samples.height


def test_sidecars(plain: tuple[SynthRequest, Tables]) -> None:
    fleet, _ = plain
    tables = tables_of(replace(fleet, hpas=8, containers=3, step_ms=600_000))
    samples, requests = tables["pod_metrics"], tables["pod_requests"]
    assert sorted(samples["container"].unique()) == ["app", "sidecar-1", "sidecar-2"]
    assert set(requests["kind"].unique()) == {"app", "sidecar"}
    counts = samples.group_by("uid", "ts").len()["len"].unique().to_list()
    assert counts == [3]
    per_pod = requests.group_by("uid", "kind").agg(pl.col("index").sort())
    assert all(list(index) == list(range(len(index))) for index in per_pod["index"])
    mean = samples.group_by("container").agg(pl.col("cpu_milli").mean()).sort("container")
    app, *sidecars = mean["cpu_milli"].to_list()
    assert all(0 < sidecar < app / 3 for sidecar in sidecars)


def test_the_estimate_of_bytes_is_about_right(tmp_path: Path) -> None:
    fleet = SynthRequest(hpas=20, pods=10, days=1, step_ms=30_000)
    store = open_writer(tmp_path)
    write_fleet(fleet, store)
    size = sum(file.bytes for file in store.snapshot.files)
    assert 0.5 < fleet.bytes / size < 2.0


# -- resuming


class Stop(Exception):  # noqa: N818
    """Stands for whatever ends a run."""


@pytest.mark.parametrize("after", [1, 2, 5])
def test_an_interrupted_run_is_continued(tmp_path: Path, after: int) -> None:
    fleet = replace(SMALL, days=6)
    write_fleet(fleet, open_writer(tmp_path / "whole"))
    calls = 0

    def stop(share: float, samples: int) -> None:
        nonlocal calls
        calls += 1
        if calls == after:
            raise Stop

    with pytest.raises(Stop):
        write_fleet(fleet, open_writer(tmp_path / "parts"), stop)
    written = write_fleet(fleet, open_writer(tmp_path / "parts"))
    assert written.skipped == after
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")
    again = write_fleet(fleet, open_writer(tmp_path / "parts"))
    assert (again.parts, again.samples) == (0, 0)
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")


def test_an_end_within_a_part_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fleet(SMALL, open_writer(tmp_path / "whole"))
    store = open_writer(tmp_path / "parts")
    part = type(store.part("x"))
    add: Callable[..., None] = part.add
    calls = 0

    def fail(self: object, table: str, frame: pl.DataFrame) -> None:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise KeyboardInterrupt
        add(self, table, frame)

    with monkeypatch.context() as patch:
        patch.setattr(part, "add", fail)
        with pytest.raises(KeyboardInterrupt):
            write_fleet(SMALL, store)
    assert len(store.snapshot.parts) == 1
    write_fleet(SMALL, open_writer(tmp_path / "parts"))
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")


def test_finished_blocks_are_not_played_again() -> None:
    names = [part.name for part in fleet_parts(SMALL, block_hpas=2)]
    third = next(name for name in names if name.endswith("/2/0/0"))
    done = set(names[: names.index(third) + 1])
    left = [part.name for part in fleet_parts(SMALL, done.__contains__, block_hpas=2)]
    assert left == [name for name in names if name.split("/")[-3] == "2" or name == names[-1]]


@pytest.mark.parametrize(
    "other", [replace(SMALL, seed=8), replace(SMALL, days=3), replace(SMALL, hpas=7)]
)
def test_other_settings_are_refused(tmp_path: Path, other: SynthRequest) -> None:
    write_fleet(SMALL, open_writer(tmp_path))
    before = files_of(tmp_path)
    with pytest.raises(UsageError, match="already holds a history"):
        write_fleet(other, open_writer(tmp_path))
    assert files_of(tmp_path) == before


def test_a_store_of_something_else_is_refused(tmp_path: Path) -> None:
    store = open_writer(tmp_path)
    with store.part() as part:
        part.add("controller", tables_of(SMALL)["controller"])
    with pytest.raises(UsageError, match="already holds a history"):
        write_fleet(SMALL, store)


# -- settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hpas": 0}, "hpas: expected a whole number of at least 1, got 0"),
        ({"hpas": 10**9}, "hpas: expected a whole number of at most 100000"),
        ({"pods": -1}, "pods: expected a whole number of at least 1"),
        ({"days": 0}, "days: expected a whole number of at least 1"),
        ({"containers": 10}, "containers: expected a whole number of at most 9"),
        ({"clusters": 0}, "clusters: expected a whole number of at least 1"),
        ({"seed": -1}, "seed: expected a whole number of at least 0"),
        ({"seed": 2**63}, "seed: expected a whole number of at most"),
        ({"step": "7s"}, "--step 7s: expected a time of which a day has a whole number"),
        ({"step": "500ms"}, "step: expected a duration of at least 1s, got 500ms"),
        ({"step": "2h"}, "step: expected a duration of at most 1h, got 2h"),
        ({"jitter": "15s"}, "--jitter 15s: expected less than --step 15s"),
        ({"jitter": "-1s"}, "jitter: expected a duration"),
        ({"gaps": 1.0}, "gaps: expected a number of at most 0.9, got 1.0"),
        ({"gaps": float("nan")}, "gaps: expected a finite number, got nan"),
        ({"late": -0.1}, "late: expected a number of at least 0"),
        ({"metrics": "disk"}, "metrics: expected one of cpu, mix, got 'disk'"),
        ({"cluster": "Prod/1"}, "--cluster 'Prod/1': expected lower-case letters"),
        ({"cluster": ""}, "--cluster '': expected lower-case letters"),
        ({"start": "1999-01-01"}, "--start 1999-01-01: expected a day from 2000-01-01"),
        ({"start": "2099-01-01"}, "--start 2099-01-01: expected a day from 2000-01-01"),
        ({"start": "2026-02-30"}, "--start: expected a day such as 2026-10-05"),
        ({"pods": 5_000, "days": 366}, "does not fit memory"),
        ({"hpas": 100_000, "pods": 500, "days": 200, "step": "5s"}, "more than 1,000,000,000"),
    ],
)
def test_what_is_not_possible_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        SynthRequest.of(wrong)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_settings_name_themselves() -> None:
    assert SynthRequest().digest == SynthRequest().digest
    others = [replace(SMALL, seed=8), replace(SMALL, gaps=0.1), replace(SMALL, cluster="a")]
    assert len({one.digest for one in (SMALL, *others)}) == 4


def test_a_fleet_that_an_older_version_began_keeps_its_name() -> None:
    assert SynthRequest().digest == "a99768c706c70d96"
    assert SMALL.digest == "bcc1e1dee104bc49"
