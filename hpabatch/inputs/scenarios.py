"""Scenario files: changes to a workload besides the recording.

A scenario is a list of steps; docs/scenarios.md says what each does, its tables are made from the
keys below. Times are ms, factors and shares thousandths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Key, ListOf, Record, key, member_of, part
from hpabatch.inputs.document_kinds import Moment, Selector
from hpabatch.inputs.documents import Place, read_document
from hpabatch.inputs.kubernetes_yaml import plain_value
from hpabatch.model.plant import PIPELINES
from hpabatch.model.times import show_duration

WHAT: Final = "scenario"
WEEK_MS: Final = 7 * 86_400_000
START: Final = Moment(0)
_MAX_REPLICAS = 100_000
_MAX_STEPS = 10_000
_MINUTE_MS = 60_000
_SECOND_MS = 1000
_ALL_THE_TIME: Final = kinds.duration(_SECOND_MS)


@dataclass(frozen=True, slots=True)
class Times:
    """Times of an event: each of `at`; with `every_ms` repeated from the only one.

    Repetitions continue until the run ends.
    """

    at: tuple[Moment, ...] = key("at", kinds.MOMENTS, "when; of a list, at each of the times")
    every_ms: int | None = key(
        "every", kinds.duration(_MINUTE_MS),
        "the interval of repetitions until the run ends; `at` is the first time", None, "once",
    )  # fmt: skip

    def instants_ms(self, start_ms: int, end_ms: int) -> tuple[int, ...]:
        """Return the instants, those of a repetition up to the run's end."""
        first = [moment.instant_ms(start_ms) for moment in self.at]
        if self.every_ms is None:
            return tuple(first)
        return tuple(range(first[0], end_ms, self.every_ms))

    def checked(self, place: Place) -> Times:
        """Refuse (MistakesError) several times that are repeated."""
        if self.every_ms is not None and len(self.at) > 1:
            member_of(place, "every").refuse(
                f"expected one time in `at` with `every`, got {len(self.at)}"
            )
        return self

    def check_length(self, place: Place, for_ms: int) -> None:
        """Refuse (MistakesError) repetitions that begin before the one before has ended."""
        if self.every_ms is not None and for_ms > self.every_ms:
            member_of(place, "every").refuse(
                f"expected at least `for`, which is {show_duration(for_ms)}, got "
                f"{show_duration(self.every_ms)}"
            )


@dataclass(frozen=True, slots=True)
class Growth:
    """Work times `factor_milli` / 1000 from a moment on, reached evenly in `ramp_ms`.

    `since` None: all of the work; with a ramp, from the run's start on.
    """

    factor_milli: int = key("factor", kinds.FACTOR, "what the work is multiplied by")
    since: Moment | None = key(
        "from", kinds.MOMENT, "since when", None, "all of the work; with `ramp` the run's start"
    )
    ramp_ms: int = key(
        "ramp", kinds.duration(), "reached evenly in this time, from `from` on", 0, "0s, at once"
    )

    @property
    def is_even(self) -> bool:
        """Whether all work grows by the same factor."""
        return self.since is None and self.ramp_ms == 0


@dataclass(frozen=True, slots=True)
class Shift:
    """Work comes later by `by_ms`, or earlier where it is negative."""

    by_ms: int = key("by", kinds.SIGNED_DURATION, "how much")


@dataclass(frozen=True, slots=True)
class Spike:
    """Work times `factor_milli` / 1000 for a while, reached and left in `ramp_ms` each."""

    times: Times = part(Times)
    for_ms: int = key("for", _ALL_THE_TIME, "how long in all")
    factor_milli: int = key("factor", kinds.FACTOR, "what the work is multiplied by")
    ramp_ms: int = key(
        "ramp", kinds.duration(),
        "this much of `for` leads evenly up to the factor, and as much back", 0, "0s, at once",
    )  # fmt: skip

    def checked(self, place: Place) -> Spike:
        """Refuse (MistakesError) ramps that are longer than the spike."""
        self.times.check_length(place, self.for_ms)
        if 2 * self.ramp_ms > self.for_ms:
            member_of(place, "ramp").refuse(
                f"expected at most half of `for`, which is {show_duration(self.for_ms)}, got "
                f"{show_duration(self.ramp_ms)}"
            )
        return self


