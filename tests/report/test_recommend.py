"""The files of recommendations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.run import Recommendations, recommend
from hpabatch.inputs.manifest_documents import parse_documents
from hpabatch.report.forms import table_text
from hpabatch.report.recommend import Advice
from hpabatch.report.recommend_files import file_stem, recommendation_files
from tests.sweeps import SweepMaker, put, weeks

CALM = {0: weeks([100] * 6), 1: weeks([80] * 6)}


def advised(maker: SweepMaker) -> Recommendations:
    goal = parse_goal(["saturated_minutes<10/week"], "pod_hours")
    return recommend(maker.result(), RecommendOptions(goal), put)


def test_what_is_dearer_is_called_more_and_no_limit_is_told() -> None:
    broken = {
        0: weeks([100] * 3, saturated_minutes=[20.0] * 3),
        1: weeks([110] * 3, saturated_minutes=[1.0] * 3),
    }
    found = advised(SweepMaker([{"target": "70"}]).add("api", broken))
    lines = table_text(Advice(found)).splitlines()
    told = "the changes together, on their judged blocks: pod_hours 100.0 -> 110.0 (10.0% more)"
    assert told in lines
    assert any(line.startswith("Of as few as 2 training blocks") for line in lines)
    maker = SweepMaker([{"target": "70"}]).add("api", CALM)
    free = recommend(maker.result(), RecommendOptions(parse_goal([], "pod_hours")), put)
    lines = table_text(Advice(free)).splitlines()
    assert "without --slo nothing limits what least pod_hours does to users" in lines[-2]
    assert lines[-1].startswith("blocks: the weeks of the history; ")
    assert not any("the SLO must hold" in line for line in lines)


@pytest.mark.parametrize("name", ["api", "on", "1e3", "0x10", "12", "y.n", "null"])
def test_names_stay_text_in_patches(name: str) -> None:
    files = recommendation_files(advised(SweepMaker([{"target": "70"}]).add(name, CALM)))[0]
    text = files[f"shop.{name}.yaml"]
    for value in (yaml.safe_load(text), parse_documents(text)[0].value):
        assert isinstance(value, dict)
        assert value["metadata"] == {"name": name, "namespace": "shop"}


def test_comments_are_one_line_each_whatever_a_text_holds() -> None:
    maker = SweepMaker([{"target": "70"}]).add("api", CALM)
    found = advised(maker)
    (item,) = found.items
    evil = replace(item, reasons=("fine\nspec: {maxReplicas: 900}",))
    files = recommendation_files(replace(found, items=(evil,)))[0]
    patch = yaml.safe_load(files["shop.api.yaml"])
    assert list(patch["spec"]) == ["metrics"]


def test_files_of_several_clusters_and_long_names_do_not_meet() -> None:
    maker = SweepMaker([{"target": "70"}])
    maker.add("api", CALM, cluster="east").add("api", CALM, cluster="west")
    names = set(recommendation_files(advised(maker))[0])
    assert {"east.shop.api.yaml", "west.shop.api.yaml"} <= names
    found = advised(SweepMaker([{"target": "70"}]).add("a" * 253, CALM))
    assert len(file_stem(found.items[0])) < 220


def test_one_training_week_is_told_as_that() -> None:
    two = {0: weeks([100, 100]), 1: weeks([80, 80])}
    maker = SweepMaker([{"target": "70"}]).add("api", two)
    asked = RecommendOptions(
        parse_goal(["saturated_minutes<10/week"], "pod_hours"), accept="medium"
    )
    files = recommendation_files(recommend(maker.result(), asked, put))[0]
    assert "# uncertainty: not known, with one training week\n" in files["shop.api.yaml"]
