"""A sync to explain: the controller's observations and memory, and its decision."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hpabatch.engine.explain.moment import lane_words, status_reader
from hpabatch.engine.explain.status import LaneWords, StatusReader
from hpabatch.engine.fleet.membership import foreign_pods
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.shards.run import ahead, run_step, shard_steps
from hpabatch.engine.shards.shard import Shard, status_at
from hpabatch.kernels.replay import spend_recorded_changes
from hpabatch.layout import codes
from hpabatch.layout.observations import CURSOR_TICK
from hpabatch.layout.records import HEAD_SEEN, Fleet, Memory
from hpabatch.layout.results import Results
from hpabatch.model.objects.hpa import MetricSpec
from hpabatch.rules.controller import Controller, controller_of
from hpabatch.rules.tick import begin_recommendations, restart_controller


@dataclass(frozen=True, slots=True)
class Sync:
    """A decided tick t of lane h, and the controller's memory before it.

    `reader` has the fleet (with the flags then in force), results with details, statuses, specs and
    texts; `spends_decisions` whether the lane's own rescales spend the policies' budgets, else the
    recorded changes do. `pods` names the pod of each of the tick's rows, "" where there is none;
    `foreign` has the owners of those that are not the target's.
    """

    reader: StatusReader
    words: LaneWords
    before: Memory
    h: int
    t: int
    spends_decisions: bool
    pods: Sequence[str]
    foreign: Mapping[str, str] = field(default_factory=dict)

    @property
    def fleet(self) -> Fleet:
        """The arrays that the decision was made of."""
        return self.reader.fleet

    @property
    def results(self) -> Results:
        """The arrays that the decision is in."""
        return self.reader.results

    @property
    def tick(self) -> Any:
        """The tick's TICK record."""
        return self.fleet.ticks[self.t]

    @property
    def now_ms(self) -> int:
        """When the sync was."""
        return int(self.tick.now_ms)

    @property
    def spec(self) -> Any:
        """The SPEC record in force."""
        return self.fleet.specs[int(self.tick.spec)]

    @property
    def controller(self) -> Controller:
        """The controller's flags and switches."""
        return controller_of(self.fleet, self.h)

    @property
    def decision(self) -> Any:
        """The DECISION record."""
        return self.results.decisions[self.t]

    @property
    def rows(self) -> range:
        """The tick's rows of pods."""
        return range(int(self.tick.first_row), int(self.tick.last_row))

    def metrics(self) -> list[tuple[int, MetricSpec]]:
        """Return (row of `fleet.metrics`, metric) of the spec in force."""
        return self.reader.metrics(self.t)

    def answer_row(self, m: int) -> int:
        """Return where metric row m's answer and results at this tick are."""
        stream = int(self.fleet.metrics[m].stream)
        return self.t + int(self.fleet.streams[stream].answer_offset)

    def has_scale(self) -> bool:
        """Return whether the target's scale was read."""
        return int(self.tick.scale) in (codes.SCALE_OK, codes.SCALE_UPDATE_FAILED)


def entered(sync: Sync) -> tuple[Memory, bool]:
    """Return a copy of the memory as the decision finds it, and whether the HPA is new to it.

    A controller that has just started forgets, and records the size that it finds; the changes that
    were recorded since the last sync are scale events.
    """
    memory, fleet, tick = copy.deepcopy(sync.before), sync.fleet, sync.tick
    if tick.restart != 0:
        restart_controller(memory, sync.h)
    if not sync.spends_decisions:
        spend_recorded_changes(fleet, memory, sync.h, sync.t)
    head = memory.head[sync.h]
    first_seen = sync.has_scale() and int(head[HEAD_SEEN]) == 0
    if first_seen:
        begin_recommendations(head, memory.recs, int(tick.replicas), sync.now_ms)
    return memory, first_seen


# ---- out of a history ----------------------------------------------------------------------------


class _Memories:
    """The memory of a lane before the tick that was decided last."""

    def __init__(self) -> None:
        """Begin before all ticks."""
        self.before: Memory | None = None
        self._latest: tuple[int, Memory] | None = None

    def take(self, shard: Shard) -> None:
        """Look at a shard whenever its kernel was left."""
        decided = int(shard.observations.cursors[0, CURSOR_TICK])
        if self._latest is None or self._latest[0] < decided:
            if self._latest is not None and self._latest[0] == decided - 1:
                self.before = self._latest[1]
            self._latest = decided, copy.deepcopy(shard.memory)


def last_sync(plan: ReplayPlan) -> tuple[Sync, Shard] | None:
    """Return the last sync of a plan of one HPA that asks for whole statuses; None: it has none.

    Raises:
        HistoryError: a table is broken.
    """
    memories = _Memories()
    (candidate,) = plan.chosen
    key = candidate.key
    instants = plan.clocks.instants(plan.clocks.of(key))
    instants = instants[candidate.spec_of(instants) >= 0]
    if not instants.size:
        return None
    shard: Shard | None = None
    for step in ahead(shard_steps(plan, range(len(plan.shards)))):
        if shard is None and step.shard.candidates:
            memories.take(step.shard)
        shard = step.shard
        run_step(plan, step, memories.take, [int(instants[-1])])
    if shard is None or memories.before is None:
        return None
    t = int(shard.observations.cursors[0, CURSOR_TICK]) - 1
    # (under the flags that were in force then)
    now_ms = int(shard.fleet.ticks[t].now_ms)
    epoch = [e for k, e in enumerate(shard.epochs) if k == 0 or e.from_ms <= now_ms][-1]
    lanes = epoch.lanes[np.arange(epoch.lanes.size)]  # (a copy)
    lanes.last_tick = shard.fleet.lanes.last_tick
    fleet = shard.fleet._replace(specs=epoch.specs, lanes=lanes)
    return Sync(
        reader=replace(status_reader(shard), fleet=fleet),
        words=lane_words(shard.candidates[0], 0, status_at(shard, 0, t)),
        before=memories.before,
        h=0,
        t=t,
        spends_decisions=plan.settled.events != "recorded",
        pods=_pod_names(plan, shard, t),
        foreign=dict(foreign_pods(plan.history, candidate, plan.places[0])),
    ), shard


def _pod_names(plan: ReplayPlan, shard: Shard, t: int) -> list[str]:
    """Return the name of the pod of each row of the tick decided last.

    A row stands for a pod of the lane in view, in their order; the pods table has their names.
    """
    cluster = shard.candidates[0].cluster
    rows = plan.history.select("pods", cluster, plan.places[0])
    names = dict(rows.select("uid", "pod").iter_rows())
    uid_of = dict(zip(shard.numbers["p"].to_list(), shard.numbers["uid"].to_list(), strict=True))
    observations, tick = shard.observations, shard.fleet.ticks[t]
    first = int(observations.lanes[0].first_pod)
    in_view = observations.in_view[first : first + int(tick.last_row - tick.first_row)]
    return [names[uid_of[shard.pods[0][int(j) - first]]] for j in in_view]
