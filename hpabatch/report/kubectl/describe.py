"""The text of `kubectl describe hpa`.

Follows k8s.io/kubectl pkg/describe/describe.go: describeHorizontalPodAutoscalerV2 (V2beta2 in
1.20, whose text is the same), DescribeEvents, printLabelsMultiline and printAnnotationsMultiline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from typing import Any, ClassVar, Final

import polars as pl

from hpabatch.model.messages import COMPONENT, Event
from hpabatch.model.objects.field_errors import go_quote
from hpabatch.model.objects.hpa import (
    HPA,
    ContainerResourceMetricSource,
    ExternalMetricSource,
    MetricSpec,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricSource,
    PodsMetricSource,
    ScalingRules,
)
from hpabatch.model.printable import counted, printable_line
from hpabatch.model.times import show_instant
from hpabatch.report.base import Grid, Head, Output, Result, View
from hpabatch.report.kubectl.text import (
    NONE,
    UNKNOWN,
    UNSET,
    columns,
    current_of,
    human_duration,
    read_time,
    release_of,
    show,
    target_of,
)

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATION = 140  # bytes of `key: value`; a longer one stands below its key, cut
_Cells = tuple[str, ...]
_NO_TIME = "Mon, 01 Jan 0001 00:00:00 +0000"


_EVENT: Final = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp")


@dataclass(frozen=True, repr=False)
class Descriptions(Result):
    """HPAs as `kubectl describe hpa` would have described them.

    Attributes:
        at_ms: the time, ms since 1970.
        texts: a description for each HPA.
        items: the same as plain values: cluster, sync, k8s, hpa, error, events.
        left_out: a sentence for each HPA that was asked for and is not shown.
        notes: sentences on events that may not be the cluster's.
    """

    at_ms: int
    texts: Sequence[str]
    items: Sequence[Mapping[str, Any]]
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    shows_verdict: ClassVar[bool] = False

    @property
    def verdict(self) -> str:
        """The number of HPAs, and the time."""
        return f"{counted(len(self.texts), 'HPA')} described at {show_instant(self.at_ms)}"

    def __len__(self) -> int:
        """Return the number of HPAs."""
        return len(self.texts)

    def own(self, output: Output, view: View) -> str | None:
        """Return kubectl's text, and JSON with every character as it is."""
        if output is Output.table:
            return "\n\n".join(self.texts)
        if output is Output.json:
            return json.dumps({"items": self.items}, indent=2, ensure_ascii=False) + "\n"
        return None

    def body(self, view: View) -> Iterator[str | Grid]:
        """Generate the events."""
        frame = self.frame
        heads = [Head(name.upper(), "") for name in frame.columns]
        yield Grid(heads, [tuple(map(str, row)) for row in frame.rows()])

    @property
    def frame(self) -> pl.DataFrame:
        """The events: one row per HPA and event."""
        rows = [
            (
                item["cluster"],
                item["hpa"]["metadata"]["namespace"],
                item["hpa"]["metadata"]["name"],
                *event.values(),
            )
            for item in self.items
            for event in item["events"]
        ]
        names = ("cluster", "namespace", "hpa", *_EVENT)
        types = {name: pl.Int64() if name == "count" else pl.String() for name in names}
        return pl.DataFrame(rows, types, orient="row")

    def document(self) -> dict[str, Any]:
        """Return the items."""
        return {"items": list(self.items)}


def describe_text(hpa: HPA, events: Sequence[Event], now_ms: int, *, k8s: str) -> str:
    """Return an HPA and its events at `now_ms` (UTC ms) as kubectl describes them.

    Times are in UTC; kubectl's are in the zone of the machine it runs on. Events stand in the
    order of their last times. Every release from 1.20 on has the same text: `k8s` is only
    checked. An HPA that names no namespace is in `default`.

    Raises:
        UsageError: `k8s` is no Kubernetes version.
        ValueError: a creation timestamp that is none.
    """
    release_of(k8s)
    head = [*_metadata(hpa), *_metrics(hpa), *_sizes(hpa), *_conditions(hpa)]
    if not events:
        return _aligned([*head, ("Events:", NONE)])
    return _aligned(head) + _aligned(_events(events, now_ms))


def _aligned(lines: Iterable[_Cells]) -> str:
    """Align lines; a cell is one, whatever it holds (kubectl escapes nothing but ESC and CR)."""
    return columns("\t".join(map(printable_line, cells)) for cells in lines)


def _metadata(hpa: HPA) -> Iterator[_Cells]:
    reference = hpa.spec.scale_target_ref
    yield "Name:", hpa.name
    yield "Namespace:", hpa.namespace or "default"
    labels = [f"{key}={value}" for key, value in sorted(hpa.labels)] or [NONE]
    yield from _below_one_title("Labels", labels)
    yield from _below_one_title("Annotations", list(_annotations(hpa)) or [NONE])
    yield "CreationTimestamp:", _creation(read_time(hpa.creation_timestamp))
    yield "Reference:", f"{reference.kind}/{reference.name}"


def _below_one_title(title: str, lines: Sequence[str]) -> Iterator[_Cells]:
    for index, line in enumerate(lines):
        yield "" if index else f"{title}:", line


