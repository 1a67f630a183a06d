"""`hpabatch describe`: the text of `kubectl describe hpa`, from a history."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import parse_duration
from hpabatch.cli.moments import MomentRequest, open_moments
from hpabatch.cli.options import (
    AtOption,
    DelayOption,
    Events,
    EventsOption,
    GatesOption,
    HistoryArgument,
    HistoryK8sOption,
    HpasOption,
    MaxAgeOption,
    Output,
    PhaseOption,
    SyncPeriodOption,
    WhereOption,
)
from hpabatch.cli.stdout import check_stdout, send_json, send_text

if TYPE_CHECKING:
    from hpabatch.engine.explain.moment import Moment
    from hpabatch.model.events import Event
    from hpabatch.model.objects.hpa import HPA

_HELP = """Describe HPAs of a history as `kubectl describe hpa` would have.

Conditions, current metrics and events are those that the exact rules give over the recorded
replicas and metrics: every sync until --at is decided. Events are those of the last --events-for
(the API server forgets them after an hour), equal ones counted together.

\b
A target that was not scaled as the rules say is asked to scale again at every sync, so an event
may count more often than a cluster's own controller recorded it.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs cannot be replayed or were not there at
--at (the others are shown); 2 wins over 3.

\b
Examples:
  hpabatch describe history/ shop/web
  hpabatch describe history/ shop/web --at "2026-10-07 14:03"
  hpabatch describe history/ web --k8s 1.36 -o json | jq '.items[].events'
"""


class DescribeOutput(StrEnum):
    """The form of what stdout gets."""

    table = "table"
    json = "json"


@app.command(help=_HELP)
def describe(
    history: HistoryArgument,
    names: Annotated[list[str], typer.Argument(metavar="[NAMESPACE/]HPA…", help="Which HPAs.")],
    at: AtOption = None,
    events_for: Annotated[
        str, typer.Option("--events-for", metavar="TIME", help="How far back events go.")
    ] = "1h",
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only HPAs of this namespace.")
    ] = None,
    where: WhereOption = None,
    hpas: HpasOption = None,
    k8s: HistoryK8sOption = None,
    feature_gates: GatesOption = "",
    events: EventsOption = Events.recorded,
    sync_period: SyncPeriodOption = None,
    phase: PhaseOption = None,
    delay: DelayOption = None,
    max_age: MaxAgeOption = None,
    output: Annotated[
        DescribeOutput, typer.Option("--output", "-o", help="Form of what stdout gets.")
    ] = DescribeOutput.table,
) -> None:
    """Describe HPAs of a history as `kubectl describe hpa` would have."""
    check_stdout(Output.table)
    back_ms = parse_duration(events_for, "--events-for")
    reader = open_moments(
        MomentRequest(
            history, tuple(names), namespace, where, at, tuple(hpas or ()), k8s,
            feature_gates, events, sync_period, phase, delay, max_age,
        )
    )  # fmt: skip
    from hpabatch.report.kubectl.describe import describe_text

    texts: list[str] = []
    items: list[dict[str, object]] = []
    for moment in reader.read():
        document = reader.metadata.document(moment)
        found = moment.events(reader.at_ms - back_ms + 1)
        version = reader.plan.versions.name_of(moment.candidate.cluster)
        texts.append(describe_text(document, found, reader.at_ms, k8s=version))
        items.append(_item(moment, document, found))
    if output is DescribeOutput.json:
        send_json(json.dumps({"items": items}, indent=2, ensure_ascii=False) + "\n")
    else:
        send_text("\n\n".join(texts))
    raise typer.Exit(reader.code)


def _item(moment: Moment, document: HPA, events: list[Event]) -> dict[str, object]:
    """Return what JSON says of one HPA."""
    from hpabatch.model.times import show_api_time
    from hpabatch.report.kubectl.manifest import live_document

    outcome = moment.reader.outcome(moment.words, moment.t)
    return {
        "cluster": moment.candidate.cluster,
        "sync": show_api_time(moment.now_ms),
        "k8s": moment.shard.profile.name,
        "hpa": live_document(document),
        "error": outcome.error,
        "events": [
            {
                "type": e.type,
                "reason": e.reason,
                "message": e.message,
                "count": e.count,
                "firstTimestamp": show_api_time(e.first_ms),
                "lastTimestamp": show_api_time(e.last_ms),
            }
            for e in events
        ],
    }
