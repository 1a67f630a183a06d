"""One window of one cluster: its requests, and the parts that it becomes.

Usage is read and committed in parts of some hundred pods; the few rows a day of each pod, target
and HPA are in the last part, which completes the window.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import polars as pl

from hpabatch.history.columns import TIME
from hpabatch.history.provenance import continued
from hpabatch.history.schema import table_named
from hpabatch.importers.common.claims import DONE, while_unreplaced
from hpabatch.importers.common.objects import CONTEXT, context_rows
from hpabatch.importers.common.rows import in_ms, without_repeats
from hpabatch.importers.common.work import Sink
from hpabatch.importers.prometheus.client.fetch import Fetcher
from hpabatch.importers.prometheus.client.samples import Findings
from hpabatch.importers.prometheus.pods.lives import assign_pods
from hpabatch.importers.prometheus.reading.reader import Reader, Things
from hpabatch.importers.prometheus.reading.window_fleet import (
    Target,
    read_fleet,
    read_scales,
)
from hpabatch.importers.prometheus.reading.window_pods import WindowPods, read_pods
from hpabatch.importers.prometheus.reading.window_samples import (
    AdapterSeries,
    read_metrics,
    read_usage,
)
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.result import ImportResult, Source, provenance_rows
from hpabatch.importers.prometheus.site import Beside, Site, version_of
from hpabatch.importers.prometheus.specs.specs import WindowHpas, read_hpas
from hpabatch.importers.prometheus.windows import Window

Tell = Callable[[float], None]
"""Receives the share of a window that is done."""


@dataclass(frozen=True, slots=True)
class Place:
    """Sources and destination of a window's rows.

    Attributes:
        request: what is imported.
        beside: the files beside the server.
        site: what the server has.
        series: those that the adapter would find.
        cluster: its name in the history.
        fetcher: sends requests.
        sink: the store.
    """

    request: PrometheusRequest
    beside: Beside
    site: Site
    series: AdapterSeries
    cluster: str
    fetcher: Fetcher
    sink: Sink

    def reader(self, window: Window, findings: Findings) -> Reader:
        """Return the reader of this cluster for a window."""
        label = self.request.cluster_label
        return Reader(
            fetcher=self.fetcher,
            queries=self.site.queries,
            span=window.span,
            cluster={label: (self.cluster,)} if label else {},
            spacing_ms=self.request.spacing_ms,
            max_samples=self.request.max_samples,
            at_once=self.request.pods_at_once,
            findings=findings,
        )

    def part(self, window: Window, name: str) -> str:
        """Return the name of a part of a window."""
        return window.part(self.request.source(), self.cluster, name)

    def write(self, window: Window, name: str) -> AbstractContextManager[Counter[str]]:
        """Return a context of `Sink.part`; nothing is committed once the window was replaced."""
        held = while_unreplaced(window.name(self.request.source(), self.cluster))
        return self.sink.part(self.part(window, name), held)

    def stored(self, table: str) -> pl.DataFrame | None:
        """Return the store's rows of a small table for this cluster, None if there are none."""
        whole = self.sink.stored(table)
        return None if whole is None else whole.filter(pl.col("cluster") == self.cluster)

    def explain(self, window: Window, sources: Sequence[Source]) -> None:
        """Record the provenance of a window's rows."""
        rows = provenance_rows(sources, window.span.after_ms, window.span.until_ms)
        told = table_rows(rows, "provenance", self.cluster)
        self.sink.add("provenance", continued(told, self.stored("provenance")))

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Give the store rows of a table, times in ms."""
        if not frame.is_empty():
            self.sink.add(table, table_rows(frame, table, self.cluster))


def table_rows(frame: pl.DataFrame, table: str, cluster: str) -> pl.DataFrame:
    """Return rows with times in ms as rows of a history's table, with their cluster.

    Columns that the table does not have are dropped.
    """
    spec = table_named(table)
    times = [c.name for c in spec.columns if c.dtype == TIME and c.name in frame.columns]
    names = [c.name for c in spec.columns if c.name in frame.columns or c.name == "cluster"]
    cast = [pl.col(name).cast(TIME) for name in times if frame.schema[name] != TIME]
    return frame.with_columns(*cast, cluster=pl.lit(cluster)).select(names)


def import_window(place: Place, window: Window, result: ImportResult, tell: Tell) -> None:
    """Read a window and commit its parts; those that are there already are not read again.

    Raises:
        UsageError, UnreadableError: a request fails, or the store cannot be written.
    """
    findings = Findings()
    reader = place.reader(window, findings)
    spaces = place.site.spaces.get(place.cluster, ())
    fleet = read_fleet(reader, spaces)
    hpas = read_hpas(
        fleet, place.beside, place.stored("hpas"), place.cluster, window,
        place.request.namespaces, findings,
    )  # fmt: skip
    tell(0.1)
    targets = None if place.request.all_workloads else hpas.targets()
    pods = read_pods(
        reader, targets, spaces, fleet.heartbeats, place.stored, window.initial, place.beside
    )  # fmt: skip
    tell(0.2)
    _usage_parts(place, window, reader, pods, result, tell)
    _metric_part(place, window, reader, hpas, pods, result)
    tell(0.95)
    with place.write(window, DONE) as written:
        place.add("pods", pods.pods)
        place.add("pod_requests", pods.requests)
        place.add("pod_states", pods.states)
        place.add("scales", _scales(place, window, reader, sorted(hpas.targets())))
        place.add("hpas", hpas.rows)
        place.add("hpa_context", _context(place, window, hpas))
        # Not compared with the store's rows, of which a month has millions.
        shown = ("current_replicas", "desired_replicas", "current_metrics", "conditions")
        key = ("namespace", "name", "uid")
        place.add("hpa_status", without_repeats(hpas.status, None, key, shown))
        place.add("controller", _controller(place, reader, window))
        place.explain(window, [*hpas.found.sources, *_SOURCES])
    result.written.update(written)
    result.findings.add(findings)
    _see(place, result, pods, hpas)


def _usage_parts(
    place: Place,
    window: Window,
    reader: Reader,
    pods: WindowPods,
    result: ImportResult,
    tell: Tell,
) -> None:
    """Commit the usage of pods, some at a time."""
    names, size = pods.things.names, place.request.pods_at_once
    for at in range(0, len(names), size):
        # Named by what it holds: another run may have found other pods.
        part = f"usage-{_digest(names[at : at + size])}"
        if place.sink.has_part(place.part(window, part)):
            continue
        some = Things("pod", names[at : at + size])
        rows, sources = read_usage(reader, place.beside.mappings, some, place.request.step_ms)
        owned = assign_pods(rows, pods.pods, reader.findings)
        with place.write(window, part) as written:
            place.add("pod_metrics", owned)
            place.explain(window, sources)
        result.written.update(written)
        result.count(place.cluster, owned)
        tell(0.2 + 0.7 * min(1.0, (at + size) / len(names)))


def _metric_part(
    place: Place,
    window: Window,
    reader: Reader,
    hpas: WindowHpas,
    pods: WindowPods,
    result: ImportResult,
) -> None:
    """Commit the values of custom, object and external metrics."""
    specs = hpas.found.hpas
    mappings = place.beside.mappings
    plan = mappings.plan(specs, place.series.found(mappings, specs))
    result.notes.update(dict.fromkeys(plan.notes))
    for lost in plan.unmapped:
        result.lacking.setdefault(f"no values of {lost.metric}: {lost.reason}", set()).add(lost.hpa)
    part = f"metrics-{_digest([plan.queries, place.request.step_ms])}"
    if place.sink.has_part(place.part(window, part)):
        return
    with place.write(window, part) as written:
        targets, heartbeats = hpas.targets_by_hpa(), hpas.fleet.heartbeats
        for table, rows in read_metrics(
            reader, plan, pods.pods, targets, heartbeats, place.request.step_ms
        ):
            if "pod" in rows.columns:
                named = rows.with_columns(pod_uid=pl.lit(None, dtype=pl.String))
                rows = assign_pods(named, pods.pods, reader.findings)
            place.add(table, rows)
    result.written.update(written)


def _scales(
    place: Place, window: Window, reader: Reader, targets: Sequence[Target]
) -> pl.DataFrame:
    """Return the sizes of targets, as far as they are new."""
    queries, names = place.beside.queries, place.site.names
    rows = read_scales(reader, queries, names, targets, window.initial, reader.findings)
    stored = None if window.initial else place.stored("scales")
    key, values = ("namespace", "target_kind", "target"), ("spec_replicas", "status_replicas")
    return without_repeats(rows, stored, key, values)


def _context(place: Place, window: Window, hpas: WindowHpas) -> pl.DataFrame:
    """Return what the objects say beside the HPAs of a window, as far as it is new."""
    objects = place.beside.objects
    if objects is None:
        return pl.DataFrame()
    rows = hpas.found.rows.sort("valid_from").unique(["namespace", "name"], keep="last")
    ends = pl.DataFrame({"cluster": [place.cluster], "last": [window.span.until_ms]})
    found = context_rows(objects, rows.with_columns(cluster=pl.lit(place.cluster)), ends)
    stored = None if window.initial else place.stored("hpa_context")
    return without_repeats(in_ms(found), stored, ("namespace", "name"), CONTEXT)


def _digest(things: Sequence[object]) -> str:
    return hashlib.sha256(repr(things).encode()).hexdigest()[:12]


def _controller(place: Place, reader: Reader, window: Window) -> pl.DataFrame:
    """Return a row with the version of the cluster's controller, if it is another than before."""
    if not reader.has("build_info"):
        return pl.DataFrame()
    seen = reader.at(window.span.until_ms, "build_info")
    version = version_of(seen.with_labels(["git_version", "job"]).series.rows(named=True))
    if version is None or version == _last_version(place):
        return pl.DataFrame()
    row = {"ts": window.span.after_ms, "event": "observed", "version": version}
    return pl.DataFrame([row], schema={"ts": pl.Int64, "event": pl.String, "version": pl.String})


