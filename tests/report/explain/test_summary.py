"""The last sentence of an explanation, for every way that a decision can go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpabatch.engine.explain.facts import Explanation
from hpabatch.layout import codes
from hpabatch.report.explain.document import ExplainReport
from hpabatch.report.explain.summary import summary_sentence
from hpabatch.report.forms import json_text, table_text
from tests.report.explain.test_document import everything, last, of_pods
from tests.rules.helpers import (
    EXACT_WISH,
    FETCH_FAILED,
    NO_TOLERANCE,
    SCALED_TO_ZERO,
    Pod,
    external,
    hpa_spec,
    object_metric,
    pods_metric,
    policies,
    resource,
    some,
    status_with,
    tick,
    total,
    usages,
    wish,
)

WINDOW = {"scaleUp": {"stabilizationWindowSeconds": 60}}
DOWN = policies(("Percent", 90, 15), stabilizationWindowSeconds=0)
CPU = resource(60)


def said(explanation: Explanation) -> str:
    """Return the sentence without the name that it begins with."""
    text = summary_sentence(explanation)
    name = f"{explanation.namespace}/{explanation.hpa} "
    assert text.startswith(name)
    assert text.endswith(".")
    return text.removeprefix(name).removesuffix(".")


@pytest.mark.parametrize(
    ("explanation", "expected"),
    [
        (of_pods(CPU, some(3, 1200), 3), "goes from 3 to 6 replicas: cpu is at 120% of the "
         "requests (target 60%), which asks for 6 replicas"),
        (of_pods(CPU, some(3, 600), 3), "stays at 3 replicas: cpu is at 60% of the requests "
         "(target 60%), within the tolerance"),
        (of_pods(CPU, some(8, 200) + some(2, None), 10), "goes from 10 to 6 replicas: cpu is at "
         "36% of the requests (target 60%, with pods without a usable sample counted in), which "
         "asks for 6 replicas"),
        (of_pods(resource(50), some(3, 300) + some(2, None), 5), "stays at 5 replicas: cpu is at "
         "58% of the requests (target 50%, with pods without a usable sample counted in), but "
         "pods without a usable sample leave that in doubt"),
        (of_pods(resource(average="400Mi", name="memory"), some(2, 2**28 * 1000), 2),
         "stays at 2 replicas: memory is at 256Mi a pod on average (target 400Mi), which "
         "asks for 2 replicas"),
        (last(hpa_spec(external(value="100")), tick(0, 1, [Pod(1)], [total(500_000)])),
         "goes from 1 to 4 replicas: queue is at 500 in all (target 100), which asks for 5 "
         "replicas; without behavior one sync goes to twice the size, or 4, at most: 4"),
        (last(hpa_spec(object_metric(average="30")), tick(0, 2, [], [total(90_000)])),
         "goes from 2 to 3 replicas: hits is at 90 in all (target 30 a pod), which asks for 3 "
         "replicas"),
        (last(hpa_spec(object_metric(average="30")), tick(0, 2, [], [total(91_000)], status=3)),
         "goes from 2 to 3 replicas: hits is at 91 in all (target 30 a pod), which is on target "
         "for the 3 pods that the workload had while its spec asked for 2 (a rollout's surge, "
         "or a change of size under way), so it asks for 3 replicas"),
        (last(hpa_spec(object_metric(average="30")), tick(0, 4, [], [total(91_000)], status=3)),
         "goes from 4 to 3 replicas: hits is at 91 in all (target 30 a pod), which is on target "
         "for the 3 pods that the workload had while its spec asked for 4 (some were not "
         "created yet), so it asks for 3 replicas"),
        (of_pods(CPU, some(13, 720), 10), "goes from 10 to 16 replicas: cpu is at 72% of the "
         "requests (target 60%), which asks for 16 replicas, as it counts the 13 pods that the "
         "workload had while its spec asked for 10 (a rollout's surge, or a change of size under "
         "way)"),
        (of_pods(CPU, some(2, 100) + some(1, 1800), 3), "stays at 3 replicas: cpu is at 66% of the "
         "requests (target 60%), within the tolerance; its pods differ: 10% (p0) to 180% "
         "(p2)"),
        (last(hpa_spec(CPU, EXACT_WISH), tick(0, 3, some(3, 600), [usages(some(3, 600)),
         total(2000)])), "stays at 3 replicas: cpu is at 60% of the requests (target 60%), within "
         "the tolerance, so it asks for 3 replicas, the most of its 2 metrics"),
    ],
)  # fmt: skip
def test_what_the_metrics_ask_for(explanation: Explanation, expected: str) -> None:
    assert said(explanation) == expected


def test_what_holds_it() -> None:
    held = [(9, -301), (7, -200)]
    spec = hpa_spec(EXACT_WISH, high=6)
    assert said(last(spec, wish(0, 5, 3), flags=NO_TOLERANCE, recommendations=held)) == (
        "goes from 5 to 6 replicas: queue is at 3 in all (target 1 a pod), which asks for 3 "
        "replicas; the scale-down window raises that to 7, the largest recommendation of the last "
        "5m; maxReplicas does not allow more than 6"
    )
    spec = hpa_spec(EXACT_WISH, behavior=WINDOW)
    assert said(last(spec, wish(0, 5, 9), flags=NO_TOLERANCE, recommendations=[(6, -59)])).endswith(
        "which asks for 9 replicas; the scale-up window lets it go no further than 6, the "
        "smallest recommendation of the last 1m"
    )
    kept = last(spec, wish(0, 5, 9), flags=NO_TOLERANCE, recommendations=[(5, -59)])
    assert said(kept).endswith(
        "; the scale-up window keeps it at 5, the smallest recommendation of the last 1m"
    )


def test_windows_that_leave_the_size_alone_name_their_ends() -> None:
    # The size is between the ends of the two windows: it is no recommendation itself.
    spec = hpa_spec(EXACT_WISH, behavior=WINDOW)
    up = last(spec, wish(0, 5, 9), flags=NO_TOLERANCE, recommendations=[(3, -59)])
    assert said(up) == (
        "stays at 5 replicas: queue is at 9 in all (target 1 a pod), which asks for 9 replicas; "
        "the scale-up window keeps it at 5, as the smallest recommendation of the last 1m is 3"
    )
    down = last(spec, wish(0, 5, 3), flags=NO_TOLERANCE, recommendations=[(8, -100)])
    assert said(down).endswith(
        "; the scale-down window keeps it at 5, as the largest recommendation of the last 5m is 8"
    )


@pytest.mark.parametrize(
    ("behavior", "low", "wished", "expected"),
    [
        ({"scaleUp": policies(("Pods", 2, 60))}, 1, 20,
         "its scale-up policies allow no more than 7 now"),
        ({"scaleDown": policies(("Pods", 1, 60), stabilizationWindowSeconds=0)}, 1, 2,
         "its scale-down policies allow no fewer than 4 now"),
        ({"scaleDown": DOWN}, 3, 1, "minReplicas does not allow fewer than 3"),
        ({"scaleDown": DOWN | {"selectPolicy": "Disabled"}}, 1, 2, "scaling down is disabled"),
        ({"scaleUp": {"selectPolicy": "Disabled"}}, 1, 9, "scaling up is disabled"),
        ({"scaleUp": policies(("Percent", 900, 15))}, 1, 20,
         "maxReplicas does not allow more than 12"),
    ],
)  # fmt: skip
def test_policies_and_bounds(
    behavior: dict[str, object], low: int, wished: int, expected: str
) -> None:
    spec = hpa_spec(EXACT_WISH, low=low, high=12, behavior=behavior)
    found = last(spec, wish(0, 5, wished), flags=NO_TOLERANCE, recommendations=[])
    assert said(found).endswith(f"; {expected}"), said(found)


@pytest.mark.parametrize("behavior", [None, {"scaleDown": DOWN}])
def test_the_bounds_named_are_those_of_the_hpa(behavior: dict[str, object] | None) -> None:
    spec = hpa_spec(EXACT_WISH, low=3, high=12, behavior=behavior)
    low = last(spec, wish(0, 5, 1), flags=NO_TOLERANCE, recommendations=[])
    assert said(low).endswith("; minReplicas does not allow fewer than 3")
    high = last(spec, wish(0, 8, 20), flags=NO_TOLERANCE, recommendations=[])
    assert said(high).endswith("; maxReplicas does not allow more than 12")


def test_several_metrics_and_failed_ones() -> None:
    spec = hpa_spec(CPU, EXACT_WISH)
    grown = last(spec, tick(0, 5, [], [FETCH_FAILED, total(7000)]), flags=NO_TOLERANCE)
    assert said(grown) == (
        "goes from 5 to 7 replicas: queue is at 7 in all (target 1 a pod), which asks for 7 "
        "replicas, the only one of its 2 metrics that did not fail"
    )
    three = hpa_spec(CPU, EXACT_WISH, external(average="1", name="lag"))
    grown = last(three, tick(0, 5, [], [FETCH_FAILED, total(7000), total(1200)]),
                 flags=NO_TOLERANCE)  # fmt: skip
    assert said(grown).endswith(", the most of those 2 of its 3 metrics that did not fail")
    kept = last(spec, tick(0, 5, [], [FETCH_FAILED, total(4000)]), flags=NO_TOLERANCE)
    assert said(kept).startswith(
        "stays at 5 replicas: 1 of its 2 metrics failed, and without it the target must not "
        "shrink ("
    )
    none = last(spec, tick(0, 5, [], [FETCH_FAILED, FETCH_FAILED]))
    assert said(none).startswith("stays at 5 replicas: each of its metrics failed (")
    only = last(hpa_spec(CPU), tick(0, 5, [], [FETCH_FAILED]))
    assert said(only).startswith("stays at 5 replicas: its metric failed (")


def test_without_metrics() -> None:
    spec = hpa_spec(CPU)
    assert said(of_pods(CPU, some(3, 1), 1001)) == (
        "goes from 1001 to 1000 replicas: 1001 is above maxReplicas 1000"
    )
    assert said(last(hpa_spec(CPU, low=3), tick(0, 2, some(2, 1)))) == (
        "goes from 2 to 3 replicas: 2 is below minReplicas 3"
    )
    assert said(of_pods(CPU, [], 0)) == (
        "stays at 0 replicas: a target at 0 is left alone, since this HPA did not put it there"
    )
    raised = hpa_spec(external(value="100"), low=2, behavior={"scaleUp": policies(("Pods", 1, 60))})
    found = last(raised, tick(0, 0, [], [total(0)]), status=status_with(SCALED_TO_ZERO))
    assert said(found).endswith("; from 0 it goes to minReplicas 2 at least")
    read = last(spec, tick(0, 3, scale=codes.SCALE_GET_FAILED, scale_error="gone"))
    assert said(read) == "changes nothing: the scale of its target could not be read (gone)"
    missing = last(spec, tick(0, 3, selector=codes.SELECTOR_MISSING))
    assert said(missing).endswith(": its pods cannot be told, as selector is required")
    write = last(
        spec, tick(0, 3, some(3, 900), scale=codes.SCALE_UPDATE_FAILED, scale_error="conflict")
    )
    assert said(write).startswith("stays at 3 replicas: cpu is at 90% of the requests")
    assert said(write).endswith("; the new size, 5, could not be written (conflict)")
    unknown = last(spec, tick(0, 3, scale=codes.SCALE_UNKNOWN))
    assert "its replicas were not recorded" in summary_sentence(unknown)


def test_averages_of_custom_metrics() -> None:
    pods = some(3, 20)
    found = last(hpa_spec(pods_metric("10m")), tick(0, 3, pods, None))
    assert said(found).startswith("goes from 3 to 6 replicas: ")
    assert "is at 20m a pod on average (target 10m), which asks for 6 replicas" in said(found)


@pytest.mark.parametrize(
    ("used", "shown"),
    [(70_234_521_600, "66.98Mi"), (5137 * 2**10 * 1000, "5.017Mi"), (2**30 * 1500, "1.5Gi"),
     (2**40 * 5000, "5120Gi"), (2**20 * 1000, "1Mi"), (900_000, "900"), (0, "0")],
)  # fmt: skip
def test_memory_is_told_in_few_digits(used: int, shown: str) -> None:
    found = of_pods(resource(average="400Mi", name="memory"), some(2, used), 2)
    assert f": memory is at {shown} a pod on average (target 400Mi)" in f": {said(found)}"


def test_a_message_of_several_lines_stays_one() -> None:
    found = last(
        hpa_spec(CPU), tick(0, 3, scale=codes.SCALE_GET_FAILED, scale_error="gone\nfor good")
    )
    assert table_text(ExplainReport(found)).splitlines()[-1].startswith("shop/ changes nothing")


@pytest.mark.parametrize("explanation", everything())
def test_it_is_the_last_line_of_every_form(explanation: Explanation) -> None:
    sentence = summary_sentence(explanation)
    assert table_text(ExplainReport(explanation)).splitlines()[-1] == sentence
    assert f'"summary": "{sentence}"' in json_text(ExplainReport(explanation)).replace("\\", "")


def test_nothing_of_a_history_drives_the_terminal() -> None:
    explanation = replace(of_pods(CPU, some(3, 600), 3), hpa="web\x1b[2J")
    assert "\x1b" not in table_text(ExplainReport(explanation))


def test_a_negative_wish_is_none() -> None:
    found = last(hpa_spec(object_metric(average="1")), tick(0, 5, [], [total(-3000)]))
    assert "which asks for 0 replicas (-3 counts as 0)" in said(found)
