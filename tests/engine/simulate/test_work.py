"""Tests of a simulated workload's fit: noise, gaps, unknowns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from hpabatch.engine.fleet.requested import requested_of
from hpabatch.engine.simulate.work import with_noise
from hpabatch.model.plant import BACKLOG, DIVISIBLE, Plant, Signal
from hpabatch.packing.workloads import Workload


def workload(resolution_ms: int = 60_000, hpa: str = "web") -> Workload:
    signals = {"resource/cpu": Signal(DIVISIBLE), "external/q": Signal(BACKLOG, api="external")}
    work = {"resource/cpu": np.array([1000, 2000]), "external/q": np.array([5, 7])}
    return Workload("c", "n", hpa, Plant(signals=signals), work, 0, resolution_ms, 1)


NOISE = np.array([900, 1000, 1100])


def test_noise_cuts_pieces_and_keeps_what_is_no_work_of_pods() -> None:
    noisy = with_noise(workload(), NOISE, 15_000, 0)
    assert noisy.resolution_ms == 15_000
    cpu = noisy.work["resource/cpu"]
    assert set(cpu[:4]) <= {900, 1000, 1100}
    assert set(cpu[4:]) <= {1800, 2000, 2200}
    assert len(set(cpu.tolist())) > 1
    assert noisy.work["external/q"].tolist() == [5] * 4 + [7] * 4


def test_noise_hangs_on_seed_and_name_alone() -> None:
    long = np.full(400, 10_000)
    named = [
        with_noise(
            Workload("c", "n", hpa, Plant({"a": Signal(DIVISIBLE)}), {"a": long}, 0, 60_000, 1),
            NOISE,
            15_000,
            seed,
        )
        .work["a"]
        .tolist()
        for hpa, seed in (("x", 1), ("x", 1), ("y", 1), ("x", 2))
    ]
    assert named[0] == named[1]
    assert named[0] != named[2]
    assert named[0] != named[3]
    assert np.mean(named[0]) == pytest.approx(10_000, rel=0.02)


def rows(*given: tuple[object, ...]) -> pl.DataFrame:
    columns = ["uid", "kind", "index", "container", "valid_from", "cpu_milli", "memory_milli"]
    frame = pl.DataFrame(list(given), schema=columns, orient="row", infer_schema_length=None)
    return frame.with_columns(namespace=pl.lit("n"), target=pl.lit("web"))


def test_requests_are_those_of_the_newest_pod() -> None:
    old = ("a", "app", 0, "main", 1, 900, 900)
    new = [("b", "app", 0, "main", 5, 200, 64_000), ("b", "sidecar", 0, "proxy", 5, 50, None)]
    init = ("b", "init", 0, "setup", 5, 4000, 1)
    overhead = ("b", "overhead", 0, "", 5, 10, None)
    table = rows(old, *new, init, overhead)
    plan: Any = SimpleNamespace(requests_of=lambda cluster, places: table)
    target = ("c", "n", "Deployment", "web")
    candidate: Any = SimpleNamespace(cluster="c", target=target)
    assert requested_of(plan, [candidate]) == {target: (260, 64_000)}
