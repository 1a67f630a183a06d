"""Statuses and events of a history where its tables say more, or less, than golden data do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.naive_align import Row
from tests.engine.small_history import (
    METRICS,
    STEP,
    T0,
    fetch_row,
    hpa_row,
    request_row,
    scale_row,
    usage_row,
)
from tests.engine.told import (
    CONTAINER,
    CPU,
    FITS,
    READ,
    WITHIN,
    Told,
    at,
    inactive,
    one,
    valid,
    web,
)


def failing(found: Told) -> tuple[str, str]:
    """Return event and error of the one metric of a sync that failed, all else being as usual."""
    (first_type, reason, event), (second_type, second, computed) = found.events
    assert (first_type, second_type, second) == (
        "Warning", "Warning", "FailedComputeMetricsReplicas",
    )  # fmt: skip
    error = computed.removeprefix("invalid metrics (1 invalid out of 1), first error is: ")
    assert error != computed
    target = "failed to compute desired number of replicas based on listed metrics for "
    assert found.error == f"{target}Deployment/shop/web: {computed}"
    assert found.conditions()[:2] == [READ, inactive(reason, event)]
    assert found.error_label == "internal"
    return event, error


# ---- a calm HPA ----------------------------------------------------------------------------------


def test_nothing_is_told_while_the_scale_is_not_known(tmp_path: Path) -> None:
    found = one(web(scales=[scale_row("web", T0 + 2 * STEP, 2)]), tmp_path)
    for tick in found[:2]:
        assert tick.status == {"desiredReplicas": 0, "currentMetrics": None}
        assert (tick.events, tick.error) == ([], None)
    assert found[2].since() == dict.fromkeys(found[0].since() | found[2].since(), at(2))


# ---- metrics that fail ---------------------------------------------------------------------------

FETCH = "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API"


def with_answers(*answers: tuple[str, str | None], metric: int = 0) -> list[Row]:
    """Return the answers of a metric's API, one a tick."""
    return [
        fetch_row("one", metric, T0 + k * STEP, answer) | {"error": text}
        for k, (answer, text) in enumerate(answers)
    ]


def test_an_error_of_an_api_with_and_without_its_text(tmp_path: Path) -> None:
    answers = with_answers(
        ("ok", None), ("error", "the server is busy"), ("error", None), ("empty", "x"), ("ok", "y")
    )
    found = one(web(metric_fetches=answers), tmp_path)
    assert [bool(tick.events) for tick in found] == [False, True, True, True] + [False] * 3
    event = f"failed to get cpu utilization: {FETCH}: the server is busy"
    error = f"failed to get cpu resource metric value: {event}"
    assert failing(found[1]) == (event, error)
    assert failing(found[2])[0] == (
        f"failed to get cpu utilization: {FETCH}: <the error's text was not recorded>"
    )
    assert failing(found[3])[0] == (
        "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics "
        "returned from resource metrics API"
    )
    # What was not touched stays, and what turned again has the time of its last turn.
    assert found[3].conditions()[2] == WITHIN
    assert found[3].since() == {
        "AbleToScale": at(0), "ScalingActive": at(1), "ScalingLimited": at(0),
    }  # fmt: skip
    assert found[3].status["currentMetrics"] == [{"type": ""}]
    assert found[4].conditions() == [FITS, valid(), WITHIN]
    assert found[4].since()["ScalingActive"] == at(4)


MEMORY = METRICS[1]
POD_LEVEL = request_row("web-1", "", kind="pod", cpu_milli=None, memory_milli=5000)


@pytest.mark.parametrize(
    ("k8s", "metric", "rows", "words"),
    [
        (
            "1.38", CPU, [request_row("web-1", "proxy", index=1, cpu_milli=None)],
            "missing request for cpu in container proxy of Pod web-1",
        ),
        ("1.20", CPU, [request_row("web-1", "proxy", cpu_milli=None)], "missing request for cpu"),
        (
            "1.38", MEMORY, [request_row("web-1", memory_milli=None)],
            "missing request for memory in container app of Pod web-1",
        ),
        ("1.38", CONTAINER, [request_row("web-1", "mesh")], "container app not found in Pod web-1"),
        (
            "1.38", CPU, [request_row("web-1", cpu_milli=None), POD_LEVEL],
            "missing pod-level request for cpu in Pod web-1",
        ),
        # The containers were not recorded.
        ("1.38", CPU, [], "missing request for cpu in container <not recorded> of Pod web-1"),
        ("1.38", CONTAINER, [], "missing request for cpu in container app of Pod web-1"),
        ("1.20", CPU, [], "missing request for cpu"),
    ],
)  # fmt: skip
def test_a_request_that_is_missing_names_container_and_pod(
    tmp_path: Path, k8s: str, metric: Row, rows: list[Row], words: str
) -> None:
    usage = [row | {"memory_bytes": 800} for row in web()["pod_metrics"]]
    tables = web(metric, pod_requests=[request_row("web-0"), *rows], pod_metrics=usage)
    found = one(tables, tmp_path, k8s)[0]
    kind = "memory" if metric is MEMORY else "cpu"
    assert failing(found)[0] == f"failed to get {kind} utilization: {words}"


