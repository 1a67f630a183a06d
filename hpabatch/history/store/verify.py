"""`history check`: every file read and compared with registry, order, index and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history.base import History
from hpabatch.history.checks import check_validity, conform, order_rows
from hpabatch.history.columns import TEXT, Table
from hpabatch.history.flat import FlatHistory
from hpabatch.history.schema import TABLES
from hpabatch.history.store.catalog import FileEntry
from hpabatch.history.store.datafiles import split_places
from hpabatch.history.store.shards import StoreHistory
from hpabatch.model.progress import Progress

FINDINGS = pl.Schema({"table": TEXT, "file": TEXT, "problem": TEXT})


def check_history(
    history: History, progress: Progress = lambda message, share: None
) -> pl.DataFrame:
    """Return the findings of a history: table, file and a sentence each.

    Reads every byte. For a file with several faults at least one is found. An absent table that
    some command needs is a finding, except in recordings (`History.lacks`).

    Args:
        history: of either layout.
        progress: called with the progress.
    """
    if isinstance(history, StoreHistory):
        found = list(_check_store(history, progress))
    else:
        assert isinstance(history, FlatHistory)
        found = list(_check_flat(history, progress))
    found += [
        (name, "", f"the table is missing; {' and '.join(spec.needed_by)} needs {spec.doc} per row")
        for name, spec in TABLES.items()
        if history.lacks(spec)
    ]
    return pl.DataFrame(found, schema=FINDINGS, orient="row").unique(maintain_order=True)


Finding = tuple[str, str, str]


def _check_store(history: StoreHistory, progress: Progress) -> Iterator[Finding]:
    total = sum(file.bytes for file in history.snapshot.files) or 1
    done = 0
    for file in history.snapshot.files:
        progress(f"checking {file.table}", done / total)
        done += file.bytes
        try:
            _check_digest(history, file)
            _check_rows(history, file)
        except HistoryError as error:
            yield file.table, file.path, str(error)
    if "hpas" in history.files:
        try:
            history.read("hpas", optional=True)
        except HistoryError as error:
            yield "hpas", "", str(error)


def _check_digest(history: StoreHistory, file: FileEntry) -> None:
    history.data_files.verify(file)
    if hashlib.sha256(history.storage.read(file.path) or b"").hexdigest() != file.sha256:
        raise HistoryError(
            f"{history.storage.url(file.path)} was changed after it was written: its sha256 is not "
            "the one that the log names; restore it from a copy"
        )


def _check_rows(history: StoreHistory, file: FileEntry) -> None:
    """Check every row group: values, order, and the index."""
    spec, where = TABLES[file.table], history.storage.url(file.path)
    places = iter((place, stop - start) for place, (start, stop) in file.spans.items())
    expected, left = None, 0
    before: pl.DataFrame | None = None
    for start, stop in zip(file.group_starts, file.group_starts[1:], strict=False):
        rows = history.rows_of(file, start, stop)
        conform(rows, spec, where)
        _check_partition(rows, file, spec, where)
        glued = rows if before is None else pl.concat([before, rows])
        ordered, dropped = order_rows(glued, spec)
        if dropped or ordered is not glued:
            raise HistoryError(
                f"{where} is not sorted by ({', '.join(spec.key)}) or has equal keys"
            )
        before = rows.tail(1)
        for place, part in split_places(rows, spec):
            if left == 0:
                expected, left = next(places, (None, 0))
            if place != expected or part.height > left:
                raise HistoryError(f"{where} has rows of {place} where the index names {expected}")
            left -= part.height


def _check_partition(rows: pl.DataFrame, file: FileEntry, spec: Table, where: str) -> None:
    strange = rows.filter(pl.col("cluster") != file.cluster)
    if spec.day:
        strange = rows.filter(
            (pl.col("cluster") != file.cluster) | (pl.col(spec.day).dt.date() != file.date)
        )
    if strange.height:
        raise HistoryError(f"{where} has rows of another cluster or day than its folder names")


def _check_flat(history: FlatHistory, progress: Progress) -> Iterator[Finding]:
    for number, (table, files) in enumerate(history.files.items()):
        progress(f"checking {table}", number / len(history.files))
        known = len(history.warnings)
        bad = False
        for file in files:
            try:
                history.check_file(table, file)
            except HistoryError as error:
                bad = True
                yield table, str(file), str(error)
        if bad:
            continue
        try:
            rows = history.read(table)
            if table == "hpas":
                check_validity(rows, str(files[0]))
        except HistoryError as error:
            yield table, str(files[0] if len(files) == 1 else files[0].parent), str(error)
        for warning in history.warnings[known:]:
            yield table, str(files[0] if len(files) == 1 else files[0].parent), warning
