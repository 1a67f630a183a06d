"""Random shards for the alignment kernel, the same for the same seed, and ways to run them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hpabatch.engine.fleet.frames import NEVER_MS
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.fleet.sources import load_rows
from hpabatch.engine.shards.pack import pack_shard
from hpabatch.engine.shards.read import read_shard
from hpabatch.engine.shards.run import Step, run_step
from hpabatch.engine.shards.shard import Shard
from hpabatch.history.reader import open_history
from hpabatch.layout.records import Memory
from hpabatch.layout.results import Results
from hpabatch.packing.arena import Arena
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    FLAGS,
    METRICS,
    SHOP,
    STEP,
    T0,
    empty_tables,
    fetch_row,
    hpa_row,
    pod_row,
    request_row,
    scale_row,
    start_row,
    state_row,
    usage_row,
    write_pieces,
)

TICKS = 24
LAST = T0 + TICKS * STEP
WORKLOADS = ("web", "api", "db")
SAMPLED = ("pod_metrics", "pod_custom_metrics", "object_metrics", "external_metrics")


def made_tables(seed: int) -> Tables:
    """Return three workloads of some pods, with gaps, lateness, restarts and edits."""
    rng = random.Random(seed)
    tables = empty_tables()
    for name in WORKLOADS:
        add_workload(tables, rng, name)
    totals: Row = SHOP | {"metric": "lag", "selector": "", "fetched_at": None}
    for series in ("", "p0", "p1"):
        for ts in instants(rng, 8):
            value = None if rng.random() < 0.2 else rng.randint(-50, 900)
            row = {"series": series, "ts": ts, "value_milli": value}
            tables["external_metrics"].append(totals | row)
    tables["controller"] = [
        start_row(ts, event=rng.choice(["start", "observed"]), flags=rng.choice(FLAGS))
        for ts in instants(rng, 3)
    ]
    return tables


def instants(rng: random.Random, count: int) -> list[int]:
    """Return distinct times, ascending, as often on ticks as not."""
    return sorted(T0 + k * STEP // 2 for k in rng.sample(range(2 * TICKS), count))


def add_workload(tables: Tables, rng: random.Random, name: str) -> None:
    """Add a workload and its HPA."""
    metrics = rng.sample(METRICS, 3)
    edited = rng.choice(instants(rng, 3))
    first = hpa_row(name, name, metrics, valid_to=edited)
    since = edited + rng.choice([0, 3 * STEP])
    again = hpa_row(name, name, metrics[:2], valid_from=since, uid="z", max_replicas=3)
    tables["hpas"] += [first, again] if rng.random() < 0.5 else [hpa_row(name, name, metrics)]
    tables["scales"].append(scale_row(name, T0 - STEP, 2))
    for ts in instants(rng, 3):
        error = rng.choice([*[None] * 6, "busy", "no matches for kind: x"])
        tables["scales"].append(scale_row(name, ts, rng.randint(1, 5), error=error))
    for metric, ts in zip((0, 1, 0), instants(rng, 3), strict=True):
        answer = rng.choice(["ok", "ok", "empty", "error"])
        tables["metric_fetches"].append(fetch_row(name, metric, ts, answer))
    for k in range(rng.randint(1, 4)):
        add_pod(tables, rng, f"{name}-{k}")


def add_pod(tables: Tables, rng: random.Random, pod: str) -> None:
    """Add a pod with its states, requests and samples."""
    begin, end = instants(rng, 2)
    gone = rng.choice([None, end])
    tables["pods"].append(pod_row(pod, created=begin, started=begin, gone=gone))
    tables["pod_requests"].append(request_row(pod))
    tables["pod_states"].append(state_row(pod, ts=begin, last_transition=begin))
    tables["pod_states"].append(state_row(pod, ts=end, ready="False", last_transition=end))
    for ts in instants(rng, 12):
        late = rng.choice([None, ts, ts + rng.randint(-2, 5) * STEP])
        usage = usage_row(pod, ts, rng.randint(0, 300), fetched_at=late)
        tables["pod_metrics"].append(usage)
        if rng.random() < 0.4:
            proxy = {"container": "proxy", "cpu_milli": rng.choice([None, 20])}
            tables["pod_metrics"].append(usage | proxy)
        if rng.random() < 0.15:
            tables["pod_metrics"][-1] |= {"cpu_milli": None, "memory_bytes": None}
        value = None if rng.random() < 0.15 else rng.randint(0, 9000)
        custom = {"metric": "rps", "selector": "", "value_milli": value}
        tables["pod_custom_metrics"].append(usage | custom)


@dataclass(frozen=True)
class Run:
    """A shard after its last tick, by name of its HPAs what was decided, and the memory."""

    shard: Shard
    decided: dict[str, list[dict[str, Any]]]
    memory: Memory

    @property
    def results(self) -> Results:
        """The results' arrays."""
        return self.shard.results


