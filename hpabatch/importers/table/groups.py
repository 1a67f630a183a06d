"""Groups of an import: each is one part of the store, its result kept on disk.

The lives and sizes of a group are needed again when all groups are done (a workload's size counts
pods of several groups). They are kept in the work folder, so a resumed import does not compute them
again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from hpabatch._json import decode_json
from hpabatch.history.atomic import atomic_path
from hpabatch.importers.common.sink import Sink
from hpabatch.importers.common.work import disk_errors
from hpabatch.importers.table.keyed import Keyed
from hpabatch.importers.table.map import Level, TableMap
from hpabatch.importers.table.pods import Figures, GroupResult, import_pods
from hpabatch.importers.table.strict import lacking_requests
from hpabatch.importers.table.workloads import import_workloads

if TYPE_CHECKING:
    from hpabatch.history.store.append import Amend


def import_group(
    rows: Keyed,
    spans: pl.DataFrame,
    table: TableMap,
    sink: Sink,
    part: str,
    amend: Amend | None = None,
    joined: Callable[[pl.DataFrame], pl.DataFrame] = lambda pods: pods,
) -> GroupResult:
    """Write a group's rows as a part.

    `amend`: see `StoreWriter.part`. `joined` gives rows of `pods` the rest of their lives.
    """
    importer = import_pods if table.level is Level.pod else import_workloads
    seen = Figures()

    def add(name: str, frame: pl.DataFrame) -> None:
        if name == "pod_requests":
            seen.lacking |= lacking_requests(frame)
        elif name == "pod_metrics":
            largest = (frame["cpu_milli"].max(), frame["memory_bytes"].max())
            cpu, memory = (value if isinstance(value, int) else 0 for value in largest)
            seen.cpu_milli = max(seen.cpu_milli, cpu)
            seen.memory_bytes = max(seen.memory_bytes, memory)
        sink.add(name, joined(frame) if name == "pods" else frame)

    with sink.part(part, amend) as written:
        result = importer(rows, spans, table, add)
        result.figures.add(seen)
        result.figures.told = {} if table.beside is None else table.beside.told.take()
    result.figures.written = dict(written)
    return result


def keep_result(folder: Path, number: int, result: GroupResult) -> None:
    """Keep the result of a group; the file written last makes it valid."""
    place = folder / f"group-{number:05d}.json"
    with disk_errors(folder):
        for name, frame in (("lives", result.lives), ("sizes", result.sizes)):
            with atomic_path(place.with_suffix(f".{name}.parquet")) as temporary:
                frame.write_parquet(temporary)
        with atomic_path(place) as temporary:
            temporary.write_bytes(msgspec.json.encode(result.figures, order="deterministic"))


def kept_result(folder: Path, number: int) -> GroupResult | None:
    """Return the result of a group from an earlier run; None: unknown, or damaged files."""
    place = folder / f"group-{number:05d}.json"
    try:
        figures = decode_json(place.read_bytes(), Figures)
        lives, sizes = (
            pl.read_parquet(place.with_suffix(f".{name}.parquet")) for name in ("lives", "sizes")
        )
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return None
    return GroupResult(lives, sizes, figures)
