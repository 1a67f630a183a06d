"""Options that `live` and `record` share."""

from __future__ import annotations

from typing import Annotated

import typer

KubeconfigOption = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="[default: $KUBECONFIG, ~/.kube/config]"),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig; else its own.")
]
InClusterOption = Annotated[
    bool, typer.Option("--in-cluster", help="As the service account of the pod that this runs in.")
]
NamespacesOption = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="Only this one; repeatable."),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="What the cluster is called.  [default: as the context calls it]",
    ),
]
EveryOption = Annotated[
    str | None,
    typer.Option(
        "--every", metavar="TIME", help="Between two passes.  [default: the sync period, 15s]"
    ),
]
LiveK8sOption = Annotated[
    str | None,
    typer.Option(
        "--k8s",
        metavar="VERSION",
        help="Kubernetes version whose rules apply.  [default: the API server's]",
    ),
]
FlagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--flag",
        metavar="NAME=VALUE",
        help="A flag of the cluster's controller, such as tolerance=0.2 or "
        "downscale-stabilization=2m; repeatable.  [default: as its pod shows, else Kubernetes']",
    ),
]
SegmentOption = Annotated[
    str,
    typer.Option(
        "--segment", metavar="TIME", help="How often what was recorded is written; a kill loses it."
    ),
]
LogFormatOption = Annotated[
    str, typer.Option("--log-format", metavar="text|json", help="Of what is told while it runs.")
]
MetricsAddressOption = Annotated[
    str | None,
    typer.Option(
        "--metrics-addr", metavar="[HOST]:PORT", help="Serve /metrics, /healthz and /readyz there."
    ),
]
BudgetOption = Annotated[
    str,
    typer.Option("--fetch-budget", metavar="TIME", help="For all metrics of a pass together."),
]
AtOnceOption = Annotated[
    int, typer.Option("--fetch-at-once", min=1, max=64, help="Requests for metrics at once.")
]
