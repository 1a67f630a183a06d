"""The engine decides what the plain alignment decides, however a history is stored and cut."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numba
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hpabatch.engine.fleet import plan
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.replay.run import ReplayResult, replay_history
from hpabatch.engine.shards import lanes
from hpabatch.history.reader import History, open_history
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.datafiles import Limits
from tests.effort import effort
from tests.engine import naive_align as naive
from tests.engine.made import SCHEMA
from tests.engine.plain.replay import replay_plainly
from tests.engine.small_history import (
    STEP,
    histories,
    recorder_rows,
    to_frame,
    write_pieces,
)


@dataclass(frozen=True)
class Way:
    """How a history is stored and replayed; nothing of it may matter.

    `seed` decides which rows are written together; `shards` are the limits of a shard: decisions,
    and rows a day.
    """

    layout: str
    seed: int
    shards: tuple[int, int]
    block: int
    threads: int


ways = st.builds(
    Way,
    layout=st.sampled_from(["flat", "flat", "store"]),
    seed=st.integers(0, 999),
    shards=st.sampled_from([(1, 1), (15, 1 << 20), (1 << 20, 3), (1 << 20, 1 << 20)]),
    block=st.sampled_from([1, 2, 3, 7, 64, 8192]),
    threads=st.sampled_from([1, 2]),
)


def write_store(tables: naive.Tables, folder: Path, seed: int) -> Path:
    """Write the same tables in several parts, some rows again and again, in files of any size."""
    rng = random.Random(seed)
    size = rng.choice([1, 2, 1000])
    store = open_writer(
        folder, limits=Limits(size, rng.choice([size, 1000]), rng.choice([1, 1000]))
    )
    # Pods first: states and requests without a target get theirs.
    order = ["pods", *(name for name in tables if name != "pods")]
    with store.part() as part:
        part.add("pods", to_frame("pods", tables["pods"]))
    for _ in range(rng.randint(1, 3)):
        with store.part() as part:
            for name in order:
                part.add(name, to_frame(name, [r for r in tables[name] if rng.random() < 0.5]))
    with store.part() as part:
        for name in order:
            part.add(name, to_frame(name, tables[name]))
    return folder


@contextmanager
def written(tables: naive.Tables, way: Way) -> Iterator[History]:
    """Yield the history as it was written in some way."""
    write = write_store if way.layout == "store" else write_pieces
    with tempfile.TemporaryDirectory() as folder:
        yield open_history(write(tables, Path(folder), way.seed))


@contextmanager
def cut(way: Way) -> Iterator[None]:
    """Cut and decide a history in some way."""
    before = numba.get_num_threads()
    with (
        mock.patch.object(plan, "SHARD_DECISIONS", way.shards[0]),
        mock.patch.object(plan, "SHARD_DAY_ROWS", way.shards[1]),
        mock.patch.object(lanes, "ROWS_PER_BLOCK", way.block),
    ):
        try:
            numba.set_num_threads(min(way.threads, before))
            yield
        finally:
            numba.set_num_threads(before)


def replayed(
    history: History, parameters: ReplayParameters, way: Way, *, why: bool = False
) -> ReplayResult:
    """Replay a history in some way."""
    with cut(way):
        return replay_history(history, parameters, why=why)


def assert_same_decisions(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Compare exactly, but for how words are stored."""
    assert_frame_equal(found.cast(pl.Schema(SCHEMA)), expected, check_exact=True)


