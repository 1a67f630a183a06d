"""Rows of upstream's unit tables, each through the function that it tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .normalize import (
    Recommendation,
    ScaleEvent,
    change_in_period,
    limit_legacy,
    limit_rate,
    scale_down_limit,
    scale_up_limit,
    stabilize_legacy,
    stabilize_with_windows,
    store_scale_event,
)
from .pods import calculate_requests, group_pods
from .replicas import per_pod_usage
from .samples import CalculationError, Sample
from .status import MESSAGES
from .times import SECOND, format_time, parse_time

Json = dict[str, Any]


def read_recommendations(rows: list[Json]) -> list[Recommendation]:
    """Read recommendations of the golden form."""
    return [Recommendation(row["recommendation"], parse_time(row["timestamp"])) for row in rows]


def write_recommendations(recommendations: list[Recommendation]) -> list[Json]:
    """Write recommendations in the golden form."""
    return [{"recommendation": r.value, "timestamp": format_time(r.time)} for r in recommendations]


def read_events(rows: list[Json]) -> list[ScaleEvent]:
    """Read scale events of the golden form."""
    return [
        ScaleEvent(row["replica_change"], parse_time(row["timestamp"]), bool(row["outdated"]))
        for row in rows
    ]


def write_events(events: list[ScaleEvent]) -> list[Json]:
    """Write scale events in the golden form."""
    return [
        {"replica_change": e.change, "timestamp": format_time(e.time), "outdated": e.outdated}
        for e in events
    ]


def _rate_row(data: Json) -> Json:
    replicas, reason = limit_rate(
        data["current_replicas"],
        data["desired_replicas"],
        data["min_replicas"],
        data["max_replicas"],
        data["behavior"],
        read_events(data["scale_up_events"]),
        read_events(data["scale_down_events"]),
        parse_time(data["now"]),
    )
    return {"replicas": replicas, "reason": reason, "message": MESSAGES[reason]}


def _legacy_limit_row(data: Json) -> Json:
    replicas, reason = limit_legacy(
        data["current_replicas"],
        data["desired_replicas"],
        data["min_replicas"],
        data["max_replicas"],
    )
    return {"replicas": replicas, "reason": reason, "message": MESSAGES[reason]}


def _legacy_stabilize_row(data: Json) -> Json:
    recommendations = read_recommendations(data["recommendations"])
    best = stabilize_legacy(
        recommendations,
        data["desired_replicas"],
        parse_time(data["now"]),
        data["downscale_stabilization_s"] * SECOND,
    )
    return {"stabilized": best, "recommendations_after": write_recommendations(recommendations)}


def _windows_row(data: Json) -> Json:
    recommendations = read_recommendations(data["recommendations"])
    stabilized, reason = stabilize_with_windows(
        recommendations,
        data["current_replicas"],
        data["desired_replicas"],
        parse_time(data["now"]),
        data["scale_up_stabilization_s"] * SECOND,
        data["scale_down_stabilization_s"] * SECOND,
    )
    return {
        "stabilized": stabilized,
        "reason": reason,
        "message": MESSAGES[reason],
        "recommendations_after": write_recommendations(recommendations),
    }


def _limit_row(data: Json) -> Json:
    limit_of = scale_up_limit if data["direction"] == "up" else scale_down_limit
    limit = limit_of(
        data["current_replicas"],
        data["rules"],
        read_events(data["scale_up_events"]),
        read_events(data["scale_down_events"]),
        parse_time(data["now"]),
    )
    return {"limit": limit}


def _store_row(data: Json) -> Json:
    now = parse_time(data["now"])
    events = read_events(data["events"])
    before = change_in_period(events, now, 60)
    if data["rules"] is not None:  # null: there is no behavior, so nothing is stored
        store_scale_event(events, data["rules"], data["prev_replicas"], data["new_replicas"], now)
    return {"change_in_last_60s_before": before, "events_after": write_events(events)}


def _group_row(data: Json) -> Json:
    samples = {
        name: Sample(
            parse_time(item["timestamp"]), (item["window_s"] or 0) * SECOND, item["value_milli"]
        )
        for name, item in data["pod_metrics"].items()
    }
    groups = group_pods(
        data["pods"],
        samples,
        data["resource"],
        parse_time(data["now"]),
        data["cpu_initialization_period_s"] * SECOND,
        data["initial_readiness_delay_s"] * SECOND,
    )
    return {
        "ready_pod_count": groups.ready_count,
        "unready": sorted(groups.unready),
        "missing": sorted(groups.missing),
        "ignored": sorted(groups.ignored),
    }


def _requests_row(data: Json) -> Json:
    try:
        requests = calculate_requests(
            data["pods"], data["container"], data["resource"], data["pod_level_resources_gate"]
        )
    except CalculationError as error:
        return {"requests_milli": None, "error": str(error)}
    return {"requests_milli": requests, "error": None}


def _per_pod_row(data: Json) -> Json:
    usage = per_pod_usage(data["usage_milli"], data["status_replicas"], "External")
    return {"per_pod_milli": usage}


_ROWS: dict[str, Callable[[Json], Json]] = {
    "TestScalingWithRules": _rate_row,
    "TestConvertDesiredReplicasWithRules": _legacy_limit_row,
    "TestNormalizeDesiredReplicas": _legacy_stabilize_row,
    "TestNormalizeDesiredReplicasWithBehavior": _windows_row,
    "TestCalculateScaleUpLimitWithScalingRules": _limit_row,
    "TestCalculateScaleDownLimitWithBehaviors": _limit_row,
    "TestStoreScaleEvents": _store_row,
    "TestGroupPods": _group_row,
    "TestCalculateRequests": _requests_row,
    "TestGetPerPodUsage": _per_pod_row,
}


def run_behavior_row(row: Json) -> Json:
    """Run one row of the unit tables; the pod names of TestGroupPods are sorted."""
    return _ROWS[row["test"]](row["input"])
