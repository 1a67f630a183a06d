"""Feature gates by Kubernetes release, and how well each release's rules are proved.

Profiles (`model.versions`) are derived from both. Numbers with # are pull requests of
kubernetes/kubernetes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

OLDEST: Final = 20
NEWEST: Final = 38


class Gate(NamedTuple):
    """A feature gate: the field of a profile that it switches, and its releases 1.N.

    `known` is the first whose HPAs depend on it, `on` the first that has it on by default, `locked`
    the first that does not let it be switched off, `gone` the first without it.
    """

    field: str
    known: int
    on: int
    evidence: str
    locked: int | None = None
    gone: int | None = None


GATES: Final[dict[str, Gate]] = {
    "HPAContainerMetrics": Gate(
        "gate_container_metrics", 20, 27, "#116043, #116046; upstream's table of features", 30, 32
    ),
    "HPAScaleToZero": Gate(
        "gate_scale_to_zero", 16, 37, "upstream's table of features; alpha 1.16 to 1.36"
    ),
    "HPAConfigurableTolerance": Gate(
        "gate_configurable_tolerance", 33, 35, "#130797, #133128 (beta), #140107 (stable)", 37
    ),
    "PodLevelResources": Gate(
        "gate_pod_level_resources", 34, 34, "#132430; alpha in 1.32, but not for HPAs"
    ),
    "HPAGeneration": Gate("gate_generation", 37, 37, "#138228"),
    "HPAOptimizedSelectorStore": Gate(
        "gate_optimized_selectors", 37, 37, "#139142; 1.37 by a list of features"
    ),
    "StaleControllerConsistencyHPA": Gate("stale_status_check", 37, 37, "#139025"),
}
"""The feature gates that HPAs depend on, in display order."""

_BY_CHANGES: Final = ("from sources", "each change by its pull request")

GRADES: Final[dict[int, tuple[str, str]]] = {
    **dict.fromkeys(range(OLDEST, NEWEST + 1), _BY_CHANGES),
    20: ("from sources", "1.20.2's own source, read line by line"),
    23: ("from sources", "parts of 1.23.0's own source, other changes by their pull requests"),
    26: ("from sources", "1.26's calculator, and its controller from the versions around it"),
    32: ("from sources", "1.33's rules without what 1.33 brought, its test of the tolerance first"),
    33: ("from sources", "1.35's rules without what 1.34 and 1.35 brought"),
    35: ("from sources", "1.36's rules with the older ones for a target at zero"),
    36: ("proved", "against upstream's code with later changes switched off"),
    37: ("from sources", "1.38's rules without three late changes"),
    38: ("proved", "against upstream's code"),
}
"""Evidence level of the rules of each minor release, and its basis."""
