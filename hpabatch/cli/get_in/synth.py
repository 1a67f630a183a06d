"""`hpabatch synth`: a deterministic history of any size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_INTERRUPTED, EXIT_OK, UsageError
from hpabatch.importers.synth.request import SynthRequest
from hpabatch.model.printable import counted

if TYPE_CHECKING:
    from hpabatch.history.store.append import StoreWriter
    from hpabatch.importers.synth.scale.run import Progress, Written

_HELP = """Make a history of any size from a seed.

Writes a store to OUT, a folder or an s3://, gs:// or abfs:// URL that is new or empty: HPAs with a
Deployment each, a demand with days, weekends, noise and bursts, recorded sizes that follow it,
pods that come, restart, are rolled out, evicted and removed, and their usage samples. The recorded
sizes are a stand-in, not decisions of an HPA.

\b
The same options give the same data files with the same versions of hpabatch, numpy, polars and
pyarrow. Every workload draws from its own random stream: a fleet of more HPAs or more days begins
with the smaller one. An interrupted run is continued by the same command; into a history of other
options nothing is written.

\b
Nothing goes to stdout; stderr gets the estimate, a progress bar and a summary.
Exit codes: 0 fine, 2 not possible as asked, 130 interrupted, 143 terminated.

\b
Examples:
  hpabatch synth out/ --hpas 1000 --pods 20 --days 7 --step 15s --seed 7
  hpabatch synth small/ --hpas 10 --step 1m --metrics mix --containers 2
  hpabatch synth hard/ --gaps 0.05 --late 0.02 --jitter 3s --clusters 3
"""


@command(app, _HELP)
def synth(
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="Folder or URL of the store that is made.")
    ],
    request: SynthRequest,
) -> None:
    """Make a history of any size from a seed."""
    try:
        _make(out, request)
    except KeyboardInterrupt:
        say("interrupted: what is done is kept; repeat the command for the rest")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    raise typer.Exit(EXIT_OK)


def _make(out: str, request: SynthRequest) -> None:
    """Tell how large it will be, refuse what does not fit, write and tell what was written."""
    import time

    from hpabatch.history.store.append import open_writer
    from hpabatch.importers.synth.scale.run import check_store, write_fleet

    # What is refused anyway needs no estimate; what lacks the room leaves nothing behind.
    _check_room(out, request)
    store = open_writer(out)
    check_store(request, store)
    say(f"{out}: about {request.samples:,} samples, {_size(request.bytes)} of Parquet")
    began = time.monotonic()
    with _progress() as progress:
        written = write_fleet(request, store, progress)
    _tell(out, store, written, time.monotonic() - began)


def _check_room(out: str, request: SynthRequest) -> None:
    """Refuse a disk that is too small; of object storage nothing can be known.

    Raises:
        UsageError: how much is wanted and how much is there, or why that cannot be known.
    """
    import os
    import shutil
    from pathlib import Path

    if "://" in out:
        return
    try:
        place = Path(os.path.realpath(out))
        present = sum(file.stat().st_size for file in place.rglob("*.parquet") if file.is_file())
        existing = next(folder for folder in (place, *place.parents) if folder.exists())
        free = shutil.disk_usage(existing).free
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        shown = out if len(out) <= 80 else out[:79] + "…"
        raise UsageError(f"{shown} cannot be used: {reason}; name another place") from None
    wanted = max(request.bytes - present, 0)
    if wanted > free:
        raise UsageError(
            f"{out} needs about {_size(wanted)} more and only {_size(free)} are free there; make "
            "room, name another place, or ask for less"
        )


def _tell(out: str, store: StoreWriter, written: Written, seconds: float) -> None:
    """Write the summary to stderr."""
    files = store.snapshot.files
    rows = sum(file.rows for file in files)
    size = _size(sum(file.bytes for file in files))
    if not written.parts:
        say(f"{out}: already complete: {counted(rows, 'row')}, {size}")
        return
    rate = written.samples / max(seconds, 1e-9)
    before = f", continued after {counted(written.skipped, 'part')}" if written.skipped else ""
    say(
        f"{out}: {counted(rows, 'row')}, {size}; {written.samples:,} samples "
        f"written in {seconds:.1f} s ({rate:,.0f} per second){before}"
    )


def _size(count: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1000:.0f} kB"


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Yield what shows the progress with rate and time left: a bar if stderr is a terminal."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("writing"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0, rate="")

        def report(share: float, samples: int) -> None:
            seconds = bar.tasks[0].elapsed or 1e-9
            rate = f"{samples / seconds / 1e6:.1f} M samples/s"
            bar.update(task, completed=share, rate=rate)

        yield report
