"""Random calculator cases in golden JSON form."""

from __future__ import annotations

import random
from typing import Any

from . import quantity
from .generate_case_pods import Draft, draw_pods
from .generate_values import (
    chance,
    error_text,
    metric_identifier,
    plain_quantity,
    tolerance_text,
    utilization_target,
)
from .gomath import trunc_div
from .replicas import directional_tolerances
from .times import SECOND, format_time, parse_time

Json = dict[str, Any]

_FIRST_NOW = parse_time("2026-03-01T00:00:00Z")
_KINDS: tuple[str, ...] = (
    ("Resource",) * 8 + ("ContainerResource",) * 5 + ("Pods",) * 4 + ("Object",) * 5
)
_KINDS += ("External",) * 5 + ("Bogus",)
_PROFILES = ("all_ready",) * 3 + ("missing", "unready", "mixed", "mixed", "none_usable", "no_pods")


def calculator_case(rng: random.Random) -> Json:
    """Draw a calculator case (without ``expected``)."""
    draft = _draft(rng)
    pods = draw_pods(draft)
    spec_replicas = _spec_replicas(rng, len(pods))
    status_replicas = spec_replicas
    if chance(rng, 0.2):
        status_replicas = max(0, spec_replicas + rng.randint(-3, 3))
    case: Json = {
        "id": f"reference-{rng.getrandbits(32):08x}",
        "tags": [draft.kind, draft.profile] + (["int64_edge"] if draft.edge else []),
        "flags": draft.flags,
        "now": format_time(draft.now),
        "metric": _metric(draft),
        "spec_replicas": spec_replicas,
        "status_replicas": status_replicas,
        "pods": pods,
    }
    case.update(_answer(draft, pods, status_replicas))
    return case


def _spec_replicas(rng: random.Random, pod_count: int) -> int:
    draw = rng.random()
    if draw < 0.04:
        return 0
    if draw < 0.08:
        return rng.choice([1, 1000, 2_000_000_000, 2**31 - 1])
    if draw < 0.3:
        return max(0, pod_count + rng.randint(-4, 4))
    return pod_count


