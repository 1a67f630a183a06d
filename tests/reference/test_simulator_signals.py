"""Work and samples of the naive simulator, computed by hand."""

from __future__ import annotations

import pytest

from .simulator import simulate
from .simulator_cases import (
    CPU,
    LOAD,
    PERIOD,
    START,
    Json,
    case,
    column,
    samples,
    total_case,
)
from .simulator_signals import newest_scrape


def values(rows: list[Json], name: str, number: int = 0) -> list[int | None]:
    """Return the value that a pod's sample shows at every tick, None if none does."""
    shown = [samples(row, name).get(number) for row in rows]
    return [None if sample is None else sample[1] for sample in shown]


def totals(rows: list[Json]) -> list[tuple[int, int] | None]:
    """Return time and value that the external total shows at every tick."""
    shown = [row["totals"].get(LOAD) for row in rows]
    return [None if s is None else (s["ts_ms"], s["value_milli"]) for s in shown]


# --- work -----------------------------------------------------------------------------------------


def test_work_is_shared_by_share_and_rounded_down() -> None:
    thirds = simulate(case(1, initial=3, work={CPU: [1000]}))[0]
    assert thirds["usage"][CPU] == [333, 333, 333]
    assert thirds["unserved"][CPU] == 0
    uneven = case(1, initial=3, work={CPU: [10]}, pods={"shares": [1, 2], "costs": [0, 0]})
    # pods 0 and 2 of class 0: v = 10 000 / 4
    assert simulate(uneven)[0]["usage"][CPU] == [2, 5, 2]


def test_a_ceiling_cuts_off_what_is_dropped() -> None:
    run = case(
        3,
        initial=2,
        signals={CPU: {"base_milli": 100, "ceiling_milli": 500}},
        work={CPU: [1000, 533, 534]},
        pods={"shares": [1000, 3000], "costs": [0, 0]},
    )
    rows = simulate(run)
    # v = 250: 250 and 750, of which 400 fit; v = 133: 133 and 399; v = 133
    assert column(rows, "usage", CPU) == [[350, 500], [233, 499], [233, 499]]
    assert column(rows, "unserved", CPU) == [350, 0, 0]
    assert column(rows, "saturated", CPU) == [True, False, False]
    run["work"][CPU] = [536]  # v = 134: 402
    assert column(simulate(run), "unserved", CPU) == [2, 2, 2]
    assert column(simulate(run), "queue", CPU) == [0, 0, 0]


def test_a_pod_that_is_just_full_is_not_cut_off() -> None:
    rows = simulate(case(1, initial=1, signals={CPU: {"ceiling_milli": 500}}, work={CPU: [500]}))
    assert rows[0]["usage"][CPU] == [500]
    assert not rows[0]["saturated"][CPU]


def test_what_is_left_waits_in_a_queue() -> None:
    signal = {"ceiling_milli": 500, "overload": "queue", "queue_milli": 50}
    rows = simulate(case(4, initial=1, signals={CPU: signal}, work={CPU: [700, 700, 100, 0]}))
    assert column(rows, "usage", CPU) == [[500], [500], [500], [50]]
    assert column(rows, "unserved", CPU) == [250, 450, 50, 0]
    assert column(rows, "queue", CPU) == [250, 450, 50, 0]
    assert column(rows, "saturated", CPU) == [True, True, True, False]


@pytest.mark.parametrize(
    ("overload", "unserved", "queue"),
    [("drop", [0, 300, 0, 0], [0, 0, 0, 0]), ("queue", [0, 300, 300, 0], [0, 300, 300, 0])],
)
def test_without_serving_pods_nothing_is_served(
    overload: str, unserved: list[int], queue: list[int]
) -> None:
    rows = simulate(
        case(
            4,
            initial=1,
            signals={CPU: {"overload": overload}},
            work={CPU: [300, 300, 0]},
            events=[(START + 1, "scale", 0), (START + 2 * PERIOD, "scale", 1)],
        )
    )
    assert column(rows, "serving") == [[0], [], [], [1]]
    assert column(rows, "unserved", CPU) == unserved
    assert column(rows, "queue", CPU) == queue
    assert column(rows, "saturated", CPU) == [value > 0 for value in unserved]


def test_work_per_pod_does_not_hang_on_their_number() -> None:
    signal = {"kind": "per_pod", "base_milli": 100, "ceiling_milli": 400}
    rows = simulate(case(3, initial=2, signals={CPU: signal}, work={CPU: [200, 300, 301]}))
    assert column(rows, "usage", CPU) == [[300, 300], [400, 400], [400, 400]]
    assert column(rows, "saturated", CPU) == [False, False, True]
    assert column(rows, "unserved", CPU) == [0, 0, 0]


