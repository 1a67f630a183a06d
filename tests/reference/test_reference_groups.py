"""Several HPAs of one namespace: who knows whose selector, and what is said of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from .generate import group_timeline
from .group import ControllerGroup, run_group
from .small import external, hpa, pods, tick, values

Json = dict[str, Any]


def _entry(name: str, selector: str = "app=web", **spec: Any) -> Json:
    return {"name": name, "selector": selector, "hpa": hpa(external(), name=name, **spec)}


def _group(*entries: Json) -> Json:
    return {"id": "group", "flags": {"tolerance": 0.1}, "hpas": list(entries), "ticks": []}


def _tick(seconds: int, *names: str, count: int = 2, **more: Any) -> Json:
    shared = tick(2, seconds=seconds)
    records = [
        {"name": name, "spec_replicas": 2, "status_replicas": 2, "metrics": [values("2")]}
        for name in names
    ]
    return {
        "now": shared["now"],
        "pods": pods(count, labels={"app": "web", "tier": "front"}),
        "hpas": records,
        **more,
    }


def _active(row: Json | None) -> tuple[str, str]:
    assert row is not None
    condition = next(c for c in row["conditions"] if c["type"] == "ScalingActive")
    return condition["reason"], condition["message"]


def test_the_first_to_sync_is_not_ambiguous_at_first() -> None:
    """An HPA's selector is known only after its own first sync; then the check is symmetric."""
    group = ControllerGroup(_group(_entry("b"), _entry("a")))
    first, second = group.tick(_tick(0, "b", "a"))
    text = (
        "pods by selector app=web are controlled by more than one HPA (e.g. [default/a default/b])"
    )
    assert _active(first)[0] == "ValidMetricFound"
    assert _active(second) == ("AmbiguousSelector", text)
    assert second is not None
    assert [(event["reason"], event["message"]) for event in second["events"]] == [
        ("AmbiguousSelector", text),
        ("FailedComputeMetricsReplicas", text),
    ]
    assert second["reconcile_error"] == (
        "failed to compute desired number of replicas based on listed metrics for "
        f"Deployment/default/web: {text}"
    )
    assert second["current_metrics"] == []
    assert _active(group.tick(_tick(15, "b"))[0]) == ("AmbiguousSelector", text)


@pytest.mark.parametrize(
    ("k8s", "text"),
    [
        ("1.38", "more than one HPA (e.g. [default/a default/b])"),
        ("1.37", "multiple HPAs: [default/a default/b]"),
        ("1.36", "multiple HPAs: [default/a default/b default/c]"),
        ("1.26", "multiple HPAs: [default/a default/b default/c]"),
    ],
)
def test_how_others_are_named(k8s: str, text: str) -> None:
    rows = run_group(
        _group(_entry("c", "app"), _entry("a"), _entry("b", "tier=front"))
        | {"ticks": [_tick(0, "c", "a", "b")]},
        k8s,
    )[0]
    assert _active(rows[2])[1] == f"pods by selector tier=front are controlled by {text}"


def test_1_20_does_not_look() -> None:
    ticks = [_tick(0, "a", "b"), _tick(15, "a", "b")]
    rows = run_group(_group(_entry("a"), _entry("b")) | {"ticks": ticks}, "1.20")[1]
    assert {_active(row)[0] for row in rows} == {"ValidMetricFound"}


def test_without_common_pods_nothing_is_ambiguous() -> None:
    apart = ControllerGroup(_group(_entry("a"), _entry("b", "app=api")))
    apart.tick(_tick(0, "a", "b"))
    assert {_active(row)[0] for row in apart.tick(_tick(15, "a", "b"))} == {"ValidMetricFound"}
    empty = ControllerGroup(_group(_entry("a"), _entry("b")))
    empty.tick(_tick(0, "a", "b", count=0))
    rows = empty.tick(_tick(15, "a", "b", count=0))
    assert {_active(row)[0] for row in rows} == {"ValidMetricFound"}


def test_a_forced_hpa_keeps_its_selector_to_itself() -> None:
    group = ControllerGroup(_group(_entry("a", maxReplicas=1), _entry("b")))
    for seconds in (0, 15):
        forced, other = group.tick(_tick(seconds, "a", "b"))
        assert forced is not None
        assert forced["scale_to"] == 1
        assert _active(other)[0] == "ValidMetricFound"


