"""Random pods of calculator cases: containers and requests, phases, starts and readiness."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from .generate_values import any_quantity, build_containers, chance, container_layout
from .times import SECOND, format_time

Json = dict[str, Any]


@dataclass
class Draft:
    """What was drawn for the case so far."""

    rng: random.Random
    now: int
    flags: Json
    kind: str
    resource: str
    container: str  # of a ContainerResource metric, else empty
    profile: str
    edge: bool  # quantities near the int64 limits
    target_milli: int
    target_percent: int  # 0: the metric has no utilization target

    def quantity(self, milli: int) -> str:
        """Write a milli value."""
        return any_quantity(self.rng, milli, self.edge)


# --- pods -----------------------------------------------------------------------------------------


def draw_pods(draft: Draft) -> list[Json]:
    rng = draft.rng
    if draft.profile == "no_pods":
        return []
    layout = container_layout(rng)
    base = {"cpu": rng.choice([1, 2, 50, 100, 250, 1000]), "memory": rng.choice([1, 7, 64]) * 2**20}
    faulty = chance(rng, 0.08)  # some pods have zero or no requests
    pod_level = chance(rng, 0.15)
    count = rng.choice([1, 1, 2, 3, 5, 8, 10, 14])
    return [
        _pod(draft, index, layout, base, faulty=faulty, pod_level=pod_level)
        for index in range(count)
    ]


def _pod(
    draft: Draft,
    index: int,
    layout: list[tuple[str, bool | None]],
    base: Json,
    *,
    faulty: bool,
    pod_level: bool,
) -> Json:
    rng = draft.rng
    pod: Json = {"name": f"web-{index}", "phase": "Running", "deletion_timestamp": None}
    pod.update(_pod_state(draft))
    requests = [_requests(draft, base, faulty=faulty) for _ in layout]
    if pod_level and chance(rng, 0.8):
        pod["pod_requests"] = _pod_level_requests(draft, base)
        if chance(rng, 0.1):  # legal as long as the pod level names the resource
            for request in requests:
                request.pop(draft.resource, None)
    pod.update(build_containers(rng, layout, requests))
    return pod


def _requests(draft: Draft, base: Json, *, faulty: bool) -> Json:
    """Draw one container's requests; uneven ones tell a ratio of sums from a mean of ratios."""
    rng = draft.rng
    factor = rng.choice([1, 1, 1, 2, 3])
    requests = {
        "cpu": draft.quantity(base["cpu"] * factor),
        "memory": draft.quantity(base["memory"] * factor * 1000),
        "nvidia.com/gpu": str(factor),
    }
    if faulty and chance(rng, 0.3):
        requests[draft.resource] = rng.choice(["0", "0Ki", "1n", "100u", "-1m"])
    if faulty and chance(rng, 0.15):
        del requests[rng.choice(["cpu", "memory"])]
    if faulty and chance(rng, 0.05):
        return {}
    return requests


def _pod_level_requests(draft: Draft, base: Json) -> Json:
    """Draw ``spec.resources.requests``: any subset, since each entry replaces only itself."""
    rng = draft.rng
    requests: Json = {}
    if chance(rng, 0.6):
        requests["cpu"] = draft.quantity(base["cpu"] * 2)
    if chance(rng, 0.6):
        requests["memory"] = draft.quantity(base["memory"] * 2000)
    if chance(rng, 0.1):
        requests["hugepages-2Mi"] = "4Mi"
    if chance(rng, 0.05):
        requests["ephemeral-storage"] = "1Gi"  # not a pod-level resource
    return requests


def _pod_state(draft: Draft) -> Json:
    """Draw phase, deletion, start and readiness according to the profile."""
    rng = draft.rng
    odd = {"all_ready": 0.0, "missing": 0.0, "unready": 0.4, "mixed": 0.5, "none_usable": 0.8}
    state: Json = {"start_time": None, "ready": None}
    start = _start_time(draft)
    state["start_time"] = format_time(start)
    if draft.profile in ("all_ready", "missing"):
        start = draft.now - draft.now % SECOND - rng.randint(3600, 90_000) * SECOND
        state["start_time"] = format_time(start)
    transition = start + rng.choice([0, 1, 5, 10, 30, 31, 60]) * SECOND
    state["ready"] = {"status": "True", "last_transition_time": format_time(transition)}
    if not chance(rng, odd[draft.profile]):
        return state
    return _odd_pod_state(draft, state, start)


def _start_time(draft: Draft) -> int:
    """Draw a start time around the end of the initialisation period, exact edge included."""
    rng = draft.rng
    period: int = draft.flags["cpu_initialization_period_s"]
    age = rng.choice([0, 1, period - 1, period, period + 1, period // 2, rng.randint(0, 900)])
    return draft.now - draft.now % SECOND - max(0, age) * SECOND


def _odd_pod_state(draft: Draft, state: Json, start: int) -> Json:
    """Turn a ready pod into one of the states that grouping treats specially."""
    rng = draft.rng
    delay: int = draft.flags["initial_readiness_delay_s"]
    draw = rng.randrange(12)
    if draw == 0:
        state["deletion_timestamp"] = format_time(draft.now - rng.randint(0, 30) * SECOND)
    elif draw <= 4:
        phases = ["Failed", "Succeeded", "Pending", rng.choice(["Unknown", ""])]
        state["phase"] = phases[draw - 1]
        if state["phase"] == "Pending" and chance(rng, 0.5):
            state.update(start_time=None, ready=None)
    elif draw == 5:
        state["start_time"] = None
    elif draw == 6:
        state["ready"] = None
    else:
        offset = rng.choice([0, delay - 1, delay, delay + 1, rng.randint(0, 600)])
        transition = format_time(start + max(0, offset) * SECOND)
        status = rng.choice(["False", "False", "False", "Unknown", "True"])
        state["ready"] = {"status": status, "last_transition_time": transition}
    return state
