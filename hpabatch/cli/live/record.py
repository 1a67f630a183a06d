"""`hpabatch record`: write down what HPAs, their pods and metrics do, for later questions."""

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

_HELP = """Record a cluster's HPAs, their targets, pods and metrics into a history.

Nothing in the cluster is ever changed. HPAs, pods and workloads are watched, and every --every the
metrics APIs are asked what HPAs look at. The store --out grows by segments; a kill loses at most
the open one. Days that are over are compacted. What was recorded can be replayed, fitted, swept and
planned with like any history; --instants passes makes the decisions of every pass again. What is
wrong is told on stderr when it changes.

\b
Exit codes: 0 fine (also when interrupted), 2 the cluster or a file cannot be read, 3 refused.

\b
Examples:
  hpabatch record --out history/
  hpabatch record --out history/ --every 30s --context prod -n shop -n payments
  hpabatch record --out s3://bucket/history --in-cluster --segment 1m
"""


@app.command(help=_HELP)
def record(
    out: Annotated[
        str, typer.Option("--out", metavar="HISTORY", help="The store that gets the rows.")
    ],
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    in_cluster: InClusterOption = False,
    namespaces: NamespacesOption = None,
    cluster: ClusterOption = None,
    every: EveryOption = None,
    k8s: LiveK8sOption = None,
    feature_gates: GatesOption = "",
    flags: FlagOption = None,
    segment: SegmentOption = "5m",
    metrics_addr: MetricsAddressOption = None,
    log_format: LogFormatOption = "text",
    fetch_budget: BudgetOption = "10s",
    fetch_at_once: AtOnceOption = 8,
) -> None:
    """Record a cluster's HPAs, their targets, pods and metrics into a history."""
    from hpabatch.cli.live.run import LiveRequest, run_live

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
            record=out,
            segment_ms=parse_duration(segment, "--segment", minimum_ms=1000),
            metrics_addr=metrics_addr,
            log_format=log_format,
            fetch_budget_ms=parse_duration(fetch_budget, "--fetch-budget", minimum_ms=100),
            fetch_at_once=fetch_at_once,
            compares=False,
        )
    )
