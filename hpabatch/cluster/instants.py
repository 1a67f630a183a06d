"""Times and durations as the API writes them, in ms: `2026-10-07T12:00:00Z`, `1m30s`.

The same few texts come again and again (a scrape's timestamp, a window), so they are kept.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)

_SIGNED: Final = re.compile(r"([+-]?)((?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_PIECE: Final = re.compile(r"([0-9]*)\.?([0-9]*)(ns|us|µs|μs|ms|s|m|h)")
_UNITS_NS: Final[dict[str, int]] = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": 1_000_000_000,
    "m": 60_000_000_000, "h": 3_600_000_000_000,
}  # fmt: skip


_LONGEST_NS = 2**63 - 1  # as Go counts them


@lru_cache(maxsize=20_000)
def instant_ms(text: str) -> int:
    """Return an RFC 3339 time in ms since 1970, rounded down (metav1.Time, MicroTime).

    Raises:
        ValueError: another form, or a date that no calendar has; the message quotes it.
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time such as 2026-01-31T12:00:00Z (RFC 3339)")
    whole, fraction, zone = found.groups()
    try:
        since = datetime.fromisoformat(whole + zone) - _EPOCH
    except ValueError as error:
        raise ValueError(f"{text!r} is no time of any calendar: {error}") from None
    return since // _MS + int((fraction or "")[:3].ljust(3, "0"))


@lru_cache(maxsize=5000)
def duration_ms(text: str) -> int:
    """Return a Go duration such as `30s`, `1m0.5s` or `0` in ms, cut (time.ParseDuration).

    Raises:
        ValueError: another form, or longer than Go can hold; the message quotes it.
    """
    if text in ("0", "+0", "-0"):
        return 0
    found = _SIGNED.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as 30s or 1m30s")
    total_ns = 0
    for whole, fraction, unit in _PIECE.findall(found[2]):
        scale = _UNITS_NS[unit]
        total_ns += int(whole or "0") * scale + int(fraction or "0") * scale // 10 ** len(fraction)
    if total_ns > _LONGEST_NS:
        raise ValueError(f"{text[:40]!r} is longer than a duration can be (292 years)")
    cut_ms = total_ns // 1_000_000
    return -cut_ms if found[1] == "-" else cut_ms