def test_a_backlog_grows_and_shrinks() -> None:
    signal = {"kind": "backlog", "api": "external", "rate_milli": 1000, "queue_milli": 500}
    run = case(5, initial=2, signals={CPU: {}, LOAD: signal}, work={LOAD: [3000, 3000, 0]})
    rows = simulate(run)
    assert column(rows, "queue", LOAD) == [15_500, 30_500, 500, 0, 0]
    assert column(rows, "unserved", LOAD) == column(rows, "queue", LOAD)
    assert column(rows, "saturated", LOAD) == [False] * 5
    # a sample at a tick is of the step before it, at whose beginning the queue was:
    assert column(rows, "totals", LOAD, "value_milli") == [500, 500, 15_500, 30_500, 500]
    # 1999 - 2000 a second in 1.5 s: minus one and a half, which is truncated toward zero
    run.update(period_ms=1500, steps=1, work={CPU: [0], LOAD: [1999]})
    assert column(simulate(run), "queue", LOAD) == [499]


def test_usage_that_grows_with_age() -> None:
    signal = {
        "kind": "age",
        "base_milli": 1000,
        "growth_milli_per_hour": 3600,
        "ceiling_milli": 4610,
    }
    rows = simulate(case(3, initial=1, signals={CPU: signal}, events=[(START + 1, "scale", 2)]))
    # one more in each second: pod 0 is an hour old at the start, pod 1 starts at 1 001 000
    assert column(rows, "usage", CPU) == [[4600], [4610, 1014], [4610, 1029]]
    assert values(rows, CPU) == [4600, 4610, 4610]
    assert values(rows, CPU, 1) == [None, 1014, 1029]


def test_work_before_and_after_its_pieces() -> None:
    run = total_case(5, [7, 8], work_start_ms=START + PERIOD, resolution_ms=2 * PERIOD)
    assert column(simulate(run), "work", LOAD) == [7, 7, 7, 8, 8]


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "last"), [(1, (475, 312)), (10, (470, 310))])
def test_a_sample_is_the_mean_of_its_window(unit: int, last: tuple[int, int]) -> None:
    rows = simulate(
        case(
            3,
            initial=1,
            signals={CPU: {"base_milli": 100, "startup_milli": 50, "unit_milli": unit}},
            work={CPU: [600]},
            pipeline={
                "interval_ms": 10_000,
                "phase_ms": 0,
                "window_ms": 20_000,
                "first_sample_ms": 5000,
            },
            events=[(START + 1, "scale", 2)],
        )
    )
    # pod 1 starts and is ready at 1 001 000 and serves from 1 015 000, with 300 for each
    assert samples(rows[0]) == {0: (1_000_000, 700)}
    assert samples(rows[1]) == {0: (1_010_000, 700), 1: (1_010_000, 50)}
    # pod 0: 100 + (5 s of 600 and 15 s of 300) / 20 s; pod 1: (5 s of 50 and 15 s of 400) / 20 s
    assert samples(rows[2]) == {0: (1_030_000, last[0]), 1: (1_030_000, last[1])}
    assert rows[2]["pods"][0]["samples"][CPU]["window_ms"] == 20_000


def test_a_window_of_a_moment_takes_the_moment_before() -> None:
    rows = simulate(
        case(
            4,
            initial=1,
            signals={CPU: {"base_milli": 10, "startup_milli": 7}},
            work={CPU: [100, 200, 300]},
            pods={"startup_ms": [[0, 20_000]]},
            pipeline={"window_ms": 0},
            events=[(START + 1, "scale", 2)],
        )
    )
    # pod 1 serves from 1 030 000 on; that scrape takes what a pod did in step 1, the last in
    # which pod 0 was alone
    assert values(rows, CPU) == [110, 110, 210, 160]
    assert values(rows, CPU, 1) == [None, 7, 210, 160]


def test_before_the_start_the_initial_pods_did_the_first_work() -> None:
    run = case(
        1,
        initial=2,
        signals={CPU: {"base_milli": 10, "startup_milli": 50}},
        work={CPU: [1200]},
        pods={"initial_age_ms": 20_000},
        pipeline={"window_ms": 60_000},
        events=[(START - 1000, "scale", 0)],
    )
    # they serve from 980 000 on, and though an event takes them away before the start, this did
    # not matter for what was measured; here it lets them linger for that
    run["plant"]["pods"]["termination_ms"] = 5000
    assert samples(simulate(run)[0]) == dict.fromkeys((0, 1), (START, 610))
    run["plant"]["signals"][CPU].update(overload="queue", queue_milli=80)
    assert samples(simulate(run)[0])[0] == (START, 650)


