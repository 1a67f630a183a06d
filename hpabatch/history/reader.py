"""Strict reading of a history: what is wrong is named, with its place and its remedy."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history import schema
from hpabatch.history.checks import check_columns, check_validity, conform, order_rows
from hpabatch.history.schema import TABLES, Table, table_named

# PanicException is a BaseException: some broken pages end there.
_BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OSError)

_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class History:
    """An open history: which tables it has. Rows are read by `read`.

    Attributes:
        path: the folder.
        files: for every table present its Parquet files, in name order.
        warnings: what was odd but readable; `read` adds to it.
    """

    path: Path
    files: dict[str, tuple[Path, ...]]
    warnings: list[str] = field(default_factory=list)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables present, in the registry's order."""
        return tuple(self.files)

    def require(self, command: str) -> None:
        """Refuse if a table that a command needs is absent.

        Raises:
            HistoryError: names every absent table and what it holds.
        """
        missing = [
            t for t in TABLES.values() if command in t.needed_by and t.name not in self.files
        ]
        if missing:
            raise HistoryError(_missing(self.path, missing, command))

    def read(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        namespaces: Collection[str] | None = None,
        optional: bool = False,
    ) -> pl.DataFrame:
        """Return a table with exactly the registered columns and types, sorted by its key.

        Columns that the files lack and that may be absent are null (or their fill value). Rows
        with the same key are reduced to the last one, with a warning.

        Args:
            table: a registered table.
            columns: only these, in the registry's order; None: all.
            namespaces: only rows of these; the whole table is checked nevertheless.
            optional: an absent or empty table is an empty frame even if a command needs it.

        Raises:
            HistoryError: the table is absent though needed, is broken, has no rows, or does not
                have the registered columns, types and values.
        """
        spec = table_named(table)
        wanted = _wanted(spec, columns)
        if table not in self.files:
            if spec.required and not optional:
                raise HistoryError(_missing(self.path, [spec], spec.needed_by[0]))
            return schema.empty_frame(table).select(wanted)
        frame = self._rows(spec, wanted)
        if frame.is_empty() and spec.required and not optional:
            raise HistoryError(
                f"{self._place(spec)} has no rows; {' and '.join(spec.needed_by)} needs {spec.doc} "
                "per row: record or export it again"
            )
        if namespaces is not None and "namespace" in spec.names:
            frame = frame.filter(pl.col("namespace").is_in(sorted(namespaces)))
        return frame.select(wanted)

    def _rows(self, spec: Table, wanted: Sequence[str]) -> pl.DataFrame:
        # The key is always read: without it there is no order and no way to see a duplicate.
        needed = [name for name in spec.names if name in wanted or name in spec.key]
        if spec.name == "hpas":
            needed = list(spec.names)
        parts = [self._file(spec, file, needed) for file in self.files[spec.name]]
        frame, dropped = order_rows(pl.concat(parts), spec)
        if dropped:
            self._warn(
                f"{self._place(spec)}: {dropped} row{'s' * (dropped > 1)} with the key of a later "
                f"row ({', '.join(spec.key)}) dropped"
            )
        if spec.name == "hpas":
            check_validity(frame, self._place(spec))
        return frame

    def _file(self, spec: Table, file: Path, needed: Sequence[str]) -> pl.DataFrame:
        found = _open_file(file, spec)
        for warning in check_columns(found, spec, str(file)):
            self._warn(warning)
        frame = _load(file, [name for name in needed if name in found])
        present = conform(frame, spec, str(file))
        return present.select(
            pl.col(name)
            if name in found
            else pl.lit(spec.column(name).fill, dtype=spec.column(name).dtype).alias(name)
            for name in needed
        )

    def _place(self, spec: Table) -> str:
        files = self.files[spec.name]
        return str(files[0]) if len(files) == 1 else str(files[0].parent)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def open_history(path: Path | str, command: str | None = None) -> History:
    """Open a folder of Parquet tables; no rows are read yet.

    Args:
        path: the folder.
        command: refuse at once if a table that this command needs is absent.

    Raises:
        HistoryError: there is no such folder, it holds no history table, or a table is there
            twice.
    """
    folder = Path(path)
    if "://" in str(path):
        raise HistoryError(f"{path}: a history is read from a local folder; copy it here first")
    try:
        entries = sorted(folder.iterdir())
    except NotADirectoryError:
        raise HistoryError(
            f"{folder} is a file; a history is a folder of tables: name the folder"
        ) from None
    except FileNotFoundError:
        raise HistoryError(f"{folder}: there is no such folder; name that of a history") from None
    except OSError as error:
        raise HistoryError(f"{folder} cannot be read: {error.strerror}") from error
    history = History(folder, _find_tables(folder), _strays(entries))
    if not history.files:
        raise HistoryError(
            f"{folder} holds no history table; expected are Parquet files such as hpas.parquet and "
            f"pod_metrics.parquet{_other_formats(folder, list(TABLES.values()))}"
        )
    if command is not None:
        history.require(command)
    return history


