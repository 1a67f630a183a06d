"""Search of the lens of a source under which the rules decide the recorded changes best.

Each candidate is a replay of some HPAs with its samples seen through it. Lag and smoothing are
tried together, since a longer mean is also a later one; with the best of them the ratio of scale to
target, and then both again around what was found.

The errors of an answer (`engine.fidelity.answer`) allow for the window of an HPA, which is wider
than most lags. Here each tick counts in which a wish is not what was recorded then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from hpabatch.engine.fidelity.answer import BLOCK_MS
from hpabatch.engine.fidelity.trials import (
    MOST_PASSES,
    Episodes,
    Recording,
    Sizes,
    Trial,
    episodes_of,
    passes_of,
    recordings_of,
)
from hpabatch.engine.fidelity.walk import stated_trials
from hpabatch.engine.fleet.plan import ReplayPlan, with_lenses
from hpabatch.engine.fleet.selection import Key
from hpabatch.engine.shards.read import ShardInput, read_shard
from hpabatch.engine.shards.shard import ScaleColumns
from hpabatch.history.base import History
from hpabatch.inputs.lenses import Lens
from hpabatch.layout.records import F64, I64

REACH_MS: Final = 240_000
"""So far around a recorded change its decision is looked for, beside what is uncertain anyway."""

MOST_SIZE: Final = 3
"""Ticks that a decided size counts at most by being another than the recorded one."""


def wide(recording: Recording, scale: ScaleColumns, from_ms: int, to_ms: int) -> Recording:
    """Return a recording of some time, with holds as long as a decision is looked for."""
    window = recording.window._replace(late_ms=recording.window.late_ms + REACH_MS)
    now_ms = recording.now_ms
    now_ms = now_ms[(now_ms >= from_ms) & (now_ms < to_ms)]
    none = np.zeros(0, np.int64)
    episodes = Episodes(none, none, none, none, none)
    if now_ms.size:
        episodes = episodes_of(scale, recording.window, int(now_ms[0]), int(now_ms[-1]))
    passes = passes_of(episodes, window, recording.warm_ms, MOST_PASSES)
    return recording._replace(now_ms=now_ms, window=window, episodes=episodes, passes=passes)


def losses(recording: Recording, trial: Trial) -> F64:
    """Return by how much a trial misses its (wide) recording, by half hour.

    That is the square root of the ticks: one cause may keep a wish up for hours.
    """
    now_ms = recording.now_ms
    blocks = np.zeros(int((now_ms[-1] - now_ms[0]) // BLOCK_MS) + 1)
    for chosen, sizes in zip(recording.passes, trial.held, strict=True):
        some = recording.episodes.some(chosen)
        lost = _of_episodes(recording, some, sizes)
        np.add.at(blocks, (some.first_ms - now_ms[0]) // BLOCK_MS, lost)
    away = _unanswered(recording, trial.plain)
    np.add.at(blocks, (away - now_ms[0]) // BLOCK_MS, 1)
    return np.asarray(np.sqrt(blocks), np.float64)


def _of_episodes(recording: Recording, some: Episodes, sizes: Sizes) -> F64:
    """Return of each held episode the ticks from its decision to the recorded change of it.

    A wish before counts by the tick, and so does each tick until the first one after.
    """
    size_ms, late_ms = recording.window.size_ms, recording.window.late_ms
    now_ms, lost = sizes.now_ms, np.zeros(some.count)
    wished = sizes.wished != sizes.seen
    # The tick at or before the recorded change made it; if its time is uncertain, one before that.
    at = np.searchsorted(now_ms, some.first_ms, side="right") - 1
    sure = np.searchsorted(now_ms, some.first_ms - size_ms, side="right") - 1
    begin = np.searchsorted(now_ms, some.first_ms - size_ms - REACH_MS)
    end = np.searchsorted(now_ms, some.last_ms + late_ms)
    up = some.up
    for k in range(some.count):
        lost[k] = wished[begin[k] : max(sure[k], begin[k])].sum()
        from_tick = max(sure[k], 0)
        found = np.flatnonzero(
            np.sign(sizes.wished[from_tick : end[k]] - sizes.seen[from_tick : end[k]]) == up[k]
        )
        if not found.size:
            lost[k] += max(end[k] - at[k], 0) + MOST_SIZE
            continue
        first = from_tick + int(found[0])
        lost[k] += max(first - at[k], 0)
        low, high = sorted((int(some.step[k]), int(some.after[k])))
        size = int(sizes.wished[first])
        lost[k] += min(max(low - size, size - high, 0), MOST_SIZE)
    return lost


def _unanswered(recording: Recording, plain: Sizes) -> I64:
    """Return the instants of wishes that no recorded change is near to."""
    episodes = recording.episodes
    wish: I64 = plain.now_ms[plain.wished != plain.seen]
    if not episodes.count:
        return wish
    begin = episodes.first_ms - recording.window.size_ms - REACH_MS
    end = episodes.last_ms + recording.window.late_ms
    inside = np.searchsorted(begin, wish, side="right") > np.searchsorted(end, wish, side="right")
    return np.asarray(wish[~inside], np.int64)


STEP_MS: Final = 15_000
MOST_LAG_MS: Final = 120_000
COARSE_LAGS_MS: Final = (-60_000, -30_000, 0, 30_000, 60_000)
SMOOTHINGS_MS: Final = (0, 30_000, 60_000, 90_000, 120_000, 180_000, 240_000, 300_000, 360_000)
COARSE_SMOOTHINGS_MS: Final = (0, 60_000, 180_000, 300_000)
COARSE_RATIOS: Final = (0.5, 0.7, 0.85, 1.2, 1.4, 2.0, 3.0)
COARSE_FACTORS: Final = (0.8, 0.9, 1.1, 1.25)
FINE: Final = (0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 1.005, 1.01, 1.02, 1.05, 1.1, 1.33)
LEAST_RATIO: Final = 0.3
MOST_RATIO: Final = 5.0
MOST_MOVES: Final = 6
_JUDGED: Final = 5  # candidates that the other HPAs are decided under
MOST_TRIED: Final = (
    len((None, *COARSE_RATIOS))
    + len(COARSE_SMOOTHINGS_MS) * len((*COARSE_LAGS_MS, *COARSE_FACTORS))
    + MOST_MOVES * (11 + len(FINE))  # (`_around`)
    + _JUDGED
)
"""Candidates of a source at most: a search ends where the best one has no better neighbor."""
FAR_Z: Final = 2.0
"""From so many standard errors on a value is no longer in the interval."""


class Setting(NamedTuple):
    """A candidate: lag and smoothing in ms, and what usage is multiplied by."""

    lag_ms: int = 0
    smoothing_ms: int = 0
    ratio: float = 1.0

    def lens(self, cluster: str, signal: str) -> Lens:
        """Return the lens that applies it."""
        return Lens(signal, cluster, self.lag_ms, self.smoothing_ms, self.ratio)


RAW: Final = Setting()


class Interval(NamedTuple):
    """Values between the nearest ones that were tried and fit significantly worse."""

    low: float
    high: float

    def excludes(self, low: float, high: float) -> bool:
        """Say whether it lies outside of other values."""
        return self.low >= high or self.high <= low


class Part(NamedTuple):
    """Some HPAs that are read together."""

    plan: ReplayPlan
    given: ShardInput
    recordings: Sequence[Recording]


def parts_of(plan: ReplayPlan, spans: Sequence[Sequence[tuple[int, int]]]) -> list[Part]:
    """Return a plan's HPAs with what was recorded of them in their spans (ms), shard by shard."""
    found = []
    own = {id(c): theirs for c, theirs in zip(plan.chosen, spans, strict=True)}
    for first, last in plan.shards:
        places = plan.places[first:last]
        given = read_shard(plan, plan.chosen[first:last], places)
        recordings = [
            wide(recording, given.scales[recording.candidate.target], *span)
            for recording in recordings_of(plan, given, places)
            for span in own[id(recording.candidate)]
        ]
        found.append(Part(plan, given, [r for r in recordings if r.now_ms.size > 1]))
    return found


