"""What a server is and has: its kind, the names of series, the clusters, the version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.queries import Queries, Query, need
from hpabatch.importers.prometheus.request import DEFAULT_CLUSTER, ImportRequest

if TYPE_CHECKING:
    from hpabatch.importers.prometheus.client.http import Server


@dataclass(frozen=True, slots=True)
class Site:
    """A server, as far as an import needs to know it.

    Attributes:
        about: what it says of itself, e.g. {"flavour": "thanos", "version": "0.37.0"}.
        names: of all series of which the queries name one, that it has.
        queries: those that it can answer, by name, each with the series that it has.
        clusters: values of the cluster label; one, the given name, where no label is given.
        spaces: the namespaces of each cluster that there is anything to ask about.
    """

    about: Mapping[str, str]
    names: frozenset[str]
    queries: Mapping[str, Query]
    clusters: tuple[str, ...]
    spaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def look_at(
    server: Server, request: ImportRequest, queries: Queries, start_ms: int, end_ms: int
) -> Site:
    """Return what a server has in a time.

    Raises:
        UsageError: it has none of what a history needs, or no cluster carries the label.
    """
    names: list[str] = []
    wanted = queries.names()
    for at in range(0, len(wanted), 20):
        pattern = "|".join(wanted[at : at + 20])
        matcher = f'{{__name__=~"{pattern}"}}'
        names += server.label_values("__name__", [matcher], start_ms, end_ms)
    present = queries.present(names)
    need(present, queries, "hpa_info", *(("hpa_metric", "hpa_current") if request.lite else ()))
    if not request.lite:
        need(present, queries, "pod_info", "pod_owner")
        if "cpu" not in present and "cpu_rate" not in present:
            need(present, queries, "cpu")
    info = present["hpa_info"]
    clusters = _clusters(server, request, info, start_ms, end_ms)
    whose = present["pod_owner"] if request.all_workloads and not request.lite else info
    spaces = {}
    for cluster in clusters:
        label = f'{{{request.cluster_label}="{cluster}"}}' if request.cluster_label else ""
        matcher = f"{whose.series[0]}{label}"
        found = server.label_values(whose.their("namespace"), [matcher], start_ms, end_ms)
        wanted = [one for one in found if one in request.namespaces or not request.namespaces]
        spaces[cluster] = tuple(sorted(wanted))
    return Site(server.build_info(), frozenset(names), present, clusters, spaces)


def _clusters(
    server: Server, request: ImportRequest, info: Query, start_ms: int, end_ms: int
) -> tuple[str, ...]:
    if not request.cluster_label:
        for label in _CLUSTER_LABELS:
            several = server.label_values(label, [info.series[0]], start_ms, end_ms)
            if len(several) > 1:
                raise UsageError(
                    f"the server holds several clusters ({', '.join(sorted(several)[:5])}): tell "
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
"""What sites call the label that tells clusters apart."""

_VERSION_JOBS = ("controller-manager", "apiserver")
"""Whose version is the HPA controller's, by parts of the job's name, the best first."""


def version_of(series: Sequence[Mapping[str, str | None]]) -> str | None:
    """Return the version of the HPA's controller among series of `kubernetes_build_info`.

    Kubelets say theirs too, which may be older. Of several, during an upgrade, the last counts.
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
