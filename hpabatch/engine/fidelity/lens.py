"""Estimate of the lenses of a history: how what was recorded differs from what controllers saw.

A source is a signal of a cluster. Its lens is searched on a part of the HPAs that read it (of few,
on a part of the time) and judged on the rest. It is used only if it is significantly better there,
and if what it changes is more than the recording leaves open anyway. Where targets are alike, only
the ratio of scale to targets can be known. One that most HPAs share is used as a scale: targets
that are all stated wrong by one factor are rarer. Another one is told, and used if asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import count
from typing import Any, Final, NamedTuple, cast

import numpy as np
import polars as pl

from hpabatch.engine.fidelity.answer import sign_p
from hpabatch.engine.fidelity.lens_search import (
    MOST_TRIED,
    RAW,
    REACH_MS,
    Interval,
    KeptSamples,
    Part,
    Setting,
    Tried,
    parts_of,
    search,
)
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.membership import Place
from hpabatch.engine.fleet.plan import ReplayPlan, See, narrow_plan, with_lenses
from hpabatch.engine.fleet.request import AUTO_LENS, NO_LENS, RATIO_LENS
from hpabatch.engine.fleet.selection import Key, check_lenses
from hpabatch.engine.fleet.sources import POD_TABLES
from hpabatch.engine.shards.read import DAY_MS
from hpabatch.engine.shards.shard import scale_columns
from hpabatch.history.base import History
from hpabatch.inputs.lenses import CPU, MEMORY, Lens, read_lens_file
from hpabatch.model.plant import signal_name
from hpabatch.model.progress import Progress, silent

MOST_TICKS: Final = 500_000
"""Ticks to search on and to judge by, each counted once per pod; days of most changes first."""

FEWEST_HPAS: Final = 4
"""Of fewer HPAs with changes the time until half of these is searched on, the rest judges."""

FEWEST_EPISODES: Final = 10
"""With fewer recorded changes on either side nothing is estimated."""

FEWEST_SHARING: Final = 4
MOST_DISAGREEING: Final = 1 / 4
"""So many HPAs must fit better by a ratio of scale to targets, each by itself, its times together;
and of those that it changes at most such a share fits worse."""

USED_P: Final = 0.01
LEAST_TARGETS_APART: Final = 1.2
OPEN_RATIO: Final = 0.01
OPEN_RATIO_MS: Final = 15_000
"""Sources of known ratio are off by up to so much for each such time between samples."""

_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class LensEstimate:
    """What was found of a source; intervals are None where nothing could be searched.

    `found` is the best candidate, `ratio` the interval of scale to stated targets. `lens` is what
    is used; one that changes nothing, if none is, which `why` explains. `better` and `worse` half
    hours were judged by it, `p` is that of the sign test. `as_if`: the recording shows a ratio
    other than 1, but not whether it is the scale's or the targets'; what it stands for, "": none.
    `shared`: most HPAs have it.
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
    as_if: str = ""
    shared: bool = False

    @property
    def used(self) -> bool:
        """Whether samples are seen through it."""
        return self.lens.changes

    @property
    def ratio_lens(self) -> Lens:
        """The ratio that was found, as if it were a scale."""
        return Lens(self.signal, self.cluster, scale=self.found.ratio, as_if=self.as_if)

    def seen(self, with_ratio: bool) -> Lens:
        """Return the lens that is used, or the same one with a ratio that was found."""
        known = with_ratio and self.as_if
        return replace(self.lens, scale=self.found.ratio) if known else self.lens


def through_lens(
    plan: ReplayPlan, lens: str, progress: Progress = silent
) -> tuple[ReplayPlan, list[LensEstimate]]:
    """Return a replay through a lens: "none", "auto", "ratio" or a file; and what was estimated.

    Raises:
        UsageError: the file is wrong, or a lens of it is of nothing in the history.
        HistoryError: a table is broken.
    """
    if lens == NO_LENS:
        return plan, []
    if lens in (AUTO_LENS, RATIO_LENS):
        found = estimate_lenses(plan, progress)
        seen = [one.seen(with_ratio=lens == RATIO_LENS) for one in found]
        ratios = [one.ratio_lens for one in found if one.as_if]
        return with_lenses(plan, [one for one in seen if one.changes], ratios), found
    lenses = read_lens_file(lens)
    check_lenses(lenses, plan.everyone)
    return with_lenses(plan, lenses), []


def seen_through(lens: str, progress: Progress = silent) -> See:
    """Return what puts a lens into a plan; it raises as `through_lens` does."""
    return lambda plan: through_lens(plan, lens, progress)[0]


