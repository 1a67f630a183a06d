"""Import of tables: the input is read in parts, by this process or by workers.

Grouping the rows and writing the store stay with the command: a store has one log of transactions.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from hpabatch.errors import UsageError
from hpabatch.history.atomic import remove
from hpabatch.importers.table.files import TableFile, digest_file
from hpabatch.importers.table.input import TableInput, open_input
from hpabatch.importers.table.request import TableRequest
from hpabatch.importers.table.run import ImportResult, Progress, import_table
from hpabatch.importers.table.runs import ReadPart, read_part
from hpabatch.importers.table.spill import GROUP_ROWS
from hpabatch.importers.table.work import check_work
from hpabatch.inputs.workers import Spread
from hpabatch.jobs.executor import executor_of
from hpabatch.jobs.folder import Identity, JobFolder, made_by, open_job
from hpabatch.jobs.loop import Status, Task, Tasks, one_by_one, run_job
from hpabatch.jobs.orders import Order, PlannedJob, Values, options_of

PLAN_JOB: Final = "hpabatch.jobs.table:plan_job"
_FOLDER: Final = "read"
_DIGEST: Final = "sha256"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadWork:
    """Reads parts of the input: a task's argument is the part's number.

    `digest_of` returns the digest of a file, `tell` gets the rows read of a part so far.
    """

    found: TableInput
    digest_of: Callable[[Path], str]
    tell: Callable[[int], None] = lambda rows: None

    def compute(self, tasks: Sequence[Task]) -> Iterator[TableFile]:
        """Yield the parts: their rows, which memory may not hold, are read as they are saved."""
        yield from (self.found.parts[task.argument] for task in tasks)

    def save(self, result: TableFile, place: Path) -> dict[str, Any]:
        """Write the sorted runs of a part; return its counts, and the digest of its file."""
        counts = read_part(result, self.found.table, place, self.tell)
        return {**counts, _DIGEST: self.digest_of(result.path)}


def run_import(
    request: TableRequest,
    progress: Progress = lambda message, share: None,
    group_rows: int = GROUP_ROWS,
) -> ImportResult:
    """Import a table into a store; raises as `import_table` does."""
    if request.work is not None and request.out is not None:
        check_work(request.work, request.out)

    def read(
        found: TableInput,
        digests: Mapping[Path, str],
        folder: Path,
        tell: Callable[[int], None],
    ) -> list[ReadPart]:
        return _read(request, found, digests, folder, tell)

    return import_table(request, read, progress, group_rows)


def plan_job(values: Values) -> PlannedJob[ReadWork]:
    """Plan the reading of tables in a worker, from its order."""
    found = open_input(TableRequest.from_json(values))
    # The command compares what a worker has read with its own digest of that file: with those of
    # all files every worker would read the whole input.
    return _planned(found, ReadWork(found, cache(digest_file)), values["content"])


def _read(
    request: TableRequest,
    found: TableInput,
    digests: Mapping[Path, str],
    folder: Path,
    tell: Callable[[int], None],
) -> list[ReadPart]:
    """Have the parts read; what an interrupted run has left is not read again."""
    done = 0

    def report(status: Status) -> None:
        nonlocal done
        done = status.done_weight
        tell(done)

    content = hashlib.sha256(json.dumps(list(digests.values())).encode()).hexdigest()
    work = ReadWork(found, digests.__getitem__, lambda rows: tell(done + rows))
    job = _planned(found, work, content)
    order = Order(PLAN_JOB, {**options_of(request), "content": content}, job.identity)
    execute = executor_of(_useful(request, found), order, one_by_one)
    with open_job(folder / _FOLDER, job.identity, replace=True) as place:
        records = run_job(job.tasks, work, place, report, execute)
        return [
            _checked(place, task, record, digests[part.path], part.path)
            for task, record, part in zip(job.tasks, records, found.parts, strict=True)
        ]


def _planned(found: TableInput, work: ReadWork, content: str) -> PlannedJob[ReadWork]:
    parts = [(part.path.name, part.size, part.first, part.rows) for part in found.parts]
    facts = {
        "map and objects": found.context[:16],
        "parts": str(len(parts)),
        "bytes": str(sum({part.path: part.size for part in found.parts}.values())),
    }
    text = json.dumps([made_by(), found.context, content, parts])
    identity = Identity(hashlib.sha256(text.encode()).hexdigest(), facts)
    weights = [part.rows for part in found.parts]
    tasks = Tasks(lambda k: Task(f"{k:05}", weights[k], k), range(len(weights)))
    return PlannedJob(tasks, work, identity)


def _useful(request: TableRequest, found: TableInput) -> Spread:
    """Return who reads: of one part this process, as workers would wait for each other."""
    spread = Spread.part_of(request)
    if not spread.is_spread or len(found.parts) > 1:
        return spread
    _log.warning(
        "the input is one part, which this process reads: a CSV is one part however large, Parquet "
        "is cut into parts by its row groups; several files are read by several workers"
    )
    return Spread()


def _checked(
    place: JobFolder, task: Task, record: Mapping[str, Any], digest: str, path: Path
) -> ReadPart:
    """Return a part that was read of the very file that the command has (UsageError: it was not).

    Such a part is removed, so that the same command reads it again.
    """
    folder = place.place(task.key)
    if record[_DIGEST] != digest:
        remove(folder)
        raise UsageError(
            f"a worker has read another {path} than this command has: expected the same files at "
            "the same places for all workers; make them equal, then give the same command again"
        )
    return ReadPart.of(folder, record)
