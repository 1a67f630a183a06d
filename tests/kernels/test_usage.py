"""Observed usage against a plain count over what the alignment shows, and on any number of threads.

The alignment itself has a naive twin of its own (`tests.engine.naive_align`); here its ticks are
taken as they are and only the counting is done again.
"""

from __future__ import annotations

import hashlib
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpabatch.engine.fit import usage as engine_usage
from hpabatch.engine.fit.usage import SignalUsage, Usage, observed_usage
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.engine.shards import pack as engine_lanes
from hpabatch.history.reader import open_history
from hpabatch.model.plant import signal_name
from tests.effort import effort
from tests.engine import naive_align as naive
from tests.engine.observed import Seen, observed
from tests.engine.small_history import (
    METRICS,
    STEP,
    T0,
    empty_tables,
    histories,
    hpa_row,
    pod_row,
    request_row,
    scale_row,
    state_row,
    usage_row,
    write_pieces,
)
from tests.kernels.shards import made_tables

SETTLE_MS = 15_000
FRESH_MS = 12_000
CLOCK = {"delay": 0, "max_age": 35_000, "period": STEP, "phase": 0, "recorded": False}


def parameters(clock: naive.Row) -> ReplayParameters:
    return ReplayParameters(
        "1.38",
        sync_period_ms=clock["period"],
        phase_ms=clock["phase"],
        delay_ms=clock["delay"],
        max_age_ms=clock["max_age"],
    )


def told(tables: naive.Tables) -> naive.Tables:
    """Return the tables with every transition recorded: without one the first state's time counts,
    which a tick does not show.
    """
    states = [dict(row) for row in tables["pod_states"]]
    for row in states:
        if row["last_transition"] is None:
            row["last_transition"] = row["ts"]
    return tables | {"pod_states": states}


def both(tables: naive.Tables, clock: naive.Row, block: int) -> list[tuple[Usage, Seen]]:
    """Return the usage of every HPA beside what its ticks saw."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(engine_lanes, "ROWS_PER_BLOCK", block),
        mock.patch.object(engine_usage.Collected, "_fresh_ms", return_value=FRESH_MS),
    ):
        history = open_history(write_pieces(tables, Path(folder), block))
        seen, _ = observed(history, parameters(clock))
        plan = plan_replay(history, parameters(clock))
        found = []
        for usage in observed_usage(plan, SETTLE_MS):
            c = usage.candidate
            found.append((usage, seen[c.cluster, c.namespace, c.name]))
        assert len(found) == len(seen)
        return found


# ---- the plain count -----------------------------------------------------------------------------


def ready_since(pod: naive.Row) -> int | None:
    ready = pod["phase"] == "Running" and pod["ready"] == "True" and not pod["deleting"]
    return int(pod["transition"]) if ready else None


def counts(tick: naive.Row) -> dict[str, int]:
    pods = tick["pods"]
    since = [ready_since(pod) for pod in pods]
    settled = [s is not None and tick["now"] - s >= SETTLE_MS for s in since]
    begun = [p["start"] is not None and not p["deleting"] for p in pods]
    return {
        "ready": sum(s is not None for s in since),
        "serving": sum(settled),
        "starting": sum(b and not s for b, s in zip(begun, settled, strict=True)),
        "deleting": sum(p["deleting"] for p in pods),
    }


def kind_of(pod: naive.Row, sample: tuple[int, int, int] | None, now: int) -> str:
    """Return which samples a pod's sample is among."""
    if sample is None:
        return "none"
    _, ts, window = sample
    since = ready_since(pod)
    if since is None:
        kept = pod["start"] is not None and not pod["deleting"] and pod["ready"] != "True"
        return "starting" if kept else "none"
    if now - since >= SETTLE_MS and ts - window >= since:
        return "settled"
    return "starting" if ts <= since else "none"


def rows_of(seen: Seen, candidate: Candidate, name: str) -> list[dict[str, int]]:
    """Return what a pod signal shows at the ticks with something new."""
    newest, found = -1, []
    for number, tick in enumerate(seen.ticks):
        metric = metric_of(tick, candidate, name)
        if metric is None:
            return []
        samples = [
            (kind_of(pod, sample, tick["now"]), sample, request)
            for pod, sample, request in zip(
                tick["pods"], metric["samples"], metric["requests"], strict=True
            )
        ]
        settled = [(s, r) for kind, s, r in samples if kind == "settled"]
        last = max((s[1] for s, _ in settled), default=-1)
        counted = [s for s, _ in settled if s[1] > last - FRESH_MS]
        starting = [s[0] for kind, s, _ in samples if kind == "starting" and s[1] > newest]
        fresh = max((s[1] for kind, s, _ in samples if kind != "none"), default=-1)
        if fresh > newest:
            values = [s[0] for s in counted]
            behind = sum(last - s[1] for s in counted) // max(len(counted), 1)
            found.append(
                {
                    "tick": number,
                    "newest_ms": last,
                    "mean_ms": last - behind,
                    "counted": len(counted),
                    "sum_milli": sum(values),
                    "least_milli": min(values, default=0),
                    "most_milli": max(values, default=0),
                    "starting": len(starting),
                    "starting_milli": sum(starting),
                    "requested": sum(r is not None for _, r in settled),
                    "request_milli": sum(r or 0 for _, r in settled),
                }
            )
        newest = max(newest, fresh)
    return found


