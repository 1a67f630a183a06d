"""A sweep's rows are what `simulate` finds for manifests with the same specs, on the same work."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from benchmarks.exported_run import export_run
from hpabatch.engine.columns.recorded import RECORDED_MEASURES, recorded_name
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.simulate import loop as simulation
from hpabatch.engine.simulate.loop import simulate
from hpabatch.engine.simulate.result import run_loop
from hpabatch.engine.simulate.run import LoopOptions, prepare_loop
from hpabatch.engine.sweep import run as engine
from hpabatch.engine.sweep.run import SweepPlan, hpas_frame, prepare_part
from hpabatch.history.reader import open_history
from hpabatch.history.store.writer import write_table
from hpabatch.inputs.grid import GridError
from hpabatch.inputs.plants import PlantOverride, SignalOverride
from hpabatch.inputs.prices import PriceList, Prices
from hpabatch.inputs.scenarios import Scenario, read_scenario
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.settings.fields import SHIPPED
from hpabatch.model.settings.setting import TODAY, apply_setting, parse_setting
from tests.engine.fit.test_history import BASE, PROFILE, case
from tests.engine.swept import HOUR_MS, cut, only, planned, swept

pytestmark = pytest.mark.compiled

# One metric, two metrics, a behavior of its own, a spec that changed later (api), a Value target.
NAMES = ("ingest/transform", "payments/api", "shop/checkout", "shop/recommendations")
OTHERS = ("media/transcoder", "shop/cart", "shop/catalog", "shop/frontend")
GRIDS = ("target=x0.8,x1.2,x1", "policies=gentle,fast", "scaleDown.window=60", "max=+2")
PRICES = PriceList(Prices("EUR", 0.03, 0.004, 0.001))
LOOP: dict[str, Any] = {"seed": 3, "prices": PRICES}
NOT_OF_THE_RUN = [
    *("setting", "unit", "setting_id", "elastic_speedup"),
    *map(recorded_name, RECORDED_MEASURES),
]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours of some HPAs in the morning."""
    return cut(tmp_path_factory.mktemp("sweep") / "history", *NAMES, *OTHERS)


@cache
def plan_of_all(history: Path) -> SweepPlan:
    return planned(GRIDS, history, only(*NAMES), **LOOP)


