"""The controller score against a naive twin, and cases worked out by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.engine.replay.score import (
    CLASSES,
    COLUMNS,
    NO_CHANGE,
    NO_DECISION,
    UNDECIDED_CHANGE,
    WINDOW_MS,
    class_table,
    score,
    total,
)
from hpabatch.engine.replay.summary import KEY
from tests.effort import effort
from tests.engine import naive_score as naive
from tests.engine.made import START, decisions

BINDINGS = ["metric", "tolerance", "window_down", "max", "zero", "invalid_metric", "scale_read"]


@st.composite
def replays(draw: st.DrawFn) -> pl.DataFrame:
    """Return ticks of some HPAs; recorded sizes follow each other, as in a replay."""
    rows = []
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
    for name in sorted(names):
        size, ts = draw(st.integers(0, 6)), START
        for _ in range(draw(st.integers(1, 30))):
            after = max(0, size + draw(st.sampled_from([0, 0, 0, 0, 1, 2, -1])))
            wish = max(0, size + draw(st.sampled_from([0, 0, 0, 1, 1, -1])))
            wish = draw(st.sampled_from([wish, after]))
            unknown = draw(st.integers(0, 20)) == 0
            rows.append(
                {
                    "hpa": name,
                    "ts": ts,
                    "replicas": None if unknown else size,
                    "desired": None if unknown else wish,
                    "applied": None if unknown else after,
                    "rescaled": not unknown and wish != size,
                    "binding": "no_scale" if unknown else draw(st.sampled_from(BINDINGS)),
                }
            )
            size = after
            step = draw(st.sampled_from([15, 15, 15, 15, 16, 45, 300]))
            ts += timedelta(seconds=step)
    return decisions(rows)


def rows_of(frame: pl.DataFrame, hpa: str) -> list[dict[str, Any]]:
    own = frame.filter(pl.col("hpa") == hpa)
    return own.with_columns(at=pl.col("ts").to_physical()).to_dicts()


def about(value: Any) -> Any:
    return pytest.approx(value) if isinstance(value, float) else value


@given(
    replays(),
    st.sampled_from([None, 0, 15_000, 100_000]),
    st.sampled_from([WINDOW_MS, 60_000, 15_000]),
)
def test_equals_the_naive_twin(frame: pl.DataFrame, tolerance: int | None, window: int) -> None:
    found = score(frame, tolerance_ms=tolerance, window_ms=window)
    assert found.hpas.columns == list(COLUMNS)
    for row in found.hpas.iter_rows(named=True):
        expected = naive.score(rows_of(frame, row["hpa"]), tolerance, window)
        for name, value in expected.items():
            assert row[name] == about(value), (row["hpa"], name)
        unaccounted = set(COLUMNS) - set(expected) - {*KEY, "unscored"}
        assert not unaccounted


@given(
    st.lists(st.integers(0, 60), max_size=9, unique=True),
    st.lists(st.integers(0, 60), max_size=9, unique=True),
    st.integers(0, 12),
)
def test_no_matching_has_more_pairs(recorded: list[int], decided: list[int], limit: int) -> None:
    ticks = []
    size = 0
    for k in range(61):
        after = size + (k in recorded)
        wish = size + (k in decided)
        tick = {"replicas": size, "applied": after, "desired": wish, "rescaled": wish != size}
        ticks.append(tick | {"max_replicas": 99})
        size = after
    frame = decisions(ticks)
    found = score(frame, tolerance_ms=limit * 15_000).hpas.row(0, named=True)
    first = [first for first, _ in naive.wishes(rows_of(frame, "cart"))]
    assert found["matched_events"] == naive.most_pairs(sorted(recorded), first, limit)


@settings(max_examples=effort(8))
@given(replays())
def test_parts_of_a_fleet_have_the_same_scores(frame: pl.DataFrame) -> None:
    whole = score(frame)
    parts = [score(part) for part in frame.partition_by("hpa", maintain_order=True)]
    assert pl.concat([part.hpas for part in parts]).equals(whole.hpas)
    assert pl.concat([part.events for part in parts]).equals(whole.events)
    assert total(pl.concat([part.hpas for part in reversed(parts)])) == total(whole.hpas)


def one(*ticks: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return score(decisions(ticks), **settings).hpas.row(0, named=True)


STILL = {"replicas": 3, "desired": 3, "applied": 3}
UP = {"replicas": 3, "desired": 5, "applied": 5, "rescaled": True}
WISH = {"replicas": 3, "desired": 5, "applied": 3, "rescaled": True}
AFTER = {"replicas": 5, "desired": 5, "applied": 5}


@pytest.mark.parametrize(
    ("ticks", "reason"),
    [
        ([STILL, STILL], NO_CHANGE),
        ([WISH, WISH], NO_CHANGE),
        ([STILL | {"binding": "selector"}], NO_DECISION),
        ([UP | {"binding": "invalid_metric"}, AFTER], UNDECIDED_CHANGE),
        (
            [{"replicas": None, "desired": None, "applied": None, "binding": "no_scale"}],
            NO_DECISION,
        ),
    ],
)
def test_what_stood_still_cannot_be_scored(ticks: list[dict[str, Any]], reason: str) -> None:
    row = one(*ticks)
    assert row["unscored"] == reason
    scores = [n for n in COLUMNS if n in ("precision", "recall") or n.endswith("_skill")]
    assert {row[name] for name in scores} == {None}
    totals = total(score(decisions(ticks)).hpas)
    assert (totals.hpas, totals.scored, totals.mae, totals.recall) == (1, 0, None, None)
    assert totals.unscored_extra == row["extra_up"]


def test_totals_weigh_by_ticks_and_leave_out_what_stood_still() -> None:
    missed = UP | {"desired": 3, "rescaled": False, "binding": "tolerance"}
    frame = decisions(
        [{"hpa": "a"} | t for t in (UP, AFTER)]
        + [{"hpa": "b"} | t for t in (STILL, STILL, missed, AFTER, AFTER, AFTER)]
        + [{"hpa": "c"} | t for t in (WISH, STILL)]
    )
    found = score(frame, window_ms=15_000)
    totals = total(found.hpas)
    assert (totals.hpas, totals.scored, totals.ticks) == (3, 2, 8)
    assert (totals.recorded_events, totals.recall, totals.precision) == (2, 0.5, 1.0)
    assert (totals.mae, totals.window_mae) == pytest.approx((2 / 8, 2 / 5))
    assert totals.unscored_extra == 1
    assert totals.classes == dict.fromkeys(CLASSES, 0) | {"exact": 1, "missed_up": 1}
    table = class_table(found.events)
    assert table.rows() == [
        ("exact", "metric", 1, 1, 1.0),
        ("missed_up", "tolerance", 1, 1, 1.0),
        ("extra_up", "metric", 1, 1, 1.0),
    ]
