"""The text of `kubectl describe hpa`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpabatch.errors import UsageError
from hpabatch.model.messages import Event
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    Condition,
    MetricSpec,
    MetricStatus,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.quantity import Quantity
from hpabatch.report.kubectl.describe import describe_text
from tests.report.kubectl_hpas import (
    NOW_MS,
    container,
    current,
    described,
    external,
    hpa,
    pods,
    resource,
)

CPU = resource(percent=80)
MEMORY = resource("memory", average="100Mi")
CONDITIONS = (
    Condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size"),
    Condition("ScalingLimited", "True", "TooFewReplicas", "the desired replica count is too low"),
)
EVENTS = [
    Event("Normal", "SuccessfulRescale", "New size: 4; reason: ", NOW_MS - 3500, NOW_MS - 3500),
    Event("Warning", "FailedGetScale", " no\n", NOW_MS - 86_400_000, NOW_MS - 125_000, 9),
]
WHOLE = """\
Name:                                                  web
Namespace:                                             shop
Labels:                                                <none>
Annotations:                                           <none>
CreationTimestamp:                                     Sun, 04 Oct 2026 10:58:29 +0000
Reference:                                             Deployment/web
Metrics:                                               ( current / target )
  resource cpu on pods  (as a percentage of request):  45% (90m) / 80%
  resource memory on pods:                             <unknown> / 100Mi
Min replicas:                                          2
Max replicas:                                          10
Deployment pods:                                       3 current / 4 desired
Conditions:
  Type            Status  Reason            Message
  ----            ------  ------            -------
  AbleToScale     True    ReadyForNewScale  recommended size matches current size
  ScalingLimited  True    TooFewReplicas    the desired replica count is too low
Events:
  Type     Reason             Age                 From                       Message
  ----     ------             ----                ----                       -------
  Warning  FailedGetScale     2m5s (x9 over 24h)  horizontal-pod-autoscaler  no
  Normal   SuccessfulRescale  4s                  horizontal-pod-autoscaler  New size: 4; reason:
"""
BEHAVIOR = """\
Metrics:            ( current / target )
Min replicas:       2
Max replicas:       10
Behavior:
  Scale Up:
    Stabilization Window: 60 seconds
    Select Policy: Disabled
    Policies:
      - Type: Pods     Value: 4      Period: 15 seconds
      - Type: Percent  Value: 10000  Period: 1800 seconds
  Scale Down:
    Select Policy: Max
    Policies:
      - Type: Pods  Value: 4  Period: 15 seconds
Deployment pods:    3 current / 4 desired
Events:             <none>
"""
LABELS = """\
Labels:             a=
                    tier=front
Annotations:        long:
                      {long}...
                    several:
                      first
                      second
                    short: value
