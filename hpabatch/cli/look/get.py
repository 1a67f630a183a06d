"""`hpabatch get`: the table of `kubectl get hpa`, from a history."""

from __future__ import annotations

from dataclasses import replace

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.moments import hpas_at
from hpabatch.cli.options import HistoryArgument, Output, OutputOption
from hpabatch.cli.stdout import show_report
from hpabatch.engine.explain.request import GetRequest


@command(app)
def get(
    history: HistoryArgument,
    request: GetRequest,
    output: OutputOption = Output.table,
) -> int:
    """Show a history's HPAs as `kubectl get hpa` would have.

    The status is the one that the exact rules give over the recorded replicas and metrics: every
    sync until --at is decided. AGE counts to --at. The layout is that of the Kubernetes version:
    from 1.30 on TARGETS names the resource. HPAs that were not there at --at are left out.

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
    from hpabatch.api.statuses import statuses

    found, code = hpas_at(history, request, statuses)
    show_report(replace(found, with_namespace=len(request.namespace) != 1), output)
    return code
