"""Options of commands that belong to no request: where data are, and the form of the output."""

from __future__ import annotations

from typing import Annotated

import typer

from hpabatch.report.base import Output

HistoryArgument = Annotated[
    str, typer.Argument(metavar="HISTORY", help="Folder of Parquet tables, or a store.")
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Form of what stdout gets.")]
ExitCodeOption = Annotated[
    bool,
    typer.Option("--exit-code", help="Exit with 3 if there are findings or differences."),
]

__all__ = ["ExitCodeOption", "HistoryArgument", "Output", "OutputOption"]
