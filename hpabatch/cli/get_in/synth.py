"""`hpabatch synth`: a deterministic history of any size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import parse_duration
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_INTERRUPTED, EXIT_OK, UsageError

if TYPE_CHECKING:
    from datetime import date

    from hpabatch.history.store.append import StoreWriter
    from hpabatch.importers.synth.scale.run import Progress, Written
    from hpabatch.importers.synth.scale.settings import FleetSettings

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

_MIN_STEP_MS = 1000
_DEFAULT_JITTER_MS = 1000


@app.command(help=_HELP)
def synth(
    out: Annotated[str, typer.Argument(metavar="OUT", help="Where the store is made.")],
    hpas: Annotated[int, typer.Option("--hpas", metavar="N", help="HPAs in all.")] = 100,
    pods: Annotated[
        int, typer.Option("--pods", metavar="N", help="Pods per HPA, about, on average.")
    ] = 20,
    days: Annotated[int, typer.Option("--days", metavar="N", help="UTC days.")] = 1,
    step: Annotated[
        str, typer.Option("--step", metavar="TIME", help="Between two samples of a pod.")
    ] = "15s",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another one, other data.")] = 7,
    start: Annotated[
        str, typer.Option("--start", metavar="DAY", help="First day, YYYY-MM-DD.")
    ] = "2026-10-05",
    metrics: Annotated[
        str,
        typer.Option(
            "--metrics", metavar="cpu|mix", help="Cpu utilization only, or all types of metrics."
        ),
    ] = "cpu",
    containers: Annotated[
        int, typer.Option("--containers", metavar="N", help="Per pod; all but one are sidecars.")
    ] = 1,
    gaps: Annotated[
        float, typer.Option("--gaps", metavar="SHARE", help="Share of the samples that are lost.")
    ] = 0.002,
    late: Annotated[
        float,
        typer.Option(
            "--late",
            metavar="SHARE",
            help="Share of the samples fetched some steps late; 0: fetch times are not recorded.",
        ),
    ] = 0.0,
    jitter: Annotated[
        str | None,
        typer.Option(
            "--jitter",
            metavar="TIME",
            help="A sample is up to this much off its time.  [default: 1s, 0s for short steps]",
        ),
    ] = None,
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="Name of the cluster.")
    ] = "synthetic",
    clusters: Annotated[
        int,
        typer.Option(
            "--clusters", metavar="N", help="Clusters that the HPAs are dealt to: NAME-1, NAME-2, …"
        ),
    ] = 1,
) -> None:
    """Make a history of any size from a seed."""
    try:
        from hpabatch.importers.synth.scale.settings import FleetSettings

        step_ms = parse_duration(step, "--step", _MIN_STEP_MS)
        settings = FleetSettings(
            hpas=hpas,
            pods=pods,
            days=days,
            step_ms=step_ms,
            seed=seed,
            start=_day(start),
            metrics=metrics,
            gaps=gaps,
            late=late,
            jitter_ms=_jitter_ms(jitter, step_ms),
            containers=containers,
            cluster=cluster,
            clusters=clusters,
        )
        settings.check()
        _make(out, settings)
    except KeyboardInterrupt:
        say("interrupted: the same command goes on where this one stopped")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    raise typer.Exit(EXIT_OK)


def _day(text: str) -> date:
    from datetime import datetime

    try:
        return datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise UsageError(f"--start {text!r} is not a day such as 2026-10-05") from None


def _jitter_ms(text: str | None, step_ms: int) -> int:
    if text is not None:
        return parse_duration(text, "--jitter")
    return _DEFAULT_JITTER_MS if step_ms >= 3 * _DEFAULT_JITTER_MS else 0


def _make(out: str, settings: FleetSettings) -> None:
    """Tell how large it will be, refuse what does not fit, write and tell what was written."""
    import time

    from hpabatch.history.store.append import open_writer
    from hpabatch.importers.synth.scale.run import check_store, write_fleet

    # What is refused anyway needs no estimate; what lacks the room leaves nothing behind.
    _check_room(out, settings)
    store = open_writer(out)
    check_store(settings, store)
    say(f"{out}: about {settings.samples:,} samples, {_size(settings.bytes)} of Parquet")
    began = time.monotonic()
    with _progress() as progress:
        written = write_fleet(settings, store, progress)
    _tell(out, store, written, time.monotonic() - began)


def _check_room(out: str, settings: FleetSettings) -> None:
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
    wanted = max(settings.bytes - present, 0)
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
        say(f"{out}: already complete: {rows:,} rows, {size}")
        return
    rate = written.samples / max(seconds, 1e-9)
    before = f", continued after {written.skipped} parts" if written.skipped else ""
    say(
        f"{out}: {rows:,} rows, {size}; {written.samples:,} samples written in {seconds:.1f} s "
        f"({rate:,.0f} per second){before}"
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
