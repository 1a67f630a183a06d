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

import polars as pl

from hpabatch.errors import HistoryError
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.folder import Identity, open_job
from hpabatch.jobs.job import Job, Part, Report, Status, Task, Tasks, Values, executor_of, run_job

PLAN_JOB = "tests.jobs.squares:plan_job"


@dataclass
class Squares:
    """Squares numbers, each after `seconds`; `deadly`, `wrong` and `buggy` are tasks.

    `full`: what has no room, memory or disk.
    """

    seconds: float = 0.0
    deadly: int | None = None
    wrong: int | None = None
    buggy: int | None = None
    full: str = ""

    def results(self, numbers: Sequence[int]) -> Iterator[int]:
        for number in numbers:
            time.sleep(self.seconds)
            if number == self.deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            if number == self.wrong:
                raise HistoryError("pods.parquet is broken: restore it")
            yield 1 // (number != self.buggy) * number**2

    def part_of(self, result: int) -> Part:
        if self.full:
            raise MemoryError if self.full == "memory" else OSError(errno.ENOSPC, "No space left")
        return {"square": pl.DataFrame({"square": [result]})}, {"square": result}


def plan_job(values: Values) -> Job:
    """Plan the job of `values`: the number of tasks, and what is odd about them."""
    tasks = Tasks(lambda k: Task(f"{k:06}", 1, k, f"{k // 4:06}"), range(values["count"]))
    text = json.dumps(values, sort_keys=True)
    if "differs" in values and os.getpid() != values["differs"]:
        text += "!"
    identity = Identity(hashlib.sha256(text.encode()).hexdigest(), {"count": str(values["count"])})
    work = Squares(**values.get("squares", {}))
    return Job(tasks, work.results, lambda: identity, PLAN_JOB, values, part_of=work.part_of)


def run(
    place: Path, values: Values, spread: Spread, report: Report = lambda status: None
) -> list[dict[str, Any]]:
    """Do the job; its folder stays."""
    return [{"square": record["square"]} for record in records(place, values, spread, report)]


def records(
    place: Path, values: Values, spread: Spread, report: Report = lambda status: None
) -> Iterator[dict[str, Any]]:
    """Do the job and yield its records one by one; its folder stays."""
    job = plan_job(values)
    with open_job(place, job.identity) as folder:
        yield from run_job(job, folder, report, executor_of(spread, job))


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
