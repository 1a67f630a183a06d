"""Recommendations against fleets whose truth is known: the parts of the proof, and a small one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import hpabatch
from benchmarks import recommend_truth
from benchmarks.recommend_truth import Options, run
from benchmarks.truth_fleet import (
    CPU,
    KINDS,
    LIMITS,
    MEMORY,
    NO_LIMIT,
    PLAIN,
    SHAPES,
    TOLD,
    UNTOLD,
    WEEK_MINUTES,
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
    Share,
    Span,
    Verdict,
    best,
    is_right,
    judge,
    tally,
)
from benchmarks.truth_record import case_of, record
from benchmarks.truth_report import case_from, short_reason, summary_of, table
from benchmarks.truth_ways import CSV, FULL, LENS, WRONG, Recording, write_history
from hpabatch.engine.simulate.loop import simulate
from hpabatch.history.reader import open_history
from hpabatch.history.store.verify import check_history
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.versions import profile_for

PROFILE = profile_for("1.37")
GOAL = Goal(most=10)
SYNC_MS = 300_000


def with_target(spec: HPASpec, target: int) -> HPASpec:
    metric = spec.metrics[0]
    assert metric.resource is not None
    wanted = replace(metric.resource.target, average_utilization=target)
    resource = replace(metric.resource, target=wanted)
    return replace(spec, metrics=(replace(metric, resource=resource),))


def target_of(truth: Truth) -> int:
    resource = truth.spec.metrics[0].resource
    assert resource is not None
    assert resource.target.average_utilization is not None
    return resource.target.average_utilization


# ---- fleets


def test_a_third_of_a_fleet_are_of_the_kinds_in_turn_and_the_others_as_without_kinds() -> None:
    options = FleetOptions(15, weeks=1, seed=5)
    plain, fleet = make_fleet(options), make_fleet(replace(options, kinds=KINDS))
    assert [t.kind for t in fleet[2::3]] == list(KINDS)
    for before, after in zip(plain, fleet, strict=True):
        if after.kind == PLAIN:
            assert (before.spec, before.workload.plant) == (after.spec, after.workload.plant)
    burn, shared, idle, pinned, flapping = fleet[2::3]
    assert min(s for _, s in burn.workload.plant.pods.startup_ms) > 20_000
    assert MEMORY in shared.workload.plant.signals
    assert len(shared.spec.metrics) == 2
    assert idle.workload.work[CPU].max() < 0.2 * plain[8].workload.work[CPU].max()
    assert pinned.spec.max_replicas < plain[11].spec.max_replicas
    assert flapping.spec.behavior is not None
    assert flapping.spec.behavior.scale_down is not None
    assert flapping.spec.behavior.scale_down.stabilization_window_seconds == 0


def test_a_fleet_begins_with_the_smaller_one_and_hangs_on_the_seed() -> None:
    small, large = (make_fleet(FleetOptions(n, weeks=1, seed=5)) for n in (3, 5))
    other = make_fleet(FleetOptions(3, weeks=1, seed=6))
    for k, truth in enumerate(small):
        assert truth.spec == large[k].spec
        assert (truth.workload.work[CPU] == large[k].workload.work[CPU]).all()
        assert not np.array_equal(truth.workload.work[CPU], other[k].workload.work[CPU])


def test_a_longer_truth_has_other_weeks_but_all_that_it_is_asked_for() -> None:
    fleet = make_fleet(FleetOptions(30, weeks=2, seed=1))
    assert {truth.shape for truth in fleet} == set(SHAPES)
    for truth in fleet:
        work, signal = truth.workload.work[CPU], truth.workload.plant.signals[CPU]
        assert work.size == 2 * WEEK_MINUTES
        assert work.min() >= 0
        assert signal.ceiling_milli is not None
        assert signal.request_milli is not None
        assert signal.base_milli < signal.request_milli <= signal.ceiling_milli
        assert 1 <= (truth.spec.min_replicas or 0) < truth.spec.max_replicas
        assert 30 <= target_of(truth) <= 90
    assert len({truth.habit.split(",")[0] for truth in fleet}) == 4
    assert {truth.limit for truth in fleet} == set(LIMITS)
    for truth in fleet:
        same = truth.later.plant == truth.workload.plant
        assert same or truth.limit == NO_LIMIT  # (what nodes leave is another thing every week)


def test_unknown_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="no such shape: square; daily, quiet"):
        FleetOptions(shapes=("daily", "square"))


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


@pytest.mark.compiled
def test_a_recording_says_no_more_than_a_cluster_would(tmp_path: Path) -> None:
    fleet = small_fleet()
    told = [replace(t, limit=UNTOLD if k else TOLD) for k, t in enumerate(fleet)]
    record(told, tmp_path, PROFILE, weeks=1, sync_ms=SYNC_MS, seed=3)
    requests = hpabatch.open(tmp_path).table("pod_requests").collect()
    for k, truth in enumerate(told):
        signal = truth.workload.plant.signals[CPU]
        rows = requests.filter(pl.col("target") == truth.key[2])
        assert set(rows["cpu_milli"]) == {signal.request_milli}
        assert set(rows["cpu_limit_milli"]) == {signal.ceiling_milli if k == 0 else None}


# ---- judging


@pytest.mark.compiled
def test_weeks_are_what_runs_that_are_a_week_longer_have_more() -> None:
    fleet = make_fleet(FleetOptions(4, weeks=4, seed=8, shapes=("bursty",)))
    span = Span(first_week=1, weeks=3, sync_ms=60_000)
    settings = {t.key: {"today": t.spec, "hot": with_target(t.spec, 95)} for t in fleet}
    found = judge(fleet, settings, span, GOAL, PROFILE)
    assert sum(v["hot"].mean for v in found.values()) > 5
    for truth in fleet:
        begun = replace(truth, workload=replace(truth.later, initial=size_at_start(truth)))
        for name, spec in settings[truth.key].items():
            runs = [
                simulate([case_of(begun, spec, "x", 1, weeks, 60_000)], PROFILE).measures
                for weeks in (1, 2, 3)
            ]
            sums = [0.0, *(run["saturated_minutes"].item() for run in runs)]
            verdict = found[truth.key][name]
            assert verdict.weeks == pytest.approx(np.diff(sums))
            assert verdict.cost == pytest.approx(runs[-1]["core_hours"].item() / 3)


def size_at_start(truth: Truth) -> int:
    """Return the pods that the second week's first hour asks for, within today's bounds."""
    plant = truth.later.plant
    assert plant.capacity_milli is not None
    most = max(truth.workload.work[CPU][WEEK_MINUTES : WEEK_MINUTES + 60].tolist())
    wanted = -(-most // plant.capacity_milli)
    return int(min(max(wanted, truth.spec.min_replicas or 1), truth.spec.max_replicas))


def verdict(*weeks: float, cost: float) -> Verdict:
    return Verdict(weeks, cost)


def test_the_constraint_comes_before_the_cost() -> None:
    cheap, dear = verdict(0, 3, cost=5), verdict(0, 0, cost=7)
    broken, nearly = verdict(0, 30, cost=1), verdict(0, 10, cost=9)
    assert cheap.beats(dear, GOAL)
    assert not dear.beats(cheap, GOAL)
    assert not cheap.beats(cheap, GOAL)
    assert dear.beats(broken, GOAL)
    assert not broken.beats(dear, GOAL)
    assert not nearly.beats(broken, GOAL)  # what misses the constraint is no advice
    assert not nearly.holds(GOAL)
    assert nearly.holds_on_average(GOAL)
    names = {"today": broken, "a": nearly, "b": dear, "c": cheap}
    assert best(names, GOAL) == "c"
    assert best({"today": broken, "a": nearly}, GOAL) == "a"


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


def test_keep_is_right_where_nothing_that_holds_saves_enough() -> None:
    today, cheap = verdict(0, 0, cost=10), verdict(0, 0, cost=9.6)
    assert is_right(Answer(KEEP), {"today": today, "a": cheap}, GOAL, 5.0)
    assert not is_right(Answer(KEEP), {"today": today, "a": cheap}, GOAL, 3.0)
    assert not is_right(Answer(KEEP), {"today": verdict(0, 50, cost=1), "a": cheap}, GOAL, 5.0)
    assert is_right(Answer(NO_ADVICE), {"today": today}, GOAL, 5.0) is None


@pytest.mark.compiled
def test_recorded_weeks_have_the_ceilings_of_that_time() -> None:
    """What nodes leave is another thing later: hindsight sees what there was."""
    (truth,) = make_fleet(FleetOptions(1, weeks=1, seed=8, shapes=("bursty",)))
    signal = truth.workload.plant.signals[CPU]
    assert signal.ceiling_milli is not None
    lower = replace(truth, later_milli=signal.ceiling_milli // 2)
    settings = {truth.key: {"today": with_target(truth.spec, 95)}}
    span = Span(first_week=0, weeks=1, sync_ms=60_000, is_recorded=True)
    seen, same, later = (
        judge([one], settings, where, GOAL, PROFILE)[truth.key]["today"]
        for one, where in ((lower, span), (truth, span), (lower, replace(span, is_recorded=False)))
    )
    assert seen == same
    assert later.worst > seen.worst


def test_stand_ins_come_out_as_they_must() -> None:
    today = [verdict(1, 2, cost=10), verdict(50, 40, cost=10), verdict(0, 0, cost=10)]
    keep = tally([Case(v, v) for v in today], GOAL)
    assert (keep.right.count, keep.holds.count, keep.today_holds.count) == (0, 2, 2)
    assert (keep.mended.count, keep.mended.total) == (0, 1)
    assert (keep.median_saving_pct, keep.total_saving_pct) == (0, 0)
    other = [verdict(3, 3, cost=8), verdict(1, 1, cost=15), verdict(9, 11, cost=1)]
    found = tally([Case(a, b) for a, b in zip(today, other, strict=True)], GOAL)
    assert (found.right.count, found.holds.count, found.holds_on_average.count) == (2, 2, 2)
    assert (found.mended.count, found.mended.total) == (1, 1)
    assert found.median_saving_pct == pytest.approx(20)
    assert found.total_saving_pct == pytest.approx(20)
    nothing = tally([], GOAL)
    assert nothing.right.pct is None
    assert nothing.median_saving_pct is None


@pytest.mark.parametrize(("count", "total"), [(192, 200), (1, 3), (150, 150), (0, 10)])
def test_ends_of_wilsons_interval_are_where_the_share_is_just_not_odd(
    count: int, total: int
) -> None:
    """At either end the observed share is 1.96 standard deviations off, by its definition."""
    share = Share(count, total)
    assert share.pct == pytest.approx(100 * count / total)
    for end in share.interval_pct:
        p = end / 100
        off, sd = abs(count / total - p), np.sqrt(p * (1 - p) / total)
        assert off == pytest.approx(1.959964 * sd, abs=1e-6)
    low, high = share.interval_pct
    assert low <= 100 * count / total <= high
    assert low < high


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
def test_specs_that_are_stated_wrong_are_not_the_true_ones(tmp_path: Path) -> None:
    fleet = make_fleet(FleetOptions(hpas=4, weeks=1, seed=3, sample_ms=SYNC_MS))
    asked = Recording(fleet, 1, SYNC_MS, 3, profile_for("1.37"))
    specs = {}
    for way in (FULL, WRONG):
        folder = write_history(asked, way, 0, tmp_path / way)
        hpas = open_history(folder, "replay").read("hpas")
        specs[way] = dict(hpas.select("name", "spec").iter_rows())
    assert specs[FULL].keys() == specs[WRONG].keys()
    assert all(specs[FULL][name] != specs[WRONG][name] for name in specs[FULL])


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


def test_reasons_are_counted_without_their_numbers() -> None:
    told = ("too wide (252 changes in 173 hours: 0.308, -0.2 to 0.41); and more", "")
    assert [short_reason(why) for why in told] == [
        "too wide (# changes in # hours: # # to #)",
        "no reason given",
    ]
