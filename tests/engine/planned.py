"""Loops that are ready to be planned, of cases that nobody had to fit."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from hpabatch.engine.capacity.run import CapacityOptions, CapacityPlan, planned_part, summed
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.requested import Requested
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.run import Loop
from hpabatch.model.versions import profile_for

PROFILE = profile_for("1.38")
Key = tuple[str, str, str]


def loop_of(
    *cases: SimulationCase,
    problems: Mapping[Key, tuple[str, ...]] | None = None,
    censored: Mapping[Key, float] | None = None,
    skipped: tuple[Skipped, ...] = (),
    k8s: str = "1.38",
) -> Loop:
    """Return a loop of cases; of HPAs that are not named nothing speaks against a result."""
    profile = profile_for(k8s)
    plan = SimpleNamespace(versions=SimpleNamespace(one=lambda: profile), warnings=())
    keys = [case.key[:3] for case in cases]
    return Loop(
        plan=cast(Any, plan),
        cases=cases,
        facts={},
        problems=dict.fromkeys(keys, ()) | dict(problems or {}),
        censored=dict.fromkeys(keys, 0.0) | dict(censored or {}),
        skipped=skipped,
        notes=(),
        evidence={"seed": "0"},
    )


def planned(
    *cases: SimulationCase,
    options: CapacityOptions | None = None,
    limits: Mapping[Key, Requested] | None = None,
    **more: Any,
) -> CapacityPlan:
    """Return the plan of some cases."""
    return plan_loop(loop_of(*cases, **more), options or CapacityOptions(), limits)


def plan_loop(
    loop: Loop, options: CapacityOptions, limits: Mapping[Key, Requested] | None = None
) -> CapacityPlan:
    """Return the plan of a loop's cases, as one part."""
    part = planned_part(loop, options.growths, options.loop, limits or {})
    return summed([part], options, loop.skipped, loop.notes, loop.evidence)


def total(plan: CapacityPlan, **wanted: object) -> dict[str, Any]:
    """Return the one row of the sums that has these values."""
    rows = [
        row
        for row in plan.totals.iter_rows(named=True)
        if all(row[name] == value for name, value in wanted.items())
    ]
    assert len(rows) == 1, wanted
    return rows[0]
