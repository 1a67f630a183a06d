"""Explanations as text and JSON: every kind of line, word for word, and the same in both."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hpabatch.engine.explain.facts import Explanation
from hpabatch.layout import codes
from hpabatch.model.versions import ControllerFlags
from hpabatch.report.base import View
from hpabatch.report.explain.document import ExplainReport
from hpabatch.report.explain.steps import explanation_steps
from hpabatch.report.forms import json_text, table_text
from tests.engine.explained import explained
from tests.rules.helpers import (
    EXACT_WISH,
    FETCH_FAILED,
    NO_TOLERANCE,
    SCALED_TO_ZERO,
    START_MS,
    Json,
    Pod,
    external,
    hpa_spec,
    object_metric,
    pods_metric,
    policies,
    resource,
    resources_of,
    some,
    status_with,
    tick,
    total,
    usages,
    wish,
)

# The helpers' start is no full second of any day: times here are 22:13:20 and so on.
assert START_MS % 86_400_000 == (22 * 3600 + 13 * 60 + 20) * 1000


def last(*args: Any, **options: Any) -> Explanation:
    spec, *ticks = args
    options = {"recommendations": [(1, -7200)]} | options
    return explained(spec, ticks, **options)[-1]


def of_pods(metric: Json, pods: list[Pod], current: int, **options: Any) -> Explanation:
    return last(hpa_spec(metric), tick(0, current, pods), **options)


def lines(explanation: Explanation, *steps: str) -> list[str]:
    """Return the texts of some steps."""
    return [s.text for s in explanation_steps(explanation) if s.step in steps]


def functions(explanation: Explanation) -> dict[str, str]:
    """Return the upstream function of each step, that of its last line."""
    return {s.step: s.upstream for s in explanation_steps(explanation)}


# ---- metrics -------------------------------------------------------------------------------------


def test_a_metric_in_all_its_steps() -> None:
    found = of_pods(resource(60), some(8, 200) + some(2, None), 10)
    steps = [(s.step, s.text) for s in explanation_steps(found) if s.metric == 1]
    assert steps == [
        ("metric", "cpu resource utilization (percentage of request), target 60%"),
        ("pods", "10 pods: 8 ready, 2 missing"),
        (
            "pods",
            "ready: p0 200m of 1, p1 200m of 1, p2 200m of 1, p3 200m of 1, p4 200m of 1, "
            "p5 200m of 1 + 2 more",
        ),
        ("pods", "missing, no visible sample: p8, p9"),
        ("ratio", "1600m used of 8 cores requested is 20%; 20 / 60 = 0.333333"),
        (
            "missing",
            "0.333333 is below 1, so 2 missing pods are taken to use 2 together, all that they "
            "request",
        ),
        ("second ratio", "3600m used of 10 cores requested is 36%; 36 / 60 = 0.6"),
        ("tolerance", "ratio 0.6 is below 0.9: outside the tolerance"),
        ("proposal", "ceil(0.6 x 10 pods) = 6"),
    ]
    assert functions(found) | {
        "metric": "replica_calculator.go GetResourceReplicas",
        "pods": "replica_calculator.go groupPods",
        "ratio": "metrics/utilization.go GetResourceUtilizationRatio",
        "tolerance": "replica_calculator.go Tolerances.isWithin",
        "proposal": "replica_calculator.go GetResourceReplicas",
        "metrics": "horizontal.go computeReplicasForMetrics",
        "limited": "horizontal.go convertDesiredReplicasWithRules",
    } == functions(found)


@pytest.mark.parametrize(
    ("metric", "pods", "current", "expected"),
    [
        # averages: the target each
        (pods_metric("60m"), some(8, 20) + some(2, None), 10, [
            "0.333333 is below 1, so 2 missing pods are taken to use 120m together, the target "
            "each",
        ]),
        (pods_metric("60m"), some(8, 20) + some(1, None), 9, [
            "0.333333 is below 1, so 1 missing pod is taken to use 60m, the target",
        ]),
        # a target above 100 %
        (resource(150), some(3, 500) + some(1, None), 4, [
            "0.333333 is below 1, so 1 missing pod is taken to use 1500m, 150% of the 1 that it "
            "requests",
        ]),
        (resource(60), some(4, 850) + some(2, None), 6, [
            "1.41667 is above 1, so 2 missing pods are taken to use 0",
        ]),
        (resource(60), some(3, 600) + some(2, None), 5, [
            "1 is neither above nor below 1, so missing pods add nothing",
        ]),
    ],
)  # fmt: skip
def test_what_missing_pods_are_taken_for(
    metric: Json, pods: list[Pod], current: int, expected: list[str]
) -> None:
    assert lines(of_pods(metric, pods, current), "missing") == expected


def test_what_unready_pods_are_taken_for() -> None:
    unready = some(2, 999, ready="False", transition_s=-86_400)
    up = of_pods(resource(60), some(3, 1200) + unready[:1], 4)
    assert lines(up, "unready") == ["2 is above 1, so 1 unready pod is taken to use 0"]
    down = of_pods(resource(60), some(5, 300) + unready, 7)
    assert lines(down, "unready") == ["0.5 is not above 1, so 2 unready pods do not count"]


def test_averages_say_what_they_divide() -> None:
    found = of_pods(resource(average="450m", name="cpu"), some(2, 373) + some(1, 372), 3)
    assert lines(found, "ratio") == [
        "1118m / 3 pods = 372m (truncated); 372m / 450m = 0.826667",
    ]
    found = of_pods(resource(average="400Mi", name="memory"), some(2, 2**28 * 1000), 2)
    assert lines(found, "metric", "ratio") == [
        "memory resource, target 400Mi (averageValue)",
        "512Mi / 2 pods = 256Mi; 256Mi / 400Mi = 0.64",
    ]
    functions_found = functions(found)
    assert functions_found["metric"].endswith(" GetRawResourceReplicas")
    assert functions_found["proposal"].endswith(" calcPlainMetricReplicas")
    assert functions_found["ratio"] == "metrics/utilization.go GetMetricUsageRatio"


@pytest.mark.parametrize(
    ("usage", "request_milli", "percent"),
    [
        (199, 300, "66.3333%, truncated to 66%"),
        (300, 300, "100%"),
        (299_999_999, 300_000_000, "99.99999966666667%, truncated to 99%"),
        (2**62, 2**62, "0% (the product overflows)"),
    ],
)
def test_percentages_say_how_they_were_truncated(
    usage: int, request_milli: int, percent: str
) -> None:
    found = of_pods(resource(60), [Pod(usage, request=request_milli)], 1)
    assert f" is {percent};" in lines(found, "ratio")[0]


def test_tolerances_of_every_version() -> None:
    pods = some(3, 660)
    assert lines(of_pods(resource(60), pods, 3), "tolerance") == [
        "ratio 1.1 is between 0.9 and 1.1: within the tolerance, so it proposes to stay at 3"
    ]
    assert lines(of_pods(resource(60), pods, 3, k8s="1.32"), "tolerance") == [
        "ratio 1.1 is 0.10000000000000009 from 1, more than 0.1: outside the tolerance"
    ]
    # The bound of a tolerance of 0.7 is a little above the 0.3 that is written.
    found = of_pods(resource(10), some(3, 30), 3, flags=ControllerFlags(tolerance=0.7))
    assert lines(found, "tolerance") == [
        "ratio 0.3 is below 0.30000000000000004: outside the tolerance"
    ]


def test_guards_say_what_they_guard_against() -> None:
    turned = of_pods(resource(50), some(3, 300) + some(2, None), 5)
    assert lines(turned, "guard") == [
        "the ratio turned from 0.6 to 1.16, so it proposes to stay at 5"
    ]
    grown = of_pods(resource(60), some(8, 300) + some(4, None), 6, flags=NO_TOLERANCE)
    assert lines(grown, "second ratio", "guard") == [
        "6400m used of 12 cores requested is 53.3333%, truncated to 53%; 53 / 60 = 0.883333",
        "ceil(0.883333 x 12 pods) = 11, but a ratio below 1 may not lead from 6 to it, so it "
        "proposes to stay at 6",
    ]


def test_pods_say_why_they_are_in_their_group() -> None:
    pods = [
        Pod(1, phase="Failed"),
        Pod(1, deleting=True),
        Pod(1, phase="Pending", ready=None),
        Pod(1, ready=None),
        Pod(1, start_s=None),
        Pod(1, ready="False", start_s=-40, transition_s=-35),
        Pod(1, start_s=-90, transition_s=-20, sample_s=-5),
        Pod(1, ready="False", start_s=-900, transition_s=-880),
        Pod(600),
    ]
    assert lines(of_pods(resource(60), pods, 9), "pods") == [
        "9 pods: 1 ready, 6 unready, 2 ignored",
        "ready: p8 600m of 1",
        "unready, not Ready yet (Pending in the history): p2",
        "unready, no Ready condition: p3",
        "unready, no start time: p4",
        "unready, inside the cpu initialization period and not Ready: p5 (started 40s ago)",
        "unready, inside the cpu initialization period, sample from before it was Ready: p6 "
        "(sample of 22:13:15Z over 30s, True since 22:13:00Z)",
        "unready, not Ready since its first moments, so it never was: p7 (not Ready 20s after its "
        "start)",
        "ignored, phase Failed: p0",
        "ignored, being deleted: p1",
    ]


def test_samples_of_unknown_pods() -> None:
    pods = some(3, 50)
    found = last(hpa_spec(pods_metric("60m")), tick(0, 3, pods, [usages(pods, [70])]))
    assert lines(found, "pods")[2] == (
        "stray, samples of pods that the controller does not know: stray0 70m"
    )
    assert lines(found, "ratio") == ["220m / 4 pods = 55m; 55m / 60m = 0.916667"]


def test_plain_values() -> None:
    pods = [*some(2, 1), Pod(ready="False"), Pod(phase="Pending", ready=None)]
    spec = hpa_spec(external(value="100"))
    found = last(spec, tick(0, 3, pods, [total(500_000, -20)]))
    steps = [(s.step, s.text) for s in explanation_steps(found) if s.metric == 1]
    assert steps == [
        ("metric", "external metric queue(nil), target 100 (value)"),
        ("value", "2 series: 500, -20m; together 499980m"),
        ("ratio", "499980m / 100 = 4.9998"),
        ("tolerance", "ratio 4.9998 is above 1.1: outside the tolerance"),
        ("pods", "4 pods: 2 ready, 2 unready"),
        ("pods", "ready: p0, p1"),
        (
            "pods",
            "unready, not Running and Ready: p2 (Running, Ready False), p3 (Pending, Ready not "
            "set)",
        ),
        ("proposal", "ceil(4.9998 x 2 pods) = 10"),
    ]
    assert functions(found)["pods"] == "replica_calculator.go getReadyPodsCount"
    assert functions(found)["proposal"] == "replica_calculator.go getUsageRatioReplicaCount"
    near = last(hpa_spec(object_metric(value="1")), tick(0, 3, [], [total(1050)]))
    assert lines(near, "value", "tolerance") == [
        "the sample is 1050m",
        "ratio 1.05 is between 0.9 and 1.1: within the tolerance, so it proposes to stay at 3",
    ]


def test_values_from_zero() -> None:
    spec = hpa_spec(external(value="100"), low=0)
    found = last(spec, tick(0, 0, [], [total(150_000)]), status=status_with(SCALED_TO_ZERO))
    assert lines(found, "bounds", "proposal") == [
        "the target is at 0, from where this HPA may scale it (minReplicas 0, maxReplicas 1000): "
        "metrics decide",
        "ceil(1.5) = 2: from 0 replicas neither tolerance nor pods count",
    ]


def test_averages_of_totals() -> None:
    spec = hpa_spec(object_metric(average="30"))
    found = last(spec, tick(0, 2, [], [total(90_000)]))
    assert lines(found, "ratio", "tolerance", "proposal") == [
        "90 / (30 x 2 replicas of the status) = 1.5",
        "ratio 1.5 is above 1.1: outside the tolerance",
        "ceil(90 / 30) = 3",
    ]
    stays = last(spec, tick(0, 3, [], [total(62_000)], status=2))
    assert lines(stays, "tolerance") == [
        "ratio 1.03333 is between 0.9 and 1.1: within the tolerance, so it proposes the status' 2 "
        "replicas"
    ]
    nothing = last(spec, tick(0, 1, [], [total(0)], status=0))
    assert lines(nothing, "tolerance", "proposal") == [
        "ratio NaN is no number: outside the tolerance",
        "ceil(0 / 30) = 0",
    ]
    old = last(spec, tick(0, 1, [], [total(0)], status=0), k8s="1.32")
    assert lines(old, "tolerance") == [
        "ratio NaN is no number: not outside the tolerance either, so it proposes the status' 0 "
        "replicas"
    ]
    endless = last(spec, tick(0, 1, [], [total(5)], status=0))
    assert lines(endless, "tolerance") == ["ratio +Inf is above 1.1: outside the tolerance"]


def test_capped_sums_and_many_series() -> None:
    spec = hpa_spec(external(average="1"))
    found = last(spec, tick(0, 1, [], [total(-5000, 10_000)]))
    assert lines(found, "value") == [
        "2 series: -5, 10; together 9223372036854775807m, as upstream adds them up"
    ]
    found = last(spec, tick(0, 1, [], [total(*[1000] * 10)]))
    assert lines(found, "value") == ["10 series: 1, 1, 1, 1, 1, 1, 1, 1 + 2 more; together 10"]


def test_failures_are_in_upstreams_words() -> None:
    pods = [Pod(1, resources=resources_of(None))]
    found = of_pods(resource(60), pods, 1)
    steps = [(s.step, s.text, s.upstream) for s in explanation_steps(found) if s.step == "failed"]
    assert steps == [
        (
            "failed",
            "failed to get cpu utilization: missing request for cpu in container app of Pod p0",
            "horizontal.go computeStatusForResourceMetric",
        )
    ]
    assert lines(found, "metrics", "error") == [
        "the metric failed: nothing is done in this sync",
        "failed to compute desired number of replicas based on listed metrics for "
        "Deployment/shop/web: invalid metrics (1 invalid out of 1), first error is: failed to get "
        "cpu resource metric value: failed to get cpu utilization: missing request for cpu in "
        "container app of Pod p0",
    ]
    spec = hpa_spec(resource(60))
    spec = replace(spec, metrics=(replace(spec.metrics[0], type="X"),))
    unknown = last(spec, tick(0, 2, some(2, 1)))
    assert lines(unknown, "metric", "failed") == ["X", 'unknown metric source type "X"']
    assert functions(unknown)["failed"] == "horizontal.go computeReplicasForMetric"


# ---- metrics together, windows, policies, bounds ------------------------------------------------


@pytest.mark.parametrize(
    ("wished", "text"),
    [
        (
            4,
            "1 of 2 failed, and the largest of the others, 4, is below 5: nothing is done in this "
            "sync, since the failed ones may want more",
        ),
        (
            7,
            "the largest valid proposal is 7 of queue (cpu failed, queue 7); 1 failed, but that is "
            "not below 5",
        ),
    ],
)
def test_metrics_together(wished: int, text: str) -> None:
    spec = hpa_spec(resource(60), EXACT_WISH)
    answers = [FETCH_FAILED, total(1000 * wished)]
    assert lines(last(spec, tick(0, 5, [], answers), flags=NO_TOLERANCE), "metrics") == [text]


def test_all_metrics_together_may_fail() -> None:
    spec = hpa_spec(resource(60), EXACT_WISH)
    found = last(spec, tick(0, 5, [], [FETCH_FAILED, FETCH_FAILED]))
    assert lines(found, "metrics") == ["no metric gave a proposal: nothing is done in this sync"]


def test_a_negative_proposal() -> None:
    found = last(hpa_spec(object_metric(average="1")), tick(0, 5, [], [total(-3000)]))
    assert lines(found, "metrics", "reason") == [
        "-3, of the only metric; a negative proposal counts as 0",
        '0 is below 5: "All metrics below target"',
    ]


def test_the_window_without_behavior() -> None:
    spec = hpa_spec(EXACT_WISH, high=10)
    held = [(9, -301), (4, -300), (7, -240), (7, -200)]
    found = last(spec, wish(0, 5, 3), flags=NO_TOLERANCE, recommendations=held)
    assert lines(found, "window", "stabilized", "limit", "limited") == [
        "5m, from 22:08:20Z on: 3 recommendations: 4 (22:08:20Z), 7 (22:09:20Z to 22:10:00Z); with "
        "3 now the largest is 7, of 22:10:00Z",
        "7 instead of 3 (ScaleDownStabilized)",
        "no behavior: at most max(2 x 5, 4) = 10",
        "7, at least minReplicas 1 and at most min(10, maxReplicas 10) = 10, is 7 "
        "(DesiredWithinRange)",
    ]
    assert lines(found, "rescale", "event") == [
        "5 -> 7",
        "Normal SuccessfulRescale: New size: 7; reason: All metrics below target",
    ]


def test_the_windows_of_a_behavior() -> None:
    spec = hpa_spec(EXACT_WISH, behavior={"scaleUp": {"stabilizationWindowSeconds": 60}})
    many = [(k, -290 + 10 * k) for k in range(8)] + [(6, -59)]
    found = last(spec, wish(0, 5, 9), flags=NO_TOLERANCE, recommendations=many)
    assert lines(found, "up window", "down window", "stabilized") == [
        "1m, after 22:12:20Z: 1 recommendation: 6 (22:12:21Z); with 9 now the smallest is 6, of "
        "22:12:21Z",
        "5m, after 22:08:20Z: 9 recommendations: 3 earlier runs, 3 (22:09:00Z), 4 (22:09:10Z), 5 "
        "(22:09:20Z), 6 (22:09:30Z), 7 (22:09:40Z), 6 (22:12:21Z); with 9 now the largest is 9",
        "5 pulled into 6 to 9 is 6 instead of 9 (ScaleUpStabilized)",
    ]
    old = last(spec, wish(0, 5, 9), flags=NO_TOLERANCE, recommendations=many, k8s="1.20")
    assert lines(old, "stabilized") == [
        "9 is not below 5, so the smallest counts: 6 instead of 9 (ScaleUpStabilized)"
    ]
    old = last(spec, wish(0, 5, 2), flags=NO_TOLERANCE, recommendations=many, k8s="1.20")
    assert lines(old, "stabilized") == [
        "2 is below 5, so the largest counts: 7 instead of 2 (ScaleDownStabilized)"
    ]


def test_policies_with_their_budgets() -> None:
    rules = policies(("Pods", 4, 60), ("Percent", 10, 3600))
    spec = hpa_spec(EXACT_WISH, high=9, behavior={"scaleUp": rules})
    found = last(spec, wish(0, 2, 20), wish(40, 6, 20), flags=NO_TOLERANCE)
    assert lines(found, "policy", "policies", "limited", "rescale") == [
        "Pods 4 in 1m: +4 at 22:13:20Z, so it began at 6 - 4 + 0 = 2; 2 + 4 = 6",
        "Percent 10% in 1h: +4 at 22:13:20Z, so it began at 6 - 4 + 0 = 2; "
        "ceil(2 x (1 + 10/100)) = 3",
        "scaleUp.selectPolicy Max, the largest change: 6",
        "20, at most min(6, maxReplicas 9) = 6, is 6 (ScaleUpLimit)",
        "none: 6 is the current size",
    ]
    assert functions(found)["policy"] == "horizontal.go getReplicasChangePerPeriod"
    least = hpa_spec(EXACT_WISH, behavior={"scaleUp": rules | {"selectPolicy": "Min"}})
    assert lines(last(least, wish(0, 10, 20), flags=NO_TOLERANCE), "policies", "limited") == [
        "scaleUp.selectPolicy Min, the smallest change: 11",
        "20, at most min(11, maxReplicas 1000) = 11, is 11 (ScaleUpLimit)",
    ]


def test_a_move_to_the_minimum_may_spend_more_than_there_is() -> None:
    rules = {"scaleUp": policies(("Pods", 4, 60))}
    spec = hpa_spec(EXACT_WISH, low=11, behavior=rules)
    found = last(spec, wish(0, 1, 20), wish(15, 11, 20), flags=NO_TOLERANCE)
    assert lines(found, "policy", "policies", "limited") == [
        "Pods 4 in 1m: +10 at 22:13:20Z, so it began at 11 - 10 + 0 = 1; 1 + 4 = 5",
        "scaleUp.selectPolicy Max, the largest change: 5, and never below the current 11",
        "20, at most min(11, maxReplicas 1000) = 11, is 11 (ScaleUpLimit)",
    ]


def test_policies_down() -> None:
    down = policies(("Percent", 90, 15), stabilizationWindowSeconds=0)
    spec = hpa_spec(EXACT_WISH, behavior={"scaleDown": down})
    found = last(spec, wish(0, 10, 0), flags=NO_TOLERANCE)
    assert lines(found, "down window", "policy", "policies", "limited", "rescale", "budget") == [
        "0s: nothing from before counts; with 0 now the largest is 0",
        "Percent 90% in 15s: no change counts, so it begins at 10; trunc(10 x (1 - 90/100)) = 0",
        "scaleDown.selectPolicy Max, the largest change: 0",
        "0, at least max(0, minReplicas 1) = 1, is 1 (TooFewReplicas)",
        "10 -> 1",
        "-9 spends the policies' budgets from now on",
    ]
    spec = hpa_spec(EXACT_WISH, behavior={"scaleDown": down | {"selectPolicy": "Disabled"}})
    found = last(spec, wish(0, 10, 0), flags=NO_TOLERANCE)
    assert lines(found, "policy", "policies", "limited") == [
        "scaleDown.selectPolicy Disabled: it stays at 10",
        "0, at least max(10, minReplicas 1) = 10, is 10 (ScaleDownLimit)",
    ]
    found = last(spec, wish(0, 3, 3), flags=NO_TOLERANCE)
    assert lines(found, "reason", "limited") == [
        "3 is the current size: no reason to tell",
        "3 is the current size, so no policy is asked: 3 (DesiredWithinRange)",
    ]


# ---- other paths ---------------------------------------------------------------------------------


def test_moves_into_the_bounds() -> None:
    above = of_pods(resource(60), some(3, 1), 1001)
    assert lines(above, "bounds", "rescale") == [
        "1001 is above maxReplicas 1000: to that at once, whatever metrics, windows and policies "
        "say",
        "1001 -> 1000",
    ]
    below = last(hpa_spec(resource(60), low=3), tick(0, 2, some(2, 1)))
    assert lines(below, "bounds")[0].startswith("2 is below minReplicas 3: to that at once")


def test_a_target_at_zero() -> None:
    bounds = "(minReplicas 1, maxReplicas 1000)"
    for k8s, why in [
        ("1.35", "minReplicas is not 0"),
        ("1.36", "the feature gate HPAScaleToZero is off"),
        ("1.38", "this HPA did not put it there"),
    ]:
        found = of_pods(resource(60), [], 0, k8s=k8s)
        assert lines(found, "bounds") == [f"the target is at 0 and stays there: {why} {bounds}"]
    found = last(
        hpa_spec(resource(60), low=0), tick(0, 0), status=status_with(SCALED_TO_ZERO), gate=True
    )
    assert "no Object or External metric could tell" in lines(found, "bounds")[0]
    raised = hpa_spec(external(value="100"), low=2, behavior={"scaleUp": policies(("Pods", 1, 60))})
    found = last(raised, tick(0, 0, [], [total(0)]), status=status_with(SCALED_TO_ZERO))
    assert lines(found, "reason", "minimum", "rescale")[:3] == [
        '0 is the current size: "Current number of replicas below Spec.MinReplicas"',
        "from 0 it goes to minReplicas 2 at least",
        "0 -> 2",
    ]


def test_scales_selectors_and_controllers() -> None:
    spec = hpa_spec(resource(60))
    read = last(spec, tick(0, 3, scale=codes.SCALE_GET_FAILED, scale_error="gone"))
    assert lines(read, "target") == ["Deployment/web: its scale could not be read: gone"]
    unknown = last(spec, tick(0, 3, scale=codes.SCALE_UNKNOWN))
    assert lines(unknown, "target", "status") == ["Deployment/web: its replicas were not recorded"]
    later = replace(unknown, scale=replace(unknown.scale, next_ms=START_MS + 5000))
    assert lines(later, "target") == [
        "Deployment/web: its replicas were not recorded before 22:13:25Z"
    ]
    write = last(
        spec, tick(0, 3, some(3, 900), scale=codes.SCALE_UPDATE_FAILED, scale_error="conflict")
    )
    assert lines(write, "rescale") == ["3 -> 5 could not be written: conflict"]
    missing = last(spec, tick(0, 3, selector=codes.SELECTOR_MISSING))
    assert lines(missing, "selector") == ["selector is required: no metric is asked"]
    fresh = explained(spec, [tick(0, 3, some(3, 600), restart=True)])[0]
    assert lines(fresh, "controller") == [
        "a fresh controller began: it knows no recommendation and no size change",
        "it has not seen this HPA before: 3 is its first recommendation",
    ]
    at = replace(fresh, start=replace(fresh.start, restarted_ms=START_MS - 2000))
    assert lines(at, "controller")[0].startswith("a fresh controller began at 22:13:18Z:")


def test_the_recorded_scale() -> None:
    found = of_pods(resource(60), some(1, 600), 1)
    scale = replace(
        found.scale,
        selector="app=web",
        since_ms=START_MS - 86_400_000,
        next_ms=START_MS + 90_000,
        next_replicas=4,
    )
    assert lines(replace(found, scale=scale), "target", "recorded") == [
        "Deployment/web: 1 replica in its spec, 1 in its status since 2023-11-13T22:13:20Z, "
        "selector 'app=web'",
        "the target's next change of size: 1 -> 4 at 22:14:50Z, 1m30s after this sync",
    ]


def test_what_a_sync_leaves_behind() -> None:
    one, two = explained(hpa_spec(EXACT_WISH), [wish(0, 2, 4), wish(15, 4, 4)], flags=NO_TOLERANCE)
    assert lines(one, "status") == [
        "desiredReplicas 4; the status as a whole differs from the last one, so it is written"
    ]
    conditions = lines(two, "condition")
    assert conditions[0] == (
        "AbleToScale True ReadyForNewScale: recommended size matches current size"
    )
    kept = [text for text in conditions if text.endswith(" (from an earlier sync)")]
    assert [text.split(":")[0] for text in kept] == ["ScaledToZero False NotScaledToZero"]


# ---- table and JSON ------------------------------------------------------------------------------


def everything() -> list[Explanation]:
    """Return explanations that have every kind of step."""
    rules = {"scaleUp": policies(("Pods", 4, 60))}
    spec = hpa_spec(resource(60), EXACT_WISH, pods_metric("60m"), behavior=rules)
    pods = some(4, 850) + some(2, None) + some(1, 1, ready="False", transition_s=-86_400)
    answers = [usages(pods), total(9000), FETCH_FAILED]
    found = [last(spec, tick(0, 7, pods, answers)), last(hpa_spec(resource(60)), tick(0, 0))]
    found.append(last(hpa_spec(object_metric(average="1")), tick(0, 1, [], [total(5)], status=0)))
    found.append(of_pods(resource(60), [Pod(1)] * 20, 2000))
    return found


@pytest.mark.parametrize("explanation", everything())
def test_the_json_says_what_the_table_says(explanation: Explanation) -> None:
    document = json.loads(json_text(ExplainReport(explanation)))
    table = table_text(ExplainReport(explanation))
    for step in document["steps"]:
        assert step["text"] in table
        assert step["upstream"] is None or step["upstream"].split(" ", 1)[1] in table
    body = table.split("\n\n")[2].splitlines()
    assert len(body) == len(document["steps"])
    for line, step in zip(body, document["steps"], strict=True):
        assert step["text"] in line


def test_the_json_has_every_number_and_pod() -> None:
    document = json.loads(json_text(ExplainReport(everything()[0])))
    metric = document["metrics"][0]
    assert len(metric["pods"]) == 7
    assert metric["counts"] == {"ready": 4, "unready": 1, "missing": 2, "ignored": 0, "stray": 0}
    assert metric["first"]["ratio"] == 85 / 60
    assert metric["pods"][0]["started"] == "2023-11-13T22:13:20Z"
    assert metric["pods"][0]["window_ms"] == 30_000
    assert document["sync"] == "2023-11-14T22:13:20Z"
    assert document["windows"]["down_window_ms"] == 300_000
    assert document["windows"]["down_since"] == "2023-11-14T22:08:20.001Z"
    assert document["outcome"]["conditions"][0]["is_set"] is True
    assert [m["failure"] is None for m in document["metrics"]] == [True, True, False]


def test_numbers_that_are_none_are_texts_in_json() -> None:
    document = json.loads(json_text(ExplainReport(everything()[2])))
    assert document["metrics"][0]["first"]["ratio"] == "+Inf"


def test_a_terminal_gets_lines_of_its_width() -> None:
    explanation = everything()[0]
    narrow = table_text(ExplainReport(explanation), View(80))
    assert max(map(len, narrow.splitlines())) <= 80
    assert max(map(len, table_text(ExplainReport(explanation)).splitlines())) > 120
    # What is folded goes on under its own column.
    folded = next(line for line in narrow.splitlines() if line.startswith(" " * 14))
    assert folded.strip()
    plain = "".join(narrow.split())
    for step in explanation_steps(explanation):
        assert "".join(step.text.split()) in plain


def test_styles_are_for_terminals_only() -> None:
    explanation = everything()[1]
    assert "\x1b[" in table_text(ExplainReport(explanation), View(100, styled=True))
    assert "\x1b[" not in table_text(ExplainReport(explanation), View(100))


def test_nothing_of_a_history_drives_the_terminal() -> None:
    explanation = everything()[0]
    scale = replace(explanation.scale, name="web\x1b[2J", selector="a\nb")
    table = table_text(ExplainReport(replace(explanation, scale=scale, hpa="web\x07")))
    assert "\x1b" not in table
    assert "\x07" not in table