def test_old_versions_failed_where_a_sample_lacks_the_container(tmp_path: Path) -> None:
    lacking = {("web-1", 2), ("web-1", 3), ("web-0", 3)}
    rows = [
        usage_row(pod, T0 + k * STEP, 60, container="mesh" if (pod, k) in lacking else "app")
        for pod in ("web-0", "web-1")
        for k in range(5)
    ]
    tables = web(CONTAINER, pod_metrics=rows)
    found = one(tables, tmp_path, "1.32")
    assert [bool(tick.events) for tick in found] == [False, False, True, True, False]
    event = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: failed to get "
        "container metrics: container app not present in metrics for pod shop/web-1"
    )
    assert failing(found[2]) == (event, f"failed to get app container metric value: {event}")
    assert found[2].conditions()[1][2] == "FailedGetContainerResourceMetric"
    # Of several pods the first one is named.
    assert failing(found[3])[0] == event.replace("web-1", "web-0")
    # Later the pod is one without a sample.
    found = one(tables, tmp_path, "1.33")
    assert [bool(tick.events) for tick in found] == [False, False, False, True, False]
    assert failing(found[3])[0].endswith("for targeted pods (pods might be unready)")


# ---- scales and restarts -------------------------------------------------------------------------


def test_pods_that_go_by_their_owner_have_no_selector_to_name(tmp_path: Path) -> None:
    hpas = [hpa_row(name, "web", [CPU]) for name in ("one", "two")]
    tables = web(hpas=hpas, scales=[scale_row("web", T0, 2, selector=None)])
    text = one(tables, tmp_path, "1.36")[1].events[0][2]
    assert text.startswith("pods by selector <not recorded> are controlled by multiple HPAs: [")


@pytest.mark.parametrize(
    ("error", "failed", "label"),
    [
        (
            'deployments.apps "web" not found',
            "failed to query scale subresource for Deployment/shop/web: {}",
            "internal",
        ),
        (
            'no matches for kind "Web" in group "x.io"',
            "unable to determine resource for scale target reference: {}",
            "internal",
        ),
        (
            "unexpected GroupVersion string: a/b/c",
            "invalid API version in scale target reference: {}",
            "spec",
        ),
    ],
)
def test_a_scale_that_cannot_be_read(tmp_path: Path, error: str, failed: str, label: str) -> None:
    # 125 % of 50 %: 5, at most 4 at once; then the wish of the first sync holds for 5 minutes.
    usage = [usage_row(pod, T0, 125) for pod in ("web-0", "web-1")]
    usage += [row for row in web()["pod_metrics"] if row["ts"] > T0]
    scales = [
        scale_row("web", T0 - STEP, 2),
        scale_row("web", T0 + 1, 2, error=error),
        scale_row("web", T0 + 3 * STEP + 1, 2),
    ]
    found = one(web(pod_metrics=usage, scales=scales), tmp_path)
    text = f"the HPA controller was unable to get the target's current scale: {error}"
    for tick in found[1:4]:
        assert tick.events == [("Warning", "FailedGetScale", error)]
        assert tick.conditions()[0] == ("AbleToScale", "False", "FailedGetScale", text)
        assert (tick.error, tick.error_label) == (failed.format(error), label)
        # Nothing else of the status changes.
        assert {**tick.status, "conditions": None} == {**found[0].status, "conditions": None}
        assert tick.conditions()[1:] == found[0].conditions()[1:]
    # What was wished before is still known, and of a change of size there was none.
    assert found[4].events == [("Normal", "SuccessfulRescale", "New size: 4; reason: ")]
