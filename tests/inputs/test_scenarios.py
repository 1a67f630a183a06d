"""Scenario files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.inputs.document_kinds import Moment
from hpabatch.inputs.documents import MistakesError
from hpabatch.inputs.scenarios import (
    WEEK_MS,
    Growth,
    Lose,
    Outage,
    Repeat,
    Rollout,
    Scale,
    Scenario,
    SetBounds,
    Shift,
    Spike,
    Step,
    Times,
    parse_growth,
    read_scenario,
)
from tests.importers.mutations import (
    refusal,
)
from tests.inputs.parsed import parse_scenario

DATA = Path(__file__).parents[2] / "data" / "scenarios"
M, H = 60_000, 3_600_000
NOON = Moment(1_791_374_400_000, relative=False)

FULL = """
description: every key
steps:
- growth: {factor: 1.4, from: 6h, ramp: 30m}
  hpa: [shop/*, prod/batch/etl]
  where: max_replicas > 5
  signals: [resource/cpu, external/*]
- shift: {by: -3h}
- spike: {at: 12h, for: 20m, factor: 3, ramp: 2m, every: 1d}
- repeat: {period: week, from: 2026-10-07T12:00:00Z, at: 1d}
- set: {minReplicas: 3, maxReplicas: 40, at: 6h, for: 2h}
- scale: {replicas: 10, at: 4h, every: 1d}
- rollout: {at: 8h, every: 1d}
- outage: {api: [resource, custom], at: 9h, for: 10m, every: 1h}
- lose: {share: 30%, at: 14h, every: 7d}
"""


def test_every_key_means_what_the_page_says() -> None:
    scenario = parse_scenario(FULL)
    assert scenario.description == "every key"
    assert [step.action for step in scenario.steps] == [
        Growth(1400, Moment(6 * H), 30 * M),
        Shift(-3 * H),
        Spike(Times((Moment(12 * H),), 24 * H), 20 * M, 3000, 2 * M),
        Repeat(WEEK_MS, NOON, Moment(24 * H)),
        SetBounds(3, 40, Moment(6 * H), 2 * H),
        Scale(Times((Moment(4 * H),), 24 * H), 10),
        Rollout(Times((Moment(8 * H),), 24 * H)),
        Outage(Times((Moment(9 * H),), H), 10 * M, ("resource", "custom")),
        Lose(Times((Moment(14 * H),), WEEK_MS), 300),
    ]
    first = scenario.steps[0]
    assert first.selector.hpas == ("shop/*", "prod/batch/etl")
    assert first.selector.where == "max_replicas > 5"
    assert first.signals == ("resource/cpu", "external/*")
    assert first.place == "scenario, line 4: steps[0].growth"
    assert first.selector.place == "scenario, line 6: steps[0].where"


def test_short_forms() -> None:
    scenario = parse_scenario(
        """
- growth: 2
- shift: 1d
- repeat: 36h
- rollout: [1h, 2026-10-07T12:00:00Z]
- set: {maxReplicas: 7}
- outage: {api: external, at: 0, for: 1m}
- lose: {share: 0.125, at: 0s}
"""
    )
    assert [step.action for step in scenario.steps] == [
        Growth(2000),
        Shift(24 * H),
        Repeat(36 * H),
        Rollout(Times((Moment(H), NOON))),
        SetBounds(max_replicas=7),
        Outage(Times((Moment(0),)), M, ("external",)),
        Lose(Times((Moment(0),)), 125),
    ]
    assert scenario.description == ""


def test_a_growth_option_is_a_scenario_of_one_step() -> None:
    given, written = parse_growth(" 1.4"), parse_scenario("- growth: 1.4")
    assert given.steps == written.steps
    assert given.description == "--growth 1.4"
    for wrong in ("", "x", "-1", "1.23456", "1001", "true", "1,4"):
        with pytest.raises(UsageError, match=r"(a number from 0 to 1000|decimals).* \(--growth\)$"):
            parse_growth(wrong)


@pytest.mark.parametrize("name", ["peak.yaml", "outage.yaml", "rollout.yaml"])
def test_the_examples_are_fine(name: str) -> None:
    scenario = read_scenario(DATA / name)
    assert scenario.steps
    assert all(step.place.startswith(f"scenario {DATA / name}, line ") for step in scenario.steps)


def test_all_mistakes_of_a_document_come_in_one_message() -> None:
    text = "- grwoth: 1\n- lose: {share: 0%, at: never, x: 1}\n- spike: {at: 1h}\n- 3\n"
    with pytest.raises(MistakesError) as caught:
        parse_scenario(text, "f")
    assert len(caught.value.mistakes) == 7
    assert str(caught.value).splitlines()[0] == "there are 7 mistakes; correct all of them:"
    for number in range(1, 5):
        assert f"(f, line {number}: steps[{number - 1}]" in str(caught.value)
    many = "\n".join("- 3" for _ in range(5000))
    with pytest.raises(MistakesError) as caught:
        parse_scenario(many, "f")
    assert len(caught.value.mistakes) == 100  # reading ends there
    assert str(caught.value).splitlines()[-1] == "  and 80 more"


def test_lines_are_those_of_the_file() -> None:
    text = (
        "# a\nsteps:\n\n  - growth: 1\n  - spike:\n      at: 1h\n      for: soon\n      factor: 2\n"
    )
    assert "(file f.yaml, line 7: steps[1].spike.for)" in refusal(parse_scenario, text)
    merged = "steps:\n- &a\n  growth: {factor: -1}\n- *a\n"
    assert "(file f.yaml, line 3: steps[0].growth.factor)" in refusal(parse_scenario, merged)
    # keys that came by a merge have the line of what they came into
    into = "steps:\n- lose: &a {share: 1%, at: 1h}\n- lose:\n    <<: *a\n    evry: 1\n"
    assert "(file f.yaml, line 5: steps[1].lose.evry)" in refusal(parse_scenario, into)
    gone = "steps:\n- lose: &a {at: 1h, evry: 1}\n  x: 1\n- lose:\n    <<: *a\n"
    assert "(file f.yaml, line 3: steps[0].x)" in refusal(parse_scenario, gone)


def test_json_is_read_too() -> None:
    assert parse_scenario('[{"growth": 1.5}]') == parse_scenario("- growth: 1.5")
    # read by the JSON parser, which knows no lines, because YAML refuses half a surrogate pair
    odd = r'[{"growth": 1, "where": "\ud83d\ude00"}, {"growth": "\ud83d\ude00"}]'
    with pytest.raises(
        UsageError, match=r"^expected a number .* got '😀' \(scenario: steps\[1\]\.growth"
    ):
        parse_scenario(odd)


@pytest.mark.parametrize("content", [b"\xff\xff", b"x" * (16 * 2**20 + 1)])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"^scenario .*s\.yaml.*(name another file|split it)$"):
        read_scenario(file)
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        read_scenario(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_scenario(tmp_path)


NOON_MS = 1_791_374_400_000


def test_a_moment_is_relative_or_not() -> None:
    assert Moment(60_000).instant_ms(NOON_MS) == NOON_MS + 60_000
    assert Moment(NOON_MS, relative=False).instant_ms(7) == NOON_MS
    assert str(Moment(90_000)) == "1m30s"
    assert str(Moment(NOON_MS, relative=False)) == "2026-10-07T12:00:00Z"


def test_times_are_listed_or_repeated_until_the_end() -> None:
    listed = Times((Moment(5), Moment(3)))
    assert listed.instants_ms(100, 200) == (105, 103)
    assert Times((Moment(10),), every_ms=40).instants_ms(100, 200) == (110, 150, 190)
    assert Times((Moment(0),), every_ms=50).instants_ms(100, 200) == (100, 150)


def test_one_scenario_after_another() -> None:
    first = Scenario((Step(Growth(1400)),), "more work")
    second = Scenario((Step(Shift(5)),), "later")
    both = first.then(second)
    assert [step.action for step in both.steps] == [Growth(1400), Shift(5)]
    assert both.description == "more work + later"
    assert first.then(Scenario()) == first
