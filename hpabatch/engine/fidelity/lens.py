"""Estimate of the lenses of a history: how what was recorded differs from what controllers saw.

A source is a signal of a cluster. Its lens is searched on a part of the HPAs that read it (of few,
on a part of the time) and judged on the rest. It is used only if it is significantly better there,
and if what it changes is more than the recording leaves open anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Final, NamedTuple, cast

import numpy as np
import polars as pl

from hpabatch.engine.fidelity.answer import sign_p
from hpabatch.engine.fidelity.lens_loss import REACH_MS
from hpabatch.engine.fidelity.lens_search import (
    RAW,
    Interval,
    KeptSamples,
    Part,
    Setting,
    Tried,
    parts_of,
    search,
)
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.membership import ScaleKey
from hpabatch.engine.fleet.plan import ReplayPlan, See, narrow_plan, with_lenses
from hpabatch.engine.fleet.request import AUTO_LENS, NO_LENS
from hpabatch.engine.fleet.selectors import check_lenses
from hpabatch.engine.replay.run import Progress
from hpabatch.engine.shards.read import DAY_MS
from hpabatch.engine.shards.shard import scale_columns
from hpabatch.history.base import History
from hpabatch.inputs.lenses import read_lens_file
from hpabatch.layout.records import I64
from hpabatch.model.lens import CPU, MEMORY, Lens
from hpabatch.model.plant import signal_name

FEW_HPAS: Final = 16
ENOUGH_CHANGES: Final = 400
MOST_HPAS: Final = 64
"""HPAs are taken by their recorded changes: so few, or more until there are enough changes."""

FEWEST_HPAS: Final = 4
"""Of fewer HPAs the first half of the time is searched on, the second judges."""

MOST_DAYS: Final = 2
MOST_DAY_ROWS: Final = 400_000
FEWEST_CHANGES: Final = 3
FEWEST_EPISODES: Final = 10
"""With fewer recorded changes on either side nothing is estimated."""

USED_P: Final = 0.01
LEAST_TARGETS_APART: Final = 1.2
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class LensEstimate:
    """What was found of a source; intervals are None where nothing could be searched.

    `found` is the best candidate, `ratio` the interval of scale to stated targets. `lens` is what
    is used; one that changes nothing, if none is, which `why` explains. `better` and `worse` half
    hours were judged by it, `p` is that of the sign test. `ratio_told`: the recording shows a ratio
    other than 1, but not whether it is the scale's or the targets'.
    """

    cluster: str
    signal: str
    lens: Lens
    why: str
    searched_hpas: int = 0
    searched_changes: int = 0
    judged_hpas: int = 0
    judged_changes: int = 0
    found: Setting = RAW
    lag_ms: Interval | None = None
    smoothing_ms: Interval | None = None
    ratio: Interval | None = None
    better: int = 0
    worse: int = 0
    p: float = 1.0
    ratio_told: bool = False

    @property
    def used(self) -> bool:
        """Whether samples are seen through it."""
        return self.lens.changes

    @property
    def ratio_lens(self) -> Lens:
        """The ratio that was found, as if it were a scale."""
        return Lens(self.signal, self.cluster, scale=self.found.ratio)


def through_lens(
    plan: ReplayPlan, lens: str, progress: Progress | None = None
) -> tuple[ReplayPlan, list[LensEstimate]]:
    """Return a replay through a lens: "none", "auto" or a lens file; and what was estimated.

    Raises:
        UsageError: the file is wrong, or a lens of it is of nothing in the history.
        HistoryError: a table is broken.
    """
    if lens == NO_LENS:
        return plan, []
    if lens == AUTO_LENS:
        found = estimate_lenses(plan, progress)
        ratios = [one.ratio_lens for one in found if one.ratio_told and one.lens.scale == 1]
        return with_lenses(plan, [one.lens for one in found if one.used], ratios), found
    lenses = read_lens_file(lens)
    check_lenses(lenses, plan.everyone)
    return with_lenses(plan, lenses), []


def seen_through(lens: str, progress: Progress | None = None) -> See:
    """Return what puts a lens into a plan; it raises as `through_lens` does."""
    return lambda plan: through_lens(plan, lens, progress)[0]


def estimate_lenses(plan: ReplayPlan, progress: Progress | None = None) -> list[LensEstimate]:
    """Return what is found of each source that HPAs of a plan read.

    Raises:
        HistoryError: a table is broken.
    """
    sources = _sources(plan)
    found = []
    for k, (cluster, signal) in enumerate(sources):
        if progress is not None:
            progress(f"estimating the lens of {signal}", k / len(sources))
        found.append(_estimate(plan, cluster, signal))
    return found


def _sources(plan: ReplayPlan) -> list[tuple[str, str]]:
    """Return cluster and signal; usage is one source, named by cpu where an HPA reads that."""
    read = {(c.cluster, name) for c in plan.chosen for name in _signals(c)}
    return sorted(
        (cluster, name)
        for cluster, name in read
        if name == CPU
        or (name == MEMORY and (cluster, CPU) not in read)
        or name.startswith("pods/")
    )


def _signals(candidate: Candidate) -> set[str]:
    return {signal_name(metric) for metric in candidate.spec.metrics}


class _Split(NamedTuple):
    """The HPAs and times that a lens is searched on, and those that judge it."""

    searched: list[Part]
    judged: list[Part]


def _estimate(plan: ReplayPlan, cluster: str, signal: str) -> LensEstimate:
    none = Lens(signal, cluster)
    split = _split(plan, cluster, signal)
    changes = [_changes(part) for part in split]
    told = LensEstimate(
        cluster,
        signal,
        none,
        f"fewer than {FEWEST_EPISODES} recorded changes to search on, or to judge by",
        searched_hpas=_hpas(split.searched),
        searched_changes=changes[0],
        judged_hpas=_hpas(split.judged),
        judged_changes=changes[1],
    )
    if min(changes) < FEWEST_EPISODES:
        return told
    tried, chosen = found_on(split.searched, cluster, signal)
    open_ = _left_open(split.searched, signal)
    if not _targets_differ(split, signal):
        chosen = chosen._replace(ratio=1.0)
    lag = tried.interval("lag_ms")
    told = replace(
        told,
        found=tried.best(),
        # A point sample is seen late by itself: the lag itself may be so much longer.
        lag_ms=lag._replace(high=lag.high - open_.low_ms),
        smoothing_ms=tried.interval("smoothing_ms"),
        ratio=tried.interval("ratio"),
    )
    return _judged(told, split, tried, chosen, open_)


def _judged(
    told: LensEstimate, split: _Split, tried: Tried, chosen: Setting, open_: _Open
) -> LensEstimate:
    """Return an estimate with the verdict of the HPAs and times that were not searched on."""
    judge = Tried(split.judged, told.cluster, told.signal)
    best = tried.best()
    if told.ratio is not None and told.ratio.excludes(1, 1) and chosen.ratio == 1:
        p = _compared(judge, best, best._replace(ratio=1.0))[0]
        told = replace(told, ratio_told=p <= USED_P)
    if chosen == RAW:
        return replace(told, why="nothing that goes beyond what the recording leaves open")
    plain = tried.best(lambda s: open_.low_ms <= s.lag_ms <= open_.high_ms and s[1:] == RAW[1:])
    p, better, worse = max(_compared(judge, chosen, other) for other in (RAW, plain))
    told = replace(told, better=better, worse=worse, p=p)
    if p > USED_P:
        return replace(told, why="not significantly better where it was not searched on")
    return replace(told, lens=chosen.lens(told.cluster, told.signal), why="")


def _compared(judge: Tried, one: Setting, other: Setting) -> tuple[float, int, int]:
    """Return the p of a sign test, and the half hours in which one fits better and worse."""
    less, more = judge.of(one), judge.of(other)
    better, worse = int((less < more).sum()), int((less > more).sum())
    return sign_p(better, worse), better, worse


def found_on(parts: Sequence[Part], cluster: str, signal: str) -> tuple[Tried, Setting]:
    """Search on some HPAs; return what was tried, and the best of which each part has an effect."""
    tried = Tried(parts, cluster, signal)
    search(tried)
    intervals = {name: tried.interval(name) for name in Setting._fields}
    return tried, _effective(tried, intervals, _left_open(parts, signal))


class _Open(NamedTuple):
    """What a recording leaves open: lags that are none, and means that change nothing in it."""

    low_ms: int
    high_ms: int
    mean_ms: int


def _effective(tried: Tried, intervals: dict[str, Interval], open_: _Open) -> Setting:
    """Return the best candidate in which only that changes whose interval excludes no effect."""
    lag = intervals["lag_ms"].excludes(open_.low_ms, open_.high_ms)
    smoothing = intervals["smoothing_ms"].excludes(0, open_.mean_ms)
    ratio = intervals["ratio"].excludes(1, 1)
    return tried.best(
        lambda s: (
            (lag or s.lag_ms == 0)
            and (smoothing or s.smoothing_ms == 0)
            and (ratio or s.ratio == 1)
        )
    )


def _left_open(parts: Sequence[Part], signal: str) -> _Open:
    """Return what samples of this spacing cannot tell.

    A replay sees point samples up to their spacing late by themselves. A controller sees a sample
    up to a sync after it was taken, and sizes that were made of samples were recorded late. A mean
    over the samples' own window, or over one sample, is none.
    """
    spacings, early = [0], [0]
    for part in parts:
        for recording in part.recordings:
            period_ms = int(np.median(np.diff(recording.now_ms)))
            early.append(period_ms + recording.window.size_ms)
            seen_ms = recording.window.late_ms - REACH_MS - period_ms
            spacings.append(seen_ms - part.given.delay_ms)
    spacing_ms = max(spacings)
    return _Open(-spacing_ms, max(early), max(spacing_ms, _window_ms(parts, signal)))


def _window_ms(parts: Sequence[Part], signal: str) -> int:
    """Return the window that samples say to be means over, of one day of each HPA's."""
    table = "pod_custom_metrics" if signal.startswith("pods/") else "pod_metrics"
    found = [0]
    for part in parts:
        cluster = part.given.facts.cluster
        for place in {p for r in part.recordings for p in r.places}:
            days = part.plan.days_of(table, cluster).get(place, {})
            for day in sorted(days)[:1]:
                rows = part.plan.history.select(
                    table, cluster, [place], day=day, columns=["window_ms"]
                )
                found.append(int(cast(float, rows["window_ms"].median()) or 0))
    return max(found)


