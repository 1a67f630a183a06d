"""The controller score: how well the decided rescales meet those that were recorded.

The trap: in a replay the rules see the recorded size at every tick, so a decision of "no change"
copies the recording, and so does the baseline that says "the size stays what it was a tick before".
Both are right in nearly all ticks, and on most real runs a single number for the whole time is
within one replica of the size, too. A share of equal ticks therefore says little. So the score is
about events, and about the errors in windows around recorded events, always beside what trivial
baselines reach:

* constant: the median of the recorded sizes, the best constant in hindsight;
* persistence: the size stays what it was a tick before. No rule sees more of the recording;
* horizon: the size stays what it was one window (10 minutes) before. It does not see the tick
  before, as the rules do: a skill against it flatters them.

skill = 1 - error / error of the baseline: 1 is perfect, 0 is no better than the baseline, negative
is worse; null where the baseline makes no error.

Ticks without a decision (metrics, selector or scale were not usable) are left out and counted.
Everything is per HPA, so a fleet can be scored in parts: `score` of each, joined, then `total`.

Matching of recorded rescales with the rescales that the rules decided has two traps:

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

import math
from collections import deque
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.columns.replay import EVENTS, SCORE
from hpabatch.engine.replay.decisions import Sizes
from hpabatch.engine.replay.summary import KEY, foreign_rows, is_undecided, read_sizes
from hpabatch.engine.shards.ambiguity import Mask
from hpabatch.layout.records import I64

WINDOW_MS: Final = 600_000

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

DISAGREEMENTS: Final = tuple(name for name in CLASSES if name != "exact")

COLUMNS: Final = SCORE.meanings

NO_TICKS: Final = "no tick was replayed"
NO_DECISION: Final = "no tick had a decision"
NO_CHANGE: Final = "the recorded size never changed"
UNDECIDED_CHANGE: Final = "the recorded size changed only in ticks without a decision"

# Baseline: column of its error, column of the error it is compared with.
_SKILLS: Final = {
    "constant": ("constant_mae", "mae"),
    "persistence": ("persistence_mae", "mae"),
    "window_constant": ("window_constant_mae", "window_mae"),
    "window_persistence": ("window_persistence_mae", "window_mae"),
    "window_horizon": ("window_horizon_mae", "window_mae"),
}


class Score(NamedTuple):
    """`hpas`: one row per HPA, columns `COLUMNS`; `events`: one per event, `EVENT_COLUMNS`."""

    hpas: pl.DataFrame
    events: pl.DataFrame


class ScoreTotals(NamedTuple):
    """A fleet's score: sums over the HPAs that have one; errors weigh by ticks.

    `unscored_extra` is how many rescales were decided for HPAs whose recorded size stood still;
    they are in no other number. `classes` are the events by class.
    """

    hpas: int
    scored: int
    ticks: int
    undecided_ticks: int
    recorded_events: int
    decided_events: int
    matched_events: int
    unscored_extra: int
    precision: float | None
    recall: float | None
    agreement_share: float | None
    constant_agreement_share: float | None
    within_1_share: float | None
    constant_within_1_share: float | None
    mae: float | None
    constant_mae: float | None
    persistence_mae: float | None
    constant_skill: float | None
    persistence_skill: float | None
    window_ticks: int
    window_mae: float | None
    window_constant_mae: float | None
    window_persistence_mae: float | None
    window_horizon_mae: float | None
    window_constant_skill: float | None
    window_persistence_skill: float | None
    window_horizon_skill: float | None
    classes: dict[str, int]


def score(
    decisions: pl.DataFrame,
    hpas: pl.DataFrame | None = None,
    *,
    tolerance_ms: int | None = None,
    window_ms: int = WINDOW_MS,
) -> Score:
    """Return the score of every replayed HPA, and the events behind it. Raises nothing.

    Args:
        decisions: a replay's decisions, sorted by cluster, namespace, hpa and ts. Needed are these
            and replicas, desired, applied, rescaled, binding; texts may be categorical.
        hpas: a replay's HPAs: those without a tick are then in the result, unscored.
        tolerance_ms: how far a decided rescale may be from a recorded one; None: one sync period,
            which is an HPA's median time between two ticks (and half of it for irregular ones).
        window_ms: half the length of the windows around recorded rescales.
    """
    sizes = read_sizes(decisions)
    ticks, lanes = read_ticks(sizes, tolerance_ms, window_ms)
    foreign = foreign_rows(sizes)
    events = set_apart(find_events(ticks, lanes.tolerance_ms), ticks, foreign)
    counts = _counts(sizes, ticks, lanes, events)
    keys = decisions[lanes.first_row].select(pl.col(KEY).cast(pl.String))
    frame = events_frame(decisions, ticks, events)
    per_hpa = keys.with_columns(pl.Series(name, values) for name, values in counts.items())
    judged = Ticks(*(column[~np.isin(ticks.row, foreign)] for column in ticks))
    per_hpa = _ratios(per_hpa.with_columns(**_errors(judged, lanes.ticks.size, window_ms)))
    per_hpa = per_hpa.join(_bindings(frame), on=KEY, how="left", maintain_order="left")
    if hpas is not None:
        everyone = hpas.select(pl.col(KEY).cast(pl.String)).unique()
        per_hpa = everyone.join(per_hpa, on=KEY, how="full", coalesce=True)
    whole = pl.col(*_COUNTS).fill_null(0)
    return Score(per_hpa.with_columns(_unscored(), whole).select(list(COLUMNS)).sort(KEY), frame)


_COUNTS: Final = (
    "ticks",
    "undecided_ticks",
    "recorded_events",
    "undecided_events",
    "decided_events",
    "decided_ticks",
    "matched_events",
    "window_ticks",
    *CLASSES,
)


def _counts(s: Sizes, ticks: Ticks, lanes: Lanes, events: Events) -> dict[str, I64]:
    n = lanes.ticks.size
    lane_of_event = ticks.lane[events.seen]
    table = np.bincount(lane_of_event * len(CLASSES) + events.kind, minlength=n * len(CLASSES))
    by_class = dict(zip(CLASSES, table.reshape(n, len(CLASSES)).T.astype(np.int64), strict=True))
    is_foreign = events.kind == list(CLASSES).index("foreign")
    has_r, has_d = (events.recorded >= 0) & ~is_foreign, events.decided >= 0
    lost = s.known & (s.applied != s.replicas) & is_undecided(s)
    wishes = ticks.lane[ticks.decided != ticks.before]
    return {
        "ticks": lanes.ticks,
        "undecided_ticks": lanes.ticks - _count(ticks.lane, n),
        "tolerance_ms": lanes.tolerance_ms,
        "recorded_events": _count(lane_of_event[has_r], n),
        "undecided_events": _count(s.lane[lost], n),
        "decided_events": _count(lane_of_event[has_d], n),
        "decided_ticks": _count(wishes, n),
        "matched_events": _count(lane_of_event[has_r & has_d], n),
        **by_class,
    }


def _count(lane: I64, count: int) -> I64:
    return np.bincount(lane, minlength=count).astype(np.int64)


def _errors(ticks: Ticks, count: int, window_ms: int) -> dict[str, pl.Series]:
    """Return each lane's mean errors over all of its ticks and over those in windows."""
    constant = _median_sizes(ticks, count)
    inside = np.flatnonzero(_near_events(ticks, window_ms))
    error = np.abs(ticks.decided - ticks.after)
    constant_error = np.abs(constant[ticks.lane] - ticks.after)
    persistence = np.abs(ticks.before - ticks.after)
    horizon = np.abs(_size_before(ticks, inside, window_ms) - ticks.after[inside])
    lane, near = ticks.lane, ticks.lane[inside]
    known = pl.Series(_count(lane, count) > 0)
    return {
        "mae": _mean(lane, error, count),
        "agreement_share": _mean(lane, error == 0, count),
        "within_1_share": _mean(lane, error <= 1, count),
        "constant": pl.DataFrame({"c": constant, "k": known}).select(pl.when("k").then("c"))["c"],
        "constant_mae": _mean(lane, constant_error, count),
        "constant_agreement_share": _mean(lane, constant_error == 0, count),
        "constant_within_1_share": _mean(lane, constant_error <= 1, count),
        "persistence_mae": _mean(lane, persistence, count),
        "window_ticks": pl.Series(_count(near, count)),
        "window_mae": _mean(near, error[inside], count),
        "window_constant_mae": _mean(near, constant_error[inside], count),
        "window_persistence_mae": _mean(near, persistence[inside], count),
        "window_horizon_mae": _mean(near, horizon, count),
    }


