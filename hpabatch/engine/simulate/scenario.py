"""Scenarios applied to workloads: pure functions of whole numbers, so a run gives the same bytes.

`plan_scenario` finds, once for a fleet, which steps are for which HPA and refuses what cannot be
meant; `apply` then changes one workload.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hpabatch.engine.fleet.candidates import Candidate, SpecPeriod
from hpabatch.engine.fleet.frames import ALWAYS_MS, NEVER_MS
from hpabatch.engine.fleet.selection import check_signals, entries_of
from hpabatch.engine.simulate.scenario_work import PIECE_MS, Run, Work, changed, recorded
from hpabatch.errors import RefusedError, UsageError
from hpabatch.inputs.document_kinds import Moment
from hpabatch.inputs.scenarios import (
    Action,
    Growth,
    Lose,
    Outage,
    Repeat,
    Rollout,
    Scale,
    Scenario,
    SetBounds,
    Shift,
    Spike,
    Step,
    Times,
)
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.plant import (
    AGE,
    LOSE,
    ROLLOUT,
    SCALE,
    Event,
    Pipeline,
    Plant,
)
from hpabatch.model.selection import matches_any
from hpabatch.model.times import show_instant
from hpabatch.model.versions import Profile
from hpabatch.packing.workloads import Workload


@dataclass(frozen=True, slots=True)
class Applied:
    """A workload under a scenario. Outages are gaps of the pipelines of `workload.plant`.

    `events` are in order of time, `notes` say what a step could not do here.
    """

    workload: Workload
    periods: tuple[SpecPeriod, ...]
    events: tuple[Event, ...] = ()
    notes: tuple[str, ...] = ()


def plan_scenario(
    scenario: Scenario, candidates: Sequence[Candidate], start_ms: int, end_ms: int
) -> tuple[Scenario, ...]:
    """Return, for each candidate, the scenario of the steps that are for it (equal: one object).

    `candidates` are all HPAs that the scenario may be about, the run is from `start_ms` to
    `end_ms` (exclusive), in ms since 1970.

    Raises:
        UsageError: a time outside of the run, a selector or signal that matches nothing, two steps
            that contradict each other; the message names the place in the file.
    """
    for step in scenario.steps:
        _check_times(step, start_ms, end_ms)
    chosen = entries_of(scenario.steps, candidates)
    for step in scenario.steps:
        theirs = [c for c, steps in zip(candidates, chosen, strict=True) if step in steps]
        check_signals([(glob, step.place) for glob in step.signals], theirs)
    made: dict[int, Scenario] = {}
    for steps in chosen:
        if id(steps) not in made:
            _check_conflicts(steps, start_ms, end_ms)
            made[id(steps)] = replace(scenario, steps=steps)
    return tuple(made[id(steps)] for steps in chosen)


def _check_times(step: Step, start_ms: int, end_ms: int) -> None:
    """Refuse instants outside of the run (UsageError)."""
    for moment in _moments(step.action):
        instant = moment.instant_ms(start_ms)
        if not start_ms <= instant < end_ms:
            shown = f"{moment} ({show_instant(instant)})" if moment.relative else str(moment)
            raise UsageError(
                f"{step.place}: {shown} is outside the run, which is from "
                f"{show_instant(start_ms)} to {show_instant(end_ms)}"
            )


def _moments(action: Action) -> Iterator[Moment]:
    match action:
        case Spike() | Scale() | Rollout() | Outage() | Lose():
            yield from action.times.at
        case Growth() if action.since is not None:
            yield action.since
        case SetBounds():
            yield action.at
        case Repeat() if action.at is not None:
            yield action.at


def _check_conflicts(steps: Sequence[Step], start_ms: int, end_ms: int) -> None:
    """Refuse two steps for one HPA of which only one can hold (UsageError)."""
    first: dict[tuple[object, ...], Step] = {}
    beyond: Step | None = None
    for step in steps:
        if isinstance(step.action, Repeat) and beyond is not None:
            raise UsageError(
                f"{step.place}: it would overwrite what {beyond.place} does after the recorded "
                "work; put it above that"
            )
        if isinstance(step.action, Spike) or (
            isinstance(step.action, Growth) and not step.action.is_even
        ):
            beyond = step
        for key, told in _exclusive(step, start_ms, end_ms):
            earlier = first.setdefault(key, step)
            if earlier is not step:
                raise UsageError(f"{step.place}: {earlier.place} {told} for the same HPA; keep one")


def _exclusive(step: Step, start_ms: int, end_ms: int) -> Iterator[tuple[tuple[object, ...], str]]:
    """Yield what no other step for the same HPA may be, as a key and in words."""
    match step.action:
        case Repeat():
            yield ("repeat", step.signals), "repeats the same work"
        case SetBounds() as action:
            at = action.at.instant_ms(start_ms)
            for name in ("min_replicas", "max_replicas"):
                if getattr(action, name) is not None:
                    yield (name, at), f"sets the same bound at {action.at}"
        case Scale() as action:
            for instant in action.times.instants_ms(start_ms, end_ms):
                yield ("scale", instant), f"scales at {show_instant(instant)} too"
        case Rollout() as action:
            for instant in action.times.instants_ms(start_ms, end_ms):
                yield ("rollout", instant), f"begins a rollout at {show_instant(instant)} too"


def apply(
    scenario: Scenario,
    workload: Workload,
    periods: tuple[SpecPeriod, ...],
    start_ms: int,
    end_ms: int,
    *,
    profile: Profile,
    piece_ms: int = PIECE_MS,
) -> Applied:
    """Return a workload and its HPA's specs under a scenario whose steps are all for it.

    The run is from `start_ms` to `end_ms` (exclusive). `profile` says which edits of the HPA are
    valid. Work is cut into pieces of at most `piece_ms` where a step needs finer ones. Nothing that
    is given is changed.
    A workload of which nothing changes is the same object.

    Raises:
        UsageError: a time outside of the run; the message names the place in the file.
        RefusedError: a step that this HPA cannot have; the message names the place and the HPA.
    """
    name, run = (
        f"{workload.namespace}/{workload.hpa}",
        Run.of(scenario.steps, start_ms, end_ms, piece_ms),
    )
    before = work = recorded(workload.work_start_ms, workload.resolution_ms, workload.work)
    events, notes, gaps = list[Event](), list[str](), dict[str, list[tuple[int, int]]]()

    def add(kind: str, times: Times, value: int = 0) -> None:
        events.extend(Event(at, kind, value) for at in times.instants_ms(start_ms, end_ms))

    for step in scenario.steps:
        _check_times(step, start_ms, end_ms)
        try:
            match step.action:
                case Growth() | Shift() | Spike() | Repeat() as action:
                    names = _signals(work, workload.plant, step.signals)
                    after = changed(work, names, action, run) if names else work
                    if not names:
                        told = "it has no such signal with work; nothing is changed"
                        notes.append(f"{step.place}: {name}: {told}")
                    elif after is work and isinstance(action, Repeat):
                        told = "its work reaches to the run's end; nothing is repeated"
                        notes.append(f"{step.place}: {name}: {told}")
                    work = after
                case SetBounds() as action:
                    periods = edited(periods, action, start_ms, workload.hpa, profile)
                case Scale() as action:
                    add(SCALE, action.times, action.replicas)
                case Rollout() as action:
                    add(ROLLOUT, action.times)
                case Lose() as action:
                    add(LOSE, action.times, action.share_milli)
                case Outage() as action:
                    instants = action.times.instants_ms(start_ms, end_ms)
                    for api in action.apis:
                        gaps.setdefault(api, []).extend((t, t + action.for_ms) for t in instants)
        except RefusedError as error:
            raise RefusedError(f"{step.place}: {name}: {error}") from None
    if gaps:
        workload = replace(workload, plant=with_gaps(workload.plant, gaps))
    if work is not before:
        workload = replace(
            workload,
            work=work.series,
            work_start_ms=work.start_ms,
            resolution_ms=work.resolution_ms,
        )
    in_order = tuple(sorted(events, key=lambda event: event.at_ms))
    return Applied(workload, periods, in_order, tuple(notes))


def _signals(work: Work, plant: Plant, globs: Sequence[str]) -> list[str]:
    """Return the signals with work that a step is for: a pod's age makes no work."""
    return [
        name
        for name, values in work.series.items()
        if values.size
        and name in plant.signals
        and plant.signals[name].kind != AGE
        and (not globs or matches_any(globs, name))
    ]


