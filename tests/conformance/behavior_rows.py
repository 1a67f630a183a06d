"""Upstream's unit tables, row by row, through the package's own rules.

Lists of recommendations and scale events go in and come out in slot order. What a rule leaves
alone is not said here a second time: each function below only converts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np

from hpabatch.layout import codes
from hpabatch.layout.records import (
    EVENT_SLOT,
    HEAD_DOWN_COUNT,
    HEAD_DOWN_START,
    HEAD_LENGTH,
    HEAD_MAX_FROM,
    HEAD_MIN_FROM,
    HEAD_OLD_BEFORE,
    HEAD_REC_COUNT,
    HEAD_REC_SIZE,
    HEAD_SPARE,
    HEAD_UP_COUNT,
    HEAD_UP_START,
    REC_SLOT,
    Fleet,
    Memory,
    records_from,
)
from hpabatch.model.messages import condition_message
from hpabatch.model.requests import RequestRules, pod_request
from hpabatch.model.versions import profile_for
from hpabatch.packing.memory import seed_recommendations
from hpabatch.rules.behavior import (
    limit_rate,
    replicas_changed_since,
    scale_down_limit,
    scale_up_limit,
    store_scale_event,
)
from hpabatch.rules.controller import controller_of
from hpabatch.rules.normalize import limit_legacy, normalize, window_condition
from hpabatch.rules.replicas import average_per_pod
from hpabatch.rules.stabilize import stabilize_legacy
from hpabatch.rules.statistics import pod_group
from tests.conformance.golden import Json, decode, to_flags, to_ms, to_pod, to_resources, zero_ms
from tests.packed import LaneView, MetricAnswer, PodSample, TickView, pack_fleet

_FAR_PAST = -(2**63 - 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decide_row(row: Json) -> Json:
    """Return the `expected` of a row."""
    return _FUNCTIONS[row["test"]](row["input"])


# --- the controller's memory and the HPA's spec ---------------------------------------------------


def memory_of(recommendations: list[Json], ups: list[Json], downs: list[Json]) -> Memory:
    """Return the memory of one lane that holds these lists, with room for one more of each."""
    room = max(len(ups), len(downs)) + 1
    slots = len(recommendations) + 2
    head = np.zeros((1, HEAD_LENGTH), np.int64)
    head[0, [HEAD_MIN_FROM, HEAD_MAX_FROM, HEAD_OLD_BEFORE]] = _FAR_PAST
    head[0, HEAD_REC_SIZE], head[0, HEAD_SPARE] = slots, len(recommendations)
    head[0, HEAD_DOWN_START] = room
    head[0, HEAD_UP_COUNT], head[0, HEAD_DOWN_COUNT] = len(ups), len(downs)
    events = records_from(EVENT_SLOT, 2 * room)
    for first, entries in ((0, ups), (room, downs)):
        for k, entry in enumerate(entries, first):
            change, ms = entry["replica_change"], to_ms(entry["timestamp"])
            events[k] = (change, ms, bool(entry.get("outdated")))
    memory = Memory(head, records_from(REC_SLOT, slots), events)
    pairs = [(e["recommendation"], to_ms(e["timestamp"])) for e in recommendations]
    seed_recommendations(memory, 0, pairs)
    return memory


def fleet_of(data: Json, behavior: Json | None) -> Fleet:
    """Return one lane of one tick without metrics, with this behavior."""
    spec = {
        "minReplicas": data.get("min_replicas") or 0,
        "maxReplicas": data.get("max_replicas") or 2**31 - 1,
        "behavior": behavior,
    }
    document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}
    current = data.get("current_replicas") or 0
    tick = TickView(now_ms=to_ms(data["now"]), spec=0, replicas=current, status_replicas=current)
    lane = LaneView([decode(document).spec], [tick])
    return pack_fleet([lane], to_flags({}), profile_for("1.38"))


def time_text(ms: int) -> str:
    """Return ms since 1970 as the data write a time."""
    moment = (_EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None)
    text = moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")
    return (text.rstrip("0") if ms % 1000 else text) + "Z"


def _recommendations(memory: Memory) -> list[Json]:
    slots = memory.recs[: memory.head[0, HEAD_REC_COUNT]]
    return [{"recommendation": int(s.value), "timestamp": time_text(int(s.ms))} for s in slots]


def _events(memory: Memory, first_at: int, count_at: int) -> list[Json]:
    first = memory.head[0, first_at]
    return [
        {
            "replica_change": int(e.change),
            "timestamp": time_text(int(e.ms)),
            "outdated": bool(e.outdated),
        }
        for e in memory.events[first : first + memory.head[0, count_at]]
    ]


def _words(condition: int) -> Json:
    reason = codes.CONDITIONS[condition].reason
    return {"reason": reason, "message": condition_message(condition)}


# --- one function per upstream function -----------------------------------------------------------


def _rate(data: Json) -> Json:
    fleet = fleet_of(data, data["behavior"])
    memory = memory_of([], data["scale_up_events"], data["scale_down_events"])
    replicas, condition = limit_rate(
        memory.head[0],
        memory.events,
        fleet.specs[0],
        fleet.policies,
        data["current_replicas"],
        data["desired_replicas"],
        to_ms(data["now"]),
        True,
    )
    return {"replicas": replicas, **_words(condition)}


def _legacy_limit(data: Json) -> Json:
    replicas, condition = limit_legacy(
        data["current_replicas"],
        data["desired_replicas"],
        data["min_replicas"],
        data["max_replicas"],
    )
    return {"replicas": replicas, **_words(condition)}


def _one_window(data: Json) -> Json:
    memory = memory_of(data["recommendations"], [], [])
    stabilized = stabilize_legacy(
        memory.head[0],
        memory.recs,
        data["desired_replicas"],
        to_ms(data["now"]),
        data["downscale_stabilization_s"] * 1000,
    )
    return {"stabilized": stabilized, "recommendations_after": _recommendations(memory)}


def _two_windows(data: Json) -> Json:
    windows = {
        direction: {"stabilizationWindowSeconds": data[f"{name}_stabilization_s"]}
        for direction, name in (("scaleUp", "scale_up"), ("scaleDown", "scale_down"))
    }
    fleet = fleet_of(data, windows)
    memory = memory_of(data["recommendations"], [], [])
    current, desired = data["current_replicas"], data["desired_replicas"]
    stabilized, _, able, _ = normalize(
        fleet, controller_of(fleet, 0), memory, 0, 0, current, desired
    )
    condition = window_condition(desired, current)
    assert able == (condition if stabilized != desired else codes.READY_FOR_NEW_SCALE)
    return {
        "stabilized": stabilized,
        **_words(condition),
        "recommendations_after": _recommendations(memory),
    }


def _policy_limit(data: Json) -> Json:
    up = data["direction"] == "up"
    fleet = fleet_of(data, {"scaleUp" if up else "scaleDown": data["rules"]})
    memory = memory_of([], data["scale_up_events"], data["scale_down_events"])
    limit_of = scale_up_limit if up else scale_down_limit
    limit = limit_of(
        memory.head[0],
        memory.events,
        fleet.specs[0],
        fleet.policies,
        data["current_replicas"],
        to_ms(data["now"]),
        True,
    )
    return {"limit": limit}


def _store(data: Json) -> Json:
    up, rules = data["direction"] == "up", data["rules"]
    behavior = None if rules is None else {"scaleUp" if up else "scaleDown": rules}
    fleet, now_ms = fleet_of(data, behavior), to_ms(data["now"])
    ups, downs = (data["events"], []) if up else ([], data["events"])
    memory = memory_of([], ups, downs)
    places = (HEAD_UP_START, HEAD_UP_COUNT) if up else (HEAD_DOWN_START, HEAD_DOWN_COUNT)
    first, count = (int(memory.head[0, place]) for place in places)
    change = replicas_changed_since(memory.events, first, count, now_ms - 60_000)
    before, after = data["prev_replicas"], data["new_replicas"]
    store_scale_event(
        memory.head[0], memory.events, fleet.specs[0], fleet.policies, before, after, now_ms
    )
    return {"change_in_last_60s_before": change, "events_after": _events(memory, *places)}


def _groups(data: Json) -> Json:
    now_ms = to_ms(data["now"])
    target = {"type": "AverageValue", "averageValue": "1"}
    metric = {"type": "Resource", "resource": {"name": data["resource"], "target": target}}
    document = {"apiVersion": "autoscaling/v2", "spec": {"metrics": [metric]}}
    samples = {
        name: PodSample(s["value_milli"], zero_ms(s["timestamp"]), (s["window_s"] or 0) * 1000)
        for name, s in data["pod_metrics"].items()
    }
    pods = [to_pod(pod) for pod in data["pods"]]
    tick = TickView(now_ms, 0, 1, 1, pods, [MetricAnswer(samples=samples)])
    fleet = pack_fleet(
        [LaneView([decode(document).spec], [tick])], to_flags(data), profile_for("1.38")
    )
    groups: dict[int, list[str]] = {}
    is_cpu = bool(fleet.metrics[0].is_cpu)
    for row, pod in enumerate(pods):
        state, controller = int(fleet.row_state[row]), controller_of(fleet, 0)
        group = pod_group(fleet, state, row, is_cpu, now_ms, controller)
        groups.setdefault(group, []).append(pod.name)
    return {
        "ready_pod_count": len(groups.get(codes.GROUP_READY, [])),
        "unready": sorted(groups.get(codes.GROUP_UNREADY, [])),
        "missing": sorted(groups.get(codes.GROUP_MISSING, [])),
        "ignored": sorted(groups.get(codes.GROUP_IGNORED, [])),
    }


def _requests(data: Json) -> Json:
    requests = {}
    for pod in data["pods"]:
        resources = to_resources(pod)
        request = pod_request(
            pod["name"],
            resources.containers,
            resources.init_containers,
            resources.pod_level,
            container=data["container"],
            resource=data["resource"],
            rules=RequestRules(pod_level=data["pod_level_resources_gate"]),
        )
        if request.error is not None:
            return {"requests_milli": None, "error": request.error}
        requests[pod["name"]] = request.milli
    return {"requests_milli": requests, "error": None}


def _per_pod(data: Json) -> Json:
    return {
        "per_pod_milli": average_per_pod(data["usage_milli"], data["status_replicas"], True, True)
    }


_FUNCTIONS: dict[str, Callable[[Json], Json]] = {
    "TestScalingWithRules": _rate,
    "TestConvertDesiredReplicasWithRules": _legacy_limit,
    "TestNormalizeDesiredReplicas": _one_window,
    "TestNormalizeDesiredReplicasWithBehavior": _two_windows,
    "TestCalculateScaleUpLimitWithScalingRules": _policy_limit,
    "TestCalculateScaleDownLimitWithBehaviors": _policy_limit,
    "TestStoreScaleEvents": _store,
    "TestGroupPods": _groups,
    "TestCalculateRequests": _requests,
    "TestGetPerPodUsage": _per_pod,
}
