"""Options shared by commands, so that each is spelled, explained and checked once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hpabatch.model.config import DEFAULT_K8S


class Output(StrEnum):
    """The form of what stdout gets."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


K8sOption = Annotated[
    str, typer.Option("--k8s", metavar="VERSION", help="Kubernetes version whose rules apply.")
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Form of what stdout gets.", show_default=True)
]

__all__ = ["DEFAULT_K8S", "K8sOption", "Output", "OutputOption"]
