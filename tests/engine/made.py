"""Decisions and HPAs made up by hand, in the shape of a replay's result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

START = datetime(2026, 10, 7, tzinfo=UTC)
PERIOD = timedelta(seconds=15)

SCHEMA: dict[str, Any] = {
    "cluster": pl.String(),
    "namespace": pl.String(),
    "hpa": pl.String(),
    "ts": pl.Datetime("ms", "UTC"),
    "min_replicas": pl.Int64(),
    "max_replicas": pl.Int64(),
    "replicas": pl.Int64(),
    "desired": pl.Int64(),
    "applied": pl.Int64(),
    "proposal": pl.Int64(),
    "stabilized": pl.Int64(),
    "limited": pl.Int64(),
    "rescaled": pl.Boolean(),
    "binding": pl.String(),
    "reason": pl.String(),
    "metric": pl.String(),
    "ratio": pl.Float64(),
    "invalid_metrics": pl.Int64(),
    "error": pl.String(),
    "able_to_scale": pl.String(),
    "scaling_active": pl.String(),
    "scaling_limited": pl.String(),
}

TICK: dict[str, Any] = {
    "cluster": "demo",
    "namespace": "shop",
    "hpa": "cart",
    "min_replicas": 1,
    "max_replicas": 10,
    "replicas": 3,
    "desired": 3,
    "applied": 3,
    "proposal": 3,
    "stabilized": 3,
    "limited": 3,
    "rescaled": False,
    "binding": "metric",
    "reason": "",
    "metric": "cpu resource",
    "ratio": 1.0,
    "invalid_metrics": 0,
    "error": None,
    "able_to_scale": "ReadyForNewScale",
    "scaling_active": "ValidMetricFound",
    "scaling_limited": "DesiredWithinRange",
}


def decisions(ticks: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Return a frame of ticks, each what `TICK` says but for its own entries; sorted."""
    numbers: dict[tuple[str, str, str], int] = {}
    rows = []
    for given in ticks:
        row = TICK | given
        key = row["cluster"], row["namespace"], row["hpa"]
        number = numbers[key] = numbers.get(key, -1) + 1
        rows.append({"ts": START + number * PERIOD} | row)
    return pl.DataFrame(rows, schema=SCHEMA).sort("cluster", "namespace", "hpa", "ts")


def hpas(*names: str, **columns: Any) -> pl.DataFrame:
    """Return one HPA per name, each with its own Deployment."""
    rows = [
        {
            "cluster": "demo",
            "namespace": "shop",
            "hpa": name,
            "target_kind": "Deployment",
            "target": name,
            "min_replicas": 1,
            "max_replicas": 10,
            "has_behavior": False,
            "specs": 1,
        }
        | columns
        for name in names
    ]
    return pl.DataFrame(rows)
