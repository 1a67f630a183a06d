"""Tests of differences between versions in the controller around the metrics."""

from __future__ import annotations

from typing import Any

import pytest

from .controller import run_timeline
from .normalize import Recommendation, ScaleEvent, limit_rate, stabilize_with_windows
from .profiles import PROFILES, VERSIONS
from .selector import selector_error
from .small import (
    DEFAULT_DOWN,
    DEFAULT_UP,
    average_cpu,
    cpu,
    described,
    external,
    hpa,
    one_timeline,
    pods,
    samples,
    tick,
)
from .small import values as answered
from .times import SECOND

Json = dict[str, Any]


def _run(k8s: str, document: Json, *ticks: Json, **flags: Any) -> list[Json]:
    return run_timeline(one_timeline(document, *ticks, **flags), k8s)


def _by_version(expected: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return (version, value) for all versions from the values at which something changes."""
    rows, value = [], None
    for k8s in VERSIONS:
        value = expected.get(k8s, value)
        rows.append((k8s, value))
    return rows


@pytest.mark.parametrize(("k8s", "size"), _by_version({"1.20": 3, "1.21": None}))
def test_a_partial_failure_on_the_way_down(k8s: str, size: int | None) -> None:
    ticks = [tick(5, {}, answered("5")), tick(5, {}, answered("3"), seconds=15)]
    row = _run(k8s, hpa(cpu(50), external()), *ticks, downscale_stabilization_s=0)[1]
    assert row["scale_to"] == size
    assert (row["reconcile_error"] is None) is (size is not None)
    assert row["conditions"][1]["status"] == ("True" if size else "False")


@pytest.mark.parametrize(("k8s", "error"), _by_version({"1.20": False, "1.27": True}))
def test_a_partial_failure_on_the_way_up(k8s: str, error: bool) -> None:
    row = _run(k8s, hpa(cpu(50), external()), tick(5, {}, answered("7")))[0]
    assert row["scale_to"] == 7
    assert (row["reconcile_error"] is not None) is error
    labels = ("scale_up", "internal") if error else (None, None)
    assert (row["action_label"], row["error_label"]) == labels


@pytest.mark.parametrize(
    ("k8s", "label"), _by_version({"1.20": None, "1.27": "internal", "1.37": "spec"})
)
def test_the_label_of_an_unknown_type(k8s: str, label: str | None) -> None:
    assert _run(k8s, hpa({"type": "X"}), tick(5, {}))[0]["error_label"] == label


@pytest.mark.parametrize(("k8s", "kept"), _by_version({"1.20": True, "1.29": False}))
def test_metric_statuses_after_a_failure(k8s: str, kept: bool) -> None:
    rows = _run(k8s, hpa(), tick(2, answered("2")), tick(2, {}, seconds=15))
    assert rows[1]["current_metrics"] == (rows[0]["current_metrics"] if kept else [{"type": ""}])


@pytest.mark.parametrize(("k8s", "size"), _by_version({"1.20": 3, "1.36": None}))
def test_a_target_that_somebody_else_put_to_zero(k8s: str, size: int | None) -> None:
    """e22; in 1.36 the gate does not matter, as the condition is not there."""
    row = _run(k8s, hpa(minReplicas=0), tick(0, answered("3")), hpa_scale_to_zero=True)[0]
    assert row["scale_to"] == size


@pytest.mark.parametrize(("k8s", "literal"), _by_version({"1.20": False, "1.32": True}))
def test_percent_signs_in_texts(k8s: str, literal: bool) -> None:
    row = _run(k8s, hpa(), tick(2, {"metrics_error": "50% off"}))[0]
    ending = "50% off" if literal else "50%!o(MISSING)ff"
    assert row["conditions"][1]["message"].endswith(ending)
    assert row["reconcile_error"].endswith("50% off")
    assert row["events"][0]["message"].endswith("50% off")
    row = _run(k8s, hpa(), tick(2, {}, selector="a %d"))[0]
    operator = "%d" if literal else "%!d(MISSING)"
    assert f"found '{operator}'" in row["conditions"][1]["message"]
    assert f"found '{operator}'" in row["reconcile_error"]
    assert "found '%d'" in row["events"][0]["message"]
    assert f"found '{operator}'" in row["events"][1]["message"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a b",
            {
                "1.20": "found 'b', expected: '=', '!=', '==', 'in', notin'",
                "1.26": "found 'b', expected: in, notin, =, ==, !=, gt, lt",
            },
        ),
        (
            "k>x",
            {
                "1.20": "for 'Gt', 'Lt' operators, the value must be an integer",
                "1.26": "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value "
                "must be an integer",
            },
        ),
    ],
)
def test_selector_errors(text: str, expected: dict[str, str]) -> None:
    for k8s, error in _by_version(expected):
        found = selector_error(text, PROFILES[k8s].selectors)
        assert found == f"unable to parse requirement: {error}"


def test_selector_errors_of_1_20_tell_the_first_problem_in_plain_words() -> None:
    dialect = PROFILES["1.20"].selectors
    error = selector_error("-k in (a@)", dialect) or ""
    assert error.startswith('unable to parse requirement: invalid label key "-k": name part must')
    error = selector_error("k in (b@,a@)", dialect) or ""
    assert error.startswith(
        'unable to parse requirement: invalid label value: "a@": at key: "k": a valid label must'
    )


def test_one_window_and_one_list_before() -> None:
    """Rows of 1.20: stabilisation of one side, and limits that know one direction's events."""
    old, new = PROFILES["1.20"], PROFILES["1.26"]
    for profile, expected in ((old, 2), (new, 5)):
        wishes = [Recommendation(2, 0)]
        stabilized = stabilize_with_windows(
            wishes, 5, 7, 100 * SECOND, 300 * SECOND, 300 * SECOND, profile
        )
        assert stabilized.replicas == expected
    behavior = {
        "scaleUp": {
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}],
        },
        "scaleDown": DEFAULT_DOWN,
    }
    ups, downs = [ScaleEvent(4, 60 * SECOND, False)], [ScaleEvent(3, 90 * SECOND, False)]
    for profile, limit in ((old, 3), (new, 6)):  # e25: 3 - 4 (+ 3) + 4
        limited = limit_rate(3, 20, 1, 50, behavior, ups, downs, 100 * SECOND, profile)
        assert limited == (limit, "ScaleUpLimit")


