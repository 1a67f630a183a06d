"""A sweep's folder: what is in it, written and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from hpabatch.engine.sweep_result import SweepResult
from hpabatch.errors import HistoryError
from hpabatch.jobs.parquet import write_parquet

FORMAT: Final = 1
TABLES: Final = ("settings", "hpas", "results", "blocks")
ABOUT: Final = "sweep.json"
_KEY: Final = ("cluster", "namespace", "hpa")
_COLUMNS: Final = {
    "settings": ("setting_id", "setting"),
    "hpas": (
        *_KEY,
        *("unit", "target_kind", "target", "spec", "min_replicas", "max_replicas"),
        *("cpu_milli", "memory_milli", "days", "blocks", "problems", "censored_pct", "ceiling"),
        *("advice", "why_not", "plant_skill", "controller_precision", "controller_recall"),
    ),
    "results": (*_KEY, "setting_id", "setting", "usable"),
    "blocks": (*_KEY, "setting_id", "block", "start", "hours"),
}
_UNREADABLE: Final = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
_NAMES: Final = frozenset({ABOUT, *(f"{name}.parquet" for name in TABLES)})


def read_sweep(path: Path | str) -> SweepResult:
    """Return a sweep from its folder.

    Raises:
        HistoryError: it is no sweep's folder, or one of its files cannot be read.
    """
    folder = Path(path)
    try:
        about = json.loads((folder / ABOUT).read_text())
        if about["format"] == FORMAT:
            tables = {name: _table(folder, name) for name in TABLES}
            evidence = {str(name): str(text) for name, text in about["evidence"].items()}
            return SweepResult(**tables, evidence=evidence, parameters=dict(about["parameters"]))
    except _UNREADABLE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise HistoryError(
            f"{folder} is not the folder of a sweep ({reason}): name the one that `hpabatch sweep` "
            "was told with --out, or sweep again"
        ) from error
    raise HistoryError(
        f"{folder} is a sweep of format {about['format']}, and this version reads {FORMAT}: sweep "
        "again, or read it with the version that wrote it"
    )


def _table(folder: Path, name: str) -> pl.DataFrame:
    """Return a table (ValueError: it lacks a column that all of its kind have)."""
    found = pl.read_parquet(folder / f"{name}.parquet")
    lacking = [column for column in _COLUMNS[name] if column not in found.columns]
    if lacking:
        raise ValueError(f"{name}.parquet has no column {lacking[0]}")
    return found


def is_sweep_folder(path: Path) -> bool:
    """Say whether a folder is empty, or holds nothing but a sweep."""
    names = {entry.name for entry in path.iterdir()}
    return not names or (ABOUT in names and names <= _NAMES)


def write_about(folder: Path, evidence: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Write what a sweep is, beside its tables."""
    about = {"format": FORMAT, "evidence": dict(evidence), "parameters": dict(parameters)}
    (folder / ABOUT).write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")


def write_table(frame: pl.DataFrame, evidence: Mapping[str, str], folder: Path, name: str) -> None:
    """Write one of a sweep's tables, with the evidence in its metadata."""
    write_parquet(frame, evidence, folder / f"{name}.parquet")
