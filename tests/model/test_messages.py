"""The controller's sentences, in the words of each version."""

from __future__ import annotations

import pytest

from hpabatch.layout import codes
from hpabatch.model import messages
from hpabatch.model.objects.hpa import (
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    LabelSelector,
    LabelSelectorRequirement,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.versions import PROFILES

V20, V26, V32, V33 = (PROFILES[k] for k in ("1.20", "1.26", "1.32", "1.33"))
V36, V37, V38 = (PROFILES[k] for k in ("1.36", "1.37", "1.38"))

ONE = Quantity.parse("1")
SHARE = MetricTarget("Utilization", average_utilization=50)
AVERAGE = MetricTarget("AverageValue", average_value=ONE)
VALUE = MetricTarget("Value", value=ONE)
UNSET = MetricTarget("Utilization")

CPU = MetricSpec("Resource", resource=ResourceMetricSource("cpu", SHARE))
MEMORY = MetricSpec("Resource", resource=ResourceMetricSource("memory", AVERAGE))
IN_APP = MetricSpec(
    "ContainerResource", container_resource=ContainerResourceMetricSource("cpu", "app", SHARE)
)
QPS = MetricSpec("Pods", pods=PodsMetricSource(MetricIdentifier("qps"), AVERAGE))


def of_object(target: MetricTarget, selector: LabelSelector | None = None) -> MetricSpec:
    described = CrossVersionObjectReference("Service", "main", "v1")
    source = ObjectMetricSource(described, MetricIdentifier("hits", selector), target)
    return MetricSpec("Object", object=source)


def external(target: MetricTarget, selector: LabelSelector | None = None) -> MetricSpec:
    source = ExternalMetricSource(MetricIdentifier("queue", selector), target)
    return MetricSpec("External", external=source)


def failure(
    metric: MetricSpec, kind: int, code: int, k8s: str = "1.38", text: str = "E"
) -> tuple[str, str]:
    """Return (event, error) of a failed metric in namespace `prod`."""
    return messages.metric_failure(metric, kind, code, text, "prod", PROFILES[k8s])


# ---- conditions ----------------------------------------------------------------------------------


def test_every_condition_has_a_message() -> None:
    assert set(messages.CONDITION_MESSAGES) == set(codes.CONDITIONS)
    for code in codes.CONDITIONS:
        assert messages.condition_message(code, "7")


@pytest.mark.parametrize(
    ("code", "detail", "message"),
    [
        (
            codes.SUCCEEDED_RESCALE,
            "3",
            "the HPA controller was able to update the target scale to 3",
        ),
        (codes.INVALID_SELECTOR, "odd {} text", "odd {} text"),
        (
            codes.FAILED_GET_PODS_METRIC,
            "{0} E",
            "the HPA was unable to compute the replica count: {0} E",
        ),
        (codes.READY_FOR_NEW_SCALE, "", "recommended size matches current size"),
    ],
)
def test_conditions_name_their_detail(code: int, detail: str, message: str) -> None:
    assert messages.condition_message(code, detail) == message


def test_old_versions_take_texts_for_formats() -> None:
    assert messages.printed("100% y", V26) == "100%!y(MISSING)"
    assert messages.printed("100% y", V32) == "100% y"


# ---- selectors -----------------------------------------------------------------------------------


def test_an_ambiguous_selector_by_version() -> None:
    names = ["ns/a", "ns/b", "ns/c"]
    who = "pods by selector app=web are controlled by"
    by_version = {k: messages.ambiguous_selector("app=web", names, PROFILES[k]) for k in PROFILES}
    assert by_version["1.38"] == f"{who} more than one HPA (e.g. [ns/a ns/b])"
    assert by_version["1.37"] == f"{who} multiple HPAs: [ns/a ns/b]"
    assert by_version["1.36"] == by_version["1.26"] == f"{who} multiple HPAs: [ns/a ns/b ns/c]"


def test_what_is_said_of_selectors_and_gone_hpas() -> None:
    assert messages.invalid_selector("E") == (
        "couldn't convert selector into a corresponding internal selector object: E"
    )
    assert messages.hpa_gone("ns/a") == "HPA ns/a was deleted during reconciliation"


NEAR = LabelSelector(match_expressions=(LabelSelectorRequirement("k", "Near", ("a",)),))
NO_VALUES = LabelSelector(match_expressions=(LabelSelectorRequirement("k", "In"),))


@pytest.mark.parametrize(
    ("selector", "k8s", "error"),
    [
        (NEAR, "1.38", '"Near" is not a valid label selector operator'),
        (NEAR, "1.20", '"Near" is not a valid pod selector operator'),
        (
            NO_VALUES,
            "1.33",
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            NO_VALUES,
            "1.32",
            "values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't "
            "be empty",
        ),
        (NO_VALUES, "1.20", "for 'in', 'notin' operators, values set can't be empty"),
    ],
)
def test_a_metrics_bad_selector_by_version(selector: LabelSelector, k8s: str, error: str) -> None:
    metric = of_object(VALUE, selector)
    event, whole = failure(metric, codes.METRIC_UNUSABLE, codes.METRIC_BAD_SELECTOR, k8s)
    assert (event, whole) == (error, f"failed to get object metric value: {error}")


def test_no_error_of_a_good_selector() -> None:
    # (asked for by the table of words only, which has every code of every metric)
    for metric in (CPU, external(VALUE, LabelSelector((("queue", "a"),)))):
        event, _ = failure(metric, codes.METRIC_UNUSABLE, codes.METRIC_BAD_SELECTOR)
        assert event == ""


# ---- metrics -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "kind", "event", "error", "old_error"),
    [
        (
            CPU,
            codes.RESOURCE_UTILIZATION,
            "failed to get cpu utilization: C",
            "failed to get cpu resource metric value: failed to get cpu utilization: C",
            "failed to get cpu utilization: C",
        ),
        (
            MEMORY,
            codes.RESOURCE_AVERAGE,
            "failed to get memory usage: C",
            "failed to get memory resource metric value: failed to get memory usage: C",
            "failed to get memory utilization: C",
        ),
        (
            IN_APP,
            codes.RESOURCE_UTILIZATION,
            "failed to get cpu utilization: C",
            "failed to get app container metric value: failed to get cpu utilization: C",
            "failed to get cpu utilization: C",
        ),
        (
            QPS,
            codes.PODS_AVERAGE,
            "C",
            "failed to get pods metric value: C",
            "failed to get pods metric value: C",
        ),
        (
            of_object(VALUE),
            codes.OBJECT_VALUE,
            "C",
            "failed to get object metric value: C",
            "failed to get object metric value: C",
        ),
        (
            of_object(AVERAGE),
            codes.OBJECT_AVERAGE,
            "C",
            "failed to get object metric value: failed to get hits object metric: C",
            "failed to get object metric value: failed to get hits object metric: C",
        ),
        (
            external(VALUE),
            codes.EXTERNAL_VALUE,
            "C",
            "failed to get queue external metric value: failed to get external metric queue: C",
            "failed to get external metric queue: C",
        ),
        (
            external(AVERAGE),
            codes.EXTERNAL_AVERAGE,
            "C",
            "failed to get queue external metric value: failed to get queue external metric: C",
            "failed to get queue external metric: C",
        ),
    ],
)
def test_prefixes_of_a_failed_metric(
    metric: MetricSpec, kind: int, event: str, error: str, old_error: str
) -> None:
    cause = "no metrics returned matched known pods"
    found = failure(metric, kind, codes.METRIC_NO_MATCH)
    assert found == (event.replace("C", cause), error.replace("C", cause))
    old_event, old = failure(metric, kind, codes.METRIC_NO_MATCH, "1.20")
    assert old == old_error.replace("C", cause)
    assert old_event == event.replace("usage", "utilization").replace("C", cause)


