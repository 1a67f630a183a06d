"""Tests of settings that fit HPAs; everything wrong comes in one message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from hpabatch.inputs.grid import Grid, GridError, read_grids
from hpabatch.inputs.grid_check import Checked, check_grid
from hpabatch.model.objects.hpa import Behavior, HPASpec
from hpabatch.model.settings.fields import SHIPPED
from hpabatch.model.settings.setting import TODAY, Setting, SettingError, apply_setting
from hpabatch.model.versions import ControllerFlags, profile_for
from tests.effort import effort
from tests.model.settings_made import CPU, MEMORY, QUEUE, settings, spec, specs

NEWEST = profile_for("1.37")


@dataclass(frozen=True)
class Hpa:
    name: str
    spec: HPASpec
    cluster: str = "prod"
    namespace: str = "shop"


WEB = Hpa("web", spec(CPU, MEMORY))
API = Hpa("api", spec(CPU, low=3, high=30, behavior=Behavior()))
WORKER = Hpa("worker", spec(QUEUE, low=1, high=5))
FLEET = (WEB, API, WORKER)


def check(*grids: str, hpas: tuple[Hpa, ...] = FLEET, version: str = "1.37") -> Checked:
    profile = profile_for(version)
    return check_grid(read_grids(grids, SHIPPED), hpas, SHIPPED, lambda _: profile)


def mistakes(*grids: str, hpas: tuple[Hpa, ...] = FLEET, version: str = "1.37") -> tuple[str, ...]:
    with pytest.raises(GridError) as caught:
        check(*grids, hpas=hpas, version=version)
    return caught.value.mistakes


def fitting(checked: Checked, *hpas: int) -> tuple[int, ...]:
    """Return the indices of the settings that fit one HPA, or all of several."""
    every = range(len(checked.grid.settings))
    return tuple(k for k in every if not any(checked.why_not(hpa, k) for hpa in hpas))


def test_what_fits_some_is_left_out_for_the_others_and_told() -> None:
    found = check("target=60,70,80,90", "scaleUp.window=0,60")
    assert fitting(found, 0) == fitting(found, 0, 1) == tuple(range(9))
    assert fitting(found, 2) == fitting(found, 0, 2) == (0,)
    (reason,) = found.why_not(2, 1)
    assert reason.startswith("target=60: its metric queue has a target of 30, which no percentage")
    assert found.notes == (
        "target=60, target=70, target=80 and 1 more are left out for 1 of 3 HPAs, such as "
        "shop/worker: its metric queue has a target of 30, which no percentage can be; give a "
        "quantity with its unit such as 30, or a factor such as x0.8 (or take target.queue)",
    )


def test_what_fits_no_hpa_is_a_mistake() -> None:
    assert mistakes("target.memory=1Gi,x2,60", "min=40,1") == (
        "target.memory=60 fits none of 3 HPAs: its metric memory has a target of 100Mi, which no "
        "percentage can be; give a quantity with its unit such as 100Mi, or a factor such as x0.8; "
        "it has no metric memory; take target.cpu; it has no metric memory; take target.queue",
        "min=40 fits none of 3 HPAs: it makes a min of 40, above the max of 10; it makes a min of "
        "40, above the max of 30; it makes a min of 40, above the max of 5",
    )
    assert mistakes("target.disk=1", hpas=(API,)) == (
        "target.disk=1 does not fit shop/api: it has no metric disk; take target.cpu",
    )


def test_a_tolerance_needs_a_version_that_has_it() -> None:
    (found,) = mistakes("scaleUp.tolerance=0.01:0.05:0.01", version="1.32")
    assert found == (
        "scaleUp.tolerance=0.01, scaleUp.tolerance=0.02, scaleUp.tolerance=0.03 and 2 more fit "
        "none of 3 HPAs: Kubernetes 1.32 has no tolerance in an HPA's spec (feature gate "
        "HPAConfigurableTolerance); leave it, or take 1.35 or later"
    )


def test_each_cluster_has_its_version_and_flags() -> None:
    old = Hpa("old", WEB.spec, cluster="old")
    profiles = {"prod": NEWEST, "old": profile_for("1.32")}
    flags = {"prod": ControllerFlags(), "old": ControllerFlags(downscale_stabilization_ms=0)}
    found = check_grid(
        read_grids(["tolerance=0.05", "scaleDown.window=-60"], SHIPPED),
        (WEB, old), SHIPPED, profiles.__getitem__, flags.__getitem__,
    )  # fmt: skip
    assert fitting(found, 0) == (0, 1)
    assert [reason.partition(":")[0] for reason in found.why_not(1, 1)] == [
        "tolerance=0.05", "scaleDown.window=-60",
    ]  # fmt: skip


def test_everything_comes_in_one_message() -> None:
    """Unknown field, min above max, a window too long, an empty group, what fits nowhere."""
    grid = read_grids(
        ["taget=50", "min=20:30:5", "max=5,10", "scaleDown.window=60,3601", "target.memory=x2,70"],
        SHIPPED,
    )
    complaints = ["--group label:tier=web: it is for none of the 2 HPAs"]
    with pytest.raises(GridError) as caught:
        check_grid(grid, (WEB, API), SHIPPED, lambda _: NEWEST, complaints=complaints)
    told = str(caught.value).splitlines()
    for k, part in enumerate((
        "there are 5 mistakes; correct all of them:",
        "'taget' is not a field; did you mean target?",
        "'3601' is not from 0 to 3600",
        "every min of the grid (from 20 on) is above every max (up to 10)",
        "--group label:tier=web: it is for none of the 2 HPAs",
        "target.memory=70 fits none of 2 HPAs: its metric memory has a target of 100Mi",
    )):  # fmt: skip
        assert part in told[k], told
    assert len(told) == 6


def test_no_hpas_give_no_mistakes() -> None:
    assert check("target=50", hpas=()).unfit == ()


@given(st.lists(settings(), min_size=1, max_size=6), st.lists(specs(), min_size=1, max_size=4))
@examples(max_examples=effort(30))
def test_fitting_is_what_apply_setting_says(tried: list[Setting], known: list[HPASpec]) -> None:
    grid = Grid((), tuple(dict.fromkeys((TODAY, *tried))))
    hpas = tuple(Hpa(f"h{k}", found) for k, found in enumerate(known))
    expected = []
    for hpa in hpas:
        reasons = [_reasons(setting, hpa.spec) for setting in grid.settings]
        expected.append(tuple(k for k, found in enumerate(reasons) if not found))
    try:
        checked = check_grid(grid, hpas, SHIPPED, lambda _: NEWEST)
    except GridError:
        # Some value fits nobody, so whatever has it does not either.
        assert any(len(found) < len(grid.settings) for found in expected)
        return
    assert [fitting(checked, k) for k in range(len(hpas))] == expected
    together = set.intersection(*map(set, expected))
    assert set(fitting(checked, *range(len(hpas)))) == together
    for k, hpa in enumerate(hpas):
        for number, setting in enumerate(grid.settings):
            whole = _reasons(setting, hpa.spec)
            assert bool(checked.why_not(k, number)) == bool(whole)


def _reasons(setting: Setting, today: HPASpec) -> tuple[str, ...]:
    try:
        apply_setting(setting, today, SHIPPED, NEWEST)
    except SettingError as error:
        return error.reasons
    return ()


def test_a_large_grid_costs_its_values_and_not_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applied = []

    def counted(setting: Setting, *rest: Any) -> HPASpec:
        applied.append(setting)
        return apply_setting(setting, *rest)

    monkeypatch.setattr("hpabatch.inputs.grid_check.apply_setting", counted)
    grid = read_grids(["target=1:100:1", "scaleDown.window=1:300:1"], SHIPPED)
    hpas = tuple(Hpa(f"h{k}", spec(CPU, low=1 + k % 7, high=20)) for k in range(500))
    checked = check_grid(grid, hpas, SHIPPED, lambda _: NEWEST)
    assert 400 <= len(applied) <= 7 * 400  # of 15 million pairs of an HPA and a setting
    assert len(fitting(checked, 17)) == 30_001
