"""HPAs, scale targets and pods of a window: presence, sizes, owners, lives, requests, states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.history.columns import INT32_MAX
from hpabatch.importers.common.rows import (
    continued_requests,
    in_ms,
    is_new,
    ms_schema,
    without_repeats,
)
from hpabatch.importers.prometheus.client.queries import Queries, Query
from hpabatch.importers.prometheus.client.samples import Findings, Samples, Span, joined_samples
from hpabatch.importers.prometheus.pods.lives import continued_pods, owned_pods, pod_rows
from hpabatch.importers.prometheus.pods.states import (
    REQUESTED,
    beside_objects,
    note_lacking,
    request_rows,
    state_rows,
)
from hpabatch.importers.prometheus.reading.gauges import Gauge
from hpabatch.importers.prometheus.reading.reader import Reader, Things, only
from hpabatch.importers.prometheus.site import Beside

_HPA = "horizontalpodautoscaler"
_TARGET = (
    "scaletargetref_api_version", "scaletargetref_kind", "scaletargetref_name", "container",
)  # fmt: skip
_HEARTBEAT_SPACES = ("default", "kube-system")
_GAUGES: Mapping[str, tuple[str, ...]] = {
    "hpa_min": (),
    "hpa_max": (),
    "hpa_target": ("metric_name", "metric_target_type", "container"),
    "hpa_generation": (),
    "hpa_current": (),
    "hpa_desired": (),
    "hpa_metric": ("metric_name", "metric_target_type"),
    "hpa_condition": ("condition", "status"),
}
"""Gauges of HPAs, with the labels that identify their series."""

Target = tuple[str, str, str]
"""Namespace, kind and name of a scale target."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The HPAs of a window.

    Attributes:
        gauges: by name (`hpa_info`, `hpa_min`, …).
        heartbeats: instants (ms) at which the exporter was read, as far as known.
    """

    hpas: Things
    gauges: Mapping[str, Gauge]
    heartbeats: tuple[int, ...]

    def scaled(self) -> list[tuple[tuple[str, str], tuple[str, str]]]:
        """Return (namespace, HPA) with (kind, name) of what it scaled at any time, in order."""
        rows = self.gauges["hpa_info"].changes
        columns = ("namespace", _HPA, "scaletargetref_kind", "scaletargetref_name")
        found = rows.select(columns).drop_nulls().unique().sort(columns)
        return [((str(n), str(h)), (str(k), str(t))) for n, h, k, t in found.rows()]


def read_fleet(reader: Reader, namespaces: tuple[str, ...]) -> Fleet:
    """Return the HPAs that were there in a window, and all that is exported of them."""
    there = reader.facts("hpa_info", "last", namespace=namespaces)
    at_ends = [
        _names(reader.at(ms, "hpa_info", namespace=namespaces))
        for ms in (reader.span.after_ms, reader.span.until_ms)
    ]
    everyone = _names(there)
    always = at_ends[0] & at_ends[1] & everyone
    hpas = Things(_HPA, tuple(sorted(everyone)), frozenset(everyone - always))
    gauges = {"hpa_info": reader.gauge("hpa_info", _TARGET, hpas)}
    for name, labels in _GAUGES.items():
        gauges[name] = reader.gauge(name, labels, hpas)
    return Fleet(hpas, gauges, read_heartbeats(reader, hpas))


def read_heartbeats(reader: Reader, hpas: Things) -> tuple[int, ...]:
    """Return when kube-state-metrics was read, from a series that is always there.

    Without one (a tenant may see its own namespaces only) the HPAs' own series serve.
    """
    found = reader.raw_facts("heartbeat", namespace=_HEARTBEAT_SPACES)
    if not found.count:
        some = Things(hpas.label, hpas.names[:20])
        query = reader.queries["hpa_info"]
        found = reader.raw(query, some, 1)
    return tuple(found.points["ts"].unique().sort().to_list())


def read_scales(
    reader: Reader,
    queries: Queries,
    names: frozenset[str],
    targets: Sequence[Target],
    initial: bool,
) -> pl.DataFrame:
    """Return the `scales` rows of targets; a kind without series is noted."""
    frames = []
    for kind in sorted({kind for _, kind, _ in targets}):
        places = tuple((n, t) for n, k, t in targets if k == kind)
        scalable = queries.scalables.get(kind)
        if scalable is None or scalable.spec not in names:
            told = f"{kind} (no series; see `scalables` in a file for --queries)"
            reader.findings.note("no replicas", told, len(places))
            continue
        labels = queries.queries["hpa_info"].labels
        spec, status = (
            Query(f"{kind} {size}", (series,), labels=labels)
            for size, series in (("spec", scalable.spec), ("status", scalable.status))
        )
        things = reader.with_presence(spec, Things(scalable.label, places))
        wanted = reader.gauge(spec, (), things)
        there = reader.gauge(status if scalable.status in names else None, (), things)
        frames.append(
            scale_rows(
                kind, scalable.label, wanted, there, reader.span,
                initial=initial, findings=reader.findings,
            )
        )  # fmt: skip
    return pl.concat(frames) if frames else pl.DataFrame()


def _names(samples: Samples) -> set[tuple[str, str]]:
    rows = samples.with_labels(["namespace", _HPA]).series.select("namespace", _HPA)
    return {(str(a), str(b)) for a, b in rows.drop_nulls().rows()}


# kube-state-metrics exports no selector of a scale.
SCALES: Final = ms_schema("scales", "error")
_SIZES = ("spec_replicas", "status_replicas")


def scale_rows(
    kind: str,
    label: str,
    spec: Gauge,
    status: Gauge,
    span: Span,
    *,
    initial: bool,
    findings: Findings | None = None,
) -> pl.DataFrame:
    """Return the changes of targets' sizes: at each change of either gauge, the latest of both.

    Args:
        label: with their name.
        spec: spec.replicas, by namespace and label.
        status: status.replicas, alike. Where one of both says nothing, it is as the other one.
        initial: whether the sizes at span.after_ms are written, too.
        findings: gets ("assumed", …) per target of which only one of both is known, and
            ("value", …) per size that is none.

    Returns:
        SCALES (ts in ms; selector null), sorted by namespace, target and ts.
    """
    noted = Findings() if findings is None else findings
    key = ["namespace", label]
    parts = [
        _whole(gauge.changes, noted).select(*key, "ts", pl.col("value").alias(name))
        for gauge, name in zip((spec, status), _SIZES, strict=True)
    ]
    rows = pl.concat(parts, how="diagonal").group_by([*key, "ts"]).agg(pl.col(_SIZES).max())
    rows = rows.drop_nulls(key).sort([*key, "ts"])
    rows = rows.with_columns(pl.col(_SIZES).forward_fill().over(key))
    unknown = rows.group_by(key).agg(pl.col(_SIZES).is_null().all())
    for name in _SIZES:
        noted.note("assumed", f"{name} of a {kind}: as its other size", int(unknown[name].sum()))
    spec_of, status_of = (pl.col(name) for name in _SIZES)
    rows = rows.with_columns(
        spec_replicas=pl.coalesce(spec_of, status_of),
        status_replicas=pl.coalesce(status_of, spec_of),
    )
    rows = rows.filter(is_new(key, _SIZES))
    if not initial:
        rows = rows.filter(pl.col("ts") > span.after_ms)
    named = rows.rename({label: "target"}).with_columns(
        target_kind=pl.lit(kind), selector=pl.lit(None, dtype=pl.String)
    )
    return named.select(list(SCALES)).cast(SCALES)


def _whole(changes: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    good = changes.filter(pl.col("value").is_between(0, INT32_MAX))
    findings.note("value", "a size that is none", changes.height - good.height)
    return good.with_columns(pl.col("value").round(0).cast(pl.Int64))


Stored = Callable[[str], pl.DataFrame | None]
"""Returns what the store has of a table, None if nothing."""

SPACES_AT_ONCE = 50
_KEY = ["namespace", "pod", "uid"]
_TARGET_KEY = ["namespace", "target_kind", "target"]


@dataclass(frozen=True, slots=True)
class WindowPods:
    """The pods of a window.

    Attributes:
        things: their names, to ask for more of them; those of one target stand together.
    """

    things: Things
    pods: pl.DataFrame
    requests: pl.DataFrame
    states: pl.DataFrame


def read_pods(
    reader: Reader,
    targets: Collection[Target] | None,
    namespaces: tuple[str, ...],
    heartbeats: Sequence[int],
    stored: Stored,
    initial: bool,
    beside: Beside,
) -> WindowPods:
    """Return the pods of scale targets (None: every pod of these namespaces) in a window.

    Args:
        targets, namespaces: see above; no namespaces: all.
    """
    owners, chain, things = _find(reader, targets, namespaces)
    info_labels = ("uid", "node", "created_by_kind", "created_by_name")
    info = reader.gauge("pod_info", info_labels, things)
    pods = pod_rows(
        info,
        only(owners, things),
        chain,
        reader.facts_of("pod_created", "max", things),
        reader.facts_of("pod_started", "max", things),
        reader.gauge("pod_deleted", ("uid",), things),
        heartbeats,
        reader.span,
        reader.findings,
    )
    if targets is not None:
        pods = pods.join(_frame(targets), on=_TARGET_KEY, how="semi")
    known = None if initial else stored("pods")
    if known is not None:
        earlier = _still_there(known, targets, namespaces)
        pods = continued_pods(earlier, pods, heartbeats, reader.span)
    # The series of a pod exist for as long as the pod.
    there = info.seen.select("namespace", "pod", "uid", "first", "last")
    ready_time = reader.gauge("pod_ready_time", ("uid",), things)
    states = state_rows(
        reader.gauge("pod_phase", ("uid", "phase"), things, there),
        # A pod has no Ready condition at first.
        reader.gauge("pod_ready", ("uid", "condition"), things),
        ready_time if reader.has("pod_ready_time") else None,
        pods,
        reader.span,
        reader.findings,
        initial=initial,
        before=None if initial else _last_states(stored("pod_states")),
    )
    said = {
        name: reader.gauge(name, ("uid", *labels), things, there)
        for name, labels in REQUESTED.items()
    }
    requests = request_rows(said, pods, reader.span, reader.findings, initial=initial)
    if beside.requests is not None and not reader.has("requests"):
        requests = beside_objects(requests, pods, beside.requests)
    note_lacking(requests, reader.findings)
    if not initial:
        requests = continued_requests(requests, stored("pod_requests"), there)
        values = ("phase", "ready", "last_transition")
        states = without_repeats(states, stored("pod_states"), ("uid",), values)
    return WindowPods(things, pods, requests, states)


def _last_states(stored: pl.DataFrame | None) -> pl.DataFrame | None:
    """Return uid, ready and last_transition (ms) of each pod's last state, None: none is known."""
    if stored is None:
        return None
    transition = pl.col("last_transition").dt.timestamp("ms")
    last = stored.sort("uid", "ts").unique("uid", keep="last", maintain_order=True)
    return last.select("uid", "ready", transition)