def estimate_lenses(plan: ReplayPlan, progress: Progress = silent) -> list[LensEstimate]:
    """Return what is found of each source that HPAs of a plan read.

    Raises:
        HistoryError: a table is broken.
    """
    sources = _sources(plan)
    found = []
    for k, (cluster, signal) in enumerate(sources):
        what = f"estimating how the controller saw {signal} (lens {k + 1} of {len(sources)})"
        tried = count(1)

        def tell(what: str = what, k: int = k, tried: Iterator[int] = tried) -> None:
            n = min(next(tried), MOST_TRIED)
            told = f"{what}, setting {n} of at most {MOST_TRIED}"
            progress(told, (k + (n - 1) / MOST_TRIED) / len(sources))

        found.append(_estimate(plan, cluster, signal, tell))
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


def _estimate(
    plan: ReplayPlan, cluster: str, signal: str, tell: Callable[[], None]
) -> LensEstimate:
    none = Lens(signal, cluster)
    split = _split(plan, cluster, signal)
    changes = [
        sum(p.size for part in parts for r in part.recordings for p in r.passes) for parts in split
    ]
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
    tried, chosen = found_on(split.searched, cluster, signal, tell)
    open_ = _left_open(split.searched, signal)
    lag = tried.interval("lag_ms")
    told = replace(
        told,
        found=tried.best(),
        # A point sample is seen late by itself: the lag itself may be so much longer.
        lag_ms=lag._replace(high=lag.high - open_.low_ms),
        smoothing_ms=tried.interval("smoothing_ms"),
        ratio=tried.interval("ratio"),
    )
    judge = Tried(split.judged, cluster, signal, tell=tell)
    targets = _targets(split, signal)
    if any(max(known) >= LEAST_TARGETS_APART * min(known) for known in targets.values()):
        return _judged(told, judge, tried, chosen, open_, RAW)
    if chosen.ratio != 1:
        # Without the lag and the smoothing that fit best, only coarse ratios were tried.
        chosen = chosen._replace(ratio=told.found.ratio)
    base = _alike(judge, chosen)
    tried.of(base)
    if base != RAW:
        shared = is_shared(tried.gains(base), judge.gains(base))
        before, after = (f"{100 * judge.equal(s):.0f}" for s in (RAW, base))
        as_if = f"{_as_if(targets, base.ratio)}: equal ticks {before} -> {after} %"
        told = replace(told, as_if=as_if, shared=shared)
    return _judged(told, judge, tried, chosen._replace(ratio=base.ratio), open_, base)


def is_shared(*gains: Mapping[Key, float]) -> bool:
    """Return whether most HPAs share a ratio, by what it gains each: in HPAs, or times, searched on
    and judged by. Each counts once."""
    together: Counter[Key] = Counter()
    for own in gains:
        together.update(own)
    better, worse = (sum(sign * v > 0 for v in together.values()) for sign in (1, -1))
    return better >= FEWEST_SHARING and worse <= MOST_DISAGREEING * (better + worse)


def _alike(judge: Tried, chosen: Setting) -> Setting:
    """Return the ratio of scale to targets alone if it is one and fits better elsewhere, or RAW."""
    ratio = RAW._replace(ratio=chosen.ratio)
    both = (chosen, ratio)
    p = max(_compared(judge, one, one._replace(ratio=1.0))[0] for one in both)
    return ratio if p <= USED_P else RAW


def _judged(
    told: LensEstimate, judge: Tried, tried: Tried, chosen: Setting, open_: _Open, base: Setting
) -> LensEstimate:
    """Return an estimate with the verdict of the HPAs and times that were not searched on.

    `base` is what a lens is compared with: none, or the ratio of scale to targets alone. Where most
    HPAs share that ratio, it is used whatever else fits.
    """
    if told.shared:
        p, better, worse = _compared(judge, base, RAW)
        ratio = base.lens(told.cluster, told.signal)
        told = replace(told, lens=ratio, better=better, worse=worse, p=p, why="")
        if chosen == base:
            return told
    if chosen == base:
        only = "targets are alike, so only the ratio of scale to targets is known"
        nothing = "nothing that goes beyond what the recording leaves open"
        return replace(told, why=only if told.as_if else nothing)
    plain = tried.best(lambda s: open_.low_ms <= s.lag_ms <= open_.high_ms and s[1:] == base[1:])
    p, better, worse = max(_compared(judge, chosen, other) for other in (base, plain))
    if p > USED_P and told.shared:
        return told
    told = replace(told, better=better, worse=worse, p=p)
    if p > USED_P:
        return replace(told, why="not significantly better where it was not searched on")
    lens = chosen.lens(told.cluster, told.signal)
    unscaled = told.as_if and not told.shared
    return replace(told, lens=replace(lens, scale=1.0) if unscaled else lens, why="")


