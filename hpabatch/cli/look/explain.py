"""`hpabatch explain`: the arithmetic of one decision, step by step."""

from __future__ import annotations

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.manifests import open_with_hpas
from hpabatch.cli.options import HistoryArgument, Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell
from hpabatch.engine.explain.request import ExplainRequest


@command(app)
def explain(
    history: HistoryArgument,
    request: ExplainRequest,
    output: OutputOption = Output.table,
) -> int:
    """Explain one decision of a history: every rule's arithmetic, in order.

    Each line is a step: its numbers, what it decided, and in brackets the function of Kubernetes'
    own controller that it follows. The numbers are those of the compiled rules themselves: every
    sync before the one that is explained is decided first.

    \b
    The sync explained is the last one at or before --at; its exact time is shown. HPA is
    NAMESPACE/NAME, with CLUSTER/ in front where several clusters have one of that name. JSON has
    every number and every pod; of many pods the text names the first ones.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 the HPA cannot be replayed, or some manifests
    were refused.

    \b
    Examples:
      hpabatch explain history/ shop/web
      hpabatch explain history/ shop/web --at "2026-10-07 14:03"
      hpabatch explain history/ eu/shop/web --at 2026-10-07T16:03:00+02:00 --k8s 1.32
      hpabatch explain history/ shop/web --hpas proposed/ --events decided
      hpabatch explain history/ web -o json | jq '.metrics[0].pods[] | select(.group != "ready")'
    """
    with progress_on_stderr("replay_observations") as progress:
        progress("loading", 0.0)
        from hpabatch.engine.explain.run import explain_history
        from hpabatch.engine.fleet.parameters import replay_parameters
        from hpabatch.report.explain.document import Explained

        source, manifests, code = open_with_hpas(history, request)
        progress("deciding", 0.5)
        facts = explain_history(source, replay_parameters(request), request.hpa, manifests)
    tell(facts.warnings)
    show_report(Explained(facts), output)
    return code
