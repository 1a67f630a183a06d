"""Estimate of lenses: the loss, and sources whose lens is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.answers_truth import K8S, SYNC_MS, Known, stated
from benchmarks.lens_truth import recorded, run, seen_through, write
from benchmarks.truth_fleet import FleetOptions, Truth, make_fleet
from hpabatch.engine.fidelity.lens import LensEstimate, is_shared, through_lens
from hpabatch.engine.fidelity.lens_search import (
    RAW,
    REACH_MS,
    Interval,
    Setting,
    Tried,
    losses,
    parts_of,
)
from hpabatch.engine.fidelity.trials import STATED, Episodes, Recording, Sizes, Trial, Window
from hpabatch.engine.fleet import plan as planning
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, narrow_plan, plan_replay
from hpabatch.errors import UsageError
from hpabatch.history.reader import open_history
from hpabatch.inputs.lenses import CPU, Lens
from hpabatch.model.objects.hpa import HPA

STEP = 15_000
CHANGE_MS = 1_200_000


def lost(first: int | None, size: int = 4, before: int = 0, away: int = 0) -> float:
    """Return the squared loss of a change from 3 to 4 that is decided so many steps after it.

    `before`: ticks of a wish some time before it; `away`: ticks of one that nothing answers.
    """
    now_ms = np.arange(240, dtype=np.int64) * STEP
    at = np.array([CHANGE_MS], np.int64)
    episodes = Episodes(at, at, at * 0 + 3, at * 0 + 4, at * 0 + 4)
    window = Window(30_000 + REACH_MS, 0, 30_000)
    nobody: Any = None
    passes = (np.zeros(1, np.int64),)
    recording = Recording(nobody, (), now_ms, window, 0, 300_000, episodes, passes)
    seen, wished = np.full(240, 3), np.full(240, 3)
    k = CHANGE_MS // STEP
    if first is not None:
        wished[k + first : k + 60] = size
    wished[k - 8 : k - 8 + before] = 4
    plain = np.where(np.arange(240) < k, 3, 4)
    other = plain.copy()
    other[10 : 10 + away] += 1
    trial = Trial(STATED, Sizes(now_ms, plain, other), [Sizes(now_ms, seen, wished)])
    return float((losses(recording, trial) ** 2).sum())


def test_each_tick_between_a_decision_and_the_recorded_change_counts() -> None:
    assert lost(0) == 0
    assert lost(1) == pytest.approx(1)
    assert lost(4) == pytest.approx(4)
    assert lost(-3) == pytest.approx(3)
    assert lost(0, before=2) == pytest.approx(2)
    assert lost(0, size=6) == pytest.approx(2)
    assert lost(0, away=5) == pytest.approx(5)
    assert lost(None) == pytest.approx((30_000 + REACH_MS) // STEP + 3)


def test_an_interval_ends_where_values_fit_significantly_worse() -> None:
    tried = Tried([], "c1", CPU)
    flat = np.zeros(40)
    tried.found = {
        RAW: flat,
        Setting(15_000): flat + np.eye(40)[0],  # worse in one half hour: by chance
        Setting(30_000): flat + 1,
        Setting(-15_000): flat + 1,
    }
    assert tried.best() == RAW
    assert tried.interval("lag_ms") == Interval(-15_000, 30_000)
    assert tried.interval("ratio") == Interval(-np.inf, np.inf)
    assert not tried.interval("lag_ms").excludes(0, 0)
    assert Interval(30_000, 60_000).excludes(-15_000, 15_000)
    assert not Interval(0, 60_000).excludes(-15_000, 15_000)


def source(folder: Path, lens: Lens) -> ReplayPlan:
    """Return the replay of a fleet that was recorded as it looks without its lens."""
    fleet = make_fleet(FleetOptions(hpas=4, weeks=1, seed=7, sample_ms=SYNC_MS))
    tables = recorded(run([seen_through(t, lens) for t in fleet], 7, days=1), lens)
    return planned(write(tables, folder), fleet)


def planned(history: Path, fleet: list[Truth]) -> ReplayPlan:
    hpas: list[HPA] = stated([Known(t, None) for t in fleet], [t.spec for t in fleet])
    return plan_replay(open_history(history), ReplayParameters(K8S), hpas)


def within(found: LensEstimate, lens: Lens) -> list[bool]:
    true = {"lag_ms": lens.lag_ms, "smoothing_ms": lens.smoothing_ms, "ratio": lens.scale}
    intervals = [(getattr(found, name), value) for name, value in true.items()]
    return [interval.low <= value <= interval.high for interval, value in intervals]


@pytest.mark.compiled
def test_a_lens_is_found_and_used_whatever_the_shards(tmp_path: Path) -> None:
    lens = Lens(CPU, "proof", 60_000, 120_000, 0.8)
    plan = source(tmp_path, lens)
    told: list[tuple[str, float]] = []
    seen, (found,) = through_lens(
        plan, "auto", lambda message, share: told.append((message, share))
    )
    shares = [share for _, share in told]
    assert told[0][0].endswith("resource/cpu (lens 1 of 1), setting 1 of at most 187")
    assert shares == sorted(set(shares)), "each setting moves it on"
    assert 0.2 < shares[-1] < 1
    assert found.used, found
    assert within(found, lens) == [True] * 3
    assert seen.lenses == (found.lens,)
    assert seen.evidence["lens"] == str(found.lens)
    spans = [[(plan.clocks.from_ms, plan.clocks.to_ms)]] * len(plan.chosen)
    with mock.patch.object(planning, "SHARD_DECISIONS", 1):
        apart = narrow_plan(plan, range(len(plan.chosen)))
    assert len(apart.shards) > len(plan.shards)
    one, other = (Tried(parts_of(p, spans), "proof", CPU).of(found.found) for p in (plan, apart))
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{signal: resource/cpu, cluster: moon}", "no HPA is of cluster moon; there is proof"),
        ("{signal: pods/rpz}", "no HPA that this is for has a signal pods/rpz; there are"),
    ],
)
@pytest.mark.compiled
def test_a_lens_of_what_is_not_there_is_refused(tmp_path: Path, text: str, told: str) -> None:
    fleet = make_fleet(FleetOptions(hpas=1, weeks=1, seed=7, sample_ms=SYNC_MS))
    plan = planned(write(run(fleet, 7), tmp_path / "history"), fleet)
    file = tmp_path / "lens.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=told):
        through_lens(plan, str(file))


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), max_size=12))
def test_a_ratio_is_shared_by_hpas_each_of_which_counts_once(gains: list[tuple[int, int]]) -> None:
    own: list[dict[tuple[str, ...], float]] = [
        {("c", "n", f"h{k}"): float(pair[part]) for k, pair in enumerate(gains)} for part in (0, 1)
    ]
    sums = [sum(pair) for pair in gains]
    better, worse = sum(v > 0 for v in sums), sum(v < 0 for v in sums)
    assert is_shared(*own) == (better >= 4 and 4 * worse <= better + worse)
