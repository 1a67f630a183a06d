"""`hpabatch live`: every HPA of a cluster decided in one pass, beside its own controller."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.live import need_packages
from hpabatch.errors import UsageError
from hpabatch.live.loop.request import LiveRequest


@command(app)
def live(
    request: LiveRequest,
    output: Annotated[
        Literal["table", "wide", "json", "csv", "parquet"] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="table|wide|json|csv|parquet",
            help="Form of what --once prints.  [default: table]",
        ),
    ] = None,
) -> None:
    """Decide every HPA of a cluster in one pass, in the shadow of its own controller.

    Without --apply nothing in the cluster is ever changed. Every --every the metrics APIs are
    asked, once per cluster or namespace, all HPAs are decided by the exact rules of the cluster's
    version, and ours is compared with the status that the cluster's controller writes. HPAs, pods
    and workloads are watched.

    \b
    stdout gets a line for each decision that changed and each HPA about which the two do not agree
    (--log-format json: docs/live.md names the fields). --once makes one pass and prints it like
    `kubectl get hpa`. --record also writes everything that was seen to a store; `hpabatch replay
    --instants passes` makes the same decisions of it again.

    \b
    The version is the API server's. The controller's flags are read from its pod, where there is
    one; give others with --flag. What is remembered between passes (recommendations, scale events)
    is kept in --state and taken up again by a start soon after; --stateless forgets it, as
    Kubernetes does.

    \b
    --apply scales the targets: of own documents (--manifests), or of the cluster's HPAs
    (--take-over) while its own controller is off. docs/live-apply.md says who is refused, what is
    written, and how several instances take turns.

    \b
    Exit codes: 0 fine (also when interrupted), 2 the cluster or a file cannot be read, 3 with
    --once: a workload, an API or an HPA could not be read, or no rules apply to it (the rest is
    shown). A decision that fails as the controller's own would, for want of metrics say, is one.

    \b
    Examples:
      hpabatch live
      hpabatch live --once --output wide
      hpabatch live --in-cluster --metrics-addr :9099 --record history/
      hpabatch live --apply --manifests hpas/ --own-namespace hpabatch --dry-run
      hpabatch live --context staging -n shop --log-format json | jq 'select(.event == "differs")'
    """
    need_packages()
    from hpabatch.cli.live.run import run_live

    if output is not None and not request.once:
        raise UsageError("--output is of --once; without it lines are told: see --log-format")
    run_live(request, output or "table")