def _still_there(
    stored: pl.DataFrame, targets: Collection[Target] | None, namespaces: tuple[str, ...]
) -> pl.DataFrame:
    """Return the pods of the targets that were alive before the window (times in ms)."""
    rows = in_ms(stored.filter(pl.col("gone").is_null()))
    if targets is not None:
        wanted = _frame(targets).select("namespace", "target").unique()
        return rows.join(wanted, on=["namespace", "target"], how="semi")
    return rows.filter(pl.col("namespace").is_in(namespaces)) if namespaces else rows


def _find(
    reader: Reader, targets: Collection[Target] | None, namespaces: tuple[str, ...]
) -> tuple[Samples, Samples, Things]:
    """Return owners of pods and of ReplicaSets, and the names of the pods that are wanted."""
    spaces = namespaces
    if targets is not None:
        spaces = tuple(sorted({namespace for namespace, _, _ in targets}))
    if targets is not None and not spaces:
        return joined_samples([]), joined_samples([]), Things("pod", ())
    owners = _by_space(reader, "pod_owner", spaces)
    chain = _by_space(reader, "replicaset_owner", spaces)
    pods = owned_pods(owners, chain)
    if targets is not None:
        pods = pods.join(_frame(targets), on=_TARGET_KEY, how="semi")
    there = {tuple(row) for row in pods.select(_KEY).rows()}
    always = set(there)
    for ms in (reader.span.after_ms, reader.span.until_ms):
        now = _by_space(reader, "pod_owner", spaces, ms)
        always &= {tuple(row) for row in now.with_labels(_KEY).series.select(_KEY).rows()}
    partial = {(str(namespace), str(pod)) for namespace, pod, _ in there - always}
    names = pods.sort([*_TARGET_KEY, "pod"], nulls_last=True).select("namespace", "pod")
    ordered = tuple(dict.fromkeys((str(a), str(b)) for a, b in names.rows()))
    return owners, chain, Things("pod", ordered, frozenset(partial))


def _by_space(
    reader: Reader, name: str, spaces: tuple[str, ...], at_ms: int | None = None
) -> Samples:
    """Return the series of a name in some namespaces, over the window or at an instant."""
    found = []
    for k in range(0, max(1, len(spaces)), SPACES_AT_ONCE):
        group = spaces[k : k + SPACES_AT_ONCE]
        if at_ms is None:
            found.append(reader.facts(name, "last", namespace=group))
        elif reader.has(name):
            found.append(reader.at(at_ms, name, namespace=group))
    return joined_samples(found)


def _frame(targets: Collection[Target]) -> pl.DataFrame:
    return pl.DataFrame(sorted(targets), schema=dict.fromkeys(_TARGET_KEY, pl.String), orient="row")
