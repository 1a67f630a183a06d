"""Statuses, events and errors read out of a replay, in the controller's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hpabatch.engine.explain.status import LaneWords, Outcome, StatusReader
from hpabatch.kernels.replay import replay_fleet
from hpabatch.kernels.status import status_fleet
from hpabatch.layout import codes
from hpabatch.layout.results import empty_results
from hpabatch.model.objects.encode_status import encode_metric
from hpabatch.model.objects.hpa import Condition, HPASpec, HPAStatus, MetricSpec, MetricStatus
from hpabatch.model.versions import override_gates, profile_for
from hpabatch.packing.memory import make_memory, seed_status
from hpabatch.packing.pack import LaneView, MetricAnswer, TickView, pack_fleet
from hpabatch.packing.status import empty_statuses, make_status_memory, seed_status_memory
from hpabatch.packing.texts import Texts
from tests.rules.helpers import (
    EXACT_WISH,
    NO_TOLERANCE,
    at,
    external,
    hpa_spec,
    object_metric,
    pods_metric,
    resource,
    some,
    tick,
    total,
    usages,
    wish,
)

SPEC = hpa_spec(EXACT_WISH, low=2, high=9)
FAILED = MetricAnswer(codes.METRIC_FETCH_FAILED, error="E")
GET_FAILED: dict[str, Any] = {"scale": codes.SCALE_GET_FAILED, "scale_error": "E"}
PUT_FAILED: dict[str, Any] = {"scale": codes.SCALE_UPDATE_FAILED, "scale_error": "E"}
QUEUE = "external metric queue(nil)"


class Told:
    """One HPA `prod/web`, replayed, with what can be read of it."""

    def __init__(
        self,
        specs: HPASpec | Sequence[HPASpec],
        ticks: Sequence[TickView],
        k8s: str = "1.38",
        before: HPAStatus | None = None,
        gates: str = "",
        generations: dict[int, int] | None = None,
    ) -> None:
        profile, texts = override_gates(profile_for(k8s), gates), Texts()
        view = LaneView([specs] if isinstance(specs, HPASpec) else list(specs), ticks)
        fleet = pack_fleet([view], NO_TOLERANCE, profile, texts)
        memory, status_memory = make_memory(fleet, recorded=False), make_status_memory(fleet)
        before = before or HPAStatus()
        seed_status(memory, 0, before)
        seed_status_memory(status_memory, 0, before)
        results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
        replay_fleet(fleet, memory, False, results)
        statuses = empty_statuses(fleet.ticks.size)
        status_fleet(
            fleet, results, status_memory, fleet.lanes.last_tick.astype(np.int64), statuses
        )
        self.reader = StatusReader(fleet, results, statuses, view.specs, texts, profile)
        self.words = LaneWords("prod", before, "web", generations or {})

    def status(self, t: int = -1) -> HPAStatus:
        return self.reader.status(self.words, t % self.reader.statuses.size)

    def conditions(self, t: int = -1) -> dict[str, tuple[str, str, str | None]]:
        """Return (reason, message, time) of each condition."""
        return {
            c.type: (c.reason or "", c.message or "", c.last_transition_time)
            for c in self.status(t).conditions
        }

    def events(self, t: int = 0, unwritten: str = "") -> list[tuple[str, str, str]]:
        found = self.reader.events(self.words, t, unwritten)
        assert all(e.first_ms == e.last_ms == at(15 * t) and e.count == 1 for e in found)
        return [(e.type, e.reason, e.message) for e in found]

    def outcome(self, t: int = 0, unwritten: str = "") -> Outcome:
        return self.reader.outcome(self.words, t, unwritten)


# ---- the status ----------------------------------------------------------------------------------


def test_a_status_after_a_rescale_and_after_nothing() -> None:
    told = Told(SPEC, [wish(0, 5, 7), wish(15, 7, 7), wish(30, 7, 7)])
    status = told.status(2)
    assert (status.current_replicas, status.desired_replicas) == (7, 7)
    assert status.last_scale_time == "2023-11-14T22:13:20Z"
    assert told.status(0).conditions[0].message == (
        "the HPA controller was able to update the target scale to 7"
    )
    assert told.conditions() == {
        "AbleToScale": (
            "ReadyForNewScale",
            "recommended size matches current size",
            "2023-11-14T22:13:20Z",
        ),
        "ScalingActive": (
            "ValidMetricFound",
            f"the HPA was able to successfully calculate a replica count from {QUEUE}",
            "2023-11-14T22:13:20Z",
        ),
        "ScalingLimited": (
            "DesiredWithinRange",
            "the desired count is within the acceptable range",
            "2023-11-14T22:13:20Z",
        ),
        "ScaledToZero": (
            "NotScaledToZero",
            "the HPA controller did not scale the workload to zero",
            "2023-11-14T22:13:20Z",
        ),
    }


def test_what_was_before_the_first_tick_shows_until_it_is_replaced() -> None:
    limited = Condition("ScalingLimited", "True", "Own", "in own words", "2023-01-01T00:00:00Z")
    before = HPAStatus(
        3,
        4,
        last_scale_time="2023-01-01T00:00:00Z",
        observed_generation=7,
        conditions=(limited,),
        current_metrics=(MetricStatus("External"),),
    )
    told = Told(SPEC, [wish(0, 5, 5, **GET_FAILED), wish(15, 5, 5)], before=before)
    first, second = told.status(0), told.status(1)
    assert (first.current_replicas, first.desired_replicas) == (3, 4)
    assert first.conditions[0] == limited
    assert first.current_metrics == before.current_metrics
    assert first.observed_generation == 7
    assert first.last_scale_time == second.last_scale_time == "2023-01-01T00:00:00Z"
    assert second.conditions[0].reason == "DesiredWithinRange"
    assert [m.type for m in second.current_metrics or ()] == ["External"]


@pytest.mark.parametrize(("gates", "shown"), [("", [1, 2]), ("HPAGeneration=false", [None, None])])
def test_the_generation_that_was_observed(gates: str, shown: list[int | None]) -> None:
    specs = [SPEC, replace(SPEC, max_replicas=8)]
    ticks = [wish(0, 5, 5), wish(15, 5, 5, spec=1)]
    before = HPAStatus(observed_generation=9)
    told = Told(specs, ticks, gates=gates, before=before, generations={0: 1, 1: 2})
    assert [told.status(t).observed_generation for t in range(2)] == shown
    assert Told(SPEC, ticks[:1]).status().observed_generation is None  # of no known generation


def test_metrics_of_every_kind_in_a_status() -> None:
    pods = some(2, 500)
    metrics = [
        resource(50),
        resource(average="1Gi", name="memory", container="app"),
        pods_metric("1"),
        object_metric(value="1"),
        object_metric(average="1"),
        external(value="1", name="sum"),
        EXACT_WISH,
    ]
    answers = [usages(pods)] * 3 + [total(1500)] * 2 + [total(1500, 500)] * 2
    spec = hpa_spec(*metrics, low=1, high=9)
    ticks = [tick(0, 2, pods, answers)]
    described = {"kind": "Ingress", "name": "web", "apiVersion": "networking.k8s.io/v1"}
    shown = [encode_metric(m) for m in Told(spec, ticks).status().current_metrics or ()]
    current = [next(v for k, v in m.items() if k != "type") for m in shown]
    assert current == [
        {"name": "cpu", "current": {"averageValue": "500m", "averageUtilization": 50}},
        {"name": "memory", "container": "app", "current": {"averageValue": "500m"}},
        {"metric": {"name": "rps"}, "current": {"averageValue": "500m"}},
        {"metric": {"name": "hits"}, "describedObject": described, "current": {"value": "1500m"}},
        {
            "metric": {"name": "hits"},
            "describedObject": described,
            "current": {"averageValue": "750m"},
        },
        {"metric": {"name": "sum"}, "current": {"value": "2"}},
        {"metric": {"name": "queue"}, "current": {"averageValue": "1"}},
    ]
    old = [encode_metric(m) for m in Told(spec, ticks, "1.26").status().current_metrics or ()]
    assert old[4]["object"] == {
        "metric": {"name": "hits"},
        "describedObject": {"kind": "", "name": ""},
        "current": {"value": "0", "averageValue": "750m"},
    }


@pytest.mark.parametrize(("k8s", "value"), [("1.38", "90Mi"), ("1.33", "94371840")])
def test_memory_is_binary_in_newer_versions(k8s: str, value: str) -> None:
    pods = some(1, 94_371_840_000)
    spec = hpa_spec(resource(average="1Gi", name="memory"), low=1, high=9)
    (shown,) = Told(spec, [tick(0, 1, pods)], k8s).status().current_metrics or ()
    assert encode_metric(shown)["resource"] == {
        "name": "memory",
        "current": {"averageValue": value},
    }


def test_failed_metrics_are_empty_entries() -> None:
    spec = hpa_spec(EXACT_WISH, external(average="1", name="other"), low=2, high=9)
    told = Told(spec, [tick(0, 5, answers=[FAILED, total(5000)])])
    first, second = told.status().current_metrics or ()
    assert (encode_metric(first), second.type) == ({"type": ""}, "External")


def test_nothing_was_asked() -> None:
    assert Told(SPEC, [wish(0, 0, 5)]).status().current_metrics is None


# ---- events and errors ---------------------------------------------------------------------------

NEW_SIZE = ("Normal", "SuccessfulRescale", f"New size: 7; reason: {QUEUE} above target")
NOT_WRITTEN = ("Warning", "FailedUpdateStatus", "U")
FETCH = (
    "unable to get external metric prod/queue/nil: unable to fetch metrics from external metrics "
    "API: E"
)
GIVEN_UP = (
    "invalid metrics (1 invalid out of 1), first error is: failed to get queue external metric "
    f"value: failed to get queue external metric: {FETCH}"
)
COMPUTE = (
    "failed to compute desired number of replicas based on listed metrics for Deployment/prod/web: "
)


@pytest.mark.parametrize("unwritten", ["", "U"])
def test_a_rescale(unwritten: str) -> None:
    told = Told(SPEC, [wish(0, 5, 7)])
    assert told.events(0, unwritten) == [NEW_SIZE, *[NOT_WRITTEN] * bool(unwritten)]
    error = "failed to update status for web: U" if unwritten else None
    assert told.outcome(0, unwritten) == Outcome(
        error, "scale_up", "internal" if unwritten else "none"
    )


def test_a_status_that_did_not_change_is_not_written_and_does_not_fail() -> None:
    told = Told(SPEC, [wish(0, 5, 5), wish(15, 5, 5)])
    assert told.events(1, "U") == []
    assert told.outcome(1, "U") == Outcome(None, "none", "none")


@pytest.mark.parametrize("unwritten", ["", "U"])
def test_a_scale_that_is_not_read(unwritten: str) -> None:
    told = Told(SPEC, [wish(0, 5, 5, **GET_FAILED)])
    not_written = [NOT_WRITTEN] * bool(unwritten)
    assert told.events(0, unwritten) == [("Warning", "FailedGetScale", "E"), *not_written]
    error = "failed to query scale subresource for Deployment/prod/web: E"
    assert told.outcome(0, unwritten) == Outcome(error, "none", "internal")
    bad = Told(SPEC, [wish(0, 5, 5, scale=codes.SCALE_BAD_VERSION, scale_error="E")])
    error = "invalid API version in scale target reference: E"
    assert bad.outcome() == Outcome(error, "none", "spec")


@pytest.mark.parametrize("unwritten", ["", "U"])
def test_a_scale_that_is_not_written(unwritten: str) -> None:
    told = Told(SPEC, [wish(0, 5, 7, **PUT_FAILED)])
    text = f"New size: 7; reason: {QUEUE} above target; error: E"
    not_written = [NOT_WRITTEN] * bool(unwritten)
    assert told.events(0, unwritten) == [("Warning", "FailedRescale", text), *not_written]
    error = "failed to rescale Deployment/prod/web: E"
    assert told.outcome(0, unwritten) == Outcome(error, "none", "internal")
    assert told.conditions()["AbleToScale"][1] == (
        "the HPA controller was unable to update the target scale: E"
    )


@pytest.mark.parametrize("unwritten", ["", "U"])
def test_metrics_that_fail(unwritten: str) -> None:
    """The status is written before it is said that nothing could be computed."""
    told = Told(SPEC, [tick(0, 5, answers=[FAILED])])
    assert told.events(0, unwritten) == [
        ("Warning", "FailedGetExternalMetric", FETCH),
        *[NOT_WRITTEN] * bool(unwritten),
        ("Warning", "FailedComputeMetricsReplicas", GIVEN_UP),
    ]
    assert told.outcome(0, unwritten) == Outcome(COMPUTE + GIVEN_UP, "none", "internal")
    assert told.conditions()["ScalingActive"][:2] == (
        "FailedGetExternalMetric",
        f"the HPA was unable to compute the replica count: {FETCH}",
    )


@pytest.mark.parametrize(("k8s", "returned"), [("1.38", True), ("1.26", False)])
def test_a_sync_that_goes_on_without_some_metric(k8s: str, returned: bool) -> None:
    spec = hpa_spec(EXACT_WISH, external(average="1", name="other"), low=2, high=9)
    told = Told(spec, [tick(0, 5, answers=[FAILED, total(7000)])], k8s)
    assert [reason for _, reason, _ in told.events()] == [
        "FailedGetExternalMetric",
        "SuccessfulRescale",
    ]
    error = GIVEN_UP.replace("out of 1", "out of 2") if returned else None
    assert told.outcome() == Outcome(error, "scale_up", "internal" if returned else "none")
    assert told.outcome(0, "U").error == "failed to update status for web: U"


@pytest.mark.parametrize(("k8s", "label"), [("1.37", "spec"), ("1.36", "internal")])
def test_an_unknown_metric_is_an_error_of_the_spec(k8s: str, label: str) -> None:
    spec = replace(SPEC, metrics=(MetricSpec("Bogus"),))
    told = Told(spec, [tick(0, 5, answers=[MetricAnswer()])], k8s)
    text = 'unknown metric source type "Bogus"'
    assert told.events()[0] == ("Warning", "InvalidMetricSourceType", text)
    assert told.outcome().error_label == label


def test_no_metrics_at_all() -> None:
    told = Told(replace(SPEC, metrics=()), [tick(0, 5, answers=[])])
    text = "invalid metrics (0 invalid out of 0), first error is: %!v(<nil>)"
    assert told.events() == [("Warning", "FailedComputeMetricsReplicas", text)]
    assert told.outcome() == Outcome(COMPUTE + text, "none", "internal")


@pytest.mark.parametrize(
    ("code", "given", "reason", "text", "message"),
    [
        (
            codes.SELECTOR_MISSING,
            "",
            "SelectorRequired",
            "selector is required",
            "the HPA target's scale is missing a selector",
        ),
        (
            codes.SELECTOR_INVALID,
            "E",
            "InvalidSelector",
            "couldn't convert selector into a corresponding internal selector object: E",
            "couldn't convert selector into a corresponding internal selector object: E",
        ),
        (codes.SELECTOR_AMBIGUOUS, "who else", "AmbiguousSelector", "who else", "who else"),
    ],
)
def test_a_selector_that_cannot_be_used(
    code: int, given: str, reason: str, text: str, message: str
) -> None:
    told = Told(SPEC, [wish(0, 5, 5, selector=code, selector_error=given)])
    assert told.events() == [
        ("Warning", reason, text),
        ("Warning", "FailedComputeMetricsReplicas", text),
    ]
    assert told.outcome() == Outcome(COMPUTE + text, "none", "internal")
    assert told.conditions()["ScalingActive"][1] == message


def test_an_hpa_that_is_gone_has_an_error_and_no_condition() -> None:
    told = Told(SPEC, [wish(0, 5, 5, selector=codes.SELECTOR_GONE, selector_error="gone")])
    assert told.events() == [("Warning", "FailedComputeMetricsReplicas", "gone")]
    assert told.outcome().error == f"{COMPUTE}gone"
    assert list(told.conditions()) == ["AbleToScale"]


def test_old_versions_take_the_error_of_a_selector_for_a_format() -> None:
    view = wish(0, 5, 5, selector=codes.SELECTOR_INVALID, selector_error="100% y")
    told = Told(SPEC, [view], "1.26")
    raw = "couldn't convert selector into a corresponding internal selector object: 100% y"
    printed = raw.replace("% y", "%!y(MISSING)")
    assert told.events() == [
        ("Warning", "InvalidSelector", raw),
        ("Warning", "FailedComputeMetricsReplicas", printed),
    ]
    assert told.conditions()["ScalingActive"][1] == printed


def test_forced_moves_and_disabled_targets() -> None:
    told = Told(SPEC, [wish(0, 12, 5), wish(15, 1, 5), wish(30, 0, 5)])
    assert told.reader.reason(0) == "Current number of replicas above Spec.MaxReplicas"
    assert told.events(1) == [
        (
            "Normal",
            "SuccessfulRescale",
            "New size: 2; reason: Current number of replicas below Spec.MinReplicas",
        )
    ]
    assert [told.outcome(t).action_label for t in range(3)] == ["scale_down", "scale_up", "none"]
    assert told.conditions()["ScalingActive"][:2] == (
        "ScalingDisabled",
        "scaling is disabled since the replica count of the target is zero",
    )


def test_a_scale_that_was_not_recorded_says_nothing() -> None:
    told = Told(SPEC, [wish(0, 5, 5, scale=codes.SCALE_UNKNOWN)])
    assert told.events() == []
    assert told.outcome() == Outcome(None, "none", "none")
    assert told.status().conditions == ()
