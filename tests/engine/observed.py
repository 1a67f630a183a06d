"""Observations of the engine's alignment, tick by tick, in the naive twin's form.

The kernel's loop over lanes is replaced by one that looks at every block between its filling and
its decisions. Before it is filled, everything that a block may not rely on is poisoned.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import polars as pl

from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.engine.replay.run import replay_shards
from hpabatch.engine.shards import run as shard_replay
from hpabatch.history.reader import History
from hpabatch.kernels.align import block_length, extend_lane, fill_block
from hpabatch.kernels.ticks import fill_ticks
from hpabatch.layout import codes
from hpabatch.layout.observations import CURSOR_TICK, Observations, Rows
from hpabatch.layout.records import Fleet, Memory
from hpabatch.layout.results import Results
from tests.compiled import replay_lane
from tests.engine.naive_align import Row

Key = tuple[str, str, str]

SELECTOR_WORDS = {
    codes.SELECTOR_OK: "ok",
    codes.SELECTOR_MISSING: "missing",
    codes.SELECTOR_INVALID: "invalid",
    codes.SELECTOR_AMBIGUOUS: "ambiguous",
}
ANSWER_WORDS = {
    codes.METRIC_OK: "ok",
    codes.METRIC_ANSWER_EMPTY: "empty",
    codes.METRIC_FETCH_FAILED: "error",
    codes.METRIC_CONTAINER_LACKS: "container",
}
SCALE_WORDS = {
    codes.SCALE_OK: None,
    codes.SCALE_UNKNOWN: None,
    codes.SCALE_GET_FAILED: "get",
    codes.SCALE_BAD_VERSION: "version",
    codes.SCALE_NO_RESOURCE: "kind",
}
PHASES = {code: name for name, code in codes.PHASES.items()}
READY = {code: name for name, code in codes.READINESS.items()}


class Seen(NamedTuple):
    """What an HPA's controller saw at its ticks, and its target's recorded size changes."""

    ticks: list[Row]
    changes: list[tuple[int, ...]]


def observed(
    history: History, parameters: ReplayParameters
) -> tuple[dict[Key, Seen], pl.DataFrame]:
    """Return what was seen of each HPA that is replayed, and what was decided on it."""
    plan = plan_replay(history, parameters)
    found: dict[Key, Seen] = {}
    decisions = []
    for k in range(len(plan.shards)):
        watch = Watch()
        with mock.patch.object(shard_replay, "replay_observations", watch):
            result = next(replay_shards(plan, [k]))
        decisions.append(result.decisions)
        for h, key in enumerate(result.hpas.select("cluster", "namespace", "hpa").iter_rows()):
            found[key[0], key[1], key[2]] = watch.seen[h]
    return found, pl.concat(decisions)


class Watch:
    """Stands for `replay_observations`; `seen` is by lane."""

    def __init__(self) -> None:
        self.seen: dict[int, Seen] = {}

    def __call__(
        self,
        obs: Observations,
        rows: Rows,
        fleet: Fleet,
        memory: Memory,
        extend: bool,
        until_ms: int,
        recorded: bool,
        results: Results,
    ) -> None:
        """Do what the kernel does, lane after lane, and look."""
        for h in range(fleet.lanes.size):
            seen = self.seen.setdefault(h, Seen([], size_changes(fleet, h)))
            if extend:
                extend_lane(obs, rows, h)
            while length := block_length(obs, h, until_ms):
                first = int(obs.cursors[h, CURSOR_TICK])
                last = first + fill_ticks(obs, fleet, h, length, until_ms)
                if last == first:
                    continue
                poison(fleet, h, first, last)
                fill_block(obs, fleet, h, first, last)
                for t in range(first, last):
                    check_room(obs, fleet, h, t)
                    seen.ticks.append(seen_tick(obs, fleet, t))
                replay_lane(fleet, memory, h, first, last, recorded, results)


def poison(fleet: Fleet, h: int, first: int, last: int) -> None:
    """Overwrite all scratch, and the answers of a lane's ticks, with what nothing has."""
    fleet.row_state[:] = 2**31 - 1
    fleet.present[:] = 91
    fleet.value_milli[:] = -(2**60)
    for field in ("ts_ms", "window_ms"):
        fleet.timing[field] = -(2**61)
    for g in range(int(fleet.lanes[h].first_stream), int(fleet.lanes[h].last_stream)):
        offset = int(fleet.streams[g].answer_offset)
        for field in ("code", "first_value", "last_value"):
            fleet.answers[field][first + offset : last + offset] = 91


