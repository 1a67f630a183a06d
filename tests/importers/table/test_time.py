"""Times in every form: numbers, texts with and without zone, Parquet's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import HistoryError
from hpabatch.importers.table.rows import time_ms
from hpabatch.importers.table.values import Source, TimeSource

COLUMN = Source(column="t")
MS = timedelta(milliseconds=1)


def ms(values: list[object], dtype: pl.DataType | None = None, **said: Any) -> list[int | None]:
    series = pl.Series("t", values, dtype=dtype)
    return time_ms(series, TimeSource(COLUMN, **said), "f.csv").to_list()


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("unit", "value", "found"),
    [
        ("s", 1_696_636_800, 1_696_636_800_000),
        ("s", 1_696_636_800.781, 1_696_636_800_781),
        ("s", "1696636800.781", 1_696_636_800_781),
        ("ms", "1696636800781", 1_696_636_800_781),
        ("us", 1_696_636_800_781_999, 1_696_636_800_781),
        ("ns", 1_696_636_800_781_999_999, 1_696_636_800_781),
        ("s", 2**62, None),
        ("s", "1e400", None),
        ("s", "nan", None),
        ("ms", "x", None),
        ("ms", None, None),
    ],
)
def test_numbers_become_ms(unit: str, value: object, found: int | None) -> None:
    assert ms([value], unit=unit) == [found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2024-07-01T12:00:00Z", "2024-07-01T12:00:00+00:00"),
        ("2024-07-01 12:00:00.5+02:00", "2024-07-01T12:00:00.500+02:00"),
        ("2024-07-01T12:00:00,123456789-0330", "2024-07-01T12:00:00.123-03:30"),
        ("2024-07-01t12:00+02", "2024-07-01T12:00:00+02:00"),
        (" 2024-07-01 12:00:00 UTC ", "2024-07-01T12:00:00+00:00"),
        ("2024-07-01T12:00:00", "2024-07-01T12:00:00+02:00"),  # Berlin
        ("2024-12-01T12:00:00", "2024-12-01T12:00:00+01:00"),
    ],
)
def test_texts_may_each_have_their_own_zone(text: str, found: str) -> None:
    assert ms([text], zone="Europe/Berlin") == [at(found)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "2024-13-01T00:00:00Z",
        "2024-01-01",
        "24:00",
        None,
        "2024-01-01T00:00:00+99:99",
        "2024-01-01T00:00:00-24:00",
        "2024-01-01T00:00:00+05:60",
        "2027-02-29T00:00:00Z",
    ],
)
def test_what_is_no_time_is_null(text: str | None) -> None:
    assert ms([text], pl.String(), zone="UTC") == [None]


def test_a_format_reads_other_texts() -> None:
    said: dict[str, Any] = {"zone": "UTC", "format": "%d.%m.%Y %H:%M", "unit": "text"}
    assert ms(["01.02.2024 03:04", "nonsense"], **said) == [at("2024-02-01T03:04+00:00"), None]
    zoned = ms(["2024-02-01T03:04:05+0200"], format="%Y-%m-%dT%H:%M:%S%z", unit="text")
    assert zoned == [at("2024-02-01T03:04:05+02:00")]


@pytest.mark.parametrize(
    ("series", "said", "told"),
    [
        (pl.Series([1, 2]), {}, r"holds numbers such as \[1\]: say columns.time.unit"),
        (
            pl.Series(["2024-07-01T12:00:00Z", "2024-07-02T13:00:00"]),
            {},
            "expected times with a zone, got 2024-07-02 13:00:00",
        ),
        (pl.Series([datetime(2024, 7, 1)]), {}, "expected times with a zone"),
        (pl.Series([datetime(2024, 7, 1, tzinfo=UTC)]), {"unit": "s"}, "holds times already"),
        (pl.Series([datetime(2024, 7, 1).date()]), {}, "without a time of day"),
        (pl.Series([True]), {"unit": "s"}, "expected numbers"),
        (pl.Series([[1]]), {}, "which is no time"),
    ],
)
def test_what_cannot_be_told_is_asked_for(
    series: pl.Series, said: dict[str, Any], told: str
) -> None:
    with pytest.raises(HistoryError, match=told):
        time_ms(series, TimeSource(COLUMN, **said), "f.csv")


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from([" ", "T"]),
)
def test_every_rfc_3339_text_is_read_as_python_reads_it(
    moment: datetime, offset: int, between: str
) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    text = zoned.isoformat(sep=between)
    wanted = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert ms([text]) == [wanted]  # (cut off within its second, whatever the sign)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_times_that_no_calendar_has_are_none(unit: Any, zone: str) -> None:
    wild = pl.Series("t", [-(2**63), 2**63 - 1, 0, None], dtype=pl.Int64).cast(pl.Datetime(unit))
    found = time_ms(wild, TimeSource(COLUMN, zone=zone), "f").to_list()
    assert (found[:2], found[3]) == ([None, None], None)
    offset = datetime(1970, 1, 1, tzinfo=ZoneInfo(zone)).utcoffset()
    assert offset is not None
    assert found[2] == -(offset // MS)
    with pytest.raises(HistoryError, match="expected times with a zone"):
        time_ms(wild, TimeSource(COLUMN), "f")


SHIFTS = {
    "Europe/Berlin": ("2026-03-29T00:00", "2026-10-25T00:00"),
    "Europe/Dublin": ("2026-10-25T00:00",),  # whose summer time is the usual one
    "Australia/Lord_Howe": ("2026-04-05T00:00", "2026-10-04T00:00"),  # by half an hour
    "Pacific/Apia": ("2011-12-29T21:00", "2011-12-30T21:00"),  # without a 30 December
    "America/Sao_Paulo": ("2018-11-03T22:00",),  # at midnight
    "America/St_Johns": ("2006-10-28T22:00",),  # a minute past it
    "Asia/Pyongyang": ("2015-08-14T22:00",),  # no summer time, another offset
    "Africa/Casablanca": ("2026-02-15T00:00",),  # for Ramadan
    "UTC": ("2028-02-28T22:00", "2028-02-29T22:00", "2027-12-31T22:00"),
}


@pytest.mark.parametrize("zone", SHIFTS)
def test_a_change_of_offset_is_read_as_python_reads_it(zone: str) -> None:
    """Texts, texts of a format and naive times, around changes of a zone's offset."""
    place = ZoneInfo(zone)
    local = [
        datetime.fromisoformat(begin) + timedelta(minutes=450 * k / 60)
        for begin in SHIFTS[zone]
        for k in range(40)
    ]
    wanted: list[int | None] = []
    for time in local:
        both = {time.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1)}
        real = sorted(t for t in both if t.astimezone(place).replace(tzinfo=None) == time)
        wanted.append(round(real[0].timestamp() * 1000) if len(real) == 1 else None)
    form = "%d.%m.%Y %H:%M:%S"
    said: dict[str, Any] = {"zone": zone}
    assert ms([t.isoformat(" ") for t in local], **said) == wanted
    assert ms([t.strftime(form) for t in local], format=form, **said) == wanted
    assert ms([*local], pl.Datetime("us"), **said) == wanted
