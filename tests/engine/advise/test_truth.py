"""Recommendations against fleets whose truth is known: the parts of the proof, and a small one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.recommend_truth import Options, run
from benchmarks.truth_judge import ADVICE
from benchmarks.truth_report import case_from


@pytest.mark.compiled
def test_advice_of_sweep_and_recommend_is_judged_by_the_truth(tmp_path: Path) -> None:
    """What is recommended is a candidate; unless confidence is low it saves and holds."""
    options = Options(
        seed=14,
        hpas=3,
        batch=3,
        recorded_weeks=2,
        judged_weeks=1,
        sync_ms=60_000,
        sample_ms=60_000,
        grids=("target=x0.9,today,x1.15", "min=x0.5,today", "scaleDown.window=120,300"),
    )
    rows = run(options, tmp_path, 1)
    advised = [row for row in rows if row["verdict"] == ADVICE]
    assert advised
    assert all(row["why"] for row in rows)
    for row in advised:
        case = case_from(row, "advised")
        assert row["advised"]["setting"] != "today"
        if row["confidence"] != "low":
            assert case.other.beats(case.today, options.goal), row
        assert row["right"] == case.other.beats(case.today, options.goal)
        best_case = case_from(row, "oracle")
        assert best_case.other.rank(options.goal) <= case.other.rank(options.goal)
