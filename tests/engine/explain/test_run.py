"""Explanations of single decisions: hand-computed steps, every branch, and nothing but the rules.

Unless said otherwise the tolerance is 0.1 and a pod requests 1000m of cpu.
"""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import pytest

from hpabatch.engine.explain import facts
from hpabatch.engine.explain.run import explain_sync
from hpabatch.engine.explain.sync import WrongExplanationError
from hpabatch.layout import codes
from hpabatch.model.versions import ControllerFlags
from tests.conformance.golden import timeline_lane
from tests.engine.explained import explained, syncs
from tests.reference.generate import behavior_timeline, timeline
from tests.rules.helpers import (
    EXACT_WISH,
    FETCH_FAILED,
    NO_TOLERANCE,
    SCALED_TO_ZERO,
    Json,
    Pod,
    at,
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

LONG_AGO = [(1, -7200)]


def last(*args: Any, **options: Any) -> facts.Explanation:
    """Return the explanation of the last tick; the initial recommendation is long gone."""
    spec, *ticks = args
    return explained(spec, ticks, **({"recommendations": LONG_AGO} | options))[-1]


def metric(spec_metric: Json, pods: list[Pod], current: int, **options: Any) -> facts.MetricFact:
    """Return how one metric of pods was computed."""
    return last(hpa_spec(spec_metric), tick(0, current, pods), **options).metrics[0]


def unready(count: int) -> list[Pod]:
    return some(count, 999, ready="False", transition_s=-86_400)


def missing(count: int, **fields: Any) -> list[Pod]:
    return some(count, None, **fields)


# ---- metrics of pods -----------------------------------------------------------------------------


def test_e1_missing_pods_are_charged_their_request() -> None:
    found = metric(resource(60), some(8, 200) + missing(2), 10)
    assert found.counts == facts.Counts(8, 0, 2, 0, 0)
    assert found.first == facts.Ratio(1600, 8000, 8, 20, 200, 20 / 60)
    assert found.substitution == facts.Substitution(2, 2000, 0)
    assert found.second == facts.Ratio(3600, 10_000, 10, 36, None, 0.6)
    assert found.tolerance == facts.Tolerance(0.6, 0.9, 1.1, None, None, within=False)
    assert (found.multiplier, found.wanted, found.proposal, found.step) == (10, 6, 6, "ratio")
    assert [p.pod for p in found.pods if p.group == facts.MISSING] == ["p8", "p9"]


def test_e4_a_target_above_100_charges_missing_pods_the_target() -> None:
    found = metric(resource(150), some(3, 500) + missing(2), 5)
    assert found.substitution == facts.Substitution(2, 3000, 0)
    old = metric(resource(150), some(3, 500) + missing(2), 5, k8s="1.20")
    assert old.substitution == facts.Substitution(2, 2000, 0)


def test_e8_the_test_of_the_tolerance_hangs_on_the_version() -> None:
    new = metric(resource(60), some(3, 660), 3)
    assert new.tolerance == facts.Tolerance(1.1, 0.9, 1.1, None, None, within=True)
    old = metric(resource(60), some(3, 660), 3, k8s="1.32")
    assert old.tolerance is not None
    assert old.tolerance.deviation == 0.10000000000000009
    assert (old.tolerance.within, old.proposal) == (False, 4)


@pytest.mark.parametrize(("k8s", "entries"), [("1.38", 3), ("1.20", 5)])
def test_e12_a_ratio_of_exactly_one_adds_nothing(k8s: str, entries: int) -> None:
    # For averages old versions count the missing pods, with nothing.
    found = metric(pods_metric("600m"), some(3, 600) + missing(2), 5, k8s=k8s, flags=NO_TOLERANCE)
    assert found.second is not None
    assert (found.second.pods, found.second.usage_milli) == (entries, 1800)


def test_samples_of_unknown_pods_count_in_an_average() -> None:
    pods = some(3, 50)
    explanation = last(hpa_spec(pods_metric("60m")), tick(0, 3, pods, [usages(pods, [70])]))
    found = explanation.metrics[0]
    assert found.counts == facts.Counts(3, 0, 0, 0, 1)
    assert found.first == facts.Ratio(220, None, 4, None, 55, 55 / 60)
    assert [(p.pod, p.group, p.value_milli) for p in found.pods][-1] == ("stray0", "stray", 70)


GROUPED = [
    (Pod(1), "ready", ""),
    (Pod(1, phase="Failed"), "ignored", "failed"),
    (Pod(1, phase="Succeeded"), "ignored", "succeeded"),
    (Pod(1, deleting=True), "ignored", "deleting"),
    (Pod(1, phase="Pending", ready=None), "unready", "pending"),
    (Pod(None), "missing", "no_sample"),
    (Pod(1, ready=None), "unready", "no_ready_condition"),
    (Pod(1, start_s=None), "unready", "not_started"),
    (Pod(1, ready="False", start_s=-40, transition_s=-35), "unready", "not_ready"),
    (Pod(1, start_s=-90, transition_s=-20, sample_s=-5), "unready", "sample_too_early"),
    (Pod(1, ready="False", start_s=-900, transition_s=-880), "unready", "never_ready"),
    (Pod(1, ready="False", start_s=-900, transition_s=-10), "ready", ""),
]


def test_why_each_pod_is_in_its_group() -> None:
    found = metric(resource(60), [pod for pod, _, _ in GROUPED], len(GROUPED))
    assert [(p.group, p.why) for p in found.pods] == [(g, why) for _, g, why in GROUPED]
    early = found.pods[9]
    assert (early.started_ms, early.transition_ms) == (at(-90), at(-20))
    assert (early.sample_ms, early.window_ms, early.ready) == (at(-5), 30_000, "True")
    old = metric(resource(60), [pod for pod, _, _ in GROUPED], len(GROUPED), k8s="1.37")
    assert (old.pods[2].group, old.pods[2].why) == ("ready", "")  # Succeeded was nothing special


@pytest.mark.parametrize(
    ("pods", "cause", "groups"),
    [
        ([], codes.METRIC_NO_PODS, facts.Counts(0, 0, 0, 0, 1)),
        (unready(2), codes.METRIC_NO_SAMPLES, facts.Counts(0, 2, 0, 0, 0)),
        ([Pod(1, resources=resources_of(None))], codes.METRIC_NO_REQUEST, None),
        ([Pod(1, request=0)], codes.METRIC_NO_MATCH, facts.Counts(1, 0, 0, 0, 0)),
    ],
)
def test_metrics_that_fail_say_why(
    pods: list[Pod], cause: int, groups: facts.Counts | None
) -> None:
    answer = usages(pods or [Pod(1)])
    explanation = last(hpa_spec(resource(60)), tick(0, 2, pods, [answer]))
    found = explanation.metrics[0]
    assert found.failure is not None
    assert found.failure.cause == codes.METRIC_ERRORS[cause]
    assert (found.proposal, found.first) == (None, None)
    assert groups is None or found.counts == groups
    assert explanation.combination is not None
    assert not explanation.combination.usable
    assert explanation.outcome.events[0].message == found.failure.event
    assert explanation.outcome.error is not None
    assert explanation.outcome.error.endswith(explanation.combination.error or "?")


def test_a_metric_of_unknown_type_is_refused_before_it_is_fetched() -> None:
    spec = hpa_spec(resource(60))
    spec = replace(spec, metrics=(replace(spec.metrics[0], type="X"),))
    found = last(spec, tick(0, 2, some(2, 1))).metrics[0]
    assert found.failure is not None
    assert found.failure.reason == "InvalidMetricSourceType"
    assert (found.target_milli, found.target_pct) == (None, None)


# ---- Object and External metrics -----------------------------------------------------------------


def test_a_value_is_multiplied_by_the_ready_pods() -> None:
    pods = [*some(2, 1), Pod(ready="False"), Pod(phase="Pending", ready=None)]
    spec = hpa_spec(external(value="100"))
    explanation = last(spec, tick(0, 3, pods, [total(500_000, -20)]))
    found = explanation.metrics[0]
    assert (found.values_milli, found.total_milli) == ((500_000, -20), 499_980)
    assert found.counts == facts.Counts(2, 2, 0, 0, 0)
    assert [p.why for p in found.pods] == ["", "", *["not_running_and_ready"] * 2]
    assert (found.multiplier, found.wanted, found.proposal) == (2, 10, 10)


def test_a_value_without_any_pod_fails_after_its_ratio() -> None:
    found = last(hpa_spec(object_metric(value="1")), tick(0, 3, [], [total(5000)])).metrics[0]
    assert found.first is not None
    assert found.first.ratio == 5.0
    assert found.failure is not None
    assert found.failure.event.startswith("unable to calculate ready pods")


# ---- metrics together ----------------------------------------------------------------------------


def test_the_largest_proposal_wins_and_ties_keep_the_earlier_one() -> None:
    spec = hpa_spec(external(average="1"), external(average="1", name="b"))
    answers = [total(3000), total(3000)]
    explanation = last(spec, tick(0, 2, [], answers))
    assert explanation.combination == facts.Combination(2, 0, 3, 1, usable=True, error=None)
    assert explanation.decision.reason == "external metric queue(nil) above target"


@pytest.mark.parametrize(("wished", "usable"), [(4, False), (5, True), (7, True)])
def test_e17_to_e19_one_failed_metric(wished: int, usable: bool) -> None:
    spec = hpa_spec(resource(60), EXACT_WISH)
    answers = [FETCH_FAILED, total(1000 * wished)]
    explanation = last(spec, tick(0, 5, [], answers), flags=NO_TOLERANCE)
    combination = explanation.combination
    assert combination is not None
    assert (combination.failed, combination.largest, combination.usable) == (1, wished, usable)
    assert (explanation.windows is None) is not usable
    assert explanation.decision.limited == (wished if usable else 5)
    assert explanation.outcome.error is not None


# ---- windows -------------------------------------------------------------------------------------


def test_e30_the_legacy_window_keeps_a_wish_to_grow() -> None:
    spec = hpa_spec(EXACT_WISH, high=10)
    explanation = last(
        spec, wish(0, 5, 3), flags=NO_TOLERANCE, recommendations=[(9, -301), (7, -240), (4, -300)]
    )
    windows = explanation.windows
    assert windows is not None
    assert [(r.replicas, r.in_down_window, r.in_up_window) for r in windows.recommendations] == [
        (9, False, False),
        (4, True, False),  # at the cutoff exactly: it still counts
        (7, True, False),
    ]
    assert (windows.lowest, windows.highest, windows.stabilized) == (None, 7, 7)
    assert (windows.down_window_ms, windows.down_since_ms) == (300_000, at(-300))
    assert windows.condition == "ScaleDownStabilized"
    assert explanation.decision.reason == "All metrics below target"
    assert explanation.decision.desired == 7


def test_e31_two_windows_pull_the_current_size() -> None:
    spec = hpa_spec(EXACT_WISH, high=10, behavior={"scaleUp": {"stabilizationWindowSeconds": 60}})
    explanation = last(
        spec, wish(0, 5, 9), flags=NO_TOLERANCE, recommendations=[(6, -60), (7, -59), (11, -200)]
    )
    windows = explanation.windows
    assert windows is not None
    counted = [(r.replicas, r.in_up_window, r.in_down_window) for r in windows.recommendations]
    assert counted == [(11, False, True), (6, False, True), (7, True, True)]
    assert (windows.lowest, windows.highest, windows.stabilized) == (7, 11, 7)
    assert windows.condition == "ScaleUpStabilized"
    assert (windows.up_since_ms, windows.down_since_ms) == (at(-60) + 1, at(-300) + 1)


def test_old_versions_look_at_the_window_of_the_wish_alone() -> None:
    spec = hpa_spec(EXACT_WISH, behavior={"scaleUp": {"stabilizationWindowSeconds": 60}})
    options: Any = {"flags": NO_TOLERANCE, "recommendations": [(4, -30), (8, -30)]}
    for k8s, clamps, stabilized in (("1.20", False, 4), ("1.38", True, 5)):
        windows = last(spec, wish(0, 5, 6), k8s=k8s, **options).windows
        assert windows is not None
        assert (windows.lowest, windows.highest) == (4, 8)
        assert (windows.clamps_current, windows.stabilized) == (clamps, stabilized)


def test_a_fresh_controller_begins_with_the_size_it_finds() -> None:
    spec = hpa_spec(EXACT_WISH)
    first, again, forgot = explained(
        spec,
        [wish(0, 3, 3), wish(15, 3, 3), wish(30, 3, 3, restart=True)],
        flags=NO_TOLERANCE,
    )
    assert first.start == facts.Start(None, unknown_time=False, first_seen=True)
    assert again.start == facts.Start(None, unknown_time=False, first_seen=False)
    assert forgot.start == facts.Start(None, unknown_time=True, first_seen=True)
    assert forgot.windows is not None
    assert [r.at_ms for r in forgot.windows.recommendations] == [at(30)]


# ---- policies and bounds -------------------------------------------------------------------------

UP_4 = hpa_spec(EXACT_WISH, behavior={"scaleUp": policies(("Pods", 4, 60))})


def test_e24_a_policys_budget_is_spent_for_its_period() -> None:
    spent = last(UP_4, wish(0, 2, 20), wish(40, 6, 20), flags=NO_TOLERANCE).limits
    assert spent is not None
    (policy,) = spent.policies
    assert policy == facts.PolicyFact(
        "Pods", 4, 60_000, (facts.ScaleEvent(at(0), 4),), added=4, removed=0, start=2, limit=6
    )
    assert (spent.direction, spent.select, spent.limit, spent.bound) == ("up", "Max", 6, 6)
    assert (spent.limited, spent.condition) == (6, "ScaleUpLimit")
    free = last(UP_4, wish(0, 2, 20), wish(60, 6, 20), flags=NO_TOLERANCE).limits
    assert free is not None
    assert (free.policies[0].events, free.policies[0].start, free.limited) == ((), 6, 10)


def test_e25_removed_pods_give_a_budget_back() -> None:
    spec = hpa_spec(
        EXACT_WISH,
        behavior={
            "scaleUp": policies(("Pods", 4, 60)),
            "scaleDown": {"stabilizationWindowSeconds": 0},
        },
    )
    ticks = [wish(0, 2, 20), wish(30, 6, 3), wish(40, 3, 20)]
    new, old = (last(spec, *ticks, flags=NO_TOLERANCE, k8s=k8s).limits for k8s in ("1.38", "1.20"))
    assert new is not None
    assert old is not None
    assert [(e.at_ms, e.change) for e in new.policies[0].events] == [(at(0), 4), (at(30), -3)]
    assert (new.policies[0].added, new.policies[0].removed, new.policies[0].start) == (4, 3, 2)
    assert new.limited == 6
    # Old versions look at the changes of the own direction: 3 - 4 = -1, and never below 3.
    assert (old.policies[0].start, old.policies[0].limit, old.limited) == (-1, 3, 3)


def test_e27_a_percentage_down_truncates() -> None:
    down = policies(("Percent", 90, 15), ("Pods", 2, 60), stabilizationWindowSeconds=0)
    spec = hpa_spec(EXACT_WISH, behavior={"scaleDown": down})
    limits = last(spec, wish(0, 10, 0), flags=NO_TOLERANCE).limits
    assert limits is not None
    assert [(p.type, p.start, p.limit) for p in limits.policies] == [
        ("Percent", 10, 0),
        ("Pods", 10, 8),
    ]
    assert (limits.direction, limits.limit, limits.bound, limits.limited) == ("down", 0, 1, 1)
    assert limits.condition == "TooFewReplicas"
    down["selectPolicy"] = "Min"
    spec = hpa_spec(EXACT_WISH, behavior={"scaleDown": down})
    limits = last(spec, wish(0, 10, 0), flags=NO_TOLERANCE).limits
    assert limits is not None
    assert (limits.select, limits.limit, limits.limited) == ("Min", 8, 8)


def test_e26_a_percentage_up_is_computed_in_floats() -> None:
    spec = hpa_spec(EXACT_WISH, behavior={"scaleUp": policies(("Percent", 10, 15))})
    limits = last(spec, wish(0, 100, 900), flags=NO_TOLERANCE).limits
    assert limits is not None
    assert limits.policies[0].limit == 111


def test_without_a_change_no_policy_is_asked() -> None:
    limits = last(UP_4, wish(0, 3, 3), flags=NO_TOLERANCE).limits
    assert limits == facts.Limits(
        True, "none", None, (), None, None, 3, codes.CONDITIONS[codes.DESIRED_WITHIN_RANGE].reason
    )


# ---- other paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k8s", "gate", "spec_metric", "low", "reason"),
    [
        ("1.35", None, EXACT_WISH, 1, facts.MIN_NOT_ZERO),
        ("1.36", None, EXACT_WISH, 1, facts.GATE_OFF),
        ("1.38", True, EXACT_WISH, 1, facts.NOT_BY_HPA),
        ("1.38", True, resource(60), 0, facts.NO_SIGNAL),
    ],
)
def test_a_target_at_zero_stays_there(
    k8s: str, gate: bool | None, spec_metric: Json, low: int, reason: str
) -> None:
    ours = status_with(SCALED_TO_ZERO) if reason == facts.NO_SIGNAL else None
    spec, options = hpa_spec(spec_metric, low=low), {"k8s": k8s, "gate": gate, "status": ours}
    explanation = last(spec, tick(0, 0, [], [total(5000)]), **options)
    assert (explanation.path, explanation.zero_reason) == ("zero", reason)
    assert not explanation.from_zero