def _mean(lane: I64, values: I64 | Mask, count: int) -> pl.Series:
    """Return each lane's mean, null for a lane without values; rows are sorted by lane."""
    number = np.bincount(lane, minlength=count)
    there = number > 0
    start = (np.cumsum(number) - number)[there]
    total = np.zeros(count, np.int64)
    total[there] = np.add.reduceat(values, start, dtype=np.int64) if start.size else 0
    return pl.Series(total / np.maximum(number, 1)).set(pl.Series(~there), None)


def _median_sizes(ticks: Ticks, count: int) -> I64:
    frame = pl.DataFrame({"lane": ticks.lane, "size": ticks.after})
    found = frame.group_by("lane").agg(pl.col("size").quantile(0.5, "lower").cast(pl.Int64))
    sizes = np.zeros(count, np.int64)
    sizes[found["lane"].to_numpy()] = found["size"].to_numpy()
    return sizes


def _near_events(ticks: Ticks, window_ms: int) -> Mask:
    """Say which ticks are within the window of a recorded rescale of their lane."""
    far = np.iinfo(np.int64).max // 4
    changed, clock = ticks.after != ticks.before, ticks.clock_ms
    last = np.maximum.accumulate(np.where(changed, clock, -far))
    following = np.minimum.accumulate(np.where(changed, clock, far)[::-1])[::-1]
    return np.asarray((clock - last <= window_ms) | (following - clock <= window_ms))


