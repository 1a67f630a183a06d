"""Groups of an import: each is one part of the store, its result kept on disk.

The lives and sizes of a group are needed again when all groups are done (a workload's size counts
pods of several groups). They are kept in the work folder, so a resumed import does not compute them
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from hpabatch._json import decode_json
from hpabatch.history.atomic import atomic_path
from hpabatch.history.schema import table_named
from hpabatch.history.store.shards import StoreHistory
from hpabatch.history.store.writer import checked_rows
from hpabatch.importers.table.keyed import Keyed
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.pods import GroupResult, import_pods
from hpabatch.importers.table.strict import Lacking, lacking_requests
from hpabatch.importers.table.work import disk_errors
from hpabatch.importers.table.workloads import import_workloads

if TYPE_CHECKING:
    from hpabatch.history.store.append import Amend, PartWriter, StoreWriter

_BUFFER_ROWS = 1 << 18
_SHOWN_ROWS = 5
_CPU_MILLI_LIKELY = 1024 * 1000
_MEMORY_BYTES_LIKELY = 1 << 44


@dataclass(slots=True)
class Figures:
    """Counts of written rows by table, and the largest usage seen (0: none)."""

    written: dict[str, int] = field(default_factory=dict)
    samples: int = 0
    duplicates: int = 0
    unsized: int = 0
    conflicts: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    told: dict[str, list[str]] = field(default_factory=dict)
    lacking: Lacking = frozenset()

    def add(self, other: Figures) -> None:
        """Add the figures of another group."""
        for table, rows in other.written.items():
            self.written[table] = self.written.get(table, 0) + rows
        self.samples += other.samples
        self.duplicates += other.duplicates
        self.unsized += other.unsized
        self.conflicts += other.conflicts
        self.cpu_milli = max(self.cpu_milli, other.cpu_milli)
        self.memory_bytes = max(self.memory_bytes, other.memory_bytes)
        self.lacking |= other.lacking

    def doubts(self) -> list[str]:
        """Return warnings about usage that no container has: the unit is wrong, most likely."""
        found = []
        if self.cpu_milli > _CPU_MILLI_LIKELY:
            cores = self.cpu_milli // 1000
            found.append(f"one sample uses {cores} cores: is columns.cpu.unit right?")
        if self.memory_bytes > _MEMORY_BYTES_LIKELY:
            size = self.memory_bytes >> 40
            found.append(f"one sample uses {size} TiB of memory: is columns.memory.unit right?")
        if self.written.get("pod_metrics") and self.cpu_milli == 1:
            found.append("no sample uses more than a millicore: is columns.cpu.unit right?")
        return found


class Sink:
    """Takes rows of tables in small frames and hands them on in larger ones, counting.

    Without a store it only checks and counts, and keeps the first rows of each table.
    """

    def __init__(self, store: StoreWriter | None) -> None:
        """Write to a store, or nowhere."""
        self.store = store
        self.first: dict[str, pl.DataFrame] = {}
        self.figures = Figures()
        self._part: PartWriter | None = None
        self._waiting: dict[str, list[pl.DataFrame]] = {}

    def has_part(self, name: str) -> bool:
        """Whether the store has that part."""
        return self.store is not None and self.store.has_part(name)

    def stored_hpas(self) -> pl.DataFrame | None:
        """Return the HPAs that the store has so far, None where it has none."""
        return self.stored("hpas")

    def stored(self, table: str) -> pl.DataFrame | None:
        """Return what the store has of a table so far, None where it has nothing."""
        if self.store is None:
            return None
        history = StoreHistory(self.store.storage, self.store.refresh())
        return history.read(table, optional=True) if table in history.tables else None

    @contextmanager
    def part(self, name: str, amend: Amend | None = None) -> Iterator[Figures]:
        """Commit what is added in the block as one part; yield its figures.

        `amend`: see `StoreWriter.part`.
        """
        self.figures = Figures()
        self._waiting = {}
        if self.store is None:
            yield self.figures
            self._hand_on(0)
            return
        with self.store.part(name, amend) as self._part:
            yield self.figures
            self._hand_on(0)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take rows of a table."""
        if frame.is_empty():
            return
        written = self.figures.written
        written[table] = written.get(table, 0) + frame.height
        if table == "pod_metrics":
            largest = (frame["cpu_milli"].max(), frame["memory_bytes"].max())
            cpu, memory = (value if isinstance(value, int) else 0 for value in largest)
            self.figures.cpu_milli = max(self.figures.cpu_milli, cpu)
            self.figures.memory_bytes = max(self.figures.memory_bytes, memory)
        if table == "pod_requests":
            self.figures.lacking |= lacking_requests(frame)
        waiting = self._waiting.setdefault(table, [])
        waiting.append(frame)
        self._hand_on(_BUFFER_ROWS)

    def _hand_on(self, least: int) -> None:
        for table, frames in self._waiting.items():
            if frames and sum(frame.height for frame in frames) >= least:
                whole = pl.concat(frames)
                frames.clear()
                if self._part is not None:
                    self._part.add(table, whole)
                else:
                    spec = table_named(table)
                    checked = checked_rows(whole, spec, f"table {table}").sort(spec.key)
                    self.first.setdefault(table, checked.head(_SHOWN_ROWS))


def import_group(
    rows: Keyed,
    spans: pl.DataFrame,
    table: TableMap,
    sink: Sink,
    part: str,
    amend: Amend | None = None,
    joined: Callable[[pl.DataFrame], pl.DataFrame] = lambda pods: pods,
) -> tuple[GroupResult, Figures]:
    """Write a group's rows as a part.

    `amend`: see `StoreWriter.part`. `joined` gives rows of `pods` the rest of their lives.
    """
    importer = import_pods if table.level is Level.pod else import_workloads

    def add(name: str, frame: pl.DataFrame) -> None:
        sink.add(name, joined(frame) if name == "pods" else frame)

    with sink.part(part, amend) as figures:
        result = importer(rows, spans, table, add)
        figures.samples = result.samples
        figures.duplicates = result.duplicates
        figures.unsized = result.unsized
        figures.conflicts = result.conflicts
        figures.told = {} if table.beside is None else table.beside.told.take()
    return result, figures


def keep_result(folder: Path, number: int, result: GroupResult, figures: Figures) -> None:
    """Keep the result of a group; the file written last makes it valid."""
    for name, frame in (("lives", result.lives), ("sizes", result.sizes)):
        with (
            disk_errors(folder),
            atomic_path(folder / f"group-{number:05d}.{name}.parquet") as temporary,
        ):
            frame.write_parquet(temporary)
    place = folder / f"group-{number:05d}.json"
    with disk_errors(folder), atomic_path(place) as temporary:
        temporary.write_bytes(msgspec.json.encode(figures, order="deterministic"))


def kept_result(folder: Path, number: int) -> tuple[GroupResult, Figures] | None:
    """Return the result of a group from an earlier run; None: unknown, or damaged files."""
    try:
        figures = decode_json((folder / f"group-{number:05d}.json").read_bytes(), Figures)
        lives, sizes = (
            pl.read_parquet(folder / f"group-{number:05d}.{name}.parquet")
            for name in ("lives", "sizes")
        )
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return None
    return GroupResult(lives, sizes, figures.samples, figures.duplicates), figures
