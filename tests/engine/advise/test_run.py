"""Advice: change, keep or none, each for its reason; frames and certificates of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hpabatch.engine.advise.bounds import parse_bounds
from hpabatch.engine.advise.frames import (
    CANDIDATE_COLUMNS,
    COLUMNS,
    FOLD_COLUMNS,
    advice_frame,
    candidates_frame,
    certificate,
    folds_frame,
)
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.request import JudgeRules
from hpabatch.engine.advise.run import Recommendation, Recommendations, recommend
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.engine.fit.pods import AT_ONCE, TOTALS
from hpabatch.engine.fit.workload import BASE_TAKEN
from tests.sweeps import SPEC, SweepMaker, Values, put, weeks

GRID = [{"target": "70"}, {"target": "90"}, {"sync": "5s"}, {"max": "40"}]
Some = float | list[float]
CALM = {0: weeks([100] * 6), 1: weeks([80] * 6)}


def options(*slos: str, **changes: Any) -> RecommendOptions:
    rules = {k: changes.pop(k) for k in list(changes) if k in JudgeRules.__dataclass_fields__}
    goal = parse_goal(slos or ["saturated_minutes<10/week"], "pod_hours")
    return RecommendOptions(goal, JudgeRules(**rules), **changes)


def advise(maker: SweepMaker, chosen: RecommendOptions | None = None) -> Recommendations:
    found = recommend(maker.result(), chosen or options(), put)
    long = [d.why for item in found.items for d in item.doubts if len(d.why) >= 100]
    assert not long, "a doubt is a sentence of under 100 characters, the rest its detail"
    return found


def one(
    came_to: dict[int, Values], chosen: RecommendOptions | None = None, **facts: Any
) -> Recommendation:
    (item,) = advise(SweepMaker(GRID).add("api", came_to, **facts), chosen).items
    return item


def pair(today: Some, other: Some, before: Some = 0, after: Some = 0) -> dict[int, Values]:
    """Return six weeks of today's setting and of another: pod-hours, saturated minutes."""
    rows = [[v] * 6 if isinstance(v, int | float) else v for v in (today, other, before, after)]
    return {k: weeks(rows[k], saturated_minutes=rows[k + 2]) for k in (0, 1)}


LATE: list[float] = [0, 0, 0, 0, 0, 30]
EARLY: list[float] = [0, 30, 0, 0, 0, 0]
SWINGING = {0: weeks([100] * 9), 1: weeks([20, 160, 20, 160, 20, 160, 80, 80, 80])}
UNKNOWN: Values = {"unserved": [None] * 6}


