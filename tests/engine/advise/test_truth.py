"""Recommendations against fleets whose truth is known: the parts of the proof, and a small one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hpabatch
from benchmarks import recommend_truth
from benchmarks.recommend_truth import Options, run
from benchmarks.truth_fleet import (
    FleetOptions,
    Truth,
    make_fleet,
)
from benchmarks.truth_judge import (
    ADVICE,
    KEEP,
    NO_ADVICE,
    Answer,
    Case,
    Goal,
    Key,
    Span,
    Verdict,
    is_right,
    judge,
    tally,
)
from benchmarks.truth_record import case_of, record
from benchmarks.truth_report import case_from, summary_of, table
from benchmarks.truth_ways import CSV, FULL, LENS, WRONG
from hpabatch.engine.simulate.loop import simulate
from hpabatch.history.reader import open_history
from hpabatch.history.store.verify import check_history
from hpabatch.model.versions import profile_for

PROFILE = profile_for("1.37")
GOAL = Goal(most=10)
SYNC_MS = 300_000


# ---- recordings


def small_fleet() -> list[Truth]:
    return make_fleet(FleetOptions(3, weeks=1, seed=2, sample_ms=SYNC_MS, shapes=("daily",)))


@pytest.mark.compiled
def test_a_recording_is_a_history_of_todays_run(tmp_path: Path) -> None:
    fleet = small_fleet()
    record(fleet, tmp_path, PROFILE, weeks=1, sync_ms=SYNC_MS, seed=3)
    recording = hpabatch.open(tmp_path)
    assert check_history(recording.history).is_empty()
    scales = recording.table("scales").collect()
    run = simulate(
        [case_of(t, t.spec, "x", 0, 1, SYNC_MS) for t in fleet],
        PROFILE,
        seed=3,
        keep_points=True,
    ).points
    assert run is not None
    for truth in fleet:
        theirs = run.filter(pl.col("hpa") == truth.key[2]).sort("ts")
        recorded = scales.filter(pl.col("target") == truth.key[2]).sort("ts")
        sizes = recorded.select("ts", "spec_replicas")
        joined = theirs.join_asof(sizes, on="ts")
        assert joined["replicas"].equals(joined["spec_replicas"], null_equal=True)


# ---- judging


def verdict(*weeks: float, cost: float) -> Verdict:
    return Verdict(weeks, cost)


def test_a_change_is_right_if_it_is_better_by_the_goal() -> None:
    """Whoever counts: cheaper and in no week worse is harmless where today's misses, not right."""
    today = verdict(50, 8, cost=10)
    for weeks, cost, harmless, right in (
        ((50, 9), 9, True, False),
        ((51, 8), 9, False, False),
        ((50, 10), 9, False, False),
        ((50, 8), 10, False, False),
        ((0, 0), 12, True, True),  # it holds the constraint
    ):
        case = Case(today, verdict(*weeks, cost=cost))
        assert case.is_right(GOAL) == right, weeks
        assert case.is_harmless(GOAL) == harmless, weeks
        known = {"today": today, "other": case.other}
        assert is_right(Answer(ADVICE, "other"), known, GOAL, 5.0) is right, weeks
        found = tally([case], GOAL)
        assert (found.right.count, found.harmless.count) == (right, harmless)


# ---- a small proof


def lowered(options: Options, folder: Path, fleet: Sequence[Truth]) -> dict[Key, Answer]:
    """Advise 0.8 of the target for everyone, whatever the history says."""
    return {t.key: Answer(ADVICE, "target=x0.8") for t in fleet}


def kept(options: Options, folder: Path, fleet: Sequence[Truth]) -> dict[Key, Answer]:
    """Keep everything."""
    return {t.key: Answer(KEEP) for t in fleet}


SMALL = Options(
    seed=4,
    hpas=5,
    batch=3,
    recorded_weeks=1,
    judged_weeks=1,
    sync_ms=SYNC_MS,
    sample_ms=SYNC_MS,
    grids=("target=x0.8,x0.9,x1.2",),
)


