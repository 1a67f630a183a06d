"""Fleets in memory for benchmarks: all pods settled, load around the target, most ticks quiet."""

from __future__ import annotations

import numpy as np

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
    Records,
    records,
    records_from,
)
from hpabatch.model.versions import profile_for

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