@pytest.mark.parametrize(
    ("came_to", "facts", "answer", "reasons", "doubt"),
    [
        pytest.param(
            CALM, {}, ("change", 1, "high"),
            ["it holds the SLO on blocks it was not chosen on, with 20.0% less pod-hours"], "",
            id="a saving that lasts",
        ),
        pytest.param(
            CALM, {"base_share": 0.25}, ("change", 1, "high"),
            ["with 20.0% less pod-hours (15.0% without the fitted base)"], "",
            id="a fitted base",
        ),
        pytest.param(
            pair(100, 99.5), {}, ("keep", 0, "medium"),
            ["nothing better found: the only other candidate does not hold"], "",
            id="nothing better",
        ),
        pytest.param(
            pair(60, 80, 50, 1), {}, ("change", 1, "high"),
            ["which today's breaks (saturated_minutes on average 50 minutes a week",
             "with 33.3% more pod-hours"], "",
            id="a broken limit, though it costs more",
        ),
        pytest.param(
            CALM,
            {"controller_answer": "wrong",
             "why_not": "controller: the stated settings are wrong; plant (resource/cpu): bad"},
            ("no advice", None, None),
            ["fidelity: controller: the stated settings are wrong; plant (resource/cpu): bad"], "",
            id="wrong settings",
        ),
        pytest.param(
            CALM, {"plant_skill": -0.4, "plant_skill_low": -0.6, "plant_skill_high": -0.1},
            ("no advice", None, None),
            ["model: it predicts usage worse than no model does (skill -0.40, at most -0.10)"], "",
            id="a wrong plant",
        ),
        pytest.param(
            pair(100, 80, 0, LATE), {}, ("keep", 0, "low"),
            ["nothing better found: target utilization 60 -> 70, chosen on the training blocks, "
             "breaks the SLO on the judged ones: saturated_minutes at worst 30 minutes a week "
             "(limit saturated_minutes<10/week); not judged: settings that differ in min, "
             "tolerance, scaleUp, scaleDown or policies"], "",
            id="judged blocks break the limit",
        ),
        pytest.param(
            pair(100, [80.0] * 4 + [120.0] * 2), {}, ("keep", 0, "low"),
            ["not better than today's on the judged blocks: pod_hours 240 instead of 200"], "",
            id="judged blocks cost more",
        ),
        pytest.param(
            pair(100, 120, LATE), {}, ("no advice", None, None),
            ["today's setting breaks the SLO on the judged blocks: "], "",
            id="today's breaks it only when judged",
        ),
        pytest.param(
            pair(100, 120, EARLY), {}, ("no advice", None, None),
            ["and today's, which broke the SLO on the training blocks, holds it there",
             "today's setting breaks the SLO on the training blocks: "], "",
            id="a dearer setting was not needed later",
        ),
        pytest.param(
            pair(100, 120, 50, 20), {}, ("no advice", None, None),
            ["no setting within the bounds holds the SLO on the training blocks with 10% of it "
             "left free; the closest is target utilization 60 -> 70: saturated_minutes on "
             "average 20 minutes a week (limit saturated_minutes<10/week); not judged: settings "
             "that differ in min, tolerance, scaleUp, scaleDown or policies"], "",
            id="none holds",
        ),
        pytest.param(
            {k: weeks([90] * 6, **UNKNOWN) for k in (0, 1)}, {"slo": "unserved<3/week"},
            ("no advice", None, None),
            ["unserved is not known of every HPA here, so the SLO cannot be checked"], "",
            id="an unknown measure",
        ),
        pytest.param(
            CALM, {"unusable": {1: "12% of the steps are outside"}}, ("change", 1, "low"), [],
            "a run cannot be relied on: shop/api under target utilization 60 -> 70: 12% of the "
            "steps are outside",
            id="a run that cannot be relied on",
        ),
        pytest.param(
            pair(100, 80, 0, 9.5), {}, ("keep", 0, "medium"), [],
            "only leaves less than 10% of the SLO free",
            id="the margin alone",
        ),
        pytest.param(
            pair(100, [80, 80, 80, 80, 99.9, 99.9]), {}, ("change", 1, "medium"), [],
            "judged blocks it saves 0.1%",
            id="a saving that shrinks",
        ),
        pytest.param(
            CALM, {"slo": ""}, ("change", 1, "low"), [],
            "nothing limits what least pod_hours does to users",
            id="no limit",
        ),
        pytest.param(
            SWINGING, {"least_better": 0.95}, ("keep", 0, "low"),
            ["nothing better found: target utilization 60 -> 70 is better",
             "; not judged: settings that differ in min, "], "",
            id="an unsure saving",
        ),
        pytest.param(
            {0: weeks([100]), 1: weeks([80])}, {"days": 20.0}, ("no advice", None, None),
            ["too few blocks of time: 1"], "",
            id="one block",
        ),
    ],
)  # fmt: skip
def test_answers_with_their_reasons(
    came_to: dict[int, Values], facts: dict[str, Any], answer: tuple[str, int | None, str | None],
    reasons: list[str], doubt: str,
) -> None:  # fmt: skip
    facts = dict(facts)
    slo = facts.pop("slo", "saturated_minutes<10/week")
    rules = {"least_better": facts.pop("least_better")} if "least_better" in facts else {}
    chosen = RecommendOptions(parse_goal([slo] if slo else [], "pod_hours"), JudgeRules(**rules))
    item = one(came_to, chosen, **facts)
    assert (item.answer, item.setting_id, item.confidence) == answer
    assert list(item.patch) == (["metrics"] if item.answer == "change" else [])
    told = " | ".join(item.reasons)
    assert all(reason in told for reason in reasons)
    assert ("fitted base" in told) == ("base_share" in facts)
    assert doubt in " | ".join(each.long for each in item.doubts)


NO_BASE = f"{BASE_TAKEN}: too few changes"


