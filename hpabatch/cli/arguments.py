"""Arguments that belong to no request: data, places to write to, checked before all else."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpabatch.errors import UsageError

if TYPE_CHECKING:
    from hpabatch.history.reader import History
    from hpabatch.jobs.publish import Destination

HistoryArgument = Annotated[
    str, typer.Argument(metavar="HISTORY", help="Folder of Parquet tables, or a store.")
]
ExitCodeOption = Annotated[
    bool,
    typer.Option("--exit-code", help="Exit with 3 if there are findings or differences."),
]
_READ = (".json", ".yaml", ".yml")  # names of what is read of a folder
_LONGER_NAMES = 40  # of the job folder and of temporary files: `.NAME.12345-1a2b3c4d.tmp`


def file_option(name: str, help: str, *suffixes: str, kind: str = "") -> Any:
    """Return an option for a file to write, which is refused before anything is computed.

    `kind` is what it may replace (`history.replaced`), "": any file. A name that may end with .csv
    or .parquet is of sums.
    """

    def checked(place: str | None) -> str | None:
        if place is not None:
            kinds = {".csv": "sums", ".parquet": "parquet"} if len(suffixes) > 1 else {}
            check_file(name, place, suffixes, kinds.get(Path(place).suffix, kind))
        return place

    return typer.Option(name, metavar="FILE", callback=checked, help=help)


def check_file(option: str, out: str, suffixes: Sequence[str] = (), kind: str = "") -> None:
    """Refuse a file that cannot be made or replaced, or has another suffix (UsageError)."""
    from hpabatch.history.replaced import check_replaced

    check_writable(option, out)
    if os.path.isdir(out):
        raise UsageError(f"{option} {out} is a folder; name a file in it")
    if suffixes and Path(out).suffix not in suffixes:
        ends = " or ".join(suffixes)
        raise UsageError(f"{option} {out}: a name that ends with {ends} is wanted")
    if kind:
        check_replaced(out, kind, option)


def folder_option(name: str, help: str) -> Any:
    """Return an option for a new folder to write, which is refused before anything is computed."""

    def checked(place: str | None) -> str | None:
        if place is not None:
            check_replaced_folder(place, name)
            if os.path.exists(place) and (not os.path.isdir(place) or os.listdir(place)):
                raise UsageError(f"{name} {place} is there already; name a new or empty folder")
            check_writable(name, place)
        return place

    return typer.Option(name, metavar="FOLDER", callback=checked, help=help)


def check_out(out: str | Path, history: History, manifests: Sequence[str]) -> Destination:
    """Return where the decisions go: a file, or a folder if `out` ends with a slash or is one.

    A place where they cannot or must not go is refused before anything is computed.

    Raises:
        UsageError: the place and what to do.
    """
    from hpabatch.history.replaced import check_replaced
    from hpabatch.jobs.publish import Destination, is_result_folder

    text = str(out)
    if text == "-":
        raise UsageError("--out -: the decisions go to a file; --output chooses what stdout gets")
    if "://" in text:
        raise UsageError(
            f"--out: expected a local file or folder for the decisions, got {out}; name one"
        )
    try:
        place = _real(text)
        is_folder = text.endswith("/")
        if place.is_dir():
            if not is_result_folder(place) or not (is_folder or any(place.iterdir())):
                raise UsageError(
                    f"--out {out} is a folder; name a file in it, or a new folder, with a / at "
                    "its end"
                )
            is_folder = True
        elif place.exists() and not place.is_file():
            raise UsageError(f"--out {out} is not a regular file; name another")
        elif place.is_file() and is_folder:
            raise UsageError(f"--out {out} is a file; name it without / at its end, or another")
        check_inputs(out, history, {"--hpas": manifests})
        check_replaced(place, "parquet", "--out")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"--out {out} cannot be written: {reason}; name another place") from None
    check_writable("--out", out)
    return Destination(Path(text), is_folder)


def check_writable(option: str, out: str | Path) -> None:
    """Refuse a file or folder that cannot be made, before anything is computed for it.

    Raises:
        UsageError: the first folder on the way that is there takes no file, or the name is too
            long.
    """
    place = _real(str(out))
    try:
        existing = next(folder for folder in place.parents if folder.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
        longest = os.pathconf(existing, "PC_NAME_MAX")
        if len(os.fsencode(place.name)) + _LONGER_NAMES > longest:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"{option} {out} cannot be written: {reason}; name another place"
        ) from None


def check_inputs(
    out: str | Path,
    history: History | None,
    inputs: Mapping[str, Iterable[str | Path]],
    name: str = "--out",
) -> None:
    """Refuse a place that is read, by whatever links it is named (UsageError).

    `inputs`: by option the files and folders of JSON and YAML that are read beside a history;
    `name`: the option that names the place.
    """
    from hpabatch.history.schema import TABLES
    from hpabatch.history.store.catalog import LOG

    real, named = _real(out), Path(out).name not in ("", "..")
    # A link at the place is replaced, not followed; it may be a table of the history itself.
    for place in {real, _real(Path(out).parent) / Path(out).name if named else real}:
        root = place if history is None else _real(history.path)
        for table, files in {} if history is None else history.files.items():
            # A table is one file in the history's folder, or a folder of files there.
            folders = {_real(file).parent for file in files} - {root}
            if place.parent in folders or place in {_real(file) for file in files}:
                raise UsageError(f"{name} {out} is in the input table {table}; name another")
        if place.is_relative_to(root):
            first = (*place.relative_to(root).parts, "")[0].removesuffix(".parquet")
            if first in TABLES or first == LOG:
                raise UsageError(f"{name} {out} would be a table of the history; name another")
        for option, paths in inputs.items():
            read = {_real(path) for path in paths}
            inside = place.suffix in _READ and not read.isdisjoint(place.parents)
            if place in read or inside:
                raise UsageError(f"{name} {out} is an input of {option}; name another")


def _real(path: Path | str) -> Path:
    """Return a path without links (`Path.resolve` raises on a loop of links, this does not)."""
    return Path(os.path.realpath(path))


def check_replaced_folder(folder: str, option: str) -> None:
    """Refuse a folder without a name of its own: it is put in its place whole, under that name.

    Raises:
        UsageError: it is `.`, `..` or the root.
    """
    if Path(folder).name in ("", ".."):
        raise UsageError(
            f"{option} {folder}: expected a folder to make, got one that is in use; name a new one"
        )
