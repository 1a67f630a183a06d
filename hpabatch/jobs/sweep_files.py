"""Files of a sweep's folder."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl

from hpabatch._json import decode_json
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import HistoryError
from hpabatch.history.files import open_regular, read_small
from hpabatch.importers.table.files import digest_file
from hpabatch.jobs.parquet import write_parquet

FORMAT: Final = 3
TABLES: Final = ("settings", "hpas", "results", "blocks")
ABOUT: Final = "sweep.json"
_DIGESTS: Final = "sha256"
_KEY: Final = ("cluster", "namespace", "hpa")
_COLUMNS: Final = {
    "settings": ("setting_id", "setting"),
    "hpas": (
        *_KEY,
        *("unit", "target_kind", "target", "spec", "min_replicas", "max_replicas"),
        *("cpu_milli", "memory_milli", "days", "blocks", "problems", "censored_pct", "ceiling"),
        *("metadata", "availability"),
        *("advice", "why_not", "plant_unscored", "plant_why_not"),
        *("plant_skill", "plant_skill_low", "plant_skill_high"),
        *("controller_answer", "controller_explained_share"),
    ),
    "results": (*_KEY, "setting_id", "setting", "usable"),
    "blocks": (*_KEY, "setting_id", "block", "start", "hours", *ABOVE_MINUTES),
}
_NAMES: Final = frozenset({ABOUT, *(f"{name}.parquet" for name in TABLES)})


def read_sweep(path: Path | str) -> SweepResult:
    """Return a sweep from its folder.

    Raises:
        HistoryError: it is no sweep's folder, or one of its files cannot be read.
    """
    folder = Path(path)
    try:
        about = _about(folder)
        if isinstance(about, _Sweep):
            tables = {name: _table(folder, name) for name in TABLES}
            digests = _digests(folder)
            if about.digests not in (None, digests):  # (older versions name none)
                raise _NoSweepError(f"its tables are not those that {ABOUT} names")
            return SweepResult(**tables, evidence=about.evidence, parameters=about.parameters)
    except _NoSweepError as error:
        raise HistoryError(
            f"{folder} is not the folder of a sweep ({error}): name the one that `hpabatch sweep "
            "HISTORY --out` wrote, or sweep again"
        ) from error
    raise HistoryError(
        f"{folder} is a sweep of format {about.format}, and this version reads {FORMAT}: sweep "
        "again, or read it with the version that wrote it"
    )


def digest_sweep(folder: Path | str) -> str:
    """Return a digest of a sweep's files: of their names and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for path in sorted(Path(folder).iterdir()):
        if path.is_file() and not path.name.startswith("."):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            with path.open("rb") as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
    return digest.hexdigest()


def sweep_origin(folder: Path) -> tuple[Mapping[str, str], Mapping[str, Any]] | None:
    """Return the evidence and the request of a sweep, without its tables; None: not known."""
    try:
        about = _about(folder)
    except _NoSweepError:
        return None
    if not isinstance(about, _Sweep):
        return None
    request = about.parameters.get("request")
    return (about.evidence, request) if isinstance(request, dict) else None


class _NoSweepError(Exception):
    """Says what is wrong with a folder, or with a file of it, for people."""


class _About(msgspec.Struct):
    format: int | str


class _Sweep(_About):
    evidence: dict[str, str]
    parameters: dict[str, Any]
    digests: dict[str, str] | None = msgspec.field(default=None, name=_DIGESTS)


def _about(folder: Path) -> _About:
    """Return what a sweep is: a `_Sweep` if it is of this version's format."""
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise _NoSweepError("it is no folder")
    except FileNotFoundError:
        raise _NoSweepError("there is none") from None
    except OSError as error:
        raise _NoSweepError(f"it cannot be read: {error.strerror or error}") from error
    try:
        data = read_small(folder / ABOUT)
        about = decode_json(data, _About)
        return about if about.format != FORMAT else decode_json(data, _Sweep)
    except OSError as error:
        raise _NoSweepError(_cannot_open(ABOUT, error)) from error
    except ValueError as error:
        raise _NoSweepError(f"{ABOUT}: {error}") from error


def _table(folder: Path, name: str) -> pl.DataFrame:
    file = f"{name}.parquet"
    try:
        with open_regular(folder / file):  # the system's own word, which polars does not pass on
            found = pl.read_parquet(folder / file)
    except OSError as error:
        raise _NoSweepError(_cannot_open(file, error)) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _NoSweepError(f"{file} is damaged") from error
    lacking = [column for column in _COLUMNS[name] if column not in found.columns]
    if lacking:
        raise _NoSweepError(f"{file} has no column {lacking[0]}")
    return found


def _digests(folder: Path) -> dict[str, str]:
    return {name: digest_file(folder / f"{name}.parquet") for name in TABLES}


def _cannot_open(file: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"it holds no {file}"
    return f"{file} cannot be read: {error.strerror or error}"


def is_sweep_folder(path: Path) -> bool:
    """Say whether a folder is empty, or holds nothing but a sweep."""
    names = {entry.name for entry in path.iterdir()}
    return not names or (ABOUT in names and names <= _NAMES)


def write_about(folder: Path, evidence: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Write what a sweep is, beside its tables, with their digests."""
    about = {
        "format": FORMAT,
        "evidence": dict(evidence),
        "parameters": dict(parameters),
        _DIGESTS: _digests(folder),
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")


def write_table(frame: pl.DataFrame, evidence: Mapping[str, str], folder: Path, name: str) -> None:
    """Write one of a sweep's tables, with the evidence in its metadata."""
    write_parquet(frame, evidence, folder / f"{name}.parquet")
