"""Small cases of the naive simulator.

A case is quiet unless told otherwise: ticks at 1 000 000, 1 015 000, 1 030 000 ms and so on, every
draw 0, pods that come and go after 1 ms, which is the least, and an HPA that never acts, because
the request that its metric needs is not known.
"""

from __future__ import annotations

from typing import Any

from .generate_plants import DRAWS

Json = dict[str, Any]

START = 1_000_000
PERIOD = 15_000
CPU = "resource/cpu"

SIGNAL: Json = {
    "kind": "divisible",
    "api": "resource",
    "base_milli": 0,
    "ceiling_milli": None,
    "startup_milli": 0,
    "rate_milli": 0,
    "growth_milli_per_hour": 0,
    "overload": "drop",
    "queue_milli": 0,
    "request_milli": None,
    "unit_milli": 1,
    "observed_milli": None,
    "levels_milli": [],
}
PODS: Json = {
    "startup_ms": [[0, 0]],
    "reaction_ms": 1,
    "termination_ms": 0,
    "serves_while_terminating": False,
    "capacity": 0,
    "removal": "replicaset",
    "shares": [1000],
    "costs": [0],
    "failure_at_ms": [],
    "restart_ms": 0,
    "surge_pct": 25,
    "unavailable_pct": 25,
    "initial_age_ms": 3_600_000,
}
PIPELINE: Json = {
    "interval_ms": 15_000,
    "phase_ms": START,
    "window_ms": 15_000,
    "lag_ms": 0,
    "first_sample_ms": 0,
    "max_age_ms": 60_000,
    "gaps_ms": [],
}


def utilization(percent: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def spec(metrics: list[Json], minimum: int = 1, maximum: int = 100, **more: Any) -> Json:
    return {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": minimum,
        "maxReplicas": maximum,
        "metrics": metrics,
        **more,
    }


def case(
    steps: int,
    initial: int,
    *,
    signals: dict[str, Json] | None = None,
    work: dict[str, list[int]] | None = None,
    pods: Json | None = None,
    pipeline: Json | None = None,
    events: list[tuple[int, str, int]] | None = None,
    draws: dict[int, int] | None = None,
    **more: Any,
) -> Json:
    """Build a case from what differs from the quiet default; a piece of work is a step long."""
    chosen = {name: {**SIGNAL, **given} for name, given in (signals or {CPU: {}}).items()}
    used = {**PIPELINE, **(pipeline or {})}
    table = [0] * DRAWS
    for index, number in (draws or {}).items():
        table[index] = number
    return {
        "k8s": "1.38",
        "start_ms": START,
        "period_ms": PERIOD,
        "steps": steps,
        "initial": initial,
        "flags": {
            "tolerance": 0.1,
            "cpu_initialization_period_ms": 300_000,
            "initial_readiness_delay_ms": 30_000,
            "downscale_stabilization_ms": 0,
            "hpa_scale_to_zero": True,
        },
        "periods": [{"from_ms": START, "spec": spec([utilization(50)])}],
        "plant": {
            "signals": chosen,
            "pods": {**PODS, **(pods or {})},
            "pipelines": {"resource": used, "custom": used, "external": used},
            "capacity_milli": None,
            "first_draw": 0,
        },
        "work": {name: (work or {}).get(name, [0]) for name in chosen},
        "work_start_ms": START,
        "resolution_ms": PERIOD,
        "events": [{"at_ms": at, "kind": kind, "value": value} for at, kind, value in events or []],
        "draws": table,
        **more,
    }