def test_a_change_that_only_takes_pods_away_needs_no_base() -> None:
    """Whatever the base is, fewer pods then do better than modelled, and more pods worse."""
    fewer = one(CALM, problems=NO_BASE)
    assert (fewer.answer, fewer.confidence) == ("change", "medium")
    assert fewer.doubts[0].long.endswith("and is taken as 0: too few changes")
    broken = {
        0: weeks([60] * 6, saturated_minutes=[50] * 6),
        1: weeks([80] * 6, saturated_minutes=[1] * 6),
    }
    maker = SweepMaker([{"target": "50"}]).add("api", broken, problems=NO_BASE)
    (more,) = advise(maker).items
    assert (more.answer, more.confidence) == ("change", "low")
    assert "those that it adds do less than modelled" in more.doubts[0].why
    keep = one({0: weeks([100] * 6), 1: weeks([99.5] * 6)}, problems=NO_BASE)
    assert (keep.answer, keep.confidence) == ("keep", "medium")
    assert any("settings with fewer pods may save more" in doubt.why for doubt in keep.doubts)
    both = one(CALM, problems=f"{NO_BASE}; plant not identified: usage did not change")
    assert both.confidence == "low"


def test_metrics_whose_target_no_setting_changes_are_named() -> None:
    memory = {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 80}}
    metrics = [*SPEC["metrics"], {"type": "Resource", "resource": memory}]
    item = one({0: weeks([100] * 6), 1: weeks([99.5] * 6)}, spec={**SPEC, "metrics": metrics})
    assert item.reasons[0].endswith(", and other targets of memory")
    assert (item.answer, item.confidence) == ("keep", "low")
    assert item.doubts[0].why == "other targets of memory were not tried: one may be better"


def test_a_grid_of_which_nothing_is_a_candidate_is_keep() -> None:
    grid = [{"target": "90", "scaleUp.policies": "fast", "scaleDown.tolerance": "0.05"}]
    (item,) = advise(SweepMaker(grid).add("api", CALM)).items
    assert item.reasons == (
        "nothing better found: no other setting of the grid is a candidate; not judged: settings "
        "that differ in min or max, and 1 setting that is no candidate",
    )


def test_a_dearer_setting_is_no_change_where_only_the_model_breaks_the_limit() -> None:
    came_to = {
        0: weeks([60] * 6, saturated_minutes=[50] * 6),
        1: weeks([80] * 6, saturated_minutes=[1] * 6),
    }
    item = one(came_to, recorded={"saturated_minutes": [2] * 6})
    assert item.answer == "no advice"
    assert "by the model alone" in item.reasons[0]
    told = [doubt.why for doubt in item.doubts]
    assert any("recorded" in why and "the worse counts" in why for why in told)
    agreed = one(came_to, recorded={"saturated_minutes": [40] * 6})
    assert agreed.answer == "change"
    assert not any("the worse counts" in doubt.why for doubt in agreed.doubts)
    cheaper = came_to | {1: weeks([50] * 6, saturated_minutes=[1] * 6)}
    assert one(cheaper, recorded={"saturated_minutes": [2] * 6}).answer == "change"


def at_max(pods: float, minutes: float, **more: float) -> Values:
    measures = {name: [value] * 6 for name, value in more.items()}
    return weeks([pods] * 6, at_max_minutes=[minutes] * 6, **measures)


def test_a_larger_maximum_takes_away_what_was_recorded_at_the_smaller_one() -> None:
    """What the model lacks of today's saturation is no reason against lifting what it rests on."""
    grid = [{"max": "20"}, {"max": "20", "target": "75"}, {"target": "75"}, {"max": "11"}]
    came_to = {
        0: at_max(1000, 6000, saturated_minutes=400),
        1: at_max(1300, 3000),
        2: at_max(1200, 2000),
        3: at_max(900, 4000),
        4: at_max(1050, 5800),
    }
    maker = SweepMaker(grid).add(
        "api", came_to, recorded={"saturated_minutes": [1300] * 6}, censored_pct=15.0
    )
    (item,) = advise(maker).items
    assert (item.answer, item.setting_id, item.confidence) == ("change", 1, "medium")
    assert dict(item.patch) == {"maxReplicas": 20}
    assert not any("more than maxReplicas" in note for note in item.notes)
    half = came_to | {1: at_max(1300, 3000, saturated_minutes=200)}  # half of 900 more stays
    maker = SweepMaker(grid).add("api", half, recorded={"saturated_minutes": [1300] * 6})
    (item,) = advise(maker).items
    assert (item.answer, item.considered_id) == ("no advice", 1)
    assert "650 minutes a week" in item.reasons[0]