def _find_tables(folder: Path) -> dict[str, tuple[Path, ...]]:
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
        elif single.exists():
            files[name] = (single,)
    return files


def _parts_of(folder: Path) -> tuple[Path, ...]:
    # A name with a dot in front is somebody's unfinished file.
    parts = tuple(
        p for p in sorted(folder.glob("*.parquet")) if p.is_file() and not p.name.startswith(".")
    )
    if not parts:
        raise HistoryError(
            f"the folder {folder} holds no Parquet file; put the table's files there, or remove it"
        )
    return parts


def _strays(entries: Sequence[Path]) -> list[str]:
    warnings = []
    for entry in entries:
        name = entry.stem if entry.suffix == ".parquet" else entry.name
        if entry.name.startswith(".") or name in TABLES:
            continue
        if entry.suffix == ".parquet" or entry.is_dir():
            close = get_close_matches(name, TABLES, n=1)
            hint = f"; was {close[0]} meant?" if close else ""
            warnings.append(f"{entry} is not a history table and is ignored{hint}")
    return warnings


def _missing(folder: Path, tables: Sequence[Table], command: str) -> str:
    names = ", ".join(f"{t.name} ({t.doc})" for t in tables)
    noun = "table" if len(tables) == 1 else "tables"
    verb = "is" if len(tables) == 1 else "are"
    return (
        f"{folder}: the {noun} {names} {verb} missing and {command} needs "
        f"{'it' if len(tables) == 1 else 'them'}: add {tables[0].name}.parquet"
        f"{' and so on' if len(tables) > 1 else ''}{_other_formats(folder, tables)}"
    )


def _other_formats(folder: Path, tables: Sequence[Table]) -> str:
    names = {t.name for t in tables}
    others = sorted(p.name for p in folder.iterdir() if p.suffix and p.name.split(".")[0] in names)
    return f" ({', '.join(others)} is not Parquet: convert it)" if others else ""


def _wanted(spec: Table, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(spec.names)
    unknown = [name for name in columns if name not in spec.names]
    if unknown:
        raise HistoryError(
            f"{spec.name} has no column {', '.join(unknown)}; it has {', '.join(spec.names)}"
        )
    return [name for name in spec.names if name in columns]


def _open_file(file: Path, spec: Table) -> list[str]:
    """Check that a file is Parquet of a schema that we read; return its column names."""
    try:
        with file.open("rb") as stream:
            head = stream.read(4)
            size = stream.seek(0, 2)
            stream.seek(max(0, size - 4))
            tail = stream.read(4)
    except OSError as error:
        raise HistoryError(
            f"{file} cannot be read: {error.strerror}; it should hold {spec.name}"
        ) from error
    if size == 0:
        raise HistoryError(f"{file} is empty (0 bytes); write the table {spec.name} again")
    if head != _MAGIC:
        raise HistoryError(f"{file} is not a Parquet file; convert the table {spec.name} to one")
    if tail != _MAGIC or size < 12:
        raise HistoryError(
            f"{file} is a Parquet file that was cut short ({size} bytes); copy or write the table "
            f"{spec.name} again"
        )
    try:
        metadata = pl.read_parquet_metadata(file)
        names = list(pl.read_parquet_schema(file))
    except _BROKEN as error:
        raise HistoryError(_broken(file, error)) from error
    _check_metadata(file, spec, metadata)
    return names


def _check_metadata(file: Path, spec: Table, metadata: dict[str, str]) -> None:
    version = metadata.get(schema.SCHEMA_KEY)
    if version is not None:
        if not version.isascii() or not version.isdigit() or version == "0":
            raise HistoryError(
                f"{file} names the schema version {version!r}, which is no number; write it again"
            )
        if int(version) > schema.SCHEMA_VERSION:
            raise HistoryError(
                f"{file} has schema version {version}; this hpabatch reads up to "
                f"{schema.SCHEMA_VERSION}: use a newer hpabatch"
            )
    table = metadata.get(schema.TABLE_KEY, spec.name)
    if table != spec.name:
        raise HistoryError(
            f"{file} was written as the table {table}, not {spec.name}; name it {table}.parquet"
        )


def _load(file: Path, columns: Sequence[str]) -> pl.DataFrame:
    try:
        return pl.read_parquet(file, columns=list(columns), hive_partitioning=False, glob=False)
    except _BROKEN as error:
        raise HistoryError(_broken(file, error)) from error


def _broken(file: Path, error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    return f"{file} is a broken Parquet file ({reason}); copy or write it again"
