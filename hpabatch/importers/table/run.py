"""Import of a CSV or Parquet table: a row per pod, or per workload with a number of replicas.

The input is read once, in parts, into sorted runs in a work folder. Groups of neighbouring
workloads are then written, each as one part of the store. An interrupted import is started again
with the same arguments: what was read and written is kept, and what was written is computed again
for what is told of the whole.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.errors import HistoryError, RefusedError
from hpabatch.history.files import read_regular
from hpabatch.history.store.storage import temporary_root
from hpabatch.importers.common.claims import claim_rows, import_name, while_unreplaced
from hpabatch.importers.common.objects import context_rows
from hpabatch.importers.common.work import Sink, check_work, locked, work_folder
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.files import TableFile, digest_file, find_files, open_parts
from hpabatch.importers.table.hpas import hpa_rows, in_store
from hpabatch.importers.table.lives import (
    beyond_max,
    first_sizes,
    guesses_provenance,
    scales_table,
    summarize_workloads,
    workload_sizes,
)
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.objects import Beside
from hpabatch.importers.table.pods import (
    Figures,
    GroupResult,
    import_pods,
)
from hpabatch.importers.table.request import TableRequest
from hpabatch.importers.table.rows import Tally, dropped_lines
from hpabatch.importers.table.spill import GROUP_ROWS, Keyed, Spill, ahead, read_spill
from hpabatch.importers.table.workloads import import_workloads
from hpabatch.inputs.cluster_objects import read_objects
from hpabatch.inputs.documents import show
from hpabatch.model.printable import counted
from hpabatch.model.progress import Progress
from hpabatch.model.suggestions import did_you_mean, near_path

if TYPE_CHECKING:
    from hpabatch.history.store.append import Amend

READER_VERSION = 5
"""Raise it when the same input and map give other rows: what was imported before is then redone."""

READ_SHARE = 0.6
"""Share of reading in the work, for progress."""

_MUCH: Final = 0.1
"""A larger share of dropped rows is a warning."""

_SHOWN_METRICS: Final = 12
_UNSIZED = "no replicas, nor did an earlier row of the workload say any"
_CONFLICT = "rows of one time and pod (or namespace) say different values of a metric"


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Result of an import: rows read, excluded, dropped by reason, and written by table.

    `first` has some rows of each table after a dry run; `resumed` is the number of groups that an
    earlier, interrupted run had written. `places` has the first dropped row of most reasons.
    """

    files: tuple[str, ...]
    assumed: tuple[str, ...]
    warnings: tuple[str, ...]
    rows_read: int = 0
    rows_excluded: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    written: dict[str, int] = field(default_factory=dict)
    workloads: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"cluster": pl.String})
    )
    resumed: int = 0
    first: dict[str, pl.DataFrame] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def left_out(self) -> list[str]:
        """Return a line for each reason for which rows were dropped."""
        return dropped_lines(self.dropped, self.places)


@dataclass(frozen=True, slots=True)
class TableInput:
    """What an import reads: the map, the files cut into parts, and a digest of all that matters."""

    table: TableMap
    parts: tuple[TableFile, ...]
    digest: str


def open_input(request: TableRequest) -> TableInput:
    """Return the input that a request names: the same one, under other folders, has one digest.

    Raises:
        UsageError, HistoryError: something cannot be read.
    """
    assert request.map is not None, "the request's check asks for it"
    beside = Beside(read_objects(request.objects)) if request.objects else None
    table = read_map(request.map, beside, request.start_ms)
    parts = open_parts(find_files(request.inputs), table)
    # Of the map and what it names: lists, manifests and objects.
    context = hashlib.sha256(read_regular(Path(request.map)))
    # (with an empty list, so that imports of earlier versions keep their names)
    context.update(repr((READER_VERSION, table.requests, table.limits, [])).encode())
    if table.time.start_ms is not None:
        context.update(str(table.time.start_ms).encode())
    if beside is not None:
        context.update(beside.objects.digest.encode())
    files = hashlib.sha256()
    for path in dict.fromkeys(part.path for part in parts):
        files.update(f"{path.name}\0{digest_file(path)}\0".encode())
    whole = f"{context.hexdigest()}{files.hexdigest()}"
    return TableInput(table, tuple(parts), hashlib.sha256(whole.encode()).hexdigest())


