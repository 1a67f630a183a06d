"""The table of `kubectl get hpa`.

Follows pkg/printers/internalversion/printers.go (the API server makes the cells) and cli-runtime
pkg/printers/tableprinter.go (kubectl prints them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import polars as pl

from hpabatch.engine.columns.history import GET
from hpabatch.model.objects.hpa import HPA, MetricTarget, MetricValueStatus
from hpabatch.model.printable import counted, printable
from hpabatch.model.times import show_instant
from hpabatch.report.base import Grid, Layout, Output, Result, View
from hpabatch.report.forms import frame_grid
from hpabatch.report.kubectl.manifest import list_document, live_document, yaml_manifests
from hpabatch.report.kubectl.text import (
    NONE,
    UNKNOWN,
    UNSET,
    age_of,
    columns,
    current_of,
    read_time,
    release_of,
    show,
    target_of,
)

_SHOWN_METRICS = 2
# The first release whose TARGETS names the resource, `cpu: 45%/80%` (kubernetes#122804).
_NAMED_SINCE = (1, 30)
MIN_WIDTH = 6
PADDING = 3


@dataclass(frozen=True, slots=True)
class GetRow:
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


def get_table(rows: Sequence[GetRow], with_namespace: bool) -> str:
    """Return the rows as kubectl prints them, with NAMESPACE first for `-A`; "" without rows."""
    if not rows:
        return ""
    fields = [name for name in GetRow.__slots__ if with_namespace or name != "namespace"]
    lines = ["\t".join(name.upper() for name in fields)]
    lines += ["\t".join(printable(str(getattr(row, name))) for name in fields) for row in rows]
    return columns(lines, MIN_WIDTH, PADDING)


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
        """The number of HPAs, and the time."""
        return f"{counted(len(self.documents), 'HPA')} at {show_instant(self.at_ms)}"

    def __len__(self) -> int:
        """Return the number of HPAs."""
        return len(self.documents)

    def items(self) -> list[dict[str, object]]:
        """Return the HPAs as `kubectl get hpa -o json` would."""
        return [live_document(hpa) for hpa in self.documents]

    def own(self, output: Output, view: View) -> str | None:
        """Return kubectl's table, and its YAML."""
        if output is Output.yaml:
            return yaml_manifests(self.documents, live_document)
        if output is not Output.table:
            return None
        tables = {name: get_table(part, self.with_namespace) for name, part in self.rows.items()}
        if len(tables) > 1:
            # kubectl is asked cluster by cluster, and each may have another version's layout.
            tables = {c: f"cluster {printable(c)}\n{table}" for c, table in tables.items()}
        return "\n".join(tables.values())

    def body(self, view: View) -> Iterator[str | Grid]:
        """Generate the HPAs."""
        yield frame_grid(self.frame, GET)

    @property
    def frame(self) -> pl.DataFrame:
        """The table's cells with the cluster of each row."""
        cells = [{"cluster": c} | asdict(row) for c, part in self.rows.items() for row in part]
        return pl.DataFrame(cells, schema=GET.schema)

    def document(self) -> dict[str, Any]:
        """Return the manifest, or a List of several."""
        return list_document(self.documents, live_document)


def _row(hpa: HPA, now_ms: int, named: bool) -> GetRow:
    reference, minimum = hpa.spec.scale_target_ref, hpa.spec.min_replicas
    return GetRow(
        namespace=hpa.namespace or "default",
        name=hpa.name,
        reference=f"{reference.kind}/{reference.name}",
        targets=_targets(hpa, named),
        minpods=UNSET if minimum is None else str(minimum),
        maxpods=hpa.spec.max_replicas,
        replicas=hpa.status.current_replicas,
        age=age_of(read_time(hpa.creation_timestamp), now_ms),
    )


def _targets(hpa: HPA, named: bool) -> str:
    metrics = hpa.spec.metrics
    if not metrics:
        return NONE
    shown = [_target(hpa, index, named) for index in range(min(len(metrics), _SHOWN_METRICS))]
    more = len(metrics) - _SHOWN_METRICS
    return ", ".join(shown) + (f" + {more} more..." if more > 0 else "")


def _target(hpa: HPA, index: int, named: bool) -> str:
    """Return `current/target` of one metric; `named`: a resource is told by its name."""
    metric = hpa.spec.metrics[index]
    target, current = target_of(metric), current_of(hpa, index)
    if target is None:
        return "<unknown type>"
    if metric.type in ("Object", "External"):
        return _value(target, current)
    if metric.type == "Pods":
        return _average(target, current)
    prefix = f"{metric.subject}: " if named else ""
    if target.average_value is not None:
        return prefix + _average(target, current)
    return prefix + _utilization(target, current)


def _value(target: MetricTarget, current: MetricValueStatus | None) -> str:
    """Return a value, or an average where the target is one: unset, that is unknown."""
    if target.average_value is None:
        return f"{UNKNOWN if current is None else show(current.value)}/{show(target.value)}"
    average = None if current is None else current.average_value
    shown = UNKNOWN if average is None else show(average)
    return f"{shown}/{show(target.average_value)} (avg)"


def _average(target: MetricTarget, current: MetricValueStatus | None) -> str:
    shown = UNKNOWN if current is None else show(current.average_value)
    return f"{shown}/{show(target.average_value)}"


def _utilization(target: MetricTarget, current: MetricValueStatus | None) -> str:
    now = None if current is None else current.average_utilization
    wanted = target.average_utilization
    shown = UNKNOWN if now is None else f"{now}%"
    return f"{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"
