"""Small histories cut out of the demo data, for tests to break."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "demo"
MANIFESTS = ROOT / "data" / "demo-manifests"
START = datetime(2026, 10, 7, tzinfo=UTC)
SAMPLES = ("pod_metrics", "pod_custom_metrics", "object_metrics", "external_metrics")


def small(folder: Path, namespace: str = "batch", minutes: int = 20) -> Path:
    """Write one namespace's tables with the first minutes of its samples; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(DEMO.glob("*.parquet")):
        rows = pl.scan_parquet(file)
        if file.stem != "controller":
            rows = rows.filter(pl.col("namespace") == namespace)
        if file.stem in SAMPLES:
            rows = rows.filter(pl.col("ts") < START + timedelta(minutes=minutes))
        frame = rows.collect()
        if not frame.is_empty():
            frame.write_parquet(folder / file.name)
    return folder


def table(folder: Path, name: str) -> pl.DataFrame:
    """Return a table of a history."""
    return pl.read_parquet(folder / f"{name}.parquet")


def edit(folder: Path, name: str, **columns: pl.Expr) -> Path:
    """Change columns of a table; return its file."""
    path = folder / f"{name}.parquet"
    table(folder, name).with_columns(**columns).write_parquet(path)
    return path


def drop_rows(folder: Path, name: str, which: pl.Expr) -> None:
    """Remove rows from a table."""
    table(folder, name).filter(which.not_()).write_parquet(folder / f"{name}.parquet")


def edit_spec(folder: Path, hpa: str, **fields: Any) -> None:
    """Set fields of the recorded spec of an HPA."""
    rows = table(folder, "hpas")
    specs = [
        json.dumps(json.loads(spec) | fields) if name == hpa else spec
        for name, spec in rows.select("name", "spec").rows()
    ]
    rows.with_columns(spec=pl.Series(specs)).write_parquet(folder / "hpas.parquet")


def many(folder: Path, count: int) -> Path:
    """Write a history of `count` HPAs, each with its own Deployment, on one External metric."""
    small(folder, "payments", minutes=3)
    names = pl.DataFrame({"number": [f"w{k:05}" for k in range(count)]})
    number = pl.col("number")
    hpas = table(folder, "hpas").filter(pl.col("name") == "webhooks").join(names, how="cross")
    target = pl.format('"name":"{}"}}', number)
    spec = pl.col("spec").str.replace('"name":"webhooks"}', target, literal=True)
    hpas.with_columns(name=number, uid=number, spec=spec).drop("number").write_parquet(
        folder / "hpas.parquet"
    )
    scales = table(folder, "scales").filter(pl.col("target") == "webhooks").head(1)
    scales.join(names, how="cross").with_columns(
        target=number, selector=pl.format("app={}", number)
    ).drop("number").write_parquet(folder / "scales.parquet")
    return folder
