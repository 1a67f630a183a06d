"""Claims of an import on workloads and times of a store: nothing there is replaced silently.

An import first says, in a commit of its own, from when to when it has rows of each workload (rows
of `provenance`). That commit is refused if the store has others of the same workloads and time, or
takes these away. So of two imports that run at once one is refused, and one that is interrupted
keeps its claim until it is continued or replaced. One that is replaced while it runs ends: its
other parts are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import polars as pl

from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.checks import YEAR_2000_MS, YEAR_2100_MS
from hpabatch.history.columns import TIME
from hpabatch.history.provenance import ROWS, TARGET_ROWS
from hpabatch.history.store.append import Amend, StoreWriter
from hpabatch.history.store.catalog import FileEntry, Snapshot, quote
from hpabatch.history.store.replace import (
    BEGIN,
    WAY,
    refuse_rows_in_the_way,
    refuse_uncut_lives,
    replaced_imports,
    replaced_mark,
    rows_in_the_way,
    without_rows,
)
from hpabatch.history.store.shards import StoreHistory
from hpabatch.importers.common.work import Sink

Look = Callable[[StoreHistory], tuple[pl.DataFrame, pl.DataFrame]]
"""Returns the spans that an import claims, and what is in its way (see `rows_in_the_way`)."""


def import_name(base: str, store: StoreWriter | None) -> str:
    """Return the name of an import: another one once its rows were replaced."""
    replaced = set() if store is None else replaced_imports(store.snapshot.parts)
    name, number = base, 1
    while name in replaced:
        number += 1
        name = f"{base}-{number}"
    return name


def claim_rows(sink: Sink, name: str, spans: pl.DataFrame, replace: bool) -> None:
    """Commit which rows a table's import will write, unless it has done so.

    A table has all that is known of its workloads: rows of any time are in its way.

    Args:
        spans: cluster, namespace, target, first and last ts (ms).
        replace: what is in the way is taken away in that commit.

    Raises:
        RefusedError: something is in the way, or cannot be taken away alone.
        UsageError: the store cannot be written.
    """

    always = (pl.lit(ms, pl.Int64()) for ms in (YEAR_2000_MS, YEAR_2100_MS))
    whole = spans.with_columns(**dict(zip(("first", "last"), always, strict=True)))

    def look(history: StoreHistory) -> tuple[pl.DataFrame, pl.DataFrame]:
        there = [rows_in_the_way(history, whole)]
        times = spans.group_by("cluster").agg(pl.col("first").min(), pl.col("last").max())
        for cluster, *time_ms in times.sort("cluster").rows():
            there.append(windows_at_work(history.snapshot.parts, cluster, tuple(time_ms)))
        return whole, pl.concat(there)

    claim(sink, name, look, replace, rows=rows_provenance(spans, name))


def claim(
    sink: Sink,
    name: str,
    look: Look,
    replace: bool,
    *,
    rows: pl.DataFrame | None = None,
    every_table: bool = False,
) -> None:
    """Commit the first part of an import, with `rows` of `provenance`, unless it is there.

    `every_table`: see `without_rows`. Raises what `claim_rows` does.
    """
    part, store = f"{name}/{BEGIN}", sink.store
    if store is None or sink.has_part(part):
        return
    now = StoreHistory(store.storage, store.refresh())
    there = _refuse_early(now, look, replace)
    known = _mark_replaced(store, there, name)

    def amend(snapshot: Snapshot) -> tuple[Sequence[FileEntry], Sequence[str]]:
        history = StoreHistory(store.storage, snapshot)
        spans, found = look(history)
        if not replace:
            refuse_rows_in_the_way(history, found)
        if found.is_empty():
            return (), ()
        if not _imports(found) <= known:
            raise UsageError(
                f"another import was written into {history.location} meanwhile: repeat the command"
            )
        with store.storage.workspace() as folder:
            gone = without_rows(store.storage, snapshot, spans, folder, every_table=every_table)
        return gone.add, gone.remove

    with sink.part(part, amend):
        if rows is not None:
            sink.add("provenance", rows)


def _refuse_early(history: StoreHistory, look: Look, replace: bool) -> pl.DataFrame:
    """Return what is in the way; refuse it before anything is written (RefusedError)."""
    spans, there = look(history)
    if not replace:
        refuse_rows_in_the_way(history, there)
    elif there.height:
        refuse_uncut_lives(history, spans)
    return there


def while_unreplaced(name: str) -> Amend:
    """Return a condition of an import's parts: no other import has replaced it (RefusedError)."""

    def amend(snapshot: Snapshot) -> tuple[Sequence[FileEntry], Sequence[str]]:
        if name in replaced_imports(snapshot.parts):
            raise RefusedError(
                "another import with --replace took the place of this one while it ran: repeat "
                "the command to see what is there"
            )
        return (), ()

    return amend


