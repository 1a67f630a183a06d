"""Lives and limits of the pods of one HPA, for the fit of its plant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.fleet.frames import NEVER_MS, integers
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.shards.read import ShardFacts
from hpabatch.engine.shards.shard import Shard
from hpabatch.layout import codes
from hpabatch.layout.records import I64, Records

Mask = NDArray[np.bool_]

_RUNS = ("app", "sidecar")  # kinds of containers that run as long as the pod does
LIMIT_COLUMNS = ("uid", "container", "kind", "valid_from", "cpu_limit_milli", "memory_limit_milli")


@dataclass(frozen=True, slots=True)
class Lives:
    """The pods of an HPA in order of their key, shape (P,), and when how many of them were ready.

    Times in ms, NEVER_MS for what never happened: `ready_ms` is when a pod was first ready. From
    `step_ms[k]` on `step_ready[k]` pods were ready (before the first: none). A pod `lost_pod[i]`
    ceased to be ready at `lost_ms[i]`, without being deleted, and was again at `again_ms[i]`.
    `generated`: the pods only stand for a recorded size.
    """

    created_ms: I64
    started_ms: I64
    ready_ms: I64
    deleted_ms: I64
    gone_ms: I64
    generated: bool
    step_ms: I64
    step_ready: I64
    lost_pod: I64
    lost_ms: I64
    again_ms: I64

    def ready_at(self, at_ms: I64) -> I64:
        """Return how many pods were ready at some instants; shape of `at_ms`."""
        found = np.searchsorted(self.step_ms, at_ms, side="right")
        return np.append(0, self.step_ready)[found]

    def ready_ms_until(self, at_ms: I64) -> I64:
        """Return for how long pods had been ready until some instants, summed over pods, in ms."""
        if not self.step_ms.size:
            return np.zeros(at_ms.size, np.int64)
        done = np.append(0, np.cumsum(np.diff(self.step_ms) * self.step_ready[:-1]))
        k = np.maximum(np.searchsorted(self.step_ms, at_ms, side="right") - 1, 0)
        since = np.maximum(at_ms - self.step_ms[k], 0)
        return np.asarray(done[k] + since * self.step_ready[k], np.int64)

    def changes_between(self, from_ms: I64, to_ms: I64) -> I64:
        """Return how often the number of ready pods changed in (from, to], pair by pair."""
        upto = np.searchsorted(self.step_ms, to_ms, side="right")
        return upto - np.searchsorted(self.step_ms, from_ms, side="right")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an HPA's pods in milli, shape (P,), -1 where any container has none.

    `resources` are those of whole pods ("cpu", "memory"), `containers` by (resource, container).
    """

    resources: Mapping[str, I64]
    containers: Mapping[tuple[str, str], I64]

    def of(self, resource: str, container: str = "") -> I64 | None:
        """Return the limits on a resource; None where the resource's are not recorded."""
        if container:
            return self.containers.get((resource, container))
        return self.resources.get(resource)