def import_table(
    request: TableRequest,
    progress: Progress = lambda message, share: None,
    group_rows: int = GROUP_ROWS,
) -> ImportResult:
    """Import a table into a store.

    Args:
        request: its options.
        progress: gets what is being done.
        group_rows: rows that are held in memory at once, about.

    Raises:
        UsageError, HistoryError: something cannot be read or written.
        RefusedError: no row is left, an HPA is not valid, or the store has rows of the same
            workloads, and not `replace`.
    """
    if request.work is not None and request.out is not None:
        check_work(request.work, request.out)
    found = open_input(request)
    if request.out is None:
        with tempfile.TemporaryDirectory(prefix="hpabatch-import-", dir=temporary_root()) as name:
            return _Job(found, Path(name), Sink(None), progress).run(request, group_rows)
    from hpabatch.history.store.append import open_writer

    folder = work_folder(request.out, found.digest[:16], request.work)
    store = open_writer(request.out, begin=False)
    with locked(folder, store):
        sink = Sink(store)
        if found.table.hpas.given or found.table.beside is not None:
            # A store whose HPAs cannot be read is refused before the reading, which may take hours.
            sink.stored("hpas")
        result = _Job(found, folder, sink, progress).run(request, group_rows)
        shutil.rmtree(folder, ignore_errors=True)
    return result


