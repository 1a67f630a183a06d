"""Metrics and their statuses in a store of autoscaling/v1 objects (before 1.27).

Whatever is written is converted to v1 with annotations, and everybody reads what comes back.
Upstream: ``pkg/apis/autoscaling/v1/conversion.go``.
"""

from __future__ import annotations

from typing import Any

from .profiles import Profile

Json = dict[str, Any]


def stored_metrics(metrics: list[Json], profile: Profile) -> list[tuple[Json, int]]:
    """Return the metrics that the controller reads, each with its place in what was written."""
    written = [(metric, index) for index, metric in enumerate(metrics)]
    if not profile.stored_as_v1:
        return written
    others = [
        ({**metric, **_stored_source(metric)}, index)
        for metric, index in written
        if not _is_cpu_utilization(metric)
    ]
    cpu = [entry for entry in written if _is_cpu(entry[0])]
    if profile.first_cpu_utilization_is_kept:
        cpu = [entry for entry in cpu if _is_cpu_utilization(entry[0])]
    if cpu and _is_cpu_utilization(cpu[0][0]):
        metric, index = cpu[0]
        percent = metric["resource"]["target"]["averageUtilization"]
        target = {"type": "Utilization", "averageUtilization": percent}
        others.append(({"type": "Resource", "resource": {"name": "cpu", "target": target}}, index))
    return others


def _is_cpu(metric: Json) -> bool:
    return bool(metric["type"] == "Resource" and metric["resource"]["name"] == "cpu")


def _is_cpu_utilization(metric: Json) -> bool:
    target = (metric["resource"].get("target") or {}) if _is_cpu(metric) else {}
    return target.get("averageUtilization") is not None


def _stored_source(metric: Json) -> Json:
    """Return the metric's member with the target's type that follows from its values."""
    for member in ("resource", "containerResource", "pods", "object", "external"):
        if metric.get(member) is not None:
            target = _stored_target(member, metric[member].get("target") or {})
            return {member: {**metric[member], "target": target}}
    return {}


def _stored_target(member: str, target: Json) -> Json:
    values = {
        key: target[key]
        for key in ("value", "averageValue", "averageUtilization")
        if target.get(key) is not None
    }
    kind = "AverageValue"
    if member in ("resource", "containerResource"):
        values.pop("value", None)
        kind = "Utilization" if "averageUtilization" in values else "AverageValue"
    else:
        values.pop("averageUtilization", None)
    if member == "pods":
        values = {"averageValue": values.get("averageValue", "0")}
    if member == "object":
        values.setdefault("value", "0")
        kind = "AverageValue" if "averageValue" in values else "Value"
    if member == "external":
        kind = "Value" if "value" in values else "AverageValue"
    return {"type": kind, **values}


def stored_statuses(statuses: list[Json] | None, profile: Profile) -> list[Json] | None:
    """Return the metric statuses that are read after they were written."""
    if not profile.stored_as_v1 or statuses is None:
        return statuses
    return [_stored_status(status) for status in statuses]


def _stored_status(status: Json) -> Json:
    stored = dict(status)
    for member, always in (
        ("resource", "averageValue"),
        ("containerResource", "averageValue"),
        ("pods", "averageValue"),
        ("object", "value"),
        ("external", "value"),
    ):
        if status.get(member) is not None:
            current = {always: "0", **status[member]["current"]}
            stored[member] = {**status[member], "current": current}
    return stored
