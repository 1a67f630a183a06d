"""`hpabatch plan`: what HPAs would ask for without maxReplicas, at once, and against quotas."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_writable, parse_duration, selection
from hpabatch.cli.options import (
    GatesOption,
    HistoryArgument,
    HistoryK8sOption,
    LengthOption,
    Output,
    OutputOption,
    PhaseOption,
    PlantOption,
    PricesOption,
    ScenarioOption,
    SeedOption,
    SyncPeriodOption,
    WhereOption,
)
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.stdout import check_stdout, send, send_json, table_shape
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hpabatch.engine.capacity.run import CapacityOptions, CapacityPlan
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.history.reader import History

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
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were skipped (the others are planned).

\b
Examples:
  hpabatch plan history/
  hpabatch plan history/ --growth 1.0,1.5,2.0 --quota quotas.yaml --prices prices.yaml
  hpabatch plan history/ --quota prod=prod-quotas.yaml --quota dev=dev-quotas.yaml
  hpabatch plan history/ --where "namespace = 'shop'" -o csv --totals sums.csv > hpas.csv
  hpabatch plan history/ --scenario peak.yaml --plant plant.yaml --out plan/
"""


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for; times in ms, None: not given."""

    history: str
    growth: str
    quota: tuple[str, ...]
    prices: str | None
    scenario: str | None
    plant: tuple[str, ...]
    where: str | None
    k8s: str | None
    feature_gates: str
    seed: int
    length_ms: int | None
    sync_period_ms: int | None
    phase_ms: int | None
    totals: str | None
    out: str | None
    output: Output


@app.command(help=_HELP)
def plan(
    history: HistoryArgument,
    growth: Annotated[
        str, typer.Option("--growth", metavar="FACTORS", help="So many times the recorded work.")
    ] = "1.0",
    quota: Annotated[
        list[str] | None,
        typer.Option(
            "--quota",
            metavar="[CLUSTER=]FILE",
            help="ResourceQuota manifests (YAML, JSON); may be repeated.",
        ),
    ] = None,
    prices: PricesOption = None,
    scenario: ScenarioOption = None,
    plant: PlantOption = None,
    where: WhereOption = None,
    k8s: HistoryK8sOption = None,
    feature_gates: GatesOption = "",
    seed: SeedOption = 0,
    length: LengthOption = None,
    sync_period: SyncPeriodOption = None,
    phase: PhaseOption = None,
    totals: Annotated[
        str | None,
        typer.Option("--totals", metavar="FILE", help="The sums, as .csv or .parquet."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FOLDER", help="HPAs and sums as Parquet, in a new folder."),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Plan the capacity of the HPAs of a history."""
    request = Request(
        history=history,
        growth=growth,
        quota=tuple(quota or ()),
        prices=prices,
        scenario=scenario,
        plant=tuple(plant or ()),
        where=where,
        k8s=k8s,
        feature_gates=feature_gates,
        seed=seed,
        length_ms=None if length is None else parse_duration(length, "--for", 1000),
        sync_period_ms=(
            None if sync_period is None else parse_duration(sync_period, "--sync-period", 1000)
        ),
        phase_ms=None if phase is None else parse_duration(phase, "--phase"),
        totals=totals,
        out=out,
        output=output,
    )
    raise typer.Exit(_run(request))


def _run(request: Request) -> int:
    """Read, plan, write and tell; return the exit code."""
    check_stdout(request.output)
    _check_places(request)
    from hpabatch.engine.capacity.run import plan_capacity
    from hpabatch.history.reader import open_history

    history = open_history(request.history, "replay")
    options, notes = _options(request, history)
    select = None if request.where is None else selection(request.where)
    with share_on_stderr("simulate_fleet") as progress:
        found = plan_capacity(history, _parameters(request), options, select, progress)
        written = _write(request, found, progress)
    _tell(found, notes)
    _show(found, written, request.output)
    return EXIT_REFUSED if found.skipped else EXIT_OK


