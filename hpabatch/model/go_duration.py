"""Go durations (`1m30s`, `1.5h`, `300ms`), as in controller flags and API responses."""

from __future__ import annotations

import re
from typing import Final

_UNITS_NS: Final[dict[str, int]] = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,  # U+00B5, the micro sign
    "μs": 1000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_UNIT: Final = "(ns|us|µs|μs|ms|s|m|h)"
_SIGNED: Final = re.compile(rf"([+-]?)((?:(?:[0-9]+\.?[0-9]*|\.[0-9]+){_UNIT})+)")
_PART: Final = re.compile(rf"([0-9]*)\.?([0-9]*){_UNIT}")
_LONGEST_NS: Final = 2**63 - 1  # as Go counts them
_LONGEST_TEXT: Final = 200  # no duration is longer, and its numbers would take long to read


def parse_go_duration_ns(text: str) -> int:
    """Return a Go duration in ns, each of its parts cut (time.ParseDuration).

    Raises:
        ValueError: another form, or longer than Go can hold; the message quotes it.
    """
    if text in ("0", "+0", "-0"):
        return 0
    found = _SIGNED.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if found is None:
        raise ValueError(f"{text[:40]!r} is not a duration such as 15s, 1m30s or 500ms")
    total_ns = 0
    for whole, fraction, unit in _PART.findall(found[2]):
        scale = _UNITS_NS[unit]
        total_ns += int(whole or "0") * scale + int(fraction or "0") * scale // 10 ** len(fraction)
    if total_ns > _LONGEST_NS:
        raise ValueError(f"{text[:40]!r} is longer than a Go duration can be (292 years)")
    return -total_ns if found[1] == "-" else total_ns
