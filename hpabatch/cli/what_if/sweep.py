"""`hpabatch sweep`: every HPA of a history under every setting of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_inputs, parse_duration
from hpabatch.cli.options import (
    Gaps,
    GapsOption,
    GatesOption,
    GrowthOption,
    HistoryArgument,
    HistoryK8sOption,
    LengthOption,
    LoopPeriodOption,
    Noise,
    NoiseOption,
    Output,
    OutputOption,
    PhaseOption,
    PlantOption,
    PricesOption,
    ScenarioOption,
    SeedOption,
    WhereOption,
)
from hpabatch.cli.progress import resumed_line, share_on_stderr, tell_compiling
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.cli.talk import say, tell, tell_skipped
from hpabatch.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REFUSED,
    RefusedError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hpabatch.engine.fleet.candidates import Skipped
    from hpabatch.engine.sweep.result import SweepResult
    from hpabatch.jobs.loop import Status
    from hpabatch.jobs.publish import Destination
    from hpabatch.jobs.sweep import SweepJob
    from hpabatch.jobs.sweep_request import SweepRequest

_HELP = """Simulate the HPAs of a history under many settings.

Fits every workload, then runs its HPA under each setting of a grid, on the same work: the exact
rules decide, a model of the pods answers (docs/simulation.md). --out becomes a folder of Parquet
tables: settings, hpas, results (a row per HPA and setting, all measures) and blocks (week by week);
`hpabatch recommend` and `hpabatch plot` read it, docs/sweep.md explains it. Setting 0 is today's:
the last spec that was in force. An interrupted sweep goes on with the same command.

\b
--grid FIELD=VALUES, repeated, gives all combinations: a list (60,300,900), a range (50:85:5), or
values relative to today's (x0.8,x1,x1.2 or -1,+2). Fields: target, target.NAME (of one metric),
min, max, tolerance, scaleUp.window, scaleDown.window, policies, scaleUp.policies,
scaleDown.policies, scaleUp.select, scaleDown.select, scaleUp.tolerance, scaleDown.tolerance, sync;
beyond what Kubernetes can do: combine, percentage-of. Policy sets: gentle, default, fast, and those
of --policy-sets.

