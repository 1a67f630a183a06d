"""Golden cases through the package's kernels, back in the form of the golden `expected`."""

from __future__ import annotations

from typing import Any

from hpabatch.arrays.layout import Fleet, Memory, empty_results
from hpabatch.arrays.memory import make_memory, seed_recommendations, seed_status
from hpabatch.arrays.pack import pack_fleet
from hpabatch.kernels.replay import replay_fleet
from hpabatch.model import codes
from hpabatch.model.describe import metric_name
from hpabatch.rules.combine import propose
from hpabatch.rules.controller import controller_of
from hpabatch.rules.replicas import Tolerance
from tests.conformance.golden import (
    Json,
    calculator_lane,
    decode,
    timeline_lane,
    to_flags,
    to_ms,
    to_profile,
)

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
    """Return the decision-level `expected` of a calculator case."""
    lane = calculator_lane(case)
    fleet = pack_fleet([lane], to_flags(case["flags"]), to_profile(k8s, case["flags"]))
    spec = fleet.specs[0]
    tolerance = Tolerance(float(spec.down_tolerance), float(spec.up_tolerance))
    proposal = propose(
        fleet, controller_of(fleet, 0), 0, 0, case.get("spec_replicas") or 0, tolerance
    )
    kind = int(fleet.metrics[0].kind)
    ok = proposal.code == codes.METRIC_OK
    condition = codes.INVALID_METRIC_SOURCE_TYPE + int(fleet.metrics[0].source)
    return {
        "replicas": int(proposal.replicas) if ok else None,
        "current_average_utilization": _if(ok and kind in _UTILIZATION, proposal.utilization_pct),
        "current_average_value_milli": _if(ok and kind in _AVERAGE, proposal.average_milli),
        "current_value_milli": _if(ok and kind in _VALUE, proposal.value_milli),
        "metric_name": metric_name(lane.specs[0].metrics[0], kind) if ok else None,
        "condition_reason": None if ok else codes.CONDITIONS[condition].reason,
    }


def _if(shown: bool, value: int) -> int | None:
    return int(value) if shown else None


def decide_timeline(timeline: Json, k8s: str) -> list[dict[str, Any]]:
    """Return the decision-level `expected` of every tick of a timeline."""
    flags = to_flags(timeline["flags"])
    fleet = pack_fleet([timeline_lane(timeline)], flags, to_profile(k8s, timeline["flags"]))
    memory = _first_memory(fleet, timeline)
    results = empty_results(fleet.ticks.size, fleet.answers.size)
    replay_fleet(fleet, memory, False, results)
    return [_tick_result(row) for row in results.decisions]


def _first_memory(fleet: Fleet, timeline: Json) -> Memory:
    """Return the controller's memory and the HPA's status before the first tick."""
    seeds = timeline.get("initial_recommendations")
    memory = make_memory(fleet, recorded=False, spare=len(seeds or ()))
    seed_status(memory, 0, decode(timeline["hpa"]).status)
    if seeds is not None:
        entries = [(e["recommendation"], to_ms(e["timestamp"])) for e in seeds]
        seed_recommendations(memory, 0, entries)
    return memory


def _tick_result(row: Any) -> dict[str, Any]:
    conditions = [int(row[f"condition_{k}"]) for k in range(4)]
    rescaled = bool(row.rescaled)
    return {
        "desired_replicas": int(row.desired),
        "status_current_replicas": int(row.current),
        "rescaled": rescaled,
        "scale_to": int(row.desired) if rescaled else None,
        "conditions": [codes.CONDITIONS[c]._asdict() for c in conditions if c],
    }
