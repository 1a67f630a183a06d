"""Prometheus server as an import sees it: version, series, clusters, files beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpabatch.errors import UsageError
from hpabatch.importers.common.objects import PodRequests, load_hpas
from hpabatch.importers.hpa_events.run import Events, read_hpa_events
from hpabatch.importers.prometheus.client.queries import Queries, Query, need, read_queries
from hpabatch.importers.prometheus.metrics.mapping import Mappings, read_mappings
from hpabatch.importers.prometheus.request import DEFAULT_CLUSTER, PrometheusRequest
from hpabatch.inputs.cluster_objects import ClusterObjects, read_objects
from hpabatch.model.objects.hpa import HPA

if TYPE_CHECKING:
    from hpabatch.importers.prometheus.client.http import Server


@dataclass(frozen=True, slots=True)
class Beside:
    """Content of the files beside a server.

    Attributes:
        queries: names of series, and of scale targets.
        mappings: where custom metrics are.
        objects: of the cluster; None: no file was given.
        requests: of pods, by the objects.
        events: recorded edits and statuses of HPAs; None: no file was given.
        notes: sentences for the reader of the history.
    """

    queries: Queries
    mappings: Mappings = field(default_factory=Mappings)
    hpas: tuple[HPA, ...] = ()
    events: Events | None = None
    objects: ClusterObjects | None = None
    requests: PodRequests | None = None
    notes: tuple[str, ...] = ()


def read_beside(request: PrometheusRequest) -> Beside:
    """Read all files that a request names.

    Raises:
        UsageError, UnreadableError: a file cannot be read or understood.
        RefusedError: an HPA is not valid.
    """
    queries = read_queries(request.queries)
    mappings = read_mappings(request.mapping)
    hpas = load_hpas(request.hpas) if request.hpas else []
    events = read_hpa_events(request.hpa_events) if request.hpa_events else None
    notes = mappings.notes()
    if not request.objects:
        return Beside(queries, mappings, tuple(hpas), events, notes=tuple(notes))
    objects = read_objects(request.objects)
    given = {(hpa.namespace or "default", hpa.name) for hpa in hpas}
    return Beside(
        queries,
        mappings,
        (*hpas, *(hpa for place, hpa in objects.hpas.items() if place not in given)),
        events,
        objects,
        PodRequests(objects),
        notes=(*notes, *objects.notes()),
    )


@dataclass(frozen=True, slots=True)
class Site:
    """A server, as far as an import needs it.

    Attributes:
        about: its build information, e.g. {"version": "0.37.0"}.
        names: of the series of the queries, those that it has.
        queries: those that it has series for, by name, with these series.
        clusters: values of the cluster label; one, the given name, where no label is given.
        spaces: by cluster the namespaces to read.
    """

    about: Mapping[str, str]
    names: frozenset[str]
    queries: Mapping[str, Query]
    clusters: tuple[str, ...]
    spaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def look_at(
    server: Server, request: PrometheusRequest, queries: Queries, start_ms: int, end_ms: int
) -> Site:
    """Return the series and clusters of a server within a time.

    Raises:
        UsageError: it lacks series that a history needs, or no cluster has the label.
    """
    names: list[str] = []
    wanted = queries.names()
    for at in range(0, len(wanted), 20):
        pattern = "|".join(wanted[at : at + 20])
        matcher = f'{{__name__=~"{pattern}"}}'
        names += server.label_values("__name__", [matcher], start_ms, end_ms)
    present = queries.present(names)
    need(present, queries, "hpa_info", "pod_info", "pod_owner", "cpu")
    info = present["hpa_info"]
    clusters = _clusters(server, request, info, start_ms, end_ms)
    whose = present["pod_owner"] if request.all_workloads else info
    spaces = {}
    for cluster in clusters:
        label = f'{{{request.cluster_label}="{cluster}"}}' if request.cluster_label else ""
        matcher = f"{whose.series[0]}{label}"
        found = server.label_values(whose.their("namespace"), [matcher], start_ms, end_ms)
        wanted = [one for one in found if one in request.namespaces or not request.namespaces]
        spaces[cluster] = tuple(sorted(wanted))
    return Site(server.build_info(), frozenset(names), present, clusters, spaces)


def _clusters(
    server: Server, request: PrometheusRequest, info: Query, start_ms: int, end_ms: int
) -> tuple[str, ...]:
    if not request.cluster_label:
        for label in _CLUSTER_LABELS:
            several = server.label_values(label, [info.series[0]], start_ms, end_ms)
            if len(several) > 1:
                raise UsageError(
                    f"the server has several clusters ({', '.join(sorted(several)[:5])}): tell "
                    f"them apart with --cluster-label {label}"
                )
        return (request.cluster,)
    found = server.label_values(request.cluster_label, [info.series[0]], start_ms, end_ms)
    clusters = tuple(sorted(name for name in found if name))
    if not clusters:
        raise UsageError(
            f"no series {info.series[0]} has a label {request.cluster_label!r} in that time: name "
            "the label that tells clusters apart with --cluster-label, or give the one cluster's "
            "name with --cluster"
        )
    if request.cluster == DEFAULT_CLUSTER:
        return clusters
    if request.cluster not in clusters:
        raise UsageError(
            f"no series has {request.cluster_label}={request.cluster!r}; there are "
            f"{', '.join(clusters)}"
        )
    return (request.cluster,)


_CLUSTER_LABELS = ("cluster", "k8s_cluster", "cluster_name", "cluster_id")
"""Usual names of the label that tells clusters apart."""

_VERSION_JOBS = ("controller-manager", "apiserver")
"""Parts of the names of jobs that have the version of the HPA controller, best first."""


def version_of(series: Sequence[Mapping[str, str | None]]) -> str | None:
    """Return the version of the HPA's controller among series of `kubernetes_build_info`.

    Kubelets have a version, too, which may be older. Of several the newest counts.
    """
    for part in (*_VERSION_JOBS, ""):
        found = [
            str(one["git_version"])
            for one in series
            if one.get("git_version") and (part in (one.get("job") or "") if part else True)
        ]
        if found:
            return max(found, key=_release)
    return None


def _release(text: str) -> tuple[int, ...]:
    head = text.removeprefix("v").partition("-")[0].partition("+")[0]
    return tuple(int(part) for part in head.split(".") if part.isdigit())
