"""Stated parameters of plants: what a plant file says goes before what was fitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, TypeVar

from hpabatch.engine.fit.request import PlantFiles
from hpabatch.engine.fit.stats import seed_of
from hpabatch.engine.fit.workload import GIVEN, NOT_IDENTIFIED, Fact
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.selection import check_signals, entries_of, with_others
from hpabatch.errors import RefusedError
from hpabatch.inputs.plants import (
    CapacityShare,
    PipelineOverride,
    PlantOverride,
    PodsOverride,
    SignalOverride,
    read_plant_file,
)
from hpabatch.model.plant import BACKLOG, DIVISIBLE, Pipeline, Plant, Pods, Signal
from hpabatch.model.selection import matches

MAX_FAILURES: Final = 100_000
"""Of one workload in one run; each takes some 40 µs to draw."""

_EXACT: Final = Context(prec=28)  # independent of the caller's context

# The name of a field in a file, and its unit; `_milli` are of the signal's own unit.
_SIGNAL_NAMES: Final = {
    "kind": ("kind", ""),
    "base_milli": ("base", "{}"),
    "ceiling_milli": ("ceiling", "{}"),
    "startup_milli": ("startup", "{}"),
    "rate_milli": ("rate", "{}/s"),
    "growth_milli_per_hour": ("growth", "{}/h"),
    "overload": ("overload", ""),
    "queue_milli": ("queue", "{}"),
    "request_milli": ("request", "{}"),
}
_PODS_NAMES: Final = {
    "reaction_ms": ("reaction", "s"),
    "termination_ms": ("termination", "s"),
    "serves_while_terminating": ("serves_while_terminating", ""),
    "capacity": ("capacity", "pods"),
    "removal": ("removal", ""),
    "restart_ms": ("restart", "s"),
    "surge_pct": ("surge", "%"),
    "unavailable_pct": ("unavailable", "%"),
    "initial_age_ms": ("initial_age", "s"),
    "mtbf_ms": ("mtbf", "s"),
}
_UNITS: Final = {"cpu": "cores", "memory": "bytes"}

Override = TypeVar("Override", SignalOverride, PodsOverride, PipelineOverride)


@dataclass(frozen=True, slots=True)
class Draws:
    """Inputs of random failures: a seed, the workload's name, and how far they must reach.

    `served_ms` is the most time that all pods together may serve in the run.
    """

    seed: int
    name: str
    served_ms: int


def read_plants(request: PlantFiles) -> tuple[PlantOverride, ...]:
    """Return the entries of all plant files (UsageError: one of them is wrong)."""
    return tuple(entry for path in request.plant for entry in read_plant_file(path))


def plan_overrides(
    overrides: Sequence[PlantOverride],
    candidates: Sequence[Candidate],
    everyone: Sequence[Candidate] = (),
) -> tuple[tuple[PlantOverride, ...], ...]:
    """Return the entries for each candidate, in their order (equal ones: one object).

    `everyone` are HPAs that exist besides: an entry may be for one of them alone.

    Raises:
        UsageError: a selector or a signal that matches nothing, with its place in the file.
    """
    known = with_others(candidates, everyone)
    chosen = entries_of(overrides, known)
    for entry in overrides:
        theirs = [c for c, entries in zip(known, chosen, strict=True) if entry in entries]
        places = [(glob, f"{entry.place}: signals.{glob}") for glob, _ in entry.signals]
        check_signals(places, theirs)
    return tuple(chosen[: len(candidates)])


def merged(statements: Iterable[Override], nothing: Override) -> Override:
    """Return what several statements say together: of each field the last that says something."""
    found = nothing
    for statement in statements:
        said = {f.name: getattr(statement, f.name) for f in fields(statement)}
        found = replace(found, **{name: v for name, v in said.items() if v is not None})
    return found


def signal_statement(entries: Sequence[PlantOverride], name: str) -> SignalOverride:
    """Return what the entries for an HPA say of a signal: its kind and rate before it is fitted."""
    theirs = (s for entry in entries for glob, s in entry.signals if matches(glob, name))
    found = merged(theirs, SignalOverride())
    return replace(found, ceiling_milli=None) if found.no_ceiling else found


def override(
    plant: Plant, entries: Sequence[PlantOverride], draws: Draws
) -> tuple[Plant, tuple[Fact, ...]]:
    """Return a plant with what the entries for its HPA state, and that as facts.

    Only signals and parameters that are stated change. Facts are named as in the file
    (`signals.resource/cpu.base`), in the metric's own unit and in seconds.

    Raises:
        RefusedError: more random failures than can be worked with, or classes that disagree.
    """
    facts: list[Fact] = []
    signals = {}
    for name, signal in plant.signals.items():
        stated = signal_statement(entries, name)
        known = _replaced(signal, stated)
        signals[name] = replace(known, ceiling_milli=None) if stated.no_ceiling else known
        facts += _facts(f"signals.{name}", stated, _SIGNAL_NAMES, unit_of(name))
        if stated.no_ceiling:
            facts.append(_word(f"signals.{name}.ceiling", "none"))
    pods = merged((e.pods for e in entries if e.pods is not None), PodsOverride())
    facts += [*_facts("pods", pods, _PODS_NAMES), *_facts_of_lists(pods)]
    pipelines = dict(plant.pipelines)
    for api in dict.fromkeys(api for entry in entries for api, _ in entry.pipelines):
        theirs = (p for entry in entries for name, p in entry.pipelines if name == api)
        statement = merged(theirs, PipelineOverride())
        pipelines[api] = _replaced(pipelines.get(api, Pipeline()), statement)
        names = {f.name: (f.name.removesuffix("_ms"), "s") for f in fields(statement)}
        facts += _facts(f"pipelines.{api}", statement, names)
        for name, signal in signals.items():
            if signal.api == api:
                signals[name], more = _without_lens(name, signal, statement)
                facts += more
    found = replace(
        plant, signals=signals, pods=_pods(plant.pods, pods, draws), pipelines=pipelines
    )
    capacity = [entry.capacity for entry in entries if entry.capacity is not None]
    if capacity:
        found, fact = _with_capacity(found, capacity[-1])
        facts.append(fact)
    return found, tuple(facts)


Part = TypeVar("Part", Signal, Pods, Pipeline)


def _replaced(part: Part, statement: SignalOverride | PodsOverride | PipelineOverride) -> Part:
    """Return a part of a plant with the fields of equal name that a statement gives."""
    own = {f.name for f in fields(part)}
    said = {f.name: getattr(statement, f.name) for f in fields(statement) if f.name in own}
    return replace(part, **{name: value for name, value in said.items() if value is not None})


def _without_lens(name: str, signal: Signal, stated: PipelineOverride) -> tuple[Signal, list[Fact]]:
    """Return a signal to whose stated lag or window a lens adds nothing, and that as facts."""
    sight, facts = signal.sight, []
    for of, what in (("lag", "later"), ("window", "smoothing")):
        if getattr(stated, f"{of}_ms") is not None and getattr(sight, f"{what}_ms"):
            sight = replace(sight, **{f"{what}_ms": 0})
            path = f"signals.{name}.lens.{what.replace('later', 'lag')}"
            note = f"the {of} of {signal.api} is stated"
            facts.append(Fact(path, 0.0, "s", None, None, GIVEN, note))
    return replace(signal, sight=sight), facts


def _pods(pods: Pods, stated: PodsOverride, draws: Draws) -> Pods:
    found = _replaced(pods, stated)
    if stated.shares is not None or stated.costs is not None:
        found = _with_classes(found, stated, draws)
    if stated.no_failures:
        return replace(found, failure_at_ms=())
    if stated.mtbf_ms is not None:
        return replace(found, failure_at_ms=failures(stated.mtbf_ms, draws))
    return found


def _with_classes(pods: Pods, stated: PodsOverride, draws: Draws) -> Pods:
    """Return pods with a share and a cost for each class, of which one or both were stated.

    A single one counts for all classes. Beside stated ones of another number, what was not stated
    becomes the default.
    """
    given = [len(part) for part in (stated.shares, stated.costs) if part is not None]
    classes = max(given)
    if set(given) - {1, classes}:
        raise RefusedError(
            f"{draws.name} has {len(pods.shares)} classes of pods by `shares` and "
            f"{len(pods.costs)} by `costs`; state as many of both"
        )
    if classes == 1:
        classes = max(len(pods.shares), len(pods.costs))
    shares, costs = pods.shares, pods.costs
    shares = shares if len(shares) in (1, classes) else Pods().shares
    costs = costs if len(costs) in (1, classes) else Pods().costs
    return replace(
        pods, shares=shares * (classes // len(shares)), costs=costs * (classes // len(costs))
    )


def failures(mtbf_ms: int, draws: Draws) -> tuple[int, ...]:
    """Return after how much serving time pods fail, in ms, ascending, up to `draws.served_ms`.

    The times between are exponential with mean `mtbf_ms`: -mtbf × ln(u), rounded half up to whole
    ms, u from a hash of seed, name and number. Decimal's logarithm is correctly rounded, so the
    numbers are the same on every machine.

    Raises:
        RefusedError: more than MAX_FAILURES are to be expected.
    """
    if draws.served_ms > MAX_FAILURES * mtbf_ms:
        raise RefusedError(
            f"{draws.name}: an mtbf of {mtbf_ms / 3_600_000:g} h means more than {MAX_FAILURES:,} "
            "failures in this run; state a longer one, or a shorter run"
        )
    found: list[int] = []
    numbers, at = _numbers(draws), 0
    while True:
        wait = _EXACT.multiply(_EXACT.ln(next(numbers)), Decimal(-mtbf_ms))
        at += max(1, int(wait.to_integral_value(ROUND_HALF_UP)))
        if at > draws.served_ms:
            return tuple(found)
        found.append(at)


def _numbers(draws: Draws) -> Iterator[Decimal]:
    """Yield even random numbers above 0, at most 1."""
    number = 0
    while True:
        found = seed_of(f"{draws.seed}/{draws.name}/{number}")
        yield _EXACT.divide(Decimal(found + 1), Decimal(2**64))
        number += 1


def _with_capacity(plant: Plant, stated: int | CapacityShare) -> tuple[Plant, Fact]:
    """Return the plant with its SLO capacity, and that as a fact; a share may be of the unknown."""
    found = next(
        ((n, s) for kind in (DIVISIBLE, BACKLOG) for n, s in plant.signals.items()
         if s.kind == kind), None)  # fmt: skip
    if found is None:
        note = "it has neither a divisible signal nor a backlog"
        return plant, Fact("capacity", None, "", None, None, NOT_IDENTIFIED, note)
    (name, signal), capacity, note = found, stated, found[0]
    is_backlog = signal.kind == BACKLOG
    if not isinstance(capacity, int):
        note = f"{capacity.share_milli / 10:g}% of {capacity.of}"
        whole = {
            "ceiling": None if is_backlog else signal.ceiling_milli,
            "request": None if is_backlog else signal.request_milli,
            "rate": signal.rate_milli if is_backlog else None,
        }[capacity.of]
        unknown = f"{note}: the {capacity.of} of {name} is not known"
        base = 0 if is_backlog else signal.base_milli
        capacity = (whole or 0) * capacity.share_milli // 1000 - base
        note = f"{note} of {name}"
        if not whole or capacity <= 0:
            why = f"{note} is no more than its base" if whole else unknown
            return plant, Fact("capacity", None, "", None, None, NOT_IDENTIFIED, why)
    unit = unit_of(name) + ("/s" if is_backlog else "")
    fact = Fact("capacity", capacity / 1000, unit, None, None, GIVEN, note)
    return replace(plant, capacity_milli=capacity), fact


def amount_of(signal: str, milli: float) -> str:
    """Return an amount of a signal for sentences: `0.308 cores`, `320Mi`, `12`."""
    unit = unit_of(signal)
    if unit == "bytes":
        return f"{milli / 1000 / 2**20:.3g}Mi"
    return f"{milli / 1000:.3g} {unit}".rstrip()


def unit_of(signal: str) -> str:
    """Return the unit of a signal's quantities: `cores`, `bytes`, or "" for a plain number."""
    kind, _, rest = signal.partition("/")
    return _UNITS.get(rest.rpartition("/")[2], "") if kind in ("resource", "container") else ""


