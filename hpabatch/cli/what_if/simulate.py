"""`hpabatch simulate`: the closed loop of rules and plants over a history's work."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import (
    check_replaced_folder,
    check_writable,
    parse_duration,
    selection,
)
from hpabatch.cli.manifests import load_hpas
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
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, RefusedError, UsageError

if TYPE_CHECKING:
    from hpabatch.engine.simulate.case import SimulationCase
    from hpabatch.engine.simulate.result import LoopResult
    from hpabatch.engine.simulate.run import Loop, LoopOptions
    from hpabatch.history.reader import History
    from hpabatch.model.versions import Profile
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


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for; times in ms, None: not given."""

    history: str
    manifests: tuple[str, ...]
    scenario: str | None
    growth: str | None
    plant: tuple[str, ...]
    prices: str | None
    where: str | None
    k8s: str | None
    feature_gates: str
    seed: int
    keep_gaps: bool
    noise: bool
    length_ms: int | None
    sync_period_ms: int | None
    phase_ms: int | None
    trajectories: str | None
    export: str | None
    output: Output


@app.command(help=_HELP)
def simulate(
    history: HistoryArgument,
    hpas: Annotated[
        list[str] | None,
        typer.Option("--hpas", metavar="PATH", help="Manifests to compare with; may be repeated."),
    ] = None,
    scenario: ScenarioOption = None,
    growth: GrowthOption = None,
    plant: PlantOption = None,
    prices: PricesOption = None,
    where: WhereOption = None,
    k8s: HistoryK8sOption = None,
    feature_gates: GatesOption = "",
    seed: SeedOption = 0,
    gaps: GapsOption = Gaps.keep,
    noise: NoiseOption = Noise.off,
    length: LengthOption = None,
    sync_period: LoopPeriodOption = None,
    phase: PhaseOption = None,
    trajectories: Annotated[
        str | None,
        typer.Option("--trajectories", metavar="FILE", help="Every tick of every run (Parquet)."),
    ] = None,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="FOLDER", help="The run as a history (a new folder)."),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Simulate the HPAs of a history in a closed loop."""
    request = Request(
        history=history,
        manifests=tuple(hpas or ()),
        scenario=scenario,
        growth=growth,
        plant=tuple(plant or ()),
        prices=prices,
        where=where,
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
        trajectories=trajectories,
        export=export,
        output=output,
    )
    raise typer.Exit(_run(request))


def _run(request: Request) -> int:
    """Read, fit, simulate, write and tell; return the exit code."""
    check_stdout(request.output)
    _check_places(request)
    from hpabatch.engine.fleet.versions import history_profile
    from hpabatch.engine.simulate.export import check_cases
    from hpabatch.engine.simulate.result import run_loop
    from hpabatch.history.reader import open_history

    history = open_history(request.history, "replay")
    profile = history_profile(history, request.k8s, request.feature_gates)
    with share_on_stderr("simulate_fleet") as progress:
        loop, options, code = _prepare(request, history, profile, progress)
        if not loop.cases:
            _tell(loop)
            raise RefusedError(f"{request.history}: no HPA could be simulated")
        if request.export is not None:
            check_cases(_exported(loop))
        result = run_loop(loop, options, progress)
        written = _write(request, result, progress)
    _tell(loop)
    _show(_report(result, written), request.output)
    return code or (EXIT_REFUSED if loop.skipped else EXIT_OK)


def _check_places(request: Request) -> None:
    """Refuse places to write to before anything is computed (UsageError)."""
    if request.export is not None:
        check_replaced_folder(request.export, "--export")
        folder = Path(request.export)
        if os.path.exists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--export {folder} is there already; name a new or empty folder")
        check_writable("--export", folder)
    if request.trajectories is not None:
        if os.path.isdir(request.trajectories):
            raise UsageError(
                f"--trajectories {request.trajectories} is a folder; name a file in it"
            )
        check_writable("--trajectories", Path(request.trajectories))


def _prepare(
    request: Request, history: History, profile: Profile, progress: Report
) -> tuple[Loop, LoopOptions, int]:
    """Read what the command line names, and fit; return the manifests' exit code too."""
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.engine.simulate.run import LoopOptions, prepare_loop
    from hpabatch.inputs.documents import digests_of
    from hpabatch.inputs.plants import read_plant_file
    from hpabatch.inputs.prices import read_price_file
    from hpabatch.inputs.scenarios import grown_scenario

    manifests, code = load_hpas(request.manifests, profile)
    options = LoopOptions(
        manifests=None if manifests is None else tuple(manifests),
        scenario=grown_scenario(request.scenario, request.growth),
        plants=tuple(entry for path in request.plant for entry in read_plant_file(path)),
        prices=None if request.prices is None else read_price_file(request.prices),
        seed=request.seed,
        keep_gaps=request.keep_gaps,
        noise=request.noise,
        length_ms=request.length_ms,
        keep_points=request.trajectories is not None,
        files=digests_of((request.scenario, *request.plant, request.prices)),
    )
    parameters = ReplayParameters(
        k8s=request.k8s,
        feature_gates=request.feature_gates,
        events="decided",
        sync_period_ms=request.sync_period_ms,
        phase_ms=request.phase_ms,
    )
    select = None if request.where is None else selection(request.where)
    return prepare_loop(history, parameters, options, select, progress), options, code


