"""Fitted work of a workload to be simulated: gaps, parts that are not known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from hpabatch.engine.fit.run import Fit
from hpabatch.engine.fit.workload import ASSUMED, GUESSED, NOT_IDENTIFIED, OPEN, Fact
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.inputs.lenses import ratios_words
from hpabatch.inputs.plants import PlantOverride
from hpabatch.model.plant import AGE, CEILINGS_PCT, Plant, signal_name
from hpabatch.model.printable import counted
from hpabatch.model.selection import matches
from hpabatch.packing.workloads import primary_signal

Target = tuple[str, str, str, str]

Key = tuple[str, str, str]


def assumed_facts(plant: Plant, known: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return every parameter of a plant that no fact names yet, as assumed."""
    names = {fact.name for fact in known}
    parts: list[tuple[str, object]] = [("pods", plant.pods)]
    parts += [(f"signals.{name}", signal) for name, signal in plant.signals.items()]
    parts += [(f"pipelines.{api}", pipeline) for api, pipeline in plant.pipelines.items()]
    found = []
    for prefix, part in parts:
        for item in fields(part):  # type: ignore[arg-type]
            short = _SHORT.sub("", item.name)
            value = getattr(part, item.name)
            if f"{prefix}.{short}" in names or item.name in _NOT_PARAMETERS:
                continue
            found.append(_assumed(f"{prefix}.{short}", item.name, value))
    return tuple(found)


_SHORT = re.compile("_(ms|milli|milli_per_hour|pct)$")
_NOT_PARAMETERS = (
    *("kind", "api", "unit_milli", "observed_milli", "levels_milli"),
    *("gaps_ms", "failure_at_ms", "sight"),
)


def _assumed(name: str, field_name: str, value: object) -> Fact:
    """Return a parameter's value as a fact: times in seconds, amounts in units, else as text."""
    if isinstance(value, bool) or not isinstance(value, int):
        text = "none" if value is None else str(value)
        return Fact(name, None, "", None, None, ASSUMED, text)
    if field_name.endswith("_ms"):
        return Fact(name, value / 1000, "s", None, None, ASSUMED)
    if "milli" in field_name:
        return Fact(name, value / 1000, "", None, None, ASSUMED)
    return Fact(name, float(value), "%" if field_name.endswith("_pct") else "", None, None, ASSUMED)


def unproved(candidate: Candidate, found: Fit, plant: Plant) -> tuple[str, ...]:
    """Return why the signals that may drive the HPA give no advice, one reason each."""
    reasons = []
    for name in dict.fromkeys(signal_name(m) for p in candidate.periods for m in p.spec.metrics):
        signal = plant.signals.get(name)
        if signal is None:
            continue
        kind = found.fact(f"signals.{name}.kind")
        if kind is not None and kind.source == GUESSED:
            reasons.append(f"{name} is guessed by its name to be {kind.note}; state its kind")
        if signal.kind == AGE:
            reasons.append(f"{name} is taken to grow with a pod's age, which nothing has proved")
        base = found.fact(f"signals.{name}.base")
        if base is not None and base.source == NOT_IDENTIFIED and name != primary_signal(plant):
            reasons.append(f"{name}: {base.note or 'its base is not identified'}")
    return tuple(reasons)


def hangs_on_guess(facts: Sequence[Fact]) -> bool:
    """Say whether a kind of an HPA's signals is guessed."""
    return any(f.source == GUESSED and f.name.endswith(".kind") for f in facts)


def guesses_told(guessed: Mapping[Key, bool], history: str) -> list[str]:
    """Return in a sentence which HPAs hang on a guess of a kind, nothing if none does."""
    found = _names_of(guessed)
    if not found:
        return []
    return [
        f"what drives a metric is guessed by its name for {_share_of(guessed, found)}; correct or "
        f"confirm it: {_ask(history)}"
    ]


def ceilings_told(without: Mapping[Key, bool], history: str) -> list[str]:
    """Return in a sentence which HPAs have a ceiling assumed, as no bound is known."""
    found = _names_of(without)
    if not found:
        return []
    return [
        f"ceiling assumed: no limit of a pod's usage is known for {_share_of(without, found)}, so "
        f"time is counted above {CEILINGS_PCT[0]}% to {CEILINGS_PCT[-1]}% of the highest usage "
        f"seen; state a ceiling: {_ask(history)}"
    ]


