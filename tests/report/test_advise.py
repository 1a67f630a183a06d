"""The result of `hpabatch advise` as people read it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpabatch.cli.recommend_files import write_files
from hpabatch.engine.advise.frames import amounts
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.request import AdviseRequest
from hpabatch.engine.advise.run import recommend
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.report.advise import SHOWN_OTHERS, DataAdvice
from hpabatch.report.base import View
from hpabatch.report.forms import table_text
from hpabatch.report.recommend import Advice
from tests.sweeps import SweepMaker, put, weeks


def cores(today: float, choice: float) -> dict[int, Any]:
    """Return what two settings come to, core-hours as pod-hours."""
    return {k: weeks([v] * 6, core_hours=[v] * 6) for k, v in enumerate((today, choice))}


CALM = cores(168, 126)
GOAL = parse_goal(["saturated_minutes<10/week"], "pod_hours")


def shown(maker: SweepMaker, **asked: Any) -> DataAdvice:
    result = maker.result()
    result = replace(result, parameters={**result.parameters, "request": {}})
    return DataAdvice(recommend(result, RecommendOptions(GOAL, **asked), put))


def test_what_is_written_is_told_apart_from_all_changes() -> None:
    maker = SweepMaker([{"target": "70"}]).add("api", CALM)
    maker.add("web", cores(336, 168), days=10.0)
    assert shown(maker).verdict == (
        "2 of 2 HPAs should change: saves 1.25 requested cores on average (41.7% of the fleet's); "
        "confidence 1 high, 1 medium; what is written saves 0.25 requested cores on average (8.3% "
        "of the fleet's)"
    )
    text = table_text(shown(maker))
    assert "fleet: 3.0 -> 1.8 requested cores with all changes" in text
    assert "; not judged: 0.0 (0.0%)" in text
    assert "what is written" not in shown(maker, accept="medium").verdict
    unsure = SweepMaker([{"target": "70"}]).add("api", CALM, days=10.0)
    told = shown(unsure.add("web", cores(336, 168), days=5.0)).verdict
    assert "1 medium, 1 low; what is to be reviewed saves 0.25 requested cores" in told


def test_the_most_urgent_change_and_the_worst_without_one_stand_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends a broken SLO comes first, though it costs more."""
    maker = SweepMaker([{"max": "20"}, {"target": "70"}]).add("api", {**CALM, 2: CALM[1]})
    held = {"at_max_minutes": [6000.0] * 6}
    pinned = {0: weeks([168] * 6, **held), 1: weeks([336] * 6), 2: weeks([150] * 6, **held)}
    maker.add("pinned", pinned, recorded={"saturated_minutes": [1683] * 6})
    broken = weeks([84] * 6, saturated_minutes=[50.0] * 6)
    maker.add("web", dict.fromkeys(range(3), broken))
    monkeypatch.chdir(tmp_path)
    review = Path("advice/review")
    report, _ = write_files(shown(maker), "advice/patches", review)
    first = report.verdict
    assert first.startswith("2 of 3 HPAs should change: saves ")
    assert first.endswith(
        "; written to advice/patches: patches 1, certificates 3; written to advice/review: "
        "patches 1; worst without advice: shop/web, 50 saturated minutes a week"
    )
    assert not any("written to" in hint for hint in report.hints())
    lines = table_text(report).splitlines()
    rows = [line for line in lines if line.startswith("shop/")]
    assert rows[0].startswith("shop/pinned  maxReplicas 10 -> 20")
    assert (
        "first: shop/pinned: maxReplicas 10 -> 20: saturated minutes of the known work "
        "1,683 -> 0, at least +168 pod-hours a week" in lines
    )
    assert any("not judged: 0.5 (" in line for line in lines)
    text = (review / "shop.pinned.yaml").read_text()
    heads = [line.split(":")[0] for line in text.splitlines()[:4]]
    assert heads == ["# shop/pinned", "# confidence", "# doubt", "# apply"]
    assert "# everything: ../patches/shop.pinned.json" in text


