"""Rows of a store's data files: verified against the log, read by row group."""

from __future__ import annotations

import hashlib
import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.history.checks import conform, refuse_rows
from hpabatch.history.columns import TIME, Table
from hpabatch.history.parquet import BROKEN, broken
from hpabatch.history.store.catalog import FileEntry
from hpabatch.history.store.storage import Storage

# Shares of a file from which it is read whole, all in one range or in many ranges: every range is a
# scan of its own, which takes some milliseconds.
_WHOLE_SHARE = 0.9
_SCATTERED_SHARE = 0.5
_SCATTERED_RANGES = 8

# Polars opens all files of a request at once; a process may have 1024 open, sometimes 256.
_FILES_AT_ONCE = 64

# For checksums, which let other threads run.
_THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Rows:
    """Parts of a file in memory: the first row of each part, and the part."""

    starts: list[int]
    parts: list[pl.DataFrame]

    def rows(self, start: int, stop: int) -> pl.DataFrame:
        """Return rows of the file that one part holds."""
        place = bisect_right(self.starts, start) - 1
        return self.parts[place].slice(start - self.starts[place], stop - start)


class DataFiles:
    """Reader of data files; each is verified against the log once. Thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._verified: set[str] = set()
        self._sound: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def read(
        self,
        spec: Table,
        wanted: Sequence[tuple[FileEntry, Sequence[tuple[int, int]]]],
        columns: Sequence[str],
    ) -> list[Rows]:
        """Return the rows of several files, for each at least the requested spans.

        Raises:
            HistoryError: a file is missing, is not the committed one, or is broken.
        """
        jobs: list[tuple[int, FileEntry, int, int]] = []
        for number, (file, spans) in enumerate(wanted):
            self.verify(file)
            jobs += [(number, file, start, stop) for start, stop in _ranges(file, spans)]
        self._verify_groups([job[1:] for job in jobs])
        frames = self._load([job[1:] for job in jobs], columns)
        found = [Rows([], []) for _ in wanted]
        for (number, file, start, stop), frame in zip(jobs, frames, strict=True):
            self._check(spec, file, frame, stop - start)
            found[number].starts.append(start)
            found[number].parts.append(frame)
        return found

    def verify(self, file: FileEntry) -> None:
        """Check that a file is the committed one, by its size and its footer.

        Raises:
            HistoryError: it is missing, cut short, or another one.
        """
        if file.path in self._verified:
            return
        url = self.storage.url(file.path)
        length, digest = file.footer
        found = self.storage.tail(file.path, length)
        if found is None:
            raise HistoryError(
                f"{url} is missing, though the log names it; if it was removed meanwhile by "
                "`hpabatch history compact`, open the history again, else restore the file"
            )
        size, tail = found
        if size != file.bytes:
            raise HistoryError(
                f"{url} was cut short or changed: it has {size} bytes, the log says {file.bytes}; "
                "restore it from a copy"
            )
        if hashlib.sha256(tail).hexdigest()[: len(digest)] != digest:
            raise HistoryError(
                f"{url} was changed after it was written: its Parquet footer is not the one that "
                "the log names; restore it from a copy"
            )
        with self._lock:
            self._verified.add(file.path)

    def _verify_groups(self, jobs: Sequence[tuple[FileEntry, int, int]]) -> None:
        """Check that row groups have the committed bytes, which polars does not.

        This comes before polars reads them: damaged pages may decode to anything.

        Raises:
            HistoryError: the bytes differ.
        """
        if not self.storage.checksums:
            return
        groups = [
            (file, group)
            for file, start, stop in jobs
            for group in file.groups_of(start, stop)
            if (file.path, group) not in self._sound
        ]
        if len(groups) < 2:
            for file, group in groups:
                self._verify_group(file, group)
            return
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda pair: self._verify_group(*pair), groups))

    def _verify_group(self, file: FileEntry, group: int) -> None:
        first = file.group_offsets[group]
        _, length, checksum = file.groups[group]
        if self.storage.checksum(file.path, first, first + length) != checksum:
            raise HistoryError(
                f"{self.storage.url(file.path)} is damaged: the bytes of row group {group} "
                "(counting from 0) are not those that were written; restore it from a copy"
            )
        with self._lock:
            self._sound.add((file.path, group))

    def _load(
        self, jobs: Sequence[tuple[FileEntry, int, int]], columns: Sequence[str]
    ) -> list[pl.DataFrame]:
        """Return rows of files, each from the first to before the last."""
        frames: list[pl.DataFrame] = []
        for start in range(0, len(jobs), _FILES_AT_ONCE):
            some = jobs[start : start + _FILES_AT_ONCE]
            try:
                frames += pl.collect_all([self._scan(job, columns) for job in some])
            except BROKEN as error:
                urls = list(dict.fromkeys(self.storage.url(file.path) for file, _, _ in some))
                where = urls[0] if len(urls) == 1 else f"{urls[0]} or one of {len(urls)} files"
                fault = self.storage.fault(where, error)
                raise fault or HistoryError(broken(where, error)) from error
        return frames

    def _scan(self, job: tuple[FileEntry, int, int], columns: Sequence[str]) -> pl.LazyFrame:
        file, start, stop = job
        scan = pl.scan_parquet(
            self.storage.url(file.path),
            hive_partitioning=False,
            glob=False,
            storage_options=self.storage.options,
        )
        # Sliced before columns are selected: polars takes equal selections of several ranges for
        # one plan, and would read the whole file for it.
        rows = scan if stop - start == file.rows else scan.slice(start, stop - start)
        return rows.select(columns)

    def _check(self, spec: Table, file: FileEntry, frame: pl.DataFrame, rows: int) -> None:
        where = self.storage.url(file.path)
        if frame.height != rows:
            raise HistoryError(
                f"{where} has {frame.height} rows where the log names {rows}; restore it from a "
                "copy"
            )
        if self.storage.checksums:
            # Values were checked when they were written, and the bytes are unchanged.
            wrong = [n for n, dtype in frame.schema.items() if dtype != spec.column(n).dtype]
            if wrong:
                raise HistoryError(f"{where}: column {wrong[0]} is {frame.schema[wrong[0]]}")
            return
        conform(frame, spec, where, texts=False)
        if file.date is not None and spec.day in frame.columns:
            days = frame[spec.day]
            ends = pl.Series([days.min(), days.max()], dtype=TIME).dt.date()
            if (ends != file.date).any():
                wrong_day = (days.dt.date() != file.date).fill_null(value=False)
                refuse_rows(frame, wrong_day, where, f"a day other than {file.day}", "restore it")


def _ranges(file: FileEntry, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the row ranges to read: those of wanted row groups, with adjacent ones joined.

    Each from its first wanted row to its last one: polars decodes only the pages in between, which
    for a tenth of a group takes a fifth of the time.
    """
    ranges: list[tuple[int, int]] = []
    after = -1  # the group behind the last range
    for start, stop in sorted(spans):
        groups = file.groups_of(start, stop)
        if ranges and groups.start <= after:
            start, stop = ranges[-1][0], max(ranges.pop()[1], stop)
        ranges.append((start, stop))
        after = groups.stop
    share = sum(stop - start for start, stop in ranges) / (file.rows or 1)
    scattered = len(ranges) > _SCATTERED_RANGES and share > _SCATTERED_SHARE
    return [(0, file.rows)] if scattered or share > _WHOLE_SHARE else ranges