def _targets_differ(split: _Split, signal: str) -> bool:
    """Say whether the HPAs state targets far enough apart to tell scale and target apart."""
    kinds: dict[str, set[float]] = {}
    for part in [*split.searched, *split.judged]:
        for recording in part.recordings:
            for metric in recording.candidate.spec.metrics:
                source: Any = metric.resource or metric.pods
                if source is None or signal_name(metric) != signal:
                    continue
                target = source.target
                if target.average_utilization is not None:
                    kinds.setdefault("pct", set()).add(float(target.average_utilization))
                elif target.average_value is not None:
                    value = float(target.average_value.milli())
                    kinds.setdefault("value", set()).add(value)
    return any(max(v) >= LEAST_TARGETS_APART * min(v) for v in kinds.values())


def _hpas(parts: Sequence[Part]) -> int:
    return sum(len(part.recordings) for part in parts)


def _changes(parts: Sequence[Part]) -> int:
    return sum(p.size for part in parts for r in part.recordings for p in r.passes)


# ---- which HPAs, and which time


def _split(plan: ReplayPlan, cluster: str, signal: str) -> _Split:
    """Return the HPAs of a source with the most changes, those to search on and those to judge."""
    changes = _change_times(plan, cluster)
    known = [
        (k, changes.get(c.target, np.zeros(0, np.int64)))
        for k, c in enumerate(plan.chosen)
        if c.cluster == cluster and signal in _signals(c) and plan.rows[k] <= MOST_DAY_ROWS
    ]
    known = [(k, ts_ms) for k, ts_ms in known if ts_ms.size >= FEWEST_CHANGES]
    known.sort(key=lambda one: (-one[1].size, one[0]))
    before = np.cumsum([0, *(ts_ms.size for _, ts_ms in known)])
    taken = max(FEW_HPAS, int(np.searchsorted(before, ENOUGH_CHANGES)))
    known = known[: min(taken, MOST_HPAS)]
    if not known:
        return _Split([], [])
    from_ms, to_ms = _busiest(np.concatenate([ts_ms for _, ts_ms in known]))
    numbers = [k for k, _ in known]
    if len(numbers) >= FEWEST_HPAS:
        spans = [(numbers[0::2], from_ms, to_ms), (numbers[1::2], from_ms, to_ms)]
    else:
        middle_ms = (from_ms + to_ms) // 2
        spans = [(numbers, from_ms, middle_ms), (numbers, middle_ms, to_ms)]
    return _Split(*(_parts(plan, sorted(some), *span) for some, *span in spans))


