"""Scenarios as objects."""

from __future__ import annotations

from hpabatch.inputs.document_kinds import Moment
from hpabatch.inputs.scenarios import Growth, Scenario, Shift, Step, Times

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


def test_where_a_step_stands_makes_no_difference() -> None:
    assert Step(Shift(5), place="line 3") == Step(Shift(5), place="line 9")
