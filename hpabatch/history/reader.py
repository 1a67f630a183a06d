"""Opening of histories of either layout; tables as lazy frames.

Errors name the place and the fix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import polars as pl
from polars.io.plugins import register_io_source

from hpabatch.errors import HistoryError
from hpabatch.history.base import History
from hpabatch.history.flat import FlatHistory, other_formats
from hpabatch.history.schema import TABLES, empty_frame
from hpabatch.history.store.catalog import LOG
from hpabatch.history.store.shards import open_store
from hpabatch.history.store.storage import as_url, is_folder

__all__ = ["History", "open_history"]

_RESULTS: Final = {"sweep.json": "a sweep", "advice.json": "advice"}
"""Results that are folders, by a file in them; they have tables with names of a history's."""


def open_history(path: Path | str, command: str | None = None) -> History:
    """Open a flat folder of Parquet tables or a store; no rows are read yet.

    Args:
        path: a folder, or the URL of a store (s3://, gs://, abfs://).
        command: check that the tables that this command needs are present.

    Raises:
        HistoryError: there is no such folder, it holds no history, a table is present twice, or
            the store's log is broken.
    """
    history: History
    if as_url(path) or is_folder(Path(path) / LOG):
        history = open_store(path)
    else:
        history = open_flat(Path(path))
    if command is not None:
        history.require(command)
    return history


def open_flat(folder: Path) -> FlatHistory:
    """Open a folder of Parquet tables; no rows are read yet.

    Raises:
        HistoryError: there is no such folder, it holds no history table, or a table is present
            twice.
    """
    try:
        entries = sorted(folder.iterdir())
        names = {entry.name for entry in entries}
        if what := [_RESULTS[name] for name in _RESULTS if name in names]:
            raise HistoryError(
                f"{folder} is a folder of {what[0]}, not a history: name the history "
                f"that it was made from{_inner(entries)}"
            )
        history = FlatHistory(folder, find_tables(folder), list(find_strays(entries)))
    except NotADirectoryError:
        raise HistoryError(
            f"{folder} is a file; a history is a folder of tables: name the folder, or import a "
            f"table first (`hpabatch import table {folder} --init --map map.yaml`)"
        ) from None
    except FileNotFoundError:
        raise HistoryError(f"{folder}: there is no such folder; name one with a history") from None
    except OSError as error:
        raise HistoryError(f"{folder} cannot be read: {error.strerror}") from error
    if not history.files:
        raise HistoryError(
            f"{folder} holds no history table; expected are Parquet files such as hpas.parquet and "
            f"pod_metrics.parquet{_inner(entries) or other_formats(folder, list(TABLES.values()))}"
        )
    return history


def _inner(entries: Sequence[Path]) -> str:
    """Return `; did you mean x?` of the first folder there that holds a history."""
    for entry in entries:
        with suppress(OSError):  # (a folder that may not be read)
            if is_folder(entry / LOG) or (entry / "scales.parquet").is_file():
                return f"; did you mean {entry}?"
    return ""


def find_tables(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Return the Parquet files of every table in a folder, in name order.

    Raises:
        HistoryError: a table is present twice, or is a folder without a Parquet file.
    """
    files: dict[str, tuple[Path, ...]] = {}
    for name in TABLES:
        single, parts = folder / f"{name}.parquet", folder / name
        if single.exists() and parts.is_dir():
            raise HistoryError(
                f"{single} and the folder {parts} are both there; keep one of them: which one "
                "holds the table cannot be known"
            )
        if parts.is_dir() or single.is_dir():
            files[name] = _parts_of(parts if parts.is_dir() else single)
        elif single.exists() or single.is_symlink():
            # A broken link is an unreadable table, not an absent one.
            files[name] = (single,)
    return files


def _parts_of(folder: Path) -> tuple[Path, ...]:
    # A name with a leading dot is another writer's unfinished file.
    parts = tuple(p for p in sorted(folder.glob("*.parquet")) if not p.name.startswith("."))
    if not parts and is_folder(folder / LOG):
        raise HistoryError(
            f"{folder} has the name of a table but is a history itself; name {folder}, or rename it"
        )
    if not parts:
        raise HistoryError(
            f"the folder {folder} holds no Parquet file; put the table's files there, or remove it"
        )
    return parts


def find_strays(entries: Sequence[Path]) -> Iterator[str]:
    """Yield a warning for each entry of a history's folder that resembles a table."""
    for entry in entries:
        name = entry.stem if entry.suffix == ".parquet" else entry.name
        if entry.name.startswith(".") or name in TABLES:
            continue
        if entry.suffix == ".parquet" or entry.is_dir():
            close = get_close_matches(name, TABLES, n=1)
            hint = f"; was {close[0]} meant?" if close else ""
            yield f"{entry} is not a history table and is ignored{hint}"


def scan_table(history: History, name: str) -> pl.LazyFrame:
    """Return a table as a lazy frame that is read day by day; an absent table has no rows.

    Raises:
        HistoryError: no history has such a table; while reading: the table is broken.
    """
    return register_io_source(_Source(history, name), schema=empty_frame(name).schema)


@dataclass(frozen=True)
class _Source:
    """Reads a table for Polars, a cluster and day at a time."""

    history: History
    name: str

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = with_columns
        if with_columns is not None and predicate is not None:
            wanted = list(dict.fromkeys([*with_columns, *predicate.meta.root_names()]))
        left = n_rows
        keys = ["cluster", "day"]
        groups = self.history.sizes(self.name).group_by(keys).agg("namespace", "place")
        for cluster, day, namespaces, names in groups.sort(keys, nulls_last=False).iter_rows():
            if left is not None and left <= 0:
                return
            places = list(zip(namespaces, names, strict=True))
            frame = self.history.select(self.name, cluster, places, day=day, columns=wanted)
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame if with_columns is None else frame.select(with_columns)
