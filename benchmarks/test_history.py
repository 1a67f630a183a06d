"""Replay end to end: from a store's Parquet files to decisions, beside only reading them.

The store is made once in build/bench-history by `benchmarks.fleet`;
HPABATCH_BENCH_HPAS (default 1000, 115 M samples) sets its size.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from benchmarks.fleet.draw import FleetRequest
from benchmarks.fleet.large import write_fleet
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.replay.run import replay_shards
from hpabatch.history.reader import open_history
from hpabatch.history.store.append import open_writer

ROOT = Path(__file__).resolve().parents[1]
HPAS = int(os.environ.get("HPABATCH_BENCH_HPAS", "1000"))
# What a replay of cpu metrics asks of pod_metrics.
COLUMNS = ["uid", "ts", "window_ms", "fetched_at", "cpu_milli"]


@pytest.fixture(scope="module")
def store() -> Path:
    path = ROOT / "build" / "bench-history" / str(HPAS)
    request = FleetRequest(hpas=HPAS, pods=20, days=1, step_ms=15_000, seed=7)
    write_fleet(request, open_writer(path))
    return path


def _files(store: Path) -> list[Path]:
    return sorted((store / "pod_metrics").rglob("*.parquet"))


def _plan(store: Path, share: float = 1.0) -> ReplayPlan:
    def select(hpas: pl.DataFrame) -> pl.DataFrame:
        return hpas.gather_every(round(1 / share))

    return plan_replay(open_history(store), ReplayParameters("1.38"), select=select)


def _replay(store: Path, share: float = 1.0) -> int:
    plan = _plan(store, share)
    return sum(r.decisions.height for r in replay_shards(plan, range(len(plan.shards))))


def _note(benchmark: Any, store: Path, decisions: int = 0) -> None:
    benchmark.group = "history"
    rows = sum(pl.scan_parquet(f).select(pl.len()).collect().item() for f in _files(store))
    benchmark.extra_info.update(samples=rows, decisions=decisions)


def test_read(benchmark: Any, store: Path) -> None:
    def read() -> None:
        for file in _files(store):
            pl.read_parquet(file, columns=COLUMNS, hive_partitioning=False)

    _note(benchmark, store)
    benchmark.pedantic(read, rounds=3, warmup_rounds=1)


def test_replay(benchmark: Any, store: Path) -> None:
    decisions = _replay(store, 0.01)
    decisions = benchmark.pedantic(_replay, (store,), rounds=3) or decisions
    _note(benchmark, store, decisions)


def test_one_percent(benchmark: Any, store: Path) -> None:
    decisions = _replay(store, 0.01)
    benchmark.pedantic(_replay, (store, 0.01), rounds=3)
    _note(benchmark, store, decisions)


def test_command(benchmark: Any, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "decisions.parquet"
    command = [sys.executable, "-c", "from hpabatch.cli import main; main()", "replay", str(store)]
    benchmark.pedantic(
        lambda: subprocess.run([*command, "--out", str(out)], check=True, capture_output=True),
        rounds=2,
    )
    _note(benchmark, store, pl.scan_parquet(out).select(pl.len()).collect().item())
