"""docs/worked-case.md: its input, and the words that are made of its numbers."""

from __future__ import annotations

import re
from datetime import timedelta

import polars as pl
import pytest

from benchmarks.worked_case import section, target_only, told_of
from benchmarks.worked_case_input import FROM, UNTIL, Stated
from hpabatch.engine.sweep.result import SweepResult

MINUTES = 14 * 1440


def series(missing: bool = False) -> pl.DataFrame:
    """Return two weeks of a minute's requests each, with one that is not known if asked."""
    times = pl.datetime_range(FROM, UNTIL - timedelta(minutes=1), "1m", eager=True)
    values = [2000.0 + (k % 1440) for k in range(MINUTES)]
    frame = pl.DataFrame({"ts": times.cast(pl.Datetime("ms", "UTC")), "value": values})
    first = pl.col("ts") == FROM
    unknown = pl.when(first).then(None).otherwise("value").alias("value")
    return frame.with_columns(unknown) if missing else frame


def swept() -> SweepResult:
    """Return a sweep of four settings over fourteen days."""
    names = ["today", "target=75", "target=70", "target=78 scaleUp.tolerance=0.05"]
    settings = pl.DataFrame(
        {
            "setting_id": pl.Series(range(4), dtype=pl.Int32),
            "setting": names,
            "target": [None, "75", "70", "78"],
            "scaleUp.tolerance": [None, None, None, "0.05"],
        }
    )
    start = FROM + timedelta(weeks=1461)
    rows = [
        (k, start + timedelta(days=day), under, pods, moves, 24.0)
        for k, (under, pods, moves) in enumerate(
            [(4.0, 100.0, 40), (0.5, 107.0, 41), (0.0, 120.0, 42), (0.25, 102.0, 100)]
        )
        for day in range(14)
    ]
    names = ["setting_id", "start", "under_minutes", "pod_hours", "rescales", "hours"]
    blocks = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        pl.col("setting_id").cast(pl.Int32)
    )
    return SweepResult(settings, pl.DataFrame(), pl.DataFrame(), blocks, {}, {})


ADVICE = {
    "answer": "change",
    "setting": "target=78 scaleUp.tolerance=0.05",
    "judged_from": "2026-06-16T00:00:00+00:00",
}


def test_the_cheapest_target_alone_leaves_half_of_the_limit_free() -> None:
    found = swept()
    blocks = found.blocks.join(found.settings.select("setting_id", "setting"), on="setting_id")
    row = target_only(found, blocks)
    assert row is not None
    assert (row["setting"], row["under_minutes"], row["pod_hours"]) == ("target=75", 3.5, 749)


@pytest.mark.compiled
def test_the_section_has_the_numbers_of_the_files() -> None:
    told = told_of(series(), Stated(), swept(), ADVICE, ADVICE)
    lines = section(told, Stated(), "1 HPA: 1 change\n")
    text = "\n".join(lines)
    assert "6 to 19 June" in text
    assert "the highest 3,439, on the 6th at 23:59 UTC" in text
    assert "| today's HPA | 28.0 | 700 | 280 |" in lines
    assert "| the cheapest target alone, `target=75` | 3.5 | 749 (+7.0%) | 287 |" in lines
    chosen = "`target=78 scaleUp.tolerance=0.05` | 1.8 | 714 (+2.0%) | 700 |"
    assert f"| the recommended one, {chosen}" in lines
    assert "16.0 minutes with too few pods at 400 pod-hours become 1.0 at 408" in text
    assert "$ hpabatch recommend build/worked-case/sweep --slo 'under_minutes<10/week'" in text
    assert not re.search(r"[\s'(=]/\w", text)  # no path of the machine that made it
    # The stated pods have work all day: today's setting runs as many as hold 80 % of it.
    assert told.true[0]["hours"] == 96
    assert 96 * 2 < told.true[0]["pod_hours"] < 96 * 4
