"""Bounds on the distance of a recommended spec from today's (`--bound`).

`FIELD=LIMIT`: `target=15` (points of a utilization, percent of any other target), `max=x2` (twice
or half at most), `scaleDown.window=600` (seconds), `policies=same`, `min=any`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hpabatch.engine.sweep.context import Context
from hpabatch.errors import UsageError
from hpabatch.model.availability import Availability, Need
from hpabatch.model.objects.defaults import DEFAULT_SCALE_DOWN, DEFAULT_SCALE_UP
from hpabatch.model.objects.hpa import Behavior, HPASpec, MetricSpec, MetricTarget, ScalingRules
from hpabatch.model.quantity import Quantity
from hpabatch.model.suggestions import did_you_mean
from hpabatch.model.versions import ControllerFlags

NUMBERS: Final = {
    "target": "points of a utilization; percent of today's for a target that is a quantity",
    "min": "pods",
    "max": "pods",
    "tolerance": "of either direction, such as 0.05",
    "scaleUp.window": "seconds",
    "scaleDown.window": "seconds",
}
CHOICES: Final = {
    "policies": "the scaling policies of either direction",
    "select": "the select policy of either direction",
}
_FEWER: Final = {"target": 1, "scaleUp.window": 1, "min": -1, "max": -1, "scaleDown.window": -1}
"""Fields whose increase (1) or decrease (-1) leaves fewer pods, or as many."""

DEFAULTS: Final = {"target": "20", "min": "x2", "max": "x2"}
"""The bounds without `--bound`; every other field is free."""

_LIMIT = re.compile(r"(?P<times>x)?(?P<number>\d+\.?\d*|\.\d+)")
_FLAGS = (ControllerFlags(),)


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `amount` more or less, or `amount` `times` more or less; 0: the same value."""

    amount: float
    times: bool = False

    def allows(self, today: float, value: float) -> bool:
        """Return whether a value is near enough to today's."""
        if not self.times:
            return abs(value - today) <= self.amount * (1 + 1e-12)
        low, high = sorted((today, value))
        return low >= 0 and high <= low * self.amount * (1 + 1e-12)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits by field, the texts that they were given as, and the fields of `--bound`."""

    limits: Mapping[str, Limit]
    texts: Mapping[str, str]
    stated: frozenset[str] = frozenset()

    def broken(
        self, today: HPASpec, spec: HPASpec, flags: Sequence[ControllerFlags] = _FLAGS
    ) -> list[str]:
        """Return in words each bound that a spec (defaults filled in) breaks against today's.

        `flags` are what counts where a window or a tolerance is left open; one of several will do.
        """
        found = [
            f"{field} {_shown(old)} -> {_shown(new)} is beyond --bound {name}={self.texts[name]}"
            for each in flags
            for name, field, old, new in _changes(today, spec, each)
            if name in self.limits and not self._allows(name, field, old, new)
        ]
        return list(dict.fromkeys(found))

    def _allows(self, name: str, field: str, old: object, new: object) -> bool:
        limit = self.limits[name]
        if not isinstance(old, int | float) or not isinstance(new, int | float):
            return False  # it changed at all
        if name == "target" and not limit.times and not field.endswith("utilization"):
            return Limit(abs(old) * limit.amount / 100.0).allows(old, new)
        return limit.allows(old, new)


def parse_bounds(texts: Sequence[str]) -> Bounds:
    """Return the default bounds, replaced by those of the texts.

    Raises:
        UsageError: all mistakes in one message.
    """
    chosen = dict(DEFAULTS)
    mistakes = []
    given: set[str] = set()
    for text in (part.strip() for item in texts for part in item.split(",")):
        name, _, limit = (part.strip() for part in text.partition("="))
        known = [*NUMBERS, *CHOICES]
        if name not in known:
            hint = did_you_mean(name, known)
            mistakes.append(f"--bound {text}: no such field{hint} (known: {', '.join(known)})")
        elif name in given:
            mistakes.append(f"--bound {text}: {name} is bounded twice")
        elif limit not in ("any", "same") and (name in CHOICES or not _LIMIT.fullmatch(limit)):
            forms = "same or any" if name in CHOICES else "a number, xFACTOR, same or any"
            mistakes.append(f"--bound {text}: expected {forms}")
        elif limit.startswith("x") and float(limit[1:]) < 1:
            mistakes.append(f"--bound {text}: a factor is 1 or more; x2 means twice or half")
        given.add(name)
        chosen[name] = limit
    if mistakes:
        raise UsageError("; ".join(mistakes))
    chosen = {name: limit for name, limit in chosen.items() if limit != "any"}
    limits = {name: _limit(limit) for name, limit in chosen.items()}
    return Bounds(limits, chosen, frozenset(given))


def changes_told(today: HPASpec, spec: HPASpec, flags: ControllerFlags) -> list[str]:
    """Return in words what differs between two specs (defaults filled in): `target 60 -> 70`.

    `flags` are what counts where a window or a tolerance is left open.
    """
    return [
        f"{field} {_shown(old)} -> {_shown(new)}"
        for _, field, old, new in _changes(today, spec, flags)
    ]


def has_no_more_pods(today: HPASpec, spec: HPASpec, flags: ControllerFlags) -> bool:
    """Say whether a spec keeps at most the pods that today's keeps under the same usage.

    What cannot be told from one field, such as policies, counts as more.
    """
    return all(
        isinstance(old, int | float)
        and isinstance(new, int | float)
        and (new - old) * _FEWER.get(name, math.nan) > 0
        for name, _, old, new in _changes(today, spec, flags)
    )


def _limit(text: str) -> Limit:
    if text == "same":
        return Limit(0.0)
    found = _LIMIT.fullmatch(text)
    assert found is not None
    return Limit(float(found["number"]), found["times"] is not None)


def _changes(
    today: HPASpec, spec: HPASpec, flags: ControllerFlags
) -> Iterator[tuple[str, str, object, object]]:
    """Yield (bound's name, field, old, new) of everything that differs."""
    pairs = [
        ("min", "minReplicas", today.min_replicas, spec.min_replicas),
        ("max", "maxReplicas", today.max_replicas, spec.max_replicas),
    ]
    yield from (pair for pair in pairs if pair[2] != pair[3])
    for old_metric, new_metric in zip(today.metrics, spec.metrics, strict=True):
        yield from _target_changes(old_metric, new_metric)
    for way in ("scaleUp", "scaleDown"):
        old_rules, new_rules = _rules(today, way), _rules(spec, way)
        open_s = flags.downscale_stabilization_ms // 1000 if way == "scaleDown" else 0
        for name, old, new in (
            (f"{way}.window", _window(old_rules, open_s), _window(new_rules, open_s)),
            ("tolerance", _tolerance(old_rules, flags), _tolerance(new_rules, flags)),
            ("policies", old_rules.policies, new_rules.policies),
            ("select", old_rules.select_policy, new_rules.select_policy),
        ):
            if old != new:
                yield name, name if "." in name else f"{way}.{name}", old, new


def _target_changes(old: MetricSpec, new: MetricSpec) -> Iterator[tuple[str, str, object, object]]:
    before, after = _target(old), _target(new)
    if before.average_utilization != after.average_utilization:
        yield (
            "target",
            "target utilization",
            before.average_utilization,
            after.average_utilization,
        )
    for field, left, right in (
        ("target averageValue", before.average_value, after.average_value),
        ("target value", before.value, after.value),
    ):
        if left != right:
            yield "target", field, _number(left), _number(right)


def _target(metric: MetricSpec) -> MetricTarget:
    m = metric
    source = m.resource or m.container_resource or m.pods or m.object or m.external
    return MetricTarget() if source is None else source.target


def _number(quantity: Quantity | None) -> float | None:
    return None if quantity is None else quantity.milli() / 1000.0


def _rules(spec: HPASpec, way: str) -> ScalingRules:
    """Return one direction's rules; without a behavior those that stand for it."""
    behavior = spec.behavior or Behavior()
    if way == "scaleUp":
        return behavior.scale_up or DEFAULT_SCALE_UP
    return behavior.scale_down or DEFAULT_SCALE_DOWN


def _window(rules: ScalingRules, left_open_s: int) -> int:
    window = rules.stabilization_window_seconds
    return left_open_s if window is None else window


def _tolerance(rules: ScalingRules, flags: ControllerFlags) -> float:
    found = _number(rules.tolerance)
    return flags.tolerance if found is None else found


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else str(value)
    if isinstance(value, tuple):
        return ", ".join(f"{p.type} {p.value}/{p.period_seconds}s" for p in value) or "none"
    return "none" if value is None else str(value)


# ---- floor of minReplicas ------------------------------------------------------------------------

# No recommendation goes below what a PodDisruptionBudget or a topology spread of the target's pods
# needs, and at least 2; where today's minReplicas is lower already, not below that one. Only
# `--bound min=any` lifts it.
_FIELD = "min"


def floor_of(context: Context, bounds: Bounds) -> Need | None:
    """Return the floor of an HPA's minReplicas and its reason, None where it is lifted."""
    if _FIELD not in bounds.limits:
        return None
    return (context.availability or Availability()).need()


def below(floor: Need | None, today: HPASpec, spec: HPASpec) -> str:
    """Return why a spec's minReplicas is too low, "" if it is not; both have their defaults."""
    if floor is None or today.min_replicas is None or spec.min_replicas is None:
        return ""
    least = min(floor.pods, today.min_replicas)
    if spec.min_replicas >= least:
        return ""
    change = f"minReplicas {today.min_replicas} -> {spec.min_replicas}"
    if least < floor.pods:
        return f"{change} is below today's, and {_told(floor)}"
    return f"{change} is below {floor.pods}: {_told(floor)}"


def _told(floor: Need) -> str:
    return f"{floor.why} (--bound min=any lifts this)"
