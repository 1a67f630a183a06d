"""HPAs in the forms of kubectl: the table of `get`, the text of `describe`, manifests.

Follows k8s.io/kubectl pkg/describe/describe.go (describeHorizontalPodAutoscalerV2; V2beta2 in 1.20,
whose text is the same), pkg/printers/internalversion/printers.go (the API server makes the cells of
the table), cli-runtime pkg/printers/tableprinter.go, apimachinery pkg/util/duration and Go's
text/tabwriter.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, ClassVar, Final, NamedTuple

import polars as pl
import yaml

from hpabatch.engine.columns.history import GET
from hpabatch.errors import UsageError
from hpabatch.inputs.kubernetes_yaml import plain_value
from hpabatch.model.messages import COMPONENT, Event
from hpabatch.model.objects.encode import encode_hpa, encode_status
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
from hpabatch.model.printable import counted, printable, printable_line
from hpabatch.model.quantity import Quantity
from hpabatch.model.times import show_instant
from hpabatch.report.base import Grid, Layout, Output, Result, View
from hpabatch.report.forms import frame_grid

UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"
NONE: Final = "<none>"

_SHOWN_METRICS = 2
_MIN_WIDTH, _PADDING = 6, 3  # of columns
# The first release whose TARGETS names the resource, `cpu: 45%/80%` (kubernetes#122804).
_NAMED_SINCE = (1, 30)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATION = 140  # bytes of `key: value`; a longer one stands below its key, cut
_NO_TIME = "Mon, 01 Jan 0001 00:00:00 +0000"
_EVENT: Final = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp")
_Cells = tuple[str, ...]


# ---- kubectl get ---------------------------------------------------------------------------------


class GetRow(NamedTuple):
    """One line of the table; fields in the order of its columns, named as those."""

    namespace: str
    name: str
    reference: str
    targets: str
    minpods: str
    maxpods: int
    replicas: int
    age: str


def get_rows(hpas: Sequence[HPA], now_ms: int, *, k8s: str) -> list[GetRow]:
    """Return the rows of HPAs at `now_ms` (UTC ms), in their order, as that release shows them.

    An HPA that names no namespace is in `default`.

    Raises:
        UsageError: `k8s` is no Kubernetes version.
        ValueError: a creation timestamp that is none.
    """
    named = release_of(k8s) >= _NAMED_SINCE
    return [_row(hpa, now_ms, named) for hpa in hpas]


def get_table(
    rows: Sequence[GetRow], with_namespace: bool, more: Sequence[Sequence[str]] = ()
) -> str:
    """Return the rows as kubectl prints them, with NAMESPACE first for `-A`; "" without rows.

    `more` has the cells of further columns: their heads, then those of each row.
    """
    if not rows:
        return ""
    first = 0 if with_namespace else 1
    lines = [[name.upper() for name in GetRow._fields[first:]]]
    lines += [[printable(str(cell)) for cell in row[first:]] for row in rows]
    lines = [[*line, *cells] for line, cells in zip(lines, more or [()] * len(lines), strict=True)]
    return columns(map("\t".join, lines), _MIN_WIDTH, _PADDING)


@dataclass(frozen=True, repr=False)
class HpaStatuses(Result):
    """HPAs with their statuses, as `kubectl get hpa` would have shown them.

    Attributes:
        at_ms: the time, ms since 1970.
        documents: the HPAs with their statuses.
        rows: the table's cells, by cluster.
        left_out: a sentence for each HPA that was asked for and is not shown.
        with_namespace: as with `-A`.
    """

    at_ms: int
    documents: Sequence[HPA]
    rows: Mapping[str, Sequence[GetRow]]
    left_out: tuple[str, ...] = ()
    with_namespace: bool = True
    layout: ClassVar[Layout] = Layout(4, 4, ascii_only=False)  # as kubectl writes JSON
    shows_verdict: ClassVar[bool] = False

    @property
    def verdict(self) -> str:
        return f"{counted(len(self.documents), 'HPA')} at {show_instant(self.at_ms)}"

    def __len__(self) -> int:
        """Return the number of HPAs."""
        return len(self.documents)

    def items(self) -> list[dict[str, object]]:
        """Return the HPAs as `kubectl get hpa -o json` would."""
        return [live_document(hpa) for hpa in self.documents]

    def own(self, output: Output, view: View) -> str | None:
        if output is Output.yaml:
            # One document each; fields in alphabetical order.
            return "---\n".join(
                yaml.dump(live_document(hpa), Dumper=_Dumper, width=math.inf)
                for hpa in self.documents
            )
        if output is not Output.table:
            return None
        tables = {name: get_table(part, self.with_namespace) for name, part in self.rows.items()}
        if len(tables) > 1:
            # kubectl is asked cluster by cluster, and each may have another version's layout.
            tables = {c: f"cluster {printable(c)}\n{table}" for c, table in tables.items()}
        return "\n".join(tables.values())

    def body(self, view: View) -> Iterator[str | Grid]:
        yield frame_grid(self.frame, GET)

    @property
    def frame(self) -> pl.DataFrame:
        cells = [{"cluster": c} | row._asdict() for c, part in self.rows.items() for row in part]
        return pl.DataFrame(cells, schema=GET.schema)

    def document(self) -> dict[str, Any]:
        items: list[dict[str, object]] = []
        for document in map(live_document, self.documents):
            items.append({n: document[n] for n in ("kind", "apiVersion")} | document)
        if len(items) == 1:
            return items[0]
        return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}


def _row(hpa: HPA, now_ms: int, named: bool) -> GetRow:
    reference, minimum = hpa.spec.scale_target_ref, hpa.spec.min_replicas
    targets = [_target(hpa, k, named) for k in range(len(hpa.spec.metrics))]
    more = len(targets) - _SHOWN_METRICS
    shown = ", ".join(targets[:_SHOWN_METRICS]) + (f" + {more} more..." if more > 0 else "")
    return GetRow(
        namespace=hpa.namespace or "default",
        name=hpa.name,
        reference=f"{reference.kind}/{reference.name}",
        targets=shown or NONE,
        minpods=UNSET if minimum is None else str(minimum),
        maxpods=hpa.spec.max_replicas,
        replicas=hpa.status.current_replicas,
        age=age_of(read_time(hpa.creation_timestamp), now_ms),
    )


def _target(hpa: HPA, index: int, named: bool) -> str:
    """Return `current/target` of one metric; `named`: a resource is told by its name."""
    metric = hpa.spec.metrics[index]
    target, current = target_of(metric), current_of(hpa, index)
    if target is None:
        return "<unknown type>"
    average = target.average_value
    if metric.type in ("Object", "External") and average is None:
        return f"{_now(current, 'value')}/{show(target.value)}"
    if metric.type in ("Object", "External"):
        return f"{_now(current, 'average_value', UNKNOWN)}/{show(average)} (avg)"
    prefix = f"{metric.subject}: " if named and metric.type != "Pods" else ""
    if metric.type == "Pods" or average is not None:
        return f"{prefix}{_now(current, 'average_value')}/{show(average)}"
    return f"{prefix}{_percent(current, UNKNOWN)}/{_percent(target, '<auto>')}"


def _now(current: MetricValueStatus | None, member: str, unset: str = "<nil>") -> str:
    """Return a quantity of a metric's status, `unset` for one that is not set."""
    if current is None:
        return UNKNOWN
    value: Quantity | None = getattr(current, member)
    return unset if value is None else show(value)


