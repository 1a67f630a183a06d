"""A sweep for pictures: cost falls with the target, harm rises, a longer window changes both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hpabatch.engine.sweep.result import SweepResult
from tests.sweeps import SweepMaker

TARGETS = ("50", "60", "70", "80")
WINDOWS = ("60", "300")
POLICIES = ("default", "fast")


def settings() -> list[dict[str, str]]:
    """Return the full grid."""
    return [
        {"target": t, "scaleDown.window": w, "scaleUp.policies": p}
        for t, w, p in product(TARGETS, WINDOWS, POLICIES)
    ]


def came_to(values: dict[str, str], blocks: int = 4) -> dict[str, Sequence[float]]:
    """Return what a setting comes to, by block; today's target is 60."""
    target = float(values.get("target", "60"))
    slow = values.get("scaleDown.window", "300") == "300"
    fast = values.get("scaleUp.policies", "default") == "fast"
    pods = 6000 / target * (1.1 if slow else 1.0) * (1.02 if fast else 1.0)
    harm = max(target - 55, 0) * (1 if slow else 3) * (0.5 if fast else 1.0)
    return {
        "pod_hours": [pods] * blocks,
        "saturated_minutes": [harm] * blocks,
        "rescales": [100.0 if slow else 300.0] * blocks,
    }


def maker(block: str = "week") -> SweepMaker:
    return SweepMaker(settings(), block)


def swept(
    hpas: Sequence[str] = ("api",), unit: str | None = None, block: str = "week"
) -> SweepResult:
    made = maker(block)
    for hpa in hpas:
        made.add(hpa, {k: came_to(s) for k, s in enumerate(made.settings)}, unit=unit)
    return made.result()