def test_a_restart_forgets_all_selectors() -> None:
    group = ControllerGroup(_group(_entry("a"), _entry("b")))
    group.tick(_tick(0, "a", "b"))
    assert _active(group.tick(_tick(15, "a"))[0])[0] == "AmbiguousSelector"
    assert _active(group.tick(_tick(30, "a", restart=True))[0])[0] == "ValidMetricFound"


def test_a_deleted_hpa_leaves_its_memory_until_a_sync_finds_it_gone() -> None:
    low = {"spec_replicas": 2, "status_replicas": 2, "metrics": [values("1")]}
    for syncs, kept in (([], True), ([{"name": "a"}], False)):
        group = ControllerGroup(_group(_entry("a"), _entry("b")))
        group.tick(_tick(0, "a", "b"))
        rows = group.tick(_tick(15, delete=["a"]) | {"hpas": syncs})
        assert rows == [None] * len(syncs)
        rows = group.tick(_tick(30, "b", create=[_entry("a")]))
        assert _active(rows[0])[0] == "ValidMetricFound"  # its selector went at once
        remembered = group.hpas["a"].memory.recommendations
        assert (remembered is not None) is kept
        assert group.hpas["a"].status.conditions == []
        row = group.sync("a", {**_tick(45), **low})
        assert row is not None
        assert _active(row)[0] == "AmbiguousSelector"


@pytest.mark.parametrize(
    ("k8s", "gates", "error"),
    [
        ("1.38", {}, True),
        ("1.38", {"HPAOptimizedSelectorStore": False}, False),
        ("1.36", {}, False),
    ],
)
def test_an_hpa_deleted_under_way(k8s: str, gates: dict[str, bool], error: bool) -> None:
    document = _group(_entry("a"))
    document["flags"]["feature_gates"] = gates
    group = ControllerGroup(document, k8s)
    record = {**_tick(0, "a")["hpas"][0], "deleted_during_sync": True}
    row = group.tick(_tick(0) | {"hpas": [record]})[0]
    assert row is not None
    text = "HPA default/a was deleted during reconciliation"
    assert [event["message"] for event in row["events"]] == ([text] if error else [])
    assert [c["type"] for c in row["conditions"]].count("ScalingActive") == (0 if error else 1)
    assert "a" not in group.hpas


def test_pods_of_other_targets_count_by_their_labels() -> None:
    """The calculator sees every pod that the selector matches, whoever owns it."""
    metric = external(value="1")
    entry = {"name": "a", "selector": "tier=front", "hpa": hpa(metric, name="a")}
    group = ControllerGroup(_group(entry))
    shared = _tick(0)
    shared["pods"].append({**pods(1, labels={"tier": "front"})[0], "name": "api-0"})
    shared["pods"].append({**pods(1, labels={"tier": "back"})[0], "name": "batch-0"})
    record = {"name": "a", "spec_replicas": 2, "status_replicas": 2, "metrics": [values("3")]}
    row = group.tick(shared | {"hpas": [record]})[0]
    assert row is not None
    assert row["events"][0]["message"].startswith("New size: 4;")  # 9 is wished, limit of 2 is 4
    assert row["current_metrics"][0]["external"]["current"] == {"value": "3"}


def test_group_timelines_are_deterministic_and_survive_json() -> None:
    first, again, other = (
        json.dumps(group_timeline(random.Random(seed), 40, extended=True)) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    drawn = json.loads(first)
    assert run_group(drawn) == run_group(json.loads(first))
    assert json.dumps(drawn) == first


def test_drawn_groups_show_every_kind_of_trouble() -> None:
    reasons: set[str] = set()
    gone = 0
    for seed in range(25):
        drawn = group_timeline(random.Random(seed), 60, extended=True)
        for rows in run_group(drawn):
            gone += rows.count(None)
            reasons |= {event["reason"] for row in rows if row for event in row["events"]}
    assert gone > 0
    assert reasons >= {
        "AmbiguousSelector",
        "InvalidSelector",
        "SelectorRequired",
        "FailedGetScale",
        "FailedRescale",
        "FailedUpdateStatus",
        "SuccessfulRescale",
        "FailedComputeMetricsReplicas",
    }