def test_a_change_that_leaves_a_maximum_that_binds_says_so() -> None:
    calm = SweepMaker([{"target": "70"}]).add("api", {0: at_max(100, 90), 1: at_max(80, 90)})
    bound = SweepMaker([{"target": "70"}]).add("api", {0: at_max(100, 3000), 1: at_max(80, 3000)})
    told = "maxReplicas stays as it is: in "
    found = [advise(maker).items[0] for maker in (calm, bound)]
    assert [(item.answer, item.confidence) for item in found] == [("change", "high")] * 2
    assert [[n for n in item.notes if n.startswith(told)] for item in found] == [
        [], [f"{told}100.0 of the 336 judged hours the metrics asked for more"]
    ]  # fmt: skip


def test_a_maximum_that_nothing_asks_for_is_not_raised() -> None:
    grid = [{"max": "20"}, {"target": "70"}, {"max": "40"}]
    came_to = {0: at_max(100, 50), 1: at_max(80, 0), 2: at_max(90, 50), 3: at_max(70, 0)}
    maker = SweepMaker(grid).add("api", came_to)
    (item,) = advise(maker).items
    assert item.setting_id == 2
    assert not any("compared only" in note for note in item.notes)
    (stated,) = advise(maker, options(bounds=parse_bounds(["max=x2"]))).items
    assert stated.setting_id == 1
    bound = came_to | {0: at_max(100, 150)}
    assert advise(SweepMaker(grid).add("api", bound)).items[0].setting_id == 1


SATURATED_BY_THE_MODEL = {
    0: weeks([60] * 6, saturated_minutes=[50] * 6),
    1: weeks([80] * 6, saturated_minutes=[1] * 6),
}


def by_day(today: list[float | None]) -> dict[int, Values]:
    """Return three weeks of days, in which a dearer setting has a minute of saturation each."""
    return {
        0: weeks([60] * 21, saturated_minutes=today),
        1: weeks([80] * 21, saturated_minutes=[1] * 21),
    }


def test_what_the_recording_breaks_is_judged_by_the_stretches_of_the_limit() -> None:
    """A day of 15 minutes is no week of 105, and a good average is no good week."""
    maker = SweepMaker(GRID, block="day").add(
        "api", by_day([9] * 21), recorded={"saturated_minutes": [15, *[0] * 13, 15, *[0] * 6]}
    )
    (item,) = advise(maker, options("saturated_minutes<20/week")).items
    assert item.answer == "no advice"
    assert "by the model alone" in item.reasons[0]
    again = SweepMaker(GRID, block="day").add(
        "api", by_day([9] * 21), recorded={"saturated_minutes": [15, 15, *[0] * 19]}
    )
    (item,) = advise(again, options("saturated_minutes<20/week")).items
    assert item.answer == "change"


def test_a_member_without_a_recording_silences_no_group() -> None:
    """What the model alone breaks of one member is so whatever is known of the other."""
    calm = {0: weeks([60] * 6), 1: weeks([80] * 6)}
    maker = SweepMaker(GRID).add("web", calm, unit="g")
    maker.add("api", SATURATED_BY_THE_MODEL, unit="g", recorded={"saturated_minutes": [2] * 6})
    for item in advise(maker).items:
        assert item.answer == "no advice"
        assert "by the model alone" in item.reasons[0]


