"""Options of commands that belong to no request: where data are, and the form of the output."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hpabatch.cli.arguments import check_file, check_new_folder
from hpabatch.report.base import Output

HistoryArgument = Annotated[
    str, typer.Argument(metavar="HISTORY", help="Folder of Parquet tables, or a store.")
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Form of what stdout gets.")]
ExitCodeOption = Annotated[
    bool,
    typer.Option("--exit-code", help="Exit with 3 if there are findings or differences."),
]


def file_option(name: str, help: str, *suffixes: str) -> Any:
    """Return an option for a file to write, which is refused before anything is computed."""

    def checked(place: str | None) -> str | None:
        if place is not None:
            check_file(name, place, suffixes)
        return place

    return typer.Option(name, metavar="FILE", callback=checked, help=help)


def folder_option(name: str, help: str) -> Any:
    """Return an option for a new folder to write, which is refused before anything is computed."""

    def checked(place: str | None) -> str | None:
        if place is not None:
            check_new_folder(name, place)
        return place

    return typer.Option(name, metavar="FOLDER", callback=checked, help=help)


__all__ = ["ExitCodeOption", "HistoryArgument", "Output", "OutputOption"]
__all__ += ["file_option", "folder_option"]
