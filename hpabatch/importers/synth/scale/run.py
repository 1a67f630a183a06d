"""A deterministic history of any size, part by part: `hpabatch synth`.

Workloads are played in blocks, a block's days are written as parts of bounded size. Every random
number has an address (see `Streams`), so neither the number of HPAs nor the cut into blocks and
parts changes a workload. An interrupted run is continued with the first part that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl

from hpabatch.errors import UsageError
from hpabatch.history.store.append import StoreWriter
from hpabatch.importers.synth.fleet import Ints
from hpabatch.importers.synth.request import SynthRequest
from hpabatch.importers.synth.scale.rows import BlockRows, Slice, controller_rows
from hpabatch.importers.synth.scale.samples import PlayedWorkload
from hpabatch.importers.synth.scale.workload import identity_of

PART_ROWS = 1 << 19
"""About how many usage samples a part has; with about 250 bytes each it bounds the memory."""

# So many lives of a block's pods, about 1 kB each, are in memory.
_BLOCK_LIVES = 50_000
_LIVES_PER_DAY = 3
_BLOCK_HPAS = 512

Tables = dict[str, pl.DataFrame]


class Progress(Protocol):
    """Receives the share of the work that is done, 0 to 1, and the samples written."""

    def __call__(self, share: float, samples: int, /) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its name, the share of the whole after it, and how to make its tables."""

    name: str
    share: float
    tables: Callable[[], Tables]


@dataclass(frozen=True, slots=True)
class Written:
    """Counts of a run; parts that were there before are counted in `skipped` only."""

    samples: int
    pods: int
    parts: int
    skipped: int


def write_fleet(
    settings: SynthRequest, store: StoreWriter, progress: Progress | None = None
) -> Written:
    """Write what is missing of a synthetic history to a store.

    Args:
        settings: the fleet; checked here.
        store: an empty store, or one that a run with the same settings began.
        progress: told after each part.

    Raises:
        UsageError: settings that are not possible, a store that holds something else, or a place
            that cannot be written.
    """
    settings.check()
    check_store(settings, store)
    samples = pods = parts = skipped = 0
    if store.has_part(_last(settings)):
        return Written(0, 0, 0, len(store.snapshot.parts))
    for part in fleet_parts(settings, store.has_part):
        if store.has_part(part.name):
            skipped += 1
            continue
        tables = part.tables()
        with store.part(part.name) as writer:
            while tables:
                table, frame = tables.popitem()
                samples += frame.height if table.endswith("_metrics") else 0
                pods += frame.height if table == "pods" else 0
                writer.add(table, frame)
                del frame
        parts += 1
        if progress is not None:
            progress(part.share, samples)
    return Written(samples, pods, parts, skipped)


def check_store(settings: SynthRequest, store: StoreWriter) -> None:
    """Refuse a store with other contents than a run with the same settings left.

    Raises:
        UsageError: the store holds other rows.
    """
    parts = store.snapshot.parts
    if any(not name.startswith(_prefix(settings)) for name in parts) or (
        store.snapshot.partitions and not parts
    ):
        raise UsageError(
            f"{store.storage.location} already holds a history that was made in another way or "
            "with other options; repeat those options to continue it, or name a new folder"
        )


def fleet_parts(
    settings: SynthRequest,
    has_part: Callable[[str], bool] = lambda name: False,
    *,
    block_hpas: int | None = None,
    part_rows: int = PART_ROWS,
) -> Iterator[Part]:
    """Yield the parts of a fleet in the order of writing.

    A block is not played if the first part of the next one is there. The last part holds the
    controllers: a store with it is complete.

    Args:
        has_part: which parts are there already.
        block_hpas: HPAs of a block; None: as many as fit a part and the memory.
        part_rows: rows of usage of a part; a single pod's day may be more.
    """
    size = block_hpas or _block_size(settings, part_rows)
    begins = range(0, settings.hpas, size)
    for block, begin in enumerate(begins):
        end = min(begin + size, settings.hpas)
        after = _part_name(settings, block + 1, 0, 0) if end < settings.hpas else _last(settings)
        if not has_part(after):
            played = [PlayedWorkload(settings, index) for index in range(begin, end)]
            played.sort(key=lambda one: (one.work.cluster, one.work.namespace, one.work.name))
            yield from _block_parts(settings, block, len(begins), played, part_rows)
    clusters = sorted({identity_of(settings, index)[0] for index in range(settings.hpas)})
    yield Part(_last(settings), 1.0, lambda: {"controller": controller_rows(settings, clusters)})


def _block_parts(
    settings: SynthRequest,
    block: int,
    blocks: int,
    played: list[PlayedWorkload],
    part_rows: int,
) -> Iterator[Part]:
    rows = BlockRows(settings, played)
    for day in range(settings.days):
        slices = cut_slices(played, day, part_rows)
        for number, chosen in enumerate(slices):

            def tables(day: int = day, number: int = number, chosen: Slice = chosen) -> Tables:
                entities = rows.entities() if day == number == 0 else {}
                changes = rows.changes(day) if number == 0 else {}
                return entities | changes | rows.samples(day, chosen)

            done = block + (day + (number + 1) / len(slices)) / settings.days
            yield Part(_part_name(settings, block, day, number), done / blocks, tables)


def cut_slices(played: list[PlayedWorkload], day: int, part_rows: int) -> list[Slice]:
    """Return a day's pods in slices of so many rows, workloads whole where they fit in one.

    There is at least one slice, and an empty workload is in none.
    """
    slices: list[list[tuple[PlayedWorkload, Ints]]] = [[]]
    left = part_rows
    for one in played:
        places, counts = one.sampled(day)
        total = int(counts.sum())
        if total > left and slices[-1]:
            slices.append([])
            left = part_rows
        cuts: Ints | list[int] = []
        if total > part_rows:
            # The number of full parts before each pod: where it changes, a new part begins.
            full = (np.cumsum(counts) - counts) // part_rows
            cuts = np.flatnonzero(np.diff(full)) + 1
        pieces = zip(np.split(places, cuts), np.split(counts, cuts), strict=True)
        for number, (piece, rows) in enumerate(pieces):
            if number:
                slices.append([])
                left = part_rows
            if len(piece):
                slices[-1].append((one, piece))
            left -= int(rows.sum())
    return [tuple(part) for part in slices]


def _block_size(settings: SynthRequest, part_rows: int) -> int:
    """Return how many HPAs fit a part each day, and their pods' lives the memory."""
    rows = settings.pods * settings.steps * settings.containers
    lives = settings.pods * (1 + _LIVES_PER_DAY * settings.days)
    return max(1, min(part_rows // rows, _BLOCK_LIVES // lives, _BLOCK_HPAS))


def _prefix(settings: SynthRequest) -> str:
    return f"synth/{settings.digest}/"


def _part_name(settings: SynthRequest, block: int, day: int, number: int) -> str:
    return f"{_prefix(settings)}{block}/{day}/{number}"


def _last(settings: SynthRequest) -> str:
    return f"{_prefix(settings)}end"
