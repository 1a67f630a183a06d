"""Rows per workload: as many equal pods as there were replicas, the newest removed first."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.importers.table.map import Lives, Scales
from hpabatch.importers.table.workloads import _lives
from tests.importers.tables import BEGIN_S, WORKLOAD_MAP, merged, run_import, seconds

LIVES = {"edge": "0s", "ran_before": "0s", "keep": "15s"}


def rows(*samples: tuple[int, int | None, float | None], app: str = "cart") -> pl.DataFrame:
    """Return rows of (seconds, replicas, usage)."""
    return pl.DataFrame(
        {
            "ts": [BEGIN_S + second for second, _, _ in samples],
            "app": app,
            "size": pl.Series([size for _, size, _ in samples], dtype=pl.Float64),
            "cpu": pl.Series([cpu for _, _, cpu in samples], dtype=pl.Float64),
        }
    )


def test_the_newest_pods_go_first_and_come_back_as_others(tmp_path: Path) -> None:
    data = rows((0, 2, 100), (60, 4, 100), (120, 1, 100), (180, 2, 100), (600, 2, 100))
    result, tables = run_import(tmp_path, merged(WORKLOAD_MAP, {"lives": LIVES}), data)
    pods = tables["pods"].sort("created", "pod")
    found = zip(
        pods["pod"].str.split("-").list.last(),
        seconds(pods, "created"),
        seconds(pods, "deletion_requested"),
        seconds(pods, "gone"),
        strict=True,
    )
    assert list(found) == [
        ("0", 0, None, 615),
        ("1", 0, 120, 150),
        ("2", 60, 120, 150),
        ("3", 60, 120, 150),
        ("1", 180, None, 615),
    ]
    assert pods["uid"].n_unique() == 5
    assert pods["origin"].unique().to_list() == ["generated"]
    scale = tables["scales"]
    assert list(zip(seconds(scale, "ts"), scale["spec_replicas"], strict=True)) == [
        (0, 2), (60, 4), (120, 1), (180, 2),
    ]  # fmt: skip
    per_time = tables["pod_metrics"].group_by("ts").len().sort("ts")
    assert per_time["len"].to_list() == [2, 2, 1, 1, 2]
    assert result.workloads.select("pods", "replicas_min", "replicas_max", "changes").rows() == [
        (5, 1, 4, 3)
    ]


def test_a_mean_is_repeated_and_a_sum_is_divided(tmp_path: Path) -> None:
    data = rows((0, 4, 100), (60, 3, 100), (120, 0, None), (180, None, 50), (240, 1, 7.5))
    for of, found in (("mean", [100] * 7), ("max", [100] * 7), ("sum", None)):
        folder = tmp_path / of
        folder.mkdir()
        said = merged(WORKLOAD_MAP, {"columns": {"cpu": {"of": of}}, "lives": LIVES})
        _, tables = run_import(folder, said, data)
        samples = tables["pod_metrics"].sort("ts")["cpu_milli"].to_list()
        # What a division leaves goes to the oldest pods, so the shares add up to the sum.
        assert samples == (found or [25] * 4 + [34, 33, 33])
    assert tables["scales"]["spec_replicas"].to_list() == [4, 3, 0, 1]


def test_samples_begin_when_a_pod_is_ready(tmp_path: Path) -> None:
    data = rows(*[(5 * k, 1 if k < 2 else 2, 100) for k in range(6)])
    said = merged(WORKLOAD_MAP, {"lives": LIVES | {"ready_after": "8s"}})
    _, tables = run_import(tmp_path, said, data)
    samples = tables["pod_metrics"].join(tables["pods"].select("uid", "created"), on="uid")
    found = {
        key: seconds(part.sort("ts"), "ts")
        for (key,), part in samples.partition_by("created", as_dict=True).items()
    }
    assert sorted(found.values()) == [[10, 15, 20, 25], [20, 25]]
    states = tables["pod_states"].sort("ts")
    assert states["phase"].to_list() == ["Pending", "Running", "Pending", "Running"]


def test_the_pods_that_are_ready_share_a_sum(tmp_path: Path) -> None:
    data = rows((0, 2, 917), (60, 5, 917), (120, 5, 917), (180, 3, 10.5), (240, 3, 0))
    columns = {"cpu": {"of": "sum"}}
    said = merged(WORKLOAD_MAP, {"columns": columns, "lives": LIVES | {"ready_after": "10s"}})
    _, tables = run_import(tmp_path, said, data)
    by_time = tables["pod_metrics"].group_by("ts").agg(pl.col("cpu_milli")).sort("ts")
    # None is Ready at 0 s, and the three new pods are not at 60 s: they have no share then.
    assert [sorted(values, reverse=True) for values in by_time["cpu_milli"]] == [
        [459, 458], [184, 184, 183, 183, 183], [4, 4, 3], [0, 0, 0],
    ]  # fmt: skip


def test_requests_that_change_hold_for_the_pods_that_are_there(tmp_path: Path) -> None:
    data = rows((0, 1, 10), (60, 2, 10), (120, 2, 10)).with_columns(req=pl.Series(["1", "1", "2"]))
    said = {"limits": None, "requests": {"cpu": {"column": "req", "unit": "quantity"}}}
    _, tables = run_import(tmp_path, merged(WORKLOAD_MAP, said | {"lives": LIVES}), data)
    requests = tables["pod_requests"].sort("valid_from", "uid")
    assert list(zip(seconds(requests, "valid_from"), requests["cpu_milli"], strict=True)) == [
        (0, 1000), (60, 1000), (120, 2000), (120, 2000),
    ]  # fmt: skip


def test_constant_replicas_and_a_workload_that_ends_early(tmp_path: Path) -> None:
    said = merged(
        WORKLOAD_MAP,
        {
            "columns": {"replicas": {"value": 2}},
            "lives": LIVES | {"edge": "60s", "ran_before": "5m"},
        },
    )
    data = pl.concat([rows((0, 9, 1), (300, 9, 1)), rows((100, 9, 1), (150, 9, 1), app="late")])
    _, tables = run_import(tmp_path, said, data)
    pods = tables["pods"].unique(["target", "created"]).sort("target")
    assert seconds(pods, "created") == [-300, 100]
    assert seconds(pods, "gone") == [None, 165]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(0, 20), st.integers(0, 20))
def test_there_are_always_as_many_pods_as_replicas(
    sizes: list[int], ready_s: int, grace_s: int
) -> None:
    class Said:
        lives = Lives(ready_after_ms=ready_s * 1000, grace_ms=grace_s * 1000, ran_before_ms=1000)
        scales = Scales("replicas")

    times = [60_000 * (k + 1) for k in range(len(sizes))]
    part = pl.DataFrame({"ts": times})
    changes = [
        (ms, size)
        for k, (ms, size) in enumerate(zip(times, sizes, strict=True))
        if k == 0 or size != sizes[k - 1]
    ]
    found, steps = _lives(changes, part, (times[0], times[-1]), Said)  # type: ignore[arg-type]
    assert steps == [(times[0] - 1000, sizes[0]), *changes[1:]]
    for ms, size in zip(times, sizes, strict=True):
        there = [
            life
            for life in found
            if life.created <= ms + 1 and (life.deleted is None or ms + 1 < life.deleted)
        ]
        assert len(there) == size
        # Those that are left were there before those that were taken.
        assert sorted(life.slot for life in there) == list(range(size))
    assert len({(life.slot, life.created) for life in found}) == len(found)
