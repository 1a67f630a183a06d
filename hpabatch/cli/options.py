"""Options shared by commands, so that each is spelled, explained and checked once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hpabatch.model.config import DEFAULT_K8S, GATES


class Output(StrEnum):
    """The form of what stdout gets."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


K8sOption = Annotated[
    str, typer.Option("--k8s", metavar="VERSION", help="Kubernetes version whose rules apply.")
]
HistoryK8sOption = Annotated[
    str | None,
    typer.Option(
        "--k8s",
        metavar="VERSION",
        help=f"Kubernetes version whose rules apply.  [default: as recorded, else {DEFAULT_K8S}]",
    ),
]
GatesOption = Annotated[
    str,
    typer.Option(
        "--feature-gates",
        metavar="GATE=BOOL,…",
        help="Feature gates that are not as in that version: " + ", ".join(GATES) + ".",
        show_default=False,
    ),
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Form of what stdout gets.", show_default=True)
]

AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="When: '2026-10-07 14:03' (UTC) or RFC 3339.  [default: the last sync]",
    ),
]
HpasOption = Annotated[
    list[str] | None,
    typer.Option(
        "--hpas", metavar="PATH", help="Manifests instead of the recorded HPAs; may be repeated."
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Only HPAs for which this is true."),
]


class Events(StrEnum):
    """Which size changes spend the budgets of scaling policies."""

    recorded = "recorded"
    decided = "decided"


EventsOption = Annotated[
    Events, typer.Option("--events", help="Which changes spend the policies' budgets.")
]
SyncPeriodOption = Annotated[
    str | None,
    typer.Option(
        "--sync-period", metavar="TIME", help="Between two syncs.  [default: as recorded, else 15s]"
    ),
]
PhaseOption = Annotated[
    str | None,
    typer.Option(
        "--phase",
        metavar="TIME",
        help="Of the syncs.  [default: estimated from what was recorded, else 0]",
    ),
]
DelayOption = Annotated[
    str | None,
    typer.Option(
        "--delay",
        metavar="TIME",
        help="From a sample's time until it is seen, where its fetch was not recorded.  "
        "[default: 0]",
    ),
]
MaxAgeOption = Annotated[
    str | None,
    typer.Option(
        "--max-age",
        metavar="TIME",
        help="How long a sample counts without a newer one.  [default: estimated from them]",
    ),
]

__all__ = [
    "DEFAULT_K8S",
    "AtOption",
    "DelayOption",
    "Events",
    "EventsOption",
    "GatesOption",
    "HistoryK8sOption",
    "HpasOption",
    "K8sOption",
    "MaxAgeOption",
    "Output",
    "OutputOption",
    "PhaseOption",
    "SyncPeriodOption",
    "WhereOption",
]