@pytest.mark.parametrize(
    ("metric", "kind", "reason"),
    [
        (
            CPU,
            codes.RESOURCE_UTILIZATION,
            "failed to get cpu utilization: unable to get metrics for resource cpu: unable to "
            "fetch metrics from resource metrics API: E",
        ),
        (
            IN_APP,
            codes.RESOURCE_UTILIZATION,
            "failed to get cpu utilization: unable to get metrics for resource cpu: unable to "
            "fetch metrics from resource metrics API: E",
        ),
        (
            QPS,
            codes.PODS_AVERAGE,
            "unable to get metric qps: unable to fetch metrics from custom metrics API: E",
        ),
        (
            of_object(VALUE),
            codes.OBJECT_VALUE,
            "unable to get metric hits on Service prod/main: unable to fetch metrics from custom "
            "metrics API: E",
        ),
        (
            external(VALUE, LabelSelector()),
            codes.EXTERNAL_VALUE,
            "unable to get external metric prod/queue/&LabelSelector{MatchLabels:map[string]string"
            "{},MatchExpressions:[]LabelSelectorRequirement{},}: unable to fetch metrics from "
            "external metrics API: E",
        ),
    ],
)
def test_apis_that_fail(metric: MetricSpec, kind: int, reason: str) -> None:
    assert failure(metric, kind, codes.METRIC_FETCH_FAILED)[0] == reason


def test_apis_that_have_nothing() -> None:
    empty = codes.METRIC_ANSWER_EMPTY
    cpu, _ = failure(CPU, codes.RESOURCE_UTILIZATION, empty)
    assert cpu.endswith("for resource cpu: no metrics returned from resource metrics API")
    hits, _ = failure(of_object(VALUE), codes.OBJECT_VALUE, empty)
    assert hits == (
        "unable to get metric hits on Service prod/main: unable to fetch metrics from custom "
        "metrics API: the custom metrics API server returned 0 results when we asked for exactly "
        "one"
    )


def test_a_failed_object_metric_before_1_37() -> None:
    old, _ = failure(of_object(VALUE), codes.OBJECT_VALUE, codes.METRIC_FETCH_FAILED, "1.36")
    assert old == (
        "unable to get metric hits: Service on prod main/unable to fetch metrics from custom "
        "metrics API: E"
    )


