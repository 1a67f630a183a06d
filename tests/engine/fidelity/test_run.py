"""The plant score against its naive twin, and the first part that plants are fitted on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.fidelity.plant import (
    KINDS,
    LEFT_OUT,
    judged_changes,
    predicted_milli,
    skill_of,
    spec_changes_ms,
    tells_apart,
    with_known_arrivals,
)
from hpabatch.engine.fidelity.request import FidelityParameters
from hpabatch.engine.fidelity.run import first_part, first_parts_read, split_ms
from hpabatch.engine.fit.run import fit
from hpabatch.engine.fit.signals import Measured
from hpabatch.engine.fit.usage import Cells, Lives, Probes, Series, observed_usage
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.history.reader import open_history
from hpabatch.inputs.plants import SignalOverride
from hpabatch.layout.records import I64
from hpabatch.model.plant import (
    AGE,
    BACKLOG,
    DIVISIBLE,
    PER_POD,
    TOTAL,
    Signal,
)
from tests.cli.histories import START as DEMO_START
from tests.cli.histories import small
from tests.engine import naive_fidelity as naive
from tests.engine.closed_loop import (
    CPU,
    HOUR_MS,
    QUEUE,
    RECORDING,
    START,
    Loop,
    run_loop,
    signal_of,
    spec_of,
    usage_of,
)

DEFAULTS = FidelityParameters()
NAME = "resource/cpu"
NONE = np.zeros(0, np.int64)


# ---- against the naive twin ----------------------------------------------------------------------


def random_steps(rng: np.random.Generator, span_ms: int) -> I64:
    """Return instants at which pods change, in bursts with quiet times between."""
    gaps = rng.choice([1_000, 20_000, 90_000, 240_000, 420_000, 900_000], size=60)
    times = START + np.cumsum(gaps + rng.integers(0, 20_000, size=60))
    return np.unique(times[times < START + span_ms])


def random_lives(rng: np.random.Generator, span_ms: int) -> Lives:
    """Return pods that come, go, are swapped and restart."""
    pods = [(START - HOUR_MS - 1, START - HOUR_MS, NEVER_MS) for _ in range(rng.integers(1, 5))]
    lost: list[tuple[int, int, int]] = []
    for at in random_steps(rng, span_ms).tolist():
        there = [k for k, p in enumerate(pods) if p[2] == NEVER_MS]
        what = rng.choice(["add", "remove", "swap", "all", "restart"])
        gone = {"remove": there[-1:], "swap": there[:1], "all": there}.get(what, [])
        for k in gone:
            pods[k] = (*pods[k][:2], at)
        more = {"add": int(rng.integers(1, 4)), "swap": len(gone), "all": len(gone)}.get(what, 0)
        # Those that come instead are ready a little later, so that the swap is seen.
        pods += [(at - 40_000, at + (5_000 if gone else 0), NEVER_MS)] * more
        if what == "restart" and there and (not lost or lost[-1][2] < at):
            lost.append((there[0], at, at + int(rng.choice([7_000, 700_000]))))
    started, ready, ended = (np.array(column, np.int64) for column in zip(*pods, strict=True))
    lost_rows = np.array(lost, np.int64).reshape(-1, 3)
    runs = [(r, e) for r, e in zip(ready.tolist(), ended.tolist(), strict=True) if e > r]
    times = sorted(
        {t for run in runs for t in run if t < NEVER_MS} | {x for _, *w in lost for x in w}
    )
    lives = Lives(
        created_ms=started - 1_000, started_ms=started, ready_ms=ready, deleted_ms=ended,
        gone_ms=ended, generated=False, step_ms=NONE, step_ready=NONE, lost_pod=lost_rows[:, 0],
        lost_ms=lost_rows[:, 1], again_ms=lost_rows[:, 2],
    )  # fmt: skip
    counts = np.array([ready_of(lives, t) for t in times], np.int64)
    kept = np.flatnonzero(np.diff(counts, prepend=-1) != 0)
    return replace(lives, step_ms=np.array(times, np.int64)[kept], step_ready=counts[kept])


def ready_of(lives: Lives, at: int) -> int:
    return sum(pod.is_ready(at) for pod in naive_pods(lives))


def naive_pods(lives: Lives) -> list[naive.Pod]:
    columns = (lives.started_ms, lives.ready_ms, lives.deleted_ms)
    pods = [naive.Pod(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]
    for pod, a, b in zip(lives.lost_pod, lives.lost_ms, lives.again_ms, strict=True):
        pods[int(pod)].lost.append((int(a), int(b)))
    return pods


def random_measured(rng: np.random.Generator, kind: str) -> Measured:
    """Return a signal with gaps over random pods."""
    step = int(rng.choice([15_000, 30_000, 60_000]))
    cells = Cells(START, step, int(2 * HOUR_MS / step))
    lives = random_lives(rng, 2 * HOUR_MS)
    is_total = kind in (TOTAL, BACKLOG)
    window = 0 if is_total else int(rng.choice([0, 15_000, 30_000]))
    middle = cells.starts_ms + step // 2
    usage = rng.uniform(0, 400, cells.count) * (rng.random(cells.count) > 0.05)
    usage[rng.random(cells.count) < rng.choice([0, 0.02, 0.3])] = np.nan
    moving = lives.changes_between(middle - window // 2 - 30_000, middle + window // 2) > 0
    metric = (QUEUE if is_total else CPU,)
    signal = signal_of(
        spec_of(metric).metrics[0], np.nan_to_num(usage), np.ones(cells.count, np.int64)
    )
    spacing = int(step * rng.choice([1, 2]))
    probes = Probes(*(np.full(3, v, np.int64) for v in (spacing, window, 0, START)))
    ticks = cells.starts_ms + step
    flat = np.nan_to_num(usage)
    whole = usage_of(Loop(flat, np.ones(cells.count, np.int64), flat, NONE), metric)
    period = (ticks > START + rng.integers(0, 2 * HOUR_MS)).astype(np.int64)
    whole = replace(whole, lives=lives, now_ms=ticks, period=period)
    signal = replace(signal, probes=probes, is_total=is_total)
    series = Series(
        usage=usage,
        most=usage,
        ready=lives.ready_at(middle).astype(np.float64),
        still=~moving & np.isfinite(usage),
    )
    return Measured("any", whole, signal, cells, series, kind, SignalOverride())


def watched(m: Measured, censored: Any) -> naive.Watched:
    """Return a signal as the twin wants it."""
    usage = [None if np.isnan(v) else v for v in m.series.usage.tolist()]
    return naive.Watched(
        start=m.cells.start_ms,
        step=m.cells.resolution_ms,
        usage=usage,
        ready=m.series.ready.tolist(),
        still=m.series.still.tolist(),
        censored=censored.tolist(),
        pod_changes=m.usage.lives.step_ms.tolist(),
        spec_changes=spec_changes_ms(m).tolist(),
        pods=naive_pods(m.usage.lives),
        window=int(m.signal.probes.window_ms[0]),
        spacing=int(m.signal.probes.spacing_ms[0]),
        is_total=m.signal.is_total,
    )


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from([DIVISIBLE, PER_POD, AGE, BACKLOG]))
def test_every_change_is_what_the_twin_says(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    m = random_measured(rng, kind)
    censored = rng.random(m.cells.count) < rng.choice([0, 0.02])
    choices = FidelityParameters(
        horizon_ms=int(rng.choice([60_000, 180_000, 300_000])),
        level_ms=int(rng.choice([15_000, 60_000, 120_000])),
        longest_ms=int(rng.choice([120_000, 600_000])),
    )
    since = START + int(rng.integers(0, HOUR_MS))
    signal = Signal(kind, base_milli=50, ceiling_milli=int(rng.choice([100, 390])),
                    growth_milli_per_hour=80, rate_milli=900)  # fmt: skip
    if kind == BACKLOG:
        signal = replace(signal, ceiling_milli=None)
    changes = with_known_arrivals(m, signal, judged_changes(m, censored, since, choices))
    found = predicted_milli(m, signal, changes)
    given = {"base": 50.0, "growth": 80.0, "rate": 900.0}
    if signal.ceiling_milli is not None:
        given["ceiling"] = signal.ceiling_milli
    wanted = naive.found_changes(
        watched(m, censored), since, choices.horizon_ms, choices.level_ms, choices.longest_ms,
        kind, **given,
    )  # fmt: skip
    assert [[*KINDS][k] for k in changes.kind] == [row["kind"] for row in wanted]
    reasons = [None, *LEFT_OUT]
    assert [reasons[k] for k in changes.left_out] == [row["left_out"] for row in wanted]
    counted = tells_apart(signal, changes).tolist()
    assert counted == [naive.counts(row, kind) for row in wanted]
    for k, row in enumerate(wanted):
        told = (changes.at_ms[k], changes.pods_before[k], changes.pods_after[k], changes.samples[k])
        assert told == (row["at"], row["pods_before"], row["pods_after"], len(row["seen"]))
        if row["left_out"] is None:
            assert changes.level_milli[k] == pytest.approx(row["level"])
            assert changes.observed_milli[k] == pytest.approx(row["observed"])
            assert found[k] == pytest.approx(row["predicted"])


def test_the_twin_sees_every_kind_of_change_and_reason() -> None:
    # What the random signals never have, the comparison above does not compare.
    kinds, reasons = set(), set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        m = random_measured(rng, DIVISIBLE)
        censored = rng.random(m.cells.count) < 0.02
        changes = judged_changes(m, censored, START, DEFAULTS)
        kinds |= {[*KINDS][k] for k in changes.kind}
        reasons |= {["", *LEFT_OUT][k] for k in changes.left_out}
    assert kinds == set(KINDS)
    assert reasons == {"", *LEFT_OUT} - {"idle"}  # the usage is never 0 for minutes


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40))
def test_the_skill_and_its_interval_are_what_the_twin_says(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        {"kind": "size", "left_out": None, "error": a, "persistence_error": b}
        for a, b in zip(rng.normal(size=n), rng.normal(size=n), strict=True)
    ]
    wanted = naive.score(rows, DIVISIBLE, "a\0b", 2000)
    own, other = (np.abs([row[name] for row in rows]) for name in ("error", "persistence_error"))
    found = skill_of(own, other, "a\0b")
    assert found.skill == pytest.approx(wanted["skill"])
    assert (found.low, found.high) == pytest.approx((wanted["low"], wanted["high"]))


def test_there_is_no_skill_against_no_error() -> None:
    found = skill_of(np.array([0.1, 0.2]), np.zeros(2), "x")
    assert (found.skill, found.low, found.high) == (None, None, None)
    assert found.error == pytest.approx(0.15)


# ---- the first part ------------------------------------------------------------------------------


def cut(loop: Loop, steps: int) -> Loop:
    return Loop(loop.work[:steps], loop.ready[:steps], loop.usage[:steps], loop.size[:steps])


def test_the_first_part_is_fitted_as_if_the_recording_had_ended_there() -> None:
    loop = run_loop(3, 100, days=1)
    usage = usage_of(loop)
    at_ms = split_ms(usage, 0.5)
    assert at_ms == usage.now_ms[loop.ready.size // 2]
    first = fit(first_part(usage, at_ms), RECORDING)
    alone = fit(usage_of(cut(loop, loop.ready.size // 2)), RECORDING)
    assert first.workload is not None
    assert alone.workload is not None
    assert first.workload.plant.signals == alone.workload.plant.signals
    assert first.workload.work[NAME].tolist() == alone.workload.work[NAME].tolist()
    assert first.fact(f"signals.{NAME}.base") == alone.fact(f"signals.{NAME}.base")
    lives = first_part(usage, at_ms).lives
    for column in (lives.ready_ms, lives.deleted_ms, lives.gone_ms, lives.step_ms):
        assert ((column < at_ms) | (column == NEVER_MS)).all()


def test_samples_after_the_split_are_no_probes() -> None:
    usage = usage_of(run_loop(3, 100, days=0.1))
    at_ms = int(usage.now_ms[100])
    probes = first_part(usage, at_ms).signals[NAME].probes
    assert probes.ts_ms.tolist() == [ms for ms in usage.signals[NAME].probes.ts_ms if ms < at_ms]
    assert 0 < probes.spacing_ms.size == probes.lag_ms.size < usage.signals[NAME].probes.lag_ms.size


@pytest.mark.parametrize(("share", "first"), [(0.5, 5), (0.001, 1), (0.999, 9)])
def test_neither_part_is_empty(share: float, first: int) -> None:
    usage = usage_of(cut(run_loop(0, 0, days=0.1), 10))
    at_ms = split_ms(usage, share)
    assert first_part(usage, at_ms).now_ms.size == first


def test_a_single_tick_is_all_first_part() -> None:
    usage = usage_of(cut(run_loop(0, 0, days=0.1), 1))
    assert first_part(usage, split_ms(usage, 0.5)).now_ms.size == 1


@pytest.mark.compiled
def test_what_grows_with_age_is_fitted_on_the_samples_before_the_split(tmp_path: Path) -> None:
    history = open_history(small(tmp_path / "whole", "shop", minutes=120))
    plan = plan_replay(history, ReplayParameters("1.38", max_age_ms=150_000))
    usages = [u for u in observed_usage(plan, shards=[0]) if "resource/memory" in u.signals]
    until = split_ms(usages[0], 0.5)
    minutes = (until - int(DEMO_START.timestamp() * 1000)) // 60_000
    # A recording that ended at the split, so that what came later cannot have been read.
    ended = open_history(small(tmp_path / "first", "shop", minutes=minutes))
    earlier = plan_replay(ended, ReplayParameters("1.38", max_age_ms=150_000))
    wanted = {u.candidate.name: u for u in observed_usage(earlier, shards=[0])}
    assert usages
    for usage, first in zip(
        usages, first_parts_read(plan, usages, [until] * len(usages)), strict=True
    ):
        other = wanted[usage.candidate.name].signals["resource/memory"].pods
        pods = first.signals["resource/memory"].pods
        assert pods.settled.sum() > 0
        for column in ("settled", "from_ms", "age_h", "above", "age_above"):
            assert pods[column].tolist() == other[column].tolist()
        assert first_part(usage, until).signals["resource/memory"].pods.settled.sum() == 0