@pytest.mark.parametrize(
    ("facts", "confidence", "why"),
    [
        ({"problems": "not identified"}, "low", "model: not identified"),
        ({"censored_pct": 3.0}, "medium", "demand: 3% of its work is only a lower bound"),
        ({"censored_pct": 30.0}, "low", "demand: 30% of its work is only a lower bound"),
        ({"controller_answer": None}, "low", "fidelity was not measured"),
        ({"controller_answer": "cannot be told"}, "medium", "whether the stated settings are"),
        ({"plant_unscored": "2 changes"}, "medium", "model: not checked against the recording"),
        ({"plant_why_not": "skill 0.1"}, "medium", "model: it does not predict the recorded"),
        (
            {"plant_skill": 0.3},
            "medium",
            "model: skill 0.30 (1: perfect); a right one has 0.6 or more",
        ),
        (
            {"base_share": 0.4},
            "medium",
            "base: 40% of a pod's usage is a fitted base; the same share of a saving by fewer pods",
        ),
        ({"base_share": 0.3, "starts_assumed": AT_ONCE}, "high", "pods are taken as ready at once"),
        (
            {"starting_share": 0.7, "starts_assumed": AT_ONCE},
            "medium",
            "pods are taken as ready at once, as the history has them; one that starts "
            "uses 70% of a pod's usage",
        ),
        ({"starts_assumed": TOTALS}, "medium", "pods: only their total is recorded"),
        ({"days": 13.0}, "medium", "history: 13.0 days are fewer than 14"),
        ({"days": 6.0}, "low", "history: 6.0 days are fewer than 14"),
    ],
)
def test_what_lowers_the_confidence(facts: dict[str, Any], confidence: str, why: str) -> None:
    item = one(CALM, options("under_minutes<10/week"), **facts)
    assert (item.answer, item.setting_id, item.confidence) == ("change", 1, confidence)
    assert item.doubts[0].why.startswith(why)
    assert item.doubts[0].most == confidence


@pytest.mark.parametrize(
    ("recorded", "confidence"), [(7, "high"), (20, "low"), (5, "medium"), (1, "high")]
)
def test_rescales_that_a_model_misses_by_more_than_half_leave_less(
    recorded: int, confidence: str
) -> None:
    ran: dict[int, Values] = {s: {**v, "rescales": [8] * 6} for s, v in CALM.items()}
    item = one(ran, recorded={"rescales": [recorded] * 6})
    assert (item.answer, item.confidence) == ("change", confidence)
    told = [doubt.why for doubt in item.doubts if doubt.why.startswith("model: 48 rescales ")]
    assert len(told) == (confidence != "high")


def test_a_model_with_twice_the_recorded_rescales_leaves_low() -> None:
    """Its controller decides otherwise than the recorded one, by another period for example."""
    ran: dict[int, Values] = {s: {**v, "rescales": [13] * 6} for s, v in CALM.items()}
    item = one(ran, recorded={"rescales": [6] * 6})
    assert (item.answer, item.confidence) == ("change", "low")
    assert any("--sync-period" in doubt.remedy for doubt in item.doubts)


def test_only_changes_that_are_sure_enough_are_written() -> None:
    maker = SweepMaker(GRID).add("sure", CALM)
    maker.add("likely", CALM, controller_answer="cannot be told").add("vague", CALM, days=6.0)
    for accept, names in (("high", 1), ("medium", 2), ("low", 3)):
        found = advise(maker, options(accept=accept))
        assert len(found.written()) == names
        assert len([item for item in found.items if item.answer == "change"]) == 3


@pytest.mark.parametrize(
    ("saved", "before", "moves", "chosen"),
    [(20.5, 10, 10, 1), (22, 10, 15, 1), (22, 10, 14, 4), (24, 10, 30, 4), (22, 0, 0, 4)],
)
def test_a_field_must_save_more_where_it_rescales_more(
    saved: float, before: int, moves: int, chosen: int
) -> None:
    """Setting 4 changes minReplicas, too: that must save 1 %, with half more rescales 3 %."""
    grid = [*GRID[:3], {"target": "70", "min": "3"}]
    came_to = {
        0: weeks([100] * 6, rescales=[before] * 6),
        1: weeks([80] * 6, rescales=[before] * 6),
        4: weeks([100 - saved] * 6, rescales=[moves] * 6),
    }
    (item,) = advise(SweepMaker(grid).add("api", came_to)).items
    assert (item.answer, item.setting_id) == ("change", chosen)


def test_what_runs_outside_of_the_recorded_is_no_candidate() -> None:
    none: dict[str, list[float | None]] = {name: [0.0] * 6 for name in ABOVE_MINUTES}
    outside = [168 * 60 * 0.51] * 6
    came_to = {0: weeks([100] * 6, **none), 1: weeks([80] * 6, **none, outside_minutes=outside)}
    found = advise(SweepMaker(GRID).add("api", came_to, ceiling="open"))
    assert (found.items[0].answer, found.items[0].confidence) == ("keep", "low")
    doubt = found.items[0].doubts[0]
    assert doubt.why.startswith("another setting may save enough: it asks pods for")
    assert doubt.detail == "target utilization 60 -> 70"
    assert found.units[0].why_not[1].startswith("51% of its steps are outside")
    assert candidates_frame(found)["on_front"].to_list()[:2] == [True, False]


