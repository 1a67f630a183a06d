"""Entries of a map that match nothing in a table, and workloads whose HPA lacks a request.

A map may serve several files, of which each has some of the workloads. So an entry without a match
is a mistake only where the table has a workload of a similar name that no entry of the same section
names; else it is counted in a warning, unless objects of the cluster know its workload. `partial:
true` in the map makes a warning of the mistake, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.importers.common.work import disk_errors
from hpabatch.importers.table.files import TableFile
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.objects import DEFAULT_CONTAINER
from hpabatch.importers.table.rows import Tally
from hpabatch.importers.table.spill import Spill
from hpabatch.inputs.documents import MistakesError, show
from hpabatch.model.printable import counted
from hpabatch.model.suggestions import did_you_mean, near_path

Containers = frozenset[tuple[str, ...]]
"""Cluster, namespace, workload, container and resource."""

_MOST_CANDIDATES: Final = 5000
_MOST_COMPARED: Final = 200
_NAMED: Final = 3
_FORMS: Final = ("a workload", "a namespace/workload", "a namespace/workload/container")
_SHOWN_METRICS: Final = 12


def check_entries(table: TableMap, spill: Spill) -> list[str]:
    """Return a warning of the entries that match nothing, if there are any.

    Raises:
        MistakesError: an entry matches nothing, but nearly.
    """
    entries = [
        (f"{kind}.{resource}.workloads", key)
        for kind, amounts in (("requests", table.requests), ("limits", table.limits))
        for resource, amount in amounts.items()
        for key in amount.listed
    ]
    entries += [("hpas.workloads", key) for key in table.hpas.exceptions]
    if not entries:
        return []
    names = _names(table, spill, deep=any(key.count("/") == 2 for _, key in entries))
    there: set[str] = set()
    # What the objects know beside the table is right, and has no data today.
    for place in () if table.beside is None else table.beside.objects.workloads:
        namespace, _, name = place
        there.update((name, f"{namespace}/{name}"))
        containers = table.beside.requests.of_workload(place) if table.beside else ()
        there.update(f"{namespace}/{name}/{row.container}" for row in containers)
    unmatched = [(path, key) for path, key in entries if key not in names and key not in there]
    # A name that has an entry of its own in a section is not what another entry of it means.
    free = {
        path: sorted(names - {key for other, key in entries if other == path})[:_MOST_CANDIDATES]
        for path in {path for path, _ in unmatched}
    }
    mistakes = [
        f"expected {_FORMS[min(key.count('/'), 2)]} of the table, got {show(key)} "
        f"(map {table.path}: {path}){hint}, or say `partial: true` in the map if it is right and "
        "not in this table"
        for path, key in unmatched[:_MOST_COMPARED]
        if (hint := near_path(key, free[path]))
    ]
    if mistakes and not table.partial:
        raise MistakesError(mistakes)
    if not unmatched:
        return []
    first = ".".join(unmatched[0])
    if len(unmatched) == 1:
        return [f"{first}: no such workload here"]
    return [f"{len(unmatched):,} entries of the map match nothing here, first {first}"]


def check_metrics(table: TableMap, files: Iterable[TableFile], tally: Tally) -> list[str]:
    """Return a warning of the metrics of a map that a long table does not have.

    Raises:
        HistoryError: there are such, and the map is not `partial`.
    """
    if table.pivot is None or not tally.read:
        return []  # (an input without rows is refused as such)
    wanted = {
        name: None for file in files for name in table.pivot.metrics(
            table.value_columns(), file.columns)
    }  # fmt: skip
    absent = [name for name in wanted if name not in tally.metrics]
    if not absent:
        return []
    known = sorted(tally.metrics)
    shown = ", ".join(known[:_SHOWN_METRICS]) + (", …" if len(known) > _SHOWN_METRICS else "")
    shown = f"are {shown}" if known else "is nothing in that column"
    told = f"no row has {show(absent[0])} in column {show(table.pivot.name)}"
    if table.partial:
        return [told]
    raise HistoryError(
        f"{told}, and no column has that name, which {table.path} gives"
        f"{did_you_mean(absent[0], known)} (there {shown}); nothing is written"
    )


def _names(table: TableMap, spill: Spill, *, deep: bool) -> set[str]:
    """Return all that an entry can match: `workload`, `namespace/workload` and, `deep`, more."""
    found: set[str] = set()
    for namespace, workload in spill.workloads.select("namespace", "target").unique().rows():
        found.update((workload, f"{namespace}/{workload}"))
    if not deep:
        return found
    columns = ["namespace", "target", "container"]
    if table.level is Level.pod:
        with disk_errors(spill.folder):
            frames = [
                pl.scan_parquet(run.keys, glob=False).select(columns).unique().collect()
                for run in spill.runs
            ]
        rows = pl.concat(frames).rows()
    else:
        source = table.texts.get("container")
        name = DEFAULT_CONTAINER if source is None else str(source.value)
        rows = [(*row, name) for row in spill.workloads.select(columns[:2]).rows()]
    return found | {"/".join(row) for row in rows}


def lacking_requests(requests: pl.DataFrame) -> Containers:
    """Return the containers of `pod_requests` whose pods' utilization cannot be computed.

    Where the pod as a whole has a request, that one counts.
    """
    found: set[tuple[str, ...]] = set()
    running = requests.filter(pl.col("kind").is_in(["app", "sidecar"]))
    for resource in ("cpu", "memory"):
        amount = pl.col(f"{resource}_milli")
        whole = requests.filter((pl.col("kind") == "pod") & amount.is_not_null())
        bare = running.filter(amount.is_null()).join(whole, on=["cluster", "uid"], how="anti")
        found |= _containers(bare, resource)
    return frozenset(found)


def above_limits(requests: pl.DataFrame) -> Containers:
    """Return the containers of `pod_requests` with a request above its limit."""
    found: set[tuple[str, ...]] = set()
    for resource in ("cpu", "memory"):
        above = pl.col(f"{resource}_milli") > pl.col(f"{resource}_limit_milli")
        found |= _containers(requests.filter(above), resource)
    return frozenset(found)


def _containers(rows: pl.DataFrame, resource: str) -> set[tuple[str, ...]]:
    names = rows.select("cluster", "namespace", "target", "container").unique()
    return {(*row, resource) for row in names.rows()}


def told_lacking(
    hpas: pl.DataFrame, lacking: Iterable[tuple[str, ...]], has_objects: bool
) -> list[str]:
    """Return a warning per resource: workloads without a request under a utilization target."""
    bare: dict[tuple[str, ...], set[str]] = {}
    for *place, name, resource in lacking:
        bare.setdefault((*place, resource), set()).add(name)
    found: dict[str, dict[str, str]] = {}
    for cluster, namespace, spec in hpas.select("cluster", "namespace", "spec").rows():
        document = json.loads(spec)
        target = document["scaleTargetRef"]["name"]
        for measured, container in _utilizations(document):
            without = bare.get((cluster, namespace, target, measured), set())
            if without and container in (None, *without):
                name = min(without) if container is None else container
                shown = found.setdefault(measured, {})
                shown.setdefault(f"{namespace}/{target}", f"{namespace}/{target}/{name}")
    more = "" if has_objects else ", or give the cluster's objects with --objects"
    told = []
    for resource, shown in sorted(found.items()):
        names = sorted(shown.values())
        first = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
        told.append(
            f"{counted(len(names), 'workload')} {'has' if len(names) == 1 else 'have'} no "
            f"{resource} request under a utilization target, so the HPA cannot decide by it "
            f"({first}): say requests.{resource} in the map{more}"
        )
    return told


def _utilizations(spec: dict[str, object]) -> Iterable[tuple[str, str | None]]:
    """Yield resource and container (None: all) of each metric with a utilization target."""
    metrics = spec.get("metrics")
    for metric in metrics if isinstance(metrics, list) else []:
        for key in ("resource", "containerResource"):
            source = metric.get(key) or {}
            if (source.get("target") or {}).get("type") == "Utilization":
                yield source["name"], source.get("container")
