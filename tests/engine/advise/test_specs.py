"""Goals and bounds from strings, and a sweep's settings in specs."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest

from hpabatch.engine.advise.bounds import has_no_more_pods, parse_bounds
from hpabatch.engine.advise.objective import (
    MEASURES,
    ObjectiveError,
    RecommendOptions,
    Slo,
    parse_goal,
)
from hpabatch.engine.advise.run import recommend
from hpabatch.engine.advise.specs import profile_of, sets_to_json, settings_of
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import UsageError
from hpabatch.model.objects.defaults import default_behavior, default_spec
from hpabatch.model.objects.hpa import (
    Behavior,
    HPASpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    PodsMetricSource,
    ResourceMetricSource,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.settings.fields import PolicySet
from hpabatch.model.versions import ControllerFlags, profile_for
from tests.sweeps import SweepMaker, weeks


def spec(cpu: int = 60, rps: str = "100", low: int = 2, high: int = 10) -> HPASpec:
    pods = PodsMetricSource(
        MetricIdentifier("rps"), MetricTarget("AverageValue", average_value=Quantity.parse(rps))
    )
    resource = ResourceMetricSource("cpu", MetricTarget("Utilization", average_utilization=cpu))
    metrics = (MetricSpec("Resource", resource=resource), MetricSpec("Pods", pods=pods))
    return default_spec(HPASpec(min_replicas=low, max_replicas=high, metrics=metrics))


def with_rules(**changes: object) -> HPASpec:
    """Return a spec with another way down."""
    behavior = default_behavior(Behavior())
    assert behavior is not None
    assert behavior.scale_down is not None
    down = replace(behavior.scale_down, **changes)  # type: ignore[arg-type]
    return replace(spec(), behavior=replace(behavior, scale_down=down))


@pytest.mark.parametrize(
    ("wanted", "fewer"),
    [
        (spec(), True),
        (spec(70, low=1), True),
        (spec(high=9, rps="101"), True),
        (spec(59), False),
        (spec(70, rps="99"), False),
        (spec(low=3), False),
        (spec(high=11), False),
        (with_rules(stabilization_window_seconds=299), True),
        (with_rules(stabilization_window_seconds=301), False),
        (with_rules(policies=(ScalingPolicy("Pods", 1, 60),)), False),
        (with_rules(tolerance=Quantity.parse("0.2")), False),
    ],
)
def test_specs_that_keep_no_more_pods_than_todays(wanted: HPASpec, fewer: bool) -> None:
    assert has_no_more_pods(spec(), wanted, ControllerFlags()) == fewer


@pytest.mark.parametrize(
    ("bounds", "wanted", "broken"),
    [
        ([], spec(80), []),
        ([], spec(81), ["target utilization 60 -> 81 is beyond --bound target=20"]),
        ([], spec(rps="120"), []),
        ([], spec(rps="121"), ["target averageValue 100 -> 121 is beyond --bound target=20"]),
        (["target=any"], spec(99, "900"), []),
        (["target=same"], spec(61), ["target utilization 60 -> 61 is beyond --bound target=same"]),
        (["target=x1.5"], spec(90, "66.7"), []),
        (["target=x1.5"], spec(39), ["target utilization 60 -> 39 is beyond --bound target=x1.5"]),
        ([], spec(high=20), []),
        ([], spec(high=21), ["maxReplicas 10 -> 21 is beyond --bound max=x2"]),
        ([], spec(high=4), ["maxReplicas 10 -> 4 is beyond --bound max=x2"]),
        (["max=3, min=same"], spec(high=13), []),
        (["max=3", "min=same"], spec(low=1), ["minReplicas 2 -> 1 is beyond --bound min=same"]),
        ([], spec(low=0), ["minReplicas 2 -> 0 is beyond --bound min=x2"]),
        ([], with_rules(stabilization_window_seconds=3600), []),
        (["scaleDown.window=60"], with_rules(stabilization_window_seconds=240), []),
        (
            ["scaleDown.window=60"],
            with_rules(stabilization_window_seconds=239),
            ["scaleDown.window 300 -> 239 is beyond --bound scaleDown.window=60"],
        ),
        (["tolerance=0.05"], with_rules(tolerance=Quantity.parse("50m")), []),
        (
            ["tolerance=0.05"],
            with_rules(tolerance=Quantity.parse("0.2")),
            ["scaleDown.tolerance 0.1 -> 0.2 is beyond --bound tolerance=0.05"],
        ),
        (["policies=same"], with_rules(), []),
        (
            ["policies=same", "select=same"],
            with_rules(policies=(ScalingPolicy("Pods", 1, 60),), select_policy="Min"),
            [
                "scaleDown.policies Percent 100/15s -> Pods 1/60s is beyond --bound policies=same",
                "scaleDown.select Max -> Min is beyond --bound select=same",
            ],
        ),
    ],
)
def test_what_is_too_far_is_told(bounds: list[str], wanted: HPASpec, broken: list[str]) -> None:
    assert parse_bounds(bounds).broken(spec(), wanted) == broken


def test_all_mistakes_come_in_one_message() -> None:
    with pytest.raises(UsageError) as raised:
        parse_bounds(["targets=3,max=x0.5", "policies=2", "min=few", "min=1", "nothing"])
    message = str(raised.value)
    for part in (
        "--bound targets=3: no such field; did you mean target?",
        "--bound max=x0.5: a factor is 1 or more",
        "--bound policies=2: expected same or any",
        "--bound min=few: expected a number, xFACTOR, same or any",
        "--bound min=1: min is bounded twice",
        "--bound nothing: no such field",
    ):
        assert part in message


SETTING = {"target": "70", "scaleDown.window": "600", "policies": "calm"}
CALM = PolicySet(
    "calm", scale_down=ScalingRules(select_policy="Min", policies=(ScalingPolicy("Pods", 1, 90),))
)


def sweep(**parameters: object) -> SweepResult:
    maker = SweepMaker([SETTING]).add("api", {0: weeks([100] * 6), 1: weeks([80] * 6)})
    result = maker.result()
    return replace(result, parameters=result.parameters | parameters)


def test_the_rules_of_a_sweep_of_several_versions_that_do_the_same() -> None:
    result = replace(
        sweep(), evidence={"k8s": "1.30, 1.31", "feature_gates": "HPAScaleToZero=true"}
    )
    assert profile_of(result) == profile_for("1.31", "HPAScaleToZero=true")
    assert profile_of(replace(result, evidence={"k8s": "1.20"})) is profile_for("1.20")


def test_a_patch_is_what_the_setting_says() -> None:
    told = json.loads(json.dumps(sets_to_json({"calm": CALM})))
    result = sweep(policy_sets=told)
    options = RecommendOptions(parse_goal([], "pod_hours"))
    (item,) = recommend(result, options, settings_of(result)).items
    assert item.answer == "change"
    assert item.patch["behavior"] == {
        "scaleDown": {
            "stabilizationWindowSeconds": 600,
            "selectPolicy": "Min",
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 90}],
        }
    }


def test_relative_values_are_of_the_flags_that_were_simulated() -> None:
    maker = SweepMaker([{"scaleDown.window": "x0.5", "tolerance": "+0.05"}])
    result = maker.add("api", {0: weeks([100] * 6), 1: weeks([80] * 6)}).result()
    result.evidence.update(downscale_stabilization="600000 ms", tolerance="0.2", k8s="1.37")
    options = RecommendOptions(parse_goal([], "pod_hours"), bounds=parse_bounds(["tolerance=0.06"]))
    (item,) = recommend(result, options, settings_of(result)).items
    assert item.patch["behavior"] == {
        "scaleUp": {"tolerance": "250m"},
        "scaleDown": {"stabilizationWindowSeconds": 300, "tolerance": "250m"},
    }
    near = RecommendOptions(parse_goal([], "pod_hours"), bounds=parse_bounds(["tolerance=0.04"]))
    (item,) = recommend(result, near, settings_of(result)).items
    assert (item.answer, item.setting_id) == ("keep", 0)
    result.evidence["downscale_stabilization"] = "600000 ms, 300000 ms"
    (item,) = recommend(result, options, settings_of(result)).items
    assert item.answer == "keep"
    assert "differ between the clusters of this sweep" in item.notes[0]


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


def test_all_mistakes_of_a_goal_come_in_one_message() -> None:
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
        "--minimize cost: no HPA has a cost",
    ):
        assert part in message


def test_what_settings_cannot_change_is_no_objective() -> None:
    assert "perfect_pod_hours" in MEASURES
    with pytest.raises(ObjectiveError, match="the same under every setting"):
        parse_goal([], "perfect_pod_hours")


def test_a_measure_has_one_limit() -> None:
    with pytest.raises(ObjectiveError, match="rescales has two limits"):
        parse_goal(["rescales<5/day", "rescales<9/week"])
