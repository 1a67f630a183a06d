"""Sample of a table in bounded time and memory, and profiles of its columns."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.importers.common.rows import WRITTEN, quantities
from hpabatch.importers.table.files import (
    BROKEN_FILE,
    IS_ROW,
    LINE_BYTES,
    PARQUET,
    TableFile,
    broken_file,
    check_size,
    look_at,
    open_text,
    refuse_twice,
    rows_within,
    scan,
)
from hpabatch.importers.table.map import Format
from hpabatch.inputs.documents import show

_OTHER_BYTES: Final = 256 << 10  # of a file beside the first
_STRING_BYTES: Final = 1 << 27
_CELLS: Final = 1 << 22
_MOST_FILES: Final = 6
_MOST_COLUMNS: Final = 10_000  # to profile one takes 2 ms
# A name of a column, other than a value of the first row: "2026-10-07T10:00", 0.5, 10m.
_VALUE = re.compile(r"[-+]?\d[\d.,:eE+-]*([TtZz ][\d:.+Zz-]*)?(m|n|u|[KMGT]i?)?")


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a table, raw; a CSV's columns are strings.

    `rows` is about how many there are in all files, `whole` whether the sample has them all.
    """

    file: TableFile
    files: int
    frame: pl.DataFrame
    rows: int
    whole: bool