def test_e23_from_zero_it_goes_to_the_minimum_at_least() -> None:
    rules = {"scaleUp": policies(("Pods", 1, 60))}
    spec = hpa_spec(external(value="100"), low=2, behavior=rules)
    explanation = last(spec, tick(0, 0, [], [total(0)]), status=status_with(SCALED_TO_ZERO))
    assert explanation.limits is not None
    assert (explanation.limits.limited, explanation.raised_to) == (0, 2)
    assert explanation.decision.desired == 2
    assert explanation.decision.reason == "Current number of replicas below Spec.MinReplicas"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (codes.SELECTOR_MISSING, "selector is required"),
        (codes.SELECTOR_AMBIGUOUS, "two of them"),
    ],
)
def test_a_selector_that_cannot_be_used(selector: int, message: str) -> None:
    ticks = tick(0, 3, some(3, 1), selector=selector, selector_error="two of them")
    explanation = last(hpa_spec(resource(60)), ticks)
    assert (explanation.path, explanation.selector_error) == ("selector", message)
    assert explanation.outcome.error is not None


def test_a_scale_that_cannot_be_read_or_written() -> None:
    spec = hpa_spec(resource(60))
    wrong: Any = {"scale_error": "conflict"}
    read = last(spec, tick(0, 3, some(3, 900), scale=codes.SCALE_GET_FAILED, **wrong))
    assert (read.path, read.scale_error, read.scale.replicas) == ("scale", "conflict", None)
    write = last(spec, tick(0, 3, some(3, 900), scale=codes.SCALE_UPDATE_FAILED, **wrong))
    assert (write.path, write.scale_error) == ("metrics", "conflict")
    assert (write.decision.limited, write.decision.rescaled) == (5, False)
    assert [e.reason for e in write.outcome.events] == ["FailedRescale"]
    forced = last(
        hpa_spec(resource(60), high=2), tick(0, 3, scale=codes.SCALE_UPDATE_FAILED, **wrong)
    )
    assert (forced.path, forced.decision.limited) == ("forced", 2)
    unknown = last(spec, tick(0, 3, scale=codes.SCALE_UNKNOWN))
    assert (unknown.path, unknown.outcome.events) == ("none", ())


