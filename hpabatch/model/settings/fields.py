"""Fields that a setting can change, and policy sets, which settings exchange as a whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from hpabatch.model.objects.defaults import DEFAULT_SCALE_DOWN, DEFAULT_SCALE_UP
from hpabatch.model.objects.hpa import ScalingPolicy, ScalingRules
from hpabatch.model.settings import values
from hpabatch.model.settings.values import AS_TODAY, Kind, Numbers, SetNames, Words

SPEC: Final = "spec"
CONTROLLER: Final = "controller"
BEYOND: Final = "beyond upstream"

NAMED_TARGET: Final = "target.NAME"
_TARGET_PREFIX = "target."


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field: `where` is SPEC, CONTROLLER or BEYOND, `acts_on` the part of it.

    `direction` (of behavior) and `member` tell what of a spec it changes.
    """

    name: str
    kind: Kind
    where: str
    acts_on: str
    meaning: str
    aliases: tuple[str, ...] = ()
    direction: str = ""
    member: str = ""


def _behavior(name: str, member: str, kind: Kind, acts_on: str, meaning: str) -> tuple[Field, ...]:
    """Return a field of both directions: scaleUp's and scaleDown's."""
    return tuple(
        Field(
            f"{direction}.{name}", kind, SPEC, f"spec.behavior.{direction}.{acts_on}",
            meaning.format(up_or_down="up" if direction == "scaleUp" else "down"),
            (f"{direction}.{acts_on}",) if acts_on.isalpha() and acts_on != name else (),
            direction, member,
        )
        for direction in ("scaleUp", "scaleDown")
    )  # fmt: skip


FIELDS: Final[tuple[Field, ...]] = (
    Field("target", values.TARGET, SPEC, "the target of the metric that is tuned",
          "for an HPA with one metric, its target; with several, that of the first cpu metric",
          ("averageUtilization", "utilization"), member="target"),
    Field(NAMED_TARGET, values.TARGET, SPEC, "the target of the metric NAME",
          "`target.cpu`, `target.memory`, `target.queue_length`; where several have that name, the "
          "signal's: `target.container/app/cpu`", member="target"),
    Field("min", values.REPLICAS, SPEC, "spec.minReplicas", "the fewest replicas",
          ("minReplicas",), member="min_replicas"),
    Field("max", values.MAXIMUM, SPEC, "spec.maxReplicas", "the most replicas", ("maxReplicas",),
          member="max_replicas"),
    Field("tolerance", values.TOLERANCE, SPEC, "spec.behavior.*.tolerance",
          "the distance from the target within which nothing changes, in both directions",
          member="tolerance"),
    *_behavior("tolerance", "tolerance", values.TOLERANCE, "tolerance",
               "the distance from the target within which nothing changes on the way {up_or_down}"),
    *_behavior("window", "stabilization_window_seconds", values.WINDOW,
               "stabilizationWindowSeconds", "the stabilization window on the way {up_or_down}"),
    Field("policies", values.POLICIES, SPEC, "spec.behavior.*.policies and selectPolicy",
          "the policies and the select policy of both directions, as far as the set has them",
          member="policies"),
    *_behavior("policies", "policies", values.POLICIES, "policies and selectPolicy",
               "the policies and the select policy on the way {up_or_down}"),
    *_behavior("select", "select_policy", values.SELECT, "selectPolicy",
               "the policy that counts on the way {up_or_down}"),
    Field("sync", values.SYNC, CONTROLLER, "--horizontal-pod-autoscaler-sync-period",
          "the time between two decisions", ("sync-period",)),
    Field("combine", values.COMBINE, BEYOND, "the metrics' proposals",
          "the way in which proposals of several metrics become one; upstream takes the max"),
    Field("percentage-of", values.PERCENTAGE_OF, BEYOND, "utilization targets",
          "the quantity that 100 % stands for; upstream takes the request"),
)  # fmt: skip

