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
_NAMES: Final = frozenset({ABOUT, *(f"{name}.parquet" for name in TABLES)})


def read_sweep(path: Path | str) -> SweepResult:
    """Return a sweep from its folder.

    Raises:
        HistoryError: it is no sweep's folder, or one of its files cannot be read.
    """
    folder = Path(path)
    try:
        about = json.loads((folder / ABOUT).read_text())
        found = about["format"]
        if found != FORMAT:
            raise HistoryError(
                f"{folder} is a sweep of format {found}, and this version reads {FORMAT}: sweep "
                "again, or read it with the version that wrote it"
            )
        tables = {name: pl.read_parquet(folder / f"{name}.parquet") for name in TABLES}
        evidence = {str(name): str(text) for name, text in about["evidence"].items()}
        return SweepResult(**tables, evidence=evidence, parameters=dict(about["parameters"]))
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        pl.exceptions.PolarsError,
    ) as error:
        raise HistoryError(
            f"{folder} is not the folder of a sweep ({error}): name the one that `hpabatch sweep` "
            "was told with --out"
        ) from error


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
