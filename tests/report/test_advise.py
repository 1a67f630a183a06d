"""The result of `hpabatch advise` as people read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hpabatch.engine.advise.facts import RecommendOptions
from hpabatch.engine.advise.objective import parse_goal
from hpabatch.engine.advise.run import recommend
from hpabatch.report.advise import SHOWN_OTHERS, AdviseReport
from hpabatch.report.forms import table_text
from hpabatch.report.recommend_files import review_files
from tests.sweeps import SweepMaker, put, weeks


def cores(today: float, choice: float) -> dict[int, Any]:
    """Return what two settings come to, core-hours as pod-hours."""
    return {k: weeks([v] * 6, core_hours=[v] * 6) for k, v in enumerate((today, choice))}


CALM = cores(168, 126)
GOAL = parse_goal(["saturated_minutes<10/week"], "pod_hours")


def shown(maker: SweepMaker, **asked: Any) -> AdviseReport:
    result = maker.result()
    result = replace(result, parameters={**result.parameters, "request": {}})
    return AdviseReport(recommend(result, RecommendOptions(GOAL, **asked), put))


def test_what_is_written_is_told_apart_from_all_changes() -> None:
    maker = SweepMaker([{"target": "70"}]).add("api", CALM)
    maker.add("web", cores(336, 168), days=10.0)
    assert shown(maker).verdict() == (
        "2 of 2 HPAs should change: saves 1.25 requested cores on average (41.7% of theirs); "
        "confidence 1 high, 1 medium; what is written saves 0.25 requested cores on average (25.0% "
        "of theirs)"
    )
    text = table_text(shown(maker))
    assert "fleet: 3.0 -> 1.8 requested cores with all changes" in text
    assert "; not judged: 0.0 (0.0%)" in text
    assert "what is written" not in shown(maker, accept="medium").verdict()


def test_the_most_urgent_change_and_the_worst_without_one_stand_first() -> None:
    """What ends a broken SLO comes first, though it costs more."""
    maker = SweepMaker([{"max": "20"}, {"target": "70"}]).add("api", {**CALM, 2: CALM[1]})
    held = {"at_max_minutes": [6000.0] * 6}
    pinned = {0: weeks([168] * 6, **held), 1: weeks([336] * 6), 2: weeks([150] * 6, **held)}
    maker.add("pinned", pinned, recorded={"saturated_minutes": [1683] * 6})
    broken = weeks([84] * 6, saturated_minutes=[50.0] * 6)
    maker.add("web", dict.fromkeys(range(3), broken))
    report = replace(shown(maker), folder="advice")
    first = report.verdict()
    assert first.startswith("patches: 1 in advice/patches, 1 in advice/review; 2 of 3 HPAs should")
    assert first.endswith("; worst without advice: shop/web, 50 saturated minutes a week")
    lines = table_text(report).splitlines()
    rows = [line for line in lines if line.startswith("shop/")]
    assert rows[0].startswith("shop/pinned  maxReplicas 10 -> 20")
    assert (
        "first: shop/pinned: maxReplicas 10 -> 20: saturated minutes 1,683 -> 0, +168 pod-hours a "
        "week" in lines
    )
    assert any("not judged: 0.5 (" in line for line in lines)
    text = review_files(report.found, "patches")["shop.pinned.yaml"]
    heads = [line.split(":")[0] for line in text.splitlines()[:4]]
    assert heads == ["# shop/pinned", "# confidence", "# doubt", "# apply"]
    assert "# everything: ../patches/shop.pinned.json" in text


def test_only_the_hpas_longest_at_their_maximum_are_named() -> None:
    maker = SweepMaker([{"target": "70"}])
    for number in range(SHOWN_OTHERS + 2):
        bound: list[float | None] = [600.0 + number] * 6
        maker.add(f"web-{number}", {**CALM, 0: {**CALM[0], "at_max_minutes": bound}})
    lines = table_text(shown(maker)).splitlines()
    told = [line.split()[2] for line in lines if line.startswith("at maxReplicas")]
    assert told == [f"shop/web-{number}" for number in (4, 3, 2)]
    assert "  … and 2 more: --output csv shows all" in lines
