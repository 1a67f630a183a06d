"""The replay kernel on samples in memory: grouping, readiness, windows, policies, all outputs.

One thread, so that figures are per core. `make bench` writes the figures to docs/proof.md.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from hpabatch import _jit
from hpabatch.kernels.replay import replay_fleet
from hpabatch.layout import codes
from hpabatch.layout.records import (
    ANSWER,
    CHANGE,
    LANE,
    METRIC,
    METRIC_WORDS,
    POD_STATE,
    POLICY,
    REQUEST,
    SPEC,
    STREAM,
    TICK,
    TIMING,
    Fleet,
    Memory,
    Records,
    records,
    records_from,
)
from hpabatch.layout.results import Results, empty_results
from hpabatch.model.versions import profile_for
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


SYNC_MS = 15_000
START_MS = 1_760_000_000_000
TARGET_PCT = 60
REQUEST_MILLI = 1000


def steady_fleet(hpas: int, ticks: int, pods: int, metrics: int, down_window_s: int = 300) -> Fleet:
    """Return `hpas` HPAs with behavior, `pods` pods and `metrics` cpu metrics each, over `ticks`.

    Usage swings slowly by 12 % around a target of 60 % of a request of 1000m, with 20 % of noise
    per sample. Deterministic.
    """
    all_ticks, all_streams = hpas * ticks, hpas * metrics
    rows = all_ticks * pods
    lane = np.repeat(np.arange(hpas), metrics)
    stream = np.arange(all_streams)
    now_ms = START_MS + np.arange(ticks) * SYNC_MS
    return Fleet(
        lanes=records_from(
            LANE,
            hpas,
            first_tick=np.arange(hpas) * ticks,
            last_tick=np.arange(1, hpas + 1) * ticks,
            first_stream=np.arange(hpas) * metrics,
            last_stream=np.arange(1, hpas + 1) * metrics,
            cpu_initialization_ms=300_000,
            readiness_delay_ms=30_000,
            downscale_stabilization_ms=300_000,
            switches=profile_for("1.38").switches(),
        ),
        specs=_specs(hpas, metrics, down_window_s),
        policies=records(
            POLICY,
            [
                (codes.POLICY_PODS, 4, 15_000),
                (codes.POLICY_PERCENT, 100, 15_000),
                (codes.POLICY_PERCENT, 100, 15_000),
            ]
            * hpas,
        ),
        metrics=records_from(
            METRIC,
            all_streams,
            kind=codes.RESOURCE_UTILIZATION,
            source=codes.SOURCE_RESOURCE,
            is_cpu=1,
            target_pct=TARGET_PCT,
            stream=stream,
            subject=stream,
        ),
        streams=records_from(
            STREAM,
            all_streams,
            sample_offset=(stream - lane) * ticks * pods,
            request_offset=(stream - lane) * pods,
            answer_offset=(stream - lane) * ticks,
        ),
        ticks=records_from(
            TICK,
            all_ticks,
            now_ms=np.tile(now_ms, hpas),
            spec=np.repeat(np.arange(hpas), ticks),
            replicas=pods,
            status_replicas=pods,
            first_row=np.arange(all_ticks) * pods,
            last_row=np.arange(1, all_ticks + 1) * pods,
        ),
        row_state=_row_states(hpas, ticks, pods),
        row_weight=np.zeros(0, np.int64),
        states=records_from(
            POD_STATE,
            hpas * pods,
            pod_flags=codes.PHASE_RUNNING | codes.READY_TRUE | codes.POD_STARTED,
            start_ms=START_MS - 3_600_000,
            transition_ms=START_MS - 3_590_000,
        ),
        present=np.ones(rows * metrics, np.int8),
        value_milli=_usage(all_streams, ticks, pods),
        timing=records_from(
            TIMING,
            rows * metrics,
            ts_ms=np.repeat(np.tile(now_ms, all_streams), pods),
            window_ms=30_000,
        ),
        requests=records_from(REQUEST, all_streams * pods, known=1, milli=REQUEST_MILLI),
        answers=records_from(ANSWER, all_ticks * metrics),
        values_milli=np.zeros(0, np.int64),
        changes=records(CHANGE, []),
        metric_words=np.zeros((all_streams, METRIC_WORDS), np.int64),
    )


def _specs(hpas: int, metrics: int, down_window_s: int) -> Records:
    s = np.arange(hpas)
    return records_from(
        SPEC,
        hpas,
        min_replicas=1,
        max_replicas=100_000,
        has_behavior=1,
        down_window_ms=down_window_s * 1000,
        first_up=3 * s,
        first_down=3 * s + 2,
        last_down=3 * s + 3,
        first_metric=metrics * s,
        last_metric=metrics * (s + 1),
        up_tolerance=0.1,
        down_tolerance=0.1,
    )


def _row_states(hpas: int, ticks: int, pods: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    first = np.repeat(np.arange(hpas) * pods, ticks * pods)
    return (first + np.tile(np.arange(pods), hpas * ticks)).astype(np.int32)


def _usage(streams: int, ticks: int, pods: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    random = np.random.Generator(np.random.PCG64(7))
    load = 600.0 + 70.0 * np.sin(np.arange(ticks) / 100.0)
    noise = random.uniform(0.8, 1.2, streams * ticks * pods)
    return (np.repeat(np.tile(load, streams), pods) * noise).astype(np.int64)