def test_what_was_worse_before_the_judged_days_and_many_rescales_are_told() -> None:
    """Four weeks are training, two are judged."""
    maker = SweepMaker([{"max": "20"}])
    before = {"at_max_minutes": [6000.0] * 6}
    came_to = {0: weeks([168] * 6, **before), 1: weeks([336] * 6)}
    told = {"saturated_minutes": [900.0] * 4 + [30.0] * 2, "rescales": [700.0] * 6}
    text = table_text(shown(maker.add("pinned", came_to, recorded=told)))
    assert (
        "minutes of the known work 30 -> 0 in the judged days (610 in all days), at least +168"
        in text
    )
    assert "many rescales: shop/pinned changed its size 100 times a day, as recorded" in text
    told["rescales"] = [500.0] * 6
    calm = SweepMaker([{"max": "20"}]).add("pinned", came_to, recorded=told)
    assert "many rescales" not in table_text(shown(calm))


def test_only_the_hpas_longest_at_their_maximum_are_named() -> None:
    maker = SweepMaker([{"target": "70"}])
    for number in range(SHOWN_OTHERS + 2):
        bound: list[float | None] = [600.0 + number] * 6
        maker.add(f"web-{number}", {**CALM, 0: {**CALM[0], "at_max_minutes": bound}})
    lines = table_text(replace(shown(maker), history="some history")).splitlines()
    assert "`hpabatch plan 'some history' shop/web-4` says what it would take" in lines[2]
    told = [line.split()[2] for line in lines if line.startswith("at maxReplicas")]
    assert told == [f"shop/web-{number}" for number in (4, 3, 2)]
    assert lines[2].startswith("at maxReplicas"), "what is needed stands before what is saved"
    assert "  … and 2 more: --output csv shows all" in lines


@pytest.mark.parametrize(
    ("ceiling", "what"),
    [("open", "state a pod's ceiling"), ("recorded", "the reason is below")],
)
def test_an_hpa_that_stays_at_its_maximum_stands_in_the_table(ceiling: str, what: str) -> None:
    """It saves nothing, and is what is most urgent."""
    above = dict.fromkeys(ABOVE_MINUTES, [0.0] * 6)
    held = weeks([168] * 6, at_max_minutes=[6000.0] * 6, **above)
    maker = SweepMaker([{"target": "70"}]).add("api", CALM)
    maker.add("pinned", {0: held, 1: weeks([200] * 6, **above)}, ceiling=ceiling)
    lines = table_text(replace(shown(maker), history="h")).splitlines()
    rows = [line for line in lines if line.startswith("shop/")]
    assert rows[0].startswith("shop/pinned  keep; at maxReplicas 10: ")
    assert what in " ".join(lines)
    assert rows[1].startswith("shop/api ")


def test_a_member_that_ended_before_the_judged_blocks_has_no_hours_there() -> None:
    broken = cores(84, 168)
    broken[0] |= {"saturated_minutes": [50] * 6}
    ended = {k: {name: values[:3] for name, values in v.items()} for k, v in broken.items()}
    maker = SweepMaker([{"target": "50"}]).add("api", broken, unit="g").add("web", ended, unit="g")
    report = shown(maker)
    assert "2 of 2 HPAs should change: costs 0.50 requested cores on average" in report.verdict
    told = [line for line in table_text(report).splitlines() if line.startswith("first: ")]
    assert [line.split(":")[1] for line in told] == [" shop/api"]


def test_the_fleet_takes_what_the_settings_take_of_each_measure() -> None:
    """The saving of the objective is none of pods."""
    came_to = {0: weeks([168] * 6, rescales=[90] * 6), 1: weeks([336] * 6, rescales=[9] * 6)}
    result = SweepMaker([{"target": "50"}]).add("api", came_to).result()
    goal = parse_goal(["saturated_minutes<10/week"], "rescales")
    report = DataAdvice(recommend(result, RecommendOptions(goal), put))
    (told,) = (line for line in report.body(View()) if str(line).startswith("fleet: "))
    assert str(told).startswith("fleet: 1.0 -> 2.0 pods with all changes (+100.0%; 1 of 1 HPA)")


