"""`hpabatch replay`: decisions of the HPA rules over a recorded history."""

from __future__ import annotations

from typing import Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_out
from hpabatch.cli.command import LEFT, command
from hpabatch.cli.manifests import open_with_hpas
from hpabatch.cli.options import HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import JobProgress, progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.engine.replay.request import ReplayToRequest
from hpabatch.errors import RefusedError, UsageError


@command(app)
def replay(
    history: HistoryArgument,
    request: ReplayToRequest,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE|FOLDER/",
            help="File, or folder of files, for the decisions.  [default: they are not kept]",
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option("--top", min=0, max=1_000_000, help="Number of HPAs named as worth a look."),
    ] = 20,
    output: OutputOption = Output.table,
) -> int:
    """Replay a history through the exact HPA rules.

    Decides every HPA at every sync with the replicas that were recorded. stdout gets a summary: one
    row per HPA, and the HPAs most worth a look; --out keeps every decision, a row per HPA and sync.
    With --hpas the HPAs of manifests are replayed instead of the recorded ones.

    \b
    What had to be assumed stands in the result: --sync-period, --phase, --delay and --max-age are
    durations such as 500ms, 15s or 1m, and each is written down with where it came from.
    --instants passes decides all HPAs of a cluster at the passes of the live loop that recorded it,
    with memory lost where the loop began: then the decisions are the loop's own.
    --where is a condition (see docs/expressions.md) on the columns cluster, namespace, hpa,
    target_kind, target, min_replicas, max_replicas, has_behavior, specs and labels (a JSON text).

    \b
    --out FILE is one Parquet file; --out FOLDER/ a folder of them, with the evidence in
    evidence.json. Nothing is there until all of it is. An interrupted run keeps what is decided in
    a folder beside it (.FILE.job); the same command goes on from there, and gives the same bytes.
    With --workers or --scheduler other processes or machines decide parts of it (docs/scale.md).

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused or skipped (the others
    are written), 75 ended early (repeat the command); 2 wins over 3.

    \b
    Examples:
      hpabatch replay history/
      hpabatch replay history/ shop/web -o json
      hpabatch replay history/ --out decisions.parquet
      hpabatch replay history/ --hpas manifests/ --events decided --out new.parquet
      hpabatch replay history/ --out shop.parquet --where "namespace = 'shop' AND max_replicas > 5"
      hpabatch replay history/ --out d.parquet --output json | jq '.attention[0].why'
      hpabatch replay history/ --out decisions/ --instants recorded --score
      hpabatch replay recording/ --out decided.parquet --instants passes
    """
    if request.restart and out is None:
        raise UsageError("--restart without --out: expected --out FILE, whose run begins anew")
    job = JobProgress("deciding", "replay_observations", "decisions")
    LEFT.set(job.left)
    with progress_on_stderr() as progress:
        progress("loading", 0.0)
        from hpabatch.jobs.replay import NothingReplayedError, ReplayJob, plan_of, replay_to_disk
        from hpabatch.report.replay import Replay

        source, manifests, code = open_with_hpas(history, request)
        if out is not None:
            job.destination = check_out(out, source, request.hpas)
        progress("planning", 0.0)
        plan = plan_of(source, request, manifests)
        try:
            done = replay_to_disk(
                ReplayJob(plan, job.destination, manifests, request), job.on(progress)
            )
        except NothingReplayedError as error:
            tell(error.warnings)
            tell_skipped(error.skipped)
            raise RefusedError(f"{history}: {error}") from None
        job.written = True
    tell(done.warnings)
    left_out = tell_skipped(done.skipped)
    show_report(Replay(done, None, out, top, history, done.score), output)
    return code or left_out