def check_room(obs: Observations, fleet: Fleet, h: int, t: int) -> None:
    """Assert that a tick's rows are the lane's own."""
    lane, tick = obs.lanes[h], fleet.ticks[t]
    assert lane.first_row <= tick.first_row <= tick.last_row
    assert tick.last_row <= lane.first_row + lane.row_capacity


def seen_tick(obs: Observations, fleet: Fleet, t: int) -> Row:
    """Return what a tick holds, in the naive twin's form."""
    tick = fleet.ticks[t]
    spec = fleet.specs[tick.spec]
    known = tick.scale != codes.SCALE_UNKNOWN
    rows = range(int(tick.first_row), int(tick.last_row))
    assert (tick.scale_text != 0) == (SCALE_WORDS[int(tick.scale)] is not None)
    return {
        "now": int(tick.now_ms),
        "max_replicas": int(spec.max_replicas),
        "scale": (int(tick.replicas), int(tick.status_replicas)) if known else None,
        "scale_error": SCALE_WORDS[int(tick.scale)],
        "selector": SELECTOR_WORDS[int(tick.selector)] if known else "ok",
        "restart": int(tick.restart),
        "pods": [seen_pod(fleet, row) for row in rows if fleet.row_state[row] >= 0],
        "metrics": [
            seen_metric(obs, fleet, t, m)
            for m in range(int(spec.first_metric), int(spec.last_metric))
        ],
    }


def seen_pod(fleet: Fleet, row: int) -> Row:
    """Return the state that a row's pod shows."""
    state = fleet.states[fleet.row_state[row]]
    return {
        "phase": PHASES.get(int(state.pod_flags) & codes.PHASE_MASK, ""),
        "ready": READY.get(int(state.pod_flags) & codes.READY_MASK),
        "transition": int(state.transition_ms),
        "start": int(state.start_ms) if state.pod_flags & codes.POD_STARTED else None,
        "deleting": bool(state.pod_flags & codes.POD_DELETING),
    }


def seen_metric(obs: Observations, fleet: Fleet, t: int, m: int) -> Row:
    """Return what one metric shows at a tick."""
    g = int(fleet.metrics[m].stream)
    stream = fleet.streams[g]
    answer = fleet.answers[t + stream.answer_offset]
    values = fleet.values_milli[answer.first_value : answer.last_value].tolist()
    found: Row = {"answer": ANSWER_WORDS[int(answer.code)], "values": values}
    if obs.streams[g].is_total:
        return found | {"samples": None, "requests": None}
    samples: list[Any] = []
    requests: list[int | None] = []
    for row in range(int(fleet.ticks[t].first_row), int(fleet.ticks[t].last_row)):
        state, k = int(fleet.row_state[row]), row + int(stream.sample_offset)
        present = int(fleet.present[k])
        assert present in (0, 1)
        if state < 0:
            # A sample of a pod that the controller does not know would count as one.
            assert present == 0
            continue
        timing, request = fleet.timing[k], fleet.requests[state + stream.request_offset]
        sample = (int(fleet.value_milli[k]), int(timing.ts_ms), int(timing.window_ms))
        samples.append(sample if present else None)
        requests.append(int(request.milli) if request.known else None)
    return found | {"samples": samples, "requests": requests}


def size_changes(fleet: Fleet, h: int) -> list[tuple[int, ...]]:
    """Return the recorded size changes of a lane."""
    lane = fleet.lanes[h]
    rows = np.asarray(fleet.changes[lane.first_change : lane.last_change])
    return [tuple(int(v) for v in row) for row in rows.tolist()]
