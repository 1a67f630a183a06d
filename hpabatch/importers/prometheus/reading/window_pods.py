"""Pods of a window: owners, lives, requests and states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import polars as pl

from hpabatch.importers.common.rows import continued_requests, in_ms, without_repeats
from hpabatch.importers.prometheus.client.samples import Samples, joined_samples
from hpabatch.importers.prometheus.pods.lives import continued_pods, owned_pods, pod_rows
from hpabatch.importers.prometheus.pods.states import (
    Requested,
    beside_objects,
    note_lacking,
    request_rows,
    state_rows,
)
from hpabatch.importers.prometheus.reading.gauges import Gauge
from hpabatch.importers.prometheus.reading.reader import Reader, Things, only
from hpabatch.importers.prometheus.reading.window_fleet import Target
from hpabatch.importers.prometheus.site import Beside

Stored = Callable[[str], pl.DataFrame | None]
"""Returns what the store has of a table, None if nothing."""

SPACES_AT_ONCE = 50
_KEY = ["namespace", "pod", "uid"]
_TARGET = ["namespace", "target_kind", "target"]


@dataclass(frozen=True, slots=True)
class WindowPods:
    """The pods of a window.

    Attributes:
        things: their names, to ask for more of them; those of one target stand together.
        pods: rows of lives.POD_ROWS.
        requests: rows of `pod_requests`.
        states: rows of `pod_states`.
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
        reader: of the window.
        targets, namespaces: see above; no namespaces: all.
        heartbeats: when the exporter was read (ms).
        stored: what the store has of the cluster.
        initial: nothing was imported right before.
        beside: the files beside the server.
    """
    owners, chain, things = _find(reader, targets, namespaces)
    info_labels = ("uid", "node", "created_by_kind", "created_by_name")
    info = reader.gauge("pod_info", info_labels, things)
    pods = pod_rows(
        info,
        only(owners, things),
        chain,
        reader.facts_of("pod_labels", "last", things),
        reader.facts_of("pod_created", "max", things),
        reader.facts_of("pod_started", "max", things),
        reader.gauge("pod_deleted", ("uid",), things),
        heartbeats,
        reader.span,
        reader.findings,
    )
    if targets is not None:
        pods = pods.join(_frame(targets), on=_TARGET, how="semi")
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
    requests = request_rows(
        _requested(reader, things, there), pods, reader.span, reader.findings, initial=initial
    )
    if beside.requests is not None:
        exported = reader.has("requests")
        requests = beside_objects(requests, pods, beside.requests, beside.told, exported=exported)
    note_lacking(requests, reader.findings)
    if not initial:
        requests = continued_requests(requests, stored("pod_requests"), there)
        said = ("phase", "ready", "last_transition")
        states = without_repeats(states, stored("pod_states"), ("uid",), said)
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
        pods = pods.join(_frame(targets), on=_TARGET, how="semi")
    there = {tuple(row) for row in pods.select(_KEY).rows()}
    always = set(there)
    for ms in (reader.span.after_ms, reader.span.until_ms):
        now = _by_space(reader, "pod_owner", spaces, ms)
        always &= {tuple(row) for row in now.with_labels(_KEY).series.select(_KEY).rows()}
    partial = {(str(namespace), str(pod)) for namespace, pod, _ in there - always}
    names = pods.sort([*_TARGET, "pod"], nulls_last=True).select("namespace", "pod")
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
    return pl.DataFrame(sorted(targets), schema=dict.fromkeys(_TARGET, pl.String), orient="row")


def _requested(reader: Reader, things: Things, there: pl.DataFrame) -> Requested:
    """Return the gauges of containers and their requests."""

    def read(name: str, *labels: str) -> Gauge:
        return reader.gauge(name, ("uid", *labels), things, there)

    return Requested(
        containers=read("containers", "container"),
        requests=read("requests", "container", "resource"),
        limits=read("limits", "container", "resource"),
        init_containers=read("init_containers", "container", "restart_policy"),
        init_requests=read("init_requests", "container", "resource"),
        init_limits=read("init_limits", "container", "resource"),
        overhead_cpu=read("overhead_cpu"),
        overhead_memory=read("overhead_memory"),
    )
