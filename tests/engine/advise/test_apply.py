"""A sweep's settings in specs: by its own rules and policy sets."""

from __future__ import annotations

import json
from dataclasses import replace

from hpabatch.engine.advise.bounds import parse_bounds
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.run import recommend
from hpabatch.engine.advise.specs import profile_of, sets_of, sets_to_json, settings_of
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.model.objects.hpa import ScalingPolicy, ScalingRules
from hpabatch.model.settings.policy_sets import SHIPPED, PolicySet
from hpabatch.model.versions import profile_for
from tests.sweeps import SweepMaker, weeks

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


def test_policy_sets_are_those_of_the_sweep() -> None:
    assert sets_of(sweep()) == SHIPPED
    assert sets_of(sweep(policy_sets=sets_to_json({"calm": CALM}))) == {**SHIPPED, "calm": CALM}
    shipped = {name: replace(one, meaning="") for name, one in SHIPPED.items()}
    assert sets_of(sweep(policy_sets=sets_to_json(SHIPPED))) == shipped