def _mark_replaced(store: StoreWriter, there: pl.DataFrame, name: str) -> set[str]:
    """Note of each import in the way that `name` replaces it, so that it may be imported again."""
    found = _imports(there)
    for other in sorted(found):
        with store.part(replaced_mark(other, name)):
            pass
    return found


def _imports(found: pl.DataFrame) -> set[str]:
    return {name for names in found["imports"].to_list() for name in names}


def rows_provenance(workloads: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return rows of `provenance`: from when to when an import has rows of each workload.

    `workloads` has cluster, namespace, target, first and last ts; `name` is that of the import.
    """
    return workloads.select(
        "cluster",
        "namespace",
        pl.col("target").alias("name"),
        pl.lit(TARGET_ROWS).alias("subject"),
        pl.col("first").cast(TIME).alias("valid_from"),
        (pl.col("last") + 1).cast(TIME).alias("valid_to"),
        pl.lit(ROWS).alias("method"),
        pl.lit(name).alias("detail"),
    )


PREFIX = "prometheus"
"""Prefix of the names of the parts of windows: PREFIX/source/cluster/AFTER-UNTIL/part."""

DONE = "done"
"""The last part of a window."""


def coverage(parts: Collection[str], source: str, cluster: str) -> list[tuple[int, int]]:
    """Return which windows of a source are complete, (after, until) in ms, in order."""
    head = f"{PREFIX}/{source}/{quote(cluster)}/"
    return sorted(span_of(p) for p in parts if p.startswith(head) and p.endswith(f"/{DONE}"))


def span_of(part: str) -> tuple[int, int]:
    """Return (after, until) in ms of a window, from the name of one of its parts."""
    after, until = part.split("/")[3].split("-")[:2]
    return int(after), int(until)


def windows_at_work(
    parts: Collection[str], cluster: str, time_ms: tuple[int, int], source: str = ""
) -> pl.DataFrame:
    """Return, as `rows_in_the_way` does, windows that are begun and neither complete nor replaced.

    `time_ms`: the first and last instant that counts; windows of `source` are left out.
    """
    rows = []
    for name, after, until in unfinished_windows(parts):
        _, its_source, its_cluster, _ = name.split("/")
        if its_source == source or its_cluster != quote(cluster):
            continue
        if after < time_ms[1] and until >= time_ms[0]:
            rows.append((cluster, "", "all workloads", 0, after, until, [name]))
    return pl.DataFrame(rows, schema=WAY, orient="row")


def begun_ends(parts: Collection[str], source: str) -> Iterator[int]:
    """Yield until when (ms) a source's windows go that were begun, and are still to be imported.

    A history grows forward only: a window that ends before its cluster's last complete one does is
    covered by several of them.
    """
    for name, _, until in unfinished_windows(parts):
        place, _, _ = name.rpartition("/")
        if place.startswith(f"{PREFIX}/{source}/"):
            done = (
                span_of(p)[1] for p in parts if p.startswith(f"{place}/") and p.endswith(f"/{DONE}")
            )
            if until > max(done, default=0):
                yield until


def unfinished_windows(parts: Collection[str]) -> Iterator[tuple[str, int, int]]:
    """Yield name, after and until (ms) of windows that are neither complete nor replaced."""
    replaced = replaced_imports(parts)
    for part in sorted(parts):
        name, _, last = part.rpartition("/")
        place, _, _ = name.rpartition("/")
        if last != BEGIN or not name.startswith(f"{PREFIX}/") or name in replaced:
            continue
        after, until = span_of(part)
        # A run that ended early may have left one that another run, to a later end, covers.
        done = (span_of(p) for p in parts if p.startswith(f"{place}/") and p.endswith(f"/{DONE}"))
        if not any(begin <= after and until <= end for begin, end in done):
            yield name, after, until
