"""Options of all imports."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.model.options import Request, option


@dataclass(frozen=True, kw_only=True)
class Destination(Request):
    """Where an import writes."""

    out: str | None = option(
        "path",
        "Store that gets the rows: a folder or URL, made where there is none.",
        metavar="HISTORY",
    )
    replace: bool = option(
        "flag",
        "Replace what the store has of the same workloads and time (by a table: of any time); "
        "refused without.",
        False,
    )
    work: str | None = option(
        "path",
        "Work folder: for a lock, and for what a table import keeps meanwhile.",
        metavar="FOLDER",
        unset="beside --out; of an object store: in TMPDIR",
    )
