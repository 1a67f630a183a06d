"""Tests of the numbers behind pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hpabatch.engine.advise.objective import parse_goal
from hpabatch.errors import EXIT_REFUSED, UsageError
from hpabatch.report.pictures.data import (
    Marked,
    NothingToDrawError,
    compare_settings,
    hpa_key,
    only,
    place_of,
    unit_name,
)
from hpabatch.report.pictures.style import file_stem
from tests.report.pictured import came_to, maker, settings, swept
from tests.sweeps import SweepMaker, weeks


def test_numbers_are_per_week_and_in_the_order_of_the_settings() -> None:
    found = compare_settings(swept(), "shop/api")
    assert found.names[0] == "today"
    assert (found.x.measure, found.y.measure) == ("pod_hours", "saturated_minutes")
    assert found.x.values[0] == pytest.approx(6000 / 60 * 1.1)
    expected = [came_to(s)["saturated_minutes"][0] for s in ({}, *settings())]
    assert found.y.values.tolist() == pytest.approx(expected)
    assert found.y.title == "saturated minutes per week"


def test_a_groups_numbers_are_the_sum_of_rates_whatever_the_lengths() -> None:
    made = SweepMaker([{"target": "70"}])
    for hpa, blocks in (("api", 4), ("web", 2)):
        lots = {k: weeks([10.0 + k] * blocks, saturated_minutes=[3.0] * blocks) for k in (0, 1)}
        made.add(hpa, lots, unit="all")
    found = compare_settings(made.result(), "all")
    assert found.x.values.tolist() == [20.0, 22.0]
    assert found.y.values.tolist() == [6.0, 6.0]
    assert "sum of 2 HPAs" in found.facts()


def test_short_histories_are_per_day() -> None:
    found = compare_settings(swept(block="day"), "shop/api")
    assert found.x.title == "pod-hours per day"
    assert found.x.values[0] == pytest.approx(110)


def brute_front(x: list[float], y: list[float]) -> list[bool]:
    points = list(zip(x, y, strict=True))
    return [not any(a <= c and b <= d and (a, b) != (c, d) for a, b in points) for c, d in points]


def test_the_front_is_that_of_the_two_measures() -> None:
    found = compare_settings(swept(), "shop/api")
    assert found.front().tolist() == brute_front(found.x.values.tolist(), found.y.values.tolist())


def test_runs_that_cannot_be_relied_on_are_not_on_the_front_unless_all_are() -> None:
    made = SweepMaker([{"target": "70"}, {"target": "80"}])
    lots = {k: weeks([10.0 - k], saturated_minutes=[1.0]) for k in range(3)}
    some = made.add("api", lots, unusable={2: "outside"}).result()
    found = compare_settings(some, "shop/api")
    assert found.usable.tolist() == [True, True, False]
    assert found.front().tolist() == [False, True, False]
    made = SweepMaker([{"target": "70"}, {"target": "80"}])
    none = made.add("api", lots, unusable=dict.fromkeys(range(3), "plant")).result()
    assert compare_settings(none, "shop/api").front().tolist() == [False, False, True]
    made = SweepMaker([{"target": "70"}, {"target": "80"}])
    own = made.add("api", lots, unusable={2: "no base; outside"}, problems="no base").result()
    own = replace(own, results=own.results.with_columns(why_not=pl.lit("no base")))
    assert compare_settings(own, "shop/api").usable.all()


def test_todays_setting_counts_for_the_front_even_if_it_cannot_be_relied_on() -> None:
    made = SweepMaker([{"target": "70"}])
    lots = {0: weeks([5.0], saturated_minutes=[0.0]), 1: weeks([6.0], saturated_minutes=[1.0])}
    found = compare_settings(made.add("api", lots, unusable={0: "x"}).result(), "shop/api")
    assert found.front().tolist() == [True, False]


def test_an_slo_is_a_limit_per_block_and_of_all_members_together() -> None:
    goal = parse_goal(["saturated_minutes<14/week"], "pod_hours")
    one = compare_settings(swept(), "shop/api", None, goal)
    assert one.y.limit == pytest.approx(14)
    assert one.x.limit is None
    assert one.holds is not None
    assert one.holds.tolist() == (one.y.values < 14).tolist()
    two = compare_settings(swept(("api", "web"), "g"), "g", None, goal)
    assert two.y.limit == pytest.approx(28)
    day = compare_settings(swept(block="day"), "shop/api", None, goal)
    assert day.y.limit == pytest.approx(2)


def test_the_harm_is_the_first_that_is_known() -> None:
    made = SweepMaker([{"target": "70"}])
    lots = {k: weeks([10.0, 10.0], saturated_minutes=[None, None]) for k in (0, 1)}
    found = compare_settings(made.add("api", lots).result(), "shop/api")
    assert found.y.measure == "unserved"


def test_a_measure_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        NothingToDrawError, match=r"cost is not known.*takes prices.*pod_hours"
    ) as why:
        compare_settings(swept(), "shop/api", ("cost", "rescales"))
    assert why.value.exit_code == EXIT_REFUSED


def test_one_setting_only_is_refused() -> None:
    made = SweepMaker([])
    result = made.add("api", {0: weeks([1.0, 2.0])}).result()
    with pytest.raises(NothingToDrawError, match=r"no other setting than today's.*--grid"):
        compare_settings(result, "shop/api")


def test_an_hpa_of_two_clusters_must_be_told_apart() -> None:
    made = maker()
    for cluster in ("east", "west"):
        made.add("api", {k: came_to(s) for k, s in enumerate(made.settings)}, cluster=cluster)
    result = made.result()
    with pytest.raises(UsageError, match="east/shop/api or west/shop/api"):
        hpa_key(result, "shop/api")
    with pytest.raises(UsageError, match="east/shop/api or west/shop/api"):
        unit_name(result, "shop/api")
    assert hpa_key(result, "west/shop/api")[0] == "west"
    assert compare_settings(result, "west/shop/api").name == "west/shop/api"


def test_an_hpa_can_be_taken_out_of_its_group() -> None:
    result = swept(("api", "web"), "group")
    alone = only(result, [("east", "shop", "web")], "east/shop/web")
    found = compare_settings(alone, "shop/web")
    assert found.unit.members == (("east", "shop", "web"),)
    assert found.x.values[0] == pytest.approx(110)


def test_a_marked_setting_must_have_been_simulated() -> None:
    found = compare_settings(swept(), "shop/api")
    assert place_of(found, Marked(3)) == 3
    assert place_of(found, None) is None
    with pytest.raises(NothingToDrawError, match="setting 99 was not simulated"):
        place_of(found, Marked(99))


def test_unknown_values_are_not_drawn() -> None:
    made = SweepMaker([{"target": "70"}, {"target": "80"}])
    lots = {k: weeks([9.0 - k], saturated_minutes=[1.0 if k < 2 else None]) for k in range(3)}
    found = compare_settings(made.add("api", lots).result(), "shop/api")
    assert found.known.tolist() == [True, True, False]
    assert np.flatnonzero(found.front()).tolist() == [1]


def test_file_names_are_safe_and_differ() -> None:
    taken: set[str] = set()
    names = [file_stem("front", [name], taken) for name in ("a/b", "a.b", "A/B", "ä b/../c=1")]
    assert names == ["front-a.b", "front-a.b-2", "front-A.B-3", "front-__b....c=1"]
    assert len(file_stem("front", ["x" * 400], taken)) < 200
