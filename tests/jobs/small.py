"""Small parts for jobs of small histories, here and in workers; workers that many jobs share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module

import pytest

from hpabatch.engine.capacity import run as capacities
from hpabatch.engine.fleet import plan as planning
from hpabatch.engine.quality.run import Look
from hpabatch.engine.sweep import run as sweeping
from hpabatch.jobs import processes
from hpabatch.jobs.job import Job, Values

USE_CASES = ("capacity", "fidelity", "fit", "quality", "replay", "sweep")


def cut_small(patch: pytest.MonkeyPatch) -> None:
    """Make parts of two HPAs and chunks of two settings; shards have an HPA each."""
    patch.setattr(sweeping, "HPAS_AT_ONCE", 2)
    patch.setattr(sweeping, "STEPS_AT_ONCE", 2 * 2 * 4 * 135)
    patch.setattr(capacities, "HPAS_AT_ONCE", 1)
    patch.setattr(planning, "SHARD_DECISIONS", 1)
    patch.setattr(Look.__init__, "__defaults__", (1,))


def plan_small_jobs(patch: pytest.MonkeyPatch) -> None:
    """Make small parts, here and in workers, whose orders name a function of this module."""
    cut_small(patch)
    for name in USE_CASES:
        patch.setattr(f"hpabatch.jobs.{name}.PLAN_JOB", f"tests.jobs.small:{name}")


def keep_workers(patch: pytest.MonkeyPatch, kept: list[processes.Child]) -> None:
    """Leave the workers of a pool to the next one, as those of Dask are; starting costs a second.

    Those that are not done with their order a second later end. What is in `kept` at the end is to
    be closed.
    """

    begin, ask, busy = processes.ProcessPool.__init__, processes.Child.ask, set[processes.Child]()

    def start(pool: processes.ProcessPool, count: int) -> None:
        begin(pool, count)
        for name in list(pool._children)[: len(kept)]:
            pool._children[name] = kept.pop()

    def asking(child: processes.Child, order: str) -> str:
        busy.add(child)
        try:
            return ask(child, order)
        finally:
            busy.discard(child)

    def close(pool: processes.ProcessPool) -> None:
        until = time.monotonic() + 1
        while busy and time.monotonic() < until:
            time.sleep(0.02)
        for child in pool._children.values():
            if child in busy:
                child.close()
            else:
                kept.append(child)
        pool._askers.shutdown()

    patch.setattr(processes.ProcessPool, "__init__", start)
    patch.setattr(processes.Child, "ask", asking)
    patch.setattr(processes.ProcessPool, "close", close)


@contextmanager
def kept_workers() -> Iterator[list[processes.Child]]:
    """Yield an empty list for `keep_workers`; close what is in it at the end."""
    kept: list[processes.Child] = []
    yield kept
    for child in kept:
        child.close()


def _plan(name: str, values: Values) -> Job:
    """Plan a small job of a use case in a worker."""
    cut_small(pytest.MonkeyPatch())
    found: Job = import_module(f"hpabatch.jobs.{name}").plan_job(values)
    return found


capacity, fidelity, fit, quality, replay, sweep = (partial(_plan, name) for name in USE_CASES)
