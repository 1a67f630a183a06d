"""Ages and columns of kubectl's views."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hpabatch.errors import UsageError
from hpabatch.model.quantity import Quantity
from hpabatch.report.kubectl import (
    age_of,
    columns,
    human_duration,
    read_time,
    release_of,
    show,
)

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
YEAR = 365 * DAY


@pytest.mark.parametrize(
    ("duration_ms", "shown"),
    [
        (-2000, "<invalid>"), (-1999, "0s"), (-1, "0s"), (0, "0s"), (999, "0s"),
        (119_999, "119s"), (120_000, "2m"), (121_999, "2m1s"), (599_999, "9m59s"),
        (10 * MINUTE, "10m"), (3 * HOUR - 1, "179m"), (3 * HOUR, "3h"),
        (3 * HOUR + 59_999, "3h"), (3 * HOUR + MINUTE, "3h1m"), (8 * HOUR - 1, "7h59m"),
        (8 * HOUR, "8h"), (2 * DAY - 1, "47h"), (2 * DAY, "2d"), (2 * DAY + HOUR, "2d1h"),
        (8 * DAY - 1, "7d23h"), (8 * DAY, "8d"), (2 * YEAR - 1, "729d"), (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"), (8 * YEAR - 1, "7y364d"), (8 * YEAR, "8y"),
        (10**18, "292y"),  # a Go duration is at most that
    ],
)  # fmt: skip
def test_human_duration(duration_ms: int, shown: str) -> None:
    assert human_duration(duration_ms) == shown


def test_columns_end_where_a_line_has_no_such_cell() -> None:
    text = columns(["a\tbbbb\tc", "aaa\tb\tc", "no column at all", "x\ty", "\tz"])
    assert text == (
        "a    bbbb  c\n"
        "aaa  b     c\n"
        "no column at all\n"
        "x  y\n"
        "   z\n"
    )  # fmt: skip


def test_columns_of_lines_with_line_breaks_and_vertical_tabs_in_them() -> None:
    assert columns(["a\tlong\nb\vc", "d\te"]) == "a  long\nb  c\nd  e\n"


def test_a_form_feed_ends_all_columns() -> None:
    assert columns(["wide one\tb\fa\tb"]) == "wide one  b\na  b\n"


def test_columns_count_code_points_and_have_a_least_width() -> None:
    assert columns(["é\tb", "ab\tc"]) == "é   b\nab  c\n"
    assert columns(["a\tb"], min_width=6, padding=3) == "a     b\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, "<unknown>"), ("0001-01-01T00:00:00Z", "<unknown>"),
        ("2026-10-07T11:59:00Z", "60s"), ("2026-10-07T11:58:58.500Z", "61s"),
        ("2026-10-07T14:00:01+02:00", "0s"), ("2026-10-07T12:00:03Z", "<invalid>"),
        ("0001-01-01T00:00:00+01:00", "292y"), ("9999-12-31T23:59:59-01:00", "<invalid>"),
    ],
)  # fmt: skip
def test_age(text: str | None, shown: str) -> None:
    assert age_of(read_time(text), 1_791_374_400_000) == shown


def test_read_time_is_in_utc() -> None:
    time = read_time("2026-10-07T14:00:01+02:00")
    assert time == datetime(2026, 10, 7, 12, 0, 1, tzinfo=UTC)
    assert time.tzinfo is UTC


@pytest.mark.parametrize(
    ("milli", "shown"),
    [
        (94_371_840_000, "90Mi"), (130_752_000_000, "130752k"), (1_023_000, "1023"),
        (11_372_544_853, "11372544853m"), (0, "0"),
    ],
)  # fmt: skip
def test_a_quantity_of_the_controller_as_the_server_gives_it_back(milli: int, shown: str) -> None:
    assert show(Quantity.from_milli(milli, binary=True)) == shown


def test_release() -> None:
    assert release_of("1.30") == release_of("v1.30.2") == (1, 30)
    with pytest.raises(UsageError, match="--k8s new: not a Kubernetes version"):
        release_of("new")