@pytest.mark.parametrize(
    ("k8s", "order"),
    [
        ("1.20", ["memory", "failed", "cpu"]),
        ("1.26", ["memory", "failed", "cpu"]),
        ("1.32", ["cpu", "memory", "cpu", "failed"]),
    ],
)
def test_metrics_as_the_store_returns_them(k8s: str, order: list[str]) -> None:
    """Before 1.27 the cpu utilization comes last, and a second one is lost."""
    memory = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Mi"}}
    metrics = [cpu(50), {"type": "Resource", "resource": memory}, cpu(70), external()]
    pod_metrics: Json = {"pod_metrics": samples("50m")}
    answers: list[Json] = [pod_metrics, pod_metrics, pod_metrics, {"metrics_error": "down"}]
    row = _run(k8s, hpa(*metrics), tick(1, *answers, pods=pods(1)))[0]
    shown = [
        status.get("resource", {"name": "failed"})["name"] for status in row["current_metrics"]
    ]
    assert shown == order


def test_a_first_cpu_metric_of_another_kind_hides_the_others_in_1_20() -> None:
    """[cpu averageValue, cpu 50 %]: 1.20 loses the second, 1.26 keeps it."""
    answers = [{"pod_metrics": samples("1")}, {"pod_metrics": samples("100m")}]
    document = hpa(average_cpu("1"), cpu(50))
    for k8s, count in (("1.20", 1), ("1.26", 2)):
        row = _run(k8s, document, tick(1, *answers, pods=pods(1)))[0]
        assert len(row["current_metrics"]) == count


@pytest.mark.parametrize(("k8s", "written"), _by_version({"1.20": True, "1.27": False}))
def test_a_status_that_does_not_come_back_is_written_again(k8s: str, written: bool) -> None:
    """An average comes back with ``value: 0`` beside it from a store of v1 objects."""
    rows = _run(k8s, hpa(), *(tick(2, answered("2"), seconds=15 * n) for n in range(3)))
    assert rows[2]["status_written"] is written
    current = rows[2]["current_metrics"][0]["external"]["current"]
    assert current == {"averageValue": "1"} | ({"value": "0"} if written else {})


@pytest.mark.parametrize(("k8s", "kind"), _by_version({"1.20": "", "1.33": "Service"}))
def test_the_object_in_the_status_of_an_average(k8s: str, kind: str) -> None:
    document = hpa(described(type="AverageValue", averageValue="1"))
    row = _run(k8s, document, tick(2, {"object_value": "2"}))[0]
    assert row["current_metrics"][0]["object"]["describedObject"]["kind"] == kind


def test_behavior_of_the_loop_is_the_same_where_nothing_differs() -> None:
    behavior = {"scaleUp": DEFAULT_UP, "scaleDown": DEFAULT_DOWN}
    ticks = [tick(2, answered(wish), seconds=15 * n) for n, wish in enumerate("2394")]
    results = [_run(k8s, hpa(behavior=behavior), *ticks) for k8s in VERSIONS]
    sizes = [[row["scale_to"] for row in rows] for rows in results]
    assert all(row == sizes[0] for row in sizes)
