"""Statuses as an API server stores them, and whether two of them differ."""

from __future__ import annotations

from dataclasses import replace

from hpabatch.model.objects.hpa import HPA, HPAStatus


def as_stored_status(document: HPA) -> HPA:
    """Return an HPA with its status as a server stores it: times have no fraction of a second."""
    status = document.status
    conditions = tuple(
        replace(c, last_transition_time=_whole_seconds(c.last_transition_time))
        for c in status.conditions
    )
    last = _whole_seconds(status.last_scale_time)
    return replace(document, status=replace(status, conditions=conditions, last_scale_time=last))


def _whole_seconds(time: str | None) -> str | None:
    return time if time is None or "." not in time else f"{time.partition('.')[0]}Z"


def differ(before: HPAStatus, after: HPAStatus) -> bool:
    """Return whether a status would be written: not where it is semantically equal."""
    return replace(before, current_metrics=before.current_metrics or None) != replace(
        after, current_metrics=after.current_metrics or None
    )
