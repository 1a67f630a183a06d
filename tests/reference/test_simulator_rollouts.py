"""Rollouts and failures of the naive simulator, computed by hand."""

from __future__ import annotations

from .simulator import simulate
from .simulator_cases import START, case, column, states


def test_a_rollout_keeps_to_surge_and_unavailability() -> None:
    """Of 4: one more and one less at a time; new pods are ready by the next tick."""
    rows = simulate(
        case(
            7,
            initial=4,
            pods={"startup_ms": [[1000, 5000]]},
            events=[(START + 1, "rollout", 0)],
        )
    )
    # tick 1: pod 4 is created; of 5 pods 3 must stay available, so one old one goes. And so on.
    assert [list(states(row)) for row in rows] == [
        *[[0, 1, 2, 3]] * 2,
        [0, 1, 2, 4],
        [0, 1, 4, 5],
        [0, 4, 5, 6],
        *[[4, 5, 6, 7]] * 2,
    ]


def test_a_rollout_without_surge_and_unavailability_takes_one_away() -> None:
    rows = simulate(
        case(
            6,
            initial=2,
            pods={"surge_pct": 0, "unavailable_pct": 25, "startup_ms": [[1000, 5000]]},
            events=[(START + 1, "rollout", 0)],
        )
    )
    # tick 1 deletes pod 1; tick 2 creates pod 2; tick 3, with it ready, deletes pod 0; then pod 3
    assert [list(states(row)) for row in rows] == [[0, 1], [0, 1], [0], [0, 2], [2], [2, 3]]


def test_a_rollout_waits_for_its_new_pods() -> None:
    rows = simulate(
        case(
            6,
            initial=4,
            pods={"startup_ms": [[1000, 40_000]], "unavailable_pct": 0},
            events=[(START + 1, "rollout", 0)],
        )
    )
    # the new pod of tick 1 starts at 1 017 000 and is ready at 1 057 000, for tick 4
    assert [list(states(row)) for row in rows[2:]] == [[0, 1, 2, 3, 4]] * 3 + [[0, 1, 2, 4]]
    assert column(rows, "serving")[3:] == [[0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 4]]


def test_a_rollout_creates_no_more_than_are_missing() -> None:
    """There could be 4 pods, but there are 2 new ones, of which one takes its time."""
    rows = simulate(
        case(
            5,
            initial=2,
            pods={
                "startup_ms": [[1000, 5000], [1000, 90_000]],
                "termination_ms": 60_000,
                "surge_pct": 100,
                "unavailable_pct": 0,
            },
            events=[(START + 1, "rollout", 0)],
            draws={3: 1},
        )
    )
    assert column(rows, "existing") == [[0, 1]] * 2 + [[0, 1, 2, 3]] * 3
    assert [state[3] for state in states(rows[3]).values()] == [False, True, False, False]


def test_a_rollout_works_towards_a_size_that_changes() -> None:
    """A resize creates nothing by itself; without one, only the first event's pods come."""
    run = case(
        5,
        initial=2,
        pods={"startup_ms": [[1000, 70_000]], "surge_pct": 100, "unavailable_pct": 0},
        events=[(START + 1, "rollout", 0), (START + 16_000, "scale", 4)],
    )
    rows = simulate(run)
    # tick 1: 2 + 2 - 2 new pods; tick 2, of 4: 4 + 4 - 4 are allowed, 2 are missing
    assert [list(states(row)) for row in rows] == [
        *[[0, 1]] * 2,
        [0, 1, 2, 3],
        *[[0, 1, 2, 3, 4, 5]] * 2,
    ]
    run["events"][1]["value"] = 1
    rows = simulate(run)
    # tick 2, of 1: of 4 live pods 1 must stay and 2 are unready, so one old one goes; then the
    # second new one is more than 1
    assert [list(states(row)) for row in rows] == [*[[0, 1]] * 2, [0, 1, 2, 3], *[[0, 2]] * 2]


def test_a_second_rollout_makes_the_first_ones_pods_old() -> None:
    rows = simulate(
        case(
            5,
            initial=1,
            pods={"startup_ms": [[1000, 20_000]]},
            events=[(START + 1, "rollout", 0), (START + 16_000, "rollout", 0)],
        )
    )
    # surge 1, away 0. At tick 2 pod 1, ready only at 1 037 000, is old like pod 0, and the two
    # are one too many, so it goes; then there is room for pod 2
    assert [list(states(row)) for row in rows] == [[0], [0], [0, 1], [0], [0, 2]]


def test_pods_fail_after_a_time_in_service() -> None:
    rows = simulate(
        case(
            6,
            initial=2,
            pods={"failure_at_ms": [60_000, 999_999], "restart_ms": 20_001},
            draws={2048: 1},  # rank 1 of pods 1, 0
            start_ms=START + 300,
        )
    )
    # 60 s in service are reached at the end of step 1: at 1 030 300, so pod 0 fails at 1 030 000,
    # is ready again at s(1 050 001) and serves from 1 060 300 on
    old = ("Running", "True", START + 300 - 3_600_000, False)
    assert [states(row)[1] for row in rows] == [old] * 6
    failed = ("Running", "False", 1_030_000, False)
    back = ("Running", "True", 1_051_000, False)
    assert [states(row)[0] for row in rows] == [old, old, failed, failed, back, back]
    assert column(rows, "serving") == [[0, 1], [0, 1], [1], [1], [0, 1], [0, 1]]


def test_failures_at_once_take_different_pods_and_wait_for_more() -> None:
    run = case(
        7,
        initial=2,
        pods={"failure_at_ms": [0, 10_000, 30_000], "restart_ms": 60_000},
        draws={2048: 0, 2049: 0, 2050: 1},
    )
    # at the end of step 0 pod 1 and then pod 0, the only one left; both are back for step 5, at
    # the end of which the third failure takes rank 1 of pods 1, 0
    assert column(simulate(run), "serving") == [[0, 1], *[[]] * 4, [0, 1], [1]]
    run["initial"] = 0
    run["events"] = [{"at_ms": START + 1, "kind": "scale", "value": 1}]
    run["plant"]["pods"]["failure_at_ms"] = [0]
    # without a pod nothing fails; pod 0 (ready 1 001 000) serves in step 1 and fails at its end
    assert column(simulate(run), "serving") == [[], [0], *[[]] * 4, [0]]


def test_only_live_pods_fail() -> None:
    rows = simulate(
        case(
            4,
            initial=2,
            pods={
                "failure_at_ms": [45_000],
                "restart_ms": 60_000,
                "termination_ms": 60_000,
                "serves_while_terminating": True,
            },
            events=[(START + 1, "scale", 1)],
        )
    )
    # pod 1 serves on, but 30 s and 15 s in service are counted, and it is pod 0 that fails
    assert column(rows, "serving") == [[0, 1], [0, 1], [1], [1]]
