"""Aligned observations as a frame: what the rules saw of an HPA at each tick, pod by pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.columns.history import OBSERVATIONS
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.frames import masked, words_of
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.shards.run import run_step, shard_steps
from hpabatch.engine.shards.shard import Shard
from hpabatch.layout import codes
from hpabatch.layout.observations import CURSOR_TICK
from hpabatch.model.objects.describe import metric_subject
from hpabatch.model.objects.hpa import MetricSpec
from hpabatch.packing.specs import StreamKey

COLUMNS: Final = OBSERVATIONS.meanings
SCHEMA: Final = OBSERVATIONS.schema
_PHASES = {code: name for name, code in codes.PHASES.items()}
_READY = {code: name for name, code in codes.READINESS.items()}


def observe(plan: ReplayPlan, candidate: Candidate) -> pl.DataFrame:
    """Return what each tick of one HPA of a plan saw: one row per tick, metric and pod (or value).

    Only pods in the controller's cache that the selector matches have rows. Sorted by tick, metric
    and pod. All of it is in memory: ticks times pods times metrics.

    Raises:
        HistoryError: a table is broken.
        ValueError: the plan does not replay that HPA.
    """
    k = plan.chosen.index(candidate)
    alone = replace(plan, shards=((k, k + 1),))
    frames = [pl.DataFrame(schema=SCHEMA)]
    done = 0

    def collect(shard: Shard) -> None:
        nonlocal done
        last = int(shard.observations.cursors[0, CURSOR_TICK])
        for g, (_, metric) in enumerate(shard.streams[0]):
            frames.append(_stream_rows(shard, g, metric, done, last))
        done = last

    for step in shard_steps(alone, [0], rows_per_block=0):
        run_step(alone, step, collect)
    return pl.concat(frames).sort("ts", "metric_index", maintain_order=True)


def _stream_rows(shard: Shard, g: int, metric: MetricSpec, first: int, last: int) -> pl.DataFrame:
    key: StreamKey = shard.streams[0][g][0]
    if shard.observations.streams[g].is_total:
        rows = _totals(shard, g, first, last)
    else:
        rows = _pods(shard, g, bool(key.resource), first, last)
    name = f"{metric.type} {metric_subject(metric)}"
    frame = pl.DataFrame(rows).with_columns(metric_index=pl.lit(g), metric=pl.lit(name))
    return frame.select(
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in SCHEMA.items()
    )


def _totals(shard: Shard, g: int, first: int, last: int) -> dict[str, Any]:
    fleet = shard.fleet
    answers = fleet.answers[np.arange(first, last) + fleet.streams[g].answer_offset]
    counts = (answers.last_value - answers.first_value).astype(np.int64)
    start = int(answers.first_value[0]) if first < last else 0
    values = fleet.values_milli[start : start + int(counts.sum())]
    return {
        "ts": pl.Series(np.repeat(fleet.ticks.now_ms[first:last], counts)),
        "value_milli": pl.Series(values),
    }


def _pods(shard: Shard, g: int, requested: bool, first: int, last: int) -> dict[str, Any]:
    fleet, obs = shard.fleet, shard.observations
    ticks = fleet.ticks[first:last]
    width = int(ticks.last_row[0] - ticks.first_row[0]) if first < last else 0
    row = int(obs.lanes.first_row[0]) + np.arange((last - first) * width)
    state = fleet.row_state[row]
    kept = state >= 0
    row, state = row[kept], state[kept].astype(np.int64)
    now_ms = np.repeat(ticks.now_ms, width)[kept]
    pod = np.tile(obs.in_view[:width], last - first)[kept]
    sample = row + fleet.streams[g].sample_offset
    timing, flags = fleet.timing[sample], fleet.states.pod_flags[state]
    present = fleet.present[sample] != 0
    request = fleet.requests[state + fleet.streams[g].request_offset]
    uids = shard.numbers["uid"].gather(np.array(shard.pods[0], np.int64)[pod])
    return {
        "ts": pl.Series(np.ascontiguousarray(now_ms)),
        "uid": uids,
        "phase": words_of(flags & codes.PHASE_MASK, _PHASES, pl.String()),
        "ready": words_of(flags & codes.READY_MASK, _READY, pl.String()),
        "deleting": pl.Series((flags & codes.POD_DELETING) != 0),
        "started": masked(fleet.states.start_ms[state], (flags & codes.POD_STARTED) != 0),
        "request_milli": masked(request.milli, (request.known != 0) & requested),
        "value_milli": masked(fleet.value_milli[sample], present),
        "sample_ts": masked(timing.ts_ms, present),
        "window_ms": masked(timing.window_ms, present),
    }