def metric_of(tick: naive.Row, candidate: Candidate, name: str) -> Any:
    spec = next(p.spec for p in candidate.periods if p.from_ms <= tick["now"] < p.to_ms)
    names = [signal_name(metric) for metric in spec.metrics]
    return tick["metrics"][names.index(name)] if name in names else None


@given(
    tables=histories(),
    clock=st.fixed_dictionaries(
        {
            "delay": st.sampled_from([0, 5_000]),
            "max_age": st.sampled_from([10_001, 35_000]),
            "period": st.sampled_from([STEP, 7_001]),
            "phase": st.just(0),
            "recorded": st.just(False),
        }
    ),
    block=st.sampled_from([1, 3, 1024]),
)
@settings(max_examples=effort(8))
def test_usage_is_what_a_plain_count_says(
    tables: naive.Tables, clock: naive.Row, block: int
) -> None:
    tables = told(tables)
    assume(any(naive.instants_of(tables, hpa, clock) for hpa in tables["hpas"]))
    for usage, seen in both(tables, clock, block):
        check(usage, seen)


def check(usage: Usage, seen: Seen) -> None:
    assert usage.now_ms.tolist() == [tick["now"] for tick in seen.ticks]
    for name in ("ready", "serving", "starting", "deleting"):
        assert getattr(usage, name).tolist() == [counts(t)[name] for t in seen.ticks], name
    known = [tick["scale"] is not None for tick in seen.ticks]
    assert (usage.replicas >= 0).tolist() == known
    for name, signal in usage.signals.items():
        if not signal.is_total:
            check_signal(signal, rows_of(seen, usage.candidate, name))


def check_signal(signal: SignalUsage, expected: list[dict[str, int]]) -> None:
    # A metric that only some of the specs have is not seen in all ticks: not compared.
    if not expected:
        return
    for column in expected[0]:
        assert getattr(signal, column).tolist() == [row[column] for row in expected], column


# ---- made shards ---------------------------------------------------------------------------------


def test_tracks_of_both_halves_without_the_pod_that_is_deleted() -> None:
    """Four pods over midnight, of which one is deleted; for a while no spec is in force."""
    values, tables = (100, 200, 300, 200), empty_tables()
    ends, goes_on = T0 + 8 * STEP, T0 + 12 * STEP
    cpu = METRICS[:1]
    tables["hpas"] = [
        hpa_row("web", "web", cpu, valid_to=ends),
        hpa_row("web", "web", cpu, valid_from=goes_on),
    ]
    tables["scales"] = [scale_row("web", T0 - STEP, 4)]
    for k, value in enumerate(values):
        pod = f"web-{k}"
        leaves = {"deletion_requested": T0 + 14 * STEP, "gone": T0 + 18 * STEP} if k == 3 else {}
        tables["pods"].append(pod_row(pod, **leaves))
        tables["pod_states"].append(state_row(pod))
        tables["pod_requests"].append(request_row(pod))
        tables["pod_metrics"] += [usage_row(pod, T0 + n * STEP, value) for n in range(16)]
    for block in (1, 1024):
        ((usage, seen),) = both(tables, CLOCK, block)
        check(usage, seen)
        assert not ((usage.now_ms >= ends) & (usage.now_ms < goes_on)).any()
        assert usage.deleting.sum() > 0
        tracks = usage.signals["resource/cpu"].pods
        assert tracks.settled.tolist() == [12, 12, 12, 10]
        assert (tracks.even + tracks.odd).tolist() == [12, 12, 12, 10]
        assert tracks.odd.tolist() == [6] * 4  # the last minute of a day
        assert tracks.odd_ratio.tolist() == [3.0, 6.0, 9.0, 6.0]
        assert tracks.even_ratio.tolist() == [3.0, 6.0, 9.0, 4.0]


@cache
def digests() -> list[str]:
    """Return digests of the usage of random shards, in large and in small blocks."""
    found = []
    for seed in (1, 2):
        for block in (1024, 2):
            with (
                tempfile.TemporaryDirectory() as folder,
                mock.patch.object(engine_lanes, "ROWS_PER_BLOCK", block),
            ):
                history = open_history(write_pieces(made_tables(seed), Path(folder), 0))
                plan = plan_replay(history, parameters(CLOCK))
                text = "".join(text_of(usage) for usage in observed_usage(plan, SETTLE_MS))
            found.append(hashlib.sha256(text.encode()).hexdigest())
    return found


def text_of(usage: Usage) -> str:
    columns = [getattr(usage, n).tolist() for n in ("now_ms", "ready", "serving", "starting")]
    for signal in usage.signals.values():
        columns += [
            getattr(signal, n).tolist()
            for n in ("tick", "mean_ms", "counted", "sum_milli", "starting_milli")
        ]
        columns += [signal.pods[n].tolist() for n in signal.pods.dtype.names or ()]
    columns += [usage.lives.step_ms.tolist(), usage.lives.step_ready.tolist()]
    return repr(columns)


def test_made_shards_have_samples_of_every_class() -> None:
    """What the plain count is asked about does occur, and it agrees."""
    counted = starting = later = 0
    pairs = [pair for seed in (1, 2, 3) for pair in both(told(made_tables(seed)), CLOCK, 5)]
    for usage, seen in pairs:
        check(usage, seen)
        for signal in usage.signals.values():
            counted += int(signal.counted.sum())
            starting += int(signal.starting.sum())
            later += int((signal.mean_ms < signal.newest_ms).sum())
    assert counted > 20
    assert starting > 0
    assert later > 0
