"""Readiness that no column tells, from what young pods use beside older ones."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hpabatch.history.columns import AFTER_MS
from hpabatch.importers.table.pods import ready_after
from tests.importers.cluster_made import spec_of, workload, write_objects
from tests.importers.tables import BEGIN_S, POD_MAP, merged, run_import, seconds

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
