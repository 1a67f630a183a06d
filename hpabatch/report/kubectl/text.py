"""Parts of kubectl's views: ages, columns, escaping, and the numbers of a metric.

Follows apimachinery pkg/util/duration, Go's text/tabwriter and cli-runtime pkg/printers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from hpabatch.errors import UsageError
from hpabatch.model.objects.hpa import HPA, MetricSpec, MetricTarget, MetricValueStatus
from hpabatch.model.quantity import Quantity

UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"
NONE: Final = "<none>"

_SECOND, _MINUTE, _HOUR, _DAY, _YEAR = 1000, 60_000, 3_600_000, 86_400_000, 365 * 86_400_000
_MAX_AGE_MS = (2**63 - 1) // 1_000_000  # of Go's time.Duration
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_ZERO = datetime.fromisoformat("0001-01-01T00:00:00+00:00")  # Go's time.Time without a value
_VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]+)?", re.ASCII)
_CELL_ENDS = re.compile("[\t\v]")


def human_duration(duration_ms: int) -> str:
    """Return a duration as kubectl shows it: `90s`, `5m30s`, `3h5m`, `2d4h`, `400d`, `2y1d`.

    Two parts only where the larger one is small; whatever is cut off is dropped, not rounded. Up
    to two seconds in the future is still now, more is `<invalid>`. Source: HumanDuration.
    """
    ms = min(duration_ms, _MAX_AGE_MS)
    if ms <= -2 * _SECOND:
        return "<invalid>"
    if ms < 2 * _MINUTE:
        return f"{max(ms, 0) // _SECOND}s"
    if ms < 10 * _MINUTE:
        return _two_parts(ms // _MINUTE, "m", ms % _MINUTE // _SECOND, "s")
    if ms < 3 * _HOUR:
        return f"{ms // _MINUTE}m"
    if ms < 8 * _HOUR:
        return _two_parts(ms // _HOUR, "h", ms % _HOUR // _MINUTE, "m")
    if ms < 2 * _DAY:
        return f"{ms // _HOUR}h"
    if ms < 8 * _DAY:
        return _two_parts(ms // _DAY, "d", ms % _DAY // _HOUR, "h")
    if ms < 2 * _YEAR:
        return f"{ms // _DAY}d"
    if ms < 8 * _YEAR:
        return _two_parts(ms // _YEAR, "y", ms % _YEAR // _DAY, "d")
    return f"{ms // _YEAR}y"


def _two_parts(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def read_time(text: str | None) -> datetime | None:
    """Return a time of an API object, in UTC; None where there is none.

    Raises:
        ValueError: not a time such as `2026-10-07T12:00:00Z`.
    """
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    if time == _ZERO:
        return None
    try:
        return time.astimezone(UTC)
    except OverflowError:  # in the year 0 or 10000 of UTC
        return time


def age_of(time: datetime | None, now_ms: int) -> str:
    """Return the age of an API object at `now_ms` (UTC ms), `<unknown>` without a time."""
    if time is None:
        return UNKNOWN
    since = time - _EPOCH
    then_ms = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return human_duration(now_ms - then_ms)


def columns(lines: Iterable[str], min_width: int = 0, padding: int = 2) -> str:
    """Return lines of tab-ended cells as aligned text; each line may hold line breaks itself.

    A column is as wide as its widest cell among the lines above and below without a gap: a line
    that has not so many cells ends the columns. The last cell of a line is in no column. Widths
    are in code points, as Go's text/tabwriter counts them. A form feed ends all columns.
    """
    text = "".join(f"{line}\n" for line in lines)
    return "\n".join(_align(part, min_width, padding) for part in text.split("\f"))


def _align(text: str, min_width: int, padding: int) -> str:
    rows = [_CELL_ENDS.split(line) for line in text.split("\n")]
    for column in range(max(map(len, rows)) - 1):
        start = 0
        while start < len(rows):
            end = start
            while end < len(rows) and len(rows[end]) - 1 > column:
                end += 1
            cells = [row[column] for row in rows[start:end]]
            width = max([min_width, *(len(cell) + padding for cell in cells)])
            for row in rows[start:end]:
                row[column] = row[column].ljust(width)
            start = end + 1
    return "\n".join("".join(row) for row in rows)


def show(quantity: Quantity | None) -> str:
    """Return a quantity as it comes back from the API server, `<nil>` for one that is not set.

    The controller makes memory quantities of a binary form, but the server reads their text: one
    without a factor of 1024, `130752000`, is decimal from then on and prints as `130752k`.
    """
    return "<nil>" if quantity is None else str(Quantity.parse(str(quantity)))


def current_of(hpa: HPA, index: int) -> MetricValueStatus | None:
    """Return the status of `spec.metrics[index]`: the one of the same index, if of its type."""
    statuses = hpa.status.current_metrics or ()
    if index >= len(statuses) or statuses[index].type != hpa.spec.metrics[index].type:
        return None
    return statuses[index].current


def target_of(metric: MetricSpec) -> MetricTarget | None:
    """Return the target of a metric of a known type that has its type's member, else None."""
    return None if metric.own is None else metric.own.target


def release_of(k8s: str) -> tuple[int, int]:
    """Return a Kubernetes version such as `1.30` or `v1.30.2` as (1, 30).

    Raises:
        UsageError: not a Kubernetes version.
    """
    match = _VERSION.fullmatch(k8s)
    if match is None:
        raise UsageError(f"--k8s {k8s}: not a Kubernetes version; write one such as 1.36")
    return int(match[1]), int(match[2])
