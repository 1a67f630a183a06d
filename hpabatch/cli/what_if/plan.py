"""`hpabatch plan`: what HPAs would ask for without maxReplicas, at once, and against quotas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.options import HistoryArgument, Output, OutputOption, file_option, folder_option
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.engine.capacity.request import PlanRequest

if TYPE_CHECKING:
    from hpabatch.report.capacity import Plan


@command(app)
def plan(
    history: HistoryArgument,
    request: PlanRequest,
    totals: Annotated[
        str | None,
        file_option("--totals", "File for the sums (.csv or .parquet).", ".csv", ".parquet"),
    ] = None,
    out: Annotated[
        str | None,
        folder_option("--out", "New folder for HPAs and sums, two Parquet files."),
    ] = None,
    output: OutputOption = Output.table,
) -> int:
    """Plan the capacity of the HPAs of a history, by simulation with maxReplicas removed.

    A record at maxReplicas says only that at least so many pods were wanted. So every workload is
    fitted (see `hpabatch fit`) and its HPA simulated without maxReplicas, under each --growth of
    its work: what it would have asked for, the bounds that would have sufficed, and what a
    namespace, a cluster and the fleet ask for at the same time (percentiles of the sum over HPAs,
    not a sum of peaks). docs/plan.md defines every number.

    \b
    --quota takes ResourceQuota manifests (`kubectl get resourcequota -A -o yaml`); pods that no HPA
    of the history owns are not counted. --prices turns requests into money. HPAs that cannot be
    planned, or whose plan cannot be relied on, are named with the reason; every sum says how many
    it covers.

    \b
    --output json has HPAs and sums, csv and parquet the HPAs; --totals writes the sums to a file,
    --out both to a folder, hpas.parquet and totals.parquet.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were skipped (the others are
    planned), 75 ended early (repeat the command).

    \b
    Examples:
      hpabatch plan history/
      hpabatch plan history/ --growth 1.0,1.5,2.0 --quota quotas.yaml --prices prices.yaml
      hpabatch plan history/ --quota prod=prod-quotas.yaml --quota dev=dev-quotas.yaml
      hpabatch plan history/ --where "namespace = 'shop'" -o csv --totals sums.csv > hpas.csv
      hpabatch plan history/ --scenario peak.yaml --plant plant.yaml --out plan/
    """
    from hpabatch.api.simulations import plan as plan_of
    from hpabatch.history.reader import open_history

    source = open_history(history, "replay")
    with progress_on_stderr("simulate_fleet") as progress:
        found = plan_of(source, request, progress)
        progress("writing", 1.0)
        found = replace(found, written=_write(found, out, totals))
    tell(found.notes)
    left_out = tell_skipped(found.skipped, history)
    show_report(found, output)
    return left_out


def _write(found: Plan, out: str | None, totals: str | None) -> list[str]:
    """Write the files that were asked for; return what is told of them."""
    from hpabatch.history.files import atomic_folder, atomic_path
    from hpabatch.jobs.parquet import write_parquet
    from hpabatch.report.forms import frame_csv, write_frame

    written = []
    if totals is not None:
        if totals.endswith(".csv"):
            with atomic_path(totals) as temporary:
                temporary.write_text(frame_csv(found.totals))
        else:
            write_frame(found.totals, found.evidence, totals)
        written.append(f"sums: {totals}")
    if out is not None:
        with atomic_folder(out) as new:
            for name, frame in (("hpas", found.hpas), ("totals", found.totals)):
                write_parquet(frame, found.evidence, new / f"{name}.parquet")
        written.append(f"HPAs and sums: {out}")
    return written
