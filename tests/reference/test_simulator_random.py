"""Random cases: deterministic, plain JSON, true to what cannot fail, and full of features."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from .generate_plants import random_case
from .simulator import simulate
from .simulator_cases import Json
from .simulator_measures import measures

_CASES = 150


def test_generator_is_deterministic() -> None:
    """The same seed gives the same JSON, another seed another one."""
    first, again, other = (json.dumps(random_case(random.Random(seed))) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_a_run_depends_on_the_json_form_alone() -> None:
    """A run does not change its case, and its rows are JSON."""
    for seed in range(10):
        case = random_case(random.Random(seed))
        text = json.dumps(case)
        rows = simulate(case)
        assert json.dumps(case) == text
        assert simulate(json.loads(text)) == rows
        assert json.loads(json.dumps(rows)) == rows
        assert json.loads(json.dumps(measures(rows, case))) == measures(rows, case)


@pytest.fixture(scope="module")
def runs() -> list[tuple[Json, list[Json]]]:
    cases = [random_case(random.Random(seed)) for seed in range(_CASES)]
    return [(case, simulate(case)) for case in cases]


def test_work_is_served_or_left(runs: list[tuple[Json, list[Json]]]) -> None:
    """Of divisible work only what division rounds off is lost: below 2 for each pod."""
    checked = 0
    for case, rows in runs:
        for name, signal in case["plant"]["signals"].items():
            if signal["kind"] != "divisible":
                continue
            queue = signal["queue_milli"]
            for row in rows:
                done = sum(usage - signal["base_milli"] for usage in row["usage"][name])
                offered = row["work"][name] + queue
                lost = offered - done - row["unserved"][name]
                shares = sum(case["plant"]["pods"]["shares"])
                assert 0 <= lost <= len(row["serving"]) * (1 + shares // 1000)
                queue = row["queue"][name]
                checked += 1
    assert checked > 1000


def test_nobody_serves_unseen(runs: list[tuple[Json, list[Json]]]) -> None:
    """Without reaction and rescale a serving pod is seen as Running, Ready and staying."""
    checked = 0
    for case, rows in runs:
        pods = case["plant"]["pods"]
        if pods["serves_while_terminating"]:
            continue
        for row in rows:
            seen = {
                pod["number"]: (pod["phase"], pod["ready"], pod["deleting"]) for pod in row["pods"]
            }
            for number in row["serving"]:
                if not row["rescaled"]:
                    assert seen[number] == ("Running", "True", False)
                    checked += 1
    assert checked > 1000


def test_capacity_is_kept_to(runs: list[tuple[Json, list[Json]]]) -> None:
    """Only the initial pods may be more."""
    checked = 0
    for case, rows in runs:
        capacity = case["plant"]["pods"]["capacity"]
        if capacity:
            assert all(len(row["existing"]) <= max(capacity, case["initial"]) for row in rows)
            checked += 1
    assert checked > 20


def test_every_feature_turns_up(runs: list[tuple[Json, list[Json]]]) -> None:
    seen: Counter[str] = Counter()
    for case, rows in runs:
        plant, found = case["plant"], measures(rows, case)
        pods = plant["pods"]
        seen.update({signal["kind"] for signal in plant["signals"].values()})
        seen.update({signal["overload"] for signal in plant["signals"].values()})
        seen.update({pods["removal"], case["k8s"]})
        seen.update({event["kind"] for event in case["events"]})
        for period in case["periods"]:
            metrics = period["spec"]["metrics"]
            seen.update(_metric_kinds(metrics))
            seen.update([f"{len(metrics)} metrics"])
            seen.update(["behavior" if "behavior" in period["spec"] else "no behavior"])
        seen.update(
            name
            for name, is_there in {
                "edit": len(case["periods"]) > 1,
                "zero": any(period["spec"]["minReplicas"] == 0 for period in case["periods"]),
                "capacity": pods["capacity"] > 0,
                "start-up rows": len(pods["startup_ms"]) > 2,
                "classes": len(pods["shares"]) == 3,
                "failures": pods["failure_at_ms"] != [],
                "gap": any(pipeline["gaps_ms"] for pipeline in plant["pipelines"].values()),
                "no capacity known": plant["capacity_milli"] is None,
                "pending": any(pod["phase"] == "Pending" for row in rows for pod in row["pods"]),
                "unready": any(pod["ready"] == "False" for row in rows for pod in row["pods"]),
                "deleting": any(pod["deleting"] for row in rows for pod in row["pods"]),
                "no pods serve": any(not row["serving"] for row in rows),
            }.items()
            if is_there
        )
        seen.update(name for name, value in found.items() if value)
    rare = {name: seen[name] for name in _FEATURES if seen[name] < 3}
    assert not rare


def _metric_kinds(metrics: list[Json]) -> set[str]:
    """Return type and target of every metric, as `Object Value`."""
    kinds = set()
    for metric in metrics:
        (source,) = (value for key, value in metric.items() if key != "type")
        kinds.add(f"{metric['type']} {source['target']['type']}")
    return kinds


_FEATURES = {
    *("divisible", "per_pod", "total", "backlog", "age", "drop", "queue"),
    *("replicaset", "statefulset", "start-up rows", "classes", "capacity", "failures"),
    *("pending", "unready", "deleting", "no pods serve", "gap"),
    *("scale", "lose", "rollout", "edit", "zero", "1.36", "1.38", "behavior", "no behavior"),
    *("1 metrics", "2 metrics", "3 metrics", "Resource Utilization", "Resource AverageValue"),
    *("ContainerResource Utilization", "ContainerResource AverageValue", "Pods AverageValue"),
    *("Object Value", "Object AverageValue", "External Value", "External AverageValue"),
    *("under_steps", "over_steps", "unstable_steps", "supply_changes", "demand_changes"),
    *("episodes", "episodes_ended", "episodes_reacted", "settling_ms", "reaction_ms"),
    *("overshoot", "rescales_up", "rescales_down", "reversals", "at_max_steps", "invalid_steps"),
    *("saturated_steps", "unserved_milli_s", "outside_steps", "no capacity known"),
}
