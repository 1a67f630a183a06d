"""Golden cases through the package's kernels, back in the form of the golden `expected`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpabatch.engine.explain.status import LaneWords, StatusReader
from hpabatch.kernels.replay import replay_fleet
from hpabatch.kernels.status import status_fleet
from hpabatch.layout import codes
from hpabatch.layout.records import Fleet, Memory
from hpabatch.layout.results import Results, empty_results
from hpabatch.model import messages
from hpabatch.model.objects.describe import metric_name
from hpabatch.model.objects.encode_status import encode_metric
from hpabatch.model.versions import Profile
from hpabatch.packing.memory import make_memory, seed_recommendations, seed_status
from hpabatch.packing.pack import LaneView, pack_fleet
from hpabatch.packing.status import empty_statuses, make_status_memory, seed_status_memory
from hpabatch.packing.texts import Texts
from tests.compiled import compiled, propose_alone
from tests.conformance.drive import Drive
from tests.conformance.golden import (
    Json,
    calculator_lane,
    decode,
    hpa_lane,
    to_flags,
    to_ms,
    to_profile,
)
from tests.conformance.results import tick_result

NAMESPACE = "default"

propose_metric = compiled(propose_alone)

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
    profile, texts = to_profile(k8s, case["flags"]), Texts()
    lane = calculator_lane(case, profile)
    fleet = pack_fleet([lane], to_flags(case["flags"]), profile, texts)
    results = empty_results(1, 1, details=True)
    propose_metric(fleet, case.get("spec_replicas") or 0, results)
    proposal = results.metrics[0]
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
        "replicas": int(proposal.proposal) if ok else None,
        "current_average_utilization": _if(ok and kind in _UTILIZATION, proposal.utilization_pct),
        "current_average_value": current_status.get("averageValue") if kind in _AVERAGE else None,
        "current_average_value_milli": _if(ok and kind in _AVERAGE, proposal.average_milli),
        "current_value": current_status.get("value") if kind in _VALUE else None,
        "current_value_milli": _if(ok and kind in _VALUE, proposal.value_milli),
        "metric_name": metric_name(metric, kind, profile.container_metric_named) if ok else None,
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
    profile = to_profile(k8s, timeline["flags"])
    adapted, hpa = hpa_lane(timeline, profile), decode(timeline["hpa"])
    unwritten = [tick.get("status_update_error") or "" for tick in timeline["ticks"]]
    if any(unwritten):
        drive = Drive([adapted], to_flags(timeline["flags"]), profile)
        drive.begin(0, hpa)
        return [drive.sync(0, error) for error in unwritten]
    lane, texts = adapted.view(), Texts()
    fleet = pack_fleet([lane], to_flags(timeline["flags"]), profile, texts)
    before = hpa.status
    memory = _first_memory(fleet, timeline)
    results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
    replay_fleet(fleet, memory, False, results)
    statuses, status_memory = empty_statuses(fleet.ticks.size), make_status_memory(fleet)
    status_memory.generations[:] = adapted.generations
    seed_status_memory(status_memory, 0, before)
    last = np.array([fleet.ticks.size], np.int64)
    status_fleet(fleet, results, status_memory, last, statuses)
    reader = StatusReader(fleet, results, statuses, list(lane.specs), texts, profile)
    words = LaneWords(hpa.namespace or NAMESPACE, before, hpa.name)
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
