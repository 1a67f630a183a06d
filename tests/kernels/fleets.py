"""Random fleets for kernels: HPAs of all kinds over some ticks, the same for the same seed."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpabatch.kernels.replay import replay_fleet, replay_newest
from hpabatch.layout.records import CHANGE, Fleet, Memory, Records, records
from hpabatch.layout.results import DECISION, METRIC_DECISION, Results, empty_results
from hpabatch.model.versions import ControllerFlags, profile_for
from tests.conformance.golden import timeline_lane
from tests.packed import LaneView, make_memory, pack_fleet
from tests.reference.generate import behavior_timeline, timeline


def random_lanes(seed: int, count: int, ticks: int) -> list[LaneView]:
    """Return lanes with pods and lanes with edits of the behavior in turn."""
    rng = random.Random(seed)
    kinds = [timeline, behavior_timeline]
    return [timeline_lane(kinds[k % 2](rng, ticks)) for k in range(count)]


def pack(lanes: list[LaneView], **flags: Any) -> Fleet:
    return pack_fleet(lanes, ControllerFlags(**flags), profile_for("1.38"))


def random_fleet(seed: int, count: int = 6, ticks: int = 40) -> Fleet:
    return pack(random_lanes(seed, count, ticks))


def poisoned(fleet: Fleet, byte: int = 0xA5) -> Results:
    """Return results for a fleet, every byte of them the same."""
    results = empty_results(fleet.ticks.size, fleet.answers.size)
    for table in results:
        table.view(np.uint8).fill(byte)
    return results


def replayed(fleet: Fleet, recorded: bool = False, byte: int = 0xA5) -> tuple[Results, Memory]:
    memory = make_memory(fleet, recorded)
    results = poisoned(fleet, byte)
    replay_fleet(fleet, memory, recorded, results)
    return results, memory


def replayed_live(fleet: Fleet, recorded: bool = False) -> tuple[Results, Memory]:
    """Replay lanes of one length as a live loop would: a call per tick, for the newest of each."""
    (length,) = set((fleet.lanes.last_tick - fleet.lanes.first_tick).tolist())
    memory, results, lanes = make_memory(fleet, recorded), poisoned(fleet), fleet.lanes.copy()
    for k in range(length):
        lanes.last_tick = lanes.first_tick + k + 1
        replay_newest(fleet._replace(lanes=lanes), memory, recorded, results)
    return results, memory


def columns(results: Results) -> dict[str, NDArray[Any]]:
    """Return every field of the results by name (what lies between fields is nobody's)."""
    decisions = {f"decisions.{name}": results.decisions[name] for name in DECISION.names or ()}
    metrics = {f"metrics.{name}": results.metrics[name] for name in METRIC_DECISION.names or ()}
    return decisions | metrics


def assert_equal_results(one: Results, other: Results) -> None:
    """Compare field by field, exactly; NaN equals NaN."""
    mine, theirs = columns(one), columns(other)
    for name, column in mine.items():
        np.testing.assert_array_equal(column, theirs[name], err_msg=name)


def assert_equal_memory(one: Memory, other: Memory) -> None:
    for name, mine, theirs in zip(Memory._fields, one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


def digest(results: Results, memory: Memory) -> str:
    """Return a digest of everything a replay wrote; NaN has one form."""
    summary = hashlib.sha256()
    for column in columns(results).values():
        if column.dtype.kind == "f":
            column = np.where(np.isnan(column), np.nan, column)
        summary.update(np.ascontiguousarray(column).tobytes())
    for array in memory:
        summary.update(np.ascontiguousarray(array).tobytes())
    return summary.hexdigest()


def with_own_changes(fleet: Fleet, results: Results) -> Fleet:
    """Return the fleet with its decided rescales as recorded changes."""
    rows: list[tuple[int, int, int]] = []
    lanes: Records = fleet.lanes.copy()
    for h in range(lanes.size):
        lanes.first_change[h] = len(rows)
        for t in range(int(lanes.first_tick[h]), int(lanes.last_tick[h])):
            decision = results.decisions[t]
            if decision.rescaled:
                rows.append(
                    (int(fleet.ticks.now_ms[t]), int(decision.current), int(decision.desired))
                )
        lanes.last_change[h] = len(rows)
    return fleet._replace(lanes=lanes, changes=records(CHANGE, rows))
