"""Times and durations as the API writes them, in ms: `2026-10-07T12:00:00Z`, `1m30s`.

The same few texts come again and again (a scrape's timestamp, a window), so they are kept.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from hpabatch.model.go_duration import parse_go_duration_ns

_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


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
    ns = parse_go_duration_ns(text)
    return ns // 1_000_000 if ns >= 0 else -(-ns // 1_000_000)
