"""Random cases for the naive simulator: small runs in which every feature turns up.

The same seed always gives the same JSON. The form is that of `simulator`.
"""

from __future__ import annotations

import random
from typing import Any

from .generate_subjects import Plan, Subject, draw_subjects
from .generate_timelines import draw_behavior
from .generate_values import chance, plain_quantity

Json = dict[str, Any]

DRAWS = 4096

_FIRST_START_MS = 1_772_323_200_000  # 2026-03-01
_PERIODS_MS = (1000, 5000, 10_007, 15_000, 15_000, 15_000, 15_000, 15_000, 20_011, 20_011, 60_000)
_SPANS_S = (0, 0, 15, 30, 60, 120, 300)


# --- signals and work -----------------------------------------------------------------------------


def _signal(plan: Plan, subject: Subject) -> Json:
    """Draw the parameters of a signal; every field is there, of use or not."""
    rng, level, kind = plan.rng, subject.level, subject.kind
    base = rng.choice([0, 0, level // 10, level // 3, level * 9 // 10])
    ceiling = max(base, int(level * rng.uniform(0.9, 2.5)))
    is_memory = subject.name.endswith("/memory")
    # a queue of bytes, in milli and times shares, would leave 64 bits, which the kernels have
    overload = "drop" if is_memory else rng.choice(["drop", "queue"])
    has_queue = kind == "backlog" or overload == "queue" or chance(rng, 0.1)
    return {
        "kind": kind,
        "api": subject.api,
        "base_milli": base,
        "ceiling_milli": None if chance(rng, 0.3) else ceiling,
        "startup_milli": rng.choice([0, base, level // 2, 2 * level]),
        "rate_milli": rng.choice([level // 60, level // 20, level // 5]),
        "growth_milli_per_hour": rng.choice([0, level // 10, level // 3]),
        "overload": overload,
        "queue_milli": rng.randint(0, 5 * level) if has_queue and chance(rng, 0.6) else 0,
        "request_milli": subject.request,
        "unit_milli": rng.choice([1000, 1000, 1]) if is_memory else rng.choice([1, 1, 10]),
        "observed_milli": None if chance(rng, 0.3) else [level * 3 // 10, level * 12 // 10],
        "levels_milli": [level * tenths // 10 for tenths in (2, 4, 7, 10, 13)],
    }


def _wishes(plan: Plan, pieces: int) -> list[float]:
    """Draw for how many pods there is work in each piece: a walk with jumps and quiet times."""
    rng = plan.rng
    wish, quiet, wishes = rng.uniform(0, 0.8 * plan.limit), 0, []
    for _ in range(pieces):
        if quiet == 0 and chance(rng, 0.05):
            quiet = rng.randint(1, 8)
        if chance(rng, 0.08):
            wish = rng.uniform(0, 1.1 * plan.limit)
        wish = min(wish * rng.uniform(0.8, 1.2), 1.5 * plan.limit)
        wishes.append(0.0 if quiet > 0 else wish)
        quiet = max(0, quiet - 1)
    return wishes


def _work(plan: Plan, subject: Subject, signal: Json, wishes: list[float]) -> list[int]:
    """Turn wishes into the work of a signal."""
    room = max(1, subject.level - signal["base_milli"])
    if subject.kind == "per_pod":  # whatever the number of pods
        return [int(room * wish / plan.limit * 2) for wish in wishes]
    unit = {"divisible": room, "backlog": signal["rate_milli"]}.get(subject.kind, subject.level)
    return [int(unit * wish) for wish in wishes]


# --- the HPA --------------------------------------------------------------------------------------


def _target(rng: random.Random, subject: Subject) -> Json:
    """Draw a target that the subject's metric may have."""
    level = max(1, int(subject.level * rng.uniform(0.8, 1.2)))
    if subject.metric["type"] in ("Resource", "ContainerResource") and chance(rng, 0.6):
        request = subject.request or subject.level
        return {"type": "Utilization", "averageUtilization": max(1, level * 100 // request)}
    if subject.metric["type"] in ("Object", "External") and chance(rng, 0.4):
        value = max(1, level * rng.choice([1, 1, 3]))
        return {"type": "Value", "value": plain_quantity(value)}
    return {"type": "AverageValue", "averageValue": plain_quantity(level)}


def _metric(rng: random.Random, subject: Subject) -> Json:
    (member,) = subject.metric.keys() - {"type"}
    source = {**subject.metric[member], "target": _target(rng, subject)}
    return {"type": subject.metric["type"], member: source}


def _rules(rng: random.Random) -> Json:
    """Draw one direction of a behavior with spans that a short run can feel."""
    policies = [
        {
            "type": kind,
            "value": rng.choice([1, 2, 4] if kind == "Pods" else [10, 50, 100, 200]),
            "periodSeconds": rng.choice([5, 15, 30, 60, 120]),
        }
        for kind in rng.choices(["Pods", "Percent"], k=rng.randint(1, 3))
    ]
    rules: Json = {
        "selectPolicy": rng.choice(["Max", "Max", "Max", "Min", "Disabled"]),
        "policies": policies,
        "stabilizationWindowSeconds": rng.choice(_SPANS_S),
    }
    if chance(rng, 0.2):
        rules["tolerance"] = rng.choice(["0", "20m", "200m", "500m"])
    return rules


def _behavior(rng: random.Random) -> Json | None:
    draw = rng.random()
    if draw < 0.35:
        return None
    if draw < 0.6:
        return draw_behavior(rng)
    behavior = {"scaleUp": _rules(rng), "scaleDown": _rules(rng)}
    if chance(rng, 0.3):
        del behavior["scaleDown"]["stabilizationWindowSeconds"]  # then the flag's value holds
    return behavior


def _spec(plan: Plan, subjects: list[Subject]) -> Json:
    rng = plan.rng
    chosen = rng.sample(subjects, rng.randint(1, min(3, len(subjects))))
    has_total = any(subject.kind in ("total", "backlog") for subject in chosen)
    maximum = plan.limit if chance(rng, 0.7) else rng.randint(1, plan.limit)
    lowest = 0 if plan.zero and has_total and chance(rng, 0.7) else 1
    spec: Json = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": min(maximum, lowest if lowest == 0 else rng.choice([1, 1, 1, 2, 3])),
        "maxReplicas": maximum,
        "metrics": [_metric(rng, subject) for subject in chosen],
    }
    behavior = _behavior(rng)
    if behavior is not None:
        spec["behavior"] = behavior
    return spec


def _periods(plan: Plan, subjects: list[Subject]) -> list[Json]:
    """Draw the spec and its edits: of a part, or of everything."""
    rng = plan.rng
    spec = _spec(plan, subjects)
    periods: list[Json] = [{"from_ms": plan.start - rng.choice([0, 0, 1, 100_000]), "spec": spec}]
    edits = rng.choice([0, 0, 0, 1, 1, 3])
    for instant in sorted(rng.sample(range(plan.start + 1, plan.end), edits)):
        at_tick = plan.start + (instant - plan.start) // plan.period * plan.period
        other = _spec(plan, subjects)
        if chance(rng, 0.5):  # what remains of the old spec can do without the edited part
            bounds = {
                "minReplicas": max(1, other["minReplicas"]),
                "maxReplicas": other["maxReplicas"],
            }
            other = {**periods[-1]["spec"], **bounds}
        from_ms = at_tick if chance(rng, 0.3) and at_tick > periods[-1]["from_ms"] else instant
        periods.append({"from_ms": from_ms, "spec": other})
    return periods


# --- pods, pipelines, events ----------------------------------------------------------------------


def _span(rng: random.Random, *usual: int) -> int:
    return rng.choice([*usual, rng.randint(0, 2 * max(usual))])


def _pods(plan: Plan) -> Json:
    rng = plan.rng
    classes = rng.choice([1, 1, 2, 3])
    failures = rng.choice([0, 0, 0, 2, 6])
    served = plan.limit * plan.steps * plan.period // 2
    return {
        "startup_ms": [
            [_span(rng, 0, 1000, 40_000), _span(rng, 0, 9_500, 14_000, 90_000)]
            for _ in range(rng.choice([1, 1, 2, 4]))
        ],
        "reaction_ms": rng.choice([1, 500, 500, 500, 1500, 20_000]),
        "termination_ms": _span(rng, 0, 5000, 30_000),
        "serves_while_terminating": chance(rng, 0.3),
        "capacity": 0 if chance(rng, 0.6) else rng.randint(1, plan.limit + 1),
        "removal": rng.choice(["replicaset", "replicaset", "statefulset"]),
        "shares": [1000] if classes == 1 else [rng.randint(100, 3000) for _ in range(classes)],
        "costs": [rng.choice([0, 0, 5, -3]) for _ in range(classes)],
        "failure_at_ms": sorted(rng.randint(0, served) for _ in range(failures)),
        "restart_ms": _span(rng, 0, 10_000, 30_000),
        "surge_pct": rng.choice([0, 25, 50, 100]),
        "unavailable_pct": rng.choice([0, 0, 25, 50]),
        "initial_age_ms": _span(rng, 0, 20_000, 3_600_000),
    }


def _pipeline(plan: Plan) -> Json:
    rng = plan.rng
    interval = rng.choice([1000, 5000, 15_000, 15_000, 30_000, 60_000, 7777])
    gaps: list[list[int]] = []
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        begin = max(plan.instant(), gaps[-1][1] if gaps else 0)
        gaps.append([begin, begin + rng.randint(1, max(2, (plan.end - plan.start) // 3))])
    return {
        "interval_ms": interval,
        "phase_ms": rng.choice([0, rng.randrange(interval), plan.start % interval]),
        "window_ms": rng.choice([0, 1000, 10_000, 15_000, 15_000, 60_000, 90_500, interval]),
        "lag_ms": rng.choice([0, 0, 0, 1, 700, 5000, 2 * interval + 100]),
        "first_sample_ms": _span(rng, 0, 15_000, interval),
        "max_age_ms": rng.choice(
            [60_000, 60_000, 60_000, 300_000, 300_000, 3 * interval, interval // 2]
        ),
        "gaps_ms": gaps,
    }


def _events(plan: Plan) -> list[Json]:
    rng = plan.rng
    events = []
    for _ in range(rng.choice([0, 0, 1, 2, 4])):
        kind = rng.choice(["scale", "lose", "rollout", "rollout"])
        value = 0
        if kind == "scale":
            value = rng.randint(0 if chance(rng, 0.2) else 1, plan.limit + 2)
        elif kind == "lose":
            value = rng.choice([0, 100, 300, 500, 1000, rng.randint(0, 1000)])
        events.append({"at_ms": plan.instant(), "kind": kind, "value": value})
    return sorted(events, key=lambda event: int(event["at_ms"]))


def _flags(rng: random.Random, k8s: str) -> Json:
    return {
        "tolerance": rng.choice([0.0, 0.05, 0.1, 0.1, 0.2]),
        "cpu_initialization_period_ms": rng.choice([0, 30, 120, 300]) * 1000,
        "initial_readiness_delay_ms": rng.choice([0, 10, 30]) * 1000,
        "downscale_stabilization_ms": rng.choice(_SPANS_S) * 1000,
        "hpa_scale_to_zero": k8s == "1.38",  # as the version has it
    }


# --- the case -------------------------------------------------------------------------------------


def _plan(rng: random.Random, k8s: str) -> Plan:
    start = _FIRST_START_MS + rng.randrange(30 * 86_400) * 1000
    return Plan(
        rng=rng,
        start=start + (rng.randrange(1000) if chance(rng, 0.3) else 0),
        period=rng.choice(_PERIODS_MS),
        steps=rng.randint(10, 80),
        limit=rng.choice([1, 3, 5, 8, 8, 12, 12]),
        zero=k8s == "1.38" and chance(rng, 0.25),
        requests_known=chance(rng, 0.9),
    )


def _draw_sights(signals: dict[str, Json], rng: random.Random) -> None:
    """Let the controller of some cases see pods' signals otherwise than they are measured.

    Samples of resources stand in one row, so their times are one.
    """
    if chance(rng, 0.6):
        return
    of_rows = _times(rng)
    for signal in signals.values():
        if signal["kind"] not in ("total", "backlog") and chance(rng, 0.8):
            scale = rng.choice([10**6, 900_001, 1_234_567, rng.randint(600_000, 1_600_000)])
            times = of_rows if signal["api"] == "resource" else _times(rng)
            signal["sight"] = {**times, "scale_ppm": scale}
        elif signal["api"] == "resource":
            signal["sight"] = of_rows


def _times(rng: random.Random) -> Json:
    return {
        "later_ms": rng.choice([0, 0, 1, 15_000, 37_500, 90_000]),
        "smoothing_ms": rng.choice([0, 0, 1, 15_000, 60_000, 100_000]),
    }


def random_case(rng: random.Random) -> Json:
    """Draw a case: everything that `simulator.simulate` needs."""
    k8s = rng.choice(["1.38", "1.38", "1.38", "1.36"])
    plan = _plan(rng, k8s)
    subjects = draw_subjects(plan)
    signals = {subject.name: _signal(plan, subject) for subject in subjects}
    resolution = rng.choice([plan.period, 60_000, 100_000, 7001, 15_000])
    pieces = rng.randint(1, plan.steps * plan.period // resolution + 2)
    first = subjects[0]
    capacity = max(1, first.level - signals[first.name]["base_milli"])
    _draw_sights(signals, random.Random(plan.start))  # (no draw of the others moves)
    return {
        "k8s": k8s,
        "start_ms": plan.start,
        "period_ms": plan.period,
        "steps": plan.steps,
        "initial": rng.randint(0 if chance(rng, 0.2) else 1, plan.limit + 1),
        "flags": _flags(rng, k8s),
        "periods": _periods(plan, subjects),
        "plant": {
            "signals": signals,
            "pods": _pods(plan),
            "pipelines": {api: _pipeline(plan) for api in ("resource", "custom", "external")},
            "capacity_milli": None if chance(rng, 0.15) else capacity,
            "first_draw": rng.randrange(DRAWS),
        },
        "work": {
            subject.name: _work(plan, subject, signals[subject.name], _wishes(plan, pieces))
            for subject in subjects
        },
        "work_start_ms": plan.start + rng.choice([0, 0, -3000, 20_000]),
        "resolution_ms": resolution,
        "events": _events(plan),
        "draws": [rng.getrandbits(31) for _ in range(DRAWS)],
    }
