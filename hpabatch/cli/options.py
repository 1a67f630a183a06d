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

__all__ = [
    "DEFAULT_K8S",
    "GatesOption",
    "HistoryK8sOption",
    "K8sOption",
    "Output",
    "OutputOption",
]