def made_plan(tables: Tables, events: str = "recorded", max_age_ms: int = 45_000) -> ReplayPlan:
    """Return a plan of one shard."""
    parameters = ReplayParameters(
        "1.38",
        events=events,
        sync_period_ms=STEP,
        phase_ms=0,
        delay_ms=1_000,
        max_age_ms=max_age_ms,
    )
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_replay(open_history(write_pieces(tables, Path(folder), 0)), parameters)
        for table in SAMPLED:  # small tables are kept once they were read
            frames_of(plan, table)
        for table in ("pods", "pod_states", "pod_requests", "scales", "metric_fetches"):
            plan.history.select(table, "c1", [("shop", None)])
    return plan


def frames_of(plan: ReplayPlan, table: str) -> pl.DataFrame:
    """Return a sample table's rows."""
    places: list[tuple[str, str | None]] = [("shop", name) for name in (*WORKLOADS, "lag", None)]
    return plan.history.select(table, "c1", places)


def run(
    plan: ReplayPlan,
    cuts: Sequence[int] = (),
    order: Sequence[int] | None = None,
    block: int = 1024,
    byte: int = 0xA5,
) -> Run:
    """Replay a plan's HPAs in some order, its samples cut into loads at some times.

    Ticks wait for two further loads' samples where a fetch may come before its sample; `byte`
    fills all memory that is handed out before.
    """
    order = range(len(plan.chosen)) if order is None else order
    candidates, places = [plan.chosen[k] for k in order], [plan.places[k] for k in order]
    arena = Poisoned(byte)
    given = read_shard(plan, candidates, places)
    shard, facts = pack_shard(given, arena, block), given.facts
    ends, done_ms = [*sorted(cuts), NEVER_MS], -NEVER_MS
    since_ms = -NEVER_MS
    for end_ms in ends:
        load = made_load(plan, shard, since_ms, end_ms)
        last = end_ms == NEVER_MS
        until_ms = NEVER_MS if last else end_ms - 2 * STEP
        run_step(plan, Step(shard, facts, load, done_ms, until_ms, last))
        since_ms, done_ms = end_ms, until_ms
    return Run(shard, decided(shard), shard.memory)


class Poisoned(Arena):
    """An arena whose arrays are never zero by chance."""

    def __init__(self, byte: int) -> None:
        super().__init__()
        self.byte = byte

    def take(self, name: str, length: int, dtype: Any) -> Any:
        """Return an array of which all bytes are the same."""
        array = super().take(name, length, dtype)
        np.asarray(array).view(np.uint8).fill(self.byte)
        return array


def made_load(plan: ReplayPlan, shard: Shard, since_ms: int, end_ms: int) -> Any:
    """Return the samples of some time."""

    def inside(table: str) -> pl.DataFrame:
        ts = pl.col("ts").to_physical()
        return frames_of(plan, table).filter((ts >= since_ms) & (ts < end_ms))

    plain = {table: inside(table) for table in SAMPLED[1:]}
    return load_rows(shard.tracks, shard.numbers, inside("pod_metrics"), plain, Arena())


def decided(shard: Shard) -> dict[str, list[dict[str, Any]]]:
    """Return by HPA all that was decided at each tick, metric by metric of its spec."""
    fleet, found = shard.fleet, {}
    for h, candidate in enumerate(shard.candidates):
        rows = []
        for t in range(int(fleet.lanes.first_tick[h]), int(fleet.lanes.last_tick[h])):
            tick, spec = fleet.ticks[t], fleet.specs[fleet.ticks[t].spec]
            decision = shard.results.decisions[t]
            row = {name: decision[name].item() for name in decision.dtype.names}
            row["now"] = int(tick.now_ms)
            for m in range(int(spec.first_metric), int(spec.last_metric)):
                at = t + int(fleet.streams.answer_offset[fleet.metrics.stream[m]])
                metric = shard.results.metrics[at]
                values = {name: metric[name].item() for name in metric.dtype.names}
                row[f"metric {m - spec.first_metric}"] = str(values)  # (NaN equals NaN)
            rows.append(row)
        found[candidate.name] = rows
    return found