def _write(request: Request, result: LoopResult, progress: Report) -> list[str]:
    """Write trajectories and the exported run; return what is told of them."""
    from hpabatch.history.atomic import atomic_path
    from hpabatch.jobs.parquet import write_parquet

    written = []
    if request.trajectories is not None and result.points is not None:
        progress("writing trajectories", 1.0)
        with atomic_path(request.trajectories) as temporary:
            write_parquet(result.points, result.loop.evidence, temporary)
        written.append(f"trajectories: {request.trajectories}")
    if request.export is not None:
        arguments = _export(request, result, progress)
        setting = _exported(result.loop)[0].setting
        command = shlex.join(["hpabatch", "replay", request.export, *arguments])
        written.append(f"exported run ({setting}): {command}")
    return written


def _export(request: Request, result: LoopResult, progress: Report) -> tuple[str, ...]:
    """Write one setting's run as a history: the proposed one where there is one."""
    from hpabatch.engine.simulate.export import export_run
    from hpabatch.history.store.writer import write_table

    run = export_run(
        _exported(result.loop),
        result.loop.plan.versions.one(),
        request.seed,
        lambda share: progress("exporting the run", share),
    )
    # In a folder beside it first: a history is there whole or not at all.
    folder = Path(str(request.export))
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for name, frame in run.tables.items():
        write_table(frame, unfinished / f"{name}.parquet", name)
    if folder.exists():
        folder.rmdir()
    unfinished.rename(folder)
    return (*run.arguments, "--out", "decisions.parquet")


def _exported(loop: Loop) -> list[SimulationCase]:
    """Return the cases of the setting that is exported: the proposed one where there is one."""
    from hpabatch.engine.simulate.run import PROPOSED, RECORDED

    settings = {case.setting for case in loop.cases}
    setting = PROPOSED if PROPOSED in settings else RECORDED
    return [case for case in loop.cases if case.setting == setting]


def _tell(loop: Loop) -> None:
    """Write warnings and skipped HPAs to stderr."""
    tell((*loop.plan.warnings, *loop.notes))
    tell_skipped(loop.skipped)


def _report(result: LoopResult, written: Sequence[str]) -> SimulateReport:
    from hpabatch.report.simulate import SimulateReport

    return SimulateReport(
        evidence=result.loop.evidence,
        measures=result.measures,
        facts=result.loop.facts,
        skipped=result.loop.skipped,
        warnings=(*result.loop.plan.warnings, *result.loop.notes),
        written=written,
    )


def _show(report: SimulateReport, output: Output) -> None:
    """Write the report to stdout."""
    from hpabatch.report import simulate as forms

    show_report(forms, report, output)
