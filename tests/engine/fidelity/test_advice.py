"""Tests of the two scores' conditions for advice."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from hpabatch.engine.fidelity.request import FidelityParameters
from hpabatch.engine.fidelity.run import verdicts, why_not, worst_signal
from hpabatch.model.plant import (
    AGE,
    DIVISIBLE,
)

DEFAULTS = FidelityParameters()
NAME = "resource/cpu"


CONTROLLER = {"answer": "right", "answer_why": None}
PLANT = {"signal": NAME, "kind": DIVISIBLE, "unscored": None, "skill": 0.6, "skill_low": 0.3,
         "median_error_pct": 5.0, "mean_error_pct": 6.0, "bias_pct": -3.0}  # fmt: skip


def test_two_good_scores_are_advice() -> None:
    assert why_not(CONTROLLER, PLANT, DEFAULTS) is None


@pytest.mark.parametrize(
    ("controller", "plant", "told"),
    [
        ({"answer": "cannot be told", "answer_why": "no tick"}, {}, None),
        ({"answer": "wrong", "answer_why": "x"}, {}, "controller: the stated settings are "
         "wrong, x"),
        ({}, {"unscored": "x", "skill": None}, f"plant ({NAME}): not scorable, x"),
        ({}, {"unscored": "x is not known", "kind": None}, "plant: not scorable, x is not known"),
        ({}, {"skill": 0.1}, f"plant ({NAME}): skill 0.10 is below 0.2"),
        ({}, {"skill_low": 0.0}, f"plant ({NAME}): the skill's interval begins at 0.00, not above "
         "0"),
        ({}, {"median_error_pct": 26.0}, f"plant ({NAME}): the median error of 26 % is above 25 %"),
        ({}, {"bias_pct": -20.0}, f"plant ({NAME}): the bias of -20 % is beyond 15 %"),
        ({"answer": "wrong", "answer_why": "x"}, {"skill": -1.0}, "controller: the stated settings "
         f"are wrong, x; plant ({NAME}): skill -1.00 is below 0.2"),
        ({}, {"kind": AGE, "skill": -9.0, "mean_error_pct": 4.9}, None),
        ({}, {"kind": AGE, "skill": -9.0, "mean_error_pct": 5.1}, f"plant ({NAME}): skill -9.00 is "
         "below 0.2"),
    ],
)  # fmt: skip
def test_why_there_is_no_advice(
    controller: dict[str, Any], plant: dict[str, Any], told: str | None
) -> None:
    assert why_not(CONTROLLER | controller, PLANT | plant, DEFAULTS) == told


def test_a_plant_is_as_good_as_its_worst_signal() -> None:
    fine, bad = PLANT, PLANT | {"signal": "b", "skill": 0.1}
    unknown = PLANT | {"signal": "c", "unscored": "x", "skill": None}
    steady = PLANT | {"signal": "d", "kind": AGE, "skill": -9.0, "mean_error_pct": 1.0}
    assert worst_signal([], DEFAULTS) is None
    assert why_not(CONTROLLER, None, DEFAULTS) is not None
    assert worst_signal([fine, bad, unknown, steady], DEFAULTS) is unknown
    assert worst_signal([fine, steady, bad], DEFAULTS) is bad
    assert worst_signal([fine, steady], DEFAULTS) is steady


def test_only_signals_that_the_spec_reads_speak_for_an_hpa() -> None:
    keys = ["hpa"]
    old = PLANT | {"signal": "pods/old", "skill": -1.0}
    signals = pl.DataFrame([{"hpa": "web"} | row for row in (PLANT, old)])
    controller = pl.DataFrame([{"hpa": name} | CONTROLLER for name in ("web", "idle")])
    reads: dict[tuple[str, ...], frozenset[str]] = {
        ("web",): frozenset({NAME}),
        ("idle",): frozenset({NAME}),
    }
    web, idle = verdicts(keys, controller, signals, reads, DEFAULTS)
    good = {"plant_why_not": None, "advice": True, "why_not": None}
    assert web == {"hpa": "web", "plant_signal": NAME, **good}
    assert (idle["plant_signal"], idle["advice"]) == (None, False)
    both: dict[tuple[str, ...], frozenset[str]] = {
        ("web",): frozenset({NAME, "pods/old"}),
        ("idle",): frozenset(),
    }
    web, _ = verdicts(keys, controller, signals, both, DEFAULTS)
    assert (web["plant_signal"], web["advice"]) == ("pods/old", False)
