"""Files of a table: by name, folder or pattern, read in pieces of bounded size."""

from __future__ import annotations

import csv
import glob
import gzip
import hashlib
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.files import check_regular, open_regular
from hpabatch.history.parquet import LARGE_FOOTER, MAGIC, check_groups
from hpabatch.history.polars_errors import BROKEN
from hpabatch.importers.table.kubectl import kubectl_csv
from hpabatch.importers.table.map import SEPARATORS, Format, TableMap
from hpabatch.inputs.documents import show
from hpabatch.model.suggestions import did_you_mean

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
CHUNK_ROWS = 1 << 17
"""Rows read at a time: enough to keep polars busy, few enough to hold several times."""

LINE_BYTES = 16 << 20
"""Bytes of a line of a CSV, at most."""

_CHUNK_BYTES = 1 << 25  # of strings
_GROUP_VALUES = 1 << 28  # of a row group, which polars decodes at once
PART_ROWS = 1 << 21
"""Rows of a part of a Parquet file, about: some seconds of reading."""

_SAMPLE_BYTES = 1 << 20
# The first line by which Excel is told the separator of a CSV.
_EXCEL = re.compile(r'"?sep=([,;\t|])"?[,;\t|]*')
# InfluxDB's annotated CSV: such lines are above the header of each table of a file.
_ANNOTATED = re.compile(r'"?#(?:group|datatype|default)\b')
ANNOTATION = "#"
# A packed text that is cut off or damaged ends in EOFError, zlib.error or BadGzipFile (OSError).
BROKEN_FILE = (*BROKEN, OSError, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One input file, or a part of it; `rows` is known for Parquet and estimated for texts.

    `number` counts the parts of all files. `skip` is the number of lines above the header, `size`
    that of the file in bytes. `first`: the part's first row in its file; None: it is the whole.
    `comment`: what lines that are no rows begin with, "" in most files.
    """

    path: Path
    number: int
    parquet: bool
    rows: int
    columns: tuple[str, ...]
    separator: str = ""
    skip: int = 0
    size: int = 0
    first: int | None = None
    comment: str = ""


def find_files(inputs: Sequence[str]) -> list[Path]:
    """Return the files that names, folders (recursively) and patterns stand for, each once.

    Raises:
        UsageError: a name stands for nothing, or for a file of another kind.
    """
    found: dict[Path, None] = {}
    for text in inputs:
        try:
            names = _named(text)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            place = getattr(error, "filename", None) or text
            raise UsageError(f"{show(place)} cannot be read: {reason}") from None
        if not names:
            raise UsageError(f"{text}: no such file, folder or pattern of Parquet or CSV files")
        found.update(dict.fromkeys(names))
    return list(found)


def _named(text: str) -> list[Path]:
    path = Path(text)
    if path.is_dir():
        return sorted(_below(path))
    if path.exists():
        if not _is_table(path):
            raise UsageError(f"{text} is neither Parquet nor CSV ({', '.join(PARQUET + TEXT)})")
        return [path]
    found = map(Path, glob.glob(text, recursive=True))
    return sorted(p for p in found if not p.is_dir() and _is_table(p))


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(PARQUET + TEXT)


def _below(folder: Path) -> Iterator[Path]:
    """Yield the tables below a folder (OSError: a folder in it cannot be read)."""
    for path in folder.iterdir():
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            if not path.is_symlink():
                yield from _below(path)
        elif _is_table(path):
            yield path


def open_parts(paths: Iterable[Path], table: TableMap) -> list[TableFile]:
    """Return the files, large Parquet files cut into parts; each has the columns of the map.

    Raises:
        HistoryError: a file is empty, broken, or lacks a column.
    """
    found: list[TableFile] = []
    for path in paths:
        found += _cut(open_file(path, len(found), table), table)
    return found


def _cut(file: TableFile, table: TableMap) -> list[TableFile]:
    """Return the parts of a file: of a Parquet file some row groups each.

    A CSV is one part: where a line of it begins is known only when all before it is read.
    """
    # A row of a wide table becomes as many as it has columns.
    most = PART_ROWS if table.unpivot is None else max(1, PART_ROWS // len(file.columns))
    if not file.parquet or file.rows <= most:
        return [file]
    metadata = pq.read_metadata(file.path)
    starts, rows, end = [0], 0, 0
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k).num_rows
        if rows and rows + group > most:
            starts.append(end)
            rows = 0
        rows, end = rows + group, end + group
    return [
        replace(file, number=file.number + k, first=first, rows=last - first)
        for k, (first, last) in enumerate(pairwise([*starts, end]))
    ]


def open_file(path: Path, number: int, table: TableMap) -> TableFile:
    """Look at a file's head and check that it has the columns of the map.

    Raises:
        HistoryError: it is empty, broken, or lacks a column (near matches are named).
    """
    parquet = path.name.lower().endswith(PARQUET)
    separator, rows, skip, size, comment = "", 0, 0, 0, ""
    try:
        check_regular(path)
        size = path.stat().st_size
        if size == 0:
            raise HistoryError(f"{path} is empty (0 bytes)")
        if parquet:
            check_parquet(path)
            lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            rows = int(lazy.select(pl.len()).collect().item())
        else:
            check_lines(path)
            found = look_at_text(path, table.format.separator)
            separator, rows, skip, comment = found.separator, found.rows, found.skip, found.comment
            used = {*table.used_columns(), *table.read_columns(found.names)}
            refuse_twice(path, [name for name in found.names if name in used])
            lazy = scan_text(path, separator, table.format, skip, comment)
            _refuse_other_headers(path, lazy, found)
        columns = tuple(lazy.collect_schema().names())
    except BROKEN_FILE as error:
        raise HistoryError(broken_file(path, error, table.format.separator)) from None
    wide = table.unpivot
    known = columns if wide is None else wide.columns_of(columns)
    needed = table.used_columns() if table.pivot is None else table.read_columns(columns)
    there = set(known)
    missing = [name for name in needed if name not in there]
    if wide is not None:
        missing = [name for name in wide.keep if name not in columns] + missing
    if parquet:
        read = needed if wide is None else table.read_columns(columns)
        if rows * len(read) > _GROUP_VALUES:
            check_size(path, len(read))
    if missing:
        hint = did_you_mean(missing[0], known)
        raise HistoryError(
            f"{path} has no column {show(missing[0])} that {table.path} names{hint} "
            f"(it has {', '.join(columns[:30])}{' …' if len(columns) > 30 else ''})"
        )
    return TableFile(path, number, parquet, rows, columns, separator, skip, size, comment=comment)


def check_parquet(path: Path) -> None:
    """Refuse what polars would take: another first word, a broken end, or far too many pieces.

    Raises:
        HistoryError: the file is one of those.
    """
    with open_regular(path) as stream:
        head = stream.read(4)
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 8))
        tail = stream.read(8)
    if head != MAGIC:
        raise HistoryError(f"{path} cannot be read: expected Parquet, got another format")
    footer = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or footer > size - 12:
        raise HistoryError(f"{path} cannot be read: it was cut short; copy or write it again")
    if footer > LARGE_FOOTER:
        check_groups(path)


def check_size(path: Path, columns: int) -> None:
    """Refuse row groups of more values than memory has room for, however few bytes they take.

    Raises:
        HistoryError: there is one.
    """
    try:
        metadata = pq.read_metadata(path)
    except pa.ArrowException as error:
        raise HistoryError(broken_file(path, error)) from None
    groups = range(metadata.num_row_groups)
    rows = max((metadata.row_group(k).num_rows for k in groups), default=0)
    if rows * columns > _GROUP_VALUES:
        raise HistoryError(
            f"{path}: expected at most {_GROUP_VALUES:,} values in a row group, got {rows:,} rows "
            f"of {columns:,} columns; write it again with 1,048,576 rows in each"
        )


def check_lines(path: Path) -> None:
    """Refuse a CSV with a line that no table has: polars would hold all of it.

    Raises:
        HistoryError: a line is longer than LINE_BYTES.
        OSError, EOFError, zlib.error: it cannot be read.
    """
    length = 0
    with open_text(path) as text:
        while data := text.read(_SAMPLE_BYTES):
            end = data.find(b"\n")
            length += len(data) if end < 0 else end
            _refuse_long(path, length)
            if end >= 0:
                length = len(data) - data.rfind(b"\n") - 1


def _refuse_long(path: Path, length: int) -> None:
    if length > LINE_BYTES:
        raise HistoryError(
            f"{path}: expected lines of at most {LINE_BYTES >> 20} MiB, got a longer one: this is "
            "no table, or its lines do not end in LF; write it again with a line per row"
        )


def open_raw(path: Path) -> BinaryIO:
    """Open a CSV, or what kubectl printed as one (OSError: it cannot be read)."""
    made = kubectl_csv(path)
    return open_regular(path) if made is None else io.BytesIO(made)


@contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """Open a CSV for reading, unpacked (OSError: as `open_regular`)."""
    with open_raw(path) as stream:
        packed = path.name.lower().endswith(".gz")
        yield cast(BinaryIO, gzip.GzipFile(fileobj=stream)) if packed else stream


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes (HistoryError: it cannot be read)."""
    try:
        with open_regular(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise HistoryError(broken_file(path, error)) from None


def read_chunks(file: TableFile, table: TableMap) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield (number of the first row, rows) of a part with the map's columns, in their order.

    The columns of a text file are all texts.

    Raises:
        HistoryError: the file turns out to be broken further on.
    """
    try:
        if file.parquet:
            lazy = pl.scan_parquet(file.path, glob=False, hive_partitioning=False)
            if file.first is not None:
                lazy = lazy.slice(file.first, file.rows)
        else:
            lazy = scan_text(file.path, file.separator, table.format, file.skip, file.comment)
            if file.comment:
                lazy = lazy.filter(IS_ROW)
        wide = table.unpivot
        used = table.used_columns()
        lazy = lazy.select(table.read_columns(file.columns))
        # A row of a wide table becomes as many as it has columns.
        most = CHUNK_ROWS if wide is None else max(1, CHUNK_ROWS // max(1, len(file.columns)))
        first = 0
        for frame in lazy.collect_batches(chunk_size=most, maintain_order=True):
            # A batch may be larger than requested.
            for part in frame.iter_slices(min(most, rows_within(frame, _CHUNK_BYTES))):
                rows = part if wide is None else wide.apply(part).select(used)
                yield first, rows
                first += rows.height
    except BROKEN_FILE as error:
        raise HistoryError(broken_file(file.path, error, file.separator)) from None


def rows_within(frame: pl.DataFrame, size: int) -> int:
    """Return how many rows have about so many bytes of strings, at least one.

    A long string that recurs takes 16 bytes per row until an expression copies it.
    """
    lengths = [column.str.len_bytes() for column in frame if column.dtype == pl.String()]
    lengths += [
        column.cat.len_bytes()
        for column in frame
        if isinstance(column.dtype, pl.Categorical | pl.Enum)
    ]
    found = sum(int(length.sum()) for length in lengths)
    return max(1, frame.height * size // max(size, found))


def scan_text(
    path: Path, separator: str, form: Format, skip: int, comment: str = ""
) -> pl.LazyFrame:
    """Return a CSV's rows, all of them strings; `skip` lines are above its header."""
    return pl.scan_csv(
        kubectl_csv(path) or path,
        separator=separator,
        skip_lines=skip,
        comment_prefix=comment or None,
        infer_schema=False,
        null_values=list(form.missing),
        glob=False,
        truncate_ragged_lines=False,
    )


_IS_HEADER = pl.col("table") == "table"
IS_ROW = pl.col("table") != "table"
"""Whether a line of an annotated CSV is neither empty nor the header of a further table."""


def _refuse_other_headers(path: Path, lazy: pl.LazyFrame, head: TextHead) -> None:
    """Refuse an annotated CSV whose tables have different columns (HistoryError)."""
    if not head.comment:
        return
    headers = lazy.filter(_IS_HEADER).unique().collect()
    other = next((row for row in headers.rows() if _names(row) != _names(head.names)), None)
    if other is not None:
        raise HistoryError(
            f"{path}: expected the same columns in all of its tables, got {', '.join(head.names)} "
            f"and {', '.join(name or '' for name in other)}; export each table to its own file"
        )


def _names(row: Sequence[str | None]) -> list[str]:
    return [name or "" for name in row]


class TextHead(NamedTuple):
    """The beginning of a CSV: its separator, about how many rows it has, the header's names.

    `skip` is the number of lines above the header; lines that begin with `comment` are no rows.
    """

    separator: str
    rows: int
    names: tuple[str, ...]
    skip: int = 0
    comment: str = ""


def look_at_text(path: Path, separator: str = "") -> TextHead:
    """Return what the beginning of a CSV says; without a separator, it is found.

    Raises:
        HistoryError: it is not UTF-8 text, or begins with an empty line.
        OSError, EOFError, zlib.error: it cannot be read.
    """
    packed = path.name.lower().endswith(".gz")
    with open_text(path) as text:
        head = text.read(_SAMPLE_BYTES)
        if head.count(b"\n") < 2:  # (one may be Excel's line)
            head += text.read(LINE_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:4096]:
        raise HistoryError(f"{path} is UTF-16 or binary: convert it to UTF-8")
    lines = head.count(b"\n") or 1
    size = path.stat().st_size * (8 if packed else 1)
    rows = max(1, size * lines // max(1, len(head)) - 1)
    try:
        notes = next(k for k in count() if not _ANNOTATED.match(_line(head, k)))
        first = _line(head, notes)
        excel = _EXCEL.fullmatch(first)
        if excel is not None:
            first, separator = _line(head, 1), separator or excel[1]
    except UnicodeDecodeError:
        raise HistoryError(f"{path} is not UTF-8: convert it (iconv -t UTF-8)") from None
    if not first.strip():
        raise HistoryError(f"{path}: expected column names in the first line, got an empty line")
    separator = separator or _separator(first)
    if "\r" in first:
        raise HistoryError(
            f"{path}: expected a first line that ends in LF, got a CR in it: convert the line ends "
            "(tr '\\r' '\\n'), or rename the column"
        )
    _refuse_long(path, len(first.encode()))
    try:
        names = next(csv.reader([first], delimiter=separator), [])
    except csv.Error:
        raise HistoryError(
            f"{path}: expected column names, got one of more than {csv.field_size_limit() >> 10} "
            "KiB in the first line: is a quote not closed?"
        ) from None
    skip = notes + int(excel is not None)
    comment = ANNOTATION if notes and "table" in names else ""
    return TextHead(separator, rows, tuple(names), skip, comment)


def _line(head: bytes, number: int) -> str:
    lines = head.split(b"\n", number + 1)
    return lines[number].decode("utf-8-sig").strip("\r") if number < len(lines) else ""


def refuse_twice(path: Path, names: Sequence[str]) -> None:
    """Refuse a name that two columns have (HistoryError)."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise HistoryError(f"{path} has two columns {show(twice[0])}: rename one")


def _separator(line: str) -> str:
    """Return the separator that occurs most often in the header, a comma where none does.

    Inside of quotes and of a series' labels, as in `{pod="web-0",namespace="shop"}`, none is.
    """
    outside = re.sub(r'"(?:[^"]|"")*"|\{[^}]*\}', "", line)
    counts = {text: outside.count(text) for name, text in SEPARATORS.items() if name != "space"}
    best = max(counts, key=lambda text: counts[text])
    return best if counts[best] else ","


def broken_file(path: Path, error: BaseException, separator: str = "") -> str:
    """Return a sentence for an error of polars about a broken file; `separator` as of a map."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    if isinstance(error, EOFError | zlib.error):
        return f"{path} cannot be read: it is cut off or damaged; copy or pack it again"
    if isinstance(error, OSError) and error.strerror:
        return f"{path} cannot be read: {error.strerror}"
    if "more fields than defined" in text:
        reason = (
            "a line has more fields than the header: quote the texts that hold the separator, "
            "or say format.separator"
        )
    elif "not properly escaped" in text or "invalid csv" in text:
        reason = "a quote is not closed"
    elif "utf-8" in text.lower():
        reason = "it is not UTF-8: convert it (iconv -t UTF-8)"
    else:
        return f"{path} cannot be read: {reason[:200]}"
    return f"{path} cannot be read: {reason}{_faulty_line(path, separator)}"


def _faulty_line(path: Path, separator: str) -> str:
    """Return where the first row of a CSV begins that has too many fields or texts that break."""
    begin = 1
    try:
        head = look_at_text(path, separator)
        with open_text(path) as data:
            text = io.TextIOWrapper(data, "utf-8", errors="surrogateescape", newline="")
            rows = csv.reader(text, delimiter=head.separator, strict=True)
            for row in rows:
                "".join(row).encode()
                if begin > head.skip and len(row) > len(head.names):
                    return f" (line {begin:,})"
                begin = rows.line_num + 1
    except (csv.Error, UnicodeEncodeError):
        return f" (line {begin:,})"
    except (HistoryError, *BROKEN_FILE):
        pass  # a packed file may be damaged further on, too
    return ""
