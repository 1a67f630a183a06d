"""Policy sets: scaling policies under a name, exchanged as a whole by settings.

A set states for one direction or both the policies and the select policy. Windows and tolerances
are fields of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from hpabatch.model.objects.defaults import DEFAULT_SCALE_DOWN, DEFAULT_SCALE_UP
from hpabatch.model.objects.hpa import ScalingPolicy, ScalingRules


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
