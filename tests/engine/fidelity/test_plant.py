"""The plant score against its naive twin and known truths; first parts; thresholds of advice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.fidelity.plant import (
    KINDS,
    LEFT_OUT,
    SIGNAL_COLUMNS,
    PlantScore,
    judged_changes,
    predicted_milli,
    score_plant,
    skill_of,
    spec_changes_ms,
    tells_apart,
    with_known_arrivals,
)
from hpabatch.engine.fidelity.request import FidelityParameters
from hpabatch.engine.fidelity.run import (
    first_part,
    first_parts_read,
    split_ms,
    verdicts,
    why_not,
    worst_signal,
)
from hpabatch.engine.fit.measured import Measured
from hpabatch.engine.fit.run import fit
from hpabatch.engine.fit.usage import Cells, Lives, Probes, Series, Usage, observed_usage
from hpabatch.engine.fit.workload import GIVEN
from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.history.reader import open_history
from hpabatch.inputs.plants import PlantOverride, SignalOverride
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
    STEP_MS,
    Loop,
    run_loop,
    signal_of,
    spec_of,
    usage_of,
)
from tests.engine.fit.test_series import kept

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


@pytest.mark.parametrize(("share", "first"), [(0.5, 5), (0.001, 1), (0.999, 9)])
def test_neither_part_is_empty(share: float, first: int) -> None:
    usage = usage_of(cut(run_loop(0, 0, days=0.1), 10))
    at_ms = split_ms(usage, share)
    assert first_part(usage, at_ms).now_ms.size == first


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


DEPTH = "external/depth"


def scored(usage: Usage, *entries: PlantOverride, **choices: Any) -> PlantScore:
    """Return the score of a usage whose first part is fitted."""
    parameters = replace(DEFAULTS, **choices)
    at_ms = split_ms(usage, parameters.split_share)
    fitted = fit(first_part(usage, at_ms), RECORDING, entries)
    return score_plant(usage, fitted, entries, at_ms, parameters)


def row_of(score: PlantScore, name: str = NAME) -> dict[str, Any]:
    rows = score.signals.filter(pl.col("signal") == name).to_dicts()
    assert len(rows) == 1
    return rows[0]


def stated(name: str = NAME, **fields: Any) -> PlantOverride:
    # Usage without any noise is at its highest again and again, and no ceiling.
    if "ceiling_milli" not in fields and name == NAME:
        fields["no_ceiling"] = True
    return PlantOverride(signals=((name, SignalOverride(**fields)),))


@pytest.mark.parametrize("base", [0, 100, 200])
def test_divisible_work_is_predicted(base: int) -> None:
    row = row_of(scored(usage_of(run_loop(base, base, days=2)), stated(base_milli=base)))
    assert row["unscored"] is None
    assert row["base_source"] == GIVEN
    assert row["used"] >= 20
    assert row["skill"] > 0.4
    assert 0 < row["skill_low"] < row["skill"] < row["skill_high"] < 1
    assert abs(row["bias_pct"]) < 5
    assert row["median_error_pct"] < 10


def test_usage_that_does_not_hang_on_the_pods_is_not_divisible() -> None:
    loop = run_loop(2, 0, days=2)
    noise = np.random.default_rng(1).normal(size=loop.ready.size)
    usage = usage_of(replace(loop, usage=300 * (1 + 0.02 * noise)))
    row = row_of(scored(usage, stated(base_milli=0)))
    assert row["skill"] < -2
    assert row["skill_high"] < 0
    # Stated to be what it is, there is nothing to beat persistence by.
    row = row_of(scored(usage, stated(kind=PER_POD)))
    assert row["skill"] is None
    assert "per pod: as persistence" in row["unscored"]
    assert row["same_median_error_pct"] < 2


def test_pods_that_never_change_are_not_scorable() -> None:
    loop = run_loop(5, 0, days=0.5)
    fixed = np.full(loop.ready.size, 8)
    row = row_of(scored(usage_of(replace(loop, ready=fixed, usage=loop.work / 8, size=fixed))))
    assert row["unscored"] == "the number of ready pods never changed"
    assert (row["changes"], row["used"], row["skill"]) == (0, 0, None)
    before = np.where(np.arange(fixed.size) < fixed.size // 8, 4, 8)
    moved = replace(loop, ready=before, usage=loop.work / before, size=before)
    assert "never changed after 2026-10-07T06:" in row_of(scored(usage_of(moved)))["unscored"]


def stairs(hours: float, every: int, sizes: tuple[int, ...], usage: Any = None) -> Loop:
    """Return steady work on sizes that change every so many steps."""
    steps = int(hours * HOUR_MS / STEP_MS)
    ready = np.resize(np.repeat(sizes, every), steps).astype(np.int64)
    work = np.full(steps, 3000.0)
    return Loop(work, ready, 100 + work / ready if usage is None else usage, ready)


@pytest.mark.parametrize(("every", "reason"), [(12, "moved"), (120, None)])
def test_few_usable_changes_are_no_score(every: int, reason: str | None) -> None:
    row = row_of(scored(usage_of(stairs(4, every, (5, 10))), stated(base_milli=100)))
    assert row["skill"] is None
    assert row["used"] < 5
    assert "at least 5 are needed" in row["unscored"]
    assert ("the pods changed again" in row["unscored"]) == (reason == "moved")
    if reason is None:
        assert row["median_error_pct"] < 1  # what is known is told all the same


def test_samples_too_far_apart_say_what_to_do() -> None:
    usage = usage_of(stairs(4, 40, (5, 10)))
    far = {
        name: replace(s, probes=replace(s.probes, spacing_ms=s.probes.spacing_ms * 24))
        for name, s in usage.signals.items()
    }
    row = row_of(scored(replace(usage, signals=far)))
    assert "samples are 360 s apart" in row["unscored"]
    assert "--horizon 7m" in row["unscored"]
    assert "--horizon" not in (
        row_of(scored(replace(usage, signals=far), horizon_ms=420_000))["unscored"] or ""
    )


def test_a_backlog_is_predicted_by_its_rate() -> None:
    # 20/s arrive, a pod does 3/s: 6 pods lose 2/s, 10 gain 10/s.
    steps = 2880
    ready = np.resize(np.repeat([6, 10], [100, 20]), steps)
    grown = (20_000 - 3_000.0 * ready) * 15
    queue = 1e6 + np.cumsum(grown)  # at the end of each step, where it is sampled
    loop = Loop(queue, ready, queue, ready)
    usage = usage_of(loop, (QUEUE,), depth=queue)
    row = row_of(
        scored(usage, stated("external/depth", kind=BACKLOG, rate_milli=3_000)), "external/depth"
    )
    assert row["unscored"] is None
    assert row["used"] >= 10
    assert row["skill"] > 0.7
    # An empty queue after a change is no division by nothing: errors are relative to the larger.
    entry = stated(DEPTH, kind=BACKLOG, rate_milli=3_000)
    changes = scored(usage, entry, horizon_ms=240_000).changes.drop_nulls("error")
    falls = changes.filter(pl.col("pods_after") == 10)
    assert falls.height >= 5
    for c in falls.iter_rows(named=True):
        assert c["before_milli"] > c["observed_milli"]
        wanted = (c["before_milli"] - c["observed_milli"]) / c["before_milli"]
        assert c["persistence_error"] == pytest.approx(wanted)


def test_a_total_and_an_unstated_metric_are_not_scorable() -> None:
    usage = usage_of(run_loop(6, 0, days=0.5), (CPU, QUEUE), depth=np.full(2880, 5_000.0))
    unstated = scored(usage).signals
    assert unstated["signal"].to_list() == [NAME, DEPTH]
    assert unstated["kind"].to_list() == [None, None]
    assert all("nothing says what drives external/depth" in text for text in unstated["unscored"])
    total = scored(usage, stated(DEPTH, kind=TOTAL)).signals
    assert total.schema == pl.Schema(SIGNAL_COLUMNS)
    assert "a total" in total["unscored"][1]
    assert total["unscored"][0] is None


CONTROLLER = {"answer": "right", "answer_why": None}
PLANT = {"signal": NAME, "kind": DIVISIBLE, "unscored": None, "skill": 0.6, "skill_low": 0.3,
         "median_error_pct": 5.0, "mean_error_pct": 6.0, "bias_pct": -3.0}  # fmt: skip


@pytest.mark.parametrize(
    ("controller", "plant", "told"),
    [
        ({"answer": "cannot be told", "answer_why": "no tick"}, {}, None),
        ({"answer": "wrong", "answer_why": "x"}, {}, "controller: the stated settings are "
         "wrong, x"),
        ({"answer": "wrong", "answer_why": "the rules decide 1 of 9"}, {}, "controller: the stated "
         "settings, or the recorded samples, are not the controller's, the rules decide 1 of 9"),
        ({}, {"unscored": "x", "skill": None}, f"plant ({NAME}): not scorable, x"),
        ({}, {"unscored": "x is not known", "kind": None}, "plant: not scorable, x is not known"),
        ({}, {"skill": 0.1}, f"plant ({NAME}): skill 0.10 is below 0.2"),
        ({}, {"skill_low": 0.0}, f"plant ({NAME}): the skill's interval begins at 0.00, not above "
         "0"),
        ({}, {"median_error_pct": 26.0}, f"plant ({NAME}): the median error of 26 % is above 25 %"),
        ({}, {"bias_pct": -20.0}, f"plant ({NAME}): the bias of -20 % is beyond 15 %"),
        ({"answer": "wrong", "answer_why": "x"}, {"skill": -1.0}, "controller: the stated settings "
         f"are wrong, x; plant ({NAME}): skill -1.00 is below 0.2"),
        ({}, {"kind": AGE, "skill": -9.0, "mean_error_pct": 4.9}, None),
        ({}, {"kind": AGE, "skill": -9.0, "mean_error_pct": 5.1}, f"plant ({NAME}): skill -9.00 is "
         "below 0.2"),
    ],
)  # fmt: skip
def test_why_there_is_no_advice(
    controller: dict[str, Any], plant: dict[str, Any], told: str | None
) -> None:
    assert why_not(CONTROLLER | controller, PLANT | plant, DEFAULTS) == told


def test_a_plant_is_as_good_as_its_worst_signal() -> None:
    fine, bad = PLANT, PLANT | {"signal": "b", "skill": 0.1}
    unknown = PLANT | {"signal": "c", "unscored": "x", "skill": None}
    steady = PLANT | {"signal": "d", "kind": AGE, "skill": -9.0, "mean_error_pct": 1.0}
    assert worst_signal([], DEFAULTS) is None
    assert why_not(CONTROLLER, None, DEFAULTS) is not None
    assert worst_signal([fine, bad, unknown, steady], DEFAULTS) is unknown
    assert worst_signal([fine, steady, bad], DEFAULTS) is bad
    assert worst_signal([fine, steady], DEFAULTS) is steady


def test_only_signals_that_the_spec_reads_speak_for_an_hpa() -> None:
    keys = ["hpa"]
    old = PLANT | {"signal": "pods/old", "skill": -1.0}
    signals = pl.DataFrame([{"hpa": "web"} | row for row in (PLANT, old)])
    controller = pl.DataFrame([{"hpa": name} | CONTROLLER for name in ("web", "idle")])
    reads: dict[tuple[str, ...], frozenset[str]] = {
        ("web",): frozenset({NAME}),
        ("idle",): frozenset({NAME}),
    }
    web, idle = verdicts(keys, controller, signals, reads, DEFAULTS)
    good = {"plant_why_not": None, "advice": True, "why_not": None}
    assert web == {"hpa": "web", "plant_signal": NAME, **good}
    assert (idle["plant_signal"], idle["advice"]) == (None, False)
    both: dict[tuple[str, ...], frozenset[str]] = {
        ("web",): frozenset({NAME, "pods/old"}),
        ("idle",): frozenset(),
    }
    web, _ = verdicts(keys, controller, signals, both, DEFAULTS)
    assert (web["plant_signal"], web["advice"]) == ("pods/old", False)


def test_nothing_to_fit_on_before_the_split() -> None:
    usage = usage_of(stairs(2, 40, (5, 10)))
    signal = usage.signals[NAME]
    late = signal.tick >= 300
    later = kept(signal, late)
    row = row_of(scored(replace(usage, signals={NAME: later})))
    assert row["unscored"].startswith("nothing was sampled before 2026-10-07T01:00Z")
