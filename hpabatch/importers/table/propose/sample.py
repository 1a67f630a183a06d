"""Sample of a table in bounded time and memory, and profiles of its columns."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history.files import check_regular
from hpabatch.importers.common.rows import WRITTEN, quantities
from hpabatch.importers.table.files import (
    BROKEN_FILE,
    IS_ROW,
    LINE_BYTES,
    PARQUET,
    TableFile,
    TextHead,
    broken_file,
    check_parquet,
    check_size,
    look_at_text,
    open_raw,
    refuse_twice,
    rows_within,
)
from hpabatch.importers.table.map import Format
from hpabatch.inputs.documents import show

_PIECE_BYTES: Final = 256 << 10
_PIECES: Final = 8
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
    `parts` are the files that were read, and how many of the rows are of each, in order.
    """

    file: TableFile
    files: int
    frame: pl.DataFrame
    rows: int
    whole: bool
    parts: tuple[tuple[Path, int], ...] = ()


def read_sample(paths: Sequence[Path]) -> Sample:
    """Return a sample of the files' rows, with the columns of the first file.

    Raises:
        HistoryError: a file is empty, broken, no table, or without a header.
    """
    first = _is_parquet(paths[0])
    alike = [path for path in paths if _is_parquet(path) == first]
    chosen = alike[:: -(-len(alike) // _MOST_FILES)]
    read = [_read_file(path, rest=path is not chosen[0]) for path in chosen]
    files, frames = [file for file, _ in read], [frame for _, frame in read]
    frame = pl.concat(frames, how="diagonal_relaxed").select(files[0].columns)
    if frame.is_empty():
        raise HistoryError(f"{paths[0]} has column names, but no rows: name a file with data")
    sampled = sum(file.rows for file in files)
    whole = len(chosen) == len(paths) and all(file.rows == part.height for file, part in read)
    rows = frame.height if whole else sampled * len(paths) // len(chosen)
    parts = tuple((path, part.height) for path, part in zip(chosen, frames, strict=True))
    return Sample(files[0], len(paths), frame, rows, whole, parts)


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith(PARQUET)


def _read_file(path: Path, *, rest: bool) -> tuple[TableFile, pl.DataFrame]:
    """Return a file and its sampled rows; of the `rest` of the files less is read."""
    try:
        check_regular(path)
        if path.stat().st_size == 0:
            raise HistoryError(f"{path} is empty (0 bytes): name a file with data")
        return _read_parquet(path) if _is_parquet(path) else _read_text(path, rest=rest)
    except BROKEN_FILE as error:
        raise HistoryError(broken_file(path, error)) from None


def _read_parquet(path: Path) -> tuple[TableFile, pl.DataFrame]:
    check_parquet(path)
    lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False)
    schema = lazy.collect_schema()
    kept = [name for name, dtype in schema.items() if not dtype.is_nested()]
    if not kept:
        raise HistoryError(f"{path} has no columns of numbers, strings or times")
    if len(kept) > _MOST_COLUMNS:
        raise HistoryError(_many_columns(path, len(kept)))
    check_size(path, len(kept))
    rows = int(lazy.select(pl.len()).collect().item())
    head = max(64, min(1 << 18, _CELLS // len(kept)))
    lazy = lazy.select(kept)
    parts = [lazy.head(head).collect()]
    left = rows - head
    if (most := rows_within(parts[0], _STRING_BYTES)) < parts[0].height:
        parts, left = [parts[0].head(most)], 0
    each = max(16, head // 64)
    if 0 < left <= _PIECES * each:
        parts.append(lazy.slice(head).collect())
    elif left > 0:
        starts = [head + left * k // _PIECES for k in range(_PIECES)]
        parts += [lazy.slice(start, each).collect() for start in starts]
    frame = pl.concat(parts)
    frame = frame.with_columns(
        pl.col(name).cast(pl.String)
        for name, dtype in frame.schema.items()
        if isinstance(dtype, pl.Categorical | pl.Enum)
    )
    return TableFile(path, 0, True, rows, tuple(kept)), frame


def _read_text(path: Path, *, rest: bool) -> tuple[TableFile, pl.DataFrame]:
    head = look_at_text(path)
    values = [name for name in head.names if _VALUE.fullmatch(name.strip())]
    if values:
        raise HistoryError(
            f"{path}: expected column names in the first line, got the value {show(values[0])}; "
            "put a line such as time,namespace,pod,cpu,memory above it"
        )
    if len(head.names) > _MOST_COLUMNS:
        raise HistoryError(_many_columns(path, len(head.names)))
    refuse_twice(path, head.names)
    if "" in (name.strip() for name in head.names[1:]):
        raise HistoryError(f"{path} has a column without a name: give it one in the first line")
    packed = path.name.lower().endswith(".gz")
    most = _PIECE_BYTES if rest else LINE_BYTES
    with open_raw(path) as stream:
        text = gzip.GzipFile(fileobj=stream) if packed else stream
        data = text.read(most + 1)
        whole = len(data) <= most
        if not whole:
            end = data.rfind(b"\n") + 1
            if data.find(b"\n") + 1 == end:
                size = len(data) >> 10
                raise HistoryError(f"{path}: a line is longer than {size} KiB; this is no table")
            data = data[:end]
        data = data.split(b"\n", head.skip)[-1]
        parts = [_parse(data, head)]
        if not whole and not packed and not rest:
            size = stream.seek(0, io.SEEK_END)
            parts += _pieces(stream, len(data), size, data.split(b"\n", 1)[0], head)
    frame = pl.concat(parts)
    rows = frame.height if whole else max(head.rows, frame.height + 1)
    names = tuple(frame.columns)
    file = TableFile(path, 0, False, rows, names, head.separator, head.skip, comment=head.comment)
    return file, frame


def _many_columns(path: Path, columns: int) -> str:
    return (
        f"{path}: expected at most {_MOST_COLUMNS:,} columns, got {columns:,}; propose the map "
        "from a file with some of them, and import the whole one with it"
    )


def _pieces(
    stream: BinaryIO, first: int, size: int, header: bytes, head: TextHead
) -> Iterator[pl.DataFrame]:
    """Yield rows from further on; a piece that cannot be read alone is left out."""
    for k in range(_PIECES):
        stream.seek(first + (size - first) * k // _PIECES)
        data = stream.read(_PIECE_BYTES)
        begin, end = data.find(b"\n") + 1, data.rfind(b"\n") + 1
        if begin < end:
            try:
                yield _parse(header + b"\n" + data[begin:end], head)
            except BROKEN_FILE:  # a line end inside of quotes
                continue


def _parse(data: bytes, head: TextHead) -> pl.DataFrame:
    frame = pl.read_csv(
        io.BytesIO(data),
        separator=head.separator,
        infer_schema=False,
        null_values=list(Format().missing),
        comment_prefix=head.comment or None,
    )
    return frame.filter(IS_ROW) if head.comment else frame


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
    name, numbers = values.name, _numbers(values, comma=comma)
    kind = _kind(values, numbers, comma=comma)
    return Column(name, words_of(name), kind, values, numbers, origin or name, label)


def profiles(frame: pl.DataFrame, *, comma: bool = False) -> list[Column]:
    """Return the profiles of a frame's columns."""
    return [profile(values, comma=comma) for values in frame]


def _numbers(values: pl.Series, *, comma: bool) -> pl.Series:
    if values.dtype == pl.String():
        text = values.str.strip_chars().str.replace(_PERCENT, "")
        if comma:
            text = text.str.replace(",", ".", literal=True)
        return text.cast(pl.Float64, strict=False)
    if values.dtype.is_numeric():
        return values.cast(pl.Float64)
    return pl.repeat(None, len(values), dtype=pl.Float64, eager=True)


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
