"""Texts, statuses and rules of the naive reference that the golden data do not show."""

from __future__ import annotations

from typing import Any

import pytest

from . import quantity, small
from .calculator import evaluate_case
from .controller import Controller, run_timeline
from .go_format import format_without_arguments
from .selector import check_metric_selector, matches, parse_selector, selector_error
from .small import cpu, external, hpa, one_timeline, tick, values

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("milli", "binary", "text"),
    [
        (0, False, "0"),
        (500, False, "500m"),
        (1000, False, "1"),
        (1500, False, "1500m"),
        (2_000_000, False, "2k"),
        (-2_500_000, False, "-2500"),
        (10**19, False, "10P"),
        (-(2**63), False, "-9223372036854775808m"),
        (1_000_000, True, "1k"),
        (1_023_000, True, "1023"),
        (1_024_000, True, "1Ki"),
        (-1_024_000, True, "-1Ki"),
        (1_024_500, True, "1024500m"),
        (1_536_000, True, "1536"),
        (94_371_840_000, True, "90Mi"),
        (130_752_000_000, True, "130752000"),
        (11_372_544_853, True, "11372544853m"),
        (94_371_840_000, False, "94371840"),
    ],
)
def test_quantities_are_printed_canonically(milli: int, binary: bool, text: str) -> None:
    assert quantity.text_of_milli(milli, binary) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "x %2F 100% y %d %% end %",
            "x %!F(MISSING) 100%!y(MISSING) %!d(MISSING) % end %!(NOVERB)",
        ),
        ("%[1]d", "%!d(BADINDEX)"),
        ("%*d", "%!(BADWIDTH)%!d(MISSING)"),
        ("%.*f and %5.2f", "%!(BADPREC)%!f(MISSING) and %!f(MISSING)"),
        ("nothing", "nothing"),
    ],
)
def test_a_text_taken_for_a_format(text: str, shown: str) -> None:
    assert format_without_arguments(text) == shown


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("k=a@b", 'values[0][k]: Invalid value: "a@b": a valid label must be an empty string or'),
        ("-k", '<nil>: Invalid value: "-k": name part must consist of alphanumeric characters'),
        ("k>x", "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be"),
        ("k in (b@,a@)", '[values[0][k]: Invalid value: "a@": a valid label must be an empty'),
        (f"k={'x' * 64}", f'values[0][k]: Invalid value: "{"x" * 64}": must be no more than 63 b'),
        ("a/b/c", '<nil>: Invalid value: "a/b/c": a valid label key must consist of alphanumer'),
    ],
)
def test_labels_that_are_not_allowed(text: str, error: str) -> None:
    assert (selector_error(text) or "").startswith(f"unable to parse requirement: {error}")


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("app=web", {"app": "web"}, True),
        ("app==web,tier!=back", {"app": "web"}, True),
        ("app!=web", {}, True),
        ("app in (web,api)", {"app": "api"}, True),
        ("app in (web,api)", {}, False),
        ("app notin (web)", {}, True),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("level>5", {"level": "6"}, True),
        ("level>5", {"level": "5"}, False),
        ("level<5", {"level": "x"}, False),
        ("app=", {"app": ""}, True),
        ("", {}, True),
    ],
)
def test_selectors_match(text: str, labels: dict[str, str], expected: bool) -> None:
    assert matches(parse_selector(text), labels) is expected


def test_metric_selectors_fail_with_the_first_requirement() -> None:
    expressions = [{"key": "k", "operator": "Exists", "values": ["a", "b"]}, {"key": "k"}]
    with pytest.raises(Exception, match=r'values: Invalid value: \["a","b"\]: values set must be'):
        check_metric_selector({"matchExpressions": expressions})
    with pytest.raises(Exception, match="values: Invalid value: null: for 'in', 'notin'"):
        check_metric_selector({"matchExpressions": [{"key": "k", "operator": "In"}]})
    with pytest.raises(Exception, match='"" is not a valid label selector operator'):
        check_metric_selector({"matchExpressions": [{"key": "k"}]})


def _case(metric: Json, **more: Any) -> Json:
    case = {"flags": {"tolerance": 0.1}, "now": small.NOW, "metric": metric}
    return {**case, "spec_replicas": 2, "status_replicas": 2, "pods": [], **more}


def test_an_object_metric_without_an_item() -> None:
    described = {"kind": "Service", "name": "main", "apiVersion": "v1"}
    source = {
        "metric": {"name": "hits"},
        "describedObject": described,
        "target": {"type": "Value", "value": "1"},
    }
    result = evaluate_case(_case({"type": "Object", "object": source}))
    assert result["error"] == (
        "failed to get object metric value: unable to get metric hits on Service default/main: "
        "unable to fetch metrics from custom metrics API: the custom metrics API server returned "
        "0 results when we asked for exactly one"
    )


@pytest.mark.parametrize(("k8s", "shown"), [("1.38", "0"), ("1.37", "-9223372036854775808m")])
def test_the_average_per_pod_of_no_pods(k8s: str, shown: str) -> None:
    """e14."""
    case = _case(external(), spec_replicas=0, status_replicas=0, external_values=["0"])
    result = evaluate_case(case, k8s)
    assert (result["replicas"], result["current_average_value"]) == (0, shown)


