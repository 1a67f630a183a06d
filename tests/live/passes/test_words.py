"""Tests of a pass's words: a sentence for every rule that binds, and HPAs with our status."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hpabatch.cluster.objects.types import (
    Change,
    ContainerUsage,
    HpaObject,
    Kind,
    Response,
    Responses,
    ScaleKey,
    ScaleObject,
    UsageSample,
)
from hpabatch.layout import codes
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.result import PassResult
from hpabatch.model.objects.hpa import Condition, HPAStatus, MetricStatus
from hpabatch.model.versions import ControllerFlags, profile_for
from tests.live.documents import Json, document_of, hpa_of, pod_object

NOW_MS = 1_790_000_000_000
AT = ScaleKey("apps", "Deployment", "shop", "web")
OLD = "2026-01-01T00:00:00Z"
CPU: Json = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


class Case:
    """One HPA of one target with two pods of 100m each."""

    def __init__(self, k8s: str = "1.37", status: HPAStatus | None = None, **spec: Any) -> None:
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        base = {"scaleTargetRef": ref, "minReplicas": 1, "maxReplicas": 10, "metrics": [CPU]}
        hpa = hpa_of(document_of("shop", "web", "u", base | spec))
        self.hpa = replace(hpa, status=status or HPAStatus())
        self.decider = Decider(profile_for(k8s), ControllerFlags())
        self.now_ms = NOW_MS
        self.put(Kind.hpa, ("shop", "web"), HpaObject("shop", "web", self.hpa))
        for name in ("a", "b"):
            ready = {"status": "True", "last_transition_time": OLD}
            requests = [{"name": "app", "requests": {"cpu": "100m"}}]
            pod: Json = {"name": name, "phase": "Running", "labels": {"app": "web"}}
            pod |= {"containers": requests, "start_time": OLD, "ready": ready}
            self.put(Kind.pod, ("shop", name), pod_object("shop", pod))

    def put(self, kind: Kind, key: Any, thing: Any) -> None:
        self.decider.apply([Change(kind, key, thing, self.now_ms)])

    def scale(self, size: int, selector: str = "app=web", **more: Any) -> Case:
        self.put(Kind.scale, AT, ScaleObject(AT, size, size, selector, **more))
        return self

    def decide(self, cpu: int | None = 50, error: str = "") -> PassResult:
        self.now_ms += 15_000
        at = self.now_ms
        items = tuple(
            UsageSample("shop", name, at, 30_000, (ContainerUsage("app", cpu, 1),))
            for name in ("a", "b")
        )
        return self.decider.decide(at, {"": Response(at, items, error)})


def policies(select: str, window: int = 0) -> Json:
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    return {"selectPolicy": select, "policies": [policy], "stabilizationWindowSeconds": window}


def behavior(up: Json, down: Json) -> Json:
    return {"behavior": {"scaleUp": up, "scaleDown": down}}


FREE = policies("Max")
ONLY_ONE = behavior(FREE, FREE)
DISABLED = behavior(policies("Disabled"), policies("Disabled"))
HELD_UP = behavior(policies("Max", 600), FREE)


def unready(case: Case) -> None:
    pod: Json = {"name": "b", "phase": "Pending", "labels": {"app": "web"}}
    pod |= {"containers": [{"name": "app", "requests": {"cpu": "100m"}}]}
    case.put(Kind.pod, ("shop", "b"), pod_object("shop", pod))


def after(case: Case, first_cpu: int, cpu: int) -> PassResult:
    """Return a second pass."""
    case.decide(first_cpu)
    return case.decide(cpu)


def guarded() -> PassResult:
    case = Case().scale(2)
    unready(case)
    return case.decide(80)


CASES: dict[str, tuple[Callable[[], PassResult], str]] = {
    "metric": (
        lambda: Case().scale(2).decide(75),
        "cpu resource utilization (percentage of request) at 1.5 of its target wants 3: the "
        "metrics' own proposal was applied",
    ),
    "tolerance": (
        lambda: Case().scale(2).decide(51),
        "cpu resource utilization (percentage of request) at 1.02 of its target wants 2: the "
        "ratio was within the tolerance",
    ),
    "pod_guard": (guarded, ""),
    "window_up": (
        lambda: after(Case(**HELD_UP).scale(2), 50, 100),
        "wants 4, 2 after the windows: the scale-up stabilization window held it",
    ),
    "window_down": (lambda: after(Case().scale(2), 50, 10), ""),
    "policy_up": (lambda: Case(**ONLY_ONE).scale(2).decide(200), ""),
    "policy_down": (lambda: after(Case(**ONLY_ONE).scale(9), 50, 1), ""),
    "disabled_up": (lambda: Case(**DISABLED).scale(2).decide(100), ""),
    "disabled_down": (lambda: Case(**DISABLED).scale(2).decide(1), ""),
    "legacy_limit": (lambda: Case(maxReplicas=100).scale(2).decide(1000), ""),
    "min": (lambda: Case(**ONLY_ONE, minReplicas=2).scale(2).decide(1), ""),
    "max": (lambda: Case(maxReplicas=3).scale(2).decide(100), ""),
    "forced_min": (lambda: Case(minReplicas=3).scale(2).decide(), ""),
    "forced_max": (lambda: Case().scale(20).decide(), "replicas were above maxReplicas"),
    "zero": (lambda: Case().scale(0).decide(), ""),
    "invalid_metric": (
        lambda: Case().scale(2).decide(error="the server is down"), "the server is down"
    ),
    "selector": (lambda: Case().scale(2, "app in (").decide(), "couldn't convert selector"),
    "scale_read": (
        lambda: Case().scale(0, error='deployments.apps "web" not found', code=1).decide(),
        'deployments.apps "web" not found',
    ),
    "no_scale": (lambda: Case().decide(), "the scale of Deployment/web was not seen yet"),
}  # fmt: skip


def test_there_is_a_case_for_every_rule_but_failing_writes() -> None:
    names = {words.name for words in codes.BINDINGS.values()}
    assert set(CASES) == names - {"scale_write"}  # nothing is written


@pytest.mark.parametrize("name", CASES)
def test_why_is_one_plain_sentence(name: str) -> None:
    decide, said = CASES[name]
    result = decide()
    assert result.binding(0) == name
    why = result.why(0)
    assert why == why.strip()
    assert "\n" not in why
    assert not why.startswith((":", ","))
    assert "{" not in why
    assert "nan" not in why
    assert said in why
    assert result.document(0).name == "web"


# ---- documents -----------------------------------------------------------------------------------


TYPES = ("AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero", "Strange", "")


def random_status(rng: random.Random) -> HPAStatus:
    conditions = []
    for kind in rng.sample(TYPES, rng.randint(0, len(TYPES))):
        known = [w for w in codes.CONDITIONS.values() if w.type == kind]
        words = rng.choice(known) if known and rng.random() < 0.8 else None
        status = words.status if words else rng.choice(["True", "False", "Unknown", ""])
        reason = words.reason if words else rng.choice(["", "Odd"])
        time = rng.choice([None, OLD, "2026-09-21T14:13:20Z"])
        conditions.append(Condition(kind, status, reason, "said before", time))
    return HPAStatus(
        current_replicas=rng.randint(0, 5),
        desired_replicas=rng.randint(0, 5),
        last_scale_time=rng.choice([None, OLD]),
        observed_generation=rng.choice([None, 1, 7]),
        conditions=tuple(conditions),
        current_metrics=rng.choice(
            [None, (), (MetricStatus(),), (MetricStatus("Resource", "cpu"),)]
        ),
    )


def some_pass(rng: random.Random, case: Case) -> tuple[Responses, int]:
    if rng.random() < 0.8:
        case.scale(rng.choice([0, 1, 2, 3, 20]), rng.choice(["app=web", "app=web", "", "x in ("]))
    elif rng.random() < 0.5:
        case.put(Kind.scale, AT, ScaleObject(AT, error="no", code=codes.SCALE_GET_FAILED))
    case.now_ms += 15_000
    items = tuple(
        UsageSample(
            "shop", name, case.now_ms, 1, (ContainerUsage("app", rng.choice([10, 50, 99]), 1),)
        )
        for name in ("a", "b")
    )
    return {"": Response(case.now_ms, items, rng.choice(["", "", "down"]))}, case.now_ms


def test_where_the_cluster_says_something_else_ours_stands() -> None:
    case = Case("1.33").scale(2)
    case.decide(75)
    theirs = [
        ("ScalingLimited", "True", "TooManyReplicas"),
        ("AbleToScale", "False", "FailedGetScale"),
    ]
    theirs += [("New", "True", "New"), ("ScalingActive", "True", "ValidMetricFound")]
    status = HPAStatus(conditions=tuple(Condition(*words, "theirs", OLD) for words in theirs))
    case.put(Kind.hpa, ("shop", "web"), HpaObject("shop", "web", replace(case.hpa, status=status)))
    result = case.decide(75, error="down")
    shown = {c.type: c for c in result.document(0).status.conditions}
    assert [*shown] == ["AbleToScale", "ScalingActive", "ScalingLimited"]
    assert shown["ScalingLimited"].reason == "DesiredWithinRange"
    assert shown["ScalingLimited"].last_transition_time != OLD
    assert shown["ScalingActive"].reason == "FailedGetResourceMetric"
    assert shown["AbleToScale"].status == "True"


@pytest.mark.parametrize("seed", range(10))
def test_no_status_of_the_cluster_stops_a_document(seed: int) -> None:
    """Duplicates, unknown types, no times: whatever another controller wrote."""
    rng = random.Random(seed)
    case = Case(rng.choice(["1.20", "1.37"]), random_status(rng))
    for _ in range(6):
        status = random_status(rng)
        twice = tuple(rng.choices(status.conditions, k=8)) if status.conditions else ()
        status = replace(status, conditions=status.conditions + twice)
        hpa = replace(case.hpa, status=status)
        case.put(Kind.hpa, ("shop", "web"), HpaObject("shop", "web", hpa))
        answers, now_ms = some_pass(rng, case)
        result = case.decider.decide(now_ms, answers)
        shown = result.document(0).status
        row = result.decisions[0]
        kept = [int(row[f"condition_{k}"]) for k in range(4)]
        types = [c.type for c in shown.conditions]
        named = {
            code >> 4: kind
            for kind, code in ((k, v << 4) for k, v in codes.CONDITION_TYPES.items())
        }
        assert types == [named[code >> 4] for code in kept if code != codes.NO_CONDITION]
        assert shown.desired_replicas == row.desired
        assert result.why(0)