def test_hpas_without_a_plant_are_among_those_asked_for() -> None:
    """The fleet's sums say of how many HPAs they are; their `now` is the bill, as recorded."""
    maker = SweepMaker([{"target": "70"}]).add("api", CALM, recorded={"pod_hours": [200.0] * 6})
    report = shown(maker)
    lacking = ("east", "shop", "cache", "state its kind in a plant file")
    parameters = report.found.result.parameters | {"skipped": [lacking]}
    found = replace(report.found, result=replace(report.found.result, parameters=parameters))
    report = replace(report, found=found)
    assert report.verdict.startswith(
        "1 of 2 HPAs should change: saves 0.30 requested cores on average (25.0% of what 1 of 2 "
        "HPAs take)"
    )
    lines = table_text(report).splitlines()
    place = lines.index("no advice: 1 HPA")
    assert lines[place + 1] == "  shop/cache: state its kind in a plant file"
    assert (
        "fleet: 1.2 -> 0.9 pods with all changes (-25.0%; 1 of 2 HPAs; as recorded, by the model "
        "of today's settings 1.0); not judged: 0.0 (0.0%)" in lines
    )
    assert report.table.select("hpa", "answer", "reasons").rows()[1] == (
        "cache", "no advice", lacking[3]
    )  # fmt: skip
    advice = Advice(found)
    assert advice.verdict.startswith("2 HPAs: 1 change, 0 keep, 1 no advice")
    assert "shop/cache, because state its kind" in table_text(advice)
    (told,) = (json.loads(text) for name, text in advice.patches.items() if name.endswith("json"))
    assert told["amounts"] == amounts(found)["east", "shop", "api"]


def test_a_cost_is_told_as_one_by_table_patch_and_reasons() -> None:
    """In the table of measures and in the sentence the worse of recorded and modelled counts."""
    held = weeks([168] * 6, at_max_minutes=[6000.0] * 6)
    maker = SweepMaker([{"max": "20"}])
    maker.add("pinned", {0: held, 1: weeks([200] * 6)}, recorded={"saturated_minutes": [900.0] * 6})
    report = shown(maker, accept="low")
    row = next(line for line in table_text(report).splitlines() if line.startswith("shop/pinned"))
    assert "  at least 19.0% more  " in row
    patch = report.patches["shop.pinned.yaml"]
    assert "with at least 19.0% more pod-hours" in patch
    assert "#   at least 19.0% more pod-hours\n" in patch
    assert "training weeks at least 19.0% more pod-hours, and better than today's in 100%" in patch
    assert "saturated_minutes              0.00 (3,600.00)          0.00" in patch


def test_minutes_fall_in_the_table_and_in_the_sentence() -> None:
    flaps = weeks([168] * 6, saturated_minutes=[260.0] * 6)
    calm = weeks([160] * 6, saturated_minutes=[5.0] * 6)
    maker = SweepMaker([{"target": "70"}])
    maker.add("flapper", {0: flaps, 1: calm}, recorded={"saturated_minutes": [1.0] * 6})
    text = table_text(shown(maker))
    assert "520.0 (2.0) -> 10.0" in text
    assert "saturated minutes 260 -> 5, -8 pod-hours a week" in text


def test_too_few_training_blocks_are_told_with_the_savings() -> None:
    text = table_text(shown(SweepMaker([{"target": "70"}]).add("api", CALM)))
    assert "Of as few as 4 training blocks resamples are few different ones" in text


@pytest.mark.parametrize(
    ("asked", "words"), [({}, ""), ({"slo": ("none",)}, " --slo none")], ids=("default", "none")
)
def test_the_next_command_asks_for_the_same(asked: dict[str, Any], words: str) -> None:
    maker = SweepMaker([{"target": "70"}]).add("api", CALM)
    report = replace(shown(maker), folder="advice", asked=AdviseRequest(**asked))
    edit = " --hpas MANIFESTS --patches FOLDER "
    assert f"next: hpabatch recommend advice/sweep{words}{edit}" in report.hints()[-1]