def test_what_a_sync_leaves_behind() -> None:
    one, two = explained(UP_4, [wish(0, 2, 20), wish(15, 6, 6)], flags=NO_TOLERANCE)
    assert (one.outcome.stored_change, two.outcome.stored_change) == (4, None)
    assert [e.message for e in one.outcome.events] == [
        "New size: 6; reason: external metric queue(nil) above target"
    ]
    assert one.outcome.written
    kept = {c.condition.type: c.is_set for c in two.outcome.conditions}
    assert kept == {
        "AbleToScale": True,
        "ScaledToZero": False,
        "ScalingActive": True,
        "ScalingLimited": True,
    }


# ---- it is the decision that is explained --------------------------------------------------------


@pytest.mark.parametrize("k8s", ["1.20", "1.32", "1.38"])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_tick_of_any_controller_can_be_explained(k8s: str, seed: int) -> None:
    # Every number that a rule keeps to itself is held against the rule's result on the way.
    for kind in (timeline, behavior_timeline):
        view = timeline_lane(kind(random.Random(seed), 20))
        for sync in syncs(view.specs, view.ticks, k8s=k8s):
            found, decision = explain_sync(sync), sync.decision
            assert found.decision.desired == decision.desired
            assert found.decision.rescaled == bool(decision.rescaled)
            proposals = [m.proposal for m in found.metrics if m.proposal is not None]
            assert decision.metric < 0 or max(decision.proposal, 0) in (0, *proposals)
            if found.limits is not None and found.raised_to is None:
                assert found.limits.limited == decision.limited


def test_another_memory_than_the_decisions_is_found_out() -> None:
    spec = hpa_spec(EXACT_WISH)
    ticks = [wish(0, 5, 9), wish(15, 5, 3)]
    first, second = syncs(spec, ticks, flags=NO_TOLERANCE)
    assert explain_sync(second).decision.desired == 9  # the wish of 15 s ago
    recorded = copy.deepcopy(second.results.decisions[1])
    with pytest.raises(WrongExplanationError, match=r"desired comes to \[5\], but .* \[9\]"):
        explain_sync(replace(second, before=first.before))
    assert second.results.decisions[1] == recorded


def test_other_flags_than_the_decisions_are_found_out() -> None:
    (sync,) = syncs(hpa_spec(resource(60)), [tick(0, 3, some(3, 650))], flags=ControllerFlags())
    specs = sync.fleet.specs.copy()
    specs.up_tolerance[:] = 0.0
    reader = replace(sync.reader, fleet=sync.fleet._replace(specs=specs))
    with pytest.raises(WrongExplanationError, match="this is a bug of hpabatch"):
        explain_sync(replace(sync, reader=reader))
