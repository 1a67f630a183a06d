"""Times and durations of the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.cluster.objects.objects import duration_ms
from hpabatch.model.objects.decode_fields import api_time_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.999999999Z", 1999),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)
def test_instants(text: str, ms: int) -> None:
    assert api_time_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    ["", "2026-10-07", "2026-10-07 12:00:00Z", "2026-10-07T12:00:00", "2026-02-30T12:00:00Z",
     "2026-10-07T25:00:00Z", "2026-10-07T12:00:00.Z", "٢٠٢٦-10-07T12:00:00Z"],
)  # fmt: skip
def test_no_instants(text: str) -> None:
    with pytest.raises(ValueError, match="is n"):
        api_time_ms(text)


@given(
    st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)),
    st.integers(-14 * 60, 14 * 60),
)
def test_instants_are_those_of_the_calendar(when: datetime, minutes: int) -> None:
    moment = when.replace(tzinfo=UTC).astimezone(timezone(timedelta(minutes=minutes)))
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    assert api_time_ms(moment.isoformat()) == since // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0), ("1h2m3.5s", 3_723_500), ("1500us", 1), ("999µs", 0), ("-2.5ms", -2),
    ],
)  # fmt: skip
def test_durations_are_cut_to_milliseconds(text: str, ms: int) -> None:
    assert duration_ms(text) == ms
