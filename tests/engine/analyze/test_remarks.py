"""Tests of remarks: each where it belongs, and not elsewhere."""

from __future__ import annotations

from typing import Any

from hpabatch.engine.analyze.loop import Ramp
from hpabatch.engine.analyze.remarks import ramp_text, remarks
from hpabatch.engine.analyze.run import Assumed, analyze_hpa
from hpabatch.model.versions import ControllerFlags
from tests.rules.helpers import (
    Json,
    external,
    hpa_spec,
    object_metric,
    pods_metric,
    policies,
    resource,
)


def told(
    *metrics: Json, tolerance: float = 0.1, assumed: Assumed | None = None, **spec: Any
) -> dict[str, str]:
    """Return the remarks' texts by code."""
    flags = ControllerFlags(tolerance=tolerance)
    analysis = analyze_hpa(hpa_spec(*metrics, **{"high": 10} | spec), flags, assumed=assumed)
    return {remark.code: remark.text for remark in remarks(analysis)}


def test_an_ordinary_hpa_has_none() -> None:
    assert told(resource(70)) == {}
    assert told(resource(70), pods_metric("100"), behavior={}, low=3, high=30) == {}


def test_directions() -> None:
    off = {"selectPolicy": "Disabled"}
    assert told(resource(70), behavior={"scaleUp": off, "scaleDown": off}) == {
        "scale_up_disabled": "scaling up is disabled: only minReplicas can make it grow",
        "scale_down_disabled": "scaling down is disabled: only maxReplicas can shrink it",
    }


def test_steps_of_several_pods_are_no_remark() -> None:
    assert told(external(average="10"), low=100, high=400) == {}
    by_one = {"scaleUp": policies(("Pods", 1, 15))}
    assert list(told(external(average="10"), low=100, high=400, behavior=by_one)) == ["slow_up"]
    assert told(external(average="10"), low=9, high=400) == {}


def test_stuck_at_zero() -> None:
    percent = {"scaleUp": policies(("Percent", 100, 15))}
    found = told(external(average="5"), low=0, behavior=percent)
    assert list(found) == ["stuck_at_zero"]
    assert "stuck_at_zero" not in told(external(average="5"), low=0, behavior={})


def test_a_metric_that_can_never_be_computed() -> None:
    bad: Json = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    broken = external(average="5", selector=bad)
    one = told(resource(70), broken)["metric_error"]
    assert one.endswith(
        "can never be computed, so it never shrinks: the metric's selector is not usable"
    )
    assert "so it never acts within its bounds" in told(broken)["metric_error"]
    assert told(broken).keys() == {"metric_error"}


def test_a_target_that_needs_more_than_the_request() -> None:
    # 104 / 95 is 1.095, 105 / 95 is 1.105
    assert told(resource(95))["beyond_request"].startswith(
        "resource/cpu makes it grow from 105% of the request on: pods that cannot use more"
    )
    assert "beyond_request" not in told(resource(90))  # 99 / 90 is 1.1
    assert "beyond_request" not in told(resource(95), behavior={"scaleUp": {"tolerance": "0"}})


def test_a_tolerance_without_end() -> None:
    behavior = {"scaleUp": {"tolerance": "1e18"}}
    assert told(resource(50), behavior=behavior) == {
        "never_grows": "resource/cpu never makes it grow: the tolerance covers any usage"
    }


def test_what_pods_use_without_any_work() -> None:
    assert told(resource(50), assumed=Assumed(base_pct={"cpu": 40})) == {
        "never_idle": "resource/cpu: without any work it can stay at 4 replicas for ever"
    }
    assert told(resource(50), assumed=Assumed(base_pct={"*": 60}))["base_too_high"].endswith(
        "what pods use without any work already asks for maxReplicas"
    )
    of_memory = Assumed(base_pct={"memory": 60})
    assert not told(resource(50), assumed=of_memory)
    down = {"scaleDown": {"tolerance": "1"}}
    assert "stay at 10 replicas" in told(resource(50), behavior=down)["never_idle"]


def test_cycles() -> None:
    text = told(resource(70), tolerance=0.0)["cycle"]
    assert text == (
        "resource/cpu never rests at a constant total of 0.71 to 0.72 requests: 1, 2, again (and "
        "in 3 more ranges); with its windows and policies every 5m30s"
    )
    # 22 asks for 24 and 24 for 22; one pod at a time it comes to 23, and rests there
    held = told(
        resource(12), tolerance=0.0, low=21, high=24, assumed=Assumed({"cpu": 100}),
        behavior={"scaleUp": policies(("Pods", 1, 15))},
    )["cycle"]  # fmt: skip
    assert held.endswith(
        "2.86 to 2.88 requests: 22, 24, again; its windows and policies hold it at 23"
    )


def test_slow_ramps() -> None:
    slow = policies(("Pods", 1, 600))
    found = told(resource(70), behavior={"scaleUp": slow, "scaleDown": slow})
    assert found == {
        "slow_up": "scaling up from 1 to 10 replicas takes at least 1h20m",
        "slow_down": "scaling down from 10 to 1 replicas takes at least 4m45s + 1h20m",
    }
    never = told(resource(70), high=200, behavior={"scaleUp": slow})
    assert never == {"slow_up": "scaling up from 1 to 200 replicas takes at least over 1d"}


def test_assumptions_and_limits() -> None:
    assert told(object_metric(value="5"))["plain_value"].startswith("object/Ingress/web/hits: a pl")
    assert told(resource(70, name="memory"))["memory_kind"].startswith("resource/memory: do pods")
    assert told(resource(30), assumed=Assumed({"cpu": 1}), high=9)["no_dead_band"].endswith(
        "no usage at all keeps it at 2, 3, 4, 5, 6 … (7 sizes) replicas"
    )
    assert told(resource(70), high=5000)["not_all_sizes"].startswith("resource/cpu: of these many")
    huge = told(resource(70, name="memory"), low=50_000, high=100_000)["not_all_sizes"]
    assert "beyond 61356 the calculator's integers overflow" in huge
    assert "only 0 were looked at" in told(
        resource(70, name="memory"), low=70_000, high=90_000
    )["not_all_sizes"]  # fmt: skip


def test_ramp_texts() -> None:
    assert ramp_text(None) == "-"
    assert ramp_text(Ramp(1, 2, (), "stuck")) == "never"
    assert ramp_text(Ramp(1, 9, ((0, 2),), "unfinished")) == "over 1d"
    assert ramp_text(Ramp(1, 2, ((0, 2),), "reached")) == "0s"
    assert ramp_text(Ramp(9, 1, ((285_000, 5), (345_000, 1)), "reached")) == "4m45s + 1m"
