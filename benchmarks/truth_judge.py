"""Recommendations judged by the truth: settings on weeks that nobody saw, with the true plant.

The stated objective is lexicographic: a setting that holds the constraint in every week is better
than one that does not, of two that hold it the cheaper one is. A setting that misses it is never
counted as better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np
import polars as pl

from benchmarks.truth_fleet import CPU, WEEK_MS, Truth
from benchmarks.truth_record import TODAY, case_of
from hpabatch.engine.simulate.loop import run_cases
from hpabatch.engine.simulate.measures import Bounds
from hpabatch.engine.sweep.blocks import blocks_frame
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.versions import Profile
from hpabatch.packing.workloads import Workload

Key = tuple[str, str, str]

ADVICE: Final = "advice"
KEEP: Final = "keep"
NO_ADVICE: Final = "no advice"

_Z95: Final = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked: `measure` below `most` in every week, and as little of `cost` as can be.

    Both are columns of `hpabatch simulate`.
    """

    measure: str = "saturated_minutes"
    most: float = 10.0
    cost: str = "core_hours"

    @property
    def words(self) -> str:
        """The constraint as `hpabatch recommend --slo` takes it."""
        return f"{self.measure}<{self.most:g}/week"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a recommender says of one HPA: ADVICE with a setting, KEEP or NO_ADVICE, and why.

    `doubts` are what lowers its confidence, `saved_pct` what the change is said to save.
    """

    verdict: str
    setting: str = ""
    why: str = ""
    confidence: str | None = None
    doubts: tuple[str, ...] = ()
    saved_pct: float | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """The weeks to judge on, and the sync period.

    `is_recorded`: they are weeks of the recording, in which pods have the ceilings of that time.
    """

    first_week: int
    weeks: int
    sync_ms: int
    seed: int = 0
    is_recorded: bool = False

    def workload_of(self, truth: Truth) -> Workload:
        """Return the true workload of these weeks."""
        return truth.workload if self.is_recorded else truth.later


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a setting really comes to: the constraint's measure by week, and the cost a week."""

    weeks: tuple[float, ...]
    cost: float

    @property
    def worst(self) -> float:
        """The measure of the worst week."""
        return max(self.weeks)

    @property
    def mean(self) -> float:
        """The measure of the average week."""
        return sum(self.weeks) / len(self.weeks)

    def holds(self, goal: Goal) -> bool:
        """Say whether the constraint is held in every week."""
        return self.worst < goal.most

    def holds_on_average(self, goal: Goal) -> bool:
        """Say whether the constraint is held by the average week."""
        return self.mean < goal.most

    def beats(self, other: Verdict, goal: Goal) -> bool:
        """Say whether it is better than another one: nothing that misses the constraint is."""
        return self.holds(goal) and self.rank(goal) < other.rank(goal)

    def no_worse(self, other: Verdict, goal: Goal) -> bool:
        """Say whether in every week the constraint is held, or missed by no more than another."""
        pairs = zip(self.weeks, other.weeks, strict=True)
        return all(own < goal.most or own <= theirs for own, theirs in pairs)

    def rank(self, goal: Goal) -> tuple[float, float]:
        """Return what settings are ordered by, the best first."""
        return (0.0 if self.holds(goal) else self.worst), self.cost


def judge(
    fleet: Sequence[Truth],
    settings: Mapping[Key, Mapping[str, HPASpec]],
    span: Span,
    goal: Goal,
    profile: Profile,
) -> dict[Key, dict[str, Verdict]]:
    """Return what the settings of every HPA come to with its true plant.

    Every setting of an HPA begins with the same size, that of the demand at that time.
    """
    cases = []
    for truth in fleet:
        workload = replace(span.workload_of(truth), initial=_size_at(truth, span))
        begun = replace(truth, workload=workload)
        cases += [
            case_of(begun, spec, name, span.first_week, span.weeks, span.sync_ms)
            for name, spec in settings.get(truth.key, {}).items()
        ]
    found: dict[Key, dict[str, Verdict]] = {}
    bounds = Bounds()
    for ran in run_cases(cases, profile, span.seed, block_ms=WEEK_MS):
        weeks = blocks_frame(ran, WEEK_MS, bounds)
        grouped = weeks.group_by("cluster", "namespace", "hpa", "setting").agg(
            pl.col(goal.measure).sort_by("block"), pl.col(goal.cost).mean()
        )
        for cluster, namespace, hpa, setting, measures, cost in grouped.iter_rows():
            theirs = found.setdefault((cluster, namespace, hpa), {})
            theirs[setting] = Verdict(tuple(measures), cost)
    return found