def _word(name: str, note: str) -> Fact:
    return Fact(name, None, "", None, None, GIVEN, note)


def _facts(
    path: str, statement: object, names: dict[str, tuple[str, str]], own_unit: str = ""
) -> Iterator[Fact]:
    for field_name, (name, unit) in names.items():
        value = getattr(statement, field_name)
        if value is None:
            continue
        if isinstance(value, str | bool):
            yield _word(f"{path}.{name}", str(value).lower())
            continue
        per = 1000 if unit == "s" or "milli" in field_name else 1
        yield Fact(f"{path}.{name}", value / per, unit.format(own_unit), None, None, GIVEN)


def _facts_of_lists(pods: PodsOverride) -> Iterator[Fact]:
    """Yield the facts of start-up times (their mean and range), classes and absent failures."""
    if pods.startup_ms is not None:
        times = [sum(pair) / 1000 for pair in pods.startup_ms]
        mean, count = sum(times) / len(times), len(times)
        low, high = (min(times), max(times)) if count > 1 else (None, None)
        note = f"{count} equally likely" if count > 1 else ""
        yield Fact("pods.startup", mean, "s", low, high, GIVEN, note)
    if pods.shares is not None:
        yield _word("pods.shares", ", ".join(f"{share / 1000:g}" for share in pods.shares))
    if pods.costs is not None:
        yield _word("pods.costs", ", ".join(map(str, pods.costs)))
    if pods.no_failures:
        yield _word("pods.mtbf", "none")
