"""`hpabatch live`: every HPA of a cluster decided in one pass, beside its own controller."""

from __future__ import annotations

from typing import Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import parse_duration
from hpabatch.cli.live.options import (
    AtOnceOption,
    BudgetOption,
    ClusterOption,
    ContextOption,
    EveryOption,
    FlagOption,
    InClusterOption,
    KubeconfigOption,
    LiveK8sOption,
    LogFormatOption,
    MetricsAddressOption,
    NamespacesOption,
    SegmentOption,
)
from hpabatch.cli.options import GatesOption
from hpabatch.cli.stdout import check_stdout
from hpabatch.errors import UsageError

_HELP = """Decide every HPA of a cluster in one pass, in the shadow of its own controller.

Nothing in the cluster is ever changed. Every --every the metrics APIs are asked, once per cluster
or namespace, all HPAs are decided by the exact rules of the cluster's version, and ours is compared
with the status that the cluster's controller writes. HPAs, pods and workloads are watched.

\b
stdout gets a line for each decision that changed and each HPA about which the two do not agree
(--log-format json: docs/live.md names the fields). --once makes one pass and prints it like
`kubectl get hpa`. --record also writes everything that was seen to a store; `hpabatch replay
--instants passes` makes the same decisions of it again.

\b
The version is the API server's. The controller's flags are read from its pod, where there is one;
give others with --flag. What is remembered between passes (recommendations, scale events) is kept
in --state and taken up again by a start soon after; --stateless forgets it, as Kubernetes does.

\b
Exit codes: 0 fine (also when interrupted), 2 the cluster or a file cannot be read, 3 with --once:
a workload, an API or an HPA could not be read, or no rules apply to it (the rest is shown). A
decision that fails as the controller's own would, for want of metrics say, is one.

\b
Examples:
  hpabatch live
  hpabatch live --once --output wide
  hpabatch live --in-cluster --metrics-addr :9099 --record history/
  hpabatch live --context staging -n shop --log-format json | jq 'select(.event == "differs")'
"""


@app.command(help=_HELP)
def live(
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    in_cluster: InClusterOption = False,
    namespaces: NamespacesOption = None,
    cluster: ClusterOption = None,
    every: EveryOption = None,
    k8s: LiveK8sOption = None,
    feature_gates: GatesOption = "",
    flags: FlagOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="One pass, printed like `kubectl get hpa`.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="table|wide|json|csv|parquet",
            help="Of --once.  [default: table]",
        ),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option("--record", metavar="HISTORY", help="A store that gets what is seen."),
    ] = None,
    segment: SegmentOption = "5m",
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="Where it is kept what is remembered.  [default: in the user's state folder]",
        ),
    ] = None,
    stateless: Annotated[
        bool, typer.Option("--stateless", help="Remember nothing from before the start.")
    ] = False,
    state_max_age: Annotated[
        str,
        typer.Option("--state-max-age", metavar="TIME", help="An older state is not taken up."),
    ] = "5m",
    metrics_addr: MetricsAddressOption = None,
    log_format: LogFormatOption = "text",
    fetch_budget: BudgetOption = "10s",
    fetch_at_once: AtOnceOption = 8,
) -> None:
    """Decide every HPA of a cluster in one pass, in the shadow of its own controller."""
    from hpabatch.cli.live.run import LiveRequest, run_live

    if output is not None and not once:
        raise UsageError("--output is of --once; without it lines are told: see --log-format")
    if once and (record is not None or metrics_addr is not None):
        raise UsageError("--once excludes --record and --metrics-addr: one pass is only printed")
    if stateless and state is not None:
        raise UsageError("--stateless excludes --state: give one of them")
    form = output or "table"
    if form not in ("table", "wide", "json", "csv", "parquet"):
        raise UsageError(f"--output {form}: none of table, wide, json, csv, parquet")
    if form == "parquet":
        from hpabatch.cli.options import Output

        check_stdout(Output.parquet)
    run_live(
        LiveRequest(
            kubeconfig=kubeconfig,
            context=context,
            in_cluster=in_cluster,
            namespaces=tuple(namespaces or ()),
            cluster=cluster,
            every_ms=None if every is None else parse_duration(every, "--every", minimum_ms=100),
            k8s=k8s,
            feature_gates=feature_gates,
            flags=tuple(flags or ()),
            record=record,
            segment_ms=parse_duration(segment, "--segment", minimum_ms=1000),
            state=state,
            stateless=stateless or once,
            state_max_age_ms=parse_duration(state_max_age, "--state-max-age"),
            metrics_addr=metrics_addr,
            log_format=log_format,
            fetch_budget_ms=parse_duration(fetch_budget, "--fetch-budget", minimum_ms=100),
            fetch_at_once=fetch_at_once,
            once=form if once else None,
        )
    )
