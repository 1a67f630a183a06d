"""Whole statuses beside decisions alone: what a replay costs more that follows conditions, metrics
and groups of pods.

One thread. The ratio is one of one run; the bound is 2 per tick.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from benchmarks.fleets import steady_fleet
from hpabatch import _jit
from hpabatch.kernels.replay import replay_fleet
from hpabatch.kernels.status import status_fleet
from hpabatch.layout.records import Fleet
from hpabatch.layout.results import empty_results
from hpabatch.packing.status import empty_statuses, make_status_memory
from tests.packed import make_memory

SIZES = {1: (1000, 2000), 20: (100, 1500), 100: (20, 1500)}
ROUNDS = 7
BOUND = 2.0


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jit, "THREADS", 1)


def _decide(fleet: Fleet) -> float:
    results = empty_results(fleet.ticks.size, fleet.answers.size)
    memory = make_memory(fleet, recorded=False)
    start = time.perf_counter()
    replay_fleet(fleet, memory, False, results)
    return time.perf_counter() - start


def _decide_whole(fleet: Fleet) -> float:
    results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
    memory, statuses = make_memory(fleet, recorded=False), empty_statuses(fleet.ticks.size)
    whole, last = make_status_memory(fleet), fleet.lanes.last_tick.astype(np.int64)
    start = time.perf_counter()
    replay_fleet(fleet, memory, False, results)
    status_fleet(fleet, results, whole, last, statuses)
    return time.perf_counter() - start


@pytest.mark.parametrize("metrics", [1, 3])
@pytest.mark.parametrize("pods", list(SIZES))
def test_whole_status(benchmark: Any, pods: int, metrics: int) -> None:
    """A replay with statuses takes at most twice as long as one without."""
    hpas, ticks = SIZES[pods]
    fleet = steady_fleet(max(1, hpas // metrics), ticks, pods, metrics)
    _decide(fleet), _decide_whole(fleet)
    # By turns, so that both see the same machine.
    pairs = [(_decide(fleet), _decide_whole(fleet)) for _ in range(ROUNDS)]
    alone, whole = (min(seconds) for seconds in zip(*pairs, strict=True))
    benchmark.group = "whole status"
    benchmark.extra_info.update(
        pods=pods,
        metrics=metrics,
        decisions=int(fleet.ticks.size),
        seconds_alone=alone,
        seconds_whole=whole,
    )
    benchmark.pedantic(lambda: None, rounds=1)
    assert whole <= BOUND * alone
