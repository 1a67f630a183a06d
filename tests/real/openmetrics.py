"""A history as the metrics that a site's Prometheus would hold of it."""

from __future__ import annotations

from tests.real.openmetrics_cadvisor import cadvisor_families, kubelet_families
from tests.real.openmetrics_family import Family, joined
from tests.real.openmetrics_pods import pod_families
from tests.real.openmetrics_site import Ints, Site, Tables
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
    grid = site.instants()
    scraped = [*_state_families(tables, grid), *server_families(tables, grid)]
    scraped += [*kubelet_families(tables, site), *samples]
    names = sorted({family.name for family in scraped})
    return [joined(name, [f for f in scraped if f.name == name]) for name in names]


def _state_families(tables: Tables, grid: Ints) -> list[Family]:
    found = [
        *pod_families(tables, grid),
        *workload_families(tables, grid),
        *hpa_families(tables, grid),
        *cluster_families(tables, grid),
    ]
    scraped = {
        "job": "kube-state-metrics", "endpoint": "http", "service": "kube-state-metrics",
        "instance": "10.244.0.9:8080",
    }  # fmt: skip
    return [family.with_labels(scraped) for family in found]
