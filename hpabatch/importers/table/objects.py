"""Objects of a cluster beside a table: names, lives, labels and requests of its pods.

A pod that is among the objects has their uid, creation, labels and requests. A pod that is gone has
what its workload's template says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

import polars as pl

from hpabatch.cluster.objects.rows import labels_text, time_or_none
from hpabatch.cluster.objects.types import PodObject
from hpabatch.importers.common.objects import PodRequests, hpa_row
from hpabatch.inputs.cluster_objects import ClusterObjects
from hpabatch.model.objects.hpa import (
    HPA,
    ExternalMetricSource,
    ObjectMetricSource,
    PodsMetricSource,
)
from hpabatch.model.printable import counted
from hpabatch.model.selectors import selector_from_object

DEFAULT_CONTAINER: Final = "app"
DEFAULT_KIND: Final = "Deployment"
SLOW_START_MS: Final = 300_000
"""A pod that became Ready later after its creation had been Ready before, most likely."""

_THERE: Final = 1 << 40
"""Number of the life of a pod that is among the objects."""


def metrics_of(hpa: HPA) -> Iterator[tuple[str, str, str, str]]:
    """Yield type, name, described KIND/NAME and selector of an HPA's metrics, as a map has them."""
    for metric in hpa.spec.metrics:
        described = selector = ""
        if metric.object is not None:
            described = (
                f"{metric.object.described_object.kind}/{metric.object.described_object.name}"
            )
        if isinstance(metric.source, ObjectMetricSource | PodsMetricSource | ExternalMetricSource):
            with suppress(ValueError):  # (one that does not convert has no samples)
                selector = str(selector_from_object(metric.source.metric.selector))
        yield metric.type, metric.subject, described, selector