def test_keep_by_assumed_ceilings_alone_is_of_low_confidence() -> None:
    often: dict[str, list[float | None]] = {name: [500.0] * 6 for name in ABOVE_MINUTES}
    unknown: dict[str, list[float | None]] = {"saturated_minutes": [None] * 6}
    none: dict[str, list[float | None]] = {name: [0.0] * 6 for name in ABOVE_MINUTES}
    came_to = {
        0: weeks([100] * 6, **unknown, **none),
        1: weeks([80] * 6, **unknown, **often),
    }
    item = one(came_to, ceiling="open")
    assert (item.answer, item.confidence) == ("keep", "low")
    assert item.doubts[0].long == (
        "another setting may save enough: only assumed ceilings speak against it: "
        "target utilization 60 -> 70"
    )


def above(lowest: float, **more: Any) -> Values:
    """Return minutes a week above assumed ceilings, and nothing above the second lowest."""
    none = dict.fromkeys(ABOVE_MINUTES, [0.0] * 6)
    return {**none, ABOVE_MINUTES[0]: [lowest] * 6, **more}


@pytest.mark.parametrize(
    ("share", "lowest", "confidence"),
    [(0.5, None, ""), (0.51, None, "high"), (0.1, 3.0, ""), (0.11, 3.0, "medium"),
     (0.11, 2.0, "high")],
)  # fmt: skip
def test_usage_that_was_never_recorded_is_a_doubt(
    share: float, lowest: float | None, confidence: str
) -> None:
    """Up to a ceiling that is known, or cannot be lower, the model says what pods do."""
    known: Values = {} if lowest is None else above(lowest)
    outside = [168 * 60 * share] * 6
    item = one({0: weeks([100] * 6, **known), 1: weeks([80] * 6, **known, outside_minutes=outside)})
    told = f"for {share:.0%} of the time it asks pods for usage beyond 99 % of the recorded minutes"
    assert [d.most for d in item.doubts if d.why == told] == ([confidence] if confidence else [])


@pytest.mark.parametrize(
    ("lowest", "recorded", "confidence"),
    [(2.0, 0.0, "high"), (2.1, 0.0, "medium"), (0.0, 2.1, "medium")],
)
def test_assumed_ceilings_matter_where_the_lowest_is_reached(
    lowest: float, recorded: float, confidence: str
) -> None:
    """What the recording has more under today's setting counts for any other."""
    seen: Values = dict.fromkeys(ABOVE_MINUTES, [recorded] * 6)
    maker = SweepMaker(GRID).add(
        "api", {0: weeks([100] * 6, **above(0)), 1: weeks([80] * 6, **above(lowest))},
        ceiling="open", recorded=seen,
    )  # fmt: skip
    (item,) = advise(maker).items
    assert (item.answer, item.confidence) == ("change", confidence)
    assert [d.most for d in item.doubts if "of its pods is known" in d.why] == [confidence]


@pytest.mark.parametrize(
    ("minutes", "lowest", "setting", "answer", "confidence"),
    [
        (300, 3.0, 1, "no advice", None),
        (300, 3.0, 2, "change", "medium"),  # lifts maxReplicas
        (300, 2.0, 1, "change", "high"),
        (90, 3.0, 1, "change", "medium"),  # less than 1 % of a week
        (300, 3.0, 0, "keep", "low"),
    ],
)
def test_who_is_held_at_max_below_an_unknown_ceiling_may_need_more(
    minutes: float, lowest: float, setting: int, answer: str, confidence: str | None
) -> None:
    seen = above(lowest, at_max_minutes=[minutes] * 6)
    came_to = {0: weeks([100] * 6, **seen)}
    if setting:
        came_to[setting] = weeks([80] * 6, **seen)
    grid = [{"target": "70"}, {"max": "20"}]
    (item,) = advise(SweepMaker(grid).add("api", came_to, ceiling="open")).items
    assert (item.answer, item.confidence) == (answer, confidence)
    told = [*item.reasons, *(doubt.why for doubt in item.doubts)]
    assert any("asked for more, and how much" in text for text in told) == (
        confidence in (None, "low")
    )


