"""Small parts for jobs of small histories: here, and in the workers that plan the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hpabatch.engine.capacity import run as capacity
from hpabatch.engine.fleet import plan as planning
from hpabatch.engine.quality.run import Look
from hpabatch.engine.sweep import run as engine
from hpabatch.jobs import pieces, replay, sweep
from hpabatch.jobs.worker import Made

PIECES = "tests.jobs.small"
SWEEP = "tests.jobs.small:sweep_again"
REPLAY = "tests.jobs.small:replay_again"


def cut_small(patch: pytest.MonkeyPatch) -> None:
    """Make parts of two HPAs and chunks of two settings; shards have an HPA each."""
    first, _ = Look.__init__.__defaults__ or ()
    patch.setattr(engine, "HPAS_AT_ONCE", 2)
    patch.setattr(engine, "STEPS_AT_ONCE", 2 * 2 * 4 * 135)
    patch.setattr(capacity, "HPAS_AT_ONCE", 1)
    patch.setattr(planning, "SHARD_DECISIONS", 1)
    patch.setattr(Look.__init__, "__defaults__", (first, 1))


def sweep_again(told: Mapping[str, Any]) -> Made[Any]:
    cut_small(pytest.MonkeyPatch())
    return sweep.made_again(told)


def replay_again(told: Mapping[str, Any]) -> Made[Any]:
    cut_small(pytest.MonkeyPatch())
    return replay.made_again(told)


def fits_again(told: Mapping[str, Any]) -> Made[Any]:
    cut_small(pytest.MonkeyPatch())
    return pieces.fits_again(told)


def scores_again(told: Mapping[str, Any]) -> Made[Any]:
    cut_small(pytest.MonkeyPatch())
    return pieces.scores_again(told)


def looks_again(told: Mapping[str, Any]) -> Made[Any]:
    cut_small(pytest.MonkeyPatch())
    return pieces.looks_again(told)


def plans_again(told: Mapping[str, Any]) -> Made[Any]:
    cut_small(pytest.MonkeyPatch())
    return pieces.plans_again(told)
