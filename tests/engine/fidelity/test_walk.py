"""Tests of the walk over a shard: it gives what separate passes over the samples give.

The piece of the demo data lies on two days, has an HPA with two metrics, and a controller that is
started again with other flags in between.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import hpabatch.engine.fidelity.walk as walking
import hpabatch.engine.fleet.plan as planning
from hpabatch.engine.fidelity.trials import Trial, deviations_of
from hpabatch.engine.fidelity.walk import Walk, stated_trials, walk_shards
from hpabatch.engine.fit.usage import observed_usage
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.replay.decisions import SCORED
from hpabatch.engine.replay.run import replay_shards
from hpabatch.engine.shards.read import read_shard
from hpabatch.engine.shards.run import Step, sample_steps
from hpabatch.history.reader import open_history
from tests.cli.histories import START, table
from tests.effort import INTERPRETED
from tests.engine.swept import cut
from tests.kernels.processes import in_process

HPAS = ("payments/api", "shop/checkout", "search/query")[: 2 if INTERPRETED else 3]
BEFORE, HOURS = (0, 1) if INTERPRETED else (2, 12)
FLAGS = (
    '{"horizontal-pod-autoscaler-sync-period":"15s","horizontal-pod-autoscaler-tolerance":"0.25",'
    '"horizontal-pod-autoscaler-downscale-stabilization":"1m0s"}'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = cut(tmp_path_factory.mktemp("settings"), *HPAS, hours=HOURS, since=-BEFORE)
    first = table(folder, "controller")
    later = pl.lit(START + timedelta(hours=1)).cast(first.schema["ts"])
    again = first.with_columns(ts=later, flags=pl.lit(FLAGS))
    pl.concat([first, again]).write_parquet(folder / "controller.parquet")
    return folder


@pytest.fixture(scope="module")
def plan(folder: Path) -> ReplayPlan:
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


def trials_of(walks: list[Walk]) -> Iterator[tuple[str, list[Trial]]]:
    """Yield the trials of each HPA by its name."""
    for walk in walks:
        for recording, trials in zip(walk.recordings, walk.trials, strict=True):
            yield recording.candidate.name, list(trials)


def test_its_decisions_are_those_of_a_replay(plan: ReplayPlan, walks: list[Walk]) -> None:
    replayed = list(replay_shards(plan, range(len(plan.shards))))
    for walk, result in zip(walks, replayed, strict=True):
        assert walk.decisions.height > 0
        assert walk.decisions.equals(result.decisions.select(SCORED))
        assert walk.hpas.equals(result.hpas)
        assert walk.facts == result.facts


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


@pytest.mark.compiled
@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_deviation_alone_is_that_of_the_joint_walk(
    place: int, plan: ReplayPlan, walks: list[Walk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "deviations_of", lambda c: deviations_of(c)[place : place + 1])
    alone, compared = dict(trials_of(list(walk_shards(plan)))), 0
    for name, trials in trials_of(walks):
        if place + 1 < len(trials):
            assert same(alone[name][1].plain, trials[place + 1].plain)
            assert same(alone[name][1].held, trials[place + 1].held)
            assert alone[name][1].deviation == trials[place + 1].deviation
            compared += 1
        assert same(alone[name][0].plain, trials[0].plain)
    assert compared


@pytest.mark.compiled
def test_several_loads_and_chunks_of_held_lanes_are_as_one(
    plan: ReplayPlan, walks: list[Walk], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = list[Step]()

    def counted(*arguments: Any) -> Iterator[Step]:
        for step in sample_steps(*arguments):
            loads.append(step)
            yield step

    monkeypatch.setattr(planning, "STEP_ROWS", 1)
    monkeypatch.setattr(walking, "TICKS_AT_ONCE", 2_000)
    monkeypatch.setattr(walking, "sample_steps", counted)
    apart = list(walk_shards(plan))
    assert len(loads) > 3 * len(walks)  # two days and the end, and chunks
    assert same([w.trials for w in apart], [w.trials for w in walks])
    # (Of which samples a probe is taken hangs on the loads.)
    assert [u.ready.tolist() for w in apart for u in w.usages] == [
        u.ready.tolist() for w in walks for u in w.usages
    ]


def digest(walks: list[Walk]) -> str:
    """Return a digest of all numbers of some walks."""
    found = hashlib.sha256()
    for walk in walks:
        found.update(walk.decisions.write_json().encode())
        for trials in walk.trials:
            for sizes in (s for trial in trials for s in (trial.plain, *trial.held)):
                for values in sizes:
                    found.update(np.ascontiguousarray(values).tobytes())
        for usage in walk.usages:
            for name in ("replicas", "ready", "serving", "starting", "deleting"):
                found.update(getattr(usage, name).tobytes())
            for signal in usage.signals.values():
                found.update(pickle.dumps([signal.tick, signal.sum_milli, signal.pods.tobytes()]))
    return found.hexdigest()


@pytest.mark.compiled
@pytest.mark.parametrize("threads", ["2"])
def test_the_number_of_threads_changes_nothing(
    threads: str, folder: Path, walks: list[Walk]
) -> None:
    code = (
        f"from {__name__} import *\n"
        f"plan = plan_replay(open_history({str(folder)!r}), ReplayParameters())\n"
        "print(digest(list(walk_shards(plan))))"
    )
    assert in_process(code, NUMBA_NUM_THREADS=threads, PYTHONPATH=":".join(sys.path)) == digest(
        walks
    )


def test_its_stated_setting_alone_is_decided_alike(plan: ReplayPlan, walks: list[Walk]) -> None:
    for (first, last), walk in zip(plan.shards, walks, strict=True):
        given = read_shard(plan, plan.chosen[first:last], plan.places[first:last])
        alone = stated_trials(plan, given, walk.recordings)
        assert same(alone, [trials[0] for trials in walk.trials])