def test_a_terminating_pod_shows_what_its_class_does() -> None:
    run = case(
        3,
        initial=2,
        signals={CPU: {"base_milli": 10}},
        work={CPU: [600]},
        pods={"termination_ms": 40_000},
        events=[(START + 1, "scale", 1)],
    )
    assert values(simulate(run), CPU, 1) == [310, 310, 610]
    run["events"][0]["value"] = 0  # then nobody does anything
    assert values(simulate(run), CPU, 1) == [310, 310, 10]


def test_a_failed_pod_is_measured_as_one_that_has_not_served() -> None:
    rows = simulate(
        case(
            5,
            initial=1,
            signals={CPU: {"startup_milli": 50}},
            work={CPU: [600]},
            pods={"failure_at_ms": [15_000], "restart_ms": 10_001},
            pipeline={"window_ms": 20_000},
        )
    )
    # fails at 1 015 000, ready at 1 026 000, serves from 1 030 000 on; the window of the sample
    # at 1 045 000 has 5 s from before
    assert column(rows, "serving") == [[0], [], [0], [0], [0]]
    assert values(rows, CPU) == [600, 50, 50, (5 * 50 + 15 * 600) // 20, 600]


def test_a_sample_stays_as_it_was_taken() -> None:
    rows = simulate(
        case(
            3,
            initial=1,
            signals={CPU: {"startup_milli": 50}},
            work={CPU: [600]},
            pods={"failure_at_ms": [15_000], "restart_ms": 90_000},
            pipeline={"interval_ms": 30_000},
        )
    )
    assert [samples(row)[0] for row in rows] == [(START, 600), (START, 600), (START + 30_000, 50)]


def test_a_first_sample_takes_its_time() -> None:
    run = case(
        3,
        initial=1,
        pipeline={"first_sample_ms": 14_000},
        events=[(START + 1, "scale", 2)],  # started 1 001 000
    )
    assert values(simulate(run), CPU, 1) == [None, 0, 0]
    run["plant"]["pipelines"]["resource"]["first_sample_ms"] = 14_001
    assert values(simulate(run), CPU, 1) == [None, None, 0]


def test_a_lag_shows_an_older_step() -> None:
    run = total_case(4, [1000, 2000, 3000], pipeline={"lag_ms": 15_000})
    assert totals(simulate(run)) == [
        (START - 15_000, 1000),
        (START, 1000),
        (START + 15_000, 1000),  # the instant before the tick: step 0
        (START + 30_000, 2000),
    ]
    run["plant"]["pipelines"]["external"].update(phase_ms=START + 1, lag_ms=14_999)
    assert totals(simulate(run))[2] == (START + 15_001, 2000)
    run["plant"]["pipelines"]["external"].update(lag_ms=15_000)  # one too late for the tick
    assert totals(simulate(run))[2] == (START + 1, 1000)


def test_a_total_is_rounded_down_to_its_unit() -> None:
    run = total_case(1, [1999])
    run["plant"]["signals"][LOAD]["unit_milli"] = 1000
    assert totals(simulate(run)) == [(START, 1000)]


def test_gaps_and_the_age_after_which_a_sample_is_not_shown() -> None:
    run = total_case(
        4,
        [1],
        pipeline={
            "interval_ms": 10_000,
            "phase_ms": 0,
            "gaps_ms": [[1_010_000, 1_040_000]],
            "max_age_ms": 29_999,
        },
    )
    at_start, after_gap = (START, 1), (START + 40_000, 1)
    assert totals(simulate(run)) == [at_start, at_start, None, after_gap]
    run["plant"]["pipelines"]["external"]["max_age_ms"] = 30_000
    assert totals(simulate(run)) == [at_start, at_start, at_start, after_gap]


@pytest.mark.parametrize(
    ("last", "gaps", "ts"),
    [
        (None, [], 95),
        (99, [], 95),  # visible at 100
        (100, [], None),
        (None, [[95, 96]], 85),
        (99, [[95, 96]], None),
        (80, [[90, 100]], 85),
        (90, [[90, 100]], None),
        (None, [[0, 50], [60, 96]], 55),
        (None, [[-40, 96]], -45),
    ],
)
def test_the_newest_scrape_that_counts(
    last: int | None, gaps: list[list[int]], ts: int | None
) -> None:
    pipeline = {"interval_ms": 10, "phase_ms": 1005, "lag_ms": 5, "gaps_ms": gaps}
    assert newest_scrape(pipeline, 104, last) == ts
