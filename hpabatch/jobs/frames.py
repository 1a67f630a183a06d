"""Parts of a history's shards, and what is done with parts that no result folder keeps.

Without workers fit, fidelity, quality and plan compute in one walk and keep no parts. With them a
part is some HPAs, and the job folder a temporary one, until the command has put all parts together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import (
    ReplayPlan,
    See,
    as_recorded,
    narrow_plan,
    plan_replay,
    with_lenses,
)
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.history.reader import open_history
from hpabatch.inputs.lenses import Lens
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.folder import JobFolder, identity_of, read_frame, temporary_job
from hpabatch.jobs.job import (
    Job,
    Part,
    Status,
    Task,
    Values,
    executor_of,
    numbered_tasks,
    options_of,
    run_job,
)
from hpabatch.model.progress import Progress

if TYPE_CHECKING:
    from hpabatch.engine.fidelity.request import FidelityRequest
    from hpabatch.engine.fit.request import FitRequest


def read_part(folder: JobFolder, task: Task, name: str) -> pl.DataFrame:
    """Return a frame of a finished task's part."""
    return read_frame(folder.place(task.key) / f"{name}.arrow")


class Frames(dict[str, pl.DataFrame]):
    """Frames of a finished task's part by name, each read when it is asked for."""

    def __init__(self, folder: JobFolder, task: Task) -> None:
        """Read nothing yet."""
        super().__init__()
        self._read = partial(read_part, folder, task)

    def __missing__(self, name: str) -> pl.DataFrame:
        """Return a frame; it is not kept."""
        return self._read(name)


@contextmanager
def computed(job: Job, spread: Spread, progress: Progress) -> Iterator[Iterable[Part]]:
    """Have the parts computed; in the block they are there, in their order.

    By workers they are in a temporary folder, and frames are read when they are asked for; the
    history has the warnings of all of them. Here each is computed when it is asked for.
    """
    if not spread.is_spread:
        yield map(job.part_of, job.results([task.argument for task in job.tasks]))
        return

    def report(status: Status) -> None:
        progress("computing" + status.speed(), status.done_weight / max(status.weight, 1))

    execute = executor_of(spread, job)
    with temporary_job(job.identity) as folder:
        records = list(run_job(job, folder, report, execute))
        assert job.history is not None
        met = [warning for record in records for warning in record["warnings"]]
        job.history.warnings[:] = dict.fromkeys([*met, *job.history.warnings])
        yield [
            (Frames(folder, task), record) for task, record in zip(job.tasks, records, strict=True)
        ]


def shards_job(
    plan: ReplayPlan,
    request: FitRequest | FidelityRequest,
    part: Callable[[ReplayPlan], Part],
    extra: Sequence[str],
    plan_job: str,
    kernel: str,
) -> Job:
    """Return a job with a task for each shard of a plan; `extra` is on what else it depends."""
    chosen = [[*c.key, repr(c.periods)] for c in plan.chosen]
    depends = [
        *(options_of(request), chosen, plan.shards),
        *(repr(plan.settled), repr(plan.clocks.grid), extra),
    ]
    return Job(
        tasks=numbered_tasks([last - first for first, last in plan.shards]),
        results=partial(map, lambda k: part(narrow_plan(plan, range(*plan.shards[k])))),
        identify=partial(identity_of, plan.evidence, depends),
        plan_job=plan_job,
        values={
            "history": plan.history.location,
            "lenses": lenses_of(plan),
            **options_of(request),
        },
        kernel=kernel,
        history=plan.history,
    )


def plan_from(values: Values, request: FitRequest | FidelityRequest) -> ReplayPlan:
    """Return the plan of an order, through the lenses that the command has found."""
    history = open_history(values["history"], "replay")
    plan = plan_replay(history, replay_parameters(request), None, selection_of(request))
    return known_lenses(values["lenses"])(plan)


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
