"""`hpabatch simulate`: the closed loop of rules and plants over a history's work."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.options import HistoryArgument, Output, OutputOption, file_option, folder_option
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.engine.simulate.request import SimulateRequest
from hpabatch.errors import RefusedError
from hpabatch.model.progress import Progress

if TYPE_CHECKING:
    from hpabatch.engine.simulate.case import SimulationCase
    from hpabatch.engine.simulate.result import LoopResult
    from hpabatch.engine.simulate.run import Loop


@command(app)
def simulate(
    history: HistoryArgument,
    request: SimulateRequest,
    trajectories: Annotated[
        str | None, file_option("--trajectories", "Every tick of every run (Parquet).")
    ] = None,
    export: Annotated[
        str | None,
        folder_option("--export", "New folder for the run, as a history to replay."),
    ] = None,
    output: OutputOption = Output.table,
) -> int:
    """Simulate the HPAs of a history in a closed loop.

    Fits every workload (see `hpabatch fit`), then runs its HPA against it: the exact rules decide,
    a model of the pods, their work and the metric pipeline answers. The setting "recorded" is the
    HPA as it was in force; with --hpas "proposed" is that of the manifests, on the same work. One
    row of measures per HPA and setting goes to stdout. docs/simulation.md says exactly what is
    modelled.

    \b
    The work is the recorded one, times --growth, or changed by --scenario (docs/scenarios.md). What
    is not known of a workload, such as what kind an External metric is, is stated in --plant;
    --prices turns requested hours into money. Rows that cannot be relied on are marked, with the
    reason; whether a workload's model deserves trust at all, `hpabatch fidelity` says.

    \b
    --trajectories writes every tick of every run as Parquet. --export makes one setting's run a
    history, which replays to the same decisions:
      hpabatch replay FOLDER --events decided (stderr gives all arguments)

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused or skipped (the others
    are simulated); 2 wins over 3.

    \b
    Examples:
      hpabatch simulate history/
      hpabatch simulate history/ --hpas proposed/ --growth 1.4 --prices prices.yaml
      hpabatch simulate history/ --scenario peak.yaml --where "namespace = 'shop'" -o csv > peak.csv
      hpabatch simulate history/ --plant plant.yaml --trajectories runs.parquet
      hpabatch simulate history/ --where "hpa = 'api'" --export run/
    """
    from hpabatch.api.simulations import prepare
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.engine.simulate.export import check_cases
    from hpabatch.engine.simulate.result import run_loop
    from hpabatch.history.reader import open_history
    from hpabatch.report.forms import write_frame
    from hpabatch.report.simulate import Simulation

    source, written = open_history(history, "replay"), []
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
        if trajectories is not None and result.points is not None:
            progress("writing trajectories", 1.0)
            write_frame(result.points, loop.evidence, trajectories)
            written.append(f"trajectories: {trajectories}")
        if export is not None:
            written.append(_export(result, Path(export), request.seed, progress))
    left_out = _tell(loop, history)
    show_report(Simulation.of(result, written=written), output)
    return code or left_out


def _export(result: LoopResult, folder: Path, seed: int, progress: Progress) -> str:
    """Write one setting's run as a history; return what is told of it."""
    from hpabatch.engine.simulate.export import export_run
    from hpabatch.history.files import atomic_folder
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


def _tell(loop: Loop, history: str) -> int:
    """Write warnings and skipped HPAs to stderr; return the exit code of that."""
    tell((*loop.plan.warnings, *loop.notes))
    return tell_skipped(loop.skipped, history)
