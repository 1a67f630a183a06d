"""Small parts for jobs of small histories: here, and in the workers that plan the same."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import pytest

from hpabatch.engine.capacity import run as capacities
from hpabatch.engine.fleet import plan as planning
from hpabatch.engine.quality.run import Look
from hpabatch.engine.sweep import run as sweeping
from hpabatch.importers.table import files
from hpabatch.jobs.orders import PlannedJob, Values

USE_CASES = ("capacity", "fidelity", "fit", "quality", "replay", "sweep", "table")


def cut_small(patch: pytest.MonkeyPatch) -> None:
    """Make parts of two HPAs and chunks of two settings; shards have an HPA each."""
    first, _ = Look.__init__.__defaults__ or ()
    patch.setattr(sweeping, "HPAS_AT_ONCE", 2)
    patch.setattr(sweeping, "STEPS_AT_ONCE", 2 * 2 * 4 * 135)
    patch.setattr(files, "PART_ROWS", 100)
    patch.setattr(capacities, "HPAS_AT_ONCE", 1)
    patch.setattr(planning, "SHARD_DECISIONS", 1)
    patch.setattr(Look.__init__, "__defaults__", (first, 1))


def plan_small_jobs(patch: pytest.MonkeyPatch) -> None:
    """Make small parts, here and in workers, whose orders name a function of this module."""
    cut_small(patch)
    for name in USE_CASES:
        patch.setattr(f"hpabatch.jobs.{name}.PLAN_JOB", f"tests.jobs.small:{name}")


def _plan(name: str, values: Values) -> PlannedJob[Any]:
    """Plan a small job of a use case in a worker."""
    cut_small(pytest.MonkeyPatch())
    found: PlannedJob[Any] = import_module(f"hpabatch.jobs.{name}").plan_job(values)
    return found


capacity, fidelity, fit, quality, replay, sweep, table = (
    partial(_plan, name) for name in USE_CASES
)
