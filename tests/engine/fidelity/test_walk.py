"""Tests of the walk over a shard: what it gives is what separate passes over the samples give."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

import hpabatch.engine.fidelity.walk as walking
from hpabatch.engine.fidelity.trials import WINDOW
from hpabatch.engine.fidelity.walk import Walk, walk_shards
from hpabatch.engine.fit.usage import observed_usage
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.replay.decisions import SCORED
from hpabatch.engine.replay.run import replay_shards
from hpabatch.history.reader import open_history
from tests.effort import INTERPRETED
from tests.engine.swept import cut

HPAS = ("payments/api", "shop/checkout")
HOURS = 1 if INTERPRETED else 6


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ReplayPlan:
    folder = cut(tmp_path_factory.mktemp("walk"), *HPAS, hours=HOURS)
    return plan_replay(open_history(folder), ReplayParameters())


@pytest.fixture(scope="module")
def walks(plan: ReplayPlan) -> list[Walk]:
    return list(walk_shards(plan))


def same(one: Any, other: Any) -> bool:
    """Say whether two values are equal, arrays and all that they are in included."""
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_its_decisions_are_those_of_a_replay(plan: ReplayPlan, walks: list[Walk]) -> None:
    replayed = list(replay_shards(plan, range(len(plan.shards))))
    for walk, result in zip(walks, replayed, strict=True):
        assert walk.decisions.height > 0
        assert walk.decisions.equals(result.decisions.select(SCORED))
        assert walk.hpas.equals(result.hpas)
        assert walk.notes == result.notes


def test_its_usage_is_that_of_a_pass_without_decisions(plan: ReplayPlan, walks: list[Walk]) -> None:
    usages = [usage for walk in walks for usage in walk.usages]
    assert usages
    assert same(usages, list(observed_usage(plan)))


def test_its_stated_setting_decides_as_the_replay_does(walks: list[Walk]) -> None:
    for walk in walks:
        for recording, trials in zip(walk.recordings, walk.trials, strict=True):
            frame = walk.decisions.filter(hpa=recording.candidate.name)
            plain = trials[0].plain
            kept = np.isin(frame["ts"].to_physical().to_numpy(), plain.now_ms)
            assert kept.any()
            assert np.array_equal(frame["desired"].to_numpy()[kept], plain.wished)
            assert np.array_equal(frame["replicas"].to_numpy()[kept], plain.seen)


def test_each_setting_has_decisions_of_its_own(walks: list[Walk]) -> None:
    others = [
        (trials[0].plain, trial.plain)
        for walk in walks
        for trials in walk.trials
        for trial in trials[1:]
        if trial.deviation.dimension != WINDOW
    ]
    differ = [not np.array_equal(stated.wished, other.wished) for stated, other in others]
    assert sum(differ) > len(differ) // 2


@pytest.mark.compiled
def test_held_lanes_may_have_walks_of_their_own(
    plan: ReplayPlan, walks: list[Walk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "TICKS_AT_ONCE", 1)
    assert sum(len(r.passes) for walk in walks for r in walk.recordings) > 0
    apart = list(walk_shards(plan))
    assert same([w.trials for w in apart], [w.trials for w in walks])
    assert same([list(w.usages) for w in apart], [list(w.usages) for w in walks])
