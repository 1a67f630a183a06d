"""`hpabatch simulate`: the closed loop of rules and plants over a history's work."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_replaced_folder, check_writable
from hpabatch.cli.command import command
from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.options import HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.engine.simulate.request import SimulateRequest
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, RefusedError, UsageError

if TYPE_CHECKING:
    from hpabatch.engine.simulate.case import SimulationCase
    from hpabatch.engine.simulate.result import LoopResult
    from hpabatch.engine.simulate.run import Loop
    from hpabatch.report.simulate import SimulateReport

Report = Callable[[str, float], None]

_HELP = """Simulate the HPAs of a history in a closed loop.

Fits every workload (see `hpabatch fit`), then runs its HPA against it: the exact rules decide, a
model of the pods, their work and the metric pipeline answers. The setting "recorded" is the HPA as
it was in force; with --hpas "proposed" is that of the manifests, on the same work. One row of
measures per HPA and setting goes to stdout. docs/simulation.md says exactly what is modelled.

\b
The work is the recorded one, times --growth, or changed by --scenario (docs/scenarios.md). What is
not known of a workload, such as what kind an External metric is, is stated in --plant; --prices
turns requested hours into money. Rows that cannot be relied on are marked, with the reason; whether
a workload's model deserves trust at all, `hpabatch fidelity` says.

\b
--trajectories writes every tick of every run as Parquet. --export makes one setting's run a
history, which replays to the same decisions:
  hpabatch replay FOLDER --events decided (stderr gives all arguments)

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused or skipped (the others are
simulated); 2 wins over 3.

\b
Examples:
  hpabatch simulate history/
  hpabatch simulate history/ --hpas proposed/ --growth 1.4 --prices prices.yaml
  hpabatch simulate history/ --scenario peak.yaml --where "namespace = 'shop'" -o csv > peak.csv
  hpabatch simulate history/ --plant plant.yaml --trajectories runs.parquet
  hpabatch simulate history/ --where "hpa = 'api'" --export run/
"""


@command(app, _HELP)
def simulate(
    history: HistoryArgument,
    request: SimulateRequest,
    trajectories: Annotated[
        str | None,
        typer.Option("--trajectories", metavar="FILE", help="Every tick of every run (Parquet)."),
    ] = None,
    export: Annotated[
        str | None,
        typer.Option(
            "--export", metavar="FOLDER", help="New folder for the run, as a history to replay."
        ),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Simulate the HPAs of a history in a closed loop."""
    check_stdout(output)
    _check_places(trajectories, export)
    from hpabatch.api.simulations import prepare
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.engine.simulate.export import check_cases
    from hpabatch.engine.simulate.result import run_loop
    from hpabatch.history.reader import open_history

    source = open_history(history, "replay")
    profile = history_profile(source, request.k8s, request.feature_gates)
    with progress_on_stderr("simulate_fleet") as progress:
        manifests, code = load_hpas(request.hpas, profile)
        loop, options = prepare(source, request, manifests, trajectories is not None, progress)
        if not loop.cases:
            _tell(loop, history)
            raise RefusedError(f"{history}: no HPA could be simulated")
        if export is not None:
            check_cases(_exported(loop))
        result = run_loop(loop, options, progress)
        written = _write(result, trajectories, progress)
        if export is not None:
            written.append(_export(result, Path(export), request.seed, progress))
    _tell(loop, history)
    _show(_report(result, written), output)
    raise typer.Exit(code or (EXIT_REFUSED if loop.skipped else EXIT_OK))


def _check_places(trajectories: str | None, export: str | None) -> None:
    """Refuse places to write to before anything is computed (UsageError)."""
    if export is not None:
        check_replaced_folder(export, "--export")
        folder = Path(export)
        if os.path.exists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--export {folder} is there already; name a new or empty folder")
        check_writable("--export", folder)
    if trajectories is not None:
        if os.path.isdir(trajectories):
            raise UsageError(f"--trajectories {trajectories} is a folder; name a file in it")
        check_writable("--trajectories", Path(trajectories))


def _write(result: LoopResult, place: str | None, progress: Report) -> list[str]:
    """Write the trajectories; return what is told of them."""
    from hpabatch.history.atomic import atomic_path
    from hpabatch.jobs.parquet import write_parquet

    if place is None or result.points is None:
        return []
    progress("writing trajectories", 1.0)
    with atomic_path(place) as temporary:
        write_parquet(result.points, result.loop.evidence, temporary)
    return [f"trajectories: {place}"]


def _export(result: LoopResult, folder: Path, seed: int, progress: Report) -> str:
    """Write one setting's run as a history; return what is told of it."""
    from hpabatch.engine.simulate.export import export_run
    from hpabatch.history.atomic import atomic_folder
    from hpabatch.history.store.writer import write_table

    cases = _exported(result.loop)
    run = export_run(
        cases,
        result.loop.plan.versions.one(),
        seed,
        lambda share: progress("exporting the run", share),
    )
    with atomic_folder(str(folder)) as place:
        for name, frame in run.tables.items():
            write_table(frame, place / f"{name}.parquet", name)
    arguments = [*run.arguments, "--out", "decisions.parquet"]
    command = shlex.join(["hpabatch", "replay", str(folder), *arguments])
    return f"exported run ({cases[0].setting}): {command}"


def _exported(loop: Loop) -> list[SimulationCase]:
    """Return the cases of the setting that is exported: the proposed one where there is one."""
    from hpabatch.engine.simulate.run import PROPOSED, RECORDED

    settings = {case.setting for case in loop.cases}
    setting = PROPOSED if PROPOSED in settings else RECORDED
    return [case for case in loop.cases if case.setting == setting]


def _tell(loop: Loop, history: str) -> None:
    """Write warnings and skipped HPAs to stderr."""
    tell((*loop.plan.warnings, *loop.notes))
    tell_skipped(loop.skipped, history)


def _report(result: LoopResult, written: Sequence[str]) -> SimulateReport:
    from hpabatch.engine.simulate.result import self_judged
    from hpabatch.report.simulate import SimulateReport

    return SimulateReport(
        evidence=result.loop.evidence,
        measures=result.measures,
        facts=result.loop.facts,
        skipped=result.loop.skipped,
        warnings=(*result.loop.plan.warnings, *result.loop.notes),
        written=written,
        self_judged=self_judged(result.loop),
    )


def _show(report: SimulateReport, output: Output) -> None:
    """Write the report to stdout."""
    show_report(report, output)
