"""`hpabatch explain`: the arithmetic of one decision, step by step."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import parse_at, parse_duration
from hpabatch.cli.look.replay import Instants
from hpabatch.cli.manifests import load_hpas
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
)
from hpabatch.cli.progress import must_compile, progress_on_stderr
from hpabatch.cli.stdout import check_stdout, send, send_json, table_shape
from hpabatch.cli.talk import say

if TYPE_CHECKING:
    from hpabatch.engine.explain.facts import Explanation
    from hpabatch.engine.fleet.parameters import ReplayParameters

_HELP = """Explain one decision of a history: every rule's arithmetic, in order.

Each line is a step: its numbers, what it decided, and in brackets the function of Kubernetes' own
controller that it follows. The numbers are those of the compiled rules themselves: every sync
before the one that is explained is decided first, and an explanation whose end differs from the
decision is an error.

\b
The sync explained is the last one at or before --at; its exact time is shown. HPA is
NAMESPACE/NAME, with CLUSTER/ in front where several clusters have one of that name. JSON has every
number and every pod; of many pods the text names the first ones.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 the HPA cannot be replayed, or some manifests were
refused.

\b
Examples:
  hpabatch explain history/ shop/web
  hpabatch explain history/ shop/web --at "2026-10-07 14:03"
  hpabatch explain history/ eu/shop/web --at 2026-10-07T16:03:00+02:00 --k8s 1.32
  hpabatch explain history/ shop/web --hpas proposed/ --events decided
  hpabatch explain history/ shop/web -o json | jq '.metrics[0].pods[] | select(.group != "ready")'
"""

_MIN_SYNC_PERIOD_MS = 1000
_COMPILING = "compiling the rules, once, about 25 s"


class ExplainOutput(StrEnum):
    """The form of what stdout gets."""

    table = "table"
    json = "json"


@app.command(help=_HELP)
def explain(
    history: HistoryArgument,
    hpa: Annotated[str, typer.Argument(metavar="NAMESPACE/HPA", help="Whose decision.")],
    at: AtOption = None,
    hpas: HpasOption = None,
    events: EventsOption = Events.recorded,
    instants: Annotated[
        Instants,
        typer.Option(
            "--instants",
            help="Decide at every sync, when the controller was recorded to, or at a live loop's "
            "passes.",
        ),
    ] = Instants.grid,
    k8s: HistoryK8sOption = None,
    feature_gates: GatesOption = "",
    sync_period: SyncPeriodOption = None,
    phase: PhaseOption = None,
    delay: DelayOption = None,
    max_age: MaxAgeOption = None,
    output: Annotated[
        ExplainOutput, typer.Option("--output", "-o", help="Form of what stdout gets.")
    ] = ExplainOutput.table,
) -> None:
    """Explain one decision of a history: every rule's arithmetic, in order."""
    from hpabatch.engine.fleet.parameters import ReplayParameters

    def time(text: str | None, option: str, minimum_ms: int = 0) -> int | None:
        return None if text is None else parse_duration(text, option, minimum_ms)

    check_stdout(Output.json)
    parameters = ReplayParameters(
        k8s=k8s,
        feature_gates=feature_gates,
        events=events.value,
        instants=instants.value,
        sync_period_ms=time(sync_period, "--sync-period", _MIN_SYNC_PERIOD_MS),
        phase_ms=time(phase, "--phase"),
        delay_ms=time(delay, "--delay"),
        max_age_ms=time(max_age, "--max-age", 1),
        until_ms=None if at is None else parse_at(at),
    )
    explanation, code = _explain(history, hpa, tuple(hpas or ()), parameters)
    for warning in explanation.warnings:
        say(f"warning: {warning}")
    _show(explanation, output)
    raise typer.Exit(code)


def _explain(
    path: str, name: str, paths: tuple[str, ...], parameters: ReplayParameters
) -> tuple[Explanation, int]:
    """Return the explanation and the exit code of the manifests."""
    with progress_on_stderr() as progress:
        progress.step("loading")
        from hpabatch.engine.explain.run import explain_history
        from hpabatch.engine.fleet.versions import history_profile
        from hpabatch.history.reader import open_history

        # Manifests stand in for the table of HPAs; every other table is still asked for when read.
        history = open_history(path, None if paths else "replay")
        manifests, code = None, 0
        if paths:
            profile = history_profile(history, parameters.k8s, parameters.feature_gates)
            manifests, code = load_hpas(paths, profile)
        if must_compile():
            progress.say(_COMPILING)
        progress.step("deciding")
        return explain_history(history, parameters, name, manifests), code


def _show(explanation: Explanation, output: ExplainOutput) -> None:
    """Write the explanation to stdout."""
    from hpabatch.report.explain.document import to_json, to_table

    if output is ExplainOutput.json:
        send_json(to_json(explanation))
    else:
        width, styled = table_shape()
        send(to_table(explanation, width, styled=styled).encode())
