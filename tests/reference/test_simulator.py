"""Tests of pods of the naive simulator, computed by hand."""

from __future__ import annotations

import pytest

from .simulator import simulate
from .simulator_cases import PERIOD, START, Json, case, column, spec, states, utilization
from .simulator_pods import Cluster, Pod

# --- pods come ------------------------------------------------------------------------------------


def test_a_new_pod_is_scheduled_starts_and_gets_ready_at_whole_seconds() -> None:
    run = case(
        5,
        initial=1,
        pods={"startup_ms": [[1000, 13_400], [20_000, 14_000]], "reaction_ms": 500},
        events=[(START + 1000, "scale", 3)],
        draws={6: 0, 7: 3},  # of pods 1 and 2: rows 0 and 3 mod 2
    )
    run["plant"]["first_draw"] = 5
    rows = simulate(run)
    # created 1 001 500; pod 1 starts at s(1 002 500), is ready at s(1 016 400); pod 2 starts at
    # s(1 021 500) and is ready 14 s later
    old = ("Running", "True", START - 3_600_000, False)
    pending = ("Pending", None, None, False)
    assert [states(row) for row in rows] == [
        {0: old},
        {0: old, 1: ("Running", "False", 1_003_000, False), 2: pending},
        {
            0: old,
            1: ("Running", "True", 1_017_000, False),
            2: ("Running", "False", 1_022_000, False),
        },
        *[
            {
                0: old,
                1: ("Running", "True", 1_017_000, False),
                2: ("Running", "True", 1_036_000, False),
            }
        ]
        * 2,
    ]
    assert column(rows, "serving") == [[0], [0], [0, 1], [0, 1, 2], [0, 1, 2]]
    assert column(rows, "existing") == [[0], *[[0, 1, 2]] * 4]
    assert column(rows, "replicas") == [1, 3, 3, 3, 3]
    assert column(rows, "status_replicas") == [1, 3, 3, 3, 3]


def test_pods_of_a_decision_come_after_the_step_has_begun() -> None:
    under = [{"from_ms": 0, "spec": spec([utilization(50)], minimum=3)}]
    rows = simulate(case(2, initial=2, periods=under))
    assert rows[0]["rescaled"]
    assert column(rows, "replicas") == column(rows, "status_replicas") == [2, 3]
    assert column(rows, "size") == [3, 3]
    assert column(rows, "serving") == column(rows, "existing") == [[0, 1], [0, 1, 2]]


def test_a_reaction_delays_what_is_seen_and_billed() -> None:
    rows = simulate(
        case(
            3,
            initial=2,
            pods={"reaction_ms": 16_000},
            periods=[{"from_ms": 0, "spec": spec([utilization(50)], minimum=3)}],
        )
    )
    assert column(rows, "replicas") == [2, 3, 3]
    assert column(rows, "status_replicas") == [2, 2, 3]
    assert [list(states(row)) for row in rows] == [[0, 1], [0, 1], [0, 1, 2]]
    assert column(rows, "existing") == [[0, 1], [0, 1], [0, 1, 2]]


def test_what_happens_exactly_at_a_tick_has_happened() -> None:
    over = [{"from_ms": 0, "spec": spec([utilization(50)], maximum=1)}]
    pods: Json = {"reaction_ms": PERIOD, "termination_ms": PERIOD}
    rows = simulate(case(3, initial=2, pods=pods, periods=over))
    # the deletion is at tick 1, the end at tick 2
    assert [states(row)[1][3] for row in rows[:2]] == [False, True]
    assert column(rows, "status_replicas") == [2, 1, 1]
    assert column(rows, "serving") == [[0, 1], [0], [0]]
    assert column(rows, "existing") == [[0, 1], [0, 1], [0]]
    under = [{"from_ms": 0, "spec": spec([utilization(50)], minimum=2)}]
    pods = {"reaction_ms": PERIOD, "startup_ms": [[0, PERIOD]]}
    rows = simulate(case(3, initial=1, pods=pods, periods=under))
    # created and started at tick 1, ready and in service at tick 2
    assert states(rows[1])[1] == ("Running", "False", START + PERIOD, False)
    assert states(rows[2])[1] == ("Running", "True", START + 2 * PERIOD, False)
    assert column(rows, "serving") == [[0], [0], [0, 1]]


