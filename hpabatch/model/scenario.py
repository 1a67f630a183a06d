"""Scenarios: changes to a workload besides the recording.

A scenario is a list of steps; docs/scenarios.md says what each does. Times are ms, factors and
shares thousandths.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from hpabatch.model.selection import Selector
from hpabatch.model.times import show_duration, show_instant

WEEK_MS: Final = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant: ms since 1970, or `relative` to the start of the run."""

    ms: int
    relative: bool = True

    def instant_ms(self, start_ms: int) -> int:
        """Return the instant in ms since 1970, for a run that starts at `start_ms`."""
        return start_ms + self.ms if self.relative else self.ms

    def __str__(self) -> str:
        """Return it as written in a file."""
        return show_duration(self.ms) if self.relative else show_instant(self.ms)


START: Final = Moment(0)


@dataclass(frozen=True, slots=True)
class Times:
    """Times of an event: each of `at`; with `every_ms` repeated from the only one.

    Repetitions continue until the run ends.
    """

    at: tuple[Moment, ...]
    every_ms: int | None = None

    def instants_ms(self, start_ms: int, end_ms: int) -> tuple[int, ...]:
        """Return the instants, those of a repetition up to the run's end."""
        first = [moment.instant_ms(start_ms) for moment in self.at]
        if self.every_ms is None:
            return tuple(first)
        return tuple(range(first[0], end_ms, self.every_ms))


@dataclass(frozen=True, slots=True)
class Growth:
    """Work times `factor_milli` / 1000 from a moment on, reached evenly in `ramp_ms`.

    `since` None: all of the work; with a ramp, from the run's start on.
    """

    factor_milli: int
    since: Moment | None = None
    ramp_ms: int = 0

    @property
    def is_even(self) -> bool:
        """Whether all work grows by the same factor."""
        return self.since is None and self.ramp_ms == 0


@dataclass(frozen=True, slots=True)
class Shift:
    """Work comes later by `by_ms`, or earlier where it is negative."""

    by_ms: int


@dataclass(frozen=True, slots=True)
class Spike:
    """Work times `factor_milli` / 1000 for a while, reached and left in `ramp_ms` each."""

    times: Times
    for_ms: int
    factor_milli: int
    ramp_ms: int = 0


@dataclass(frozen=True, slots=True)
class Repeat:
    """From `at` on (None: from the end of the work) a period of the work, repeated.

    It is `period_ms` long and begins at `since` (None: it is the last period of the work).
    """

    period_ms: int = WEEK_MS
    since: Moment | None = None
    at: Moment | None = None


@dataclass(frozen=True, slots=True)
class Overlay:
    """The work of another HPA, times `factor_milli` / 1000, is added.

    `history` None is the history of the run itself. `hpa` is namespace/name or
    cluster/namespace/name. With `at` the other's work begins there, else it stays where it was.
    """

    hpa: str
    history: str | None = None
    factor_milli: int = 1000
    at: Moment | None = None


@dataclass(frozen=True, slots=True)
class SetBounds:
    """Other minReplicas or maxReplicas of the HPA from `at` on, for ever or for a while."""

    min_replicas: int | None = None
    max_replicas: int | None = None
    at: Moment = START
    for_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """The target's size is set by hand."""

    times: Times
    replicas: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """A new revision of the pods is rolled out."""

    times: Times


@dataclass(frozen=True, slots=True)
class Outage:
    """Metrics APIs measure nothing for a while."""

    times: Times
    for_ms: int
    apis: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """A share of the pods, in thousandths, is lost at once."""

    times: Times
    share_milli: int


Action: TypeAlias = (
    Growth | Shift | Spike | Repeat | Overlay | SetBounds | Scale | Rollout | Outage | Lose
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: an action on HPAs and signals (globs; none: all with work).

    `place` is its position in a file, for messages.
    """

    action: Action
    selector: Selector = field(default_factory=Selector)
    signals: tuple[str, ...] = ()
    place: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps in order; each is applied to the result of the ones before."""

    steps: tuple[Step, ...] = ()
    description: str = ""

    def then(self, other: Scenario) -> Scenario:
        """Return this scenario with the steps of another after its own."""
        both = " + ".join(text for text in (self.description, other.description) if text)
        return replace(self, steps=(*self.steps, *other.steps), description=both)
