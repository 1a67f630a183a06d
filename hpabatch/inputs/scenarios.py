"""Scenario files: YAML to `model.scenario`.

docs/scenarios.md lists all keys, from the shapes below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Built, Key, ListOf, Shape, member_of
from hpabatch.inputs.documents import Place, read_document
from hpabatch.inputs.kubernetes_yaml import plain_value
from hpabatch.model.plant import PIPELINES
from hpabatch.model.scenario import (
    Action,
    Growth,
    Lose,
    Outage,
    Overlay,
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
from hpabatch.model.selection import Selector
from hpabatch.model.times import show_duration

WHAT: Final = "scenario"
_MAX_REPLICAS = 100_000
_MAX_STEPS = 10_000
_MINUTE_MS = 60_000
_SECOND_MS = 1000

_AT = Key("at", kinds.MOMENTS, "when; of a list, at each of the times", field="at", required=True)
_EVERY = Key(
    "every",
    kinds.duration(_MINUTE_MS),
    "the interval of repetitions until the run ends; `at` is the first time",
    field="every_ms",
    default="once",
)


def _times(place: Place, given: dict[str, Any]) -> dict[str, Any]:
    """Take `at` and `every` out of what a shape has read and put `times` there."""
    at, every_ms = given.pop("at"), given.pop("every_ms", None)
    if every_ms is not None and len(at) > 1:
        member_of(place, "every").refuse(f"expected one time in `at` with `every`, got {len(at)}")
    return {**given, "times": Times(at, every_ms)}


def _timed(place: Place, given: dict[str, Any]) -> dict[str, Any]:
    """Do as `_times` where each time lasts `for_ms`, which must not reach the next one."""
    found = _times(place, given)
    every_ms = found["times"].every_ms
    if every_ms is not None and found["for_ms"] > every_ms:
        length = show_duration(found["for_ms"])
        member_of(place, "every").refuse(
            f"expected at least `for`, which is {length}, got {show_duration(every_ms)}"
        )
    return found


def _spike(place: Place, given: dict[str, Any]) -> Spike:
    found = Spike(**_timed(place, given))
    if 2 * found.ramp_ms > found.for_ms:
        member_of(place, "ramp").refuse(
            f"expected at most half of `for`, which is {show_duration(found.for_ms)}, got "
            f"{show_duration(found.ramp_ms)}"
        )
    return found


def _set(place: Place, given: dict[str, Any]) -> SetBounds:
    found = SetBounds(**given)
    low, high = found.min_replicas, found.max_replicas
    if low is None and high is None:
        place.refuse("expected minReplicas, maxReplicas or both, got neither")
    if low is not None and high is not None and low > high:
        member_of(place, "minReplicas").refuse(
            f"expected at most maxReplicas, which is {high}, got {low}"
        )
    return found


def _overlay(place: Place, given: dict[str, Any]) -> Overlay:
    """Build an overlay; a path is meant from the folder of the file that names it."""
    history = given.get("history")
    if history is not None and "://" not in history:
        found = place.folder.joinpath(history)
        if not os.path.exists(found):
            member_of(place, "history").refuse(
                f"expected a history, got {found}, which does not exist",
                "write its path from the folder of this file",
            )
        given["history"] = str(found)
    return Overlay(**given)


_FACTOR = Key(
    "factor", kinds.FACTOR, "what the work is multiplied by", field="factor_milli", required=True
)

GROWTH: Final = Shape(
    "growth",
    "The work is multiplied. What pods use without work (the base, memory by age) stays.",
    (
        _FACTOR,
        Key("from", kinds.MOMENT, "since when", field="since",
            default="all of the work; with `ramp` the run's start"),
        Key("ramp", kinds.duration(), "reached evenly in this time, from `from` on",
            field="ramp_ms", default="0s, at once"),
    ),
    short="factor",
    example="- growth: 1.4",
)  # fmt: skip

SHIFT: Final = Shape(
    "shift",
    "The work comes later, or earlier. Its first, or last, value fills the gap that is left.",
    (Key("by", kinds.SIGNED_DURATION, "how much", field="by_ms", required=True),),
    short="by",
    example="- shift: -1h30m",
)

SPIKE: Final = Shape(
    "spike",
    "The work is multiplied for a time (a factor below 1 makes a dip). Spikes that overlap "
    "multiply.",
    (
        _AT,
        Key("for", kinds.duration(_SECOND_MS), "how long in all", field="for_ms", required=True),
        _FACTOR,
        Key("ramp", kinds.duration(), "this much of `for` leads evenly up to the factor, and as "
            "much back", field="ramp_ms", default="0s, at once"),
        _EVERY,
    ),
    example="- spike: {at: 12h, for: 20m, factor: 3, ramp: 2m, every: 1d}",
)  # fmt: skip

REPEAT: Final = Shape(
    "repeat",
    "A stretch of the recorded work is repeated, without gaps and in phase, to fill the run.",
    (
        Key("period", kinds.PERIOD, "how long the stretch is", field="period_ms", required=True),
        Key("from", kinds.MOMENT, "where the stretch begins", field="since",
            default="so that it is the last one recorded"),
        Key("at", kinds.MOMENT, "from when on it is repeated", field="at",
            default="where the recorded work ends"),
    ),
    short="period",
    example="- repeat: week",
)  # fmt: skip

OVERLAY: Final = Shape(
    "overlay",
    "The work of another HPA is added, signal by signal of the same name (work per pod does not "
    "add up and is left). Outside of what was recorded of it nothing is added.",
    (
        Key("hpa", kinds.HPA_NAME, "whose work", field="hpa", required=True),
        Key("history", kinds.text("a path or URL of a history"), "where it is recorded; a path is "
            "meant from the folder of this file", field="history", default="the run's own history"),
        Key("factor", kinds.FACTOR, "what the other's work is multiplied by", field="factor_milli",
            default="1"),
        Key("at", kinds.MOMENT, "the other's work begins at this time", field="at",
            default="it stays at the times when it was recorded"),
    ),
    short="hpa",
    example="- overlay: {hpa: shop/web, factor: 0.5, at: 6h}",
)  # fmt: skip

SET: Final = Shape(
    "set",
    "The HPA is edited. It must stay valid: minReplicas not above maxReplicas.",
    (
        Key("minReplicas", kinds.whole(0, _MAX_REPLICAS), "the new minimum", field="min_replicas",
            default="as it was"),
        Key("maxReplicas", kinds.whole(1, _MAX_REPLICAS), "the new maximum", field="max_replicas",
            default="as it was"),
        Key("at", kinds.MOMENT, "since when, also over later recorded edits", field="at",
            default="the run's start"),
        Key("for", kinds.duration(_SECOND_MS), "how long; then it is as recorded again",
            field="for_ms", default="until the end"),
    ),
    example="- set: {minReplicas: 3, maxReplicas: 40, at: 6h, for: 10h}",
)  # fmt: skip

SCALE: Final = Shape(
    "scale",
    "The target is scaled by hand; the HPA continues from that size (from 0 it does not).",
    (
        Key("replicas", kinds.whole(0, _MAX_REPLICAS), "the size", field="replicas", required=True),
        _AT,
        _EVERY,
    ),
    example="- scale: {replicas: 10, at: 4h}",
)

ROLLOUT: Final = Shape(
    "rollout", "A new revision is rolled out: pods are replaced step by step.", (_AT, _EVERY),
    short="at",
    example="- rollout: [2h, 2026-10-07T15:00:00Z]",
)  # fmt: skip

OUTAGE: Final = Shape(
    "outage",
    "Nothing is scraped for a time; the rules see the last samples until they are too old.",
    (
        Key("api", ListOf(kinds.word(*PIPELINES), f"one of {', '.join(PIPELINES)}, or a list of "
            "them"), "which metrics APIs; `external` stands for Object and External metrics",
            field="apis", required=True),
        _AT,
        Key("for", kinds.duration(_SECOND_MS), "how long", field="for_ms", required=True),
        _EVERY,
    ),
    example="- outage: {api: resource, at: 9h, for: 10m}",
)  # fmt: skip

LOSE: Final = Shape(
    "lose",
    "A share of the pods is lost at once (a node, a zone); new ones replace them.",
    (
        Key("share", kinds.SHARE, "how many of the pods", field="share_milli", required=True),
        _AT,
        _EVERY,
    ),
    example="- lose: {share: 30%, at: 14h}",
)

_BUILDERS: tuple[tuple[Shape, Callable[[Place, dict[str, Any]], Action]], ...] = (
    (GROWTH, lambda _, given: Growth(**given)),
    (SHIFT, lambda _, given: Shift(**given)),
    (SPIKE, _spike),
    (REPEAT, lambda _, given: Repeat(**given)),
    (OVERLAY, _overlay),
    (SET, _set),
    (SCALE, lambda place, given: Scale(**_times(place, given))),
    (ROLLOUT, lambda place, given: Rollout(**_times(place, given))),
    (OUTAGE, lambda place, given: Outage(**_timed(place, given))),
    (LOSE, lambda place, given: Lose(**_times(place, given))),
)
ACTIONS: Final = {shape.title: Built(shape, build) for shape, build in _BUILDERS}
WORK_ACTIONS: Final = (GROWTH, SHIFT, SPIKE, REPEAT, OVERLAY)

_WORK_NAMES = ", ".join(shape.title for shape in WORK_ACTIONS)
STEP: Final = Shape(
    "A step",
    "Exactly one action, and the HPAs that it is for: those that match both `hpa` and `where`, if "
    "both are given.",
    (
        *kinds.SELECTOR_KEYS,
        Key("signals", kinds.SIGNAL_GLOBS, f"with {_WORK_NAMES}: only for these signals",
            field="signals", default="all that have work"),
        *(Key(name, built, "", field="action") for name, built in ACTIONS.items()),
    ),
)  # fmt: skip


def _step(place: Place, given: dict[str, Any]) -> Step:
    keys = list(place.value) if isinstance(place.value, Mapping) else []
    actions = [key for key in keys if key in ACTIONS]
    if not actions:
        place.refuse(f"expected one of {', '.join(ACTIONS)}, got a step without an action")
    if len(actions) > 1:
        place.members()[actions[1]].refuse(
            f"expected one action, got {actions[0]} and {actions[1]}",
            f"begin a new step for {actions[1]}, with a dash",
        )
    name = actions[0]
    if "signals" in given and name not in {shape.title for shape in WORK_ACTIONS}:
        place.members()["signals"].refuse(
            f"expected no signals with {name}; they go with {_WORK_NAMES}"
        )
    return Step(
        action=given["action"],
        selector=kinds.selector_of(place, given),
        signals=given.get("signals", ()),
        place=str(place.members()[name]),
    )


_STEPS = ListOf(
    Built(STEP, _step), "a list of steps, each after a dash", _MAX_STEPS, only_lists=True
)
SCENARIO: Final = Shape(
    "A scenario",
    "A list of steps; or a mapping of them with a description.",
    (
        Key("steps", _STEPS, "the steps, in order", field="steps", required=True),
        Key("description", kinds.text(), "a description, shown with results", field="description",
            default="none"),
    ),
)  # fmt: skip


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
    if "steps" not in document.value and set(document.value) & set(STEP.names):
        document.expected(_STEPS.wants, f"begin each with a dash: - {_first(document)}: …")
    return Scenario(**SCENARIO.read(document))


def _first(document: Place) -> str:
    assert isinstance(document.value, Mapping)
    return next(str(key) for key in document.value if key in STEP.names)


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
