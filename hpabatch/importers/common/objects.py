"""Objects of a cluster beside an import: requests of pods, HPAs as rows.

What a table or a server says of a time goes before what the objects say of now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import polars as pl

from hpabatch.cluster.objects.rows import RequestRow, compact_json, instant_or_none, request_rows
from hpabatch.cluster.objects.types import PodTemplate
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.columns import TIME
from hpabatch.inputs.cluster_objects import ClusterObjects, WorkloadKey
from hpabatch.inputs.manifests import UNREADABLE, VALID, check_manifests, load_manifests
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.versions import DEFAULT_K8S, profile_for


class PodRequests:
    """Requests of pods by the objects: a pod's own, else those of its workload.

    Of a workload the template counts. Containers that only a pod has, as something injected them,
    and amounts that only a pod has, by a LimitRange, are taken from its newest pod.
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._rows: dict[int, tuple[PodTemplate, tuple[RequestRow, ...]]] = {}
        self._workloads: dict[WorkloadKey, tuple[RequestRow, ...]] = {}
        self._own = {pod.uid: self._of(pod.template) for pod in objects.pods.values() if pod.uid}
        self._newest: dict[WorkloadKey, tuple[RequestRow, ...]] = {}
        for pod in sorted(objects.pods.values(), key=lambda pod: (pod.created_ms, pod.name)):
            behind = objects.workload_of(pod.namespace, pod.name)
            if behind is not None:
                self._newest[(pod.namespace, *behind)] = self._of(pod.template)

    def of_pod(self, uid: str, workload: WorkloadKey) -> tuple[RequestRow, ...]:
        """Return the rows of a pod with a uid (of an object or not) and a workload."""
        own = self._own.get(uid)
        return self.of_workload(workload) if own is None else own

    def of_workload(self, key: WorkloadKey) -> tuple[RequestRow, ...]:
        """Return the rows of a workload's pods, none where the objects do not know it."""
        if key not in self._workloads:
            self._workloads[key] = tuple(self._joined(key))
        return self._workloads[key]

    def usage_container(self, rows: Iterable[RequestRow], fallback: str) -> str:
        """Return the container that has the usage of a pod as a whole: the only one it can be."""
        running = [row.container for row in rows if row.kind in ("app", "sidecar")]
        if len(running) == 1:
            return running[0]
        return next(name for name in (fallback, "pod", "whole-pod") if name not in running)

    def _joined(self, key: WorkloadKey) -> Iterator[RequestRow]:
        newest = {row[:2]: row for row in self._newest.get(key, ())}
        workload = self._objects.workloads.get(key)
        if workload is None:
            yield from newest.values()
            return
        for row in self._of(workload.template):
            pod = newest.pop(row[:2], None)
            filled = zip(row[3:], row[3:] if pod is None else pod[3:], strict=True)
            yield RequestRow(*row[:3], *(one if one is not None else two for one, two in filled))
        yield from newest.values()

    def _of(self, template: PodTemplate) -> tuple[RequestRow, ...]:
        known = self._rows.get(id(template))
        if known is None:
            known = self._rows[id(template)] = (template, request_rows(template))
        return known[1]


AMOUNTS: Final = RequestRow._fields[3:]
"""Columns of `pod_requests` with amounts, in thousandths of a core or byte."""


def known_requests(pods: pl.DataFrame, requests: PodRequests) -> pl.DataFrame:
    """Return the containers of pods by the objects: container, kind, index and AMOUNTS, too.

    `pods` has namespace, target_kind, target and uid; its other columns stay.
    """
    place = [pods.columns.index(name) for name in ("namespace", "target_kind", "target")]
    uid = pods.columns.index("uid")
    found: list[tuple[object, ...]] = []
    for pod in pods.rows():
        key = (str(pod[place[0]]), str(pod[place[1]]), str(pod[place[2]]))
        found += [(*pod, *row) for row in requests.of_pod(pod[uid], key)]
    schema = {**pods.schema, "container": pl.String(), "kind": pl.String(), "index": pl.Int64()}
    return pl.DataFrame(found, schema | dict.fromkeys(AMOUNTS, pl.Int64()), orient="row")