_ORDER: Final = {field.name: k for k, field in enumerate(FIELDS)}
_BY_NAME: Final = {field.name: field for field in FIELDS}


def _plain(name: str) -> str:
    return re.sub(r"[-_]", "", name).lower()


_SPELLINGS: Final = {
    _plain(name): field for field in FIELDS for name in (field.name, *field.aliases)
}


@lru_cache(maxsize=10_000)
def find_field(name: str) -> tuple[str, Field]:
    """Return a field and its canonical name; case, - and _ do not matter.

    In `target.NAME` the metric's name is taken literally.

    Raises:
        ValueError: there is no such field; the message quotes the name.
    """
    prefix, metric = name[: len(_TARGET_PREFIX)], name[len(_TARGET_PREFIX) :]
    if prefix.lower() == _TARGET_PREFIX:
        if not metric or metric == "NAME" or re.search(r"\s", metric):
            raise ValueError(f"{name!r} names no metric; write target.cpu, for one")
        return _TARGET_PREFIX + metric, _BY_NAME[NAMED_TARGET]
    found = _SPELLINGS.get(_plain(name))
    if found is None or found.name == NAMED_TARGET:
        raise ValueError(f"{name!r} is not a field")
    return found.name, found


def metric_of(name: str) -> str | None:
    """Return the metric in a field's name, None for the tuned one."""
    return name.removeprefix(_TARGET_PREFIX) if name.startswith(_TARGET_PREFIX) else None


def field_order(name: str) -> tuple[int, str]:
    """Return a sort key of field names in the order of FIELDS."""
    return _ORDER[find_field(name)[1].name], name


def canonical_value(field: Field, text: str, sets: Collection[str]) -> str:
    """Return the canonical form of a value; `today` for one that changes nothing.

    Raises:
        ValueError: it is not a value of the field; the message quotes it and the possible forms.
    """
    text = text.strip()
    if text.lower() == AS_TODAY:
        return AS_TODAY
    kind = field.kind
    if isinstance(kind, Numbers):
        return kind.text(kind.parse(text))
    if isinstance(kind, Words):
        return kind.parse(text)
    assert isinstance(kind, SetNames)
    return kind.parse(text, sets)


# ---- policy sets ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Policies and a select policy for each direction; None: that direction stays as it is.

    Of the rules only `policies` and `select_policy` are set. `meaning` is for the documentation.
    """

    name: str
    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None
    meaning: str = ""

    def rules(self, direction: str) -> ScalingRules | None:
        """Return the set's rules of a direction, `scaleUp` or `scaleDown`."""
        return self.scale_up if direction == "scaleUp" else self.scale_down


def _rules(*policies: ScalingPolicy) -> ScalingRules:
    return ScalingRules(select_policy="Max", policies=policies)


GENTLE: Final = PolicySet(
    "gentle",
    _rules(ScalingPolicy("Pods", 2, 60), ScalingPolicy("Percent", 50, 60)),
    _rules(ScalingPolicy("Pods", 1, 60), ScalingPolicy("Percent", 10, 60)),
    "half as many again in a minute on the way up, a tenth fewer in a minute on the way down",
)
DEFAULT: Final = PolicySet(
    "default",
    replace(DEFAULT_SCALE_UP, stabilization_window_seconds=None),
    replace(DEFAULT_SCALE_DOWN, stabilization_window_seconds=None),
    "what Kubernetes fills in: twice as many in 15 s on the way up, no limit on the way down",
)
FAST: Final = PolicySet(
    "fast",
    _rules(ScalingPolicy("Pods", 10, 15), ScalingPolicy("Percent", 400, 15)),
    _rules(ScalingPolicy("Percent", 100, 15)),
    "five times as many in 15 s on the way up, no limit on the way down",
)

SHIPPED: Final[Mapping[str, PolicySet]] = MappingProxyType(
    {found.name: found for found in (GENTLE, DEFAULT, FAST)}
)
"""The sets that come with hpabatch, by name."""