def lives_of_lane(shard: Shard, facts: ShardFacts, h: int) -> Lives:
    """Return the lives of a lane's pods."""
    candidate = shard.candidates[h]
    obs, states = shard.observations, shard.fleet.states
    lane = obs.lanes[h]
    pods = obs.pods[int(lane.first_pod) : int(lane.last_pod)]
    lengths = (pods.last_state - pods.first_state).astype(np.int64)
    owner = np.repeat(np.arange(pods.size), lengths)
    offset = np.arange(owner.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    at = pods.first_state[owner] + offset
    flags, ms = states.pod_flags[at], obs.state_ms[at]
    deleting = flags & codes.POD_DELETING != 0
    begun = flags & codes.POD_STARTED != 0
    runs = _ready_runs(pods, owner, ms, flags, states.transition_ms[at])
    never = np.full(pods.size, NEVER_MS)
    owner_of_run, first_ms, last_ms = runs
    step_ms, step_ready = _steps(*_matched(shard, h, runs))
    deleted_ms = _earliest(never, owner[deleting], ms[deleting])
    # Readiness that ended without a deletion or the pod's end was lost.
    lost = last_ms < np.minimum(deleted_ms, pods.gone_ms)[owner_of_run]
    return Lives(
        created_ms=pods.created_ms.copy(),
        started_ms=_earliest(never, owner[begun], states.start_ms[at][begun]),
        ready_ms=_earliest(never, owner_of_run, first_ms),
        deleted_ms=deleted_ms,
        gone_ms=pods.gone_ms.copy(),
        generated=(candidate.cluster, candidate.namespace, candidate.name) in facts.generated,
        step_ms=step_ms,
        step_ready=step_ready,
        lost_pod=owner_of_run[lost],
        lost_ms=last_ms[lost],
        again_ms=_again(owner_of_run, first_ms)[lost],
    )


def _earliest(never: I64, owner: I64, ms: I64) -> I64:
    found = never.copy()
    np.minimum.at(found, owner, ms)
    return found


Runs = tuple[I64, I64, I64]
"""Stretches of readiness: pod, from and until when, in order of pod and time."""


def _ready_runs(pods: Records, owner: I64, ms: I64, flags: I64, transition_ms: I64) -> Runs:
    """Return when pods were Running, Ready and not being deleted.

    A change is seen after it was made: the recorded transition counts where there is one.
    """
    ready = (flags & codes.PHASE_MASK) == codes.PHASE_RUNNING
    ready &= (flags & codes.READY_MASK) == codes.READY_TRUE
    ready &= flags & codes.POD_DELETING == 0
    same = np.append(False, owner[1:] == owner[:-1])
    before = np.append(False, ready[:-1]) & same
    first, end = np.flatnonzero(ready & ~before), np.flatnonzero(before & ~ready)
    known = transition_ms > 0
    from_ms = np.where(known, np.minimum(transition_ms, ms), ms)[first]
    from_ms = np.maximum(from_ms, pods.created_ms[owner[first]])
    # The run ends with the state after it, or with the pod.
    to_ms = pods.gone_ms[owner[first]].copy()
    run = np.searchsorted(first, end) - 1
    falling = known & (flags & codes.POD_DELETING == 0)
    ended = np.where(falling, np.minimum(transition_ms, ms), ms)[end]
    to_ms[run] = np.minimum(to_ms[run], np.maximum(ended, from_ms[run]))
    lasting = to_ms > from_ms
    return owner[first][lasting], from_ms[lasting], to_ms[lasting]


def _matched(shard: Shard, h: int, runs: Runs) -> tuple[I64, I64]:
    """Return from and until when ready pods were matched by the scale's selector of the time."""
    obs = shard.observations
    lane = obs.lanes[h]
    owner, from_ms, to_ms = runs
    width = int(lane.selectors)
    if width < 2:
        return from_ms, to_ms
    scales = obs.scales[int(lane.first_scale) : int(lane.last_scale)]
    member = obs.member[int(lane.first_member) :][: width * int(lane.last_pod - lane.first_pod)]
    member = member.reshape(-1, width)
    changes = np.flatnonzero(np.diff(scales.selector, prepend=-1))
    begins = scales.ts_ms[changes].copy()
    begins[0] = -NEVER_MS  # the first scale is the best that is known of the time before it
    ends = np.append(begins[1:], NEVER_MS)
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for selector, begin, end in zip(scales.selector[changes], begins, ends, strict=True):
        theirs = member[owner, selector] != 0
        cut = np.maximum(from_ms[theirs], begin), np.minimum(to_ms[theirs], end)
        parts.append((cut[0][cut[0] < cut[1]], cut[1][cut[0] < cut[1]]))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _steps(from_ms: I64, to_ms: I64) -> tuple[I64, I64]:
    """Return from when on how many stretches hold."""
    ended = to_ms[to_ms < NEVER_MS]
    times = np.concatenate([from_ms, ended])
    change = np.concatenate([np.ones(from_ms.size, np.int64), -np.ones(ended.size, np.int64)])
    step_ms, place = np.unique(times, return_inverse=True)
    by_time = np.zeros(step_ms.size, np.int64)
    np.add.at(by_time, place, change)
    kept = by_time != 0
    return step_ms[kept], np.cumsum(by_time)[kept]


def _again(owner: I64, from_ms: I64) -> I64:
    """Return when each stretch's pod was ready again, NEVER_MS where it never was."""
    later = np.full(owner.size, NEVER_MS)
    same = owner[1:] == owner[:-1]
    later[:-1][same] = from_ms[1:][same]
    return later


def read_limits(plan: ReplayPlan, shard: Shard) -> list[Limits]:
    """Return the limits of each lane's pods, by their last rows (HistoryError: a broken table)."""
    cluster = shard.candidates[0].cluster
    k = {id(c): k for k, c in enumerate(plan.chosen)}
    places = {p for c in shard.candidates for p in plan.places[k[id(c)]]}
    # A row whose target was not recorded may be any pod's of the namespace.
    owned = {(namespace, name) for namespace, owner in places for name in (owner or "", "")}
    asked = plan.history.select("pod_requests", cluster, owned, columns=list(LIMIT_COLUMNS))
    rows = asked.join(shard.numbers, on="uid").sort("p", "valid_from", maintain_order=True)
    rows = rows.unique(["p", "kind", "container"], keep="last", maintain_order=True)
    count = shard.numbers.height
    whole = {name: _whole(rows, f"{name}_limit_milli", count) for name in ("cpu", "memory")}
    found = []
    for h in range(len(shard.candidates)):
        pods = np.array(shard.pods[h], np.int64)
        containers = {key.container for key, _ in shard.streams[h] if key.container}
        found.append(
            Limits(
                resources={name: limits[pods] for name, limits in whole.items()},
                containers={
                    (name, container): _of_container(rows, name, container, count)[pods]
                    for name in whole
                    for container in sorted(containers)
                },
            )
        )
    return found


def _whole(rows: pl.DataFrame, column: str, count: int) -> I64:
    """Return each pod's limit: its own, else the sum of its containers' if each has one."""
    running = (
        rows.filter(pl.col("kind").is_in(_RUNS))
        .group_by("p")
        .agg(pl.when(pl.col(column).is_not_null().all()).then(pl.col(column).sum()).alias(column))
    )
    own = rows.filter((pl.col("kind") == "pod") & pl.col(column).is_not_null())
    return _by_pod([running, own.select("p", column)], column, count)


def _of_container(rows: pl.DataFrame, name: str, container: str, count: int) -> I64:
    column = f"{name}_limit_milli"
    kept = rows.filter(pl.col("kind").is_in(_RUNS) & (pl.col("container") == container))
    return _by_pod([kept.select("p", column)], column, count)


def _by_pod(parts: Sequence[pl.DataFrame], column: str, count: int) -> I64:
    """Return a column by pod number, -1 without a value; later parts replace earlier ones."""
    found = np.full(count, -1, np.int64)
    for part in parts:
        found[integers(part["p"])] = integers(part[column], -1)
    return found