@given(
    tables=histories(),
    way=ways,
    events=st.sampled_from(["recorded", "decided"]),
    clock=st.fixed_dictionaries(
        {
            "delay": st.sampled_from([0, 1, 10_000]),
            "max_age": st.sampled_from([10_001, 35_000, 500_000, None]),
            "period": st.sampled_from([STEP, 7_001]),
            "phase": st.sampled_from([0, 2_001]),
        }
    ),
    instants=st.sampled_from(["grid", "grid", "recorded", "passes", "passes"]),
    k8s=st.sampled_from(["1.38", "1.38", "1.36", "1.32", "1.26", "1.20"]),
)
@settings(max_examples=effort(30))
def test_the_engine_decides_what_the_plain_alignment_decides(
    tables: naive.Tables, way: Way, events: str, clock: naive.Row, instants: str, k8s: str
) -> None:
    clock |= {name: instants == name for name in ("recorded", "passes")}
    if clock["max_age"] is None:
        tables["provenance"] = recorder_rows("c1", "c2")
    assume(not clock["recorded"] or tables["metric_fetches"] or tables["hpa_status"])
    assume(any(naive.instants_of(tables, hpa, clock) for hpa in tables["hpas"]))
    # The twin does not know that 1.26 refuses such an HPA, which then has no selector to share.
    assume(k8s != "1.26" or "ContainerResource" not in str(tables["hpas"]))
    keys = {(row["cluster"], row["namespace"], row["name"]) for row in tables["hpas"]}
    ambiguous = {
        key: naive.ambiguous_instants(
            tables, dict(zip(("cluster", "namespace", "name"), key, strict=True)), clock
        )
        for key in keys
    }
    parameters = ReplayParameters(
        k8s,
        events=events,
        sync_period_ms=clock["period"],
        phase_ms=clock["phase"],
        delay_ms=clock["delay"],
        max_age_ms=clock["max_age"],
        instants=instants,
    )
    with written(tables, way) as history:
        expected = replay_plainly(
            history,
            k8s,
            period_ms=clock["period"],
            phase_ms=clock["phase"],
            delay_ms=clock["delay"],
            max_age_ms=clock["max_age"] or 2**60,
            events=events,
            instants=parameters.instants,
            ambiguous={} if k8s == "1.20" else ambiguous,
        )
        found = replayed(history, parameters, way)
    assert_same_decisions(found.decisions, expected)


@given(
    tables=histories(),
    some=ways,
    others=ways,
    phase=st.sampled_from([None, 0]),
    max_age=st.sampled_from([None, 35_000]),
)
@settings(max_examples=effort(10))
def test_no_way_of_storing_or_cutting_matters(
    tables: naive.Tables, some: Way, others: Way, phase: int | None, max_age: int | None
) -> None:
    parameters = ReplayParameters("1.38", sync_period_ms=STEP, phase_ms=phase, max_age_ms=max_age)
    results = []
    for way in (some, others):
        with written(tables, way) as history:
            results.append(replayed(history, parameters, way))
    one, other = results
    assert_frame_equal(one.decisions, other.decisions, check_exact=True)
    assert_frame_equal(one.hpas, other.hpas)
    assert one.skipped == other.skipped
    # Digests are those of the files.
    assert [(k, v) for k, v in one.evidence.items() if "sha256" not in k] == [
        (k, v) for k, v in other.evidence.items() if "sha256" not in k
    ]


@pytest.mark.compiled
def test_the_demo_is_decided_alike() -> None:
    history = open_history(Path(__file__).parents[3] / "data" / "demo")
    times: naive.Row = {"delay_ms": 0, "max_age_ms": 150_000, "phase_ms": 0}
    parameters = ReplayParameters("1.38", sync_period_ms=60_000, **times)
    found = replay_history(history, parameters).decisions
    # Which selectors are ambiguous is checked elsewhere; the plain alignment is told.
    ambiguous: dict[tuple[str, str, str], list[int]] = {}
    rows = found.filter(pl.col("scaling_active") == "AmbiguousSelector")
    for *key, ts in rows.select("cluster", "namespace", "hpa", pl.col("ts").to_physical()).rows():
        ambiguous.setdefault((key[0], key[1], key[2]), []).append(ts)
    assert len(ambiguous) == 2
    expected = replay_plainly(history, "1.38", period_ms=60_000, ambiguous=ambiguous, **times)
    assert_same_decisions(found, expected)