@dataclass(frozen=True, slots=True)
class Repeat:
    """From `at` on (None: from the end of the work) a period of the work, repeated.

    It is `period_ms` long and begins at `since` (None: it is the last period of the work).
    """

    period_ms: int = key("period", kinds.PERIOD, "how long the stretch is")
    since: Moment | None = key(
        "from", kinds.MOMENT, "where the stretch begins", None,
        "so that it is the last one recorded",
    )  # fmt: skip
    at: Moment | None = key(
        "at", kinds.MOMENT, "from when on it is repeated", None, "where the recorded work ends"
    )


@dataclass(frozen=True, slots=True)
class SetBounds:
    """Other minReplicas or maxReplicas of the HPA from `at` on, for ever or for a while."""

    min_replicas: int | None = key(
        "minReplicas", kinds.whole(0, _MAX_REPLICAS), "the new minimum", None, "as it was"
    )
    max_replicas: int | None = key(
        "maxReplicas", kinds.whole(1, _MAX_REPLICAS), "the new maximum", None, "as it was"
    )
    at: Moment = key(
        "at", kinds.MOMENT, "since when, also over later recorded edits", START, "the run's start"
    )
    for_ms: int | None = key(
        "for", _ALL_THE_TIME, "how long; then it is as recorded again", None, "until the end"
    )

    def checked(self, place: Place) -> SetBounds:
        """Refuse (MistakesError) no bound, and a minimum above the maximum."""
        low, high = self.min_replicas, self.max_replicas
        if low is None and high is None:
            place.refuse("expected minReplicas, maxReplicas or both, got neither")
        if low is not None and high is not None and low > high:
            member_of(place, "minReplicas").refuse(
                f"expected at most maxReplicas, which is {high}, got {low}"
            )
        return self


@dataclass(frozen=True, slots=True)
class Scale:
    """The target's size is set by hand."""

    times: Times = part(Times)
    replicas: int = key("replicas", kinds.whole(0, _MAX_REPLICAS), "the size")


@dataclass(frozen=True, slots=True)
class Rollout:
    """A new revision of the pods is rolled out."""

    times: Times = part(Times)


@dataclass(frozen=True, slots=True)
class Outage:
    """Metrics APIs measure nothing for a while."""

    times: Times = part(Times)
    for_ms: int = key("for", _ALL_THE_TIME, "how long")
    apis: tuple[str, ...] = key(
        "api",
        ListOf(kinds.word(*PIPELINES), f"one of {', '.join(PIPELINES)}, or a list of them"),
        "which metrics APIs; `external` stands for Object and External metrics",
    )

    def checked(self, place: Place) -> Outage:
        """Refuse (MistakesError) outages that overlap."""
        self.times.check_length(place, self.for_ms)
        return self


@dataclass(frozen=True, slots=True)
class Lose:
    """A share of the pods, in thousandths, is lost at once."""

    times: Times = part(Times)
    share_milli: int = key("share", kinds.SHARE, "how many of the pods")


Action: TypeAlias = Growth | Shift | Spike | Repeat | SetBounds | Scale | Rollout | Outage | Lose

