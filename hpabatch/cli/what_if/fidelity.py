"""`hpabatch fidelity`: how far the rules and the plants of a history can be trusted."""

from __future__ import annotations

from typing import Annotated

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.options import HistoryArgument, Output, OutputOption, file_option
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.errors import RefusedError


@command(app)
def fidelity(
    history: HistoryArgument,
    request: FidelityRequest,
    changes: Annotated[
        str | None, file_option("--changes", "File for every judged change (Parquet).")
    ] = None,
    output: OutputOption = Output.table,
) -> int:
    """Score how far each HPA's rules and plant can be trusted.

    A simulation is the exact rules and a model of the workload (its plant). Two scores per HPA:

    \b
    controller  do the rules, replayed, decide the rescales that were recorded?
    plant       does the plant, fitted on the first part of the history, predict what pods use in
                the minutes after their number changed in the rest, better than saying that they go
                on as before? It may know the work before the change, not the work after it: with
                that any plant would be right, since the number of pods cancels.

    \b
    "Not scorable" is an answer: where nothing changed, or too little, and for an Object or External
    metric whose kind is not stated in a plant file. ADVICE is the highest confidence that both
    scores leave to `hpabatch advise`; when a score is good is shown. One row per HPA goes to
    stdout; --changes FILE gets every change that was judged.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were left out (the others are
    scored), 75 ended early (repeat the command).

    \b
    Examples:
      hpabatch fidelity history/
      hpabatch fidelity history/ --plant plants.yaml --where "namespace = 'shop'"
      hpabatch fidelity history/ --split 0.7 --horizon 10m --changes changes.parquet
      hpabatch fidelity history/ -o json | jq '.hpas[] | select(.advice) | .hpa'
    """
    from hpabatch.api.fits import fidelity as scores_of
    from hpabatch.history.reader import open_history
    from hpabatch.report.forms import write_frame

    source = open_history(history, "replay")
    with progress_on_stderr("walk_observations") as progress:
        found = scores_of(source, request, progress)
    tell(found.warnings)
    left_out = tell_skipped(found.skipped, history)
    if found.hpas.is_empty():
        raise RefusedError(f"{history}: no HPA could be scored")
    if changes is not None:
        write_frame(found.changes, found.evidence, changes)
    show_report(found, output)
    return left_out
