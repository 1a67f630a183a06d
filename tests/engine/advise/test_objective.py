"""Goals: limits and objectives from texts."""

from __future__ import annotations

import polars as pl
import pytest

from hpabatch.engine.advise.objective import MEASURES, ObjectiveError, Slo, parse_goal

BLOCKS = pl.DataFrame(
    {"saturated_minutes": [1.0], "pod_hours": [1.0], "cost": [None], "rescales": [1]}
)


def test_units_become_limits_for_hours() -> None:
    goal = parse_goal(
        [
            "saturated_minutes<10/week, rescales <= 4 / hour and under_minutes<1.5%",
            "invalid_minutes<=0",
        ]
    )
    week, hour, share, none = goal.slos
    assert week == Slo("saturated_minutes<10/week", "saturated_minutes", 10, True, 168, 168)
    assert hour == Slo("rescales<=4/hour", "rescales", 4, False, 1, 1)
    assert share.limit == pytest.approx(0.9)
    assert (share.unit_hours, share.window_hours) == (1, None)
    assert share.shown(0.9) == pytest.approx(1.5)
    assert [slo.unit for slo in goal.slos] == ["/week", "/hour", "%", "/hour"]
    assert (none.limit, none.strict) == (0, False)


def test_cost_is_the_objective_where_it_is_known() -> None:
    assert parse_goal([], None, BLOCKS).minimize == "pod_hours"
    assert "no HPA has a cost" in parse_goal([], None, BLOCKS).source
    priced = BLOCKS.with_columns(cost=pl.lit(2.5))
    assert (parse_goal([], None, priced).minimize, parse_goal([], "rescales", priced).source) == (
        "cost",
        "given",
    )


def test_all_mistakes_come_in_one_message() -> None:
    texts = [
        "saturated<10/week",
        "rescales<5",
        "rescales<5%, pod_hours>3/day",
        "saturated_minutes<0/week",
        "cost<3/month",
        "nonsense",
        "reversals<1e999/day",
        "unserved<1/day",
    ]
    with pytest.raises(ObjectiveError) as raised:
        parse_goal(texts, "cost", BLOCKS)
    message = str(raised.value)
    for part in (
        "--slo saturated<10/week: saturated is no measure of a block; did you mean satur",
        "--slo rescales<5: per what? give it /hour, /day or /week;",
        "--slo rescales<5%: only minutes have a share of time (%)",
        "--slo pod_hours>3/day: `>` says no upper limit: use < or <=",
        "--slo saturated_minutes<0/week: nothing is below 0",
        "--slo cost<3/month: /month is none of /hour, /day, /week",
        "--slo reversals<1e999/day: everything is below that",
        "--slo nonsense: expected MEASURE<LIMIT/UNIT",
        "--slo unserved<1/day: unserved is not known of any HPA of this sweep",
        "--minimize cost: no HPA of this sweep has a cost",
    ):
        assert part in message


def test_none_is_no_limit() -> None:
    assert parse_goal(["none"]).slos == ()
    with pytest.raises(ObjectiveError, match="expected MEASURE<LIMIT/UNIT"):
        parse_goal(["none", "rescales<5/day"])


def test_a_measure_has_one_limit() -> None:
    with pytest.raises(ObjectiveError, match="rescales has two limits"):
        parse_goal(["rescales<5/day", "rescales<9/week"])


def test_what_settings_cannot_change_is_no_objective() -> None:
    assert "perfect_pod_hours" in MEASURES
    with pytest.raises(ObjectiveError, match="the same under every setting"):
        parse_goal([], "perfect_pod_hours")
