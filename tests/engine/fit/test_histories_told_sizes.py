"""Selectors, sizes and restarts: a history's statuses and events, written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.small_history import STEP, T0, hpa_row, scale_row, start_row, usage_row
from tests.engine.told import (
    CPU,
    CPU_WORDS,
    FITS,
    NOT_ZERO,
    PER_REPLICA,
    READ,
    START,
    WITHIN,
    at,
    hits,
    one,
    tell,
    valid,
    web,
    written,
)

# ---- selectors -----------------------------------------------------------------------------------


def test_a_selector_that_is_missing(tmp_path: Path) -> None:
    found = one(web(scales=[scale_row("web", T0, 2, selector="")]), tmp_path)[0]
    assert found.events == [
        ("Warning", "SelectorRequired", "selector is required"),
        ("Warning", "FailedComputeMetricsReplicas", "selector is required"),
    ]
    assert found.conditions()[1:] == [
        ("ScalingActive", "False", "InvalidSelector",
         "the HPA target's scale is missing a selector"),
    ]  # fmt: skip
    assert found.status["currentMetrics"] is None


@pytest.mark.parametrize(
    ("k8s", "words"),
    [
        ("1.38", "in, notin, =, ==, !=, gt, lt"),
        ("1.26", "in, notin, =, ==, !=, gt, lt"),
        ("1.20", "'=', '!=', '==', 'in', notin'"),
    ],
)
def test_a_selector_that_does_not_parse(tmp_path: Path, k8s: str, words: str) -> None:
    tables = web(scales=[scale_row("web", T0, 2, selector="cheddar cheese in (a")])
    found = one(tables, tmp_path, k8s)[0]
    text = (
        "couldn't convert selector into a corresponding internal selector object: unable to parse "
        f"requirement: found 'cheese', expected: {words}"
    )
    assert found.events == [
        ("Warning", "InvalidSelector", text),
        ("Warning", "FailedComputeMetricsReplicas", text),
    ]
    assert found.conditions() == [READ, ("ScalingActive", "False", "InvalidSelector", text)]
    assert found.error == (
        "failed to compute desired number of replicas based on listed metrics for "
        f"Deployment/shop/web: {text}"
    )


SEVERAL = "pods by selector app=web are controlled by multiple HPAs: "
MORE = "pods by selector app=web are controlled by more than one HPA (e.g. "


@pytest.mark.parametrize(
    ("k8s", "names", "text"),
    [
        ("1.36", ("one", "two"), f"{SEVERAL}[shop/one shop/two]"),
        ("1.36", ("one", "two", "zwei"), f"{SEVERAL}[shop/one shop/two shop/zwei]"),
        ("1.38", ("one", "two"), f"{MORE}[shop/one shop/two])"),
        ("1.38", ("one", "two", "zwei"), f"{MORE}[shop/one shop/two])"),
    ],
)
def test_a_selector_that_several_hpas_have(
    tmp_path: Path, k8s: str, names: tuple[str, ...], text: str
) -> None:
    tables = web(hpas=[hpa_row(name, "web", [CPU]) for name in names])
    found = tell(tables, tmp_path, k8s)
    assert sorted(found) == sorted(names)
    # The first one acts once: the others are not known yet.
    assert found["one"][0].events == []
    for name in names:
        for tick in found[name][1:]:
            assert tick.events == [
                ("Warning", "AmbiguousSelector", text),
                ("Warning", "FailedComputeMetricsReplicas", text),
            ]
            assert tick.conditions()[1] == ("ScalingActive", "False", "AmbiguousSelector", text)
            assert tick.status["currentMetrics"] is None
    assert found["one"][1].since()["ScalingActive"] == at(1)
    assert found["two"][1].since()["ScalingActive"] == at(0)


def test_the_group_of_a_selector_changes_with_time(tmp_path: Path) -> None:
    hpas = [
        hpa_row("one", "web", [CPU]),
        hpa_row("two", "web", [CPU], valid_to=T0 + 3 * STEP),
        hpa_row("zwei", "web", [CPU], valid_from=T0 + 2 * STEP, valid_to=T0 + 5 * STEP),
    ]
    found = one(web(hpas=hpas), tmp_path, "1.36")
    groups = [tick.events[0][2].rpartition(": ")[2] if tick.events else "" for tick in found]
    assert groups == [
        "",
        "[shop/one shop/two]",
        "[shop/one shop/two]",  # the third one's first sync comes later
        "[shop/one shop/zwei]",
        "[shop/one shop/zwei]",
        "",
        "",
    ]
    assert found[6].since()["ScalingActive"] == at(5)


def test_pods_that_go_by_their_owner_have_no_selector_to_name(tmp_path: Path) -> None:
    hpas = [hpa_row(name, "web", [CPU]) for name in ("one", "two")]
    tables = web(hpas=hpas, scales=[scale_row("web", T0, 2, selector=None)])
    text = one(tables, tmp_path, "1.36")[1].events[0][2]
    assert text.startswith("pods by selector <not recorded> are controlled by multiple HPAs: [")


def test_1_20_does_not_look_for_other_hpas(tmp_path: Path) -> None:
    tables = web(hpas=[hpa_row(name, "web", [CPU]) for name in ("one", "two")])
    for ticks in tell(tables, tmp_path, "1.20").values():
        assert all(tick.conditions() == [FITS, valid(), WITHIN] for tick in ticks)
    assert tell(tables, tmp_path, "1.26")["one"][1].events


# ---- sizes ---------------------------------------------------------------------------------------

IS_ZERO = ("ScaledToZero", "True", "ScaledToZero",
           "the HPA controller scaled the workload to zero")  # fmt: skip


def test_a_size_beyond_the_limits_is_set_without_any_metric(tmp_path: Path) -> None:
    scales = [scale_row("web", T0 - STEP, 9), scale_row("web", T0 + STEP + 1, 1)]
    hpas = [hpa_row("one", "web", [CPU], spec={"minReplicas": 2})]
    found = one(web(scales=scales, hpas=hpas), tmp_path)
    above = "New size: 5; reason: Current number of replicas above Spec.MaxReplicas"
    below = "New size: 2; reason: Current number of replicas below Spec.MinReplicas"
    for k, (tick, text, size) in enumerate(
        zip(found, [above] * 2 + [below] * 5, [5] * 2 + [2] * 5, strict=True)
    ):
        assert tick.events == [("Normal", "SuccessfulRescale", text)]
        assert tick.conditions() == [written(size), NOT_ZERO]
        assert tick.since() == {"AbleToScale": START, "ScaledToZero": START}
        assert tick.status["lastScaleTime"] == at(k)
        assert tick.status["currentMetrics"] is None
        assert tick.status["currentReplicas"] == (9 if size == 5 else 1)
        assert tick.status["desiredReplicas"] == size
    assert one(web(scales=scales, hpas=hpas), tmp_path, "1.36")[0].conditions() == [written(5)]


def test_scaling_to_zero_and_back(tmp_path: Path) -> None:
    # 100m hits a replica are asked for: 0, then 3 again. Two replicas at T0, none after 1 s.
    spec = {"minReplicas": 0, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
    tables = web(
        hpas=[hpa_row("one", "web", [PER_REPLICA], spec=spec)],
        scales=[scale_row("web", T0 - STEP, 2), scale_row("web", T0 + 1000, 0)],
        object_metrics=hits(0, 0, 300, None, 300),
    )
    found = one(tables, tmp_path, "1.37")
    hits_words = "external metric hits(nil)"  # as upstream calls an average of an object
    assert found[0].events == [
        ("Normal", "SuccessfulRescale", "New size: 0; reason: All metrics below target")
    ]
    assert found[0].conditions() == [written(0), valid(hits_words), WITHIN, IS_ZERO]
    # At zero it goes on: it was the HPA that put it there.
    assert found[1].events == []
    assert found[1].conditions() == [FITS, valid(hits_words), WITHIN, IS_ZERO]
    assert "currentReplicas" not in found[1].status
    assert found[2].events == [
        ("Normal", "SuccessfulRescale", f"New size: 3; reason: {hits_words} above target")
    ]
    assert found[2].conditions() == [written(3), valid(hits_words), WITHIN, NOT_ZERO]
    assert found[2].since()["ScaledToZero"] == at(2)
    assert found[2].status["currentMetrics"] == [
        {
            "type": "Object",
            "object": {
                "metric": {"name": "hits"},
                # Until 1.37 an average over no replicas is what the processor makes of infinity.
                "current": {"averageValue": "-9223372036854775808m"},
                "describedObject": {
                    "kind": "Ingress", "name": "front", "apiVersion": "networking.k8s.io/v1",
                },
            },
        }
    ]  # fmt: skip
    # The target stayed at zero, though the HPA would have left: now it is not the HPA's doing.
    assert found[3].conditions()[1] == (
        "ScalingActive", "False", "ScalingDisabled",
        "scaling is disabled since the replica count of the target is zero",
    )  # fmt: skip
    assert found[3].events == []


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (
            'deployments.apps "web" not found',
            "failed to query scale subresource for Deployment/shop/web: {}",
        ),
        (
            'no matches for kind "Web" in group "x.io"',
            "unable to determine resource for scale target reference: {}",
        ),
        (
            "unexpected GroupVersion string: a/b/c",
            "invalid API version in scale target reference: {}",
        ),
    ],
)
def test_a_scale_that_cannot_be_read(tmp_path: Path, error: str, failed: str) -> None:
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
        assert tick.error == failed.format(error)
        # Nothing else of the status changes.
        assert {**tick.status, "conditions": None} == {**found[0].status, "conditions": None}
        assert tick.conditions()[1:] == found[0].conditions()[1:]
    # What was wished before is still known, and of a change of size there was none.
    assert found[4].events == [("Normal", "SuccessfulRescale", "New size: 4; reason: ")]


def test_a_controller_that_starts_again(tmp_path: Path) -> None:
    # 125 % of 50 %: 5, at most 4 at once. The wish is kept for 5 minutes, until the start at 30 s.
    usage = [usage_row(pod, T0, 125) for pod in ("web-0", "web-1")]
    usage += [row for row in web()["pod_metrics"] if row["ts"] > T0]
    tables = web(pod_metrics=usage, controller=[start_row(T0 + 3 * STEP - 1)])
    found = one(tables, tmp_path)
    words = "the desired replica count is increasing faster than the maximum scale rate"
    limit = ("ScalingLimited", "True", "ScaleUpLimit", words)
    assert found[0].events == [
        ("Normal", "SuccessfulRescale", f"New size: 4; reason: {CPU_WORDS} above target")
    ]
    # The proposal is that of the current size, so the event has no reason.
    for tick in found[1:3]:
        assert tick.events == [("Normal", "SuccessfulRescale", "New size: 4; reason: ")]
        assert tick.conditions() == [written(4), valid(), limit, NOT_ZERO]
    for tick in found[3:]:
        assert tick.events == []
        assert tick.conditions() == [FITS, valid(), WITHIN, NOT_ZERO]
        # The status is the API server's: nothing of it is lost.
        assert tick.status["lastScaleTime"] == at(2)
        assert tick.since() == {
            "AbleToScale": at(0), "ScalingActive": at(0), "ScalingLimited": at(3),
            "ScaledToZero": at(0),
        }  # fmt: skip


def test_a_window_that_holds(tmp_path: Path) -> None:
    tables = web(cpu_milli=10)
    found = one(tables, tmp_path)[1]
    held = ("AbleToScale", "True", "ScaleDownStabilized",
            "recent recommendations were higher than current one, applying the highest recent "
            "recommendation")  # fmt: skip
    assert found.conditions() == [held, valid(), WITHIN]
    assert (found.events, found.status["desiredReplicas"]) == ([], 2)