def with_bounds(
    scenario: Scenario, name: str, spec: HPASpec, start_ms: int, profile: Profile
) -> tuple[SpecPeriod, ...]:
    """Return a spec over time under the steps of a scenario that set bounds.

    Args:
        scenario: of the HPA alone, as `plan_scenario` returns it.
        name: of the HPA, for messages.
        spec: as it is without the scenario.
        start_ms: the run's start.
        profile: says which edits are valid.

    Raises:
        RefusedError: a step that the spec cannot have; the message names the place.
    """
    periods: tuple[SpecPeriod, ...] = (SpecPeriod(ALWAYS_MS, NEVER_MS, spec),)
    for step in scenario.steps:
        if isinstance(step.action, SetBounds):
            try:
                periods = edited(periods, step.action, start_ms, name, profile)
            except RefusedError as error:
                raise RefusedError(f"{step.place}: {error}") from None
    return periods


def _checked(name: str, profile: Profile, before: HPASpec, after: HPASpec) -> HPASpec:
    """Return an edited spec; one that the API server would refuse is refused."""
    hpa = HPA(name=name, spec=before)
    known = {str(complaint) for complaint in validate_hpa(hpa, profile)}
    for complaint in validate_hpa(replace(hpa, spec=after), profile, old=hpa):
        if str(complaint) not in known:
            raise RefusedError(
                f"the API server would refuse the edit: {complaint}; set both bounds"
            )
    return after


