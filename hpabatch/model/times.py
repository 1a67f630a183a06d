"""Durations and instants as people write them in files: `2h30m`, `2026-10-07T12:00:00Z`; Go's."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final

MAX_DURATION_MS: Final = 366 * 86_400_000

UNITS_MS: Final[dict[str, int]] = {
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}
DURATION_FORM: Final = "whole numbers with w, d, h, m, s or ms, such as 15s, 2h30m or 1d"
INSTANT_FORM: Final = "2026-10-07T12:00:00Z"

_DURATION = re.compile("".join(f"(?:([0-9]{{1,12}}){unit})?" for unit in UNITS_MS), re.ASCII)
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,3}))?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII,
)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def parse_duration_ms(text: str) -> int:
    """Return a duration such as `500ms`, `15s`, `2h30m` or `1d` in ms: the larger unit first.

    Raises:
        ValueError: another form, or more than 366 days; the message quotes the text.
    """
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        raise ValueError(f"{text!r} is not a duration: {DURATION_FORM}")
    parts = zip(found.groups(), UNITS_MS.values(), strict=True)
    total = sum(int(number) * unit for number, unit in parts if number is not None)
    if total > MAX_DURATION_MS:
        raise ValueError(f"{text!r} is longer than 366 days")
    return total


TIME_FORM: Final = (
    "such as 2026-10-07T14:03:00Z, '2026-10-07 14:03' (UTC), 2026-10-07, 14:03, 'yesterday 14:03' "
    "or -7d"
)
_TIME = re.compile(
    r"(?:([0-9]{4}-[0-9]{2}-[0-9]{2})|(today|yesterday))?"
    r"(?:(?:(?<=[0-9])[Tt]|(?<=[0-9y]) +|^)([0-9]{1,2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,3})?)?)?"
    r"( *[Zz]| *[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII,
)
_DAY = timedelta(days=1)


def parse_time_ms(text: str, now_ms: int) -> int:
    """Return a timestamp as people write it, in ms since 1970; UTC where no zone is given.

    A date alone is its midnight; a clock time alone is the last one until `now_ms`; `-7d` is that
    long before `now_ms`, and `now` is `now_ms`.

    Raises:
        ValueError: another form, or a date that no calendar has; the message quotes the string.
    """
    wanted = text.strip()
    if wanted == "now":
        return now_ms
    if wanted.startswith("-"):
        return now_ms - parse_duration_ms(wanted[1:])
    found = _TIME.fullmatch(wanted)
    if found is None or not wanted or not any(found.groups()[:3]):
        raise ValueError(f"expected a time {TIME_FORM}, got {text!r}")
    day, word, clock, seconds, zone = found.groups()
    if day is None:
        now = _EPOCH + timedelta(milliseconds=now_ms)
        day = (now - _DAY if word == "yesterday" else now).date().isoformat()
    clock = f"{(clock or '00:00').rjust(5, '0')}{seconds or ':00'}"
    at_ms = parse_instant_ms(f"{day}T{clock}{(zone or 'Z').strip()}")
    is_clock = found[1] is None and word is None
    return at_ms - 86_400_000 if is_clock and at_ms > now_ms else at_ms


def parse_date_ms(text: str) -> int:
    """Return a date, with or without a time of day, in ms since 1970; UTC where no zone is given.

    Raises:
        ValueError: another form, or a date that no calendar has; the message quotes the string.
    """
    if not is_instant(text.strip()):
        raise ValueError(f"expected a date and time such as {INSTANT_FORM}, got {text!r}")
    return parse_time_ms(text, 0)


def is_instant(text: str) -> bool:
    """Whether a text looks like a date, so that it is meant as an instant, right or wrong."""
    return re.match(r"[0-9]{4}-[0-9]", text, re.ASCII) is not None


def parse_instant_ms(text: str) -> int:
    """Return an RFC 3339 instant with its zone, of at most three decimals, in ms since 1970.

    Raises:
        ValueError: another form, a date that no calendar has, or no zone; the message quotes it.
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an instant such as {INSTANT_FORM} (RFC 3339)")
    day, clock, fraction, zone = found.groups()
    if zone is None:
        raise ValueError(f"{text!r} has no zone: write {day}T{clock}Z, or +02:00 in place of Z")
    try:
        whole = datetime.fromisoformat(f"{day}T{clock}{zone.upper()}")
    except ValueError as error:
        raise ValueError(f"{text!r} is no instant of any calendar: {error}") from None
    since = whole - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 + int((fraction or "").ljust(3, "0"))


def show_duration(duration_ms: int) -> str:
    """Return a duration as it would be written: 9000000 -> `2h30m`, 0 -> `0s`, -1000 -> `-1s`."""
    parts, rest = [], abs(duration_ms)
    for unit, length_ms in UNITS_MS.items():
        number, rest = divmod(rest, length_ms)
        if number:
            parts.append(f"{number}{unit}")
    return ("-" if duration_ms < 0 else "") + ("".join(parts) or "0s")


def show_instant(instant_ms: int) -> str:
    """Return ms since 1970 as `2026-10-07T12:00:00Z`, with the thousandths if there are any.

    What is in no year from 1 to 9999 is shown as the number that it is.
    """
    seconds, thousandths = divmod(instant_ms, 1000)
    days, second = divmod(seconds, 86_400)
    try:
        day = date.fromordinal(_EPOCH.toordinal() + days)
    except (OverflowError, ValueError):
        return f"{instant_ms} ms since 1970"
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    fraction = f".{thousandths:03}" if thousandths else ""
    return f"{day.isoformat()}T{clock}{fraction}Z"


def show_api_time(instant_ms: int) -> str:
    """Return ms since 1970 as RFC 3339 in UTC, with as many decimals as are not zero."""
    text = show_instant(instant_ms)
    return text if "." not in text else text.removesuffix("Z").rstrip("0") + "Z"


# ---- Go durations, as in controller flags and API responses --------------------------------------

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
