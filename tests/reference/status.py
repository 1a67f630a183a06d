"""The status of an HPA: conditions, what counts as a change, and the sentences of conditions.

Upstream: ``pkg/controller/podautoscaler/horizontal.go`` (``setConditionInList``,
``updateStatusIfNeeded``) and ``apiequality.Semantic``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import quantity
from .times import format_time, parse_time

Json = dict[str, Any]

# The messages that follow from the reason alone.
MESSAGES = {
    "SucceededGetScale": "the HPA controller was able to get the target's current scale",
    "ReadyForNewScale": "recommended size matches current size",
    "ScaleUpStabilized": "recent recommendations were lower than current one, applying the lowest "
    "recent recommendation",
    "ScaleDownStabilized": "recent recommendations were higher than current one, applying the "
    "highest recent recommendation",
    "ScalingDisabled": "scaling is disabled since the replica count of the target is zero",
    "DesiredWithinRange": "the desired count is within the acceptable range",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
    "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
    "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
    "ScaledToZero": "the HPA controller scaled the workload to zero",
    "NotScaledToZero": "the HPA controller did not scale the workload to zero",
}


@dataclass
class Status:
    """``status`` of an HPA; times as texts, None: unset."""

    current_replicas: int = 0
    desired_replicas: int = 0
    current_metrics: list[Json] | None = None
    conditions: list[Json] = field(default_factory=list)
    last_scale_time: str | None = None
    observed_generation: int | None = None

    @classmethod
    def read(cls, status: Json) -> Status:
        """Read the status of an HPA document."""
        return cls(
            current_replicas=status.get("currentReplicas") or 0,
            desired_replicas=status.get("desiredReplicas") or 0,
            current_metrics=status.get("currentMetrics"),
            conditions=[_read_condition(c) for c in status.get("conditions") or []],
            last_scale_time=status.get("lastScaleTime"),
            observed_generation=status.get("observedGeneration"),
        )

    def copy(self) -> Status:
        """Copy the status; metric statuses are never changed in place."""
        return Status(
            self.current_replicas,
            self.desired_replicas,
            self.current_metrics,
            [dict(condition) for condition in self.conditions],
            self.last_scale_time,
            self.observed_generation,
        )

    def set_condition(self, kind: str, status: str, reason: str, message: str, now: int) -> None:
        """``setCondition``: overwrite in place, or append; the time is that of a new status."""
        for condition in self.conditions:
            if condition["type"] == kind:
                break
        else:
            condition = {"type": kind, "status": ""}
            self.conditions.append(condition)
        if condition["status"] != status:
            condition["last_transition_time"] = format_time(now)
        condition.update(status=status, reason=reason, message=message)

    def remove_condition(self, kind: str) -> None:
        """Remove a condition if it is there."""
        self.conditions = [c for c in self.conditions if c["type"] != kind]

    def has_condition(self, kind: str) -> bool:
        """Tell whether a condition is there and True."""
        return any(c["type"] == kind and c["status"] == "True" for c in self.conditions)

    def equals(self, other: Status) -> bool:
        """``Semantic.DeepEqual``: equal quantities and times, and nil or empty lists, are equal."""
        if self == other:
            return True
        return _comparable(self) == _comparable(other)


def _read_condition(condition: Json) -> Json:
    read = {key: condition.get(key) for key in ("type", "status", "reason", "message")}
    time = condition.get("lastTransitionTime", condition.get("last_transition_time"))
    return read | {"last_transition_time": time}


def _comparable(status: Status) -> tuple[Any, ...]:
    return (
        status.current_replicas,
        status.desired_replicas,
        [_comparable_metric(metric) for metric in status.current_metrics or []],
        [
            condition | {"last_transition_time": _instant(condition["last_transition_time"])}
            for condition in status.conditions
        ],
        _instant(status.last_scale_time),
        status.observed_generation,
    )


def _comparable_metric(value: Any) -> Any:
    """Replace the quantities in a metric status by (exact) nano units."""
    if isinstance(value, list):
        return [_comparable_metric(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    replaced = {key: _comparable_metric(entry) for key, entry in value.items()}
    for key, text in (value.get("current") or {}).items():
        if isinstance(text, str):
            number = quantity.parse(text)
            replaced["current"][key] = number.unscaled * 10 ** (number.exponent + 9)
    return replaced


def _instant(text: str | None) -> int | None:
    return None if text is None else parse_time(text)
