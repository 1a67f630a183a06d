"""The measures of the naive simulator on rows written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from .simulator import simulate
from .simulator_cases import CPU, LOAD, PERIOD, SIGNAL, START, Json, case, column
from .simulator_measures import measures, primary_signal


def rows_of(
    serving: list[int],
    demand: list[int],
    size: list[int] | None = None,
    rescaled: dict[int, int] | None = None,
) -> list[Json]:
    """Build rows with a work of 1000 for each pod demanded.

    `size` is after each decision; `rescaled` has the size before it of the ticks that rescale.
    """
    rows = []
    for t, (s, d) in enumerate(zip(serving, demand, strict=True)):
        after = size[t] if size is not None else s
        rows.append(
            {
                "replicas": (rescaled or {}).get(t, after),
                "size": after,
                "desired": after,
                "rescaled": t in (rescaled or {}),
                "proposal": after,
                "max_replicas": 100,
                "invalid": False,
                "serving": list(range(s)),
                "existing": list(range(s)),
                "work": {CPU: d * 1000},
                "unserved": {CPU: 0},
                "saturated": {CPU: False},
                "usage": {CPU: [0] * s},
            }
        )
    return rows


def measured(rows: list[Json], **signal: Any) -> Json:
    run = case(len(rows), initial=1, signals={CPU: signal})
    run["plant"]["capacity_milli"] = 1000
    return measures(rows, run)


def test_supply_against_demand() -> None:
    rows = rows_of([1, 2, 2, 4, 5, 3], [1, 4, 5, 4, 4, 4])
    found = measured(rows)
    assert found["steps"] == 6
    assert found["under_steps"] == 3
    assert found["over_steps"] == 1
    assert found["under_ratio"] == 0.0 + 2 / 4 + 3 / 5 + 1 / 4
    assert found["over_ratio"] == 1 / 4
    assert found["supply_changes"] == 4  # + 0 + + -
    assert found["demand_changes"] == 3  # + + - 0 0
    assert found["unstable_steps"] == 4


def test_demand_is_rounded_up_and_at_least_one() -> None:
    rows = rows_of([1, 1, 1], [0, 1, 2])
    rows[1]["work"][CPU] = 1000
    rows[2]["work"][CPU] = 1001
    assert measured(rows)["under_steps"] == 1
    assert measured(rows)["demand_changes"] == 1


def test_bills() -> None:
    rows = rows_of([1, 2], [1, 1], size=[3, 5], rescaled={1: 3})
    rows[0]["existing"] = [0, 1]
    found = measured(rows)
    assert found["replica_ms"] == 8 * PERIOD
    assert found["pod_ms"] == 4 * PERIOD


def test_rescales_and_reversals() -> None:
    rows = rows_of(
        [1] * 6, [1] * 6, size=[2, 3, 1, 1, 5, 2], rescaled={0: 1, 1: 2, 2: 3, 4: 1, 5: 5}
    )
    found = measured(rows)
    assert (found["rescales"], found["rescales_up"], found["rescales_down"]) == (5, 3, 2)
    assert found["reversals"] == 3


def test_episodes_of_too_few_pods() -> None:
    rows = rows_of(
        [1, 1, 1, 4, 4, 1, 1, 2, 2],
        [1, 3, 4, 4, 4, 2, 2, 2, 3],
        rescaled={2: 0, 7: 0},
    )
    found = measured(rows)
    # steps 1 and 2 (a rescale up in the second), 5 and 6 (the one at the end does not count), 8
    assert found["episodes"] == 3
    assert found["episodes_ended"] == 2
    assert found["settling_ms"] == 4 * PERIOD
    assert found["episodes_reacted"] == 1
    assert found["reaction_ms"] == 1 * PERIOD


def test_an_episode_that_does_not_end_may_have_a_reaction() -> None:
    found = measured(rows_of([1, 1, 1], [1, 2, 2], rescaled={0: 0, 2: 0}))
    assert (found["episodes"], found["episodes_ended"], found["episodes_reacted"]) == (1, 0, 1)
    assert found["reaction_ms"] == PERIOD


@pytest.mark.parametrize(
    ("size", "rescaled", "overshoot"),
    [
        ([1, 3, 5, 6, 6, 6], {}, 3),  # until the run's end: 6 above 3
        ([1, 3, 5, 4, 9, 9], {3: 5}, 2),  # until the rescale down
        ([1, 3, 5, 4, 9, 9], {4: 4}, 6),  # a rescale up does not end it
        ([1, 3, 4, 9, 9, 9], {2: 5}, 0),  # a rescale down at the end itself
        ([1, 3, 3, 3, 3, 3], {}, 0),
        ([1, 3, 2, 2, 2, 2], {}, 0),
    ],
)
def test_overshoot(size: list[int], rescaled: dict[int, int], overshoot: int) -> None:
    """An episode with a peak demand of 3 ends at step 2."""
    rows = rows_of([1, 1, 3, 3, 3, 3], [1, 3, 2, 2, 2, 2], size, rescaled)
    assert measured(rows)["overshoot"] == overshoot


def test_overshoot_ends_with_the_next_episode() -> None:
    rows = rows_of([1, 3, 3, 1, 9], [3, 2, 2, 5, 5], [1, 4, 4, 7, 9])
    assert measured(rows)["overshoot"] == 1 + 4


def test_the_primary_signals_own_measures() -> None:
    rows = rows_of([2] * 6, [2] * 6)
    for t in (0, 2, 3, 4):
        rows[t]["saturated"][CPU] = True
        rows[t]["unserved"][CPU] = 333
    rows[1]["usage"][CPU] = [100, 201]
    rows[2]["usage"][CPU] = [99, 200]
    rows[3]["usage"][CPU] = [100, 200]
    found = measured(rows, observed_milli=[100, 200])
    assert found["saturated_steps"] == 4
    assert found["saturated_longest"] == 3
    assert found["unserved_milli_s"] == 4 * (333 * 15)
    assert found["outside_steps"] == 5  # the others are at 0
    assert measured(rows)["outside_steps"] == 0


def test_steps_above_levels() -> None:
    """The highest serving pod counts; without any pod work is above all of them."""
    rows = rows_of([2, 2, 2, 0, 0, 2], [2] * 6)
    rows[0]["usage"][CPU] = [100, 201]
    rows[1]["usage"][CPU] = [200, 99]
    rows[2]["usage"][CPU] = [301, 900]
    rows[3]["saturated"][CPU] = True
    levels = [0, 100, 200, 300, 800]
    assert measured(rows, levels_milli=levels)["above_steps"] == [4, 4, 3, 2, 2]
    assert measured(rows)["above_steps"] == [0] * 5


def test_decisions_at_the_maximum_and_failed_metrics() -> None:
    rows = rows_of([1] * 4, [1] * 4)
    for row, (desired, proposal) in zip(rows, [(5, 6), (5, 5), (4, 6), (5, 9)], strict=True):
        row.update(desired=desired, proposal=proposal, max_replicas=5)
    rows[1]["invalid"] = True
    found = measured(rows)
    assert found["at_max_steps"] == 2
    assert found["invalid_steps"] == 1


def test_the_primary_signal() -> None:
    backlog = {**SIGNAL, "kind": "backlog"}
    age, total = {**SIGNAL, "kind": "age"}, {**SIGNAL, "kind": "total"}
    assert primary_signal({"signals": {LOAD: backlog, "a": age, CPU: SIGNAL}}) == CPU
    assert primary_signal({"signals": {"a": age, "b": backlog, LOAD: backlog}}) == "b"
    assert primary_signal({"signals": {"a": age, "b": total}}) is None


def test_without_a_capacity_there_is_no_demand() -> None:
    run = case(2, initial=1, work={CPU: [10]})
    found = measures(simulate(run), run)
    assert found["under_steps"] is found["episodes"] is found["overshoot"] is None
    assert found["supply_changes"] == 0
    run["plant"]["capacity_milli"] = 3
    assert measures(simulate(run), run)["under_ratio"] == 2 * 3 / 4


def test_measures_of_a_run() -> None:
    """One run with a capacity of 100, a demand of 4 pods for three steps."""
    run = case(
        6,
        initial=1,
        signals={CPU: {"request_milli": 100, "ceiling_milli": 150, "observed_milli": [0, 100]}},
        work={CPU: [90, 390, 390, 390, 40]},
        pods={"startup_ms": [[1000, 5000]]},
    )
    run["plant"]["capacity_milli"] = 100
    run["periods"][0]["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = 100
    rows = simulate(run)
    # step 1 is cut off at 150 of 390: tick 2 asks for 2; those serve in step 3 with 150 each,
    # of which tick 4 makes 3; tick 5 sees step 4, with 2 pods at 20
    assert column(rows, "serving") == [[0], [0], [0], [0, 1], [0, 1], [0, 1, 2]]
    assert column(rows, "size") == [1, 1, 2, 2, 3, 1]
    assert rows[5]["now_ms"] == START + 5 * PERIOD
    found = measures(rows, run)
    assert found["saturated_steps"] == found["saturated_longest"] == 3
    assert found["unserved_milli_s"] == (240 + 240 + 90) * 15
    assert (found["episodes"], found["settling_ms"]) == (1, 3 * PERIOD)
    assert found["reaction_ms"] == PERIOD
    assert found["outside_steps"] == 3
    assert found["replica_ms"] == 10 * PERIOD
