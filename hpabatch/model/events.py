"""Events that the controller records about an HPA.

Source: pkg/controller/podautoscaler/horizontal.go; the recorder's component is
`horizontal-pod-autoscaler`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COMPONENT: Final = "horizontal-pod-autoscaler"
NORMAL: Final = "Normal"
WARNING: Final = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or the same one `count` times between `first_ms` and `last_ms` (UTC ms)."""

    type: str
    reason: str
    message: str
    first_ms: int = 0
    last_ms: int = 0
    count: int = 1