CreationTimestamp:  Sun, 04 Oct 2026 10:58:29 +0000
"""


def describe(item: HPA, *events: Event, now_ms: int = NOW_MS) -> str:
    return describe_text(item, events, now_ms, k8s="1.36")


def with_conditions(item: HPA, *conditions: Condition) -> HPA:
    return replace(item, status=replace(item.status, conditions=conditions))


def test_the_whole_text() -> None:
    item = hpa(CPU, MEMORY, statuses=(current(CPU, average="90m", percent=45), MetricStatus()))
    text = describe(with_conditions(item, *CONDITIONS), *EVENTS)
    assert text == WHOLE


def test_without_events_their_line_is_aligned_with_those_before() -> None:
    lines = describe(hpa(CPU)).splitlines()
    assert lines[-1] == f"{'Events:':55}<none>"
    lines = describe(with_conditions(hpa(CPU), *CONDITIONS)).splitlines()
    assert lines[-1] == f"{'Events:':18}<none>"


@pytest.mark.parametrize(
    ("metric", "status", "line"),
    [
        (
            resource(), None,
            "resource cpu on pods  (as a percentage of request): <unknown> / <auto>",
        ),
        (
            CPU, current(CPU, percent=45),
            "resource cpu on pods  (as a percentage of request): 45% (<nil>) / 80%",
        ),
        (MEMORY, current(MEMORY, average="1Ki"), "resource memory on pods: 1Ki / 100Mi"),
        (
            container(percent=60), current(container(), average="36m", percent=7),
            'resource cpu of container "app" on pods  (as a percentage of request): 7% (36m) / 60%',
        ),
        (
            container("1"), current(container(), average="36m"),
            'resource cpu of container "app" on pods: 36m / 1',
        ),
        (pods("500m"), None, '"rps" on pods: <unknown> / 500m'),
        (pods("1", 'a"b'), current(pods("1")), '"a\\"b" on pods: <nil> / 1'),
        (described("10k"), None, '"hits" on Ingress/main (target value): <unknown> / 10k'),
        (
            described("10k"), current(described()),
            '"hits" on Ingress/main (target value): <nil> / 10k',
        ),
        (
            described("3", "2"), current(described(), "5", "4"),
            '"hits" on Ingress/main (target average value): 4 / 2',
        ),
        (external("30"), current(external(), "7"), '"queue" (target value): 7 / 30'),
        (external("30"), current(external()), '"queue" (target value): <nil> / 30'),
        (
            external(average="2"), current(external()),
            '"queue" (target average value): <unknown> / 2',
        ),
        (
            external(average="2"), current(external(), average="3"),
            '"queue" (target average value): 3 / 2',
        ),
        (MetricSpec("Nonsense"), None, '<unknown metric type "Nonsense">'),
    ],
)  # fmt: skip
def test_metrics(metric: MetricSpec, status: MetricStatus | None, line: str) -> None:
    text = describe(hpa(metric, statuses=None if status is None else (status,)))
    title, _, numbers = text.splitlines()[7].rpartition(":  ")
    assert (f"{title}: {numbers.strip()}" if title else numbers) == f"  {line}"


def test_behavior() -> None:
    policies = (ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 10_000, 1800))
    up = ScalingRules(60, "Disabled", policies, tolerance=Quantity.parse("50m"))
    down = ScalingRules(policies=policies[:1])
    item = hpa()
    item = replace(item, spec=replace(item.spec, behavior=Behavior(up, down)))
    assert describe(item).splitlines()[6:] == BEHAVIOR.splitlines()


@pytest.mark.parametrize(
    ("behavior", "lines"),
    [
        (Behavior(), []),
        (Behavior(scale_down=ScalingRules(policies=())), ["  Scale Down:"]),
        (
            Behavior(ScalingRules(0)),
            ["  Scale Up:", "    Stabilization Window: 0 seconds"],
        ),
    ],
)
def test_behavior_of_which_little_is_set(behavior: Behavior, lines: list[str]) -> None:
    item = hpa()
    item = replace(item, spec=replace(item.spec, behavior=behavior))
    assert describe(item).splitlines()[9:-2] == ["Behavior:", *lines]


def test_labels_and_annotations() -> None:
    annotations = (
        ("short", "value"), ("several", "first\nsecond\n"), ("long", "x" * 140),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
    )  # fmt: skip
    item = replace(hpa(), labels=(("tier", "front"), ("a", "")), annotations=annotations)
    assert "\n".join(describe(item).splitlines()[2:11]) + "\n" == LABELS.format(long="x" * 138)


@pytest.mark.parametrize(
    ("value", "below"), [("x" * 137, False), ("x" * 138, True), ("é" * 69, True), ("é" * 68, False)]
)
def test_a_long_annotation_stands_below_its_key(value: str, below: bool) -> None:
    lines = describe(replace(hpa(), annotations=(("k", value),))).splitlines()
    assert lines[3].endswith("k:" if below else f"k: {value}")


def test_an_annotation_is_cut_at_bytes() -> None:
    lines = describe(replace(hpa(), annotations=(("k", "a" + "é" * 100),))).splitlines()
    assert lines[4].strip() == "a" + "é" * 68 + "\N{REPLACEMENT CHARACTER}..."


def test_what_is_not_there() -> None:
    item = replace(hpa(namespace="", min_replicas=None), creation_timestamp=None)
    words = [line.split(maxsplit=1)[-1] for line in describe(item).splitlines()]
    assert words[1] == "default"
    assert words[4] == "Mon, 01 Jan 0001 00:00:00 +0000"
    assert words[7] == "replicas:       <unset>"


def test_events_stand_in_the_order_of_their_last_times() -> None:
    def event(first_ms: int, last_ms: int, message: str) -> Event:
        return Event("Normal", "R", message, NOW_MS + first_ms, NOW_MS + last_ms, 2)

    events = [event(-5000, -1200, "b"), event(-9000, -9000, "a"), event(-1, -1900, "c")]
    lines = describe(hpa(), *events).splitlines()[-3:]
    # The API keeps whole seconds, of which b and c have the same.
    assert [line.split()[-1] for line in lines] == ["a", "b", "c"]
    assert lines[1].split()[2:5] == ["2s", "(x2", "over"]


def test_what_could_drive_a_terminal_is_escaped() -> None:
    broken = Condition("T", "False", "R", "a\x1b[31mb\r")
    assert "R       a\\x1b[31mb\\r\n" in describe(with_conditions(hpa(), broken))


def test_a_version_that_is_none() -> None:
    with pytest.raises(UsageError):
        describe_text(hpa(), (), NOW_MS, k8s="latest")
