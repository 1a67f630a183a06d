"""Skill of predictions against persistence, with a bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hpabatch.engine.fit.stats import CONFIDENCE, F64, seed_of

RESAMPLES: Final = 2000
_AT_ONCE: Final = 1 << 20  # numbers


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill, 1 - error / error of persistence, and its interval; None where it is undefined.

    Errors are mean absolute ones, relative to what was observed.
    """

    skill: float | None
    low: float | None
    high: float | None
    error: float
    persistence_error: float


def skill_of(error: F64, persistence: F64, name: str) -> Skill:
    """Return the skill of at least one prediction, and its bootstrap interval.

    1 is perfect, 0 no better than persistence, negative worse; None where persistence makes no
    error. The interval is the 95 % between the quantiles of RESAMPLES samples of changes, drawn
    with replacement (Efron 1979) from a generator that `name` seeds, so that no HPA's interval
    depends on another's.

    Args:
        error: absolute relative error of each prediction, shape (n,).
        persistence: that of persistence, shape (n,).
        name: of what is judged.
    """
    own, other = float(error.mean()), float(persistence.mean())
    if other == 0:
        return Skill(None, None, None, own, other)
    drawn = _resampled(error, persistence, name)
    low, high = (float(np.quantile(drawn, q)) for q in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return Skill(1 - own / other, low, high, own, other)


def _resampled(error: F64, persistence: F64, name: str) -> F64:
    """Return the skills of samples of the changes; those without an error to beat are left out."""
    generator = np.random.Generator(np.random.PCG64(seed_of(name)))
    n = error.size
    found = []
    rows = max(_AT_ONCE // n, 1)
    for first in range(0, RESAMPLES, rows):
        chosen = generator.integers(n, size=(min(rows, RESAMPLES - first), n))
        own, other = error[chosen].sum(axis=1), persistence[chosen].sum(axis=1)
        found.append(1 - own[other > 0] / other[other > 0])
    return np.concatenate(found)
