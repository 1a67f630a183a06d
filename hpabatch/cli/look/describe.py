"""`hpabatch describe`: the text of `kubectl describe hpa`, from a history."""

from __future__ import annotations

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.moments import hpas_at
from hpabatch.cli.options import HistoryArgument, Output, OutputOption
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell
from hpabatch.engine.explain.request import DescribeRequest


@command(app)
def describe(
    history: HistoryArgument,
    request: DescribeRequest,
    output: OutputOption = Output.table,
) -> int:
    """Describe HPAs of a history as `kubectl describe hpa` would have.

    Conditions, current metrics and events are those that the exact rules give over the recorded
    replicas and metrics: every sync until --at is decided. Events are those of the last
    --events-for (the API server forgets them after an hour), equal ones counted together.

    \b
    A target that was not scaled as the rules say is asked to scale again at every sync, so an event
    may count more often than a cluster's own controller recorded it.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs cannot be replayed or were not there
    at --at (the others are shown); 2 wins over 3.

    \b
    Examples:
      hpabatch describe history/ shop/web
      hpabatch describe history/ shop/web --at "2026-10-07 14:03"
      hpabatch describe history/ web --k8s 1.36 -o json | jq '.items[].events'
    """
    from hpabatch.api.statuses import descriptions

    found, code = hpas_at(
        history,
        request,
        lambda then, progress: descriptions(then, request.events_for_ms, progress),
    )
    tell(found.notes, "note")
    show_report(found, output)
    return code
