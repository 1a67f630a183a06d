"""Durations and instants of files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.model.times import (
    MAX_DURATION_MS,
    is_instant,
    parse_date_ms,
    parse_duration_ms,
    parse_instant_ms,
    parse_time_ms,
    show_duration,
    show_instant,
)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0s", 0),
        ("500ms", 500),
        ("15s", 15_000),
        ("2h30m", 9_000_000),
        ("1d12h", 129_600_000),
        ("1w", 604_800_000),
        ("90m", 5_400_000),
        ("1m1ms", 60_001),
    ],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text",
    ["", "15", "s", "1.5h", "30m2h", "1h1h", "-1h", " 1h", "1h ", "1H", "１s", "1:30"],
)
def test_what_is_no_duration_is_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: whole numbers with w, d") as caught:
        parse_duration_ms(text)
    assert repr(text) in str(caught.value)


def test_a_duration_is_at_most_366_days() -> None:
    assert parse_duration_ms("366d") == MAX_DURATION_MS
    for text in ("366d1ms", "999999999999w"):
        with pytest.raises(ValueError, match="longer than 366 days"):
            parse_duration_ms(text)


@given(st.integers(0, MAX_DURATION_MS))
def test_a_shown_duration_is_read_as_itself(duration_ms: int) -> None:
    assert parse_duration_ms(show_duration(duration_ms)) == duration_ms
    assert show_duration(-duration_ms) == ("-" if duration_ms else "") + show_duration(duration_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-10-07T12:00:00Z", datetime(2026, 10, 7, 12, tzinfo=UTC)),
        ("2026-10-07t12:00:00z", datetime(2026, 10, 7, 12, tzinfo=UTC)),
        ("2026-10-07 14:00:00+02:00", datetime(2026, 10, 7, 12, tzinfo=UTC)),
        ("2026-10-06T23:30:00.25-00:30", datetime(2026, 10, 7, 0, 0, 0, 250_000, tzinfo=UTC)),
        ("1969-12-31T23:59:59.999Z", datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    ],
)
def test_instants(text: str, expected: datetime) -> None:
    assert is_instant(text)
    assert parse_instant_ms(text) == round(expected.timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-10-07", "is not an instant such as 2026-10-07T12:00:00Z"),
        ("2026-10-07T12:00Z", "is not an instant"),
        ("2026-10-07T12:00:00.1234Z", "is not an instant"),
        ("2026-10-07T12:00:00", "has no zone: write 2026-10-07T12:00:00Z"),
        ("2026-02-30T12:00:00Z", "is no instant of any calendar"),
        ("2026-10-07T25:00:00Z", "is no instant of any calendar"),
        ("2026-10-07T12:00:00+99:00", "is no instant of any calendar"),
    ],
)
def test_what_is_no_instant_is_quoted(text: str, reason: str) -> None:
    assert is_instant(text)
    with pytest.raises(ValueError, match=reason) as caught:
        parse_instant_ms(text)
    assert repr(text) in str(caught.value)


def test_a_duration_does_not_look_like_an_instant() -> None:
    assert not any(map(is_instant, ("2h30m", "12", "", "x2026-10-07", "２０２６-1")))


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_a_shown_instant_is_read_as_itself(instant_ms: int) -> None:
    assert parse_instant_ms(show_instant(instant_ms)) == instant_ms


@pytest.mark.parametrize("instant_ms", [2**62, -(2**62), 253_402_300_800_000, -62_135_596_800_001])
def test_an_instant_of_no_calendar_is_shown_as_a_number(instant_ms: int) -> None:
    assert show_instant(instant_ms) == f"{instant_ms} ms since 1970"


NOON = 1_791_331_200_000 + 12 * 3_600_000  # 2026-10-07T12:00:00Z


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-10-07", NOON - 12 * 3_600_000),
        ("2026-10-07+02:00", NOON - 14 * 3_600_000),
        ("2026-10-07 12:00", NOON),
        ("2026-10-07T12:00", NOON),
        ("2026-10-07t12:00z", NOON),
        ("2026-10-07 9:05", NOON - 175 * 60_000),
        ("  2026-10-07 12:00:01 ", NOON + 1000),
        ("2026-10-07 12:00:00.5", NOON + 500),
        ("2026-10-07T12:00:00.007Z", NOON + 7),
        ("2026-10-07T14:00:00+02:00", NOON),
        ("2026-10-07 04:30 -07:30", NOON),
        ("2026-10-07 12:00 Z", NOON),
        ("1969-12-31 23:59:59.999", -1),
        ("9999-12-31 23:59:59", 253_402_300_799_000),
    ],
)
def test_times_with_a_date(text: str, ms: int) -> None:
    assert parse_time_ms(text, NOON) == ms


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("14:03", "2026-10-06T14:03:00Z"),
        ("9:03", "2026-10-07T09:03:00Z"),
        ("today", "2026-10-07T00:00:00Z"),
        ("yesterday 13:20", "2026-10-06T13:20:00Z"),
        ("-7d", "2026-09-30T12:00:00Z"),
        ("-1m30s", "2026-10-07T11:58:30Z"),
        (" now ", "2026-10-07T12:00:00Z"),
    ],
)
def test_times_from_now(text: str, told: str) -> None:
    assert show_instant(parse_time_ms(text, NOON)) == told


@pytest.mark.parametrize(
    "text",
    [
        "", "noon", "14", "2026-10", "2026-10-7", "7.10.2026", "2026-10-07 14", "2026-10-07T",
        "2026-10-07 14:03:1", "2026-10-07 14:03:00.1234", "2026-10-07 14:03 +2", "1791374580",
        "2026-10-07 14:03 UTC", "2026-10-07 14:03 Europe/Berlin", "20261007T1403Z", "-1-10-07",
        "٢٠٢٦-10-07", "2026-10-07\n14:03", "2026-10-07 14:03+0200", "2026-10-07 14:03:00,5",
    ],
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a time such as|is not a duration"):
        parse_time_ms(text, NOON)


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29", "2026-13-01", "2026-10-00", "0000-01-01", "2026-10-07 24:61",
        "2026-10-07 14:60", "2026-10-07 14:03:60", "2026-10-07 14:03 +24:00",
    ],
)  # fmt: skip
def test_times_that_no_calendar_has(text: str) -> None:
    with pytest.raises(ValueError, match="is no instant of any calendar: "):
        parse_time_ms(text, NOON)


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.booleans())
def test_any_time_in_any_of_its_forms(when: datetime, with_zone: bool) -> None:
    when = when.replace(microsecond=when.microsecond // 1000 * 1000, tzinfo=UTC)
    ms = (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    text = when.isoformat(" ", "milliseconds")
    assert parse_time_ms(text, NOON) == ms
    assert (
        parse_time_ms(text.removesuffix("+00:00").replace(" ", "T") + "Z" * with_zone, NOON) == ms
    )


@given(st.text(max_size=12) | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]?[0-9:.]{0,9}Z?"))
def test_any_string_is_a_time_or_refused(text: str) -> None:
    try:
        ms = parse_time_ms(text, NOON)
    except ValueError:
        return
    assert abs(ms) < 10**15


def test_a_date_with_or_without_a_time_of_day() -> None:
    assert parse_date_ms(" 1970-01-02") == 86_400_000
    assert parse_date_ms("1970-01-01T00:00:01+01:00") == -3_599_000
    with pytest.raises(ValueError, match="expected a date and time such as"):
        parse_date_ms("yesterday")
