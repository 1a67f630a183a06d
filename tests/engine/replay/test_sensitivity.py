"""The same replay under other assumptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.fleet.sync import SyncEstimate
from hpabatch.engine.replay.run import join_results, replay_history, replay_shards
from hpabatch.engine.replay.sensitivity import (
    AS_ASKED,
    COLUMNS,
    SCHEMA,
    Setting,
    compare,
    settings_of,
)
from hpabatch.engine.replay.summary import total
from hpabatch.history.reader import open_history
from tests.cli.histories import edit, small
from tests.engine.made import summarize


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("sensitivity") / "history")


def plan(history: Path, **parameters: Any) -> ReplayPlan:
    return plan_replay(open_history(history), ReplayParameters(k8s="1.38", **parameters))


def test_each_assumption_is_varied_alone(history: Path) -> None:
    asked = plan(history)
    settings = settings_of(asked)
    assert [s.name for s in settings] == [
        AS_ASKED,
        "delay 15 s",
        "max age 75 s",
        "max age 300 s",
        "phase 3.75 s later",
        "phase 7.5 s later",
        "phase 11.25 s later",
    ]
    assert settings[0].plan is asked
    for setting in settings[1:]:
        own, base = setting.plan.settled, asked.settled
        values = zip(
            (own.delay_ms, own.max_age_ms, setting.phase_shift_ms),
            (base.delay_ms, base.max_age_ms, 0),
            strict=True,
        )
        assert sum(a != b for a, b in values) == 1
        assert setting.plan.clocks.from_ms == asked.clocks.from_ms
        assert setting.plan.shards == asked.shards


def test_a_delay_is_varied_both_ways(history: Path) -> None:
    delays = [s.plan.settled.delay_ms for s in settings_of(plan(history, delay_ms=20_000))]
    assert {5_000, 20_000, 35_000} == set(delays)
    delays = [s.plan.settled.delay_ms for s in settings_of(plan(history, delay_ms=5_000))]
    assert {0, 5_000, 20_000} == set(delays)


def test_what_hides_every_sample_is_left_out(history: Path) -> None:
    names = [s.name for s in settings_of(plan(history, delay_ms=50_000, max_age_ms=60_000))]
    assert names[1:3] == ["delay 35 s", "max age 120 s"]


def test_recorded_fetches_have_no_delay(tmp_path: Path) -> None:
    history = small(tmp_path / "history")
    for file in history.glob("*_metrics.parquet"):
        edit(history, file.stem, fetched_at=pl.col("ts").cast(pl.Datetime("ms", "UTC")))
    assert not [s.name for s in settings_of(plan(history)) if s.name.startswith("delay")]


def test_recorded_instants_have_no_phase(history: Path) -> None:
    asked = plan(history)
    clocks = replace(asked.clocks, recorded={("demo", "batch", "etl"): np.zeros(1, np.int64)})
    names = [s.name for s in settings_of(replace(asked, clocks=clocks))]
    assert not [name for name in names if name.startswith("phase")]


def test_estimated_syncs_are_shifted_too(history: Path) -> None:
    asked, key = plan(history), ("demo", "batch", "etl")
    sync = SyncEstimate(15_100.0, 9_000.0, 50, 100.0, asked.clocks.from_ms, True)
    clocks = replace(asked.clocks, estimated={key: sync})
    last = settings_of(replace(asked, clocks=clocks))[-1].plan.clocks
    assert last.estimated[key].anchor_ms == sync.anchor_ms + 11_250
    assert last.estimated[key].phase_ms == 9_000 + 11_250 - 15_100
    first, shifted = clocks.instants(key), last.instants(key)
    assert set((first[:-1] + 11_250).tolist()) <= set(shifted.tolist())


def test_each_setting_is_the_replay_of_its_parameters(history: Path) -> None:
    given: dict[str, dict[str, Any]] = {
        "max age 75 s": {"max_age_ms": 75_000},
        "phase 7.5 s later": {"phase_ms": 7_500},
    }
    for setting in settings_of(plan(history)):
        if setting.name in given:
            shards = range(len(setting.plan.shards))
            own = join_results(setting.plan, list(replay_shards(setting.plan, shards)))
            parameters = ReplayParameters(k8s="1.38", **given[setting.name])
            other = replay_history(open_history(history), parameters)
            assert own.decisions.equals(other.decisions)


def test_what_is_compared(history: Path) -> None:
    asked = plan(history)
    result = replay_history(open_history(history), ReplayParameters(k8s="1.38"))
    summary = summarize(result.decisions, result.hpas)
    worse = summary.with_columns(
        agreement_share=pl.when(pl.col("hpa") == "etl")
        .then(0.25)
        .when(pl.col("hpa") == "worker")
        .then(pl.col("agreement_share") - 0.005)
        .otherwise("agreement_share")
    )
    settings = [Setting(AS_ASKED, 0, asked), Setting("other", 5, asked)]
    found = compare(settings, [summary, worse])
    assert found.columns == list(COLUMNS)
    assert found.schema == SCHEMA
    first, second = found.iter_rows(named=True)
    assert (first["agreement_change"], first["hpas_changed"], first["most_changed"]) == (0, 0, None)
    assert second["agreement_share"] == total(worse).agreement_share
    assert second["hpas_changed"] == 1
    assert second["most_changed"] == "demo/batch/etl"
    before = summary.filter(pl.col("hpa") == "etl")["agreement_share"][0]
    assert second["most_change"] == 0.25 - before


def test_without_any_decision(history: Path) -> None:
    result = replay_history(open_history(history), ReplayParameters(k8s="1.38"))
    empty = summarize(result.decisions.clear(), result.hpas)
    settings = [Setting(AS_ASKED, 0, plan(history))] * 2
    assert compare(settings, [empty, empty])["agreement_change"].to_list() == [None, None]