def ratios_told(plan: ReplayPlan) -> list[str]:
    """Return a sentence for each source of which only the ratio of scale to targets is known."""
    return [
        "results, base usage included, are relative to today's target, as the recording cannot "
        f"tell scaled samples from other targets: {words}"
        for words in ratios_words(plan.ratios, plan.lenses)
    ]


def has_no_ceiling(facts: Sequence[Fact]) -> bool:
    """Say whether ceilings are assumed for some work of an HPA, and nobody has stated any."""
    names = {fact.name for fact in facts}
    ceilings = [f.name for f in facts if f.source == OPEN and f.name.endswith(".ceiling")]
    return any(f"{name.removesuffix('ceiling')}highest" in names for name in ceilings)


def _names_of(told: Mapping[Key, bool]) -> list[str]:
    return ["/".join(key[1:]) for key, is_so in told.items() if is_so]


def _share_of(told: Mapping[Key, bool], found: Sequence[str]) -> str:
    some = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
    return f"{len(found)} of {counted(len(told), 'HPA')} ({some})"


def _ask(history: str) -> str:
    return f"hpabatch fit {shlex.quote(history)} --init-plant plant.yaml"


def not_identified(found: Fit, plant: Plant) -> tuple[str, ...]:
    """Return why the workload's reaction to another number of pods is not known, if it is not."""
    primary = primary_signal(plant)
    if primary is None:
        return ("no signal of it is work that its pods share, so its reaction is not known",)
    base = [f for f in found.facts if f.name == f"signals.{primary}.base"]
    if base and base[-1].source == NOT_IDENTIFIED:
        return (base[-1].note or "plant not identified: its base is not known",)
    return ()


def censored_pct(found: Fit, plant: Plant) -> float:
    """Return the share of the primary signal's work that is only a lower bound, in percent."""
    primary = primary_signal(plant)
    censored = found.censored.get(primary) if primary is not None else None
    return 0.0 if censored is None or censored.size == 0 else 100.0 * float(np.mean(censored))


def gaps_by_api(found: Fit, plant: Plant) -> dict[str, list[tuple[int, int]]]:
    """Return when each metrics API measured nothing of a workload."""
    gaps: dict[str, list[tuple[int, int]]] = {}
    for name, theirs in found.gaps.items():
        if name in plant.signals and plant.signals[name].api not in gaps:
            gaps[plant.signals[name].api] = list(theirs)
    return gaps


def joined(first: Fit, second: Fit) -> Fit:
    """Return the fit of a workload with the signals that another HPA of it measures besides."""
    if first.workload is None or second.workload is None:
        return second if first.workload is None else first
    more = {
        name: signal
        for name, signal in second.workload.plant.signals.items()
        if name not in first.workload.plant.signals
    }
    same = (
        first.workload.work_start_ms == second.workload.work_start_ms
        and first.workload.resolution_ms == second.workload.resolution_ms
    )
    if not more or not same:
        return first
    plant = replace(
        first.workload.plant,
        signals={**first.workload.plant.signals, **more},
        pipelines={**second.workload.plant.pipelines, **first.workload.plant.pipelines},
    )
    work = {**{n: second.workload.work[n] for n in more if n in second.workload.work}}
    workload = replace(first.workload, plant=plant, work={**first.workload.work, **work})
    names = {fact.name for fact in first.facts}
    facts = (*first.facts, *(f for f in second.facts if f.name not in names))
    return replace(first, workload=workload, facts=facts)


def lacking_signals(candidate: Candidate, plant: Plant) -> list[str]:
    """Return the metrics of an HPA that its workload's plant has no signal for."""
    names = {signal_name(m) for p in candidate.periods for m in p.spec.metrics}
    return sorted(names - set(plant.signals))


def without_effect(
    candidate: Candidate, entries: Sequence[PlantOverride], plant: Plant
) -> list[str]:
    """Return a sentence for each stated signal that an HPA's workload does not have.

    An entry for all HPAs names the signals of some; that it is for none at all is refused before.
    """
    return [
        f"{entry.place}: {candidate.namespace}/{candidate.name} has no signal {glob}, so what is "
        f"stated of it has no effect there; it has {', '.join(plant.signals)}"
        for entry in entries
        if entry.selector.hpas or entry.selector.where is not None
        for glob, _ in entry.signals
        if not any(matches(glob, name) for name in plant.signals)
    ]