def _last_version(place: Place) -> str | None:
    stored = place.stored("controller")
    if stored is None:
        return None
    known = stored.filter(pl.col("version").is_not_null()).sort("ts")["version"]
    return str(known[-1]) if len(known) else None


def _see(place: Place, result: ImportResult, pods: WindowPods, hpas: WindowHpas) -> None:
    """Count what a window had."""
    cluster = place.cluster
    result.see(cluster, "hpas", hpas.names())
    result.see(cluster, "targets", [(n, f"{k}/{t}") for n, k, t in hpas.targets()])
    result.see(cluster, "pods", pods.pods.select("namespace", "uid").rows())
    labelled = f"{cluster}/" if place.request.cluster_label else ""
    for what, names in hpas.lacking().items():
        result.lacking.setdefault(what, set()).update(labelled + name for name in names)
    there = set(pods.pods.select("namespace", "target_kind", "target").unique().rows())
    for (namespace, name), targets in hpas.targets_by_hpa().items():
        if not any((namespace, *target) in there for target in targets):
            result.podless.add(f"{labelled}{namespace}/{name}")
        else:
            result.podded.add(f"{labelled}{namespace}/{name}")
    result.remarks.update(dict.fromkeys(hpas.found.warnings))
    unused = {"/".join(one) for one in hpas.found.unused}
    result.unused = unused if result.unused is None else result.unused & unused


_SOURCES = (
    Source("scales.selector", "absent", "kube-state-metrics exports no selectors: pods by owner"),
    Source("pods", "owner", "pods belong to the workload that owns them"),
)
"""Provenance of every import from kube-state-metrics."""
