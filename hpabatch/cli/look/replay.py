"""`hpabatch replay`: what the HPA rules decide over a recorded history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_out, parse_duration, selection
from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.options import (
    GatesOption,
    HistoryArgument,
    HistoryK8sOption,
    Output,
    OutputOption,
)
from hpabatch.cli.progress import Progress, progress_on_stderr
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.cli.talk import say, tell, tell_skipped
from hpabatch.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_REFUSED, RefusedError

if TYPE_CHECKING:
    from hpabatch.jobs.loop import Status
    from hpabatch.jobs.replay import NothingReplayedError, ReplayDone, ReplayJob
    from hpabatch.report.replay import ReplayReport

_HELP = """Replay a history through the exact HPA rules.

Reads a folder of Parquet tables, decides every HPA at every sync with the replicas that were
recorded, and writes one row per HPA and sync to --out. stdout gets a summary: one row per HPA, and
the HPAs most worth a look. With --hpas the HPAs of manifests are replayed instead of the recorded
ones.

\b
What had to be assumed stands in the result: --sync-period, --phase, --delay and --max-age are
durations such as 500ms, 15s or 1m, and each is written down with where it came from. --sensitivity
replays again with other delays, max ages and phases: does the agreement hang on them?
--instants passes decides all HPAs of a cluster at the passes of the live loop that recorded it,
with memory lost where the loop began: then the decisions are the loop's own.
--where is a condition (see docs/expressions.md) on the columns cluster, namespace, hpa,
target_kind, target, min_replicas, max_replicas, has_behavior, specs and labels (a JSON text).

\b
--out FILE is one Parquet file; --out FOLDER/ a folder of them, with the evidence in evidence.json.
Nothing is there until all of it is. An interrupted run keeps what is decided in a folder beside it
(.FILE.job); the same command goes on from there, and gives the same bytes.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused or skipped (the others are
written); 2 wins over 3.

\b
Examples:
  hpabatch replay history/ --out decisions.parquet
  hpabatch replay history/ --hpas manifests/ --events decided --out new.parquet
  hpabatch replay history/ --out shop.parquet --where "namespace = 'shop' AND max_replicas > 5"
  hpabatch replay history/ --out d.parquet --output json | jq '.attention[0].why'
  hpabatch replay history/ --out decisions/ --instants recorded --score
  hpabatch replay recording/ --out decided.parquet --instants passes
"""

_MIN_SYNC_PERIOD_MS = 1000


class Events(StrEnum):
    """Which size changes spend the budgets of scaling policies."""

    recorded = "recorded"
    decided = "decided"


class Instants(StrEnum):
    """When decisions are made."""

    grid = "grid"
    recorded = "recorded"
    passes = "passes"


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for; times in ms, None: not given."""

    history: str
    out: str
    manifests: tuple[str, ...]
    k8s: str | None
    feature_gates: str
    events: str
    instants: str
    where: str | None
    top: int
    output: Output
    score: bool
    sensitivity: bool
    why: bool
    restart: bool
    sync_period_ms: int | None
    phase_ms: int | None
    delay_ms: int | None
    max_age_ms: int | None


@app.command(help=_HELP)
def replay(
    history: HistoryArgument,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE|FOLDER/", help="Where the decisions go.")
    ],
    hpas: Annotated[
        list[str] | None,
        typer.Option(
            "--hpas", metavar="PATH", help="Manifests to replay instead; may be repeated."
        ),
    ] = None,
    events: Annotated[
        Events, typer.Option("--events", help="Which changes spend the policies' budgets.")
    ] = Events.recorded,
    instants: Annotated[
        Instants,
        typer.Option(
            "--instants",
            help="Decide at every sync, when the controller was recorded to, or at a live loop's "
            "passes.",
        ),
    ] = Instants.grid,
    k8s: HistoryK8sOption = None,
    feature_gates: GatesOption = "",
    output: OutputOption = Output.table,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Only HPAs for which this is true (docs/expressions.md).",
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            "--top", min=0, max=1_000_000, help="How many HPAs are named as worth a look."
        ),
    ] = 20,
    sync_period: Annotated[
        str | None,
        typer.Option(
            "--sync-period",
            metavar="TIME",
            help="Between two syncs.  [default: as recorded, else 15s]",
        ),
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option(
            "--phase",
            metavar="TIME",
            help="Syncs come this long after full periods.  [default: estimated, else 0s]",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            "--delay",
            metavar="TIME",
            help="From a sample's time until it is visible.  [default: 0s]",
        ),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option(
            "--max-age",
            metavar="TIME",
            help="How long a sample counts without a newer one.  [default: estimated from them; "
            "none where a recorder says until when each stood]",
        ),
    ] = None,
    score: Annotated[
        bool, typer.Option("--score", help="Judge the decided rescales by the recorded ones.")
    ] = False,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Replay under other assumptions too.")
    ] = False,
    why: Annotated[
        bool,
        typer.Option("--why", help="Add what each metric said, pods by group and more (docs)."),
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard what an interrupted run has left.")
    ] = False,
) -> None:
    """Replay a history through the exact HPA rules."""
    run = _Run()
    try:
        request = Request(
            history=history,
            out=out,
            manifests=tuple(hpas or ()),
            k8s=k8s,
            feature_gates=feature_gates,
            events=events.value,
            instants=instants.value,
            where=where,
            top=top,
            output=output,
            score=score,
            sensitivity=sensitivity,
            why=why,
            restart=restart,
            sync_period_ms=_optional(sync_period, "--sync-period", _MIN_SYNC_PERIOD_MS),
            phase_ms=_optional(phase, "--phase", 0),
            delay_ms=_optional(delay, "--delay", 0),
            max_age_ms=_optional(max_age, "--max-age", 1),
        )
        code = run.replay(request)
    except KeyboardInterrupt:
        say(f"interrupted: {run.left()}")
        code = EXIT_INTERRUPTED
    raise typer.Exit(code)


