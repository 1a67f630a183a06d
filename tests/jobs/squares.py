"""A job of nothing but numbers, for workers: some of its tasks are slow, wrong or deadly."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpabatch.errors import HistoryError
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.executor import executor_of
from hpabatch.jobs.folder import Identity, open_job
from hpabatch.jobs.loop import Report, Status, Task, Tasks, run_job
from hpabatch.jobs.orders import PlannedJob, Values

PLAN_JOB = "tests.jobs.squares:plan_job"


@dataclass
class Squares:
    """Squares numbers, each after `seconds`; `deadly`, `wrong` and `buggy` are tasks.

    The first task that does not find the file `stopping` stops its process; `full`: what has no
    room, memory or disk.
    """

    seconds: float = 0.0
    deadly: int | None = None
    wrong: int | None = None
    buggy: int | None = None
    stopping: str | None = None
    full: str = ""

    def compute(self, tasks: Sequence[Task]) -> Iterator[int]:
        for task in tasks:
            time.sleep(self.seconds)
            if task.argument == self.deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            if task.argument == self.wrong:
                raise HistoryError("pods.parquet is broken: restore it")
            if self.stopping is not None and not Path(self.stopping).exists():
                Path(self.stopping).touch()
                os.kill(os.getpid(), signal.SIGSTOP)
            yield 1 // (task.argument != self.buggy) * task.argument**2

    def save(self, result: int, place: Path) -> dict[str, Any]:
        if self.full:
            raise MemoryError if self.full == "memory" else OSError(errno.ENOSPC, "No space left")
        (place / "square.txt").write_text(str(result))
        return {"square": result}


def plan_job(values: Values) -> PlannedJob[Squares]:
    """Plan the job of `values`: the number of tasks, and what is odd about them."""
    tasks = Tasks(lambda k: Task(f"{k:06}", 1, k, f"{k // 4:06}"), range(values["count"]))
    text = json.dumps(values, sort_keys=True)
    if "differs" in values and os.getpid() != values["differs"]:
        text += "!"
    identity = Identity(hashlib.sha256(text.encode()).hexdigest(), {"count": str(values["count"])})
    work = Squares(**values.get("squares", {}))
    return PlannedJob(tasks, work, identity, PLAN_JOB, values, values.get("kernel"))


def run(
    place: Path, values: Values, spread: Spread, report: Report = lambda status: None
) -> list[dict[str, Any]]:
    """Do the job; its folder stays."""
    return list(records(place, values, spread, report))


def records(
    place: Path, values: Values, spread: Spread, report: Report = lambda status: None
) -> Iterator[dict[str, Any]]:
    """Do the job and yield its records one by one; its folder stays."""
    job = plan_job(values)
    with open_job(place, job.identity) as folder:
        yield from run_job(job.tasks, job.work, folder, report, executor_of(spread, job))


def expected(count: int) -> list[dict[str, int]]:
    return [{"square": k * k} for k in range(count)]


def tell(status: Status) -> None:
    sys.stdout.write(f"{status.done}\n")
    sys.stdout.flush()


if __name__ == "__main__":  # a client of its own: PLACE VALUES SPREAD, the last two as JSON
    run(
        Path(sys.argv[1]),
        json.loads(sys.argv[2]),
        Spread(**json.loads(sys.argv[3])),
        tell,
    )
