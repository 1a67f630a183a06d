"""What a replay is told in words: durations, and SQL conditions on its HPAs.

Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from hpabatch.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_DURATION_MS = 366 * 24 * 3_600_000

# Texts, quoted names and words; the name of one column is a word of SQL, and so must be quoted.
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\w+")
_SQL_WORD = "cluster"


def parse_duration(text: str, option: str, minimum_ms: int = 0) -> int:
    """Return a duration such as `500ms`, `15s`, `1m`, `2h` or `7d` in ms.

    Raises:
        UsageError: another form, less than the minimum, or more than a year.
    """
    found = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h|d)", text)
    if not found:
        raise UsageError(
            f"{option} {text!r} is not a duration: a whole number and ms, s, m, h or d, such as 15s"
        )
    duration_ms = int(found[1]) * _UNITS_MS[found[2]]
    if duration_ms < minimum_ms:
        least = f"{minimum_ms // 1000}s" if minimum_ms >= 1000 else f"{minimum_ms}ms"
        raise UsageError(f"{option} {text} is too short: at least {least}")
    if duration_ms > _MAX_DURATION_MS:
        raise UsageError(f"{option} {text} is too long: at most a year")
    return duration_ms


def selection(where: str, name: str = "--where") -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return a function that keeps the candidate HPAs for which an SQL condition is true.

    `name` is what messages call it.

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
            f"{name} {where!r}: {reason}; give an SQL condition on {columns}, such as "
            "\"namespace = 'shop' AND max_replicas > 5\""
        )

    try:
        condition = pl.sql_expr(_NAMES.sub(_quoted, where))
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
                f"{name} {where!r} is true for none of {candidates.height} HPAs; widen it"
            )
        return kept

    # What says of an HPA that cannot be replayed whether it was meant, see `engine.plan`.
    select.condition = condition  # type: ignore[attr-defined]
    return select


def _quoted(found: re.Match[str]) -> str:
    return f'"{_SQL_WORD}"' if found[0].lower() == _SQL_WORD else found[0]


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].partition("; valid columns")[0] if lines else type(error).__name__