def _check_places(request: Request) -> None:
    """Refuse places to write to before anything is computed (UsageError)."""
    if request.out is not None:
        folder = Path(request.out)
        if os.path.exists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"--out {folder} is there already; name a new or empty folder")
        check_writable("--out", folder)
    if request.totals is not None:
        path = Path(request.totals)
        check_writable("--totals", path)
        if os.path.isdir(path):
            raise UsageError(f"--totals {path} is a folder; name a file in it")
        if path.suffix not in (".csv", ".parquet"):
            raise UsageError(f"--totals {path}: a name that ends with .csv or .parquet is wanted")


def _parameters(request: Request) -> ReplayParameters:
    from hpabatch.engine.fleet.parameters import ReplayParameters

    return ReplayParameters(
        k8s=request.k8s,
        feature_gates=request.feature_gates,
        events="decided",
        sync_period_ms=request.sync_period_ms,
        phase_ms=request.phase_ms,
    )


def _options(request: Request, history: History) -> tuple[CapacityOptions, tuple[str, ...]]:
    """Read the files that the command line names; return what is told of the quotas too."""
    from hpabatch.engine.capacity.run import CapacityOptions, growths_of
    from hpabatch.inputs.documents import digests_of
    from hpabatch.inputs.plants import read_plant_file
    from hpabatch.inputs.prices import read_price_file
    from hpabatch.inputs.quotas import file_of, read_quotas
    from hpabatch.inputs.scenarios import read_scenario

    growths = growths_of(request.growth)
    clusters = history.distinct("scales", ["cluster"])["cluster"].to_list()
    quotas = read_quotas(request.quota, clusters)
    quota_files = [file_of(text, clusters)[1] for text in request.quota]
    options = CapacityOptions(
        growths=growths,
        scenario=None if request.scenario is None else read_scenario(request.scenario),
        plants=tuple(entry for path in request.plant for entry in read_plant_file(path)),
        prices=None if request.prices is None else read_price_file(request.prices),
        quotas=quotas.quotas,
        seed=request.seed,
        length_ms=request.length_ms,
        files=digests_of((request.scenario, *request.plant, request.prices, *quota_files)),
    )
    return options, quotas.notes


def _write(
    request: Request, found: CapacityPlan, progress: Callable[[str, float], None]
) -> list[str]:
    """Write the files that were asked for; return what is told of them."""
    from hpabatch.history.atomic import atomic_path
    from hpabatch.jobs.parquet import write_parquet
    from hpabatch.report.capacity import to_csv

    written = []
    if request.totals is not None:
        progress("writing", 1.0)
        with atomic_path(request.totals) as temporary:
            if request.totals.endswith(".csv"):
                temporary.write_text(to_csv(found.totals))
            else:
                write_parquet(found.totals, found.evidence, temporary)
        written.append(f"sums: {request.totals}")
    if request.out is not None:
        progress("writing", 1.0)
        for name, frame in (("hpas", found.hpas), ("totals", found.totals)):
            with atomic_path(Path(request.out) / f"{name}.parquet") as temporary:
                write_parquet(frame, found.evidence, temporary)
        written.append(f"HPAs and sums: {request.out}")
    return written


def _tell(found: CapacityPlan, notes: Sequence[str]) -> None:
    """Write warnings and skipped HPAs to stderr."""
    tell((*notes, *found.notes))
    tell_skipped(found.skipped)


def _show(found: CapacityPlan, written: Sequence[str], output: Output) -> None:
    """Write the plan to stdout."""
    from hpabatch.report import capacity as forms

    match output:
        case Output.table:
            width, styled = table_shape()
            send(forms.to_table(found, written, width, styled=styled).encode())
        case Output.json:
            send_json(forms.to_json(found, written))
        case Output.csv:
            send(forms.to_csv(found.hpas).encode())
        case Output.parquet:
            send(forms.to_parquet(found.hpas, found.evidence))
