"""Matching of recorded rescales with the rescales that the rules decided.

In a replay the rules see the recorded size at every tick. Two things follow, and both are traps:

* A wish that the recording does not follow is decided anew at every tick. Such a run of ticks
  (same direction, the recorded size standing still) is *one* decided event, dated at its first
  tick: the controller would have rescaled there.
* Once the recording has rescaled, the rules see the new size and have nothing left to decide. So a
  decision that would have come a tick *after* the recorded rescale is not seen at all: that rescale
  counts as missed. A tolerance helps only the other way round.

A recorded event lies at the tick after which the size is another one; of a change across a gap in
the ticks that is the tick before the gap.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.columns.replay import EVENTS
from hpabatch.engine.replay.decisions import Sizes
from hpabatch.engine.replay.summary import KEY, is_undecided
from hpabatch.layout.records import I64

# An event has exactly one class. `exact`: same tick, direction and size.
CLASSES: Final[dict[str, str]] = {
    "exact": "recorded and decided at one tick, to one size",
    "early": "decided before it was recorded, within the tolerance, to the same size",
    "late": "decided after it was recorded, within the tolerance, to the same size",
    "other_size": "recorded and decided within the tolerance, in one direction, to other sizes",
    "foreign": "recorded, by no rule: they count nowhere else",
    "missed_up": "recorded upwards, not decided",
    "missed_down": "recorded downwards, not decided",
    "extra_up": "decided upwards, not recorded",
    "extra_down": "decided downwards, not recorded",
}
CLASS: Final = pl.Enum(list(CLASSES))

EVENT_COLUMNS: Final = EVENTS.meanings


class Ticks(NamedTuple):
    """The ticks with a decision, by lane (HPA) and time; all arrays have one entry per tick.

    `row` is the place in the decisions, `clock_ms` the time, shifted so that it ascends over all
    lanes and different lanes are further apart than any window. Sizes: `before` (recorded, seen by
    the tick), `decided`, `after` (recorded).
    """

    row: I64
    lane: I64
    clock_ms: I64
    before: I64
    decided: I64
    after: I64


class Lanes(NamedTuple):
    """Facts of each lane: first row, all ticks, median step and tolerance (ms)."""

    first_row: I64
    ticks: I64
    step_ms: I64
    tolerance_ms: I64


class Events(NamedTuple):
    """Positions in `Ticks`; -1 where there is none. One entry per event.

    `seen` is the tick whose decision counts, `kind` the position in CLASSES.
    """

    recorded: I64
    decided: I64
    seen: I64
    kind: I64


def read_ticks(s: Sizes, tolerance_ms: int | None, window_ms: int) -> tuple[Ticks, Lanes]:
    """Return the ticks with a decision, and the lanes.

    Without a tolerance it is an HPA's median time between two ticks, and half of it more: irregular
    instants of decision are not exactly one period apart, regular ones are never 1.5.
    """
    first_row = np.flatnonzero(np.diff(s.lane, prepend=-1)).astype(np.int64)
    counts = np.diff(np.append(first_row, s.lane.size))
    step_ms = _median_steps(s.lane, s.ts_ms, first_row.size)
    given = step_ms * 3 // 2 if tolerance_ms is None else np.full_like(step_ms, tolerance_ms)
    apart_ms = 2 * max(window_ms, int(given.max(initial=0))) + 1
    row = np.flatnonzero(s.known & ~is_undecided(s)).astype(np.int64)
    ticks = Ticks(
        row=row,
        lane=s.lane[row],
        clock_ms=_clock(s.ts_ms, s.lane, first_row, apart_ms)[row],
        before=s.replicas[row],
        decided=np.where(s.rescaled, s.desired, s.replicas)[row],
        after=s.applied[row],
    )
    return ticks, Lanes(first_row, counts, step_ms, given)


def _median_steps(lane: I64, ts_ms: I64, count: int) -> I64:
    inside = np.flatnonzero(np.diff(lane) == 0)
    steps = pl.DataFrame({"lane": lane[inside], "step": np.diff(ts_ms)[inside]})
    found = steps.group_by("lane").agg(pl.col("step").quantile(0.5, "lower"))
    medians = np.zeros(count, np.int64)
    medians[found["lane"].to_numpy()] = found["step"].to_numpy().astype(np.int64)
    return medians


def _clock(ts_ms: I64, lane: I64, first_row: I64, apart_ms: int) -> I64:
    """Return times that ascend over all lanes, which lie at least `apart_ms` from each other."""
    if not ts_ms.size:
        return ts_ms
    start, end = ts_ms[first_row], ts_ms[np.append(first_row[1:], ts_ms.size) - 1]
    shift = np.cumsum(np.append(0, (end - start)[:-1] + apart_ms)) - start
    return np.asarray(ts_ms + shift[lane], np.int64)


def find_events(ticks: Ticks, tolerance_ms: I64) -> Events:
    """Return all recorded and decided rescales, in pairs where they belong together.

    Pairs have one direction, are at most a lane's tolerance apart and one-to-one in order of time:
    the earliest that still can be is taken, which makes as many pairs as there can be.
    """
    recorded = np.flatnonzero(ticks.after != ticks.before)
    first, last = _wishes(ticks)
    moves = _moves(ticks, recorded, ticks.after), _moves(ticks, first, ticks.decided)
    pair_r, pair_d = _pair(
        moves[0], ticks.clock_ms[recorded], moves[1], ticks.clock_ms[first], tolerance_ms
    )
    r, a, b = recorded[pair_r], first[pair_d], last[pair_d]
    seen = np.clip(r, a, b)
    names = list(CLASSES)
    matched = np.select(
        [ticks.after[r] != ticks.decided[seen], a < r, a > r],
        [names.index("other_size"), names.index("early"), names.index("late")],
        names.index("exact"),
    )
    missed, extra = np.delete(recorded, pair_r), np.delete(first, pair_d)
    down_m, down_e = np.delete(moves[0], pair_r) & 1, np.delete(moves[1], pair_d) & 1
    return Events(
        recorded=np.concatenate([r, missed, np.full(extra.size, -1)]).astype(np.int64),
        decided=np.concatenate([a, np.full(missed.size, -1), extra]).astype(np.int64),
        seen=np.concatenate([seen, missed, extra]).astype(np.int64),
        kind=np.concatenate(
            [matched, names.index("missed_up") + down_m, names.index("extra_up") + down_e]
        ).astype(np.int64),
    )


def set_apart(events: Events, ticks: Ticks, rows: I64) -> Events:
    """Return the events, those recorded changes at `rows` of the decisions that nobody decided as
    foreign.
    """
    unmade = (events.decided < 0) & np.isin(ticks.row[events.recorded], rows)
    return events._replace(kind=np.where(unmade, list(CLASSES).index("foreign"), events.kind))


def _moves(ticks: Ticks, at: I64, size: I64) -> I64:
    """Return 2 * lane, and 1 more for a move downwards: what may be paired has one number."""
    return np.asarray(2 * ticks.lane[at] + (size[at] < ticks.before[at]), np.int64)


def _wishes(ticks: Ticks) -> tuple[I64, I64]:
    wish = ticks.decided != ticks.before
    up = ticks.decided > ticks.before
    goes_on = np.zeros(wish.size, bool)
    goes_on[1:] = (
        wish[1:]
        & wish[:-1]
        & (up[1:] == up[:-1])
        & (ticks.lane[1:] == ticks.lane[:-1])
        & (ticks.before[1:] == ticks.before[:-1])
        & (ticks.after[:-1] == ticks.before[:-1])
    )
    first = np.flatnonzero(wish & ~goes_on)
    last = np.flatnonzero(wish & ~np.append(goes_on[1:], False))  # the last of each run
    return first, last


def _pair(move_r: I64, time_r: I64, move_d: I64, time_d: I64, tolerance_ms: I64) -> tuple[I64, I64]:
    """Return positions of recorded and of decided events that belong together.

    In order of time each takes the oldest of the other kind that is in reach.
    """
    move, time = np.concatenate([move_r, move_d]), np.concatenate([time_r, time_d])
    order = np.lexsort((time, move))
    columns = (order, move[order], time[order], tolerance_ms[move[order] // 2])
    pairs, waiting = [], deque[tuple[int, int, int]]()
    for k, own, now, limit in zip(*(column.tolist() for column in columns), strict=True):
        while waiting and (waiting[0][1] != own or waiting[0][2] < now - limit):
            waiting.popleft()
        if waiting and (waiting[0][0] < move_r.size) != (k < move_r.size):
            pairs.append(sorted((waiting.popleft()[0], k)))
        else:
            waiting.append((k, own, now))
    r, d = np.array(pairs, np.int64).reshape(-1, 2).T
    return r, d - move_r.size


def events_frame(decisions: pl.DataFrame, ticks: Ticks, events: Events) -> pl.DataFrame:
    """Return one row per event with the columns of `EVENT_COLUMNS`, by HPA and time."""
    has_r, has_d = events.recorded >= 0, events.decided >= 0
    at = np.where(has_r, events.recorded, events.decided)
    order = np.lexsort((events.kind, at))
    at, seen, has_r, has_d = at[order], events.seen[order], has_r[order], has_d[order]
    ts = decisions["ts"]
    found = decisions[ticks.row[at]].select(pl.col(*KEY).cast(pl.String), "ts")
    classes = pl.Series("class", list(CLASSES), dtype=CLASS)
    return found.with_columns(
        classes.gather(events.kind[order]),
        ts.gather(ticks.row[events.recorded[order]]).alias("recorded_ts"),
        ts.gather(ticks.row[events.decided[order]]).alias("decided_ts"),
        pl.Series("replicas", ticks.before[at]),
        pl.Series("recorded_size", ticks.after[at]),
        pl.Series("decided_size", ticks.decided[seen]),
        decisions["binding"].gather(ticks.row[seen]).cast(pl.String).alias("binding"),
        pl.Series("has_r", has_r),
        pl.Series("has_d", has_d),
    ).select(
        *KEY,
        "ts",
        "class",
        pl.when("has_r").then("recorded_ts").alias("recorded_ts"),
        pl.when("has_d").then("decided_ts").alias("decided_ts"),
        "replicas",
        "recorded_size",
        "decided_size",
        "binding",
    )