class KeptSamples:
    """A history whose samples, once read, are kept: each candidate reads the same ones."""

    def __init__(self, history: History) -> None:
        """Begin with nothing read."""
        self._history = history
        self._kept: dict[object, pl.DataFrame] = {}

    def __getattr__(self, name: str) -> Any:
        """Return whatever else the history has."""
        return getattr(self._history, name)

    def select(self, table: str, cluster: str, places: Sequence[Any], **what: Any) -> pl.DataFrame:
        """Return what the history does."""
        if "day" not in what:
            return self._history.select(table, cluster, places, **what)
        key = (table, cluster, *places, *((k, str(v)) for k, v in sorted(what.items())))
        if key not in self._kept:
            self._kept[key] = self._history.select(table, cluster, places, **what)
        return self._kept[key]


@dataclass
class Tried:
    """The losses of a source's HPAs under the candidates that were tried, by half hour.

    Each is one array over all HPAs, in their order: shape (blocks,).
    """

    parts: Sequence[Part]
    cluster: str
    signal: str
    found: dict[Setting, F64] = field(default_factory=dict)
    tell: Callable[[], None] = lambda: None
    """Shows that the search goes on."""

    _equal: dict[Setting, float] = field(default_factory=dict)
    _by_hpa: dict[Setting, dict[Key, float]] = field(default_factory=dict)

    def of(self, setting: Setting) -> F64:
        """Return the losses under a candidate."""
        if setting not in self.found:
            self.tell()
            self.found[setting] = self._run(setting)
        return self.found[setting]

    def _run(self, setting: Setting) -> F64:
        lens = setting.lens(self.cluster, self.signal)
        blocks, same, ticks = [np.zeros(0)], 0, 0
        by_hpa: dict[Key, float] = {}
        for part in self.parts:
            plan = with_lenses(part.plan, [lens] if lens.changes else [])
            trials = stated_trials(plan, part.given, part.recordings)
            for recording, trial in zip(part.recordings, trials, strict=True):
                blocks.append(losses(recording, trial))
                hpa = recording.candidate.key
                by_hpa[hpa] = by_hpa.get(hpa, 0.0) + float(blocks[-1].sum())
                same += int((trial.plain.wished == trial.plain.seen).sum())
                ticks += trial.plain.seen.size
        self._equal[setting] = same / max(ticks, 1)
        self._by_hpa[setting] = by_hpa
        return np.concatenate(blocks)

    def gains(self, setting: Setting) -> dict[Key, float]:
        """Return by how much a candidate's loss of each HPA is below that without any."""
        self.of(setting), self.of(RAW)
        plain, own = self._by_hpa[RAW], self._by_hpa[setting]
        return {hpa: plain[hpa] - own[hpa] for hpa in plain}

    def equal(self, setting: Setting) -> float:
        """Return the share of ticks that decide the recorded size under a candidate."""
        self.of(setting)
        return self._equal[setting]

    def best(self, of: Callable[[Setting], bool] = lambda _: True) -> Setting:
        """Return the candidate with the least loss of those tried; of equal ones the plainest."""
        return min(
            (s for s in self.found if of(s)),
            key=lambda s: (float(self.found[s].sum()), _plain(s), s),
        )

    def interval(self, name: str) -> Interval:
        """Return the interval of a parameter around that of the best candidate."""
        best = self.best()
        values = sorted({getattr(s, name) for s in self.found})
        inside = []
        for value in values:
            # By how many standard errors it fits worse, with others at their best.
            other = self.best(lambda s, v=value: getattr(s, name) == v)  # type: ignore[misc]
            more = self.found[other] - self.found[best]
            spread = float(np.sqrt((more**2).sum()))
            if (float(more.sum()) / spread if spread else 0.0) < FAR_Z:
                inside.append(value)
        low = [v for v in values if v < inside[0]]
        high = [v for v in values if v > inside[-1]]
        return Interval(low[-1] if low else -np.inf, high[0] if high else np.inf)


