"""`hpabatch fidelity`: how far the rules and the plants of a history can be trusted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_writable, parse_duration, selection
from hpabatch.cli.options import (
    DelayOption,
    GatesOption,
    HistoryArgument,
    HistoryK8sOption,
    MaxAgeOption,
    Output,
    OutputOption,
    PhaseOption,
    PlantOption,
    SyncPeriodOption,
    WhereOption,
)
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, RefusedError, UsageError

if TYPE_CHECKING:
    from hpabatch.engine.fidelity.run import Fidelity

_HELP = """Score how far each HPA's rules and plant can be trusted.

A simulation is the exact rules and a model of the workload (its plant). Two scores per HPA:

\b
controller  do the rules, replayed, decide the rescales that were recorded?
plant       does the plant, fitted on the first part of the history, predict what pods use in the
            minutes after their number changed in the rest, better than saying that they go on as
            before? It may know the work before the change, not the work after it: with that any
            plant would be right, since the number of pods cancels.

\b
"Not scorable" is an answer: where nothing changed, or too little, and for an Object or External
metric whose kind is not stated in a plant file. Advice on an HPA needs both scores; what it asks of
them is shown. One row per HPA goes to stdout; --changes FILE gets every change that was judged.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were left out (the others are scored).

\b
Examples:
  hpabatch fidelity history/
  hpabatch fidelity history/ --plant plants.yaml --where "namespace = 'shop'"
  hpabatch fidelity history/ --split 0.7 --minutes 10 --changes changes.parquet
  hpabatch fidelity history/ -o json | jq '.hpas[] | select(.advice) | .hpa'
"""

_MIN_SYNC_PERIOD_MS = 1000
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for; times in ms, None: not given."""

    history: str
    plant: tuple[str, ...]
    where: str | None
    split: float
    minutes: float
    changes: str | None
    k8s: str | None
    feature_gates: str
    sync_period_ms: int | None
    phase_ms: int | None
    delay_ms: int | None
    max_age_ms: int | None


@app.command(help=_HELP)
def fidelity(
    history: HistoryArgument,
    plant: PlantOption = None,
    where: WhereOption = None,
    split: Annotated[
        float,
        typer.Option(
            "--split", metavar="SHARE", help="Part of the history that plants are fitted on."
        ),
    ] = 0.5,
    minutes: Annotated[
        float,
        typer.Option("--minutes", metavar="N", help="How long after a change usage is judged."),
    ] = 5.0,
    changes: Annotated[
        str | None,
        typer.Option("--changes", metavar="FILE", help="Every judged change (Parquet)."),
    ] = None,
    sync_period: SyncPeriodOption = None,
    phase: PhaseOption = None,
    delay: DelayOption = None,
    max_age: MaxAgeOption = None,
    k8s: HistoryK8sOption = None,
    feature_gates: GatesOption = "",
    output: OutputOption = Output.table,
) -> None:
    """Score how far each HPA's rules and plant can be trusted."""

    def time(text: str | None, option: str, minimum_ms: int = 0) -> int | None:
        return None if text is None else parse_duration(text, option, minimum_ms)

    request = Request(
        history=history,
        plant=tuple(plant or ()),
        where=where,
        split=_share(split),
        minutes=_minutes(minutes),
        changes=_checked_place(changes),
        k8s=k8s,
        feature_gates=feature_gates,
        sync_period_ms=time(sync_period, "--sync-period", _MIN_SYNC_PERIOD_MS),
        phase_ms=time(phase, "--phase"),
        delay_ms=time(delay, "--delay"),
        max_age_ms=time(max_age, "--max-age", 1),
    )
    check_stdout(output)
    found = _score(request)
    _tell(found)
    if found.hpas.is_empty():
        raise RefusedError(f"{request.history}: no HPA could be scored")
    _write_changes(found, request.changes)
    _show(found, output)
    raise typer.Exit(EXIT_REFUSED if found.skipped else EXIT_OK)


def _share(value: float) -> float:
    if not 0 < value < 1:  # also refuses what is no number
        raise UsageError(
            f"--split {value:g}: give a share above 0 and below 1, such as 0.5: a plant is fitted "
            "on that part of the history and judged on the rest"
        )
    return value


def _minutes(value: float) -> float:
    if not 1 <= value <= 1440:
        raise UsageError(f"--minutes {value:g}: give a number from 1 to 1440, such as 5")
    return value


def _checked_place(changes: str | None) -> str | None:
    if changes is not None and os.path.isdir(changes):
        raise UsageError(f"--changes {changes} is a folder; name a file in it")
    if changes is not None:
        check_writable("--changes", Path(changes))
    return changes


def _score(request: Request) -> Fidelity:
    """Read and score."""
    from hpabatch.engine.fidelity.parameters import FidelityParameters
    from hpabatch.engine.fidelity.run import fidelity as engine
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.history.reader import open_history
    from hpabatch.inputs.plants import read_plant_file

    select = None if request.where is None else selection(request.where)
    plants = tuple(entry for path in request.plant for entry in read_plant_file(path))
    history = open_history(request.history, "replay")
    parameters = ReplayParameters(
        k8s=request.k8s,
        feature_gates=request.feature_gates,
        sync_period_ms=request.sync_period_ms,
        phase_ms=request.phase_ms,
        delay_ms=request.delay_ms,
        max_age_ms=request.max_age_ms,
    )
    choices = FidelityParameters(
        split_share=request.split, horizon_ms=round(request.minutes * _MINUTE_MS)
    )
    with share_on_stderr("simulate_fleet") as progress:
        return engine(history, parameters, choices, select, plants, progress)


def _tell(found: Fidelity) -> None:
    """Write warnings and HPAs left out to stderr."""
    tell(found.warnings)
    tell_skipped(found.skipped)


def _write_changes(found: Fidelity, place: str | None) -> None:
    """Write the judged changes (UsageError: the place cannot be written)."""
    if place is None:
        return
    from hpabatch.history.atomic import atomic_path
    from hpabatch.jobs.parquet import write_parquet

    with atomic_path(place) as temporary:
        write_parquet(found.changes, found.evidence, temporary)


def _show(found: Fidelity, output: Output) -> None:
    """Write the scores to stdout."""
    from hpabatch.report import fidelity as forms

    show_report(forms, found, output)