\b
--group makes HPAs get one common setting: label:tier=web, label:tier, namespace:shop, namespace,
pattern:shop/*-api, file:groups.yaml, fleet. Without it every HPA gets its own.

\b
Exit codes: 0 fine, 2 something is wrong or cannot be read (all mistakes of grids and groups in one
message), 3 some HPAs were skipped (the others are swept); 2 wins over 3.

\b
Examples:
  hpabatch sweep history/ --grid target=50:85:5 --grid scaleDown.window=60,300,900 --out sweep/
  hpabatch sweep history/ --grid policies=gentle,default,fast --group label:tier=web --out sweep/
  hpabatch sweep history/ --grid target=40:90 --grid min=1:10 --grid max=x1:x3 --sample 500 \\
      --prices prices.yaml --out sweep/
"""


@app.command(help=_HELP)
def sweep(
    history: HistoryArgument,
    grid: Annotated[
        list[str],
        typer.Option("--grid", metavar="FIELD=VALUES", help="Values of a field; repeat it."),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="FOLDER", help="Where the sweep goes; an old one is replaced."
        ),
    ],
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP", help="HPAs with one common setting; repeat it."),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", help="So many settings, spread evenly, not all."),
    ] = None,
    policy_sets: Annotated[
        str | None,
        typer.Option("--policy-sets", metavar="FILE", help="Policy sets of your own (YAML)."),
    ] = None,
    where: WhereOption = None,
    scenario: ScenarioOption = None,
    growth: GrowthOption = None,
    plant: PlantOption = None,
    prices: PricesOption = None,
    k8s: HistoryK8sOption = None,
    feature_gates: GatesOption = "",
    seed: SeedOption = 0,
    gaps: GapsOption = Gaps.keep,
    noise: NoiseOption = Noise.off,
    length: LengthOption = None,
    sync_period: LoopPeriodOption = None,
    phase: PhaseOption = None,
    fidelity: Annotated[
        bool,
        typer.Option(
            "--fidelity/--no-fidelity",
            help="Score both halves of the model too; without scores there is no advice.",
        ),
    ] = True,
    restart: Annotated[
        bool, typer.Option("--restart", help="Throw away what an interrupted sweep has left.")
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Simulate the HPAs of a history under many settings."""
    check_stdout(output)
    from hpabatch.jobs.sweep_request import SweepRequest

    request = SweepRequest(
        history=history,
        grids=tuple(grid),
        sample=sample,
        policy_sets=policy_sets,
        groups=tuple(group or ()),
        where=where,
        scenario=scenario,
        growth=growth,
        plants=tuple(plant or ()),
        prices=prices,
        k8s=k8s,
        feature_gates=feature_gates,
        seed=seed,
        keep_gaps=gaps is Gaps.keep,
        noise=noise is Noise.resample,
        length_ms=None if length is None else parse_duration(length, "--for", 1000),
        sync_period_ms=(
            None if sync_period is None else parse_duration(sync_period, "--sync-period", 1000)
        ),
        phase_ms=None if phase is None else parse_duration(phase, "--phase"),
        fidelity=fidelity,
    )
    raise typer.Exit(_Run(request, out, restart).finish(output))


class _Run:
    """One run of the command: how far it is, for whoever interrupts it."""

    def __init__(self, request: SweepRequest, out: str, restart: bool) -> None:
        self.request, self.out, self.restart = request, out, restart
        self.job: SweepJob | None = None
        self.told = False

    def finish(self, output: Output) -> int:
        """Do it, or say what there is after an interruption; return the exit code."""
        try:
            return self.sweep(output)
        except KeyboardInterrupt:
            say(f"interrupted: {self.left()}")
            return EXIT_INTERRUPTED

    def sweep(self, output: Output) -> int:
        """Plan, run and tell; return the exit code."""
        from hpabatch.engine.fleet.candidates import Skipped
        from hpabatch.jobs.sweep import SweepJob, SweepRefusedError, sweep_to_disk

        destination = _destination(self.out)
        with share_on_stderr() as progress:
            progress("planning", 0.0)
            plan = self.request.plan()
            check_inputs(self.out, destination.real_path, plan.plan.history, ())
            self.job = SweepJob(self.request, plan, destination, self.restart)
            try:
                result = sweep_to_disk(self.job, self._reporter(progress))
            except SweepRefusedError as error:
                _tell(plan.notes, error.skipped)
                raise RefusedError(f"{self.request.history}: {error}") from None
        self.job = None
        skipped = [Skipped(*row) for row in result.parameters["skipped"]]
        _tell([*result.parameters["notes"], *_without_cost(self.request, result)], skipped)
        _show(result, self.out, output)
        return EXIT_REFUSED if skipped else EXIT_OK

    def _reporter(self, progress: Callable[[str, float], None]) -> Callable[[Status], None]:
        def report(status: Status) -> None:
            if status.resumed and not self.told:
                say(resumed_line(status))
            if not self.told and status.done < status.tasks:
                tell_compiling("simulate_fleet")
            self.told = True
            progress("sweeping", status.done_weight / max(status.weight, 1))

        return report

    def left(self) -> str:
        """Return what there is after an interruption."""
        if self.job is None:
            return f"{self.out} is written" if self.told else "nothing was written"
        from hpabatch.jobs.folder import count_kept
        from hpabatch.jobs.sweep import tasks_of

        folder = self.job.destination.job_path
        kept, of = count_kept(folder), len(tasks_of(self.job.sweep))
        more = f"; {kept} of {of} parts are kept in {folder}: the same command goes on from there"
        return "nothing was written" + (more if kept else "")


def _destination(out: str) -> Destination:
    """Return where the sweep goes (UsageError: it cannot go there)."""
    from hpabatch.jobs.publish import Destination
    from hpabatch.jobs.sweep_files import is_sweep_folder

    if "://" in out or out in ("", "-", "."):
        raise UsageError(f"--out {out!r}: a sweep is a folder of files; name a new one")
    path = Path(out)
    try:
        if path.exists() and (not path.is_dir() or not is_sweep_folder(path)):
            raise UsageError(f"--out {out} is there and is no sweep; name a new folder")
        parent = path.absolute().parent
        if not parent.is_dir():
            raise UsageError(f"--out {out}: there is no folder {parent}; make it first")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"--out {out} cannot be used: {reason}; name another place") from None
    return Destination(path, is_folder=True)


def _without_cost(request: SweepRequest, result: SweepResult) -> list[str]:
    """Return a note on the HPAs that have no cost although there are prices."""
    today = result.results.filter(result.results["setting_id"] == 0)
    unknown = today["cost"].null_count()
    if request.prices is None or not unknown:
        return []
    return [
        f"--prices: {unknown} of {today.height} HPAs have no cost: requests of cpu or memory that "
        "have a price were not recorded of their pods"
    ]


def _tell(notes: Sequence[str], skipped: Sequence[Skipped]) -> None:
    """Write notes and skipped HPAs to stderr."""
    tell(notes, "note")
    tell_skipped(skipped)


def _show(result: SweepResult, out: str, output: Output) -> None:
    """Write the report to stdout."""
    from hpabatch.report import sweep as forms

    show_report(forms, forms.SweepReport(result, out), output)
