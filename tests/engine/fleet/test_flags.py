"""Recorded controller flags: Go durations, tolerances, and what is refused."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.fleet.flags import parse_duration_ms, recorded_flags
from hpabatch.errors import HistoryError
from hpabatch.model.versions import ControllerFlags
from tests.engine.small_history import T0, start_row, to_frame


def controller(*flags: object, event: str = "observed") -> pl.DataFrame:
    texts = [None if f is None else json.dumps(f) for f in flags]
    rows = [start_row(T0 + k, event=event, flags=text) for k, text in enumerate(texts)]
    return to_frame("controller", rows)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("15s", 15_000),
        ("5m0s", 300_000),
        ("1h1m1s1ms", 3_661_001),
        ("1.001s", 1001),
        (".5m", 30_000),
        ("1.s", 1000),
        ("+2s", 2000),
        ("0", 0),
        ("0s", 0),
        ("1000us", 1),
        ("1000µs", 1),
        ("1000μs", 1),
        ("2000000ns", 2),
    ],
)
def test_go_durations(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


NO_DURATIONS = ("", "15", "s", "-5s", "5 s", "5s ", "1d", "5S", "1e3s", "١s", "s5", ".s", "1..5s")
TOO_FINE_OR_LONG = ("1us", "1.0005s", "9" * 30 + "h", "1" * 300 + "s", "300y")


@pytest.mark.parametrize("text", [*NO_DURATIONS, "None", *TOO_FINE_OR_LONG])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|longer than"):
        parse_duration_ms(text)


@given(
    st.text(max_size=12) | st.from_regex(r"[0-9.]{1,6}(ms|s|m|h|us|ns)([0-9]+s)?", fullmatch=True)
)
def test_any_text_is_a_whole_number_of_milliseconds_or_refused(text: str) -> None:
    try:
        ms = parse_duration_ms(text)
    except ValueError:
        return
    assert ms >= 0


def flags_of(*flags: object) -> list[tuple[int, ControllerFlags]]:
    """Return the recorded periods of the one cluster: since when (after T0) which flags."""
    found = recorded_flags(controller(*flags))
    return [(period.from_ms - T0, period.flags) for period in found.get("c1", ())]


def test_flags_that_are_not_named_have_upstreams_defaults() -> None:
    flags = {"--horizontal-pod-autoscaler-sync-period": "30s", "tolerance": 0.2, "other": "x"}
    assert flags_of(flags) == [(0, ControllerFlags(sync_period_ms=30_000, tolerance=0.2))]
    assert flags_of({}) == [(0, ControllerFlags())]
    assert recorded_flags(controller(None)) == {}
    assert recorded_flags(controller()) == {}


def test_each_cluster_has_its_own_in_order_of_time() -> None:
    given = [("c2", 5, "1s"), ("c1", 9, "2s"), ("c1", 3, "4s"), ("c3", 1, None)]
    rows = [
        start_row(T0 + ms, cluster=name, flags=text and {"sync-period": text})
        for name, ms, text in given
    ]
    found = recorded_flags(to_frame("controller", rows))
    assert {
        name: [(period.from_ms - T0, period.flags.sync_period_ms) for period in periods]
        for name, periods in found.items()
    } == {"c1": [(3, 4000), (9, 2000)], "c2": [(5, 1000)]}


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ({"sync-period": 15}, "sync-period"),
        ({"sync-period": "0s"}, "the sync period is 0"),
        ({"downscale-stabilization": "5 minutes"}, "downscale-stabilization"),
        ({"cpu-initialization-period": None}, "cpu-initialization-period"),
        ({"initial-readiness-delay": ["30s"]}, "initial-readiness-delay"),
        ({"tolerance": "ten"}, "tolerance"),
        ({"tolerance": "NaN"}, "tolerance"),
        ({"tolerance": -0.1}, "tolerance"),
        ({"tolerance": "inf"}, "tolerance"),
        ({"tolerance": None}, "tolerance"),
    ],
)
def test_a_bad_flag_is_named(flags: dict[str, object], what: str) -> None:
    with pytest.raises(HistoryError, match=what):
        recorded_flags(controller(flags))
