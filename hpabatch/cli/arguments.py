"""Arguments that need more than a type: durations, SQL conditions, places to write to.

Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpabatch.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from hpabatch.history.reader import History

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_MAX_DURATION_MS = 366 * 24 * 3_600_000


def parse_duration(text: str, option: str, minimum_ms: int = 0) -> int:
    """Return a duration such as `500ms`, `15s`, `1m` or `2h` in ms.

    Raises:
        UsageError: another form, less than the minimum, or more than a year.
    """
    found = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h)", text)
    if not found:
        raise UsageError(
            f"{option} {text!r} is not a duration: a whole number and ms, s, m or h, such as 15s"
        )
    duration_ms = int(found[1]) * _UNITS_MS[found[2]]
    if duration_ms < minimum_ms:
        least = f"{minimum_ms // 1000}s" if minimum_ms >= 1000 else f"{minimum_ms}ms"
        raise UsageError(f"{option} {text} is too short: at least {least}")
    if duration_ms > _MAX_DURATION_MS:
        raise UsageError(f"{option} {text} is too long: at most a year")
    return duration_ms


def selection(where: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return a function that keeps the candidate HPAs for which an SQL condition is true.

    Raises:
        UsageError: the text is not a condition on the candidates' columns; the function itself
            raises it if no HPA is left.
    """
    import polars as pl

    from hpabatch.engine.candidates import candidate_frame

    empty = candidate_frame([])
    columns = ", ".join(empty.columns)

    def refuse(reason: str) -> UsageError:
        return UsageError(
            f"--where {where!r}: {reason}; give an SQL condition on {columns}, such as "
            "\"namespace = 'shop' AND max_replicas > 5\""
        )

    try:
        condition = pl.sql_expr(where)
        found = empty.select(condition.alias("condition"))["condition"].dtype
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise refuse(_first_line(error)) from None
    if found != pl.Boolean():
        raise refuse(f"this is not a condition but of type {found}")

    def select(candidates: pl.DataFrame) -> pl.DataFrame:
        try:
            kept = candidates.filter(condition)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise refuse(_first_line(error)) from None
        if kept.is_empty() and not candidates.is_empty():
            raise UsageError(
                f"--where {where!r} is true for none of {candidates.height} HPAs; widen it"
            )
        return kept

    return select


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].partition("; valid columns")[0] if lines else type(error).__name__


def check_out(out: Path, history: History, manifests: Sequence[str]) -> None:
    """Refuse, before anything is computed, a place where the decisions cannot or must not go.

    Raises:
        UsageError: the place and what to do.
    """
    import tempfile

    from hpabatch.history.schema import TABLES

    if str(out) == "-":
        raise UsageError("--out -: the decisions go to a file; --output chooses what stdout gets")
    try:
        place = _real(out)
        if place.is_dir():
            raise UsageError(f"--out {out} is a folder; name a file in it")
        if place.exists() and not place.is_file():
            raise UsageError(f"--out {out} is not a regular file; name another")
        root = _real(history.path)
        for table, files in history.files.items():
            # A table is one file in the history's folder, or a folder of files there.
            folders = {_real(file).parent for file in files} - {root}
            if place.parent in folders or place in {_real(file) for file in files}:
                raise UsageError(f"--out {out} is in the input table {table}; name another")
        if place.parent == root and place.name.removesuffix(".parquet") in TABLES:
            raise UsageError(f"--out {out} would be a table of the history; name another")
        if place in [_real(manifest) for manifest in manifests]:
            raise UsageError(f"--out {out} is an input of --hpas; name another")
        existing = next(folder for folder in place.parents if folder.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"--out {out} cannot be written: {reason}; name another place") from None


def _real(path: Path | str) -> Path:
    """Return a path without links (`Path.resolve` raises on a loop of links, this does not)."""
    return Path(os.path.realpath(path))
