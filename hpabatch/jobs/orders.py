"""Job: its tasks, what does them, and the plain values by which a worker plans it again.

A *job* is one command's work. It consists of *tasks*; a *part* is the files that a finished task
leaves. What travels to a worker is an order: the name of a function, the options, the places of
inputs, digests. It has no data and no credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from hpabatch.engine.fleet.plan import ReplayPlan, See, as_recorded, with_lenses
from hpabatch.history.base import History
from hpabatch.inputs.lenses import Lens
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.folder import Identity
from hpabatch.jobs.loop import Task, Work
from hpabatch.model.options import Request

W = TypeVar("W", bound=Work[Any])

Values: TypeAlias = Mapping[str, Any]
"""Plain values, for JSON."""


@dataclass(frozen=True, slots=True)
class PlannedJob(Generic[W]):
    """A job.

    Attributes:
        tasks: its tasks.
        work: what does them.
        identity: on what they depend.
        plan_job: the function by which a worker plans the same job, `module:name`.
        values: its argument.
        kernel: the compiled function that takes longest to compile, None without one.
        history: what the tasks read.
    """

    tasks: Sequence[Task]
    work: W
    identity: Identity
    plan_job: str
    values: Values
    kernel: str | None = None
    history: History | None = None


PlanJob = Callable[[Values], PlannedJob[Any]]
"""Plans a job from its values."""


def options_of(request: Request) -> dict[str, Any]:
    """Return a request's options but those that say who computes: results do not depend on them."""
    return {k: v for k, v in request.to_json().items() if k not in Spread.options()}


def lens_values(lens: Lens) -> dict[str, Any]:
    """Return a lens as plain values; `Lens(**values)` reads it again."""
    names = ("signal", "cluster", "lag_ms", "smoothing_ms", "scale")
    told = {"as_if": lens.as_if} if lens.as_if else {}
    return {name: getattr(lens, name) for name in names} | told


def lenses_of(plan: ReplayPlan) -> list[list[dict[str, Any]]] | None:
    """Return a plan's lenses and ratios, which took a while to estimate; None: it has none."""
    if "lens" not in plan.evidence:
        return None
    return [[lens_values(lens) for lens in some] for some in (plan.lenses, plan.ratios)]


def known_lenses(values: Sequence[Sequence[Values]] | None) -> See:
    """Return what puts the lenses of `lenses_of` into a plan again."""
    if values is None:
        return as_recorded
    lenses, ratios = ([Lens(**one) for one in some] for some in values)
    return lambda plan: with_lenses(plan, lenses, ratios)