class Beside:
    """Objects beside a table."""

    def __init__(self, objects: ClusterObjects) -> None:
        self.objects = objects
        self.requests = PodRequests(objects)

    def container_of(self, namespace: str, workload: tuple[str, str], pod: str = "") -> str:
        """Return the container that a value of a pod as a whole belongs to."""
        known = self.objects.pods.get((namespace, pod))
        rows = self.requests.of_pod("" if known is None else known.uid, (namespace, *workload))
        return self.requests.usage_container(rows, DEFAULT_CONTAINER)

    def names(self, frame: pl.DataFrame, *, container: bool) -> pl.DataFrame:
        """Add what rows lack of target, kind and, if wanted, container; null: it is not known.

        `frame` has namespace, and pod or target or both.
        """
        single = frame.unique(maintain_order=True)
        found: dict[str, list[str | None]] = {"target": [], "kind": [], "container": []}
        for row in single.rows(named=True):
            namespace, pod, target = row["namespace"], row.get("pod"), row.get("target")
            if target is None and "target" not in row:
                place = self.objects.workload_of(namespace or "", pod or "")
            else:
                kind = row.get("kind") or self.objects.kind_of(namespace or "", target or "")
                place = (kind or DEFAULT_KIND, target or "")
            found["kind"].append(None if place is None else place[0])
            found["target"].append(None if place is None else place[1])
            usage = None
            if place is not None and container:
                usage = self.container_of(namespace or "", place, pod or "")
            found["container"].append(usage)
        new = [name for name in found if name not in frame.columns]
        added = single.with_columns(pl.Series(name, found[name], pl.String) for name in new)
        return frame.join(
            added, on=frame.columns, how="left", nulls_equal=True, maintain_order="left"
        )

    def split_lives(self, rows: pl.DataFrame, life: pl.Series) -> pl.Series:
        """Return the number of each row's life: what was before a pod's creation was another."""
        found = rows.select("namespace", "pod", "uid", "ts").with_columns(life=life)
        found = found.join(self._pods, on=["namespace", "pod"], how="left", maintain_order="left")
        there = (pl.col("uid") == "") & (pl.col("ts") >= pl.col("p_created"))
        return found.select(pl.when(there).then(_THERE).otherwise("life").alias("life"))["life"]

    def with_pods(self, lives: pl.DataFrame) -> pl.DataFrame:
        """Give lives of pods that are among the objects their uid, creation and readiness.

        `lives` has `begin` (ms of the first row) and `given` (the uid of the table, or "").
        """
        joined = lives.join(self._pods, on=["namespace", "pod"], how="left", maintain_order="left")
        within = (pl.col("p_created") <= pl.col("begin")).fill_null(value=False)
        same = (pl.col("given") == "") | (pl.col("given") == pl.col("p_uid"))
        mine = within & same
        ready = pl.col("p_ready")
        believed = (ready - pl.col("p_created") <= SLOW_START_MS) | (ready <= pl.col("begin"))
        created = pl.when(mine).then("p_created").otherwise("created")
        shift = pl.col("ready") - pl.col("created") + created
        found = joined.with_columns(
            uid=pl.when(mine).then("p_uid").otherwise("uid"),
            created=created,
            ready=pl.when(mine & believed).then(ready).otherwise(shift),
            gone=pl.when(~mine).then("gone"),
        )
        following = pl.col("created").shift(-1).over("cluster", "namespace", "target", "pod")
        found = found.with_columns(gone=pl.min_horizontal("gone", following))
        return found.select(lives.columns)

    @cached_property
    def _pods(self) -> pl.DataFrame:
        """The pods by namespace and name: p_uid, and when they were created and became Ready."""
        rows = [
            (
                *(pod.namespace, pod.name, pod.uid, pod.created_ms),
                pod.transition_ms if pod.ready == "True" else None,
            )
            for pod in self.objects.pods.values()
            if pod.uid and time_or_none(pod.created_ms) is not None
        ]
        schema = {
            **dict.fromkeys(("namespace", "pod", "p_uid"), pl.String),
            **dict.fromkeys(("p_created", "p_ready"), pl.Int64),
        }
        return pl.DataFrame(rows, schema=schema, orient="row")

    @cached_property
    def _by_uid(self) -> Mapping[str, PodObject]:
        return {pod.uid: pod for pod in self.objects.pods.values() if pod.uid}

    def described(self, lives: pl.DataFrame, labels: Mapping[str, str]) -> dict[str, pl.Series]:
        """Return labels, owner, started (ms) and node of lives.

        `labels` has those of workloads that the objects do not know.
        """
        found: dict[str, list[str | int | None]] = {"labels": [], "owner": [], "node": []}
        started: list[int | None] = []
        columns = ("namespace", "kind", "target", "uid", "created")
        for namespace, kind, target, uid, created in lives.select(columns).rows():
            pod = self._by_uid.get(uid)
            workload = self.objects.workloads.get((namespace, kind, target))
            if pod is not None:
                found["labels"].append(labels_text(pod.labels))
            elif workload is not None:
                found["labels"].append(labels_text(workload.labels))
            else:
                found["labels"].append(labels[target])
            found["owner"].append(f"{kind}/{target}" if pod is None else pod.owner)
            found["node"].append(None if pod is None else pod.node)
            started.append(created if pod is None else time_or_none(pod.started_ms))
        texts = {name: pl.Series(name, values, pl.String) for name, values in found.items()}
        return {**texts, "started": pl.Series("started", started, pl.Int64)}

    def selector_of(self, namespace: str, kind: str, target: str) -> str | None:
        """Return the selector of a workload's scale, None where it is not known."""
        workload = self.objects.workloads.get((namespace, kind, target))
        if workload is None or workload.scale is None or workload.scale.error:
            return None
        return workload.scale.selector

    def hpa_rows(
        self,
        workloads: Mapping[tuple[str, str, str, str], int],
        stated: Collection[tuple[str, str, str, str]],
        rows: Collection[Mapping[str, Any]],
    ) -> list[dict[str, Any]]:
        """Return the rows of `hpas` (times in ms) of the objects' HPAs of workloads.

        Args:
            workloads: of the table, by cluster, namespace, kind and name: since when they are
                there, in ms.
            stated: those whose HPA the map states, or that it says have none.
        """
        named = {(row["namespace"], row["name"]) for row in rows}
        found = []
        for place, since_ms in workloads.items():
            for hpa in self.objects.by_target.get(place[1:], ()):
                row = hpa_row(hpa, place[0], since_ms)
                name = (hpa.namespace, hpa.name)
                if place not in stated and name not in named:
                    found.append(row)
        return found

    def notes(
        self,
        hpas: pl.DataFrame,
        workloads: Collection[tuple[str, str, str, str]],
        spans: pl.DataFrame,
        sampled: Collection[tuple[str, str, str, str]],
    ) -> list[str]:
        """Return sentences on objects that the table does not use, or has no samples for.

        Args:
            sampled: the metrics that the table has, as `metrics_of` yields them.
            workloads: of the table: cluster, namespace, kind and name.
            spans: cluster, first and last ts (ms) of the table.
        """
        there = {place[1:] for place in workloads}
        other = [
            (hpa.namespace, hpa.name)
            for target, hpas_of in self.objects.by_target.items()
            for hpa in hpas_of
            if target not in there
        ]
        found = self.objects.notes()
        if other:
            first = "/".join(min(other))
            found.append(
                f"--objects: {len(other):,} of {counted(len(self.objects.hpas), 'HPA')} not used: "
                f"the table has no rows of their targets (first {first})"
            )
        named = set(hpas.select("namespace", "name").rows())
        lost = [
            f"{' '.join(metric[:2])} of {hpa.namespace}/{hpa.name}"
            for target in sorted(there & self.objects.by_target.keys())
            for hpa in self.objects.by_target[target]
            for metric in metrics_of(hpa)
            if metric not in sampled
            and metric[0] != "ContainerResource"
            and (hpa.namespace, hpa.name) in named
        ]
        if lost:
            found.append(
                f"--objects: {counted(len(lost), 'metric')} of HPAs without samples, which fail at "
                f"every sync (first {lost[0]}): name their columns in columns.metrics, with type "
                "and selector"
            )
        ends = hpas.join(spans, on="cluster").filter(
            pl.col("valid_from").dt.timestamp("ms") > pl.col("last")
        )
        if not ends.is_empty():
            namespace, name = ends.sort("namespace", "name").select("namespace", "name").row(0)
            found.append(
                f"--objects: {counted(ends.height, 'HPA')} created after the table's last row "
                f"(first {namespace}/{name}), so that nothing of it is decided: state them "
                "under hpas in the map to decide as if they had been there"
            )
        return found