def _size_before(ticks: Ticks, at: I64, window_ms: int) -> I64:
    """Return the recorded size a window before some ticks; before the first tick: as it saw it."""
    found = np.searchsorted(ticks.clock_ms, ticks.clock_ms[at] - window_ms, side="right") - 1
    own = ticks.lane[at]
    first = np.searchsorted(ticks.lane, np.arange(own[-1] + 1 if own.size else 0))[own]
    return np.where(found < first, ticks.before[first], ticks.after[np.maximum(found, 0)])


def _ratios(frame: pl.DataFrame) -> pl.DataFrame:
    """Add precision, recall and skills; all null for an HPA that cannot be scored."""
    scored = pl.col("recorded_events") > 0
    matched = pl.col("matched_events")
    decided = pl.col("decided_events")
    skills = {
        f"{name}_skill": pl.when(scored & (pl.col(base) > 0)).then(1 - pl.col(own) / pl.col(base))
        for name, (base, own) in _SKILLS.items()
    }
    return frame.with_columns(
        precision=pl.when(scored & (decided > 0)).then(matched / decided),
        recall=pl.when(scored).then(matched / pl.col("recorded_events")),
        **skills,
    )


def _unscored() -> pl.Expr:
    ticks = pl.col("ticks").fill_null(0)
    return (
        pl.when(ticks == 0)
        .then(pl.lit(NO_TICKS))
        .when(pl.col("undecided_ticks") == ticks)
        .then(pl.lit(NO_DECISION))
        .when((pl.col("recorded_events") == 0) & (pl.col("undecided_events") > 0))
        .then(pl.lit(UNDECIDED_CHANGE))
        .when(pl.col("recorded_events") == 0)
        .then(pl.lit(NO_CHANGE))
        .alias("unscored")
    )


def _bindings(events: pl.DataFrame) -> pl.DataFrame:
    """Return each HPA's most frequent binding per class, the alphabet's first if equal."""
    counted = events.group_by(*KEY, "class", "binding").len().sort("binding", nulls_last=True)
    best = counted.sort("len", descending=True, maintain_order=True)
    best = best.unique([*KEY, "class"], keep="first", maintain_order=True)
    found = events.select(KEY).unique()
    for name in DISAGREEMENTS:
        own = best.filter(pl.col("class") == name)
        own = own.select(*KEY, pl.col("binding").alias(f"{name}_binding"))
        found = found.join(own, on=KEY, how="left")
    return found


def class_table(events: pl.DataFrame) -> pl.DataFrame:
    """Return how often each class came from each binding, most frequent first in each class.

    Columns: class, binding, events, hpas (how many HPAs), share (of the class's events).
    """
    return (
        events.group_by("class", "binding")
        .agg(events=pl.len().cast(pl.Int64), hpas=pl.struct(KEY).n_unique().cast(pl.Int64))
        .with_columns(share=pl.col("events") / pl.col("events").sum().over("class"))
        .sort("class", "events", "binding", descending=[False, True, False])
        .select(pl.col("class").cast(CLASS), "binding", "events", "hpas", "share")
    )


def total(scores: pl.DataFrame) -> ScoreTotals:
    """Return the sums of `Score.hpas`, or of several joined; without scored HPAs the rest is None.

    Floats are summed exactly: a sum must not depend on the order of the parts.
    """
    unscored = scores.filter(pl.col("unscored").is_not_null())
    scored = scores.filter(pl.col("unscored").is_null())
    counts = {name: int(scored[name].sum()) for name in _COUNTS}
    decided = scored["ticks"] - scored["undecided_ticks"]
    mean = {
        name: _weighted(scored[name], scored["window_ticks"] if "window" in name else decided)
        for name in COLUMNS
        if name.endswith(("mae", "agreement_share", "within_1_share"))
    }
    skills = {
        f"{name}_skill": _skill(mean[own], mean[base]) for name, (base, own) in _SKILLS.items()
    }
    matched = counts["matched_events"]
    values: dict[str, Any] = {
        **{name: count for name, count in counts.items() if name in ScoreTotals._fields},
        **{name: value for name, value in mean.items() if name in ScoreTotals._fields},
        **skills,
    }
    return ScoreTotals(
        hpas=scores.height,
        scored=scored.height,
        unscored_extra=int(unscored["decided_events"].sum()),
        precision=matched / counts["decided_events"] if counts["decided_events"] else None,
        recall=matched / counts["recorded_events"] if counts["recorded_events"] else None,
        classes={name: counts[name] for name in CLASSES},
        **values,
    )


def _weighted(values: pl.Series, weights: pl.Series) -> float | None:
    weight = int(weights.sum())
    return math.fsum((values * weights).drop_nulls().to_list()) / weight if weight else None


def _skill(own: float | None, base: float | None) -> float | None:
    return 1 - own / base if own is not None and base else None


# ---- events --------------------------------------------------------------------------------------


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
