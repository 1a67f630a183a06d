"""What a replay is told in words: durations, and conditions on its HPAs.

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
    """Return a function that keeps the candidate HPAs for which a condition is true.

    `name` is what messages call it.

    Raises:
        UsageError: the text is not a condition on the candidates' columns; the function itself
            raises it if no HPA is left.
    """
    from hpabatch.engine.fleet.candidates import candidate_frame
    from hpabatch.history.expressions.conditions import condition_on, is_true, quoted

    told = f"{name} {quoted(where)}"
    condition = condition_on(where, candidate_frame([]).schema, told)

    def select(candidates: pl.DataFrame) -> pl.DataFrame:
        kept = candidates.filter(is_true(candidates, condition, told))
        if kept.is_empty() and not candidates.is_empty():
            raise UsageError(f"{told} is true for none of {candidates.height} HPAs; widen it")
        return kept

    # What says of an HPA that cannot be replayed whether it was meant, see `engine.fleet.plan`.
    select.condition = condition  # type: ignore[attr-defined]
    return select
