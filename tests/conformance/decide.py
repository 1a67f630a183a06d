"""Golden cases through the package's kernels, back in the form of the golden `expected`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpabatch.arrays.layout import Fleet, Memory, Results, empty_results
from hpabatch.arrays.memory import make_memory, seed_recommendations, seed_status
from hpabatch.arrays.pack import LaneView, pack_fleet
from hpabatch.arrays.status import empty_statuses, make_status_memory, seed_status_memory
from hpabatch.arrays.texts import Texts
from hpabatch.engine.status import LaneWords, StatusReader
from hpabatch.kernels.replay import replay_fleet
from hpabatch.kernels.status import status_fleet
from hpabatch.model import codes, messages
from hpabatch.model.config import Profile
from hpabatch.model.describe import metric_name
from hpabatch.model.encode_status import encode_metric
from hpabatch.rules.combine import propose, tolerance_of, write_proposal
from hpabatch.rules.controller import controller_of
from tests.conformance.golden import (
    Json,
    calculator_lane,
    decode,
    timeline_lane,
    to_flags,
    to_ms,
    to_profile,
)

NAMESPACE = "default"

_UTILIZATION = {codes.RESOURCE_UTILIZATION}
_AVERAGE = {
    codes.RESOURCE_UTILIZATION,
    codes.RESOURCE_AVERAGE,
    codes.PODS_AVERAGE,
    codes.OBJECT_AVERAGE,
    codes.EXTERNAL_AVERAGE,
}
_VALUE = {codes.OBJECT_VALUE, codes.EXTERNAL_VALUE}


def decide_calculator_case(case: Json, k8s: str) -> dict[str, Any]:
    """Return the `expected` of a calculator case."""
    lane, texts, profile = calculator_lane(case), Texts(), to_profile(k8s, case["flags"])
    fleet = pack_fleet([lane], to_flags(case["flags"]), profile, texts)
    controller = controller_of(fleet, 0)
    results = empty_results(1, 1, details=True)
    tolerance = tolerance_of(controller, fleet.specs[0])
    current = case.get("spec_replicas") or 0
    proposal = propose(fleet, controller, 0, 0, current, tolerance, results.details)
    write_proposal(results.metrics, 0, proposal)
    metric, kind = lane.specs[0].metrics[0], int(fleet.metrics[0].kind)
    ok = proposal.code == codes.METRIC_OK
    code = codes.INVALID_METRIC_SOURCE_TYPE + int(fleet.metrics[0].source)
    failure = None
    if not ok:
        text = texts[int(results.details[0].text)]
        failure = messages.metric_failure(
            metric, kind, int(proposal.code), text, NAMESPACE, profile
        )
    current_status = _status_value(lane, fleet, results, texts, profile) if ok else {}
    return {
        "replicas": int(proposal.replicas) if ok else None,
        "current_average_utilization": _if(ok and kind in _UTILIZATION, proposal.utilization_pct),
        "current_average_value": current_status.get("averageValue"),
        "current_average_value_milli": _if(ok and kind in _AVERAGE, proposal.average_milli),
        "current_value": current_status.get("value"),
        "current_value_milli": _if(ok and kind in _VALUE, proposal.value_milli),
        "metric_name": metric_name(metric, kind) if ok else None,
        "error": failure.error if failure else None,
        "condition_reason": codes.CONDITIONS[code].reason if failure else None,
        "condition_message": (messages.condition_message(code, failure.event) if failure else None),
    }


def _status_value(
    lane: LaneView, fleet: Fleet, results: Results, texts: Texts, profile: Profile
) -> dict[str, Any]:
    """Return `current` of the one metric's status."""
    reader = StatusReader(
        fleet, results, _statuses_of_first_tick(), list(lane.specs), texts, profile
    )
    found = reader.current_metrics(LaneWords(NAMESPACE), 0)
    assert found is not None
    member: Any = next(value for key, value in encode_metric(found[0]).items() if key != "type")
    return dict(member["current"])


def _statuses_of_first_tick() -> Any:
    statuses = empty_statuses(1)
    statuses.metrics_tick[0] = 0
    return statuses


def _if(shown: bool, value: int) -> int | None:
    return int(value) if shown else None


def decide_timeline(timeline: Json, k8s: str) -> list[dict[str, Any]]:
    """Return the `expected` of every tick of a timeline."""
    lane, texts, profile = timeline_lane(timeline), Texts(), to_profile(k8s, timeline["flags"])
    fleet = pack_fleet([lane], to_flags(timeline["flags"]), profile, texts)
    hpa = decode(timeline["hpa"])
    before = hpa.status
    memory = _first_memory(fleet, timeline)
    results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
    replay_fleet(fleet, memory, False, results)
    statuses, status_memory = empty_statuses(fleet.ticks.size), make_status_memory(fleet)
    seed_status_memory(status_memory, 0, before)
    last = np.array([fleet.ticks.size], np.int64)
    status_fleet(fleet, results, status_memory, last, statuses)
    reader = StatusReader(fleet, results, statuses, list(lane.specs), texts, profile)
    words = LaneWords(hpa.namespace or NAMESPACE, before)
    return [tick_result(reader, words, t) for t in range(fleet.ticks.size)]


def _first_memory(fleet: Fleet, timeline: Json) -> Memory:
    """Return the controller's memory and the HPA's status before the first tick."""
    seeds = timeline.get("initial_recommendations")
    memory = make_memory(fleet, recorded=False, spare=len(seeds or ()))
    seed_status(memory, 0, decode(timeline["hpa"]).status)
    if seeds is not None:
        entries = [(e["recommendation"], to_ms(e["timestamp"])) for e in seeds]
        seed_recommendations(memory, 0, entries)
    return memory


def tick_result(reader: StatusReader, words: LaneWords, t: int) -> dict[str, Any]:
    """Return what golden data say of a tick."""
    row, status = reader.results.decisions[t], reader.status(words, t)
    outcome, rescaled = reader.outcome(words, t), bool(row.rescaled)
    return {
        "desired_replicas": status.desired_replicas,
        "status_current_replicas": status.current_replicas,
        "rescaled": rescaled,
        "scale_to": int(row.desired) if rescaled else None,
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
        "events": [
            {"type": e.type, "reason": e.reason, "message": e.message}
            for e in reader.events(words, t)
        ],
        "last_scale_time": status.last_scale_time,
        "last_scale_time_set": rescaled,
        "reconcile_error": outcome.error,
        "status_written": bool(reader.statuses[t].written),
        "action_label": outcome.action_label,
        "error_label": outcome.error_label,
    }
