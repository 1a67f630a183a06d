"""A hard case: two clusters of which everything went wrong that can."""

from __future__ import annotations

import polars as pl

from benchmarks.fleet.draw import FleetRequest
from tests.real.openmetrics_history import both, edited, jittered, renamed_container, resized
from tests.real.openmetrics_site import Outage, Restart, Site, Tables, synthetic

DAY_MS = 1_791_158_400_000  # 2026-10-05
HOUR_MS = 3_600_000
START_MS, END_MS = DAY_MS + 6 * HOUR_MS, DAY_MS + 11 * HOUR_MS


def _source(seed: int, cluster: str) -> Tables:
    """Return a day of three small workloads, sampled once a minute at odd times."""
    settings = FleetRequest(
        hpas=3, pods=3, step_ms=60_000, containers=2, metrics="mix", seed=seed,
        start="2026-10-05", cluster=cluster,
    )  # fmt: skip
    return jittered(synthetic(settings), 40_000, 900, seed)


def hard_case() -> tuple[Tables, Site]:
    """Return two clusters of which everything went wrong that can, and how they were scraped."""
    first = edited(_source(3, "a"), "app-00001", START_MS + HOUR_MS, {"maxReplicas": 77})
    tables = both(first, _source(8, "b"))
    alive = tables["pods"].filter(pl.col("created") < START_MS, pl.col("gone").is_null())
    tables = resized(tables, alive["uid"][0], "app", START_MS + 2 * HOUR_MS + 1_234, 777)
    tables = renamed_container(tables, "app", "main", START_MS + HOUR_MS)
    site = Site(
        offset_ms=17_123,
        start_ms=START_MS,
        end_ms=END_MS,
        old_job="cadvisor-old",
        replicas=("p-0", "p-1"),
        replica_shift_ms=7_000,
        outages=(
            Outage(START_MS + HOUR_MS, START_MS + HOUR_MS + 600_000),
            Outage(START_MS + 2 * HOUR_MS, START_MS + 2 * HOUR_MS + 900_000, node=alive["node"][0]),
            Outage(START_MS + 3 * HOUR_MS, START_MS + 3 * HOUR_MS + 300_000, "kube-state-metrics"),
        ),
        restarts=(
            Restart(alive["uid"][0], "app", START_MS + 90 * 60_000 + 321),
            Restart(alive["uid"][1], "app", START_MS + 80 * 60_000 + 321, new_series=False),
        ),
        moves_ms=(START_MS + 150 * 60_000,),
    )
    return tables, site
