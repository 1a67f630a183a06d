"""The replay kernel on samples in memory: grouping, readiness, windows, policies, all outputs.

One thread, so that figures are per core. `make bench` writes the figures to docs/proof.md.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from benchmarks.fleets import steady_fleet
from hpabatch import _jit
from hpabatch.kernels.replay import replay_fleet
from hpabatch.layout.records import Fleet, Memory
from hpabatch.layout.results import Results, empty_results
from tests.packed import make_memory

# Pods per HPA to (HPAs, ticks): about 4 million samples each, more than any cache holds.
SIZES = {1: (1000, 4000), 10: (200, 2000), 20: (100, 2000), 100: (20, 2000), 1000: (4, 1000)}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jit, "THREADS", 1)


def _fresh(fleet: Fleet) -> tuple[tuple[Fleet, Memory, bool, Results], dict[str, Any]]:
    results = empty_results(fleet.ticks.size, fleet.answers.size)
    return (fleet, make_memory(fleet, recorded=False), False, results), {}


@pytest.mark.parametrize("metrics", [1, 3])
@pytest.mark.parametrize("pods", list(SIZES))
def test_replay(benchmark: Any, pods: int, metrics: int) -> None:
    hpas, ticks = SIZES[pods]
    fleet = steady_fleet(max(1, hpas // metrics), ticks, pods, metrics)
    replay_fleet(*_fresh(fleet)[0])
    benchmark.group = "replay kernel"
    benchmark.extra_info.update(
        pods=pods,
        metrics=metrics,
        decisions=int(fleet.ticks.size),
        samples=int(fleet.value_milli.size),
    )
    benchmark.pedantic(replay_fleet, setup=lambda: _fresh(fleet), rounds=7)


def _seconds(fleet: Fleet) -> float:
    best = float("inf")
    for _ in range(5):
        arguments, _ = _fresh(fleet)
        start = time.perf_counter()
        replay_fleet(*arguments)
        best = min(best, time.perf_counter() - start)
    return best


def test_window_length_does_not_matter(benchmark: Any) -> None:
    """Windows of 0, 300 and 3600 s cost the same within 1.3 (a ratio of one run)."""
    seconds = {w: _seconds(steady_fleet(500, 4000, 1, 1, w)) for w in (0, 300, 3600)}
    benchmark.group = "ratios"
    benchmark.extra_info["seconds_by_window"] = {str(k): v for k, v in seconds.items()}
    benchmark.pedantic(lambda: None, rounds=1)
    assert max(seconds.values()) <= 1.3 * min(seconds.values())
