"""Results of a sync in the form of the golden `expected`."""

from __future__ import annotations

from hpabatch.engine.explain.status import LaneWords, StatusReader
from hpabatch.model.objects.encode import encode_metric
from hpabatch.model.objects.hpa import HPAStatus
from tests.conformance.golden import Json


def status_fields(status: HPAStatus) -> Json:
    """Return what is compared of a status."""
    return {
        "desired_replicas": status.desired_replicas,
        "status_current_replicas": status.current_replicas,
        "conditions": [
            {
                "type": c.type,
                "status": c.status,
                "reason": c.reason,
                "message": c.message,
                "last_transition_time": c.last_transition_time,
            }
            for c in status.conditions
        ],
        "current_metrics": [encode_metric(m) for m in status.current_metrics or ()],
        "last_scale_time": status.last_scale_time,
    }


def tick_result(reader: StatusReader, words: LaneWords, t: int, unwritten: str = "") -> Json:
    """Return what golden data say of a tick; `unwritten`: why its status could not be written."""
    row = reader.results.decisions[t]
    rescaled = bool(row.rescaled)
    action = "none" if not rescaled else "scale_up" if row.desired > row.current else "scale_down"
    # The controller has metrics of its own since 1.27, with this switch.
    labelled = reader.profile.partial_failure_returned
    return {
        **status_fields(reader.status(words, t)),
        "rescaled": rescaled,
        "scale_to": int(row.desired) if rescaled else None,
        "events": [
            {"type": e.type, "reason": e.reason, "message": e.message}
            for e in reader.events(words, t, unwritten)
        ],
        "last_scale_time_set": rescaled,
        "reconcile_error": reader.error(words, t, unwritten),
        "status_written": bool(reader.statuses[t].written),
        "action_label": action if labelled else None,
        "error_label": reader.error_label(t, unwritten) if labelled else None,
    }
