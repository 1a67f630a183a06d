"""`hpabatch plan`: what HPAs would ask for without maxReplicas, at once, and against quotas."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_replaced_folder, check_writable
from hpabatch.cli.command import command
from hpabatch.cli.options import HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, UsageError

if TYPE_CHECKING:
    from hpabatch.engine.capacity.run import CapacityPlan

_HELP = """Plan the capacity of the HPAs of a history, by simulation with maxReplicas removed.

A record at maxReplicas says only that at least so many pods were wanted. So every workload is
fitted (see `hpabatch fit`) and its HPA simulated without maxReplicas, under each --growth of its
work: what it would have asked for, the bounds that would have sufficed, and what a namespace, a
cluster and the fleet ask for at the same time (percentiles of the sum over HPAs, not a sum of
peaks). docs/plan.md defines every number.

\b
--quota takes ResourceQuota manifests (`kubectl get resourcequota -A -o yaml`); pods that no HPA of
the history owns are not counted. --prices turns requests into money. HPAs that cannot be planned,
or whose plan cannot be relied on, are named with the reason; every sum says how many it covers.

\b
--output json has HPAs and sums, csv and parquet the HPAs; --totals writes the sums to a file, --out
both to a folder, hpas.parquet and totals.parquet.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were skipped (the others are planned),
75 ended early (repeat the command).

\b
Examples:
  hpabatch plan history/
  hpabatch plan history/ --growth 1.0,1.5,2.0 --quota quotas.yaml --prices prices.yaml
  hpabatch plan history/ --quota prod=prod-quotas.yaml --quota dev=dev-quotas.yaml
  hpabatch plan history/ --where "namespace = 'shop'" -o csv --totals sums.csv > hpas.csv
  hpabatch plan history/ --scenario peak.yaml --plant plant.yaml --out plan/
"""


@command(app, _HELP)
def plan(
    history: HistoryArgument,
    request: PlanRequest,
    totals: Annotated[
        str | None,
        typer.Option("--totals", metavar="FILE", help="File for the sums (.csv or .parquet)."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="FOLDER", help="New folder for HPAs and sums, two Parquet files."
        ),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Plan the capacity of the HPAs of a history."""
    check_stdout(output)
    _check_places(out, totals)
    from hpabatch.api.plans import plan as plan_of
    from hpabatch.history.reader import open_history

    source = open_history(history, "replay")
    with progress_on_stderr("simulate_fleet") as progress:
        found = plan_of(source, request, progress)
        written = _write(found.result, out, totals, progress)
    tell(found.notes)
    tell_skipped(found.result.skipped, history)
    _show(found.result, written, output)
    raise typer.Exit(EXIT_REFUSED if found.result.skipped else EXIT_OK)


def _check_places(out: str | None, totals: str | None) -> None:
    """Refuse places to write to before anything is computed (UsageError)."""
    if out is not None:
        check_replaced_folder(out, "--out")
        folder = Path(out)
        if os.path.exists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--out {folder} is there already; name a new or empty folder")
        check_writable("--out", folder)
    if totals is not None:
        path = Path(totals)
        check_writable("--totals", path)
        if os.path.isdir(path):
            raise UsageError(f"--totals {path} is a folder; name a file in it")
        if path.suffix not in (".csv", ".parquet"):
            raise UsageError(f"--totals {path}: a name that ends with .csv or .parquet is wanted")


def _write(
    found: CapacityPlan,
    out: str | None,
    totals: str | None,
    progress: Callable[[str, float], None],
) -> list[str]:
    """Write the files that were asked for; return what is told of them."""
    from hpabatch.history.atomic import atomic_folder, atomic_path
    from hpabatch.jobs.parquet import write_parquet
    from hpabatch.report.forms import frame_csv

    written = []
    if totals is not None:
        progress("writing", 1.0)
        with atomic_path(totals) as temporary:
            if totals.endswith(".csv"):
                temporary.write_text(frame_csv(found.totals))
            else:
                write_parquet(found.totals, found.evidence, temporary)
        written.append(f"sums: {totals}")
    if out is not None:
        progress("writing", 1.0)
        with atomic_folder(out) as new:
            for name, frame in (("hpas", found.hpas), ("totals", found.totals)):
                write_parquet(frame, found.evidence, new / f"{name}.parquet")
        written.append(f"HPAs and sums: {out}")
    return written


def _show(found: CapacityPlan, written: Sequence[str], output: Output) -> None:
    """Write the plan to stdout."""
    from hpabatch.report.capacity import PlanReport

    show_report(PlanReport(found, written), output)
