"""Plans: which shards, whose rivals, which days, which instants."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.fleet import plan as engine_plan
from hpabatch.engine.fleet.candidates import Candidate, candidates_from_history
from hpabatch.engine.fleet.clocks import Clocks, Grid
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.fleet.request import ChosenHpas
from hpabatch.engine.fleet.selection import Selection
from hpabatch.errors import HistoryError
from hpabatch.history.reader import open_history
from hpabatch.model.versions import PROFILES
from tests.cli.histories import last_day
from tests.engine.made import replay_history
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    METRICS,
    STEP,
    T0,
    empty_tables,
    fetch_row,
    hpa_row,
    pass_row,
    pod_row,
    request_row,
    scale_row,
    start_row,
    state_row,
    to_frame,
    usage_row,
    write_pieces,
)


def tables_of(*names: str, **more: list[Row]) -> Tables:
    """Return the tables of some workloads, each with an HPA and a pod."""
    tables = empty_tables()
    tables["hpas"] = [hpa_row(name, name, METRICS[:1]) for name in names]
    tables["scales"] = [scale_row(name, T0 - STEP, 2) for name in names]
    for name in names:
        pod = f"{name}-0"
        tables["pods"].append(pod_row(pod))
        tables["pod_states"].append(state_row(pod))
        tables["pod_requests"].append(request_row(pod))
        tables["pod_metrics"] += [usage_row(pod, T0 + k * STEP, 90) for k in range(10)]
    return tables | more


def planned(tables: Tables, folder: Path, **parameters: int | str | None) -> ReplayPlan:
    given = {"k8s": "1.38", **parameters}
    return plan_replay(
        open_history(write_pieces(tables, folder, 1)),
        ReplayParameters(**given),  # type: ignore[arg-type]
    )


def candidates(clusters: list[int]) -> list[Candidate]:
    rows = [
        hpa_row(f"w{k:02}", "web", METRICS[:1], cluster=f"c{c}")
        for k, c in enumerate(sorted(clusters))
    ]
    frame = to_frame("hpas", rows)
    return candidates_from_history(frame, lambda _: PROFILES["1.38"])[0]


@given(
    clusters=st.lists(st.integers(0, 2), max_size=12),
    rows=st.lists(st.integers(0, 50), min_size=12, max_size=12),
    most=st.tuples(st.integers(1, 40), st.integers(1, 90)),
)
def test_shards_are_all_hpas_in_order_each_of_one_cluster_and_small(
    clusters: list[int], rows: list[int], most: tuple[int, int]
) -> None:
    chosen = candidates(clusters)
    clocks = Clocks(0, 90, Grid(10), {}, {})  # nine ticks each
    with (
        mock.patch.object(engine_plan, "SHARD_DECISIONS", most[0]),
        mock.patch.object(engine_plan, "SHARD_DAY_ROWS", most[1]),
    ):
        shards = engine_plan._shards(chosen, rows[: len(chosen)], clocks)
    assert [k for first, last in shards for k in range(first, last)] == list(range(len(chosen)))
    for first, last in shards:
        assert len({c.cluster for c in chosen[first:last]}) == 1
        if last - first > 1:
            assert (last - first) * 9 <= most[0]
            assert sum(rows[first:last]) <= most[1]


def test_recorded_instants_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no decision instants were recorded"):
        planned(tables_of("web"), tmp_path, instants="recorded")


def test_syncs_are_not_estimated_where_passes_are_known(tmp_path: Path) -> None:
    """Nothing is decided at them, so nothing is said of them."""
    tables = tables_of("web")
    tables["metric_fetches"] = [fetch_row("web", 0, T0 + 15_000 * k, "ok") for k in range(40)]
    tables["passes"] = [pass_row(T0, start=True), pass_row(T0 + 20_000)]
    assert "estimated for 1 of 1" in planned(tables, tmp_path).evidence["phase"]
    plan = planned(tables, tmp_path, instants="passes")
    assert not plan.clocks.estimated
    assert plan.evidence["phase"] == "0 ms (assumed)"


def test_passes_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"no passes of a live loop were recorded .* on a grid"):
        planned(tables_of("web"), tmp_path, instants="passes")


def test_passes_need_no_samples_and_bring_their_rules(tmp_path: Path) -> None:
    tables = tables_of("web", passes=[pass_row(T0 - 5, start=True), pass_row(T0, k8s="1.32")])
    tables |= {"pod_metrics": [], "controller": [start_row(T0, version="1.36.1")]}
    plan = planned(tables, tmp_path, instants="passes", k8s=None)
    assert (plan.clocks.from_ms, plan.clocks.to_ms) == (T0 - 5, T0)
    assert plan.profile_of("c1").name == "1.32"
    assert plan.starts_ms["c1"].tolist() == [T0 - 5]
    assert plan.evidence["instants"] == "passes of a live loop for 1 of 1 HPA"
    # Without these instants the controller's own word counts.
    tables["pod_metrics"] = [usage_row("web-0", T0, 5)]
    plan = planned(tables, tmp_path, k8s=None)
    assert plan.profile_of("c1").name == "1.36"
    assert plan.starts_ms["c1"].tolist() == [T0]


def test_a_span_without_a_sync_is_refused(tmp_path: Path) -> None:
    tables = tables_of("web", pod_metrics=[usage_row("web-0", T0 + 1, 5)])
    with pytest.raises(HistoryError, match="choose a shorter sync period"):
        planned(tables, tmp_path)


def test_an_hpa_is_replayed_alone_as_among_its_rivals_with_estimated_instants(
    tmp_path: Path,
) -> None:
    # The rival's fetches show that it syncs 3 s after the grid, so it is not the first to act.
    tables = tables_of("web")
    tables["hpas"].append(hpa_row("a", "web", METRICS[:1]))
    ends = np.arange(40)
    tables["pod_metrics"] = [usage_row("web-0", int(T0 + k * STEP), 90) for k in ends]
    times = [int(T0 + k * STEP + 3_000) for k in ends]
    tables["metric_fetches"] = [fetch_row("a", 0, ms, "ok") for ms in times]
    history = open_history(write_pieces(tables, tmp_path, 1))
    parameters = ReplayParameters("1.38", sync_period_ms=STEP)
    assert list(plan_replay(history, parameters).clocks.estimated) == [("c1", "shop", "a")]
    whole = replay_history(history, parameters).decisions.filter(pl.col("hpa") == "web")
    alone = replay_history(history, parameters, select=lambda f: f.filter(pl.col("hpa") == "web"))
    assert alone.decisions.equals(whole)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("hpa = 'cart'", []),
        ("namespace = 'batch'", ["thumbnails"]),
        ("max_replicas > 5", ["thumbnails"]),  # of one that is refused nothing else is known
        (
            "CAST(CASE WHEN max_replicas > 0 THEN '1' ELSE hpa END AS INT) = 1",
            ["thumbnails"],  # its name is no number
        ),
    ],
)
def test_of_the_refused_only_those_that_may_be_meant_are_told(where: str, told: list[str]) -> None:
    history = open_history(last_day(), "replay")
    plan = plan_replay(
        history, ReplayParameters(k8s="1.36"), None, Selection(ChosenHpas(where=where))
    )
    assert [skipped.hpa for skipped in plan.skipped] == told
