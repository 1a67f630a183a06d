"""`hpabatch fit`: what can be known about each workload from a recorded history."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_writable
from hpabatch.cli.command import command
from hpabatch.cli.options import ExitCodeOption, HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import questions_told, say, tell
from hpabatch.engine.fit.request import FitRequest
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, UsageError
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpabatch.engine.fit.run import FleetFit


@command(app)
def fit(
    history: HistoryArgument,
    request: FitRequest,
    init_plant: Annotated[
        str | None,
        typer.Option(
            "--init-plant",
            metavar="FILE",
            help="New plant file with the open questions, each with the best guess.",
        ),
    ] = None,
    exit_code: ExitCodeOption = False,
    output: OutputOption = Output.table,
) -> int:
    """Fit the workloads of a history: what can be known about each.

    To simulate an HPA one must know its workload: how usage hangs on work and pods, what a pod uses
    without any work, what is the most it can use, how long it takes to start, how it is measured.
    Each of these is fitted with an interval, taken as recorded, assumed, or given in a plant file;
    "not identified" is an answer too. What a pod uses without work is only seen where the number of
    ready pods changed: over all ticks the controller keeps usage at its target whatever the base
    is.

    \b
    What drives a Pods, Object or External metric is taken from the changes of replicas where they
    tell, else guessed by its name; what hangs on a guess is marked. --init-plant writes these
    questions to a new file, each with the best guess, for `simulate --plant`.

    \b
    One row per HPA goes to stdout; JSON, CSV and Parquet have every fact: value, unit, 95 %
    interval, source (recorded, fitted, assumed, given, not identified) and how it was found. stderr
    says which HPAs cannot be simulated and what to do.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were left out (the others are
    fitted), 75 ended early (repeat the command); with --exit-code 3 also where an HPA has no plant.

    \b
    Examples:
      hpabatch fit history/
      hpabatch fit history/ --plant plants.yaml --where "namespace = 'shop'"
      hpabatch fit history/ --init-plant plant.yaml
      hpabatch fit history/ -o csv > facts.csv
      hpabatch fit history/ -o json | jq '.hpas[] | select(.plant | not) | .problems'
    """
    if init_plant is not None:
        _check_new(init_plant)
    from hpabatch.api.fits import fit as fits_of
    from hpabatch.history.reader import open_history

    source = open_history(history, "replay")
    with progress_on_stderr("observe_usage") as progress:
        fits = fits_of(source, request, progress)
    found = fits.result
    _tell(found, "" if init_plant else history)
    if init_plant is not None:
        _write_plant(found, history, [*request.plant, init_plant])
    show_report(fits, output)
    without = exit_code and any(not item.has_plant for item in found.hpas)
    return EXIT_REFUSED if found.skipped or without else EXIT_OK


def _check_new(place: str) -> None:
    """Refuse a plant file that is there already, or cannot be made (UsageError)."""
    if os.path.lexists(place):
        raise UsageError(
            f"--init-plant {place} is there already and may hold answers; name a new file"
        )
    check_writable("--init-plant", place)


def _write_plant(found: FleetFit, history: str, plants: Sequence[str]) -> None:
    """Write the questions of a fit as the last of some plant files, and say what to do with it."""
    from hpabatch.history.files import atomic_path
    from hpabatch.report.plant import plant_file, verdict_of

    place = plants[-1]
    with atomic_path(place) as temporary:
        quoted = [shlex.quote(name) for name in plants]
        temporary.write_text(plant_file(found, shlex.quote(history), quoted))
        _check_new(place)
    given = [word for name in plants for word in ("--plant", name)]
    command = shlex.join(["hpabatch", "simulate", history, *given])
    say(f"{place}: {verdict_of(found)}; check it, then {command}")


def _tell(report: FleetFit, history: str) -> None:
    """Write warnings, HPAs left out and HPAs without a plant to stderr; "": questions are asked."""
    from hpabatch.engine.fleet.candidates import UNKNOWN_DRIVER
    from hpabatch.report.base import label

    several = len({item.cluster for item in report.hpas}) > 1
    tell(report.warnings)
    for s in report.skipped:
        name = label(s.cluster, s.namespace, s.hpa, with_cluster=several)
        say(f"skipped: {printable(name)}: {s.reason}")
    asked = []
    for item in report.hpas:
        name = label(item.cluster, item.namespace, item.hpa, with_cluster=several)
        for problem in item.problems:
            if not problem.startswith(UNKNOWN_DRIVER):
                say(f"no plant: {printable(name)}: {problem}")
            elif name not in asked:
                asked.append(name)
    if asked:
        say(f"no plant: {questions_told(asked, history)}")
