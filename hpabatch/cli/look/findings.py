"""`hpabatch findings`: what is wrong with the HPAs of a history."""

from __future__ import annotations

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.manifests import open_with_hpas
from hpabatch.cli.options import ExitCodeOption, HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell, tell_skipped
from hpabatch.engine.replay.request import ReplayRequest
from hpabatch.errors import EXIT_REFUSED


@command(app)
def findings(
    history: HistoryArgument,
    request: ReplayRequest,
    exit_code: ExitCodeOption = False,
    output: OutputOption = Output.table,
) -> int:
    """Tell what is wrong with the HPAs of a history.

    One row per HPA and finding, the worst first: its id, severity, the sentence with its numbers,
    what to do, and the numbers as JSON. They come from a replay of the history and from the last
    specs alone. docs/findings.md has the catalogue.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were skipped (the others are looked
    at), or with --exit-code there are findings.

    \b
    Examples:
      hpabatch findings history/
      hpabatch findings history/ -n shop -o csv > findings.csv
      hpabatch findings history/ -o json | jq '.[] | select(.severity == "high")'
    """
    with progress_on_stderr("replay_observations") as progress:
        from hpabatch.jobs.replay import plan_of
        from hpabatch.report.findings import findings_in

        progress("loading", 0.0)
        source, manifests, code = open_with_hpas(history, request)
        found = findings_in(plan_of(source, request, manifests), progress)
    tell(found.warnings)
    left_out = tell_skipped(found.skipped)
    show_report(found, output)
    return code or left_out or (EXIT_REFUSED if exit_code and found.found.height else 0)