def _percent(of: MetricValueStatus | MetricTarget | None, unset: str) -> str:
    percent = None if of is None else of.average_utilization
    return unset if percent is None else f"{percent}%"


# ---- kubectl describe ----------------------------------------------------------------------------


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
        return f"{counted(len(self.texts), 'HPA')} described at {show_instant(self.at_ms)}"

    def __len__(self) -> int:
        """Return the number of HPAs."""
        return len(self.texts)

    def own(self, output: Output, view: View) -> str | None:
        if output is Output.table:
            return "\n\n".join(self.texts)
        if output is Output.json:
            return json.dumps({"items": self.items}, indent=2, ensure_ascii=False) + "\n"
        return None

    def body(self, view: View) -> Iterator[str | Grid]:
        yield frame_grid(self.frame)

    @property
    def frame(self) -> pl.DataFrame:
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
    labels = [f"{key}={value}" for key, value in sorted(hpa.labels)]
    for title, lines in (("Labels:", labels), ("Annotations:", list(_annotations(hpa)))):
        yield title, (lines or [NONE])[0]
        yield from (("", line) for line in lines[1:])
    created = read_time(hpa.creation_timestamp)
    yield "CreationTimestamp:", _NO_TIME if created is None else format_datetime(created)
    yield "Reference:", f"{reference.kind}/{reference.name}"


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
    value = f"{_now(current, 'value')} / {show(target.value)}"
    average = f"{_now(current, 'average_value')} / {show(target.average_value)}"
    if isinstance(source, ExternalMetricSource):
        name = go_quote(source.metric.name)
        if target.average_value is not None:
            now = _now(current, "average_value", UNKNOWN)
            return f"{name} (target average value):", f"{now} / {show(target.average_value)}"
        return f"{name} (target value):", value
    if isinstance(source, ObjectMetricSource):
        described = source.described_object
        title = f'"{source.metric.name}" on {described.kind}/{described.name}'
        if target.type == "AverageValue":
            return f"{title} (target average value):", average
        return f"{title} (target value):", value
    if isinstance(source, PodsMetricSource):
        return f"{go_quote(source.metric.name)} on pods:", average
    title = f"resource {metric.subject} on pods"
    if isinstance(source, ContainerResourceMetricSource):
        title = f'resource {source.name} of container "{source.container}" on pods'
    if target.average_value is not None:
        return f"{title}:", average
    now = _percent(current, UNKNOWN)
    if current is not None and now != UNKNOWN:
        now += f" ({show(current.average_value)})"
    return f"{title}  (as a percentage of request):", f"{now} / {_percent(target, '<auto>')}"


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


