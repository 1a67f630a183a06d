"""Lenses of a plan as plain values: results and orders keep them, to estimate them once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from hpabatch.engine.fleet.plan import ReplayPlan, See, with_lenses
from hpabatch.model.lens import Lens

Told: TypeAlias = Sequence[Sequence[Mapping[str, Any]]]
"""Lenses, and those that are only told of."""


def told_lens(lens: Lens) -> dict[str, Any]:
    """Return a lens as plain values; `Lens(**found)` reads it again."""
    names = ("signal", "cluster", "lag_ms", "smoothing_ms", "scale")
    return {name: getattr(lens, name) for name in names}


def told_lenses(plan: ReplayPlan) -> Told | None:
    """Return a plan's lenses, None if it was made without."""
    if "lens" not in plan.evidence:
        return None
    return [[told_lens(lens) for lens in some] for some in (plan.lenses, plan.ratios)]


def seen_again(told: Told) -> See:
    """Return what puts lenses that were told into a plan again."""
    lenses, ratios = ([Lens(**one) for one in some] for some in told)
    return lambda plan: with_lenses(plan, lenses, ratios)