def _draft(rng: random.Random) -> Draft:
    flags: Json = {
        "tolerance": rng.choice([0, 0.01, 0.05, 0.1, 0.1, 0.1, 0.2, 0.3, 1, 1.5]),
        "cpu_initialization_period_s": rng.choice([0, 30, 120, 300, 300]),
        "initial_readiness_delay_s": rng.choice([0, 10, 30, 30, 60]),
    }
    if chance(rng, 0.15):
        flags["scale_up_tolerance"] = tolerance_text(rng)
    if chance(rng, 0.15):
        flags["scale_down_tolerance"] = tolerance_text(rng)
    now = _FIRST_NOW + rng.randrange(100 * 86_400_000) * (SECOND // 1000)
    if chance(rng, 0.4):
        now -= now % SECOND  # API times have whole seconds, so only these can be equal to them
    kind = rng.choice(_KINDS)
    resource = rng.choice(["cpu", "cpu", "memory", "nvidia.com/gpu"])
    utilization = kind in ("Resource", "ContainerResource") and chance(rng, 0.6)
    return Draft(
        rng=rng,
        now=now,
        flags=flags,
        kind=kind,
        resource=resource,
        container=rng.choice(["app"] * 6 + ["proxy"] * 2 + ["logship", "absent"])
        if kind == "ContainerResource"
        else "",
        profile=rng.choice(_PROFILES),
        edge=chance(rng, 0.05),
        target_milli=rng.choice([1, 3, 100, 250, 1000, 1500, 60_000, 7_777_777])
        * rng.randint(1, 9),
        target_percent=utilization_target(rng) if utilization else 0,
    )


# --- the metric -----------------------------------------------------------------------------------


def _metric(draft: Draft) -> Json:
    rng = draft.rng
    if draft.kind == "Bogus":
        return {"type": rng.choice(["Bogus", "", "resource", 'Odd "kind"'])}
    member = draft.kind[0].lower() + draft.kind[1:]
    if draft.kind in ("Resource", "ContainerResource"):
        source: Json = {"name": draft.resource, "target": _resource_target(draft)}
        if draft.container:
            source["container"] = draft.container
    elif draft.kind == "Pods":
        target = {"type": "AverageValue", "averageValue": draft.quantity(draft.target_milli)}
        source = {"metric": metric_identifier(rng, "qps"), "target": target}
    else:
        name = "requests" if draft.kind == "Object" else "queue_length"
        source = {"metric": metric_identifier(rng, name), "target": _value_target(draft)}
    if draft.kind == "Object":
        kind = rng.choice(["Service", "Ingress", "Namespace"])
        source["describedObject"] = {"kind": kind, "name": "main", "apiVersion": "v1"}
    return {"type": draft.kind, member: source}


def _resource_target(draft: Draft) -> Json:
    """Draw a target; now and then both members (averageValue wins) or neither (invalid)."""
    rng = draft.rng
    draw = rng.random()
    if draw < 0.02:
        return rng.choice([{"type": "Utilization"}, {"type": "Value", "value": "5"}])
    target: Json = {"type": "Utilization" if draft.target_percent else "AverageValue"}
    if draft.target_percent:
        target["averageUtilization"] = draft.target_percent
    if not draft.target_percent or draw < 0.04:
        target["averageValue"] = draft.quantity(draft.target_milli)
    return target


def _value_target(draft: Draft) -> Json:
    """Draw an Object or External target: both forms, and combinations of type and members."""
    rng = draft.rng
    text = draft.quantity(draft.target_milli)
    draw = rng.random()
    if draw < 0.44:
        return {"type": "Value", "value": text}
    if draw < 0.88:
        return {"type": "AverageValue", "averageValue": text}
    return rng.choice(
        [
            {"type": "Value", "averageValue": text},
            {"type": "AverageValue", "value": text},
            {"type": "Value", "value": text, "averageValue": "3"},
            {"type": "AverageValue", "value": "3", "averageValue": text},
            {"type": "Utilization", "value": text},
            {"type": "Utilization", "averageUtilization": 50},
            {"type": "Value"},
        ]
    )


# --- the API's answer -----------------------------------------------------------------------------


def _answer(draft: Draft, pods: list[Json], status_replicas: int) -> Json:
    rng = draft.rng
    answer: Json = {}
    if chance(rng, 0.02):
        answer["metrics_error"] = error_text(rng)
        if chance(rng, 0.5):
            return answer
    if draft.kind == "Bogus" or chance(rng, 0.02):
        return answer  # an empty list
    if draft.kind in ("Object", "External"):
        factor = status_replicas if chance(rng, 0.5) else 1
        usage = _aim(draft, draft.target_milli * max(1, factor))
        if chance(rng, 0.05):
            usage = rng.choice([0, -usage, -1])
        answer.update(_single_answer(draft, usage))
    else:
        answer["pod_metrics"] = _pod_metrics(draft, pods)
    return answer


def _aim(draft: Draft, milli: int) -> int:
    """Draw a usage for this target value: often next to a tolerance edge, sometimes far off."""
    rng = draft.rng
    if chance(rng, 0.3):
        return int(milli * rng.choice([0.0, 0.1, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.7, 40.0]))
    flags = draft.flags
    down, up = directional_tolerances(
        flags["tolerance"], flags.get("scale_up_tolerance"), flags.get("scale_down_tolerance")
    )
    edge = (1 + up) if chance(rng, 0.5) else (1 - down)
    return round(milli * edge) + rng.choice([-1, 0, 0, 1])


def _single_answer(draft: Draft, usage: int) -> Json:
    """Draw the answer for an Object metric, or the list for an External one."""
    rng = draft.rng
    if draft.kind == "Object":
        return {"object_value": draft.quantity(usage)}
    parts = []
    for _ in range(rng.choice([0, 0, 0, 1, 2, 4])):
        part = rng.randint(-5, max(1, abs(usage)))
        parts.append(part)
        usage -= part
    parts.append(usage)
    return {"external_values": [draft.quantity(part) for part in parts]}


def _pod_metrics(draft: Draft, pods: list[Json]) -> Json:
    """Draw the samples; the usage per pod may aim at the ratio of the second pass."""
    rng = draft.rng
    absent = {"missing": 0.3, "mixed": 0.15, "none_usable": 0.4}.get(draft.profile, 0.0)
    sampled = [pod for pod in pods if not chance(rng, absent)]
    stretch = len(pods) if chance(rng, 0.3) else len(sampled)
    aimed = _aim(draft, draft.target_milli)
    percent = _aim(draft, draft.target_percent) if draft.target_percent else 0
    metrics: Json = {}
    for pod in sampled:
        usage = aimed
        if percent:
            usage = trunc_div(_request_milli(pod, draft) * percent, 100)
        usage = usage * max(1, stretch) // max(1, len(sampled))
        if chance(rng, 0.15):
            usage += rng.choice([-1, 1, rng.randint(-50, 50)])
        metrics[pod["name"]] = _pod_sample(draft, pod, usage)
    if chance(rng, 0.05 if pods else 0.7):  # pods that are gone already
        for index in range(rng.randint(1, 3)):
            sample_of = {"name": f"gone-{index}", "containers": [{"name": "app"}]}
            metrics[f"gone-{index}"] = _pod_sample(draft, sample_of, aimed)
    return metrics


def _request_milli(pod: Json, draft: Draft) -> int:
    """Return about what the pod requests; exactness does not matter here."""
    texts = [
        container.get("requests", {}).get(draft.resource, "0")
        for container in pod.get("containers", [])
        if not draft.container or container["name"] == draft.container
    ]
    return sum(quantity.milli(text) for text in texts)


def _pod_sample(draft: Draft, pod: Json, usage: int) -> Json:
    """Draw one sample: the usage spread over the containers, and a time near the transition."""
    rng = draft.rng
    window = rng.choice([None, 0, 15, 30, 30, 60])
    stamp = draft.now - draft.now % SECOND - rng.randint(0, 120) * SECOND
    ready = pod.get("ready")
    if ready and chance(rng, 0.5):  # the exact edge of "sampled wholly after the transition"
        stamp = parse_time(ready["last_transition_time"])
        stamp += ((window or 0) + rng.choice([-1, 0, 1])) * SECOND
    sample: Json = {"timestamp": format_time(stamp), "window_s": window}
    if draft.kind == "Pods":
        sample["value"] = draft.quantity(-usage if chance(rng, 0.01) else usage)
        return sample
    sample["containers"] = _container_usages(draft, pod, usage)
    return sample


def _container_usages(draft: Draft, pod: Json, usage: int) -> Json:
    rng = draft.rng
    names = [container["name"] for container in pod["containers"]]
    names += [c["name"] for c in pod.get("init_containers", []) if c.get("restart_policy")]
    if draft.container and draft.container not in names and chance(rng, 0.3):
        names.append(draft.container)  # sampled, but not in the pod's spec
    main = draft.container if draft.container in names else names[0]
    containers: Json = {}
    for name in names:
        amount = usage if name == main else rng.choice([0, 0, 0, 3])
        containers[name] = {"cpu": plain_quantity(7), "memory": "5Mi"}
        containers[name][draft.resource] = draft.quantity(amount)
    if chance(rng, 0.02):
        del containers[rng.choice(names)][draft.resource]
    if chance(rng, 0.02):
        del containers[rng.choice(names)]
    if chance(rng, 0.01):
        containers["debug"] = {"cpu": "1m", "memory": "1Mi", draft.resource: "1"}
    return containers