def _compared(judge: Tried, one: Setting, other: Setting) -> tuple[float, int, int]:
    """Return the p of a sign test, and the half hours in which one fits better and worse."""
    less, more = judge.of(one), judge.of(other)
    better, worse = int((less < more).sum()), int((less > more).sum())
    return sign_p(better, worse), better, worse


def found_on(
    parts: Sequence[Part], cluster: str, signal: str, tell: Callable[[], None] = lambda: None
) -> tuple[Tried, Setting]:
    """Search on some HPAs; return what was tried, and the best of which each part has an effect."""
    tried = Tried(parts, cluster, signal, tell=tell)
    search(tried)
    intervals = {name: tried.interval(name) for name in Setting._fields}
    return tried, _effective(tried, intervals, _left_open(parts, signal))


class _Open(NamedTuple):
    """What a recording leaves open: lags that are none, and means that change nothing in it.

    Sizes that are recorded late, and pods that are ready unseen, look like ratios up to `ratio`.
    """

    low_ms: int
    high_ms: int
    mean_ms: int

    @property
    def ratio(self) -> float:
        """The largest ratio of scale to targets that is none; as far below 1 it is none, too."""
        return 1 + OPEN_RATIO * max(-self.low_ms / OPEN_RATIO_MS, 1)


def _effective(tried: Tried, intervals: dict[str, Interval], open_: _Open) -> Setting:
    """Return the best candidate in which only that changes whose interval excludes no effect."""
    lag = intervals["lag_ms"].excludes(open_.low_ms, open_.high_ms)
    smoothing = intervals["smoothing_ms"].excludes(0, open_.mean_ms)
    ratio = intervals["ratio"].excludes(1 / open_.ratio, open_.ratio)
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


def _targets(split: _Split, signal: str) -> dict[str, set[float]]:
    """Return the targets that HPAs state of a signal: percentages as "pct", values as "value"."""
    found: dict[str, set[float]] = {}
    for part in [*split.searched, *split.judged]:
        for recording in part.recordings:
            for metric in recording.candidate.spec.metrics:
                source: Any = metric.resource or metric.pods
                if source is None or signal_name(metric) != signal:
                    continue
                target = source.target
                if target.average_utilization is not None:
                    found.setdefault("pct", set()).add(float(target.average_utilization))
                elif target.average_value is not None:
                    value = float(target.average_value.milli())
                    found.setdefault("value", set()).add(value)
    return found


def _as_if(targets: dict[str, set[float]], ratio: float) -> str:
    much = f"{abs(1 / ratio - 1):.0%}".replace("%", " %")
    known = targets.get("pct", set())
    text = f"as if targets were {much} {'higher' if ratio < 1 else 'lower'}"
    if list(targets) == ["pct"] and len(known) == 1:
        (target,) = known
        text = f"as if the target were {target / ratio:.0f} instead of {target:.0f}"
    requests = f", or requests {much} {'larger' if ratio < 1 else 'smaller'}"
    return text + (requests if known else "")


def _hpas(parts: Sequence[Part]) -> int:
    return len({id(r.candidate) for part in parts for r in part.recordings})


# ---- which HPAs, and which time


