"""Bounds without behavior: minimum, maximum and at most double (or 4) per sync.

Source: horizontal.go, convertDesiredReplicasWithRules and calculateScaleUpLimit.
"""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.layout.codes import (
    DESIRED_WITHIN_RANGE,
    SCALE_UP_LIMIT,
    TOO_FEW_REPLICAS,
    TOO_MANY_REPLICAS,
)
from hpabatch.rules.numbers import float_to_int32


@rule
def limit_legacy(
    current: int, stabilized: int, min_replicas: int, max_replicas: int
) -> tuple[int, int]:
    """Return (size, ScalingLimited condition). From 1 replica the first step goes to at most 4."""
    limit = float_to_int32(max(2.0 * float(current), 4.0))
    highest, why = max_replicas, TOO_MANY_REPLICAS
    if max_replicas > limit:
        highest, why = limit, SCALE_UP_LIMIT
    if stabilized < min_replicas:
        return min_replicas, TOO_FEW_REPLICAS
    if stabilized > highest:
        return highest, why
    return stabilized, DESIRED_WITHIN_RANGE
