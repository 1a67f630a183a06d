"""RFC 3339 timestamps as integer microseconds since 1970 (negative for Go's zero time)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

SECOND = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=200_000)
def parse_time(text: str) -> int:
    """Parse ``2026-03-21T17:19:29.389Z``; integers make every comparison exact."""
    return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND


def format_time(micros: int) -> str:
    """Write a timestamp as the golden data do: the fraction (of milliseconds) only if not zero."""
    moment = _EPOCH + timedelta(microseconds=micros)
    seconds = moment.replace(tzinfo=None).isoformat(timespec="seconds")
    millis = moment.microsecond // 1000
    return f"{seconds}.{millis:03d}".rstrip("0") + "Z" if millis else f"{seconds}Z"