def with_known(rows: pl.DataFrame, known: pl.DataFrame, container: list[str]) -> pl.DataFrame:
    """Return rows of `pod_requests` with what objects know beside them.

    Args:
        rows: of containers, told apart by the columns `container`.
        known: of `known_requests`; containers that only it has come last.
        container: names of columns.

    Returns:
        The rows; columns `o.NAME` have the amounts of the objects.
    """
    known = known.rename({name: f"o.{name}" for name in AMOUNTS})
    own = [name for name in known.columns if name not in rows.columns or name in container]
    joined = rows.join(known.select(own), on=container, how="left", maintain_order="left")
    more = known.join(rows, on=container, how="anti", maintain_order="left")
    return pl.concat([joined, more], how="diagonal")


def load_hpas(paths: Sequence[str]) -> list[HPA]:
    """Return the HPAs of manifests.

    Raises:
        UsageError: a manifest cannot be read; RefusedError: an HPA is not valid.
    """
    found: list[HPA] = []
    for item in check_manifests(load_manifests(paths).entries, profile_for(DEFAULT_K8S)):
        if item.result != VALID or item.hpa is None:
            kind = UsageError if item.result == UNREADABLE else RefusedError
            raise kind(f"--hpas: {item.entry.place}: {item.complaints[0]}")
        found.append(item.hpa)
    if not found:
        raise UsageError(f"--hpas: {' '.join(paths)} holds no HPA")
    return found


def hpa_row(hpa: HPA, cluster: str, since_ms: int) -> dict[str, Any]:
    """Return a row of `hpas` (times in ms): in force from its creation on, at most since a time."""
    created_ms = instant_or_none(hpa.creation_timestamp)
    return {
        "cluster": cluster,
        "namespace": hpa.namespace,
        "name": hpa.name,
        "uid": hpa.uid or f"hpa-{cluster}-{hpa.namespace}-{hpa.name}",
        "spec": spec_to_json(hpa),
        "valid_from": max(since_ms, created_ms or since_ms),
        "labels": compact_json(dict(hpa.labels)),
        "annotations": compact_json(dict(hpa.annotations)),
        "created": created_ms,
        "generation": hpa.generation,
    }


CONTEXT: Final = ("owner", "budgets", "spreads")
"""Columns of `hpa_context` that say something."""


def context_rows(objects: ClusterObjects, hpas: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `hpa_context` of the HPAs that objects say something of, sorted.

    Args:
        hpas: cluster, namespace, name and spec of HPAs.
        ends: cluster, and `last`, the time (ms) since when their context is known.
    """
    rows = []
    known = hpas.select("cluster", "namespace", "name", "spec").join(ends, on="cluster")
    for cluster, namespace, name, spec, last in known.select(
        "cluster", "namespace", "name", "spec", "last"
    ).iter_rows():
        row = _context(objects, namespace, name, spec)
        if row is not None:
            rows.append((cluster, namespace, name, last, *row))
    schema = dict.fromkeys(("cluster", "namespace", "name"), pl.String()) | {"ts": pl.Int64()}
    frame = pl.DataFrame(rows, schema | dict.fromkeys(CONTEXT, pl.String()), orient="row")
    return frame.with_columns(pl.col("ts").cast(TIME)).sort("cluster", "namespace", "name")


def _context(
    objects: ClusterObjects, namespace: str, name: str, spec: str
) -> tuple[str | None, str | None, str | None] | None:
    """Return owner, budgets and spreads of an HPA, None where no object says anything of it."""
    own = objects.hpas.get((namespace, name))
    stated = HPA(name=name, namespace=namespace, spec=hpa_from_json(spec)[0].spec)
    found = objects.availability_of(stated)
    if own is None and found is None:
        return None
    owner = None if own is None else own.owner or None
    if found is None:
        return owner, None, None
    # Objects without any budget were listed without that kind.
    budgets = compact_json(found.budgets_json()) if objects.budgets else None
    return owner, budgets, compact_json(found.spreads_json())
