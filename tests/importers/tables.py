"""Small tables and maps for the tests of the table import."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from hpabatch.history.reader import open_history
from hpabatch.importers.table import run as table
from hpabatch.importers.table.request import TableRequest
from hpabatch.importers.table.run import ImportResult
from hpabatch.importers.table.spill import GROUP_ROWS
from hpabatch.model.progress import Progress

BEGIN_S = 1_790_000_000

POD_MAP: dict[str, Any] = {
    "level": "pod",
    "columns": {
        "time": {"column": "ts", "unit": "s"},
        "namespace": {"value": "shop"},
        "workload": "app",
        "pod": "pod",
        "cpu": {"column": "cpu", "unit": "cores"},
        "memory": {"column": "mem", "unit": "bytes"},
    },
    "limits": {"cpu": "500m"},
    "lives": {"edge": "0s", "ran_before": "0s"},
}
WORKLOAD_MAP: dict[str, Any] = {
    "level": "workload",
    "columns": {
        "time": {"column": "ts", "unit": "s"},
        "namespace": {"value": "shop"},
        "workload": "app",
        "replicas": "size",
        "cpu": {"column": "cpu", "unit": "millicores", "of": "mean"},
    },
    "limits": {"cpu": "500m"},
    "lives": {"ready_after": "0s", "grace": "30s", "ran_before": "600s"},
}


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a map with changes, mappings merged; None takes a key away."""
    found: dict[str, Any] = copy.deepcopy(dict(base))  # (some tests change what they get)
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(found.get(key), Mapping):
            found[key] = merged(found[key], value)
        else:
            found[key] = value
    return found


def write_map(folder: Path, content: Mapping[str, Any] | str, name: str = "map.yaml") -> Path:
    path = folder / name
    text = content if isinstance(content, str) else yaml.safe_dump(dict(content), sort_keys=False)
    path.write_text(text)
    return path


def write_csv(folder: Path, text: str | bytes, name: str = "usage.csv") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def import_table(
    inputs: Sequence[str],
    map_file: Path,
    out: Path | str | None,
    *,
    progress: Progress = lambda message, share: None,
    group_rows: int = GROUP_ROWS,
    work: Path | None = None,
    objects: Sequence[str] = (),
    **options: Any,
) -> ImportResult:
    """Import files by a map; without `out` nothing is written."""
    request = TableRequest(
        inputs=tuple(inputs),
        map=str(map_file),
        out=None if out is None else str(out),
        dry_run=out is None,
        work=None if work is None else str(work),
        objects=tuple(objects),
        **options,
    )
    request.check()
    return table.import_table(request, progress, group_rows)


def run_import(
    folder: Path, content: Mapping[str, Any], data: str | bytes | pl.DataFrame, **options: Any
) -> tuple[ImportResult, dict[str, pl.DataFrame]]:
    """Import a CSV's text or a frame; return the result and the tables of the store."""
    if isinstance(data, pl.DataFrame):
        source = str(folder / "usage.parquet")
        data.write_parquet(source)
    else:
        source = write_csv(folder, data)
    out = folder / "history"
    result = import_table([source], write_map(folder, content), out, **options)
    return result, read_tables(out)


def read_tables(out: Path) -> dict[str, pl.DataFrame]:
    history = open_history(out)
    return {name: history.read(name) for name in history.tables}


def seconds(frame: pl.DataFrame, column: str) -> list[int | None]:
    """Return a time column in whole seconds after BEGIN_S: pods come and go 1 ms after a row."""
    ms = frame[column].to_physical().to_list()
    return [None if item is None else item // 1000 - BEGIN_S for item in ms]