def test_who_is_held_at_max_gets_no_advice_by_another_limit_either() -> None:
    seen = above(0.0, at_max_minutes=[300] * 6, rescales=[5] * 6)
    maker = SweepMaker(GRID).add(
        "api", {0: weeks([100] * 6, **seen), 1: weeks([80] * 6, **seen)}, ceiling="open"
    )
    (item,) = advise(maker, options("rescales<99/week")).items
    assert item.answer == "no advice"


@pytest.mark.parametrize(
    ("minutes", "answer", "confidence"),
    [(2.0, "change", "high"), (2.1, "change", "medium"),
     (5.0, "keep", "medium"), (5.1, "keep", "low")],
)  # fmt: skip
def test_a_worst_week_near_the_slo_is_a_doubt(minutes: float, answer: str, confidence: str) -> None:
    used = weeks([100] * 6, saturated_minutes=[0.0, 0.0, 0.0, minutes, 0.0, 0.0])
    if answer == "keep":
        item = one({0: used, 1: weeks([100] * 6)})
    else:
        item = one({0: weeks([120] * 6), 1: used})
    assert (item.answer, item.confidence) == (answer, confidence)
    told = [
        doubt.why for doubt in item.doubts if f"uses {10 * minutes:.0f}% of the SLO" in doubt.why
    ]
    assert len(told) == (minutes in (2.1, 5.1))


@pytest.mark.parametrize(("minutes", "confidence"), [(5.0, "high"), (5.1, "medium")])
def test_every_week_may_use_half_of_the_slo(minutes: float, confidence: str) -> None:
    item = one({0: weeks([120] * 6), 1: weeks([100] * 6, saturated_minutes=[minutes] * 6)})
    assert (item.answer, item.confidence) == ("change", confidence)


@pytest.mark.parametrize(("hours", "confidence"), [(97.6, "medium"), (97.4, "low")])
def test_keep_beside_a_saving_just_below_the_least_is_a_doubt(
    hours: float, confidence: str
) -> None:
    item = one({0: weeks([100] * 6), 1: weeks([hours] * 6)})
    assert (item.answer, item.confidence) == ("keep", confidence)
    told = any("saves 2.6%, just less than 5%" in doubt.why for doubt in item.doubts)
    assert told == (confidence == "low")


def test_censored_work_is_a_doubt_of_the_hpa_and_of_no_run() -> None:
    """What is said of a run repeats it: a few percent leave medium."""
    why = "5% of its work is only a lower bound: pods were at their ceiling (more than 1%)"
    item = one(CALM, unusable={0: why, 1: why}, censored_pct=5.0)
    assert (item.answer, item.confidence) == ("change", "medium")
    assert len(item.doubts) == 1


def test_a_setting_that_is_refused_twice_has_both_reasons() -> None:
    """Else the note would ask for wider bounds, with which it is refused again."""
    none: dict[str, list[float | None]] = {name: [0.0] * 6 for name in ABOVE_MINUTES}
    outside = [168 * 60 * 0.6] * 6
    came_to = {0: weeks([100] * 6, **none), 2: weeks([20] * 6, **none, outside_minutes=outside)}
    (note,) = one(came_to, ceiling="open").notes
    assert note.endswith(
        "target utilization 60 -> 90 is beyond --bound target=20, and 60% of its steps are outside "
        "of the usage per pod that was recorded (more than 50%)"
    )


def test_beyond_bounds_and_beyond_kubernetes_is_compared_only() -> None:
    came_to = {
        0: weeks([100] * 6),
        1: weeks([90] * 6),
        2: weeks([50] * 6),
        3: weeks([40] * 6),
        4: weeks([60] * 6),
    }
    item = one(came_to)
    assert (item.answer, item.setting_id) == ("change", 1)
    assert item.notes == (
        "target at the edge of the grid: a wider one may have a better setting",
        "compared only: sync=5s (60.0% less than today's on the training blocks): the sync period "
        "is a flag of the controller, not of an HPA",
    )
    free = options(bounds=parse_bounds(["target=any", "max=x4"]))
    assert one(came_to, free).setting_id == 2
    why = advise(SweepMaker(GRID).add("api", came_to)).units[0].why_not
    assert why[2] == "target utilization 60 -> 90 is beyond --bound target=20"
    assert why[4] == "maxReplicas 10 -> 40 is beyond --bound max=x2"


