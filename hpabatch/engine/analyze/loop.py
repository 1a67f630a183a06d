"""Ramps and settling: one controller tick by tick, with metrics that ask for a given number.

The decisions are those of `kernels.replay`: windows, policies with their accounting, bounds. The
metrics are replaced by one External average of target 1 without tolerance, which proposes its value
and nothing else, so no pods are needed and any size can be run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from hpabatch.engine.analyze.meter import Moves, Ruled
from hpabatch.errors import RefusedError
from hpabatch.kernels.replay import replay_newest
from hpabatch.layout import codes
from hpabatch.layout.records import (
    ANSWER,
    CHANGE,
    HEAD_DOWN_COUNT,
    HEAD_DOWN_START,
    HEAD_REC_COUNT,
    HEAD_REC_START,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    POD_STATE,
    REQUEST,
    STREAM,
    TICK,
    TIMING,
    Fleet,
    records_from,
)
from hpabatch.layout.results import empty_results
from hpabatch.model.objects.hpa import (
    Condition,
    ExternalMetricSource,
    HPASpec,
    HPAStatus,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
)
from hpabatch.model.quantity import Quantity
from hpabatch.packing.memory import make_sized_memory, seed_recommendations, seed_status
from hpabatch.packing.specs import SpecRows, pack_lanes, stream_keys

HORIZON_MS: Final = 24 * 3_600_000  # a ramp is followed so far
MOST_TICKS: Final = 100_000  # in which a constant demand must have settled

REACHED: Final = "reached"
STUCK: Final = "stuck"
UNFINISHED: Final = "unfinished"

_START_MS: Final = 1_000_000_000_000
_WISH = MetricSpec(
    type="External",
    external=ExternalMetricSource(
        MetricIdentifier("wish"), MetricTarget("AverageValue", average_value=Quantity.parse("1"))
    ),
)
_SCALED_TO_ZERO = HPAStatus(conditions=(Condition("ScaledToZero", "True", "ScaledToZero"),))


@dataclass(frozen=True, slots=True)
class Ramp:
    """Way of a target from one size to another when the metrics ask for it all at once.

    Times are ms since the first sync that sees the wish. `steps` are the sizes that are set, and
    when; `hold_ms` is the time until the first (windows), None without any. `ended` is REACHED,
    STUCK (nothing moves any more) or UNFINISHED (it takes longer than HORIZON_MS).
    """

    first_size: int
    last_size: int
    steps: tuple[tuple[int, int], ...]
    ended: str

    @property
    def hold_ms(self) -> int | None:
        """How long the windows hold the first step back."""
        return self.steps[0][0] if self.steps else None

    @property
    def reached_ms(self) -> int | None:
        """When the last size is set; None if it is not."""
        if self.ended != REACHED:
            return None
        return self.steps[-1][0] if self.steps else 0


@dataclass(frozen=True, slots=True)
class Settled:
    """End of a run under constant demand: the sizes of one period, each with its duration in ms.

    One entry: it rests there. `after_ms` is when the first period begins.
    """

    runs: tuple[tuple[int, int], ...]
    after_ms: int

    @property
    def members(self) -> tuple[int, ...]:
        """The sizes in the order in which they follow each other."""
        return tuple(size for size, _ in self.runs)

    @property
    def period_ms(self) -> int:
        """The time after which everything repeats; 0 if the HPA rests."""
        return sum(ms for _, ms in self.runs) if len(self.runs) > 1 else 0


class Loop:
    """One HPA and its controller, `size` being what the target is set to."""

    def __init__(self, ruled: Ruled, size: int, *, running: bool) -> None:
        """Start at a size; `running`: the controller has asked for that size for long enough."""
        spec = replace(ruled.spec, metrics=(_WISH,))
        self.sync_ms = ruled.flags.sync_period_ms
        self.size = size
        self.ticks = 0
        self._fleet = _one_tick(spec, ruled)
        self._fleet.specs["up_tolerance"] = self._fleet.specs["down_tolerance"] = 0.0
        self._results = empty_results(1, 1)
        self._span_ms = max(ruled.window_ms, ruled.period_ms)
        self._period_ms = ruled.period_ms
        # Lists hold one entry a tick as long as something needs it.
        lengths = np.array([[ruled.window_ms], [ruled.period_ms]]) // self.sync_ms + 5
        self._memory = make_sized_memory(lengths[0], lengths[1], spare=1)
        if running:
            # The newest recommendation outlives all others, which say the same.
            seed_recommendations(self._memory, 0, [(size, _START_MS - self.sync_ms)])
        if size == 0 and ruled.lowest == 0:  # the HPA has scaled it there
            seed_status(self._memory, 0, _SCALED_TO_ZERO)
        self._tick = self._fleet.ticks.view(np.ndarray)
        self._answer = self._fleet.answers.view(np.ndarray)
        self._decision = self._results.decisions.view(np.ndarray)

    @property
    def quiet_ticks(self) -> int:
        """After so many ticks at one size with one wish nothing can change any more."""
        return self._span_ms // self.sync_ms + 3

    def tick(self, wish: int | None) -> int:
        """Decide once and return the size that is set; None: the metrics cannot be computed."""
        self._tick["now_ms"][0] = _START_MS + self.ticks * self.sync_ms
        self._tick["replicas"][0] = self._tick["status_replicas"][0] = self.size
        failed = wish is None
        self._answer["code"][0] = codes.METRIC_FETCH_FAILED if failed else codes.METRIC_OK
        self._fleet.values_milli[0] = 0 if wish is None else wish * 1000
        replay_newest(self._fleet, self._memory, False, self._results)
        self.ticks += 1
        if self._decision["rescaled"][0]:
            self.size = int(self._decision["desired"][0])
        return self.size

    def state(self) -> tuple[object, ...]:
        """Return all that later decisions can depend on, with times as ages."""
        now_ms = int(self._tick["now_ms"][0])
        head = self._memory.head[0]
        return (self.size, self._recommendations(now_ms), *(
            self._events(now_ms, int(head[start]), int(head[count]))
            for start, count in (
                (HEAD_UP_START, HEAD_UP_COUNT), (HEAD_DOWN_START, HEAD_DOWN_COUNT)
            )
        ))  # fmt: skip

    def _recommendations(self, now_ms: int) -> tuple[tuple[int, int], ...]:
        """Return (age, value) of those in the windows; which slot they have matters to none."""
        head = self._memory.head[0]
        first, count = int(head[HEAD_REC_START]), int(head[HEAD_REC_COUNT])
        slots = self._memory.recs[first : first + count]
        ages = [now_ms - ms for ms in slots["ms"].tolist()]
        pairs = zip(ages, slots["value"].tolist(), strict=True)
        return tuple(sorted(pair for pair in pairs if pair[0] <= self._span_ms))

    def _events(self, now_ms: int, first: int, count: int) -> tuple[tuple[int, int, int], ...]:
        """Return (change, age, mark) by slot; of those too old for every period only that."""
        events = []
        for slot in self._memory.events[first : first + count]:
            age = now_ms - int(slot["ms"])
            is_old = age > self._period_ms
            entry = (0, 0, 1) if is_old else (int(slot["change"]), age, int(slot["outdated"]))
            events.append(entry)
        return tuple(events)


def _one_tick(spec: HPASpec, ruled: Ruled) -> Fleet:
    """Return the arrays of an HPA without pods: one tick, and one value of its only metric."""
    rows, nothing = SpecRows(ruled.flags, ruled.profile), np.zeros(0, np.int64)
    rows.add(spec, 0, stream_keys(spec))
    specs, policies, metrics = rows.tables()
    lanes = pack_lanes(1, ruled.flags, ruled.profile)
    lanes.last_tick[:] = lanes.last_stream[:] = 1
    return Fleet(
        lanes=lanes,
        specs=specs,
        policies=policies,
        metrics=metrics,
        streams=records_from(STREAM, 1),
        ticks=records_from(TICK, 1, scale=codes.SCALE_OK, selector=codes.SELECTOR_OK),
        row_state=np.zeros(0, np.int32),
        row_weight=nothing,
        states=records_from(POD_STATE, 0),
        present=np.zeros(0, np.int8),
        value_milli=nothing,
        timing=records_from(TIMING, 0),
        requests=records_from(REQUEST, 0),
        answers=records_from(ANSWER, 1, last_value=1),
        values_milli=np.zeros(1, np.int64),
        changes=records_from(CHANGE, 0),
    )


def follow_ramp(ruled: Ruled, first_size: int, last_size: int) -> Ramp:
    """Return how the target gets from one size to another, both within the bounds."""
    loop = Loop(ruled, first_size, running=True)
    steps: list[tuple[int, int]] = []
    quiet = 0
    while loop.size != last_size:
        now_ms = loop.ticks * loop.sync_ms
        if now_ms > HORIZON_MS or quiet > loop.quiet_ticks:
            ended = STUCK if quiet > loop.quiet_ticks else UNFINISHED
            return Ramp(first_size, last_size, tuple(steps), ended)
        before = loop.size
        if loop.tick(last_size) == before:
            quiet += 1
        else:
            quiet = 0
            steps.append((now_ms, loop.size))
    return Ramp(first_size, last_size, tuple(steps), REACHED)


def first_step(ruled: Ruled, size: int, wish: int) -> int:
    """Return the first size that windows and policies set on the way to a wish."""
    loop = Loop(ruled, size, running=True)
    while loop.ticks <= loop.quiet_ticks and loop.size == size:
        loop.tick(wish)
    return loop.size


def settle(
    ruled: Ruled, wish_at: Callable[[int], int | None], size: int, *, running: bool = False
) -> Settled:
    """Return where an HPA settles under a constant demand, from a size on.

    Args:
        ruled: the spec.
        wish_at: what the metrics ask for at a size.
        size: the target's size at the first sync.
        running: the controller has been running at that size, else it has just started.

    Raises:
        RefusedError: it has not settled within MOST_TICKS.
    """
    loop = Loop(ruled, size, running=running)
    wishes: dict[int, int | None] = {}
    seen: dict[tuple[object, ...], int] = {}
    changes: list[tuple[int, int]] = [(0, size)]  # (tick after which it is so, size)
    while loop.ticks < MOST_TICKS:
        before = loop.size
        if before not in wishes:
            # Beyond the bounds metrics are not read.
            within = ruled.lowest <= before <= ruled.highest
            wishes[before] = wish_at(before) if within else 0
        if loop.tick(wishes[before]) == before:
            if loop.ticks - changes[-1][0] > loop.quiet_ticks:
                return Settled(((before, loop.sync_ms),), changes[-1][0] * loop.sync_ms)
            continue
        changes.append((loop.ticks, loop.size))
        state = loop.state()
        if state in seen:
            return _period(changes[seen[state] :], loop.sync_ms)
        seen[state] = len(changes) - 1
    raise RefusedError(
        f"from {size} replicas nothing has settled after {MOST_TICKS} syncs; the policies are too "
        "slow for these bounds, start nearer to where it should end"
    )


def _period(changes: list[tuple[int, int]], sync_ms: int) -> Settled:
    """Return one period from its changes, the first repeated at the end.

    Which slot an event has can take several rounds to repeat; the sizes show the shortest one.
    """
    runs = tuple((size, (after - tick) * sync_ms) for (tick, size), (after, _) in pairwise(changes))
    for length in range(1, len(runs)):
        if runs == (runs[:length] * len(runs))[: len(runs)] and len(runs) % length == 0:
            runs = runs[:length]
            break
    return Settled(runs, changes[0][0] * sync_ms)


def moves_of(ruled: Ruled, *, computable: bool = True) -> Moves:
    """Return which moves a spec allows; `computable`: so are all of its metrics.

    Where the target can be at zero, one sync shows whether the policies lead away from there.
    """
    leaves_zero = True
    if ruled.lowest == 0 and not ruled.up_disabled:
        leaves_zero = bool(follow_ramp(ruled, 0, ruled.highest).steps)
    return Moves(
        lowest=ruled.lowest,
        highest=ruled.highest,
        grows=not ruled.up_disabled,
        shrinks=not ruled.down_disabled and computable,
        leaves_zero=leaves_zero,
    )
