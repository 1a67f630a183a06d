"""Worker: a process that does tasks of a job for a command.

It reads orders from stdin and writes an answer to each to a pipe, whose number is its argument,
both one line of JSON, and ends when stdin does. From an order's values the job is planned again
here, by the same code, and must come to the same fingerprint. The part that a task leaves goes into
the job folder, or to another place that all workers reach; the answer says only that it is there.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import queue
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from hpabatch import errors
from hpabatch.errors import HpabatchError, UnfinishedError, UsageError, as_usage
from hpabatch.jobs.folder import (
    cannot_write,
    code_digest,
    first_difference,
    read_record,
    write_task,
)
from hpabatch.jobs.job import Job, Task
from hpabatch.jobs.parts_place import PartsPlace
from hpabatch.jobs.processes import Answer

_PACKAGES: Final = ("hpabatch", "numba", "numpy", "polars", "pyarrow")


@cache
def describe() -> dict[str, str]:
    """Return what must be the same for all workers of a job: versions and digests of the code."""
    from hpabatch import _code

    found = {name: version(name) for name in _PACKAGES}
    found["Python"] = ".".join(platform.python_version_tuple()[:2])
    found["the machine"] = platform.machine()  # (other instructions round otherwise)
    return found | {"hpabatch's sources": code_digest()[:16], "kernels": _code.DIGEST}


class Worker:
    """Does orders; the job that was planned last is kept."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._fingerprint = ""
        self._job: Job | None = None
        self._places: dict[str, int] = {}
        self._last = -1
        self._warnings = 0

    def answer(self, order: Mapping[str, Any]) -> Answer:
        """Return the answer to an order: what was asked for, or what is wrong."""
        try:
            if (found := describe()) != order.get("versions"):
                return {"found": found}
            self._do(order)
            return {"done": order["task"]}
        except HpabatchError as error:
            # The nearest class of an error that every process knows.
            kinds = (k.__name__ for k in type(error).__mro__ if k.__module__ == errors.__name__)
            return {"error": next(kinds), "lines": [str(text) for text in error.args]}
        except OSError as error:
            where = "" if error.filename is None else f" ({error.filename})"
            what = f"{error.strerror or error}{where}"
            return _told(UsageError, f"{what}; make room there, or raise the limits of its user")
        except MemoryError:
            return _told(UnfinishedError, "its memory is full; give the workers more memory")
        except Exception:  # noqa: BLE001  (a bug ends the command)
            return {"bug": traceback.format_exc()}

    def _do(self, order: Mapping[str, Any]) -> None:
        key, fingerprint = order["task"], order["fingerprint"]
        if order["parts"] is None:
            tasks = Path(order["tasks"])
            try:
                os.stat(f"{tasks}/")
            except OSError as error:
                raise UsageError(
                    f"worker on {platform.node()}: expected the command's folder for finished "
                    f"parts, got: {error.strerror} ({tasks}/): workers on other machines need the "
                    "same file system and the command's user, or --parts with an object storage"
                ) from error
            if read_record(tasks / key, fingerprint) is not None:
                return
            job, task = self._task(order)
            try:
                _write(job, task, tasks, fingerprint)
            except OSError as error:
                raise cannot_write(tasks, error) from error
        else:
            try:
                place = PartsPlace(order["parts"], order["job"])
            except HpabatchError as error:
                raise _here(error) from error
            job, task = self._task(order)
            with place.sending(key) as folder:
                _write(job, task, folder, fingerprint)

    def _task(self, order: Mapping[str, Any]) -> tuple[Job, Task]:
        """Return a task and its job, planned here unless it is planned already."""
        key, fingerprint = order["task"], order["fingerprint"]
        if self._job is None or fingerprint != self._fingerprint:
            self._job = None  # (its memory is needed)
            self._job, self._fingerprint = _plan(order), fingerprint
            self._places = {task.key: k for k, task in enumerate(self._job.tasks)}
            self._last = -1
            self._warnings = len(self._job.history.warnings) if self._job.history else 0
        # Odd contents of a history are a warning of the first task that meets them: at a task out
        # of order they are forgotten, so that the same task has them as in one process.
        elif self._places[key] < self._last and self._job.history is not None:
            self._job.history.forget_warnings(self._warnings)
        self._last = self._places[key]
        return self._job, self._job.tasks[self._last]


def _told(kind: type[HpabatchError], text: str) -> Answer:
    return {"error": kind.__name__, "lines": [f"worker on {platform.node()}: {text}"]}


def _plan(order: Mapping[str, Any]) -> Job:
    """Plan the job of an order (UsageError: it is another one here)."""
    with suppress(OSError):  # relative paths mean the same as for the command, where they can
        os.chdir(order["folder"])
    module, _, name = str(order["plan_job"]).partition(":")
    try:
        job: Job = getattr(importlib.import_module(module), name)(order["values"])
    except HpabatchError as error:
        raise _here(error) from error
    if job.identity.fingerprint != order["fingerprint"]:
        what = first_difference(order["facts"], job.identity.facts) or "of other HPAs"
        raise UsageError(
            f"worker on {platform.node()}: it plans another job ({what}): expected the same "
            "history and files at the same places for all workers"
        )
    return job


def _here(error: HpabatchError) -> HpabatchError:
    """Return an error of this worker: the command could do the same, so no history is at fault."""
    return as_usage(error, f"worker on {platform.node()}: {error}")


def _write(job: Job, task: Task, tasks: Path, fingerprint: str) -> None:
    for result in job.compute([task]):
        with write_task(tasks, task.key, fingerprint) as (place, record):
            record.update(job.save(result, place))


def main() -> None:
    """Do orders until stdin ends."""
    answers = os.fdopen(int(sys.argv[1]), "w")
    os.set_inheritable(answers.fileno(), False)
    # What reads stdin must not read orders.
    given = os.fdopen(os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in given:
            orders.put(line)
        os._exit(0)  # whoever gave the orders is gone, and so is the use of the current one

    threading.Thread(target=read, daemon=True).start()
    worker = Worker()
    while True:
        answers.write(json.dumps(worker.answer(json.loads(orders.get()))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
