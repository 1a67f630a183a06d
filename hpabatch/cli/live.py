"""Commands that watch a cluster: live, record."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Literal

import typer

from hpabatch.cli.app import app, command
from hpabatch.errors import UsageError
from hpabatch.live.loop.request import LiveRequest, RecordRequest


def _need_packages() -> None:
    """Refuse where packages are not installed that only a cluster needs (UsageError)."""
    for package in ("httpx2", "prometheus_client"):
        if find_spec(package) is None:
            raise UsageError(
                f"{package} is not installed: `pip install 'hpabatch[live]'` (in a clone: "
                "`pip install -e '.[live]'`) brings what a cluster needs"
            )


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
    version, and ours is compared with the status that the cluster's controller writes. stdout gets
    a line for each decision that changed and each HPA about which the two do not agree
    (docs/live.md); --once makes one pass and prints it like `kubectl get hpa`.

    The controller's flags are read from its pod, where there is one; give others with --flag. What
    is remembered between passes (recommendations, scale events) is kept in --state and taken up
    again by a start soon after; --stateless forgets it, as Kubernetes does.

    \b
    --apply scales the targets: of own documents (--manifests), or of the cluster's HPAs
    (--take-over) while its own controller is off. docs/live-apply.md says who is refused, what is
    written, and how several instances take turns.

    Exit code 3, with --once: a workload, an API or an HPA could not be read, or no rules apply to
    it. A decision that fails as the controller's own would, for want of metrics say, is one.

    \b
    Examples:
      hpabatch live --once --output wide
      hpabatch live --in-cluster --metrics-addr :9099 --record history/
      hpabatch live --apply --manifests hpas/ --own-namespace hpabatch --dry-run
      hpabatch live --context staging -n shop --log-format json | jq 'select(.event == "differs")'
    """
    _need_packages()
    from hpabatch.cli.live_run import run_live

    if output is not None and not request.once:
        raise UsageError(
            "--output works only with --once; otherwise the log is printed (--log-format)"
        )
    run_live(request, output or "table")


@command(app)
def record(request: RecordRequest) -> None:
    """Record a cluster's HPAs, their targets, pods and metrics into a history.

    Nothing in the cluster is ever changed. HPAs, pods and workloads are watched, and every --every
    the metrics APIs are asked what HPAs look at. The store --out grows by segments; a kill loses at
    most the open one. Days that are over are compacted. --instants passes makes the decisions of
    every pass again. Problems are reported on stderr when they change.

    \b
    Examples:
      hpabatch record --out history/ --every 30s --context prod -n shop -n payments
      hpabatch record --out s3://bucket/history --in-cluster --segment 1m
    """
    _need_packages()
    from hpabatch.cli.live_run import run_live

    run_live(request.as_live(), compares=False)