def test_a_group_leaves_out_who_gives_no_advice_and_changes_who_differs() -> None:
    maker = SweepMaker(GRID)
    maker.add("a", CALM, unit="web")
    already: dict[str, Any] = json.loads(json.dumps(SPEC))
    already["metrics"][0]["resource"]["target"]["averageUtilization"] = 70
    maker.add("b", CALM, unit="web", spec=already)
    awful = {0: weeks([1] * 6), 1: weeks([900] * 6)}
    maker.add("c", awful, unit="web", controller_answer="wrong", why_not="wrong")
    a, b, c = advise(maker).items
    assert (a.answer, b.answer, c.answer) == ("change", "keep", "no advice")
    assert b.reasons == ("its spec already says what is recommended",)
    assert a.notes[1:] == ("chosen without 1 of the group's HPAs, which give no advice",)


def test_a_field_that_makes_no_difference_is_not_changed() -> None:
    """Of settings within a point of the best the one is taken that changes least of the spec."""
    grid = [{"target": "70", "max": "40"}, {"target": "70"}, {"target": "70", "min": "1"}]
    same = {0: weeks([100] * 6)} | {k + 1: weeks([v] * 6) for k, v in enumerate((80, 80.9, 80))}
    (item,) = advise(
        SweepMaker(grid).add("api", same), options(bounds=parse_bounds(["max=any", "min=any"]))
    ).items
    assert (item.answer, item.setting_id) == ("change", 2)
    assert list(item.patch) == ["metrics"]


def test_frames_have_what_is_documented() -> None:
    costs = {"cost": [5.0] * 6, "short_pod_hours": [10.0] * 6}
    came_to = {0: weeks([100] * 6, **costs), 1: weeks([80] * 6, **costs)}
    found = advise(
        SweepMaker(GRID)
        .add("api", came_to)
        .add("late", CALM, controller_answer="wrong", why_not="wrong")
    )
    frame = advice_frame(found)
    assert frame.columns == list(COLUMNS)
    row, none = frame.iter_rows(named=True)
    assert (row["answer"], row["training_today"], row["judged_choice"]) == ("change", 400, 160)
    assert (row["training_blocks"], row["judged_blocks"], row["hours"]) == (4, 2, 336)
    assert row["judged_saving_pct"] == pytest.approx(20)
    assert (row["saving_low_pct"], row["saving_high_pct"]) == pytest.approx((20, 20))
    assert (row["pod_hours_today"], row["pod_hours_choice"], row["cost_choice"]) == (200, 160, 10)
    assert row["regret_pct_today"] == pytest.approx(100 * (200 + 20 - 100 + 20) / 100)
    assert (row["folds"], row["folds_changed"], row["folds_better"], row["folds_held"]) == (
        5,
        5,
        5,
        5,
    )
    assert json.loads(row["patch"]) == found.items[0].patch
    assert (none["answer"], none["members"], none["training_today"]) == ("no advice", None, None)
    candidates = candidates_frame(found)
    assert candidates.columns == list(CANDIDATE_COLUMNS)
    assert candidates["on_front"].to_list() == [False, True]
    folds = folds_frame(found)
    assert folds.columns == list(FOLD_COLUMNS)
    assert folds["setting"].to_list() == ["target=70"] * 5
    assert folds["saving_pct"].to_list() == pytest.approx([20] * 5)


def test_a_certificate_is_json_and_says_what_it_rests_on() -> None:
    found = advise(SweepMaker(GRID).add("api", CALM), replace(options(), sweep="abc"))
    told = json.loads(json.dumps(certificate(found.items[0], found, {})))
    assert told["answer"] == "change"
    assert told["sweep"]["sha256"] == "abc"
    assert told["evidence"]["k8s"] == "1.37"
    assert told["parameters"]["slos"] == ["saturated_minutes<10/week"]
    assert told["parameters"]["bounds"] == {"target": "20", "min": "x2", "max": "x2"}
    assert told["parameters"]["bounds_given"] == []
    assert told["patch"]["metadata"] == {"name": "api", "namespace": "shop"}
    assert told["scores"]["plant_skill"] == 0.8
    judged = told["judging"]["judged"]
    assert (judged["blocks"], judged["from"]) == (2, "2026-10-05T00:00:00Z")
    assert judged["considered"]["measures"]["pod_hours"] == 160
    assert judged["today"]["slos"] == [
        {"slo": "saturated_minutes<10/week", "unit": "/week", "mean": 0, "worst": 0}
    ]
    assert len(told["judging"]["folds"]) == 5