class _Job:
    """One import: its input, where its rows go, and what is told of them."""

    def __init__(self, found: TableInput, folder: Path, sink: Sink, progress: Progress) -> None:
        self.found = found
        self.table = found.table
        self.name = import_name(f"table/{found.digest[:16]}", sink.store)
        self.folder = folder
        self.sink = sink
        self.progress = progress
        self.figures = Figures()
        self.resumed = 0

    def run(self, request: TableRequest, group_rows: int) -> ImportResult:
        """Read, write and tell."""
        if self.sink.has_part(f"{self.name}/end"):
            told = "these files were imported with this map before: nothing was written"
            return self._result((told,))
        spill = self._read(group_rows)
        warnings = self._unmatched(spill)
        claim_rows(self.sink, self.name, spill.workloads, request.replace)
        lives, sizes = self._write(spill)
        workloads, more = self._finish(lives, sizes, spill)
        warnings = self.figures.doubts(self.table) + warnings + more
        if self.figures.conflicts:
            conflicts = counted(self.figures.conflicts, "value")
            warnings.append(f"{conflicts}: {_CONFLICT}: the last one counts")
        if self.figures.duplicates:
            repeated = counted(self.figures.duplicates, "row")
            warnings.append(f"{repeated} with the key of a later row: the last one counts")
        tally = spill.tally
        dropped = Counter(tally.dropped) + Counter({_UNSIZED: self.figures.unsized})
        left_out, fit = dropped.total(), tally.read - tally.excluded
        if left_out > _MUCH * fit:
            warnings.insert(
                0,
                f"{left_out:,} of {counted(fit, 'row')} ({left_out / fit:.0%}) are left out, for "
                "the reasons below: check the map and the first of these rows",
            )
        return self._result(
            tuple(warnings),
            rows_read=tally.read,
            rows_excluded=tally.excluded,
            dropped=dict(sorted(dropped.items())),
            duplicates=self.figures.duplicates,
            written=dict(self.figures.written),
            workloads=workloads,
            resumed=self.resumed,
            first=self.sink.first,
            places=tally.places(),
        )

    def _result(self, warnings: tuple[str, ...], **figures: Any) -> ImportResult:
        """Return a result with the files, and what the map assumes."""
        files = tuple(dict.fromkeys(str(part.path) for part in self.found.parts))
        return ImportResult(files, self.table.assumed, warnings, **figures)

    def _read(self, group_rows: int) -> Spill:
        """Return the clean rows."""
        parts = self.found.parts
        total = max(1, sum(part.rows for part in parts))
        about = "" if all(part.parquet for part in parts) else "about "
        began_s, before, most = time.monotonic(), -1, 0

        def tell(rows: int) -> None:
            nonlocal before, most
            before = rows if before < 0 else before  # (rows of an earlier run have no rate)
            rows = most = max(rows, most)
            rate = (rows - before) / max(time.monotonic() - began_s, 1e-3)
            share = min(1.0, rows / total) * READ_SHARE
            self.progress(f"reading: {rows:,} of {about}{total:,} rows, {rate:,.0f} rows/s", share)

        spill = read_spill(parts, self.table, self.folder, group_rows, tell)
        _check_metrics(self.table, parts, spill.tally)
        if spill.rows:
            return spill
        tally = spill.tally
        reasons = "; ".join(dropped_lines(tally.dropped, tally.places()))
        if self.table.pivot is not None:
            reasons = reasons or "no row has a metric of the map"
        what = (
            f"none of {counted(tally.read, 'row')} is left: {reasons or 'no row fulfils `where`'}"
        )
        if not tally.read:
            what = "the input has no rows"
        raise RefusedError(f"{what}; nothing is written")

    def _unmatched(self, spill: Spill) -> list[str]:
        """Return a warning of the map's entries for workloads that the table does not have."""
        table = self.table
        entries = [
            (f"{kind}.{resource}.workloads", key)
            for kind, amounts in (("requests", table.requests), ("limits", table.limits))
            for resource, amount in amounts.items()
            for key in amount.listed
        ]
        entries += [("hpas.workloads", key) for key in table.hpas.exceptions]
        known: set[str] = set()
        for namespace, workload in spill.workloads.select("namespace", "target").rows():
            known.update((workload, f"{namespace}/{workload}"))
        # (the third part of a key is a container)
        lost = [(path, key) for path, key in entries if "/".join(key.split("/")[:2]) not in known]
        if not lost:
            return []
        path, key = lost[0]
        first = f"{path}.{key}{near_path(key, sorted(known))}"
        if len(lost) == 1:
            return [f"no such workload here: {first}"]
        return [f"{len(lost):,} entries of the map have no such workload here, first {first}"]

    def _write(self, spill: Spill) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Write all groups; return their lives and sizes.

        A group that an earlier run wrote is computed again, to nowhere.
        """
        lives, sizes = [], []
        # The next group is read while one is written.
        for number, rows in enumerate(ahead(spill.read_group, range(spill.groups), 1)):
            part = f"{self.name}/{number:05d}"
            if self.sink.has_part(part):
                self.resumed += 1
                result = import_group(rows, spill.spans, self.table, Sink(None), part)
            else:
                held = while_unreplaced(self.name)
                result = import_group(rows, spill.spans, self.table, self.sink, part, held)
            self.figures.add(result.figures)
            lives.append(result.lives)
            sizes.append(result.sizes)
            self.progress(
                f"writing: {counted(self.figures.samples, 'sample')}",
                READ_SHARE + (1 - READ_SHARE) * (number + 1) / spill.groups,
            )
        return pl.concat(lives), pl.concat(sizes)

    def _finish(
        self, lives: pl.DataFrame, sizes: pl.DataFrame, spill: Spill
    ) -> tuple[pl.DataFrame, list[str]]:
        """Write scales and HPAs, the last part; return a row per workload, and warnings."""
        changes = workload_sizes(lives, sizes, spill.spans, self.table)
        beside = self.table.beside
        places = first_sizes(changes)
        hpas, unused = hpa_rows(self.table.hpas, places, beside), list[str]()
        if beside is not None:
            usage = {"cpu": self.table.cpu, "memory": self.table.memory}
            sampled = {("Resource", name, "", "") for name, source in usage.items() if source}
            sampled |= {
                (source.kind or "Pods", name, source.object, source.selector)
                for name, source in self.table.metrics.items()
            }
            unused += beside.notes(hpas, places, spill.spans, sampled)
            context = context_rows(beside.objects, hpas, spill.spans)
        if self.table.scales.origin != "replicas":
            unused += beyond_max(changes, hpas, spill.spans)
        named = hpas  # (one that the store has already is an HPA of the workload, too)
        if not hpas.is_empty():
            hpas = in_store(hpas, self.sink.stored("hpas"))
        with self.sink.part(f"{self.name}/end", while_unreplaced(self.name)) as written:
            self.sink.add("scales", scales_table(changes, beside))
            self.sink.add("hpas", hpas)
            if beside is not None:
                self.sink.add("hpa_context", context)
            if self.table.guessed:
                guesses = guesses_provenance(spill.workloads, self.table.guessed, beside)
                self.sink.add("provenance", guesses)
        self.figures.add(Figures(written=Counter(written)))
        return summarize_workloads(lives, changes, named), unused


def import_group(
    rows: Keyed,
    spans: pl.DataFrame,
    table: TableMap,
    sink: Sink,
    part: str,
    amend: Amend | None = None,
) -> GroupResult:
    """Write a group's rows as a part; `amend`: see `StoreWriter.part`."""
    importer = import_pods if table.level is Level.pod else import_workloads
    seen = Figures()

    def add(name: str, frame: pl.DataFrame) -> None:
        seen.see(name, frame)
        sink.add(name, frame)

    with sink.part(part, amend) as written:
        result = importer(rows, spans, table, add)
        result.figures.add(seen)
    result.figures.written = Counter(written)
    return result


def _check_metrics(table: TableMap, files: Iterable[TableFile], tally: Tally) -> None:
    """Refuse a metric of a map that a long table does not have (HistoryError)."""
    if table.pivot is None or not tally.read:
        return  # (an input without rows is refused as such)
    wanted = {
        name: None for file in files for name in table.pivot.metrics(
            table.value_columns(), file.columns)
    }  # fmt: skip
    absent = [name for name in wanted if name not in tally.metrics]
    if not absent:
        return
    known = sorted(tally.metrics)
    shown = ", ".join(known[:_SHOWN_METRICS]) + (", …" if len(known) > _SHOWN_METRICS else "")
    shown = f"are {shown}" if known else "is nothing in that column"
    raise HistoryError(
        f"no row has {show(absent[0])} in column {show(table.pivot.name)}, and no column has that "
        f"name, which {table.path} gives{did_you_mean(absent[0], known)} (there {shown}); nothing "
        "is written"
    )
