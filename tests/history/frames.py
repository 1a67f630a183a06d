"""Small valid frames of every table, for tests to break."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.history.schema import TABLES
from hpabatch.history.store import writer
from hpabatch.history.store.writer import Limits, write_table

START = datetime(2026, 10, 7, tzinfo=UTC)
AT = {"cluster": "demo", "namespace": "shop"}


def minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


ROWS: dict[str, list[dict[str, Any]]] = {
    "pod_metrics": [
        AT
        | {
            "target": "cart",
            "uid": f"uid-{pod}",
            "pod": f"cart-{pod}",
            "container": "app",
            "ts": minute(number),
            "window_ms": 15_000,
            "cpu_milli": 100 + number,
            "memory_bytes": 1 << 20,
            "fetched_at": None,
        }
        for pod in range(2)
        for number in range(3)
    ],
    "pod_custom_metrics": [
        AT
        | {
            "target": "cart",
            "uid": "uid-0",
            "pod": "cart-0",
            "metric": "rps",
            "selector": None,
            "ts": minute(0),
            "value_milli": -5,
        }
    ],
    "object_metrics": [
        AT | {"kind": "Ingress", "name": "shop", "metric": "rps", "ts": minute(0), "value_milli": 7}
    ],
    "external_metrics": [
        AT | {"metric": "lag", "selector": "queue=a", "ts": minute(k), "value_milli": value}
        for k, value in enumerate((7, None))
    ],
    "pods": [
        AT
        | {
            "target": "cart",
            "uid": f"uid-{pod}",
            "pod": f"cart-{pod}",
            "labels": '{"app":"cart"}',
            "owner": None,
            "created": minute(-60),
            "started": None,
        }
        for pod in range(2)
    ],
    "pod_requests": [
        AT
        | {
            "uid": "uid-0",
            "container": "app",
            "kind": "app",
            "index": 0,
            "valid_from": minute(-60),
            "cpu_milli": 100,
            "memory_milli": None,
            "cpu_limit_milli": None,
            "memory_limit_milli": None,
        }
    ],
    "pod_states": [
        AT
        | {
            "uid": "uid-0",
            "ts": minute(-59),
            "phase": "Running",
            "ready": None,
            "last_transition": None,
        }
    ],
    "scales": [
        AT
        | {
            "target_kind": "Deployment",
            "target": "cart",
            "ts": minute(0),
            "spec_replicas": 2,
            "status_replicas": 2,
            "selector": "app=cart",
            "error": None,
        }
    ],
    "hpas": [
        AT
        | {
            "name": "cart",
            "uid": "hpa",
            "valid_from": minute(-60),
            "valid_to": None,
            "spec": '{"maxReplicas":3}',
        }
    ],
    "hpa_context": [
        AT
        | {
            "name": "cart",
            "ts": minute(0),
            "owner": "ScaledObject/cart",
            "budgets": '[{"name":"cart","minAvailable":"1"}]',
            "spreads": None,
        }
    ],
    "hpa_status": [
        AT
        | {
            "name": "cart",
            "uid": "hpa",
            "ts": minute(0),
            "current_replicas": 2,
            "desired_replicas": 3,
            "current_metrics": "[]",
        }
    ],
    "metric_fetches": [
        AT | {"name": "cart", "metric_index": 0, "ts": minute(0), "answer": "error", "error": "503"}
    ],
    "controller": [{"cluster": "demo", "ts": minute(0), "event": "start", "version": "1.38"}],
    "passes": [
        {"cluster": "demo", "ts": minute(k), "start": k == 0, "k8s": "1.38", "hpas": 1}
        for k in range(2)
    ],
    "provenance": [
        AT
        | {
            "name": "cart",
            "subject": "hpas.spec.behavior",
            "valid_from": minute(-60),
            "valid_to": None,
            "method": "manifest",
        }
    ],
}


def frame(table: str) -> pl.DataFrame:
    """Return a valid frame; columns that a row leaves out are absent."""
    rows = ROWS[table]
    types = {c.name: c.dtype for c in TABLES[table].columns if c.name in rows[0]}
    return pl.DataFrame(rows, schema=types)


def write_all(folder: Path) -> Path:
    """Write a valid history with every table and return its folder."""
    for table in ROWS:
        write_table(frame(table), folder / f"{table}.parquet", table)
    return folder


def replace(folder: Path, table: str, broken: pl.DataFrame) -> Path:
    """Put a frame in a table's place as polars writes it, without any check."""
    path = folder / f"{table}.parquet"
    broken.write_parquet(path)
    return path


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Let data files that are written in the block have these sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "LIMITS", limits)
        yield
