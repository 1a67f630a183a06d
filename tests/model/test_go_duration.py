"""Durations as Go reads them; what flags and answers make of them is tested there."""

from __future__ import annotations

import pytest

from hpabatch.model.times import parse_go_duration_ns

LONGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0), ("+0", 0), ("-0", 0), ("0s", 0), ("1ns", 1), ("1us", 1000), ("1µs", 1000),
        ("1μs", 1000), ("1ms", 1_000_000), ("1h1m1s", 3_661_000_000_000), (".5us", 500),
        ("1.s", 10**9), ("-2.5ns", -2), ("+1.9ns", 1), ("0.6ns0.6ns", 0),
        (f"{LONGEST}ns", LONGEST), (f"-{LONGEST}ns", -LONGEST),
    ],
)  # fmt: skip
def test_go_durations(text: str, ns: int) -> None:
    assert parse_go_duration_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        "", "15", "s", "5 s", " 5s", "5s\n", "1d", "5S", "1e3s", "١s", "s5", ".s", "1..5s", "--1s",
        "+-1s", pytest.param("1" * 10_000_000 + "s", id="long"),
    ],
)  # fmt: skip
def test_what_is_none_is_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration") as caught:
        parse_go_duration_ns(text)
    assert str(caught.value).startswith(repr(text[:40]))


@pytest.mark.parametrize("text", [f"{LONGEST + 1}ns", "9" * 30 + "h", "2562048h"])
def test_what_go_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="longer than"):
        parse_go_duration_ns(text)
