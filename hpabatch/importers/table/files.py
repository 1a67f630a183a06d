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
from typing import BinaryIO, Final, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.checks import BROKEN
from hpabatch.history.files import check_regular, open_regular
from hpabatch.history.parquet import LARGE_FOOTER, MAGIC, check_groups
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
        path = Path(text)
        try:
            if path.is_dir():
                names = sorted(_below(path))
            elif path.exists():
                names = [path]
            else:
                known = map(Path, glob.glob(text, recursive=True))
                names = sorted(p for p in known if not p.is_dir() and _is_table(p))
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            place = getattr(error, "filename", None) or text
            raise UsageError(f"{show(place)} cannot be read: {reason}") from None
        if names == [path] and not _is_table(path):
            raise UsageError(f"{text} is neither Parquet nor CSV ({', '.join(PARQUET + TEXT)})")
        if not names:
            raise UsageError(f"{text}: no such file, folder or pattern of Parquet or CSV files")
        found.update(dict.fromkeys(names))
    return list(found)


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
    """Return the files, large Parquet files cut into parts of some row groups each.

    A CSV is one part: where a line of it begins is known only when all before it is read.

    Raises:
        HistoryError: a file is empty, broken, or lacks a column of the map.
    """
    found: list[TableFile] = []
    for path in paths:
        file = open_file(path, len(found), table)
        # A row of a wide table becomes as many as it has columns.
        most = PART_ROWS if table.unpivot is None else max(1, PART_ROWS // len(file.columns))
        if not file.parquet or file.rows <= most:
            found.append(file)
            continue
        starts, end = [0], 0
        for rows in _group_rows(path):
            if end > starts[-1] and end + rows - starts[-1] > most:
                starts.append(end)
            end += rows
        found += [
            replace(file, number=file.number + k, first=first, rows=last - first)
            for k, (first, last) in enumerate(pairwise([*starts, end]))
        ]
    return found


def _group_rows(path: Path) -> list[int]:
    """Return the number of rows of each row group (HistoryError: the file is broken)."""
    try:
        metadata = pq.read_metadata(path)
    except pa.ArrowException as error:
        raise HistoryError(broken_file(path, error)) from None
    return [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]


def look_at(path: Path, separator: str = "") -> TableFile:
    """Return a file by its beginning, of Parquet also by its end.

    Without a separator, that of a CSV is detected. Its columns are those of the first line.

    Raises:
        HistoryError: it is empty, broken, or no table.
    """
    try:
        check_regular(path)
        size = path.stat().st_size
        if not size:
            raise HistoryError(f"{path} is empty (0 bytes): name a file with data")
        if not path.name.lower().endswith(PARQUET):
            return _look_at_text(path, size, separator)
        _check_parquet(path)
        lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        rows = int(lazy.select(pl.len()).collect().item())
        return TableFile(path, 0, True, rows, tuple(lazy.collect_schema().names()), size=size)
    except BROKEN_FILE as error:
        raise HistoryError(broken_file(path, error, separator)) from None


def open_file(path: Path, number: int, table: TableMap) -> TableFile:
    """Look at a file and check that it has the columns of the map.

    Raises:
        HistoryError: it is empty, broken, or lacks a column (near matches are named).
    """
    file = replace(look_at(path, table.format.separator), number=number)
    if not file.parquet:
        used = {*table.used_columns(), *table.read_columns(file.columns)}
        refuse_twice(path, [name for name in file.columns if name in used])
        try:
            _check_lines(path)
            lazy = scan(file, table.format)
            # Further tables of an annotated CSV must have the same columns.
            further = lazy.filter(pl.col("table") == "table").unique() if file.comment else None
            for row in () if further is None else further.collect().rows():
                names = [name or "" for name in row]
                if names != list(file.columns):
                    raise HistoryError(
                        f"{path}: expected the same columns in all of its tables, got "
                        f"{', '.join(file.columns)} and {', '.join(names)}; export each table to "
                        "its own file"
                    )
            file = replace(file, columns=tuple(lazy.collect_schema().names()))
        except BROKEN_FILE as error:
            raise HistoryError(broken_file(path, error, table.format.separator)) from None
    wide = table.unpivot
    known = file.columns if wide is None else wide.columns_of(file.columns)
    read = table.read_columns(file.columns)
    needed = read if table.pivot is not None else table.used_columns()
    missing = [name for name in needed if name not in set(known)]
    if wide is not None:
        missing = [name for name in wide.keep if name not in file.columns] + missing
    if file.parquet:
        check_size(file, len(read))
    if missing:
        hint = did_you_mean(missing[0], known)
        raise HistoryError(
            f"{path} has no column {show(missing[0])} that {table.path} names{hint} "
            f"(it has {', '.join(file.columns[:30])}{' …' if len(file.columns) > 30 else ''})"
        )
    return file


def _check_parquet(path: Path) -> None:
    """Refuse (HistoryError) another first word, a broken end, or far too many pieces."""
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


def check_size(file: TableFile, columns: int) -> None:
    """Refuse row groups of more values than memory has room for, however few bytes they take.

    Raises:
        HistoryError: there is one.
    """
    if file.rows * columns <= _GROUP_VALUES:
        return
    rows = max(_group_rows(file.path), default=0)
    if rows * columns > _GROUP_VALUES:
        raise HistoryError(
            f"{file.path}: expected at most {_GROUP_VALUES:,} values in a row group, got {rows:,} "
            f"rows of {columns:,} columns; write it again with 1,048,576 rows in each"
        )


def _check_lines(path: Path) -> None:
    """Refuse (HistoryError) a line longer than LINE_BYTES: polars would hold all of it."""
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


@contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """Open a CSV, or what kubectl printed as one, unpacked (OSError: as `open_regular`)."""
    made = kubectl_csv(path)
    with open_regular(path) if made is None else io.BytesIO(made) as stream:
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
    wide, used, first = table.unpivot, table.used_columns(), 0
    # A row of a wide table becomes as many as it has columns.
    most = CHUNK_ROWS if wide is None else max(1, CHUNK_ROWS // max(1, len(file.columns)))
    try:
        lazy = scan(file, table.format)
        lazy = lazy.filter(IS_ROW) if file.comment else lazy
        lazy = lazy.select(table.read_columns(file.columns))
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


def scan(file: TableFile, form: Format) -> pl.LazyFrame:
    """Return the rows of a part; those of a CSV are strings, headers of further tables among them.

    What `comment` begins is left out.
    """
    if file.parquet:
        lazy = pl.scan_parquet(file.path, glob=False, hive_partitioning=False)
        return lazy if file.first is None else lazy.slice(file.first, file.rows)
    return pl.scan_csv(
        kubectl_csv(file.path) or file.path,
        separator=file.separator,
        skip_lines=file.skip,
        comment_prefix=file.comment or None,
        infer_schema=False,
        null_values=list(form.missing),
        glob=False,
        truncate_ragged_lines=False,
    )


IS_ROW = pl.col("table") != "table"
"""Whether a line of an annotated CSV is neither empty nor the header of a further table."""


def _look_at_text(path: Path, size: int, separator: str) -> TableFile:
    """Return a CSV by its first lines (HistoryError: no UTF-8 text, or no names in the first)."""
    with open_text(path) as text:
        head = text.read(_SAMPLE_BYTES)
        if head.count(b"\n") < 2:  # (one may be Excel's line)
            head += text.read(LINE_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:4096]:
        raise HistoryError(f"{path} is UTF-16 or binary: convert it to UTF-8")
    lines = head.count(b"\n") or 1
    unpacked = size * (8 if path.name.lower().endswith(".gz") else 1)
    rows = max(1, unpacked * lines // max(1, len(head)) - 1)
    try:
        skip = next(k for k in count() if not _ANNOTATED.match(_line(head, k)))
        first, comment = _line(head, skip), ANNOTATION if skip else ""
        if (excel := _EXCEL.fullmatch(first)) is not None:
            skip, separator = skip + 1, separator or excel[1]
            first = _line(head, skip)
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
    comment = comment if "table" in names else ""
    return TableFile(path, 0, False, rows, tuple(names), separator, skip, size, comment=comment)


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
    if isinstance(error, EOFError | zlib.error):
        reason = "it is cut off or damaged; copy or pack it again"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    elif "more fields than defined" in text:
        reason = (
            "a line has more fields than the header: quote the texts that hold the separator, "
            f"or say format.separator{_faulty_line(path, separator)}"
        )
    elif "not properly escaped" in text or "invalid csv" in text:
        reason = f"a quote is not closed{_faulty_line(path, separator)}"
    elif "utf-8" in text.lower():
        reason = f"it is not UTF-8: convert it (iconv -t UTF-8){_faulty_line(path, separator)}"
    else:
        reason = (lines[0] if lines else type(error).__name__)[:200]
    return f"{path} cannot be read: {reason}"


def _faulty_line(path: Path, separator: str) -> str:
    """Return where the first row of a CSV begins that has too many fields or texts that break."""
    begin = 1
    try:
        head = look_at(path, separator)
        with open_text(path) as data:
            text = io.TextIOWrapper(data, "utf-8", errors="surrogateescape", newline="")
            rows = csv.reader(text, delimiter=head.separator, strict=True)
            for row in rows:
                "".join(row).encode()
                if begin > head.skip and len(row) > len(head.columns):
                    return f" (line {begin:,})"
                begin = rows.line_num + 1
    except (csv.Error, UnicodeEncodeError):
        return f" (line {begin:,})"
    except (HistoryError, *BROKEN_FILE):
        pass  # a packed file may be damaged further on, too
    return ""


_HEAD_BYTES: Final = 4096
_MOST_BYTES: Final = 64 << 20
_COLUMNS: Final = r"[ \t]{2,}"
_GET: Final = re.compile(r"(NAMESPACE {2,})?NAME {2,}REFERENCE {2,}TARGETS")
_PERCENT: Final = re.compile(r"(\d+)%?(?: \([^)]*\))? */ *(\d+)%")
_UNKNOWN: Final = re.compile(r"<unknown> */ *([0-9.]+[A-Za-z]*%?)")
_AGE: Final = re.compile(r"(\d+)([dhms])")
_SECONDS: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_SYNC_S: Final = 15


def kubectl_csv(path: Path) -> bytes | None:
    """Return what `kubectl get hpa` (-w) printed as a CSV, None of another file.

    `elapsed_s` is the time since the first row of an HPA, by its age; rows of one age are a sync
    of 15 s apart.

    Raises:
        HistoryError: it is too long for memory.
        UsageError: it is of HPAs of which no percentage has a value.
        OSError: it cannot be read.
    """
    with open_regular(path) as stream:
        head = stream.read(_HEAD_BYTES)
        lines = head.decode("utf-8-sig", "replace").lstrip()
        if lines.startswith("$"):  # the command itself
            lines = lines.partition("\n")[2]
        if not _GET.match(lines):
            return None
        data = head + stream.read(_MOST_BYTES)
    if len(data) > _MOST_BYTES:
        raise HistoryError(
            f"{path}: expected at most {_MOST_BYTES >> 20} MiB of kubectl's text, got more: "
            "cut it into several files"
        )
    rows = list(_listed(data.decode("utf-8-sig", "replace")))
    if rows and all(row["failed"] and not row["current_pct"] for row in rows):
        raise UsageError(
            f"{path}: expected a percentage with a value, got none beside {rows[0]['failed']}: "
            "where no metric has a value the HPA keeps its size; kubectl describe hpa gives the "
            "reason, mostly containers without requests or a cluster without a metrics API"
        )
    written = io.StringIO()
    writer = csv.DictWriter(written, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue().encode()


def _listed(text: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a list of HPAs; repeated headers are none."""
    rows = [re.split(_COLUMNS, line.strip()) for line in text.splitlines()]
    start = next(k for k, row in enumerate(rows) if row[0] in ("NAME", "NAMESPACE"))
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for cells in rows[start + 1 :]:
        if len(cells) < 3 or cells == rows[start]:
            continue
        row = dict(zip(rows[start], cells, strict=False))
        age_s = sum(int(n) * _SECONDS[unit] for n, unit in _AGE.findall(row.get("AGE", "")))
        key = f"{row.get('NAMESPACE', '')}/{row['NAME']}"
        elapsed_s = age_s - first.setdefault(key, age_s)
        elapsed_s = max(elapsed_s, last[key] + _SYNC_S) if key in last else elapsed_s
        last[key] = elapsed_s
        kind, _, workload = row.get("REFERENCE", "").partition("/")
        yield {
            "elapsed_s": elapsed_s,
            "namespace": row.get("NAMESPACE", "default"),
            "kind": kind,
            "workload": workload,
            **_target(row.get("TARGETS", "")),
            "replicas": row.get("REPLICAS", ""),
            "min": row.get("MINPODS", ""),
            "max": row.get("MAXPODS", ""),
        }


def _target(text: str) -> dict[str, object]:
    """Return a percentage, its target, and the target of a metric without a value.

    Of several percentages it is the one furthest above its target: the HPA follows the metric that
    asks for most.
    """
    pairs, failed = _PERCENT.findall(text), _UNKNOWN.search(text)
    percent = failed[1].removesuffix("%") if failed is not None and "%" in failed[1] else ""
    most = max(pairs, key=lambda pair: int(pair[0]) / max(int(pair[1]), 1), default=("", percent))
    current, target = most
    return {
        "current_pct": f"{current}%" if current else "",
        "target_pct": target,
        "failed": f"<unknown>/{failed[1]}" if failed is not None else "",
    }