def edited(
    periods: Sequence[SpecPeriod],
    action: SetBounds,
    start_ms: int,
    name: str,
    profile: Profile,
) -> tuple[SpecPeriod, ...]:
    """Return an HPA's specs over time with other bounds for a while; periods are cut there.

    Raises:
        RefusedError: the API server would refuse the edit.
    """
    first = action.at.instant_ms(start_ms)
    last = NEVER_MS if action.for_ms is None else first + action.for_ms
    found: list[SpecPeriod] = []
    for period in periods:
        begin, end = max(period.from_ms, first), min(period.to_ms, last)
        if begin >= end:
            found.append(period)
            continue
        low, high = action.min_replicas, action.max_replicas
        spec = replace(
            period.spec,
            min_replicas=period.spec.min_replicas if low is None else low,
            max_replicas=period.spec.max_replicas if high is None else high,
        )
        parts = (
            SpecPeriod(period.from_ms, begin, period.spec),
            SpecPeriod(begin, end, _checked(name, profile, period.spec, spec)),
            SpecPeriod(end, period.to_ms, period.spec),
        )
        found += [part for part in parts if part.from_ms < part.to_ms]
    return tuple(found)


def with_gaps(plant: Plant, gaps: dict[str, list[tuple[int, int]]]) -> Plant:
    """Return a plant whose pipelines have more gaps, in order and joined where they meet."""
    pipelines = dict(plant.pipelines)
    for api, more in gaps.items():
        before = pipelines.get(api, Pipeline())
        joined: list[tuple[int, int]] = []
        for begin, end in sorted([*before.gaps_ms, *more]):
            if joined and begin <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((begin, end))
        pipelines[api] = replace(before, gaps_ms=tuple(joined))
    return replace(plant, pipelines=pipelines)
