"""One reconcile under way: what it gathers, and what can be seen of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .status import MESSAGES, Status

Json = dict[str, Any]


class Decision(NamedTuple):
    """What one tick decided, and the reason for events."""

    desired: int
    rescale: bool
    reason: str = ""


@dataclass
class Sync:
    """What one reconcile gathers: the new status, events, and how it ended."""

    tick: Json
    now: int
    status: Status
    events: list[Json] = field(default_factory=list)
    metric_statuses: list[Json] | None = None
    metric: str = ""  # of the largest proposal
    error: str | None = None
    error_is_spec: bool = False
    action: str = "none"
    scale_to: int | None = None
    written: bool = False

    def event(self, kind: str, reason: str, message: str) -> None:
        """Record an event."""
        self.events.append({"type": kind, "reason": reason, "message": message})

    def condition(self, kind: str, status: str, reason: str, message: str | None = None) -> None:
        """Set a condition; without a message it is the one that belongs to the reason."""
        text = MESSAGES[reason] if message is None else message
        self.status.set_condition(kind, status, reason, text, self.now)

    def fail(self, error: str, is_spec: bool = False) -> None:
        """Note the error that the reconcile returns."""
        self.error, self.error_is_spec = error, is_spec

    @property
    def error_label(self) -> str:
        """Controller metrics: how the reconcile ended."""
        if self.error is None:
            return "none"
        return "spec" if self.error_is_spec else "internal"
