"""A history of any size from a seed: `python -m benchmarks.fleet OUT`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from benchmarks.fleet.draw import FleetRequest
from benchmarks.fleet.large import write_fleet
from hpabatch.cli.app import command
from hpabatch.cli.talk import say, tell_error
from hpabatch.errors import HpabatchError
from hpabatch.history.store.append import open_writer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@command(app)
def fleet(
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="Folder or URL of the store that is made.")
    ],
    request: FleetRequest,
) -> None:
    """Make a history of any size from a seed.

    Writes a store to OUT, a folder or an s3://, gs:// or abfs:// URL that is new or empty: HPAs
    with a Deployment each, a demand with days, weekends, noise and bursts, recorded sizes that
    follow it, pods that come, restart, are rolled out, evicted and removed, and their usage
    samples. The recorded sizes are a stand-in, not decisions of an HPA.

    \b
    The same options give the same data files with the same versions of numpy, polars and pyarrow. A
    fleet of more HPAs or more days begins with the smaller one. An interrupted run is continued by
    the same command; into a history of other options nothing is written.
    """
    store = open_writer(out)
    write_fleet(request, store)
    rows = sum(file.rows for file in store.snapshot.files)
    say(f"{out}: {rows:,} rows, {sum(file.bytes for file in store.snapshot.files):,} bytes")


if __name__ == "__main__":
    try:
        app()
    except HpabatchError as error:
        tell_error(error)
        sys.exit(error.exit_code)