def test_one_invalid_metric_and_one_that_scales_up() -> None:
    """e35: events in order, an error beside a rescale, and the label of an unknown type."""
    document = hpa({"type": "X"}, external())
    row = run_timeline(one_timeline(document, tick(5, {}, values("7"))))[0]
    error = 'invalid metrics (1 invalid out of 2), first error is: unknown metric source type "X"'
    assert [event["reason"] for event in row["events"]] == [
        "InvalidMetricSourceType",
        "SuccessfulRescale",
    ]
    assert (row["scale_to"], row["reconcile_error"]) == (7, error)
    assert (row["action_label"], row["error_label"]) == ("scale_up", "spec")
    assert [status["type"] for status in row["current_metrics"]] == ["", "External"]


@pytest.mark.parametrize(
    ("behavior", "minimum", "wish", "size", "reason", "limited"),
    [
        (
            True,
            2,
            "0",
            2,
            "Current number of replicas below Spec.MinReplicas",
            "DesiredWithinRange",
        ),
        (False, 2, "0", 2, "", "TooFewReplicas"),
        (True, 7, "9", 7, "external metric load(nil) above target", "ScaleUpLimit"),
    ],
)
def test_a_new_minimum_for_what_was_scaled_to_zero(
    behavior: bool, minimum: int, wish: str, size: int, reason: str, limited: str
) -> None:
    """e23 and e34."""
    document = hpa(external(), minReplicas=minimum)
    if behavior:
        rules = {"scaleUp": small.DEFAULT_UP, "scaleDown": small.DEFAULT_DOWN}
        document["spec"]["behavior"] = rules
    document["status"]["conditions"] = [
        {"type": "ScaledToZero", "status": "True", "reason": "ScaledToZero", "message": "m"}
    ]
    row = run_timeline(one_timeline(document, tick(0, values(wish)), hpa_scale_to_zero=True))[0]
    assert row["events"][0]["message"] == f"New size: {size}; reason: {reason}"
    reasons = {condition["type"]: condition["reason"] for condition in row["conditions"]}
    assert reasons["ScalingLimited"] == limited
    assert reasons["ScaledToZero"] == "NotScaledToZero"


def test_a_status_that_cannot_be_written_is_lost() -> None:
    """FailedUpdateStatus replaces the error of the sync; the scale and the memory have moved."""
    document = hpa(external(), external("other"))
    broken = tick(2, values("4"), {}, status_update_error="conflict 50%")
    whole = tick(4, values("4"), values("4"), seconds=15)
    first, second = run_timeline(one_timeline(document, broken, whole))
    assert [event["reason"] for event in first["events"]] == [
        "FailedGetExternalMetric",
        "SuccessfulRescale",
        "FailedUpdateStatus",
    ]
    assert first["reconcile_error"] == "failed to update status for hpa: conflict 50%"
    assert (first["status_written"], first["scale_to"]) == (True, 4)
    assert (first["conditions"], first["last_scale_time"]) == ([], None)
    assert second["conditions"][0]["last_transition_time"] == whole["now"]


def test_nothing_new_is_not_written() -> None:
    """Equal quantities in another form leave the old text; a new time alone is no change."""
    document = hpa(external())
    first = Controller(one_timeline(document))
    first.tick(tick(2, values("2")))
    status = first.status.copy()
    assert status.current_metrics is not None
    status.current_metrics = [
        {
            "type": "External",
            "external": {"metric": {"name": "load"}, "current": {"averageValue": "1000m"}},
        }
    ]
    first.status = status
    again = first.tick(tick(2, values("2"), seconds=15))
    assert not again["status_written"]
    assert again["current_metrics"][0]["external"]["current"] == {"averageValue": "1000m"}


def test_the_generation_is_observed_from_1_37() -> None:
    document = hpa(external())
    document["metadata"]["generation"] = 3
    for k8s, observed in (("1.38", 3), ("1.36", None)):
        controller = Controller(one_timeline(document), k8s)
        controller.tick(tick(2, values("2"), scale_get_error="gone"))
        assert controller.status.observed_generation is None
        controller.tick(tick(2, values("2"), seconds=15))
        assert controller.status.observed_generation == observed
    controller = Controller(one_timeline(document, feature_gates={"HPAGeneration": False}))
    controller.tick(tick(2, values("2")))
    assert controller.status.observed_generation is None


def test_edits_of_the_metrics_count_at_once() -> None:
    timeline = one_timeline(
        hpa(cpu(50)),
        tick(2, {}, pods=small.pods(2)),
        tick(2, values("3"), seconds=15, set_metrics=[external("new")]),
    )
    failed, scaled = run_timeline(timeline)
    assert failed["events"][-1]["reason"] == "FailedComputeMetricsReplicas"
    assert (
        scaled["events"][0]["message"]
        == "New size: 3; reason: external metric new(nil) above target"
    )