# ---- manifests -----------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """Quotes what Kubernetes' YAML reader would not take for a string, such as `1e3` or `on`."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None if isinstance(plain_value(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def live_document(hpa: HPA) -> dict[str, object]:
    """Return an HPA with its status and creation time, as the API server shows it."""
    document = encode_hpa(hpa)
    if hpa.creation_timestamp is not None:
        metadata = document["metadata"]
        assert isinstance(metadata, dict)
        metadata["creationTimestamp"] = hpa.creation_timestamp
    return document | {"status": encode_status(hpa.status)}


# ---- ages, columns, numbers ----------------------------------------------------------------------

_SECOND, _MINUTE, _HOUR, _DAY, _YEAR = 1000, 60_000, 3_600_000, 86_400_000, 365 * 86_400_000
_MAX_AGE_MS = (2**63 - 1) // 1_000_000  # of Go's time.Duration
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_ZERO = datetime.fromisoformat("0001-01-01T00:00:00+00:00")  # Go's time.Time without a value
_VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]+)?", re.ASCII)
_CELL_ENDS = re.compile("[\t\v]")


# A duration below the first number is shown in the unit: `90s`, `5m30s`; None: without a rest.
_AGES: Final = (
    (2 * _MINUTE, _SECOND, "s", None, ""),
    (10 * _MINUTE, _MINUTE, "m", _SECOND, "s"),
    (3 * _HOUR, _MINUTE, "m", None, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", None, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", None, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (math.inf, _YEAR, "y", None, ""),
)


def human_duration(duration_ms: int) -> str:
    """Return a duration as kubectl shows it: `90s`, `5m30s`, `3h5m`, `2d4h`, `400d`, `2y1d`.

    Two parts only where the larger one is small; whatever is cut off is dropped, not rounded. Up
    to two seconds in the future is still now, more is `<invalid>`. Source: HumanDuration.
    """
    ms = min(duration_ms, _MAX_AGE_MS)
    if ms <= -2 * _SECOND:
        return "<invalid>"
    ms = max(ms, 0)
    _, unit, name, small, small_name = next(age for age in _AGES if ms < age[0])
    rest = 0 if small is None else ms % unit // small
    return f"{ms // unit}{name}" + (f"{rest}{small_name}" if rest else "")


def read_time(text: str | None) -> datetime | None:
    """Return a time of an API object, in UTC; None where there is none.

    Raises:
        ValueError: not a time such as `2026-10-07T12:00:00Z`.
    """
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    if time == _ZERO:
        return None
    try:
        return time.astimezone(UTC)
    except OverflowError:  # in the year 0 or 10000 of UTC
        return time


def age_of(time: datetime | None, now_ms: int) -> str:
    """Return the age of an API object at `now_ms` (UTC ms), `<unknown>` without a time."""
    if time is None:
        return UNKNOWN
    since = time - _EPOCH
    then_ms = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return human_duration(now_ms - then_ms)


def columns(lines: Iterable[str], min_width: int = 0, padding: int = 2) -> str:
    """Return lines of tab-ended cells as aligned text; each line may hold line breaks itself.

    A column is as wide as its widest cell among the lines above and below without a gap: a line
    that has not so many cells ends the columns. The last cell of a line is in no column. Widths
    are in code points, as Go's text/tabwriter counts them. A form feed ends all columns.
    """
    text = "".join(f"{line}\n" for line in lines)
    return "\n".join(_align(part, min_width, padding) for part in text.split("\f"))


def _align(text: str, min_width: int, padding: int) -> str:
    rows = [_CELL_ENDS.split(line) for line in text.split("\n")]
    for column in range(max(map(len, rows)) - 1):
        start = 0
        while start < len(rows):
            end = start
            while end < len(rows) and len(rows[end]) - 1 > column:
                end += 1
            cells = [row[column] for row in rows[start:end]]
            width = max([min_width, *(len(cell) + padding for cell in cells)])
            for row in rows[start:end]:
                row[column] = row[column].ljust(width)
            start = end + 1
    return "\n".join("".join(row) for row in rows)


def show(quantity: Quantity | None) -> str:
    """Return a quantity as it comes back from the API server, `<nil>` for one that is not set.

    The controller makes memory quantities of a binary form, but the server reads their text: one
    without a factor of 1024, `130752000`, is decimal from then on and prints as `130752k`.
    """
    return "<nil>" if quantity is None else str(Quantity.parse(str(quantity)))


def current_of(hpa: HPA, index: int) -> MetricValueStatus | None:
    """Return the status of `spec.metrics[index]`: the one of the same index, if of its type."""
    statuses = hpa.status.current_metrics or ()
    if index >= len(statuses) or statuses[index].type != hpa.spec.metrics[index].type:
        return None
    return statuses[index].current


def target_of(metric: MetricSpec) -> MetricTarget | None:
    """Return the target of a metric of a known type that has its type's member, else None."""
    return None if metric.own is None else metric.own.target


def release_of(k8s: str) -> tuple[int, int]:
    """Return a Kubernetes version such as `1.30` or `v1.30.2` as (1, 30).

    Raises:
        UsageError: not a Kubernetes version.
    """
    match = _VERSION.fullmatch(k8s)
    if match is None:
        raise UsageError(f"--k8s {k8s}: not a Kubernetes version; write one such as 1.36")
    return int(match[1]), int(match[2])