def _split(plan: ReplayPlan, cluster: str, signal: str) -> _Split:
    changes = _changes_of(plan, cluster, signal)
    days = _days(plan, cluster, signal, changes)
    hpas = days.group_by("hpa").agg(pl.col("changes").sum())
    hpas = hpas.sort("changes", "hpa", descending=[True, False])
    if (hpas["changes"] > 0).sum() >= FEWEST_HPAS:
        cut = [days.filter(pl.col("hpa").is_in(hpas["hpa"].gather_every(2, k))) for k in (0, 1)]
        return _Split(*(_parts(plan, some) for some in cut))
    own = changes.join(days, on=["hpa", "day"], how="semi")["ts_ms"]
    if own.is_empty():
        return _Split([], [])
    middle_ms = own.sort()[own.len() // 2]
    before = pl.col("to_ms").clip(upper_bound=middle_ms)
    after = pl.col("from_ms").clip(lower_bound=middle_ms)
    return _Split(*(_parts(plan, days.with_columns(part)) for part in (before, after)))


def _changes_of(plan: ReplayPlan, cluster: str, signal: str) -> pl.DataFrame:
    """Return when the sizes of a source's HPAs changed: hpa (position), ts_ms, day (in ms)."""
    scales = plan.history.read("scales").filter(pl.col("cluster") == cluster)
    known = scale_columns(scales)
    rows: list[tuple[int, int]] = []
    for k in _readers(plan, cluster, signal):
        scale = known.get(plan.chosen[k].target)
        own = [] if scale is None else scale.ts_ms[scale.resized()].tolist()
        rows += [(k, ts_ms) for ts_ms in own]
    frame = pl.DataFrame(rows, {"hpa": pl.Int64, "ts_ms": pl.Int64}, orient="row")
    decided = pl.col("ts_ms").is_between(plan.clocks.from_ms, plan.clocks.to_ms)
    return frame.filter(decided).with_columns(day=pl.col("ts_ms") // DAY_MS * DAY_MS)


def _readers(plan: ReplayPlan, cluster: str, signal: str) -> list[int]:
    return [
        k
        for k, candidate in enumerate(plan.chosen)
        if candidate.cluster == cluster and signal in _signals(candidate)
    ]


def _days(plan: ReplayPlan, cluster: str, signal: str, changes: pl.DataFrame) -> pl.DataFrame:
    """Return the days of a source's HPAs up to MOST_TICKS: hpa, day, from_ms, to_ms, changes.

    A day is the time in it in which the HPA has pods, and samples of them.
    """
    names = ["namespace", "place"]
    owners = pl.DataFrame(
        [(k, *place) for k in _readers(plan, cluster, signal) for place in plan.places[k]],
        {"hpa": pl.Int64, **dict.fromkeys(names, pl.String)},
        orient="row",
    )
    sizes = pl.concat([plan.history.sizes(table) for table in POD_TABLES])
    days = sizes.filter(pl.col("cluster") == cluster).join(owners, on=names, nulls_equal=True)
    days = days.select("hpa", day=pl.col("day").cast(pl.Int64) * DAY_MS).unique()
    pods = plan.history.select("pods", cluster, owners.select(names).rows())
    first_ms, last_ms = plan.clocks.from_ms, plan.clocks.to_ms + 1
    lives = pods.select(
        "namespace",
        place="target",
        from_ms=pl.col("created").dt.epoch("ms").fill_null(first_ms),
        to_ms=pl.col("gone").dt.epoch("ms").fill_null(last_ms),
    )
    begin_ms = pl.max_horizontal("from_ms", "day", pl.lit(first_ms))
    end_ms = pl.min_horizontal("to_ms", pl.col("day") + DAY_MS, pl.lit(last_ms))
    lived = (
        days.join(owners, on="hpa")
        .join(lives, on=names, nulls_equal=True)
        .with_columns(from_ms=begin_ms, to_ms=end_ms)
        .filter(pl.col("from_ms") < pl.col("to_ms"))
        .group_by("hpa", "day")
        .agg(
            pl.col("from_ms").min(),
            pl.col("to_ms").max(),
            ticks=(pl.col("to_ms") - pl.col("from_ms")).sum() // plan.clocks.grid.period_ms,
        )
    )
    counts = changes.group_by("hpa", "day").agg(changes=pl.len())
    found = lived.join(counts, on=["hpa", "day"], how="left").with_columns(
        pl.col("changes").fill_null(0).cast(pl.Int64)
    )
    found = found.sort("changes", "day", "hpa", descending=[True, False, False])
    kept = (pl.col("ticks").cum_sum() <= MOST_TICKS) | (pl.int_range(pl.len()) == 0)
    return found.filter(kept).sort("hpa", "day")


def _parts(plan: ReplayPlan, days: pl.DataFrame) -> list[Part]:
    """Return HPAs in the time of some of their days, with the samples of these and the days before.

    Days that follow each other are one time.
    """
    spans: dict[int, list[tuple[int, int]]] = {}
    for hpa, from_ms, to_ms in days.select("hpa", "from_ms", "to_ms").iter_rows():
        if from_ms < to_ms:
            own = spans.setdefault(hpa, [])
            before_ms = own.pop()[0] if own and own[-1][1] == from_ms else from_ms
            own.append((before_ms, to_ms))
    read: dict[Place, set[date]] = {}
    for hpa, own in spans.items():
        for place in plan.places[hpa]:
            for from_ms, to_ms in own:
                first, last = from_ms // DAY_MS - 1, (to_ms - 1) // DAY_MS
                theirs = (_EPOCH + timedelta(days=k) for k in range(first, last + 1))
                read.setdefault(place, set()).update(theirs)
    sampled = {
        table: {
            place: {day: rows for day, rows in known.items() if day in read.get(place, ())}
            for place, known in places.items()
        }
        for table, places in plan.days.items()
    }
    history = cast(History, KeptSamples(plan.history))
    own_plan = narrow_plan(replace(plan, days=sampled, history=history), sorted(spans))
    return parts_of(own_plan, [spans[hpa] for hpa in sorted(spans)])