def test_a_sample_without_the_container_before_1_33() -> None:
    text = messages.lacking_container("app", "prod", "web-0")
    kind = codes.RESOURCE_UTILIZATION
    assert failure(IN_APP, kind, codes.METRIC_CONTAINER_LACKS, "1.32", text)[0] == (
        "failed to get cpu utilization: unable to get metrics for resource cpu: failed to get "
        "container metrics: container app not present in metrics for pod prod/web-0"
    )


@pytest.mark.parametrize(
    ("code", "k8s", "cause"),
    [
        (codes.METRIC_NO_REQUEST, "1.38", "E"),
        (
            codes.METRIC_NO_SAMPLES,
            "1.32",
            "did not receive metrics for targeted pods (pods might be unready)",
        ),
        (codes.METRIC_NO_SAMPLES, "1.26", "did not receive metrics for any ready pods"),
        (
            codes.METRIC_NO_PODS,
            "1.38",
            "no pods returned by selector while calculating replica count",
        ),
    ],
)
def test_causes(code: int, k8s: str, cause: str) -> None:
    event, _ = failure(CPU, codes.RESOURCE_UTILIZATION, code, k8s)
    assert event == f"failed to get cpu utilization: {cause}"


def test_ready_pods_of_totals_cannot_be_counted() -> None:
    event, _ = failure(external(VALUE), codes.EXTERNAL_VALUE, codes.METRIC_NO_PODS)
    assert event == (
        "unable to calculate ready pods: no pods returned by selector while calculating replica "
        "count"
    )


@pytest.mark.parametrize(
    ("metric", "k8s", "event"),
    [
        (
            MetricSpec("Resource", resource=ResourceMetricSource("cpu", UNSET)),
            "1.38",
            "invalid resource metric source: neither an average utilization target nor an average "
            "value (usage) target was set",
        ),
        (
            MetricSpec("Resource", resource=ResourceMetricSource("cpu", UNSET)),
            "1.20",
            "invalid resource metric source: neither a utilization target nor a value target was "
            "set",
        ),
        (
            of_object(UNSET),
            "1.38",
            "invalid object metric source: neither a value target nor an average value target was "
            "set",
        ),
        (
            external(UNSET),
            "1.38",
            "invalid external metric source: neither a value target nor an average value target "
            "was set",
        ),
    ],
)
def test_targets_that_cannot_be_used(metric: MetricSpec, k8s: str, event: str) -> None:
    found = failure(metric, codes.METRIC_UNUSABLE, codes.METRIC_BAD_TARGET, k8s)
    assert found[0] == event
    assert found[1].endswith(event)


def test_metrics_without_their_member_still_say_something() -> None:
    """Such a metric is refused by the API server; the texts name nothing rather than fail."""
    for kind in ("Resource", "ContainerResource", "Pods", "Object", "External"):
        for code in (codes.METRIC_BAD_TARGET, codes.METRIC_FETCH_FAILED):
            event, error = failure(MetricSpec(kind), codes.METRIC_UNUSABLE, code)
            assert event
            assert event in error


def test_an_unknown_type_is_quoted_and_once_was_a_format() -> None:
    odd = MetricSpec('Odd "%d"')
    text = r'unknown metric source type "Odd \"%d\""'
    found = failure(odd, codes.METRIC_UNUSABLE, codes.METRIC_UNKNOWN_TYPE)
    assert found == (text, text)
    old, _ = failure(odd, codes.METRIC_UNUSABLE, codes.METRIC_UNKNOWN_TYPE, "1.26")
    assert old == text.replace("%d", "%!d(MISSING)")


def test_several_failed_metrics() -> None:
    assert messages.invalid_metrics(2, 3, "E") == (
        "invalid metrics (2 invalid out of 3), first error is: E"
    )


# ---- a sync --------------------------------------------------------------------------------------


def test_rescales_and_errors_of_a_sync() -> None:
    assert messages.new_size(3, "why") == "New size: 3; reason: why"
    assert messages.failed_new_size(3, "", "E") == "New size: 3; reason: ; error: E"
    assert messages.rescale_error("Deployment/prod/web", "E") == (
        "failed to rescale Deployment/prod/web: E"
    )
    assert messages.compute_error("Deployment/prod/web", "E") == (
        "failed to compute desired number of replicas based on listed metrics for "
        "Deployment/prod/web: E"
    )
    assert messages.status_update_error("web", "E") == "failed to update status for web: E"


@pytest.mark.parametrize(
    ("scale", "error"),
    [
        (codes.SCALE_BAD_VERSION, "invalid API version in scale target reference: E"),
        (codes.SCALE_NO_RESOURCE, "unable to determine resource for scale target reference: E"),
        (codes.SCALE_GET_FAILED, "failed to query scale subresource for Deployment/prod/web: E"),
    ],
)
def test_errors_of_a_scale(scale: int, error: str) -> None:
    assert messages.scale_error(scale, "Deployment/prod/web", "E") == error
