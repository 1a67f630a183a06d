"""Proposal of a map for a table: read a sample, decide, and hold the map against the sample."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.atomic import atomic_path
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.files import find_files
from hpabatch.importers.table.map import Level
from hpabatch.importers.table.objects import Beside
from hpabatch.importers.table.pods import without_duplicates
from hpabatch.importers.table.propose.draft import Found, draft_map
from hpabatch.importers.table.propose.sample import Sample, read_sample
from hpabatch.importers.table.propose.settings import (
    add_settings,
    leave_to_objects,
    told_unknown,
)
from hpabatch.importers.table.rows import (
    KEY,
    POD_KEY,
    UNKNOWN_POD,
    WORKLOAD_KEY,
    Tally,
    clean_rows,
    dropped_lines,
    key_rank,
)
from hpabatch.inputs.cluster_objects import read_objects
from hpabatch.model.printable import counted

_CHECKED_ROWS: Final = 1 << 19
_NEW: Final = "map.yaml"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed map.

    Attributes:
        text: the map.
        assumed: what it assumes, the same as in the text.
        notes: what was read, and what the rows of the sample lack.
    """

    text: str
    assumed: tuple[str, ...]
    notes: tuple[str, ...]


def propose_map(
    inputs: Sequence[str], objects: Sequence[str] = (), start: str | None = None
) -> Proposal:
    """Return a map for files, folders and patterns; what files of objects say it leaves out.

    Relative times begin at `start`.

    Raises:
        UsageError, HistoryError: a file cannot be read or has no times or no usage.
        RefusedError: no row of the sample is left.
    """
    beside = Beside(read_objects(objects)) if objects else None
    paths = find_files(inputs)
    sample = read_sample(paths)
    stem = paths[0].name.split(".")[0]
    found = draft_map(sample, stem, None if beside is None else beside.objects, start or "")
    draft = found.draft
    part = "all" if sample.whole else f"{sample.frame.height:,} of about"
    told = f"{part} {counted(sample.rows, 'row')} of {paths[0].name}"
    if len(paths) > 1:
        told += f" and {counted(len(paths) - 1, 'more file')}"
    draft.title = [
        f"Proposed by hpabatch import table --init from {told}.",
        "It imports as it stands; check the lines marked `assumed`. All keys: docs/import.md.",
    ]
    if beside is not None:
        leave_to_objects(found, beside.objects)
    rows, _ = _checked(found, sample, beside)
    if beside is None:
        add_settings(found, rows)
    rows, tally = _checked(found, sample, beside)
    text = draft.text()
    usable = tally.read - tally.excluded - sum(tally.dropped.values())
    # (of a long table several rows make one sample)
    made = "" if rows.height == usable else f", which make {counted(rows.height, 'sample')}"
    notes = [f"read {told}: {usable:,} of {counted(tally.read, 'checked row')} usable{made}"]
    if tally.excluded:
        notes.append(f"not wanted (`where`): {counted(tally.excluded, 'row')}")
    # Rows of a part of the table have other numbers.
    places = tally.places() if sample.whole and sample.files == 1 else {}
    notes += [f"left out: {text}" for text in dropped_lines(tally.dropped, places)]
    return Proposal(text, tuple(draft.assumptions()), tuple(notes))


def propose(
    inputs: Sequence[str],
    place: str | None,
    objects: Sequence[str] = (),
    start: str | None = None,
) -> Proposal:
    """Return a proposed map; with a place, write it to that file, which must not exist yet.

    Raises:
        UsageError: the file exists or cannot be written; and as `propose_map`.
    """
    if place is not None and os.path.lexists(place):
        raise UsageError(
            f"{place} exists, and --init replaces no map: name a new file with --map, or compare "
            "with what --init prints without --map"
        )
    found = propose_map(inputs, objects, start)
    if place is not None:
        with atomic_path(place) as temporary:
            temporary.write_text(found.text)
    return found


def _checked(found: Found, sample: Sample, beside: Beside | None) -> tuple[pl.DataFrame, Tally]:
    """Return the clean rows that a draft's map gives of the sample.

    Raises:
        RefusedError: there are none.
    """
    with tempfile.TemporaryDirectory(prefix="hpabatch-init-") as folder:
        place = Path(folder, _NEW)
        place.write_text(found.draft.text())
        table = read_map(place, beside)
    raw = sample.frame
    if table.unpivot is None:
        raw = raw.select(table.read_columns(raw.columns)).head(_CHECKED_ROWS)
    else:
        most = max(64, _CHECKED_ROWS // max(1, raw.width))
        raw = table.unpivot.apply(raw.head(most)).select(table.used_columns())
    rows, tally = clean_rows(raw, 0, sample.file, table)
    if rows.is_empty():
        reasons = "; ".join(dropped_lines(tally.dropped, {}))
        fix = "write the map by hand (docs/import.md)"
        if beside is not None and tally.dropped[UNKNOWN_POD]:
            fix = told_unknown(found, beside.objects)
        raise RefusedError(
            f"{sample.file.path}: no row of the sample has a time, a name and usage"
            + (f" ({reasons}); {fix}" if reasons else f"; {fix}")
        )
    if table.pivot is not None:
        names = (POD_KEY if table.level is Level.pod else WORKLOAD_KEY)[:-1]
        keyed = rows.with_columns(key_rank(rows, names).alias(KEY)).sort(KEY, "ts", "seq")
        rows, _ = without_duplicates(keyed, table)
    return rows, tally
