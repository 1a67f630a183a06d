"""The closed loop of the naive simulator: what the rules are asked and what follows from it."""

from __future__ import annotations

from .simulator import simulate
from .simulator_cases import (
    CPU,
    LOAD,
    PERIOD,
    START,
    Json,
    case,
    column,
    external,
    spec,
    total_case,
    utilization,
)


def test_the_loop_closes() -> None:
    run = case(
        4,
        initial=1,
        signals={CPU: {"request_milli": 100}},
        work={CPU: [200, 40]},
    )
    rows = simulate(run)
    # 200 % of 50 %: 4 pods; the same again, but the new pods, in doubt, count as 0, which makes
    # 50 % each; then 10 % each: 4 × 0.2; then 10 % of what are still 4 in step 2
    assert column(rows, "proposals") == [[4], [4], [1], [1]]
    assert column(rows, "proposal") == column(rows, "desired") == column(rows, "size")
    assert column(rows, "size") == [4, 4, 1, 1]
    assert column(rows, "rescaled") == [True, False, True, False]
    assert column(rows, "usage", CPU) == [[200], [10] * 4, [10] * 4, [40]]


def test_the_window_of_a_sample_decides_about_new_pods() -> None:
    """Within the initialization period a sample must be one window younger than readiness."""
    run = case(
        2,
        initial=1,
        signals={CPU: {"request_milli": 100, "startup_milli": 100}},
        work={CPU: [200]},
        pipeline={"window_ms": 14_000},
    )
    # pods 1 to 3 are ready at 1 001 000 and burn 100: 125 % of 50 % on average
    assert column(simulate(run), "proposals") == [[4], [10]]
    run["plant"]["pipelines"]["resource"]["window_ms"] = 14_001
    assert column(simulate(run), "proposals") == [[4], [4]]  # in doubt they count as 0: 50 %


def test_every_type_of_metric_gets_its_answer() -> None:
    load = {"name": "load"}
    average = {"type": "AverageValue", "averageValue": "1"}
    value = {"type": "Value", "value": "1"}
    described = {"kind": "Ingress", "name": "web", "apiVersion": "v1"}
    selected = {"name": "qps", "selector": {"matchLabels": {"b": "2", "a": "1"}}}
    memory = {"name": "memory"}
    share = {"type": "Utilization", "averageUtilization": 50}
    metrics = [
        {"type": "Resource", "resource": {**memory, "target": average}},
        {"type": "Resource", "resource": {**memory, "target": share}},
        {
            "type": "ContainerResource",
            "containerResource": {**memory, "container": "app", "target": share},
        },
        {"type": "Pods", "pods": {"metric": selected, "target": average}},
        {
            "type": "Object",
            "object": {"describedObject": described, "metric": load, "target": value},
        },
        {
            "type": "Object",
            "object": {"describedObject": described, "metric": load, "target": average},
        },
        external(value),
        external(average),
    ]
    signals: dict[str, Json] = {
        "resource/memory": {"kind": "age", "base_milli": 2500, "request_milli": 2000},
        "container/app/memory": {"kind": "per_pod", "request_milli": 1000},
        "pods/qps{a=1,b=2}": {"api": "custom"},
        "object/Ingress/web/load": {"kind": "total", "api": "external"},
        LOAD: {"kind": "backlog", "api": "external", "queue_milli": 7000},
    }
    work = {"container/app/memory": [800], "pods/qps{a=1,b=2}": [3000]}
    run = case(
        1,
        initial=2,
        signals=signals,
        work={**work, "object/Ingress/web/load": [5000]},
        periods=[{"from_ms": START, "spec": spec(metrics)}],
    )
    row = simulate(run)[0]
    # 2 × 2.5; 2 × 125 / 50; 2 × 80 / 50; 3000 / 1000; 2 × 5; 5; 2 × 7; 7
    assert row["proposals"] == [5, 5, 4, 3, 10, 5, 14, 7]
    assert (row["proposal"], row["size"]) == (14, 4)  # at most 4 from 2


def test_a_metric_without_samples_or_request_fails() -> None:
    run = case(
        2,
        initial=1,
        work={CPU: [200]},
        pipeline={"max_age_ms": 20_000, "gaps_ms": [[START - 15_000, START + 1]]},
        periods=[
            {"from_ms": START, "spec": spec([external({"type": "Value", "value": "1"})])},
            {"from_ms": START + PERIOD, "spec": spec([utilization(50)])},
        ],
        signals={CPU: {}, LOAD: {"kind": "total", "api": "external"}},
    )
    rows = simulate(run)
    assert column(rows, "totals") == [{}, {LOAD: {"ts_ms": START + PERIOD, "value_milli": 0}}]
    assert column(rows, "invalid") == [True, True]
    assert column(rows, "proposals") == [[None], [None]]
    assert column(rows, "proposal") == [1, 1]
    assert [row["conditions"][1]["reason"] for row in rows] == [
        "FailedGetExternalMetric",
        "FailedGetResourceMetric",
    ]


def test_the_spec_in_force_is_the_last_one() -> None:
    rows = simulate(
        case(
            3,
            initial=5,
            periods=[
                {"from_ms": START - 7, "spec": spec([utilization(50)])},
                {"from_ms": START + PERIOD, "spec": spec([utilization(50)], maximum=2)},
                {"from_ms": START + PERIOD + 1, "spec": spec([utilization(50)], minimum=3)},
            ],
        )
    )
    assert column(rows, "size") == [5, 2, 3]
    assert column(rows, "max_replicas") == [100, 2, 100]
    assert column(rows, "proposal") == [5, 5, 2]  # the metrics are not asked
    assert column(rows, "invalid") == [True, False, False]


def test_to_zero_and_back() -> None:
    rows = simulate(
        total_case(
            5,
            [0, 0, 3000],
            periods=[
                {
                    "from_ms": START,
                    "spec": spec([external({"type": "AverageValue", "averageValue": "1"})], 0),
                }
            ],
        )
    )
    # the first tick's window still has the size that the controller finds
    assert column(rows, "size") == [1, 0, 0, 3, 3]
    assert column(rows, "serving") == [[0], [0], [], [], [1, 2, 3]]
