"""docs/worked-case.md: its input, and the words that are made of its numbers."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from benchmarks.worked_case import commands, main, section, target_only, told_of
from benchmarks.worked_case_input import FROM, SERIES, UNTIL, Stated, default_spec, read_series
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


def written(folder: Path, frame: pl.DataFrame) -> str:
    frame.with_columns(series=pl.lit(SERIES)).write_parquet(folder / "demand.parquet")
    return str(folder)


def test_a_minute_that_was_not_logged_had_no_requests(tmp_path: Path) -> None:
    found = read_series(written(tmp_path, series(missing=True)))
    assert found.columns == ["ts", "value"]
    assert found["value"].to_list()[:3] == [0, 2001, 2002]
    assert found.height == MINUTES


def test_a_folder_without_the_series_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"HPABATCH_TRACES=.* has no demand\.parquet"):
        read_series(str(tmp_path))
    with pytest.raises(SystemExit, match="has 5 minutes there, not 20160"):
        read_series(written(tmp_path, series().head(5)))


def test_without_traces_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HPABATCH_TRACES", raising=False)
    with pytest.raises(SystemExit, match="HPABATCH_TRACES does not name the folder"):
        main(str(tmp_path / "worked-case.md"))


def test_the_default_hpa_is_what_kubectl_makes() -> None:
    spec = default_spec(Stated())
    assert (spec.min_replicas, spec.max_replicas, spec.behavior) == (2, 120, None)
    (metric,) = spec.metrics
    assert metric.resource is not None
    assert metric.resource.target.average_utilization == 80


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


def test_without_a_change_there_is_nothing_to_tell() -> None:
    advice = ADVICE | {"answer": "keep", "reasons": "nothing saves"}
    with pytest.raises(SystemExit, match="nothing to tell: keep, because nothing saves"):
        told_of(series(), Stated(), swept(), advice, advice)


def test_commands_name_the_goal_alike() -> None:
    words = commands()
    for name in ("recommend", "plot"):
        at = words[name].index("--slo")
        assert words[name][at : at + 4] == [
            "--slo",
            "under_minutes<10/week",
            "--minimize",
            "pod_hours",
        ]