def _optional(text: str | None, option: str, minimum_ms: int) -> int | None:
    return None if text is None else parse_duration(text, option, minimum_ms)


class _Run:
    """One run of the command: how far it is, for whoever interrupts it."""

    def __init__(self) -> None:
        self.job: ReplayJob | None = None
        self.status: Status | None = None
        self.written = False

    def replay(self, request: Request) -> int:
        """Read, replay, write and tell; return the exit code."""
        from hpabatch.jobs.replay import NothingReplayedError, replay_to_disk

        check_stdout(request.output)
        with progress_on_stderr() as progress:
            self.job, code = _plan(request, progress)
            try:
                done = replay_to_disk(self.job, self._report(progress))
            except NothingReplayedError as error:
                _tell(error)
                raise RefusedError(f"{request.history}: {error}") from None
            self.written = True
        _tell(done)
        _show(_report(done, request), request.output)
        return code or (EXIT_REFUSED if done.skipped else EXIT_OK)

    def _report(self, progress: Progress) -> Callable[[Status], None]:
        def report(status: Status) -> None:
            self.status = status
            progress.status(status)
            if status.done == status.tasks:
                progress.step("writing")

        return report

    def left(self) -> str:
        """Return what there is after an interruption."""
        if self.job is None or self.status is None:
            return "nothing was written"
        if self.written:
            return f"{self.job.destination.path} is written"
        from hpabatch.jobs.folder import count_kept

        folder = self.job.destination.job_path
        kept = count_kept(folder)
        more = f"; {kept} of {self.status.tasks} parts are kept in {folder}: the same command goes"
        return "nothing was written" + (f"{more} on from there" if kept else "")


def _plan(request: Request, progress: Progress) -> tuple[ReplayJob, int]:
    """Check what was asked for and plan it; return the job and the manifests' exit code."""
    progress.step("loading")
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.engine.fleet.plan import plan_replay
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.history.reader import open_history
    from hpabatch.jobs.replay import ReplayJob

    select = None if request.where is None else selection(request.where)
    # Manifests stand in for the table of HPAs; every other table is still asked for when read.
    history = open_history(request.history, None if request.manifests else "replay")
    destination = check_out(request.out, history, request.manifests)
    manifests, code = None, EXIT_OK
    if request.manifests:
        profile = history_profile(history, request.k8s, request.feature_gates)
        manifests, code = load_hpas(request.manifests, profile)
    parameters = ReplayParameters(
        k8s=request.k8s,
        feature_gates=request.feature_gates,
        events=request.events,
        instants=request.instants,
        sync_period_ms=request.sync_period_ms,
        phase_ms=request.phase_ms,
        delay_ms=request.delay_ms,
        max_age_ms=request.max_age_ms,
    )
    progress.step("planning")
    plan = plan_replay(history, parameters, manifests, select, whole=request.why)
    job = ReplayJob(
        plan=plan,
        destination=destination,
        manifests=manifests,
        score=request.score,
        sensitivity=request.sensitivity,
        restart=request.restart,
    )
    return job, code


def _tell(done: ReplayDone | NothingReplayedError) -> None:
    """Write warnings and skipped HPAs to stderr."""
    tell(done.warnings)
    tell_skipped(done.skipped)


def _report(done: ReplayDone, request: Request) -> ReplayReport:
    from hpabatch.engine.replay.attention import rank_attention
    from hpabatch.engine.replay.summary import total
    from hpabatch.report.replay import ReplayReport

    return ReplayReport(
        evidence=done.evidence,
        totals=total(done.summary),
        summary=done.summary,
        attention=rank_attention(done.summary, request.top),
        unranked=request.top == 0,
        skipped=done.skipped,
        warnings=done.warnings,
        out=request.out,
        score=done.score,
        sensitivity=done.sensitivity,
    )


def _show(report: ReplayReport, output: Output) -> None:
    """Write the report to stdout."""
    from hpabatch.report import replay as forms

    show_report(forms, report, output)
