"""`hpabatch replay`: decisions of the HPA rules over a recorded history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_out
from hpabatch.cli.command import command
from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.options import HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import JobProgress, Progress, progress_on_stderr
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.cli.talk import say, tell, tell_skipped
from hpabatch.engine.replay.request import ReplayToRequest
from hpabatch.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_REFUSED, RefusedError, UsageError

if TYPE_CHECKING:
    from hpabatch.jobs.replay import NothingReplayedError, ReplayDone, ReplayJob
    from hpabatch.report.replay import ReplayReport

_HELP = """Replay a history through the exact HPA rules.

Decides every HPA at every sync with the replicas that were recorded. stdout gets a summary: one row
per HPA, and the HPAs most worth a look; --out keeps every decision, a row per HPA and sync. With
--hpas the HPAs of manifests are replayed instead of the recorded ones.

\b
What had to be assumed stands in the result: --sync-period, --phase, --delay and --max-age are
durations such as 500ms, 15s or 1m, and each is written down with where it came from.
--instants passes decides all HPAs of a cluster at the passes of the live loop that recorded it,
with memory lost where the loop began: then the decisions are the loop's own.
--where is a condition (see docs/expressions.md) on the columns cluster, namespace, hpa,
target_kind, target, min_replicas, max_replicas, has_behavior, specs and labels (a JSON text).

\b
--out FILE is one Parquet file; --out FOLDER/ a folder of them, with the evidence in evidence.json.
Nothing is there until all of it is. An interrupted run keeps what is decided in a folder beside it
(.FILE.job); the same command goes on from there, and gives the same bytes.
With --workers or --scheduler other processes or machines decide parts of it (docs/scale.md).

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused or skipped (the others are
written), 75 ended early (repeat the command); 2 wins over 3.

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


@command(app, _HELP)
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
) -> None:
    """Replay a history through the exact HPA rules."""
    check_stdout(output)
    if request.restart and out is None:
        raise UsageError("--restart without --out: expected --out FILE, whose run begins anew")
    run = _Run(out)
    try:
        code = run.replay(history, request, top, output)
    except KeyboardInterrupt:
        say(f"interrupted: {run.left()}")
        code = EXIT_INTERRUPTED
    raise typer.Exit(code)


class _Run:
    """One run of the command: how far it is, for whoever interrupts it."""

    def __init__(self, out: str | None) -> None:
        self.out = out
        self.job: ReplayJob | None = None
        self.shown: JobProgress | None = None
        self.written = False

    def replay(self, path: str, request: ReplayToRequest, top: int, output: Output) -> int:
        """Read, replay, write and tell; return the exit code."""
        from hpabatch.jobs.replay import NothingReplayedError, replay_to_disk

        with progress_on_stderr() as progress:
            self.job, code = self._plan(path, request, progress)
            self.shown = JobProgress(progress, "deciding", "replay_observations", "decisions")
            try:
                done = replay_to_disk(self.job, self.shown)
            except NothingReplayedError as error:
                _tell(error)
                raise RefusedError(f"{path}: {error}") from None
            self.written = True
        _tell(done)
        show_report(_report(done, path, self.out, top), output)
        return code or (EXIT_REFUSED if done.skipped else EXIT_OK)

    def _plan(
        self, path: str, request: ReplayToRequest, progress: Progress
    ) -> tuple[ReplayJob, int]:
        """Check what was asked for and plan it; return the job and the manifests' exit code."""
        progress("loading", 0.0)
        from hpabatch.engine.fleet.versions import history_profile
        from hpabatch.history.reader import open_history
        from hpabatch.jobs.replay import ReplayJob, plan_of

        # Manifests stand in for the table of HPAs; every other table is still asked for when read.
        history = open_history(path, None if request.hpas else "replay")
        destination = check_out(self.out, history, request.hpas) if self.out is not None else None
        manifests, code = None, EXIT_OK
        if request.hpas:
            profile = history_profile(history, request.k8s, request.feature_gates)
            manifests, code = load_hpas(request.hpas, profile)
        progress("planning", 0.0)
        plan = plan_of(history, request, manifests)
        return ReplayJob(plan, destination, manifests, request), code

    def left(self) -> str:
        """Return what there is after an interruption."""
        destination = self.job.destination if self.job is not None else None
        if destination is None or self.shown is None or self.shown.status is None:
            return "nothing was written"
        if self.written:
            return f"{destination.path} is written"
        from hpabatch.jobs.folder import count_kept

        folder = destination.job_path
        kept = count_kept(folder)
        tasks = self.shown.status.tasks
        more = f"; {kept} of {tasks} parts are kept in {folder}: the same command goes"
        return "nothing was written" + (f"{more} on from there" if kept else "")


def _tell(done: ReplayDone | NothingReplayedError) -> None:
    """Write warnings and skipped HPAs to stderr."""
    tell(done.warnings)
    tell_skipped(done.skipped)


def _report(done: ReplayDone, history: str, out: str | None, top: int) -> ReplayReport:
    from hpabatch.engine.replay.attention import rank_attention
    from hpabatch.engine.replay.summary import total
    from hpabatch.report.replay import ReplayReport

    return ReplayReport(
        evidence=done.evidence,
        totals=total(done.summary),
        summary=done.summary,
        attention=rank_attention(done.summary, top),
        unranked=top == 0,
        skipped=done.skipped,
        warnings=done.warnings,
        out=out,
        score=done.score,
        history=history,
    )