def _change_times(plan: ReplayPlan, cluster: str) -> dict[ScaleKey, I64]:
    """Return when the sizes of a cluster's targets changed, ms."""
    scales = plan.history.read("scales").filter(pl.col("cluster") == cluster)
    first_ms, last_ms = plan.clocks.from_ms, plan.clocks.to_ms
    found = {}
    for key, scale in scale_columns(scales).items():
        ts_ms = scale.ts_ms[scale.resized()]
        found[key] = ts_ms[(ts_ms >= first_ms) & (ts_ms <= last_ms)]
    return found


def _busiest(ts_ms: I64) -> tuple[int, int]:
    """Return the days in a row with the most changes, as first and last ms."""
    days = ts_ms // DAY_MS
    counts = np.bincount(days - days.min(), minlength=MOST_DAYS)
    sums = np.convolve(counts, np.ones(MOST_DAYS, np.int64), "valid")
    first = int(days.min()) + int(np.argmax(sums))
    return first * DAY_MS, (first + MOST_DAYS) * DAY_MS


def _parts(plan: ReplayPlan, numbers: list[int], from_ms: int, to_ms: int) -> list[Part]:
    """Return some HPAs, of which the samples of some days are read."""
    first, last = (_EPOCH + timedelta(milliseconds=ms) for ms in (from_ms - DAY_MS, to_ms))
    days = {
        table: {
            place: {day: rows for day, rows in known.items() if first <= day <= last}
            for place, known in places.items()
        }
        for table, places in plan.days.items()
    }
    history = cast(History, KeptSamples(plan.history))
    own = narrow_plan(replace(plan, days=days, history=history), numbers)
    return parts_of(own, from_ms, to_ms)
