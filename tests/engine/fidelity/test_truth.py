"""The plant score of workloads whose truth is known, and what is not scorable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from hpabatch.engine.fidelity.plant import SIGNAL_COLUMNS, PlantScore, score_plant, spec_changes_ms
from hpabatch.engine.fidelity.request import FidelityParameters
from hpabatch.engine.fidelity.run import first_part, split_ms
from hpabatch.engine.fit.run import fit
from hpabatch.engine.fit.signals import Measured
from hpabatch.engine.fit.usage import Cells, Series, Usage
from hpabatch.engine.fit.workload import GIVEN
from hpabatch.engine.fleet.candidates import SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.inputs.plants import PlantOverride, SignalOverride
from hpabatch.kernels.usage import TRACK_USAGE
from hpabatch.layout.records import records_from
from hpabatch.model.plant import (
    BACKLOG,
    DIVISIBLE,
    PER_POD,
    TOTAL,
)
from tests.engine.closed_loop import (
    CPU,
    HOUR_MS,
    QUEUE,
    RECORDING,
    START,
    STEP_MS,
    Loop,
    lives_of,
    run_loop,
    usage_of,
)
from tests.engine.fit.test_series import kept

DEFAULTS = FidelityParameters()
NAME = "resource/cpu"
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


def test_a_wrong_base_is_worse_than_the_right_one() -> None:
    usage = usage_of(run_loop(7, 200, days=2))
    skills = [row_of(scored(usage, stated(base_milli=b)))["skill"] for b in (0, 100, 200)]
    assert skills == sorted(skills)
    assert skills[2] - skills[0] > 0.2


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
    assert row["unscored"].startswith("the number of ready pods never changed after 2026-10-07T06:")
    assert (row["changes"], row["used"], row["skill"]) == (0, 0, None)


def stairs(hours: float, every: int, sizes: tuple[int, ...], usage: Any = None) -> Loop:
    """Return steady work on sizes that change every so many steps."""
    steps = int(hours * HOUR_MS / STEP_MS)
    ready = np.resize(np.repeat(sizes, every), steps).astype(np.int64)
    work = np.full(steps, 3000.0)
    return Loop(work, ready, 100 + work / ready if usage is None else usage, ready)


def test_a_perfect_plant_has_skill_one() -> None:
    row = row_of(scored(usage_of(stairs(4, 40, (5, 10, 6, 12))), stated(base_milli=100)))
    assert (row["used"], row["changes"]) == (11, 11)
    assert row["skill"] == pytest.approx(1, abs=1e-3)
    assert row["persistence_error_pct"] > 30


@pytest.mark.parametrize(("every", "reason"), [(12, "moved"), (120, None)])
def test_few_usable_changes_are_no_score(every: int, reason: str | None) -> None:
    row = row_of(scored(usage_of(stairs(4, every, (5, 10))), stated(base_milli=100)))
    assert row["skill"] is None
    assert row["used"] < 5
    assert "at least 5 are needed" in row["unscored"]
    assert ("the pods changed again" in row["unscored"]) == (reason == "moved")
    if reason is None:
        assert row["median_error_pct"] < 1  # what is known is told all the same


def test_a_change_while_usage_was_at_its_limit_is_left_out() -> None:
    loop = stairs(4, 40, (5, 10))
    capped = replace(loop, usage=np.minimum(loop.usage, 600))
    free = row_of(scored(usage_of(loop), stated(base_milli=100, ceiling_milli=2000)))
    row = row_of(scored(usage_of(capped), stated(base_milli=100, ceiling_milli=600)))
    assert free["left_out_saturated"] == 0
    assert row["left_out_saturated"] == row["changes"] - row["left_out_end"]
    assert row["saturated_share"] == pytest.approx(0.5, abs=0.05)
    assert "at the ceiling" in row["unscored"]


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


def test_rollouts_and_restarts_are_counted_apart() -> None:
    steps = 960
    loop = Loop(np.full(steps, 3000.0), np.full(steps, 6), np.full(steps, 600.0), np.full(steps, 6))
    usage = usage_of(loop)
    at = START + 3 * HOUR_MS
    old = np.full(6, START - HOUR_MS)
    ready = np.append(old, np.arange(6) * 1_000 + at)
    ended = np.append(np.arange(6) * 1_000 + at + 500, np.full(6, NEVER_MS))
    both = np.sort(np.append(ready[6:], ended[:6]))
    lives = replace(
        usage.lives,
        created_ms=ready - 40_000, started_ms=ready - 30_000, ready_ms=ready, deleted_ms=ended,
        gone_ms=ended, step_ms=np.append(START - HOUR_MS, both),
        step_ready=np.append(6, np.where(np.arange(12) % 2 == 0, 7, 6)),
    )  # fmt: skip
    tracks = records_from(TRACK_USAGE, 12, first_ms=-1, last_ms=-1)
    signals = {n: replace(s, pods=tracks) for n, s in usage.signals.items()}
    usage = replace(usage, lives=lives, signals=signals)
    row = row_of(scored(usage, stated()))
    assert (row["rollout_changes"], row["size_changes"], row["changes"]) == (1, 0, 0)
    assert (row["same"], row["same_used"]) == (1, 1)
    assert row["same_median_error_pct"] == pytest.approx(0)
    assert row["skill"] is None


def test_a_spec_change_alone_is_counted_apart() -> None:
    usage = usage_of(replace(run_loop(5, 0, days=0.5), ready=np.full(2880, 8)))
    spec = usage.candidate.spec
    at = START + 9 * HOUR_MS
    periods = (SpecPeriod(ALWAYS_MS, at, spec), SpecPeriod(at, NEVER_MS, spec))
    usage = replace(
        usage,
        candidate=replace(usage.candidate, periods=periods),
        period=(usage.now_ms >= at).astype(np.int64),
        lives=lives_of(np.full(2880, 8)),
    )
    row = row_of(scored(usage))
    assert (row["spec_changes"], row["same_used"], row["changes"]) == (1, 1, 0)


def test_requests_that_change_are_a_change_of_the_spec() -> None:
    usage = usage_of(stairs(1, 300, (6,)))
    signal = usage.signals[NAME]
    more = np.where(np.arange(signal.tick.size) < 100, 1, 2) * signal.request_milli
    m = Measured(
        NAME, usage, replace(signal, request_milli=more), Cells(START, STEP_MS, 240),
        Series(np.zeros(240), np.zeros(240), np.zeros(240), np.ones(240, bool)), DIVISIBLE,
        SignalOverride(),
    )  # fmt: skip
    assert spec_changes_ms(m).tolist() == [usage.now_ms[100]]


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
    wrong = row_of(
        scored(usage, stated("external/depth", kind=BACKLOG, rate_milli=9_000)), "external/depth"
    )
    assert wrong["skill"] is None or wrong["skill"] < row["skill"] - 0.3
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


def test_nothing_to_fit_on_before_the_split() -> None:
    usage = usage_of(stairs(2, 40, (5, 10)))
    signal = usage.signals[NAME]
    late = signal.tick >= 300
    later = kept(signal, late)
    row = row_of(scored(replace(usage, signals={NAME: later})))
    assert row["unscored"].startswith("nothing was sampled before 2026-10-07T01:00Z")
