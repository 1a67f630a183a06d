"""Windows of an import: those of a time, and the requests and parts of one window of one cluster.

Usage is read and committed in parts of some hundred pods; the few rows a day of each pod, target
and HPA are in the last part, which completes the window.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.history.columns import TIME
from hpabatch.history.provenance import continued
from hpabatch.history.schema import table_named
from hpabatch.history.store.catalog import quote
from hpabatch.importers.common.claims import DONE, PREFIX, span_of, while_unreplaced
from hpabatch.importers.common.objects import CONTEXT, context_rows
from hpabatch.importers.common.rows import in_ms, without_repeats
from hpabatch.importers.common.work import Sink
from hpabatch.importers.prometheus.client.http import Server
from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.pods.lives import assign_pods
from hpabatch.importers.prometheus.reading.reader import Reader, Things
from hpabatch.importers.prometheus.reading.window_objects import (
    WindowPods,
    read_fleet,
    read_pods,
    read_scales,
)
from hpabatch.importers.prometheus.reading.window_samples import (
    read_metrics,
    read_usage,
)
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.result import ImportResult, Source, provenance_rows
from hpabatch.importers.prometheus.site import Beside, Site, version_of
from hpabatch.importers.prometheus.specs.specs import WindowHpas, read_hpas
from hpabatch.model.times import show_instant

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Window:
    """A piece of time of one cluster, at most a UTC day, that is complete once its last part is.

    Attributes:
        initial: nothing was imported right before it, so what holds at its beginning is written.
        again: suffix of its name once another import took its place before it was complete.
    """

    span: Span
    initial: bool
    again: str = ""

    def name(self, source: str, cluster: str) -> str:
        """Return what the names of its parts begin with: as a claim it is an import of its own."""
        place = f"{PREFIX}/{source}/{quote(cluster)}"
        return f"{place}/{self.span.after_ms}-{self.span.until_ms}{self.again}"


def check_order(start_ms: int, end_ms: int) -> None:
    """Refuse a time that ends before it begins (UsageError)."""
    if end_ms <= start_ms:
        told = f"from {show_instant(start_ms)} to {show_instant(end_ms)}"
        raise UsageError(f"there is no time {told}: give a later --end")


def has_begun(parts: Collection[str], source: str) -> bool:
    """Whether a store has anything of a source."""
    return any(part.startswith(f"{PREFIX}/{source}/") for part in parts)


def first_start(parts: Collection[str], source: str) -> int | None:
    """Return from when on a store has anything of a source (ms), None: it has nothing."""
    head = f"{PREFIX}/{source}/"
    return min((span_of(part)[0] for part in parts if part.startswith(head)), default=None)


def windows(
    start_ms: int, end_ms: int, lookback_ms: int, covered: Sequence[tuple[int, int]]
) -> list[Window]:
    """Return what is still to be imported of a time, in order; `covered` are (after, until), ms.

    Raises:
        UsageError: something would have to be imported before what is there: lives that ended
            later are known already, and would be opened again.
    """
    found: list[Window] = []
    at, covered_ms = start_ms, max((until for _, until in covered), default=start_ms)
    while at < end_ms:
        inside = next((until for after, until in covered if after <= at < until), None)
        if inside is not None:
            at = inside
            continue
        if covered_ms < at and not found:
            raise UsageError(
                f"from {show_instant(covered_ms)} to {show_instant(at)} nothing was imported: "
                "a history has no holes, as nobody would know what ended in them; begin where it "
                "ends (leave out --start)"
            )
        later = [after for after, _ in covered if after > at]
        if later:
            raise UsageError(
                f"from {show_instant(at)} to {show_instant(min(later))} nothing was imported, but "
                "what comes after was: a history grows forward only. Import the earlier time into "
                "a history of its own, or all of it into a new one"
            )
        until = min(end_ms, at - at % DAY_MS + DAY_MS)
        initial = not any(end == at for _, end in covered) and not found
        found.append(Window(Span(at, until, lookback_ms), initial))
        at = until
    return found


@dataclass
class WindowImport:
    """Import of a window of a cluster: its sources, and the store that gets its rows."""

    request: PrometheusRequest
    beside: Beside
    site: Site
    cluster: str
    server: Server
    sink: Sink
    window: Window

    @cached_property
    def reader(self) -> Reader:
        """The reader of this cluster in the window."""
        label = self.request.cluster_label
        return Reader(
            server=self.server,
            queries=self.site.queries,
            span=self.window.span,
            cluster={label: (self.cluster,)} if label else {},
            spacing_ms=self.request.spacing_ms,
            max_samples=self.request.max_samples,
            at_once=self.request.pods_at_once,
            findings=Findings(),
        )

    def run(self, result: ImportResult, tell: Callable[[float], None]) -> None:
        """Read the window and commit its parts, but those that are there already.

        `tell` gets the share of the window that is done.

        Raises:
            UsageError, UnreadableError: a request fails, or the store cannot be written.
        """
        reader, beside, initial = self.reader, self.beside, self.window.initial
        spaces = self.site.spaces.get(self.cluster, ())
        fleet = read_fleet(reader, spaces)
        hpas = read_hpas(
            fleet, beside, self.stored("hpas"), self.cluster, reader.span, initial,
            self.request.namespaces, reader.findings,
        )  # fmt: skip
        tell(0.1)
        scaled = sorted(hpas.targets())
        targets = None if self.request.all_workloads else scaled
        heartbeats = fleet.heartbeats
        pods = read_pods(reader, targets, spaces, heartbeats, self.stored, initial, beside)
        tell(0.2)
        self._usage_parts(pods, result, tell)
        self._metric_part(hpas, pods.pods, result)
        tell(0.95)
        scales = read_scales(reader, beside.queries, self.site.names, scaled, initial)
        stored = None if initial else self.stored("scales")
        place, sizes = ("namespace", "target_kind", "target"), ("spec_replicas", "status_replicas")
        with self.write(DONE) as written:
            self.add("pods", pods.pods)
            self.add("pod_requests", pods.requests)
            self.add("pod_states", pods.states)
            self.add("scales", without_repeats(scales, stored, place, sizes))
            self.add("hpas", hpas.rows)
            self.add("hpa_context", self.context(hpas.found.rows))
            # Not compared with the store's rows, of which a month has millions.
            shown = ("current_replicas", "desired_replicas", "current_metrics", "conditions")
            key = ("namespace", "name", "uid")
            self.add("hpa_status", without_repeats(hpas.status, None, key, shown))
            self.add("controller", self._controller())
            self._explain([*hpas.found.sources, *_SOURCES])
        result.written.update(written)
        result.findings.add(reader.findings)
        self._see(result, pods.pods, hpas)

    def _part(self, name: str) -> str:
        return f"{self.window.name(self.request.source(), self.cluster)}/{name}"

    def write(self, name: str) -> AbstractContextManager[Counter[str]]:
        """Return a context of `Sink.part`; nothing is committed once the window was replaced."""
        held = while_unreplaced(self.window.name(self.request.source(), self.cluster))
        return self.sink.part(self._part(name), held)

    def stored(self, table: str) -> pl.DataFrame | None:
        """Return the store's rows of a small table for this cluster, None if there are none."""
        whole = self.sink.stored(table)
        return None if whole is None else whole.filter(pl.col("cluster") == self.cluster)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Give the store rows of a table, times in ms."""
        if not frame.is_empty():
            self.sink.add(table, self._rows(frame, table))

    def _rows(self, frame: pl.DataFrame, table: str) -> pl.DataFrame:
        """Return the columns of a table, with the cluster; its times are in ms before."""
        columns = table_named(table).columns
        cast = [
            pl.col(c.name).cast(TIME)
            for c in columns
            if c.dtype == TIME and frame.schema.get(c.name, TIME) != TIME
        ]
        names = [c.name for c in columns if c.name in frame.columns or c.name == "cluster"]
        return frame.with_columns(*cast, cluster=pl.lit(self.cluster)).select(names)

    def _explain(self, sources: Sequence[Source]) -> None:
        """Record the provenance of the window's rows."""
        span = self.window.span
        told = self._rows(provenance_rows(sources, span.after_ms, span.until_ms), "provenance")
        self.sink.add("provenance", continued(told, self.stored("provenance")))

    def _usage_parts(
        self, pods: WindowPods, result: ImportResult, tell: Callable[[float], None]
    ) -> None:
        names, size = pods.things.names, self.request.pods_at_once
        for at in range(0, len(names), size):
            # Named by what it holds: another run may have found other pods.
            part = f"usage-{_digest(names[at : at + size])}"
            if self.sink.has_part(self._part(part)):
                continue
            some = Things("pod", names[at : at + size])
            rows, sources = read_usage(self.reader, some)
            owned = assign_pods(rows, pods.pods, self.reader.findings)
            with self.write(part) as written:
                self.add("pod_metrics", owned)
                self._explain(sources)
            result.written.update(written)
            result.count(self.cluster, owned)
            tell(0.2 + 0.7 * min(1.0, (at + size) / len(names)))

    def _metric_part(self, hpas: WindowHpas, pods: pl.DataFrame, result: ImportResult) -> None:
        several, step_ms = bool(self.request.cluster_label), self.request.step_ms
        plan = self.beside.mappings.plan(hpas.found.hpas, several=several)
        for lost in plan.unmapped:
            why = f"no values of {lost.metric}: {lost.reason}"
            result.lacking.setdefault(why, set()).add(lost.hpa)
        part = f"metrics-{_digest([plan.queries, step_ms])}"
        if self.sink.has_part(self._part(part)):
            return
        with self.write(part) as written:
            targets, heartbeats = hpas.targets_by_hpa(), hpas.fleet.heartbeats
            for table, rows in read_metrics(self.reader, plan, pods, targets, heartbeats, step_ms):
                if "pod" in rows.columns:
                    named = rows.with_columns(pod_uid=pl.lit(None, dtype=pl.String))
                    rows = assign_pods(named, pods, self.reader.findings)
                self.add(table, rows)
        result.written.update(written)

    def context(self, specs: pl.DataFrame) -> pl.DataFrame:
        """Return what the objects say beside HPAs with these specs, as far as it is new."""
        objects = self.beside.objects
        if objects is None:
            return pl.DataFrame()
        rows = specs.sort("valid_from").unique(["namespace", "name"], keep="last")
        ends = pl.DataFrame({"cluster": [self.cluster], "last": [self.window.span.until_ms]})
        found = context_rows(objects, rows.with_columns(cluster=pl.lit(self.cluster)), ends)
        stored = None if self.window.initial else self.stored("hpa_context")
        return without_repeats(in_ms(found), stored, ("namespace", "name"), CONTEXT)

    def _controller(self) -> pl.DataFrame:
        """Return a row with the version of the cluster's controller, if it is another now."""
        if not self.reader.has("build_info"):
            return pl.DataFrame()
        seen = self.reader.at(self.window.span.until_ms, "build_info")
        version = version_of(seen.with_labels(["git_version", "job"]).series.rows(named=True))
        stored = self.stored("controller")
        known = [] if stored is None else stored.sort("ts")["version"].drop_nulls().to_list()
        if version is None or known[-1:] == [version]:
            return pl.DataFrame()
        row = {"ts": self.window.span.after_ms, "event": "observed", "version": version}
        return pl.DataFrame([row], {"ts": pl.Int64, "event": pl.String, "version": pl.String})

    def _see(self, result: ImportResult, pods: pl.DataFrame, hpas: WindowHpas) -> None:
        """Count what the window had, and note what is missing of its HPAs."""
        cluster, found = self.cluster, hpas.found
        result.see(cluster, "hpas", {*hpas.fleet.hpas.names, *found.shown})
        result.see(cluster, "targets", [(n, f"{k}/{t}") for n, k, t in hpas.targets()])
        result.see(cluster, "pods", pods.select("namespace", "uid").rows())
        labelled = f"{cluster}/" if self.request.cluster_label else ""
        lacking = [(place, f"left out, as {reason}") for place, reason in found.left_out.items()]
        lacking += [(place, _NO_BEHAVIOR) for place in found.without_behavior]
        for place, what in lacking:
            result.lacking.setdefault(what, set()).add(labelled + "/".join(place))
        there = set(pods.select("namespace", "target_kind", "target").unique().rows())
        for (namespace, name), targets in hpas.targets_by_hpa().items():
            has_pods = any((namespace, *target) in there for target in targets)
            counted = result.podded if has_pods else result.podless
            counted.add(f"{labelled}{namespace}/{name}")
        result.remarks.update(dict.fromkeys(found.warnings))


def _digest(things: Sequence[object]) -> str:
    return hashlib.sha256(repr(things).encode()).hexdigest()[:12]


_NO_BEHAVIOR: Final = "behavior is not exported: Kubernetes' defaults are assumed"
_SOURCES: Final = (
    Source("scales.selector", "absent", "kube-state-metrics exports no selectors: pods by owner"),
    Source("pods", "owner", "pods belong to the workload that owns them"),
)
"""Provenance of every import from kube-state-metrics."""