def test_draws_begin_anew_at_the_end_of_the_table() -> None:
    run = case(1, initial=0, draws={4095: 7, 0: 8})
    run["plant"]["first_draw"] = 4000
    cluster = Cluster(run)
    assert [cluster.draw(index) for index in (95, 96)] == [7, 8]


def test_events_happen_at_the_first_tick_after_them_in_order_of_time() -> None:
    at = START + PERIOD  # exactly a tick: one later
    run = case(4, initial=1, events=[(at, "scale", 4), (START - 1, "scale", 2)])
    assert column(simulate(run), "replicas") == [2, 2, 4, 4]
    run["events"] = [
        {"at_ms": at, "kind": "scale", "value": 4},
        {"at_ms": at, "kind": "scale", "value": 5},
    ]
    assert column(simulate(run), "replicas") == [1, 1, 5, 5]


def test_capacity_lets_pods_wait_for_the_room_of_others() -> None:
    run = case(
        5,
        initial=2,
        pods={
            "capacity": 3,
            "startup_ms": [[1000, 2000]],
            "termination_ms": 20_000,
            "costs": [0, 0, -1],
            "shares": [1000, 1000, 1000],
        },
        events=[
            (START + 1000, "scale", 5),  # pod 2 has room, 3 and 4 wait
            (START + 16_000, "scale", 4),  # the last waiting pod goes, at once
            (START + 17_000, "scale", 3),
            (START + 18_000, "scale", 2),  # pod 2 is the cheapest; it takes room for 20 s
            (START + 46_000, "scale", 3),
        ],
    )
    rows = simulate(run)
    assert [list(states(row)) for row in rows] == [
        [0, 1],
        [0, 1, 2, 3, 4],
        [0, 1, 2],
        [0, 1],
        [0, 1, 5],
    ]
    assert column(rows, "existing") == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1], [0, 1, 5]]
    assert states(rows[1])[3] == states(rows[1])[4] == ("Pending", None, None, False)
    assert states(rows[2])[2] == ("Running", "True", START + 5000, True)


def test_a_waiting_pod_is_scheduled_at_a_tick_when_a_place_is_free() -> None:
    run = case(
        4,
        initial=2,
        pods={"capacity": 2, "startup_ms": [[1500, 2000]], "termination_ms": 10_000},
        events=[(START + 1000, "lose", 500), (START + 2000, "scale", 3)],
        draws={1000: 1},  # the loss: rank 1 of pods 1, 0
    )
    rows = simulate(run)
    # pod 0 is lost, so there is room for pod 2, its successor; pod 3 waits
    assert list(states(rows[1])) == [1, 2, 3]
    assert [states(row)[3][0] for row in rows[1:]] == ["Pending"] * 3
    run["events"].append({"at_ms": START + 16_000, "kind": "scale", "value": 0})
    run["events"].append({"at_ms": START + 26_000, "kind": "scale", "value": 1})
    rows = simulate(run)
    # pods 1 and 2 are gone at 1 026 001; pod 4, of the moment before, finds them in its place, so
    # it is scheduled at the tick at 1 030 000 and starts at s(1 031 500)
    assert states(rows[2]) == {4: ("Pending", None, None, False)}
    assert states(rows[3]) == {4: ("Running", "True", 1_034_000, False)}
    assert column(rows, "serving") == [[0, 1], [1, 2], [], [4]]
    run["events"][-1]["at_ms"] += 1
    rows = simulate(run)  # created 1 026 002, started at s(1 027 502)
    assert states(rows[2]) == {4: ("Running", "True", 1_030_000, False)}


def test_a_pod_that_is_yet_to_come_can_wait_and_be_scheduled() -> None:
    rows = simulate(
        case(
            3,
            initial=1,
            pods={"capacity": 1, "reaction_ms": 20_000, "startup_ms": [[1500, 2000]]},
            events=[
                (START + 1, "scale", 2),  # pod 1, created 1 020 001
                (START + 2, "rollout", 0),  # so that nothing replaces
                (START + 3, "lose", 500),  # pod 0: tick 1 finds room
            ],
            draws={1000: 1},
        )
    )
    assert list(states(rows[1])) == []
    assert states(rows[2])[1] == ("Running", "True", 1_024_000, False)