_RECORDS: Final = (
    Record(
        Growth, "growth",
        "The work is multiplied. What pods use without work (the base, memory by age) stays.",
        short="factor", example="- growth: 1.4",
    ),
    Record(
        Shift, "shift",
        "The work comes later, or earlier. Its first, or last, value fills the gap that is left.",
        short="by", example="- shift: -1h30m",
    ),
    Record(
        Spike, "spike",
        "The work is multiplied for a time (a factor below 1 makes a dip). Spikes that overlap "
        "multiply.",
        example="- spike: {at: 12h, for: 20m, factor: 3, ramp: 2m, every: 1d}",
    ),
    Record(
        Repeat, "repeat",
        "A stretch of the recorded work is repeated, without gaps and in phase, to fill the run.",
        short="period", example="- repeat: week",
    ),
    Record(
        SetBounds, "set",
        "The HPA is edited. It must stay valid: minReplicas not above maxReplicas.",
        example="- set: {minReplicas: 3, maxReplicas: 40, at: 6h, for: 10h}",
    ),
    Record(
        Scale, "scale",
        "The target is scaled by hand; the HPA continues from that size (from 0 it does not).",
        example="- scale: {replicas: 10, at: 4h}",
    ),
    Record(
        Rollout, "rollout", "A new revision is rolled out: pods are replaced step by step.",
        short="at", example="- rollout: [2h, 2026-10-07T15:00:00Z]",
    ),
    Record(
        Outage, "outage",
        "Nothing is scraped for a time; the rules see the last samples until they are too old.",
        example="- outage: {api: resource, at: 9h, for: 10m}",
    ),
    Record(
        Lose, "lose",
        "A share of the pods is lost at once (a node, a zone); new ones replace them.",
        example="- lose: {share: 30%, at: 14h}",
    ),
)  # fmt: skip
ACTIONS: Final = {record.title: record for record in _RECORDS}
_WORK_NAMES: Final = ("growth", "shift", "spike", "repeat")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: an action on HPAs and signals (globs; none: all with work).

    `place` is its position in a file, for messages.
    """

    action: Action
    selector: Selector = part(Selector)
    signals: tuple[str, ...] = key(
        "signals", kinds.SIGNAL_GLOBS,
        f"with {', '.join(_WORK_NAMES)}: only for these signals", (), "all that have work",
    )  # fmt: skip
    place: str = field(default="", compare=False)

    @staticmethod
    def check_keys(place: Place) -> None:
        """Refuse (MistakesError) a step that has not exactly one action."""
        actions = _actions_at(place)
        if not actions:
            place.refuse(f"expected one of {', '.join(ACTIONS)}, got a step without an action")
        if len(actions) > 1:
            place.members()[actions[1]].refuse(
                f"expected one action, got {actions[0]} and {actions[1]}",
                f"begin a new step for {actions[1]}, with a dash",
            )

    def checked(self, place: Place) -> Step:
        """Return it with the place of its action (MistakesError: signals of one without work)."""
        (name,) = _actions_at(place)
        if self.signals and name not in _WORK_NAMES:
            place.members()["signals"].refuse(
                f"expected no signals with {name}; they go with {', '.join(_WORK_NAMES)}"
            )
        return replace(self, place=str(place.members()[name]))


def _actions_at(place: Place) -> list[str]:
    return (
        [name for name in place.value if name in ACTIONS]
        if isinstance(place.value, Mapping)
        else []
    )


STEP: Final = Record(
    Step,
    "A step",
    "Exactly one action, and the HPAs that it is for: those that match both `hpa` and `where`, if "
    "both are given.",
    more=tuple(Key(name, record, field="action") for name, record in ACTIONS.items()),
)
_STEPS: Final = ListOf(STEP, "a list of steps, each after a dash", _MAX_STEPS, only_lists=True)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps in order; each is applied to the result of the ones before."""

    steps: tuple[Step, ...] = key("steps", _STEPS, "the steps, in order", (), "**required**")
    description: str = key(
        "description", kinds.text(), "a description, shown with results", "", "none"
    )

    def then(self, other: Scenario) -> Scenario:
        """Return this scenario with the steps of another after its own."""
        both = " + ".join(text for text in (self.description, other.description) if text)
        return replace(self, steps=(*self.steps, *other.steps), description=both)


SCENARIO: Final = Record(
    Scenario, "A scenario", "A list of steps; or a mapping of them with a description."
)


def read_scenario(path: Path | str) -> Scenario:
    """Return the scenario of a file.

    Raises:
        UsageError: the file cannot be read; all mistakes in it with their lines and keys.
    """
    return scenario_of(read_document(path, WHAT))


def scenario_of(document: Place) -> Scenario:
    """Return the scenario of a document.

    Raises:
        MistakesError: all mistakes in it.
    """
    if isinstance(document.value, list):
        steps = document.within("steps", document.value, document.node)
        return Scenario(_STEPS.read(steps))
    if not isinstance(document.value, Mapping):
        document.expected(_STEPS.wants)
    first = next((str(key) for key in document.value if key in STEP.names), None)
    if "steps" not in document.value and first is not None:
        document.expected(_STEPS.wants, f"begin each with a dash: - {first}: …")
    found: Scenario = SCENARIO.read(document)
    if not found.steps:
        document.at("steps").expected(_STEPS.wants)
    return found


def parse_growth(text: str, option: str = "--growth") -> Scenario:
    """Return the scenario of `--growth 1.4`: one step that multiplies all work.

    Raises:
        UsageError: not a factor; the message names the option.
    """
    factor: int = kinds.FACTOR.read(Place(option, "", plain_value(text.strip())))
    step = Step(Growth(factor), Selector(place=option), place=option)
    return Scenario((step,), f"{option} {text.strip()}")


def grown_scenario(path: str | Path | None, growth: str | None) -> Scenario | None:
    """Return the scenario of a file, `--growth` before its steps; None without either.

    Raises:
        UsageError: it cannot be read, or is none; the growth is not a factor.
    """
    grown = None if growth is None else parse_growth(growth)
    if path is None:
        return grown
    scenario = read_scenario(path)
    return scenario if grown is None else grown.then(scenario)