def _plain(setting: Setting) -> tuple[int, int, float]:
    return abs(setting.lag_ms), setting.smoothing_ms, abs(float(np.log(setting.ratio)))


def search(tried: Tried) -> None:
    """Try candidates, nearer and nearer to the best one."""
    tried.of(RAW)
    for ratio in COARSE_RATIOS:
        tried.of(Setting(ratio=ratio))
    ratio = tried.best().ratio
    for smoothing_ms in COARSE_SMOOTHINGS_MS:
        some = [Setting(lag_ms, smoothing_ms, ratio) for lag_ms in COARSE_LAGS_MS]
        # A ratio found without any lag hides how well a long mean fits with another one.
        best = min(some, key=lambda setting: float(tried.of(setting).sum()))
        for factor in COARSE_FACTORS:
            tried.of(best._replace(ratio=round(ratio * factor, 3)))
    for _ in range(MOST_MOVES):
        best = tried.best()
        for setting in _around(best):
            tried.of(setting)
        if tried.best() == best:
            return


def _around(best: Setting) -> Iterator[Setting]:
    """Yield the neighbors of a candidate; a longer mean also with the lag that makes up for it."""
    for step in (-2, -1, 1, 2):
        yield _within(best._replace(lag_ms=best.lag_ms + step * STEP_MS))
    place = SMOOTHINGS_MS.index(best.smoothing_ms)
    for other in (place - 1, place + 1):
        if 0 <= other < len(SMOOTHINGS_MS):
            smoothing_ms = SMOOTHINGS_MS[other]
            later = round((best.smoothing_ms - smoothing_ms) / 2 / STEP_MS) * STEP_MS
            for lag_ms in {best.lag_ms, best.lag_ms + later}:
                yield _within(best._replace(smoothing_ms=smoothing_ms, lag_ms=lag_ms))
    for factor in FINE:
        yield _within(best._replace(ratio=round(best.ratio * factor, 3)))
    # What else would be if there were none of one of them.
    yield best._replace(lag_ms=0)
    yield best._replace(smoothing_ms=0)
    yield best._replace(ratio=1.0)


def _within(setting: Setting) -> Setting:
    lag_ms = min(max(setting.lag_ms, -MOST_LAG_MS), MOST_LAG_MS)
    return setting._replace(lag_ms=lag_ms, ratio=min(max(setting.ratio, LEAST_RATIO), MOST_RATIO))