def _annotations(hpa: HPA) -> Iterator[str]:
    """Yield `key: value`, or the key and below it the lines of a value that is long or several."""
    for key, value in sorted(hpa.annotations):
        if key == _LAST_APPLIED:
            continue
        value = value.removesuffix("\n")
        if _size(key) + _size(value) + 2 <= _MAX_ANNOTATION and "\n" not in value:
            yield f"{key}: {value}"
            continue
        yield f"{key}:"
        for line in value.split("\n"):
            yield f"  {_shorten(line, _MAX_ANNOTATION - 2)}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _shorten(text: str, size: int) -> str:
    """Cut a text to a number of bytes; a character that is cut through is a replacement one."""
    encoded = text.encode("utf-8", "surrogatepass")
    return text if len(encoded) <= size else encoded[:size].decode("utf-8", "replace") + "..."


def _creation(time: datetime | None) -> str:
    return _NO_TIME if time is None else format_datetime(time)


def _metrics(hpa: HPA) -> Iterator[_Cells]:
    yield "Metrics:", "( current / target )"
    for index, metric in enumerate(hpa.spec.metrics):
        target, current = target_of(metric), current_of(hpa, index)
        if target is None:
            yield (f"  <unknown metric type {go_quote(metric.type)}>",)
        else:
            title, sizes = _metric(metric, target, current)
            yield f"  {title}", sizes


def _metric(
    metric: MetricSpec, target: MetricTarget, current: MetricValueStatus | None
) -> tuple[str, str]:
    """Return a metric's cells. Only External looks first whether the average is set."""
    source = metric.own
    if isinstance(source, ExternalMetricSource):
        name = go_quote(source.metric.name)
        if target.average_value is not None:
            now = None if current is None else current.average_value
            shown = UNKNOWN if now is None else show(now)
            return f"{name} (target average value):", f"{shown} / {show(target.average_value)}"
        return f"{name} (target value):", _value(target, current)
    if isinstance(source, ObjectMetricSource):
        described = source.described_object
        title = f'"{source.metric.name}" on {described.kind}/{described.name}'
        if target.type == "AverageValue":
            return f"{title} (target average value):", _average(target, current)
        return f"{title} (target value):", _value(target, current)
    if isinstance(source, PodsMetricSource):
        return f"{go_quote(source.metric.name)} on pods:", _average(target, current)
    title = f"resource {metric.subject} on pods"
    if isinstance(source, ContainerResourceMetricSource):
        title = f'resource {source.name} of container "{source.container}" on pods'
    if target.average_value is not None:
        return f"{title}:", _average(target, current)
    return f"{title}  (as a percentage of request):", _utilization(target, current)


def _value(target: MetricTarget, current: MetricValueStatus | None) -> str:
    return f"{UNKNOWN if current is None else show(current.value)} / {show(target.value)}"


def _average(target: MetricTarget, current: MetricValueStatus | None) -> str:
    shown = UNKNOWN if current is None else show(current.average_value)
    return f"{shown} / {show(target.average_value)}"


def _utilization(target: MetricTarget, current: MetricValueStatus | None) -> str:
    shown = UNKNOWN
    if current is not None and current.average_utilization is not None:
        shown = f"{current.average_utilization}% ({show(current.average_value)})"
    wanted = target.average_utilization
    return f"{shown} / {'<auto>' if wanted is None else f'{wanted}%'}"


def _sizes(hpa: HPA) -> Iterator[_Cells]:
    """Yield the limits, the behavior if there is one, and the replicas."""
    spec, status = hpa.spec, hpa.status
    yield "Min replicas:", UNSET if spec.min_replicas is None else str(spec.min_replicas)
    yield "Max replicas:", str(spec.max_replicas)
    if spec.behavior is not None:
        yield ("Behavior:",)
        yield from _direction("Scale Up", spec.behavior.scale_up)
        yield from _direction("Scale Down", spec.behavior.scale_down)
    sizes = f"{status.current_replicas} current / {status.desired_replicas} desired"
    yield f"{spec.scale_target_ref.kind} pods:", sizes


def _direction(title: str, rules: ScalingRules | None) -> Iterator[_Cells]:
    """Yield one direction of the behavior; kubectl does not show the tolerance."""
    if rules is None:
        return
    yield (f"  {title}:",)
    if rules.stabilization_window_seconds is not None:
        yield (f"    Stabilization Window: {rules.stabilization_window_seconds} seconds",)
    if rules.policies:
        select = "Max" if rules.select_policy is None else rules.select_policy
        yield (f"    Select Policy: {select}",)
        yield ("    Policies:",)
    for policy in rules.policies or ():
        period = f"Period: {policy.period_seconds} seconds"
        yield f"      - Type: {policy.type}", f"Value: {policy.value}", period


def _conditions(hpa: HPA) -> Iterator[_Cells]:
    if hpa.status.conditions:
        yield ("Conditions:",)
        yield "  Type", "Status", "Reason", "Message"
        yield "  ----", "------", "------", "-------"
    for item in hpa.status.conditions:
        yield f"  {item.type}", item.status, item.reason, item.message


def _events(events: Sequence[Event], now_ms: int) -> Iterator[_Cells]:
    yield ("Events:",)
    yield "  Type", "Reason", "Age", "From", "Message"
    yield "  ----", "------", "----", "----", "-------"
    for item in sorted(events, key=lambda item: _whole(item.last_ms)):
        age = human_duration(now_ms - _whole(item.first_ms))
        if item.count > 1:
            last = human_duration(now_ms - _whole(item.last_ms))
            age = f"{last} (x{item.count} over {age})"
        message = item.message.strip(" \t\n\v\f\r\x85\xa0")
        yield f"  {item.type}", item.reason, age, COMPONENT, message


def _whole(time_ms: int) -> int:
    """Cut a time to whole seconds, as the API keeps those of events."""
    return time_ms // 1000 * 1000
