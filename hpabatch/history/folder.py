"""The folder of a flat history: which of its files belong to which table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from hpabatch.errors import HistoryError
from hpabatch.history.columns import Table
from hpabatch.history.schema import TABLES


def other_formats(folder: Path, tables: Sequence[Table]) -> str:
    """Return a remark on files that hold these tables in another format, or ""."""
    names = {t.name for t in tables}
    others = sorted(p.name for p in folder.iterdir() if p.suffix and p.name.split(".")[0] in names)
    return f" ({', '.join(others)} is not Parquet: convert it)" if others else ""


def find_tables(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Return the Parquet files of every table in a folder, in name order.

    Raises:
        HistoryError: a table is there twice, or is a folder without a Parquet file.
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
            # A link to nowhere is a table that cannot be read, not one that is absent.
            files[name] = (single,)
    return files


def _parts_of(folder: Path) -> tuple[Path, ...]:
    # A name with a dot in front is somebody's unfinished file.
    parts = tuple(p for p in sorted(folder.glob("*.parquet")) if not p.name.startswith("."))
    if not parts:
        raise HistoryError(
            f"the folder {folder} holds no Parquet file; put the table's files there, or remove it"
        )
    return parts


def find_strays(entries: Sequence[Path]) -> Iterator[str]:
    """Yield a warning for each entry of a history's folder that only looks like a table."""
    for entry in entries:
        name = entry.stem if entry.suffix == ".parquet" else entry.name
        if entry.name.startswith(".") or name in TABLES:
            continue
        if entry.suffix == ".parquet" or entry.is_dir():
            close = get_close_matches(name, TABLES, n=1)
            hint = f"; was {close[0]} meant?" if close else ""
            yield f"{entry} is not a history table and is ignored{hint}"
