"""Claims of an import on workloads and times of a store: nothing there is replaced silently.

An import first says, in a commit of its own, from when to when it has rows of each workload (rows
of `provenance`). That commit is refused if the store has others of the same workloads and time, or
takes these away. So of two imports that run at once one is refused, and one that is interrupted
keeps its claim until it is continued or replaced. One that is replaced while it runs ends: its
other parts are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.store.append import Amend, StoreWriter
from hpabatch.history.store.catalog import FileEntry, Snapshot
from hpabatch.history.store.replace import (
    refuse_rows_in_the_way,
    refuse_uncut_lives,
    rows_in_the_way,
    without_rows,
)
from hpabatch.history.store.shards import StoreHistory
from hpabatch.importers.table.groups import Sink
from hpabatch.importers.table.scales import rows_provenance

_REPLACED = "replaced-by"


def import_name(base: str, store: StoreWriter | None) -> str:
    """Return the name of an import: another one once its rows were replaced."""
    parts = frozenset() if store is None else store.snapshot.parts
    replaced = {part.split(f"/{_REPLACED}/")[0] for part in parts if f"/{_REPLACED}/" in part}
    name, number = base, 1
    while name in replaced:
        number += 1
        name = f"{base}-{number}"
    return name


def claim_rows(sink: Sink, name: str, spans: pl.DataFrame, replace: bool) -> None:
    """Commit which rows an import will write, unless it has done so.

    Args:
        sink: where its rows go.
        name: of the import.
        spans: cluster, namespace, target, first and last ts (ms).
        replace: what is in the way is taken away in that commit.

    Raises:
        RefusedError: something is in the way, or cannot be taken away alone.
        UsageError: the store cannot be written.
    """
    part, store = f"{name}/begin", sink.store
    if store is None or sink.has_part(part):
        return
    now = StoreHistory(store.storage, store.refresh())
    there = rows_in_the_way(now, spans)
    if not replace:
        refuse_rows_in_the_way(now, there)  # (before anything is written)
    elif there.height:
        refuse_uncut_lives(now, spans)
    known = mark_replaced(store, there, name)

    def amend(snapshot: Snapshot) -> tuple[Sequence[FileEntry], Sequence[str]]:
        history = StoreHistory(store.storage, snapshot)
        found = rows_in_the_way(history, spans)
        if not replace:
            refuse_rows_in_the_way(history, found)
        if found.is_empty():
            return (), ()
        if not _imports(found) <= known:
            raise UsageError(
                f"another import was written into {history.location} meanwhile: repeat the command"
            )
        with store.storage.workspace() as folder:
            gone = without_rows(store.storage, snapshot, spans, folder, store.limits)
        return gone.add, gone.remove

    with sink.part(part, amend):
        sink.add("provenance", rows_provenance(spans, name))


def while_unreplaced(name: str) -> Amend:
    """Return a condition of an import's parts: no other import has replaced it (RefusedError)."""

    def amend(snapshot: Snapshot) -> tuple[Sequence[FileEntry], Sequence[str]]:
        if any(part.startswith(f"{name}/{_REPLACED}/") for part in snapshot.parts):
            raise RefusedError(
                "another import with --replace took the place of this one while it ran: repeat "
                "the command to see what is there"
            )
        return (), ()

    return amend


def mark_replaced(store: StoreWriter, there: pl.DataFrame, name: str) -> set[str]:
    """Note of each import in the way that `name` replaces it, so that it may be imported again."""
    found = _imports(there)
    for other in sorted(found):
        with store.part(f"{other}/{_REPLACED}/{name}"):
            pass
    return found


def _imports(found: pl.DataFrame) -> set[str]:
    return {name for names in found["imports"].to_list() for name in names}
