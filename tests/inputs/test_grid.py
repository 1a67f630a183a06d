"""Grids: what settings they are, and one message of all that is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.inputs.grid import Grid, GridError, read_grids
from hpabatch.model.settings.fields import SHIPPED, PolicySet
from hpabatch.model.settings.setting import TODAY, Setting, parse_setting


def names(grids: list[str]) -> list[str]:
    return [setting.name for setting in parse_grids(grids, SHIPPED).settings]


def parse_grids(grids: Sequence[str], sets: Mapping[str, PolicySet]) -> Grid:
    grid = read_grids(grids, sets)
    if grid.mistakes:
        raise GridError(grid.mistakes)
    return grid


def mistakes(*grids: str) -> tuple[str, ...]:
    found = read_grids(grids, SHIPPED)
    assert found.settings == (TODAY,)
    return found.mistakes


def test_all_combinations_in_the_order_of_fields() -> None:
    grid = parse_grids(["scaleDown.window=60,5m", "target=50:60:5"], SHIPPED)
    assert grid.fields == ("target", "scaleDown.window")
    assert grid.settings[0] is TODAY
    expected = product(("50", "55", "60"), ("60", "300"))
    assert [dict(s.values) for s in grid.settings[1:]] == [
        {"target": target, "scaleDown.window": window} for target, window in expected
    ]
    assert grid.values == (("today", "50", "55", "60"), ("today", "60", "300"))


RANGES = {
    "target=50:85:10": ["50", "60", "70", "80"],
    "target=50:50:5": ["50"],
    "target=500m:1:250m": ["500m", "750m", "1000m"],
    "target=64Mi:256Mi:96Mi": ["64Mi", "160Mi", "256Mi"],
    "target=x0.8:x1.2:0.1": ["x0.8", "x0.9", "x1.1", "x1.2"],
    "target=x0.8:x0.9:x0.05": ["x0.8", "x0.85", "x0.9"],
    "min=-2:+2:1": ["-2", "-1", "+1", "+2"],
    "min=+0:+2:+2": ["+2"],
    "scaleUp.window=1m:3m:60": ["60", "120", "180"],
    "tolerance=0:10%:0.05": ["0", "0.05", "0.1"],
    "sync=15s:45s:15s": ["15s", "30s", "45s"],
    "max=5,7:9:1,today,5,x1": ["5", "7", "8", "9"],
    "scaleUp.select=Max, disabled ,max": ["Max", "Disabled"],
    "target.external/depth{queue=a}=5": ["5"],
}  # fmt: skip


@pytest.mark.parametrize("text", RANGES)
def test_lists_and_ranges(text: str) -> None:
    field = text.rpartition("=")[0]
    assert names([text]) == ["today", *(f"{field}={value}" for value in RANGES[text])]


def test_a_min_above_its_max_is_no_setting() -> None:
    grid = parse_grids(["min=1,5", "max=3,x2"], SHIPPED)
    assert [s.name for s in grid.settings] == [
        "today", "min=1 max=3", "min=1 max=x2", "min=5 max=x2",
    ]  # fmt: skip
    assert grid.notes == ("combinations left out because their min is above their max: 1",)


# ---- mistakes


MISTAKES = {
    "targt=50": "--grid targt=50: 'targt' is not a field; did you mean target? (known: target, tar",
    "select=Max": "'select' is not a field; did you mean scaleUp.select?",
    "target.=50": "'target.' names no metric; write target.cpu, for one",
    "50:85:5": "expected FIELD=VALUES, such as target=50:85:5",
    "=5": "expected FIELD=VALUES",
    "target=": "expected a whole percentage such as 70, or a quantity",
    "target=50,,60": "got nothing",
    "target=50:": "'50:' is not a range FROM:TO:STEP",
    "target=50:60:5:5": "'50:60:5:5' is not a range FROM:TO:STEP",
    "target=50:85": "'50:85' is not a range FROM:TO:STEP",
    "target=85:50:5": "'85:50:5' is empty: 85 is above 50",
    "min=+2:-2:1": "'+2:-2:1' is empty: +2 is above -2",
    "target=50:85:0": "'0' is no step: it leads nowhere",
    "target=50:85:-5": "'-5' is not a whole percentage",
    "target=x0.5:x1.5:y": "'y' is not a step between factors, such as 0.1",
    "target=x0.5:x1.5:0": "'0' is no step",
    "target=50:x2:1": "'50:x2:1' begins and ends with different kinds of values",
    "target=today:85:1": "'today' is not a whole percentage",
    "policies=gentle:fast": "'gentle:fast' is a range, which there are of numbers only",
    "scaleUp.policies=slow": "'slow' is not the name of a policy set (known: gentle, default, fa",
    "scaleDown.window=60,3601": "'3601' is not from 0 to 3600",
    "scaleDown.window=0:7200:600": "'7200' is not from 0 to 3600",
    "scaleDown.window=-5000": "'-5000' cannot lead to a value from 0 to 3600, whatever today's is",
    "tolerance=-2": "'-2' cannot lead to a value from 0 to 1",
    "target=1:1000000:1": "expected at most 100,000 settings, got 1,000,000 (target) = 1,000,000",
}  # fmt: skip


@pytest.mark.parametrize("text", MISTAKES)
def test_each_mistake_is_a_sentence(text: str) -> None:
    (found,) = mistakes(text)
    assert MISTAKES[text] in found
    assert found.startswith((f"--grid {text}: ", "expected at most "))
    assert "\n" not in found


def test_all_mistakes_come_in_one_message() -> None:
    grids = ["foo=1", *MISTAKES, "min=20,30", "max=3:6:1", "MIN=4", "sync=0,x2"]
    with pytest.raises(GridError) as caught:
        parse_grids(grids, SHIPPED)
    found = caught.value.mistakes
    lines, told = str(caught.value).splitlines(), "\n".join(found)
    assert lines[0] == f"there are {len(found)} mistakes; correct all of them:"
    assert lines[-1] == f"  and {len(found) - 20} more"
    single = [text for text in MISTAKES if "settings, got" not in MISTAKES[text]]
    assert all(MISTAKES[text] in told for text in single)
    assert "every min of the grid (from 20 on) is above every max (up to 6)" in told
    assert "--grid MIN=4: the field min has another grid already" in told
    assert "--grid sync=0,x2: '0' is not from 1s to 1h" in told
    assert "--grid sync=0,x2: 'x2' is relative to today's" in told


def test_a_mistake_does_not_repeat_a_long_list() -> None:
    found = mistakes("target=" + ",".join(f"x{k}" for k in range(1000)))
    assert max(map(len, found)) < 500


def test_no_grid_at_all_is_a_mistake() -> None:
    assert mistakes() == ("expected one or more grids, such as --grid target=50:85:5, got none",)


@given(st.lists(st.text("tarmginx=:,0123456789.+-%", max_size=12), min_size=1, max_size=3))
def test_any_text_is_settings_or_sentences(grids: list[str]) -> None:
    found = read_grids(grids, SHIPPED)
    assert found.settings[0] is TODAY
    assert len(set(found.settings)) == len(found.settings) <= 6
    for setting in found.settings:
        assert parse_setting(setting.name) == setting


def test_a_large_range_costs_nothing_before_it_is_refused() -> None:
    (found,) = mistakes("target=1:9000000000000:1", "min=1:100000:1")
    assert "use wider steps" in found


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 9))
def test_a_range_is_what_range_is(low: int, more: int, step: int) -> None:
    grid = parse_grids([f"scaleUp.window={low}:{low + more}:{step}"], SHIPPED)
    expected = [Setting((("scaleUp.window", str(n)),)) for n in range(low, low + more + 1, step)]
    assert list(grid.settings[1:]) == expected