def read_sample(paths: Sequence[Path]) -> Sample:
    """Return a sample of the files' rows, with the columns of the first file.

    Raises:
        HistoryError: a file is empty, broken, no table, or without a header.
    """
    parquet = paths[0].name.lower().endswith(PARQUET)
    alike = [path for path in paths if path.name.lower().endswith(PARQUET) == parquet]
    chosen = alike[:: -(-len(alike) // _MOST_FILES)]
    files, frames = [], []
    for path in chosen:
        file = look_at(path)
        try:
            if parquet:
                file, frame = _parquet_rows(file)
            else:
                most = LINE_BYTES if path is chosen[0] else _OTHER_BYTES
                file, frame = _text_rows(file, most)
        except BROKEN_FILE as error:
            raise HistoryError(broken_file(path, error)) from None
        files.append(file)
        frames.append(frame)
    frame = pl.concat(frames, how="diagonal_relaxed").select(files[0].columns)
    if frame.is_empty():
        raise HistoryError(f"{paths[0]} has column names, but no rows: name a file with data")
    sampled = sum(file.rows for file in files)
    whole = len(chosen) == len(paths) and sampled == frame.height
    rows = frame.height if whole else sampled * len(paths) // len(chosen)
    return Sample(files[0], len(paths), frame, rows, whole)


def _refuse_many(path: Path, columns: int) -> None:
    if columns > _MOST_COLUMNS:
        raise HistoryError(
            f"{path}: expected at most {_MOST_COLUMNS:,} columns, got {columns:,}; propose the map "
            "from a file with some of them, and import the whole one with it"
        )


def _parquet_rows(file: TableFile) -> tuple[TableFile, pl.DataFrame]:
    """Return a Parquet file's first rows."""
    lazy = scan(file, Format())
    schema = lazy.collect_schema()
    kept = [name for name, dtype in schema.items() if not dtype.is_nested()]
    if not kept:
        raise HistoryError(f"{file.path} has no columns of numbers, strings or times")
    _refuse_many(file.path, len(kept))
    check_size(file, len(kept))
    frame = lazy.select(kept).head(max(64, min(1 << 18, _CELLS // len(kept)))).collect()
    frame = frame.head(rows_within(frame, _STRING_BYTES))
    names = [n for n in kept if isinstance(schema[n], pl.Categorical | pl.Enum)]
    return replace(file, columns=tuple(kept)), frame.cast(dict.fromkeys(names, pl.String))


def _text_rows(file: TableFile, most: int) -> tuple[TableFile, pl.DataFrame]:
    """Return the rows of a CSV's first bytes."""
    path, names = file.path, file.columns
    if values := [name for name in names if _VALUE.fullmatch(name.strip())]:
        raise HistoryError(
            f"{path}: expected column names in the first line, got the value {show(values[0])}; "
            "put a line such as time,namespace,pod,cpu,memory above it"
        )
    _refuse_many(path, len(names))
    refuse_twice(path, names)
    if "" in (name.strip() for name in names[1:]):
        raise HistoryError(f"{path} has a column without a name: give it one in the first line")
    with open_text(path) as text:
        data = text.read(most + 1)
    whole = len(data) <= most
    if not whole:
        end = data.rfind(b"\n") + 1
        if data.find(b"\n") + 1 == end:
            size = len(data) >> 10
            raise HistoryError(f"{path}: a line is longer than {size} KiB; this is no table")
        data = data[:end]
    frame = pl.read_csv(
        io.BytesIO(data.split(b"\n", file.skip)[-1]),
        separator=file.separator,
        infer_schema=False,
        null_values=list(Format().missing),
        comment_prefix=file.comment or None,
    )
    frame = frame.filter(IS_ROW) if file.comment else frame
    rows = frame.height if whole else max(file.rows, frame.height + 1)
    return replace(file, rows=rows, columns=tuple(frame.columns)), frame


MOSTLY: Final = 0.9
"""Share of a column's values that must be of a form; a few may be faulty."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|%")
# The window of a rate or mean: rate1m, usage_5m, usage:30s. Its letter is no unit of the values.
_WINDOW = re.compile(r"(?<!\d)\d+(?:ms|s|sec|m|min|h|d)(?![A-Za-z])")
_UNIT = r"\s*(%|[A-Za-z]{1,5})?\s*$"
_COMMA = r"^\s*[-+]?\d+,\d+" + _UNIT
_MAYBE_COMMA = r"^\s*[-+]?\d+(,\d+)?" + _UNIT
_PERCENT = r"\s*%$"


class Kind(StrEnum):
    """The form of a column's values."""

    time = "time"
    number = "number"
    quantity = "quantity"
    boolean = "boolean"
    text = "text"
    empty = "empty"


NUMBERS: Final = (Kind.number, Kind.quantity)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the sample, or a label in it; `values` are raw, `numbers` Float64 with nulls.

    `origin` is the column's name in the table; `label` is the beginning of the pattern that finds
    the label in its values, "" for the whole column.
    """

    name: str
    words: tuple[str, ...]
    kind: Kind
    values: pl.Series
    numbers: pl.Series
    origin: str
    label: str = ""

    @property
    def key(self) -> str:
        """The words of the name, joined by underscores."""
        return "_".join(self.words)

    @property
    def known(self) -> pl.Series:
        """The numbers that are some."""
        return self.numbers.drop_nulls().drop_nans()

    def has(self, *words: str) -> bool:
        """Whether the name has one of the words."""
        return not set(words).isdisjoint(self.words)

    def percent_signs(self) -> bool:
        """Whether the numbers are percentages such as 49.3%."""
        return self.values.dtype == pl.String() and self.share("%") > 0

    def distinct(self) -> pl.Series:
        """Return the different values in the order of the rows."""
        return self.values.drop_nulls().unique(maintain_order=True)

    def examples(self, most: int = 3) -> list[str]:
        """Return a few different values as strings."""
        return [str(value) for value in self.distinct().head(most).to_list()]

    def share(self, pattern: str) -> float:
        """Return the share of the different values, as strings, in which a pattern is found."""
        return mean(self.distinct().cast(pl.String, strict=False).str.contains(pattern))

    def quantile(self, share: float) -> float:
        """Return a quantile of the numbers that are not zero, 0 where there are none."""
        found = self.known.filter(self.known != 0).quantile(share)
        return 0.0 if found is None else float(found)

    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return bool((self.known == self.known.floor()).all())


@dataclass(frozen=True, slots=True)
class Role:
    """What a column may be, by its name.

    Attributes:
        names: whole names, the likeliest first.
        parts: words of other names, the likeliest first.
        without: words of names that say something else than a part of them.
        values: pattern of all values of a column that is known by a part of its name.
    """

    names: tuple[str, ...]
    parts: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    values: str = ""

    def rank(self, column: Column) -> int | None:
        """Return the place of a column among the likely ones, None for one that is none."""
        if column.key in self.names:
            return self.names.index(column.key)
        if column.has(*self.without):
            return None
        place = next((k for k, part in enumerate(self.parts) if column.has(part)), None)
        if place is None or (self.values and column.share(self.values) < 1):
            return None
        return len(self.names) + place

    def best(self, columns: Iterable[Column]) -> Column | None:
        """Return the likeliest column, of equal ones the first."""
        ranked = [(rank, item) for item in columns if (rank := self.rank(item)) is not None]
        return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def mean(mask: pl.Series) -> float:
    """Return the share of a mask that is true, 0 of an empty one."""
    return float(mask.mean() or 0.0)  # type: ignore[arg-type]


def has_decimal_commas(sample: Sample) -> bool:
    """Return whether numbers such as 0,35 occur in a CSV."""
    if sample.file.parquet or sample.file.separator == ",":
        return False
    columns = [values.drop_nulls() for values in sample.frame]
    return any(
        bool(known.str.contains(_COMMA).any()) and mean(known.str.contains(_MAYBE_COMMA)) >= MOSTLY
        for known in columns
    )


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in small letters: `cpu_mCPU:rate1m` is cpu, m, cpu, rate."""
    return tuple(word.lower() for word in _WORDS.findall(_WINDOW.sub(" ", name)))


def profile(values: pl.Series, *, comma: bool = False, origin: str = "", label: str = "") -> Column:
    """Return the profile of a column, or of a label in the column `origin`."""
    numbers = pl.repeat(None, len(values), dtype=pl.Float64, eager=True)
    if values.dtype == pl.String():
        text = values.str.strip_chars().str.replace(_PERCENT, "")
        text = text.str.replace(",", ".", literal=True) if comma else text
        numbers = text.cast(pl.Float64, strict=False)
    elif values.dtype.is_numeric():
        numbers = values.cast(pl.Float64)
    kind, name = _kind(values, numbers, comma=comma), values.name
    return Column(name, words_of(name), kind, values, numbers, origin or name, label)


def profiles(frame: pl.DataFrame, *, comma: bool = False) -> list[Column]:
    """Return the profiles of a frame's columns."""
    return [profile(values, comma=comma) for values in frame]


def _kind(values: pl.Series, numbers: pl.Series, *, comma: bool) -> Kind:
    known = values.drop_nulls()
    if known.is_empty():
        return Kind.empty
    if values.dtype.is_temporal():
        return Kind.time
    if values.dtype == pl.Boolean():
        return Kind.boolean
    if values.dtype != pl.String() or numbers.is_not_null().sum() >= MOSTLY * len(known):
        return Kind.number
    if set(known.str.to_lowercase().unique().head(3)) <= {"true", "false"}:
        return Kind.boolean
    written = quantities(known, "," if comma else ".").str.contains(WRITTEN)
    return Kind.quantity if mean(written) >= MOSTLY else Kind.text