@cache
def sweep_of_all(history: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    return swept(plan_of_all(history))


def simulated(
    history: Path, specs: Sequence[tuple[Candidate, HPASpec]], **loop: Any
) -> pl.DataFrame:
    """Return the measures of HPAs as `simulate --hpas` finds them."""
    options = LoopOptions(
        manifests=tuple(HPA(c.name, c.namespace, spec=spec) for c, spec in specs),
        length_ms=2 * HOUR_MS,
        **(LOOP | loop),
    )
    parameters = ReplayParameters(events="decided")
    loop_ = prepare_loop(open_history(history), parameters, options, only(*NAMES))
    return run_loop(loop_, options).measures.filter(pl.col("setting") == "proposed")


def alike(rows: pl.DataFrame, others: pl.DataFrame) -> None:
    """Hold all columns of runs against each other."""
    same = [name for name in others.columns if name not in NOT_OF_THE_RUN]
    assert len(same) > 45
    assert_frame_equal(rows.select(same), others.select(same))


# ---- the same runs


@pytest.mark.parametrize(
    "name",
    [
        "today",
        "target=x0.8 max=+2 scaleDown.window=60 policies=gentle",
        "max=+2 scaleDown.window=60 policies=fast",
    ],
)
def test_a_row_is_what_simulate_finds_for_that_spec(history: Path, name: str) -> None:
    sweep, (results, _) = plan_of_all(history), sweep_of_all(history)
    profile = sweep.plan.versions.one()
    specs = [
        (c, apply_setting(parse_setting(name), c.spec, SHIPPED, profile)) for c in sweep.plan.chosen
    ]
    rows = results.filter(pl.col("setting") == parse_setting(name).name)
    assert rows.height == len(NAMES)
    alike(rows, simulated(history, specs))


def test_equal_specs_are_run_once(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    real = simulation.run_cases

    def counted(cases: Any, *arguments: Any, **more: Any) -> Any:
        ran.extend(case.setting for case in cases)
        return real(cases, *arguments, **more)

    monkeypatch.setattr(engine, "run_cases", counted)
    results, _ = swept(
        planned(["target=65,70,x1", "combine=min,max"], history, only("shop/checkout"))
    )
    # (checkout has a target of 65 already, and one metric that cannot be combined)
    assert ran == ["today", "target=70 combine=min"]
    assert results.height == 1 + 5


def test_a_larger_maximum_runs_where_the_smaller_one_held(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of the smaller one's run are what `simulate` finds for the larger one."""
    ran: list[tuple[str, str]] = []
    real = simulation.run_cases

    def counted(cases: Any, *arguments: Any, **more: Any) -> Any:
        ran.extend((case.key[2], case.setting) for case in cases)
        return real(cases, *arguments, **more)

    monkeypatch.setattr(engine, "run_cases", counted)
    sweep = planned(["max=x0.3,today,+40"], history, only(*NAMES), **LOOP)
    results, blocks = swept(sweep)
    monkeypatch.undo()
    assert len(NAMES) < len(ran) < results.height
    assert blocks.select("hpa", "setting_id").unique().height == results.height
    profile = sweep.plan.versions.one()
    for name in ("today", "max=+40"):
        setting = parse_setting(name)
        specs = [(c, apply_setting(setting, c.spec, SHIPPED, profile)) for c in sweep.plan.chosen]
        alike(results.filter(setting=setting.name), simulated(history, specs))


# ---- what-ifs beyond upstream, and the sync period


def test_the_sync_period_is_that_of_the_setting(history: Path) -> None:
    sweep = planned(["sync=15s,1m"], history, only("shop/checkout"))
    results, _ = swept(sweep)
    assert results["setting"].to_list() == ["today", "sync=15s", "sync=1m"]
    assert set(results["hours"]) == {2.0}
    (known,) = prepare_part(sweep, 0).cases
    minute = replace(
        known.under(TODAY, known.today), setting="sync=1m", period_ms=60_000, steps=120
    )
    alike(results[2], simulate([minute], sweep.plan.versions.one()).measures)
    assert results["rescales"][0] == results["rescales"][1]
    assert results["pod_hours"][0] == results["pod_hours"][1] != results["pod_hours"][2]


def test_percentages_of_limits_need_fewer_pods_where_limits_are_known(history: Path) -> None:
    """A limit is at least the request, so the same percentage of it is more."""
    sweep = planned(["percentage-of=limit"], history, only("media/transcoder", "shop/catalog"))
    assert sweep.limits
    results, _ = swept(sweep)
    found = dict(results.group_by("hpa", maintain_order=True).agg("pod_hours").iter_rows())
    assert found["transcoder"][0] > found["transcoder"][1]
    assert found["catalog"][0] == found["catalog"][1]  # (its target is no percentage)


def test_who_lacks_a_limit_is_told_and_left_out(history: Path) -> None:
    sweep = planned(["percentage-of=limit"], history, only("shop/cart", "shop/catalog"))
    (note,) = sweep.notes
    assert note.startswith("percentage-of=limit is left out for 1 of 2 HPAs, such as shop/cart: ")
    assert note.endswith("the limit of resource/cpu, resource/memory is not set, or not recorded")
    results, _ = swept(sweep)
    assert results.select("hpa", "setting_id").rows() == [("cart", 0), ("catalog", 0),
                                                          ("catalog", 1)]  # fmt: skip


def test_limits_that_nobody_has_are_a_mistake_beside_the_others(history: Path) -> None:
    with pytest.raises(GridError) as caught:
        planned(
            ["percentage-of=limit", "min=30", "max=20"],
            history,
            only("shop/cart"),
            groups=["label:x"],
        )
    assert len(caught.value.mistakes) == 3
    told = str(caught.value)
    assert "percentage-of=limit fits no HPA, such as shop/cart: " in told
    assert "--group label:x" in told
    assert "min" in told


# ---- groups


def test_with_groups_a_setting_may_fit_some_members_only(history: Path) -> None:
    """Half of 240m is a quantity, which no percentage can be; x0.9 fits both."""
    where = only("shop/catalog", "shop/checkout")
    sweep = planned(["target=70,120m,x0.9"], history, where, groups=["fleet"])
    assert len(sweep.notes) == 2
    results, _ = swept(sweep)
    found = results.group_by("hpa", maintain_order=True).agg("setting").rows()
    assert found == [
        ("catalog", ["today", "target=120m", "target=x0.9"]),
        ("checkout", ["today", "target=70", "target=x0.9"]),
    ]


# ---- how it is cut


def test_nothing_depends_on_how_it_is_cut(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sweep_of_all(history)
    monkeypatch.setattr(engine, "HPAS_AT_ONCE", 1)
    monkeypatch.setattr(engine, "STEPS_AT_ONCE", 2 * 480)
    sweep = planned(GRIDS, history, only(*NAMES), **LOOP)
    assert len(sweep.parts) == len(NAMES)
    assert [last - first for first, last in sweep.chunks] == [2, 2, 2, 1]
    for one, other in zip(swept(sweep), whole, strict=True):
        assert_frame_equal(one, other)


# ---- frames


def test_scores_are_there_unless_left_out(history: Path) -> None:
    plain = planned(["max=+1"], history, only("shop/checkout"), length_ms=None)
    without = hpas_frame(plain, prepare_part(plain, 0))
    scored = planned(["max=+1"], history, only("shop/checkout"), length_ms=None, fidelity=True)
    found = hpas_frame(scored, prepare_part(scored, 0, scored=True))
    assert found.columns == without.columns
    names = ["advice", "why_not", "plant_skill", "controller_answer", "controller_explained_share"]
    assert without.select(names).row(0) == (None,) * 5
    assert found["advice"][0] is not None
    assert found["ceiling"].to_list() == without["ceiling"].to_list() == ["open"]
    assert found.schema == without.schema
    assert found["days"].to_list() == [pytest.approx(2.25 / 24, abs=60 / 86400)]
    assert found["blocks"].to_list() == [1]


def test_a_ceiling_that_is_stated_to_be_none_is_open(history: Path) -> None:
    """It bounds no usage, so ceilings are assumed, with what that means for advice."""
    found = []
    for stated in (SignalOverride(no_ceiling=True), SignalOverride(ceiling_milli=700)):
        plants = (PlantOverride(signals=(("*", stated),)),)
        sweep = planned(["max=+1"], history, only("shop/checkout"), plants=plants)
        (ceiling,) = hpas_frame(sweep, prepare_part(sweep, 0))["ceiling"]
        found.append(ceiling)
    assert found == ["open", "given"]


# ---- scenarios


def scenario(tmp_path: Path, text: str) -> Scenario:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    return read_scenario(path)


BOUNDS = "steps:\n- set: {minReplicas: 6, at: 30m, for: 30m}\n  hpa: shop/checkout\n"


def test_a_scenario_sets_bounds_on_top_of_every_setting(history: Path, tmp_path: Path) -> None:
    """As it does with the manifests of `simulate`."""
    given = scenario(tmp_path, BOUNDS)
    where = only(*NAMES)
    sweep = planned(["min=1,3,+1", "max=5,x2"], history, where, scenario=given, **LOOP)
    results, _ = swept(sweep)
    (note,) = prepare_part(sweep, 0).notes
    assert note.startswith("shop/checkout: min=1 max=5, min=3 max=5, min=+1 max=5 is left out: ")
    assert "steps[0]" in note
    of_checkout = results.filter(hpa="checkout")["setting"].to_list()
    assert of_checkout == ["today", "min=1 max=x2", "min=3 max=x2", "min=+1 max=x2"]
    profile = sweep.plan.versions.one()
    for name in ("today", "min=3 max=x2"):
        setting = parse_setting(name)
        specs = [(c, apply_setting(setting, c.spec, SHIPPED, profile)) for c in sweep.plan.chosen]
        rows = results.filter(pl.col("setting") == name)
        alike(rows, simulated(history, specs, scenario=given))


# ---- several clusters


@pytest.mark.parametrize("assumed", [None, "at once", "totals"])
def test_what_is_fitted_and_assumed_of_pods_is_a_column(
    tmp_path: Path, assumed: str | None
) -> None:
    tables = dict(export_run([case()], PROFILE).tables)
    pods, states = tables["pods"], tables["pod_states"]
    median = statistics.median(tables["pod_metrics"]["cpu_milli"].drop_nulls())
    if assumed == "totals":
        tables["pods"] = pods.with_columns(origin=pl.lit("generated"))
    if assumed == "at once":
        born = states.filter(ready=pl.lit("True")).join(pods.select("uid", "created"), on="uid")
        born = born.with_columns(ts="created", last_transition="created")
        tables["pod_states"] = born.select(states.columns).unique("uid")
        tables["pods"] = pods.with_columns(started="created")
    for name, frame in tables.items():
        if frame.height:
            write_table(frame, tmp_path / f"{name}.parquet", name)
    sweep = planned(["target=x0.8"], tmp_path)
    (row,) = hpas_frame(sweep, prepare_part(sweep, 0)).to_dicts()
    assert row["starts_assumed"] == assumed
    if assumed is None:
        assert row["base_share"] == pytest.approx(BASE / median, rel=0.1)
        assert row["starting_share"] == pytest.approx(700 / median, rel=0.1)