def test_a_pod_that_is_to_be_deleted_does_not_wait_any_more() -> None:
    """Pod 0 has just made room at tick 1, when pod 1 is there for half a second more."""
    rows = simulate(
        case(
            3,
            initial=1,
            pods={"capacity": 1, "reaction_ms": 2000, "startup_ms": [[0, 0]]},
            events=[
                (START + 1, "scale", 2),
                (START + 13_500, "scale", 1),  # pod 1, at 1 015 500
                (START + 13_600, "rollout", 0),  # so that nothing replaces
                (START + 14_000, "lose", 1000),  # pod 0
            ],
        )
    )
    assert states(rows[1]) == {1: ("Pending", None, None, False)}
    assert list(states(rows[2])) == [2]


# --- pods go --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("serves", "serving"), [(False, [[0, 1], [0], [0]]), (True, [[0, 1], [0, 1], [0]])]
)
def test_a_deleted_pod_terminates(serves: bool, serving: list[list[int]]) -> None:
    rows = simulate(
        case(
            3,
            initial=2,
            pods={
                "reaction_ms": 500,
                "termination_ms": 25_000,
                "serves_while_terminating": serves,
            },
            events=[(START + 1000, "scale", 1)],
        )
    )
    assert column(rows, "serving") == serving
    assert [list(states(row)) for row in rows] == [[0, 1], [0, 1], [0]]  # gone at 1 026 500
    assert [states(row)[1][3] for row in rows[:2]] == [False, True]
    assert column(rows, "status_replicas") == [2, 1, 1]
    assert column(rows, "existing") == [[0, 1], [0, 1], [0]]


def test_a_pod_serves_on_until_its_deletion() -> None:
    """A decision's deletion comes a reaction after the tick, so the step still has the pod."""
    over = [{"from_ms": 0, "spec": spec([utilization(50)], maximum=1)}]
    rows = simulate(case(2, initial=2, periods=over))
    assert column(rows, "size") == [1, 1]
    assert column(rows, "serving") == column(rows, "existing") == [[0, 1], [0]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"scheduled": False}, {"ready": 2_000_000}),
        ({"ready": START + 1}, {"cost": -9}),
        ({"cost": -1}, {"ready": 900_000}),
        ({"ready": 900_000}, {"created": 850_000}),
        ({"created": 850_000}, {"started": 860_000}),
        ({"started": 860_000}, {"share": 1001}),
        ({"share": 1001}, {"number": 8}),
        ({"number": 8}, {"number": 7}),
    ],
)
def test_removal_order_of_a_replica_set(first: Json, second: Json) -> None:
    """Each pair differs in a criterion and in the one after it, which says the contrary."""
    plain: Json = {
        "number": 5,
        "pod_class": 0,
        "share": 1000,
        "cost": 0,
        "revision": 0,
        "created": 800_000,
        "scheduled": True,
        "started": 800_000,
        "ready": 800_000,
    }
    pods = [Pod(**{**plain, **second}), Pod(**{**plain, **first})]
    cluster = Cluster(case(1, initial=0))
    assert cluster.removal_order(pods, START) == pods[::-1]
    assert cluster.removal_order(pods[::-1], START) == pods[::-1]


def test_removal_order_of_a_stateful_set_is_the_ordinal() -> None:
    cluster = Cluster(case(1, initial=3, pods={"removal": "statefulset"}))
    cluster.pods[0].cost = -9
    assert [pod.number for pod in cluster.removal_order(cluster.pods, START)] == [2, 1, 0]


def test_a_loss_takes_pods_at_once_and_they_are_replaced() -> None:
    rows = simulate(
        case(
            2,
            initial=5,
            pods={"termination_ms": 60_000, "reaction_ms": 2000, "startup_ms": [[0, 5000]]},
            events=[(START + 500, "lose", 300)],  # (5 × 300 + 500) / 1000 = 2 pods
            draws={1000: 7, 1001: 1},  # rank 7 mod 5 of 4 3 2 1 0, rank 1 of 4 3 1 0
        )
    )
    assert list(states(rows[1])) == [0, 1, 4, 5, 6]
    # created 1 002 500, started 1 003 000, ready 1 008 000
    assert states(rows[1])[5] == ("Running", "True", 1_008_000, False)
    assert column(rows, "serving") == [[0, 1, 2, 3, 4], [0, 1, 4, 5, 6]]
