"""Small histories cut out of the last day of the demo data, for tests to break."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "demo"
MANIFESTS = ROOT / "data" / "demo-manifests"
START = datetime(2026, 10, 7, tzinfo=UTC)
SAMPLES = ("pod_metrics", "pod_custom_metrics", "object_metrics", "external_metrics")


Where = Callable[[pl.LazyFrame], pl.LazyFrame]


def small(
    folder: Path, namespace: str = "batch", minutes: int = 20, since: datetime = START
) -> Path:
    """Write one namespace's tables with some minutes of its samples; return the folder."""
    shutil.copytree(_cut_small(namespace, minutes, since), folder, dirs_exist_ok=True)
    return folder


@cache
def _cut_small(namespace: str, minutes: int, since: datetime) -> Path:
    """Return a folder for `small` to copy: to read the demo takes longer."""
    end = since + timedelta(minutes=minutes)
    of_namespace = pl.col("namespace") == namespace
    return cut_day(_own_folder(), lambda rows: rows.filter(of_namespace), since, end)


def _own_folder() -> Path:
    """Return a new folder that lasts as long as the process."""
    _FOLDERS.append(tempfile.TemporaryDirectory(prefix="demo-"))
    return Path(_FOLDERS[-1].name) / "demo"


def day(folder: Path) -> Path:
    """Write the last day of the demo; return the folder."""
    return cut_day(folder, lambda rows: rows, START, START + timedelta(days=1))


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


@cache
def last_day() -> Path:
    """Return the last day of the demo, one for all tests of a process: weeks take their time."""
    return day(_own_folder())


def data_of_a_day(folder: Path) -> Path:
    """Write what is in data/, of the demo the last day; return the folder."""
    shutil.copytree(ROOT / "data", folder, ignore=shutil.ignore_patterns("demo"))
    shutil.copytree(last_day(), folder / "demo")
    return folder


def cut_day(folder: Path, where: Where, begin: datetime, end: datetime) -> Path:
    """Write some rows of the last day, the samples of a time; return the folder.

    Each table begins with what was so at the day's start; pods that were gone by then are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    there = pl.scan_parquet(DEMO / "pods.parquet").filter(
        pl.col("gone").is_null() | (pl.col("gone") > START)
    )
    for file in sorted(DEMO.glob("*.parquet")):
        rows = pl.scan_parquet(file)
        if file.stem != "controller":
            rows = where(rows)
        if file.stem in SAMPLES:
            rows = rows.filter(pl.col("ts") >= begin, pl.col("ts") < end)
        elif file.stem == "scales":
            # The last change before the day counts at its start.
            later = pl.col("ts").shift(-1).over("namespace", "target")
            rows = rows.filter(later.is_null() | (later > START))
        elif file.stem in ("pods", "pod_requests", "pod_states"):
            rows = rows.join(there.select("uid"), on="uid", how="semi", maintain_order="left")
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