def _size_at(truth: Truth, span: Span) -> int:
    """Return how many pods the first hour's work asks for, within today's bounds."""
    workload = span.workload_of(truth)
    capacity = workload.plant.capacity_milli or 1
    first = span.first_week * 7 * 24 * 60
    asked = int(np.ceil(workload.work[CPU][first : first + 60].max() / capacity))
    return min(max(asked, truth.spec.min_replicas or 1), truth.spec.max_replicas)


# ---- how often


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many, with Wilson's 95 % interval (J. Am. Stat. Assoc. 22, 1927)."""

    count: int
    total: int

    @property
    def pct(self) -> float | None:
        """The share in percent; None of nothing."""
        return 100.0 * self.count / self.total if self.total else None

    @property
    def interval_pct(self) -> tuple[float, float]:
        """The interval in percent."""
        if not self.total:
            return 0.0, 100.0
        n, p, z2 = self.total, self.count / self.total, _Z95**2
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = _Z95 * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        return 100 * max(middle - half, 0.0), 100 * min(middle + half, 1.0)

    @property
    def words(self) -> str:
        """`96.0 % (92.5 to 98.1, 192 of 200)`."""
        if self.pct is None:
            return "none"
        low, high = self.interval_pct
        return f"{self.pct:.1f} % ({low:.1f} to {high:.1f}, {self.count} of {self.total})"


@dataclass(frozen=True, slots=True)
class Case:
    """One judged HPA: today's setting against another one, by the truth."""

    today: Verdict
    other: Verdict

    def saving_pct(self) -> float:
        """Return how much less the other one costs than today's."""
        return 100.0 * (1 - self.other.cost / self.today.cost) if self.today.cost else 0.0

    def is_right(self, goal: Goal) -> bool:
        """Say whether a change to the other one is right: it is better than today's by the goal."""
        return self.other.beats(self.today, goal)

    def is_harmless(self, goal: Goal) -> bool:
        """Say whether the other one is right, or cheaper and in no week worse than today's."""
        cheaper = self.other.cost < self.today.cost
        return self.is_right(goal) or (cheaper and self.other.no_worse(self.today, goal))


@dataclass(frozen=True, slots=True)
class Tally:
    """A recommender's cases in numbers: better than today, the constraint held, and what is saved.

    `right` and `harmless` are those of Case: `right` alone is what a recommender is measured by.
    `mended`: of those where today's misses the constraint, where the other one holds it; `median`
    and `total` savings in percent of cost.
    """

    right: Share
    harmless: Share
    holds: Share
    holds_on_average: Share
    today_holds: Share
    mended: Share
    median_saving_pct: float | None
    total_saving_pct: float | None


def tally(cases: Sequence[Case], goal: Goal) -> Tally:
    """Return a recommender's cases in numbers."""
    count = len(cases)
    missing = [c for c in cases if not c.today.holds(goal)]
    before, after = sum(c.today.cost for c in cases), sum(c.other.cost for c in cases)
    return Tally(
        right=Share(sum(c.is_right(goal) for c in cases), count),
        harmless=Share(sum(c.is_harmless(goal) for c in cases), count),
        holds=Share(sum(c.other.holds(goal) for c in cases), count),
        holds_on_average=Share(sum(c.other.holds_on_average(goal) for c in cases), count),
        today_holds=Share(count - len(missing), count),
        mended=Share(sum(c.other.holds(goal) for c in missing), len(missing)),
        median_saving_pct=float(np.median([c.saving_pct() for c in cases])) if cases else None,
        total_saving_pct=100.0 * (1 - after / before) if before else None,
    )


def is_right(
    answer: Answer, known: Mapping[str, Verdict], goal: Goal, least_saving_pct: float
) -> bool | None:
    """Say whether an answer is right by the truth; None: there is no advice.

    A change is right as Case says, "keep" if today's setting holds the constraint, and none that
    does saves enough.
    """
    today = known[TODAY]
    if answer.verdict == NO_ADVICE:
        return None
    if answer.verdict == ADVICE:
        return Case(today, known[answer.setting]).is_right(goal)
    if not today.holds(goal):
        return False
    holding = [found.cost for found in known.values() if found.holds(goal)]
    return min(holding) > today.cost * (1 - least_saving_pct / 100)


def best(verdicts: Mapping[str, Verdict], goal: Goal) -> str:
    """Return the setting that is best by the truth: what an oracle would choose."""
    return min(verdicts, key=lambda name: verdicts[name].rank(goal))