@pytest.mark.compiled
def test_a_run_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    def broken(options: Options, folder: Path, fleet: Sequence[Truth]) -> dict[Key, Answer]:
        if fleet[0].key[2] == "app-3":
            raise KeyboardInterrupt
        return lowered(options, folder, fleet)

    with pytest.raises(KeyboardInterrupt):
        run(SMALL, tmp_path, 1, broken)
    rows = run(SMALL, tmp_path, 1, kept)
    assert [row["hpa"] for row in rows] == [f"team-0/app-{k}" for k in range(5)]
    assert [row["verdict"] for row in rows] == [ADVICE] * 3 + [KEEP] * 2
    assert not [p for p in tmp_path.iterdir() if p.is_dir()]


@pytest.mark.compiled
def test_a_bad_recommender_is_told_from_a_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[Span] = []

    def watched(fleet: Any, settings: Any, span: Span, *others: Any) -> Any:
        spans.append(span)
        return judge(fleet, settings, span, *others)

    monkeypatch.setattr(recommend_truth, "judge", watched)
    rows = run(SMALL, tmp_path, 1, lowered)
    # Only hindsight is judged on the recorded weeks.
    told = {(span.first_week, span.weeks, span.is_recorded) for span in spans}
    assert told == {(1, 1, False), (0, 1, True)}
    for row in rows:
        assert row["advised"]["setting"] == "target=x0.8"
        assert row["advised"]["cost"] >= row["today"]["cost"]  # (equal where min or max binds)
        assert row["oracle"]["cost"] <= row["today"]["cost"]
        assert row["random"]["setting"] in ("target=x0.8", "target=x0.9", "target=x1.2")
    summary = summary_of(asdict(SMALL), SMALL.goal, rows)
    assert summary["verdicts"][ADVICE]["count"] == 5
    assert summary["by_truth"]["advised"]["median_saving_pct"] < -10
    assert len(summary["not_right"]) == 5 - summary["by_truth"]["advised"]["right"]["count"]
    counts = [summary["by_truth"][role]["right"]["count"] for role in ("advised", "oracle")]
    assert counts[0] < counts[1]
    printed = table(summary)
    assert "seed 4, 5 HPAs; recorded 1 weeks, judged on the 1 after; sync 300 s" in printed
    assert "advice     100.0 % (56.6-100.0) 5/5" in printed
    assert sum(found["hpas"] for found in summary["by_limit"].values()) == 5
    assert all(name in printed for name in summary["by_limit"])


@pytest.mark.compiled
def test_every_way_of_recording_is_asked_about(tmp_path: Path) -> None:
    """Wrong specs are not judged; what came as CSV was asked about as the full export, too."""
    asked: list[tuple[str, str]] = []

    def noted(options: Options, folder: Path, fleet: Sequence[Truth]) -> dict[Key, Answer]:
        history = open_history(folder / "history", "replay")
        specs = history.read("hpas")["spec"].to_list()
        asked.append((str(folder.relative_to(tmp_path)).partition("/")[2], specs[0]))
        return lowered(options, folder, fleet)

    one_each = (FULL, CSV, LENS, WRONG)
    rows = run(replace(SMALL, hpas=4, batch=1, ways=one_each), tmp_path, 1, noted)
    assert [row["way"] for row in rows] == list(one_each)
    assert [name for name, _ in asked] == ["", "", "full", "", ""]
    assert asked[1][1] == asked[2][1]
    judged = [row["way"] for row in rows if "today" in row]
    assert judged == [FULL, CSV, LENS]
    assert [row["way"] for row in rows if "full" in row] == [CSV]
    summary = summary_of(asdict(SMALL), SMALL.goal, rows)
    assert summary["verdicts"][ADVICE]["total"] == 3
    assert summary["stated_wrong"][NO_ADVICE]["total"] == 1
    assert summary["round_trip"]["saving_pct"] == summary["round_trip"]["saving_full_pct"]
    assert "settings that are stated wrong" in table(summary)


@pytest.mark.compiled
def test_advice_of_sweep_and_recommend_is_judged_by_the_truth(tmp_path: Path) -> None:
    """What is recommended is a candidate; unless confidence is low it saves and holds."""
    options = replace(
        SMALL,
        seed=14,
        hpas=3,
        batch=3,
        recorded_weeks=2,
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
