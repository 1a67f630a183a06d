"""A history as the metrics that a site's Prometheus would hold of it.

    python -m tests.real.openmetrics HISTORY FOLDER

writes OpenMetrics text, a file for each two hours, for tests.real.prometheus.backfill.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from tests.real.openmetrics_cadvisor import cadvisor_families, kubelet_families
from tests.real.openmetrics_family import Family, at_instance, joined
from tests.real.openmetrics_pods import pod_families
from tests.real.openmetrics_site import Ints, Site, Tables, read_tables
from tests.real.openmetrics_text import write_openmetrics
from tests.real.openmetrics_workloads import (
    cluster_families,
    hpa_families,
    server_families,
    workload_families,
)


def expose(tables: Tables, site: Site) -> list[Family]:
    """Return all metrics of a source, each once, sorted by name.

    Args:
        tables: with times as Int64 ms (see `read_tables`): pods and pod_metrics, and what else
            there is of the registry's tables.
        site: how they are scraped.
    """
    samples = cadvisor_families(tables, site)
    site = site.placed(tables)
    if site.cluster_label is None:
        assert tables["pods"]["cluster"].n_unique() == 1, "series of clusters would be the same"
    scraped: list[Family] = []
    replicas = site.replicas or ("",)
    for place, replica in enumerate(replicas):
        # each replica scrapes on its own, so later ones see changes at other instants
        shift = place * site.replica_shift_ms
        grid = site.grid() + shift
        states = _state_families(tables, site, grid)
        others = server_families(tables, site, site.grid("apiserver") + shift)
        others += [*kubelet_families(tables, site), *sample_families(tables, site)]
        marked = [family.with_labels({"prometheus_replica": replica} if replica else {})
                  for family in [*states, *others]]  # fmt: skip
        scraped += [_clustered(family, site) for family in marked]
    scraped += samples
    names = sorted({family.name for family in scraped})
    return [joined(name, [f for f in scraped if f.name == name]) for name in names]


def _state_families(tables: Tables, site: Site, grid: Ints) -> list[Family]:
    found = [
        *pod_families(tables, site, grid),
        *workload_families(tables, grid),
        *hpa_families(tables, grid),
        *cluster_families(tables, site, grid),
    ]
    return [at_instance(family, site) for family in found]


def _clustered(family: Family, site: Site) -> Family:
    """Return a metric with the site's name of the label `cluster`, or without it."""
    labels = family.labels
    if "cluster" in labels.columns and site.cluster_label != "cluster":
        if site.cluster_label:
            labels = labels.rename({"cluster": site.cluster_label})
        else:
            labels = labels.drop("cluster")
    return Family(family.name, labels, family.series, family.ts, family.values)


def sample_families(tables: Tables, site: Site) -> list[Family]:
    """Return custom, object and external metrics as gauges of their own names and times.

    Labels: namespace, and pod, or the object's kind in lower case with its name, or `key=value`
    of the selector.
    """
    found = []
    sources = {
        "pod_custom_metrics": [pl.col("pod")],
        "object_metrics": [pl.col("kind"), pl.col("name")],
        "external_metrics": [pl.col("series")],
    }
    for table, own in sources.items():
        if table not in tables:
            continue
        keys = [pl.col("cluster"), pl.col("namespace"), *own, pl.col("selector").fill_null("")]
        rows = tables[table].filter(pl.col("ts").is_between(site.start_ms, site.end_ms))
        rows = rows.select(*keys, "metric", "ts", "value_milli").sort(pl.all())
        for (metric,), part in rows.group_by("metric", maintain_order=True):
            places = part.drop("metric", "ts", "value_milli")
            labels = places.unique(maintain_order=True)
            series = places.select(pl.struct(pl.all()).rle_id()).to_series().cast(pl.Int64)
            told = [_told(row) for row in labels.iter_rows(named=True)]
            names = sorted({name for row in told for name in row})
            frame = pl.DataFrame([pl.Series(n, [r.get(n) for r in told], pl.String) for n in names])
            values = (part["value_milli"] / 1000).to_numpy()
            found.append(
                Family(str(metric), frame, series.to_numpy(), part["ts"].to_numpy(), values)
            )
    return found


def _told(row: dict[str, str | None]) -> dict[str, str | None]:
    labels: dict[str, str | None] = {}
    labels |= {name: row[name] for name in ("cluster", "namespace", "pod", "series") if name in row}
    if "kind" in row:
        labels[str(row["kind"]).lower()] = row["name"]
    for pair in filter(None, (row["selector"] or "").split(",")):
        key, _, value = pair.partition("=")
        labels[key] = value
    return labels


def main(history: str, folder: str) -> None:
    files = write_openmetrics(expose(read_tables(history), Site()), Path(folder))
    print(*files, sep="\n")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
