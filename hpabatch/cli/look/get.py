"""`hpabatch get`: the table of `kubectl get hpa`, from a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.moments import read_hpas_then, tell_left_out
from hpabatch.cli.options import HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.engine.explain.request import GetRequest

if TYPE_CHECKING:
    pass

_HELP = """Show a history's HPAs as `kubectl get hpa` would have.

The status is the one that the exact rules give over the recorded replicas and metrics: every sync
until --at is decided. AGE counts to --at. The layout is that of the Kubernetes version: from 1.30
on TARGETS names the resource. HPAs that were not there at --at are left out.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs cannot be replayed or, asked for by
name, were not there (the others are shown); 2 wins over 3.

\b
Examples:
  hpabatch get history/
  hpabatch get history/ -n shop --at "2026-10-07 14:03"
  hpabatch get history/ shop/web shop/cart --k8s 1.20
  hpabatch get history/ --hpas proposed/ -o json | jq '.items[].status.conditions'
"""


@command(app, _HELP)
def get(
    history: HistoryArgument,
    request: GetRequest,
    output: OutputOption = Output.table,
) -> None:
    """Show a history's HPAs as `kubectl get hpa` would have."""
    check_stdout(output)
    from hpabatch.api.statuses import statuses

    then, code = read_hpas_then(history, request)
    with progress_on_stderr() as progress:
        found = statuses(then, progress)
    code = tell_left_out(found.left_out, bool(found.documents), found.at_ms) or code
    show_report(found.report(len(request.namespace) != 1), output)
    raise typer.Exit(code)
