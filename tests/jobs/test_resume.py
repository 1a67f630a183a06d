"""Jobs with a result on disk: wherever one ends, the same goes on, and the bytes are the same.

Replays to a file and to a folder, and sweeps, keep one contract.
"""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.engine.fleet import plan as planning
from hpabatch.engine.replay.request import ReplayToRequest
from hpabatch.engine.sweep import run as sweeping
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.engine.sweep.run import plan_request
from hpabatch.errors import HistoryError, RefusedError, UnfinishedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.jobs import replay, sweep
from hpabatch.jobs.job import Status
from hpabatch.jobs.publish import Destination
from tests.cli.histories import edit, small
from tests.engine.swept import HOUR_MS, cut

pytestmark = pytest.mark.compiled
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
Report = Callable[[Status], None]


class Killed(BaseException):
    """Stands for the end of the process."""


@dataclass(frozen=True)
class Job:
    """A kind of job.

    `run` does it, with other options if they are given; `ends` are functions of `hpabatch` and the
    numbers of the calls at which it ends there, the first in a part, the last when the result is
    put together. `other` are options of another job, and what is told of the difference; `anew` is
    the option that discards a run.
    """

    out: str
    tasks: int
    run: Callable[..., Any]
    history: Callable[[Path], Path]
    ends: tuple[tuple[str, int], ...]
    other: tuple[dict[str, Any], str]
    anew: str
    breaks: tuple[str, int]
    more: dict[str, Any] = field(default_factory=dict)


def _replayed(
    history: Path,
    out: Path,
    report: Report = lambda status: None,
    folder: bool = False,
    **more: Any,
) -> Any:
    request = ReplayToRequest(k8s="1.38", **more)
    plan = replay.plan_of(open_history(history), request, None)
    return replay.replay_to_disk(
        replay.ReplayJob(plan, Destination(out, folder), request=request), report
    )


def _swept(
    history: Path,
    out: Path,
    report: Report = lambda status: None,
    replace: bool = False,
    **more: Any,
) -> Any:
    grid = ("max=+1,+2", "scaleDown.window=60,900")
    given: dict[str, Any] = {"grid": grid, "fidelity": False, "length_ms": 2 * HOUR_MS}
    request = SweepRequest(**(given | more))
    plan = plan_request(open_history(history, "replay"), request)
    job = sweep.SweepJob(request, plan, Destination(out, is_folder=True), replace)
    return sweep.sweep_to_disk(job, report)


def _four(folder: Path) -> Path:
    """Cut a history of four HPAs; no sample of the first one's pods is known."""
    return cut(folder, "ingest/enricher", "ingest/transform", "payments/api", "shop/checkout")


REPLAY = Job(
    out="decisions.parquet",
    tasks=5,
    run=_replayed,
    history=small,
    ends=(
        ("jobs.job:write_parquet", 1),
        ("jobs.job:write_frame", 4),
        ("jobs.folder:flush", 1),
        ("jobs.folder:flush", 9),
        ("engine.replay.run:run_step", 6),
        ("history.files:flush", 1),
        ("history.files:flush", 2),
        ("jobs.joining:_copy", 3),
    ),
    other=({"events": "decided"}, "events was recorded, is decided"),
    anew="restart",
    breaks=("engine.replay.run:run_step", 7),
)
JOBS = {
    "replay": REPLAY,
    "replay to a folder": replace(
        REPLAY,
        out="decisions",
        ends=(
            ("jobs.job:write_parquet", 4),
            ("history.files:flush", 5 + 3),
            ("jobs.publish:_link", 2),
        ),
        more={"folder": True},
    ),
    "sweep": Job(
        out="sweep",
        tasks=2 * (1 + 3),
        run=_swept,
        history=_four,
        ends=(
            ("jobs.sweep:prepare_part", 1),
            ("jobs.sweep:run_part", 5),
            ("jobs.folder:flush", 12),
            ("jobs.sweep:write_table", 5),
            ("history.files:flush", 7),
            ("jobs.sweep:join_parquet", 2),
        ),
        other=({"growth": "1.2"}, r"scenario was none, is --growth 1\.2"),
        anew="replace",
        breaks=("jobs.sweep:run_part", 3),
    ),
}


def cut_small(patch: pytest.MonkeyPatch) -> None:
    """Make shards of one HPA; of a sweep two parts, and three chunks of two settings or fewer."""
    patch.setattr(planning, "SHARD_DECISIONS", 1)
    patch.setattr(sweeping, "HPAS_AT_ONCE", 2)
    patch.setattr(sweeping, "STEPS_AT_ONCE", 2 * 2 * 4 * 135)


@pytest.fixture(scope="module", params=JOBS)
def job(request: pytest.FixtureRequest) -> Job:
    return JOBS[request.param]


@pytest.fixture(scope="module")
def history(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return job.history(tmp_path_factory.mktemp("resume") / "history")


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch)


@pytest.fixture(scope="module")
def whole(job: Job, history: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the result of a run that nobody interrupts."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        out = tmp_path_factory.mktemp("whole") / job.out
        job.run(history, out, **job.more)
        return contents(out)


@pytest.fixture
def out(job: Job, tmp_path: Path) -> Iterator[Path]:
    """Yield a place whose folder has nothing but the result and its job folder, at most."""
    place = tmp_path / "out" / job.out
    place.parent.mkdir()
    yield place
    assert set(os.listdir(place.parent)) <= {job.out, f".{job.out}.job"}


def contents(out: Path) -> dict[str, bytes]:
    """Return the bytes of a result by the names of its files."""
    return {place.name: place.read_bytes() for place in (out.iterdir() if out.is_dir() else [out])}


def resumed(job: Job, history: Path, out: Path, **more: Any) -> int:
    """Do a job; return how many tasks were done before."""
    seen: list[Status] = []
    job.run(history, out, seen.append, **(job.more | more))
    assert [status.done for status in seen] == list(range(seen[0].done, job.tasks + 1))
    assert seen[-1].done_weight == seen[-1].weight
    return seen[0].resumed


def kept(out: Path) -> int:
    tasks = out.with_name(f".{out.name}.job") / "tasks"
    return len(list(tasks.iterdir())) if tasks.exists() else 0


def stop_at(patch: pytest.MonkeyPatch, place: str, at: int, error: BaseException) -> None:
    """Make a function raise at its call number `at`, after it began to write a file."""
    module, _, name = place.partition(":")
    owner = importlib.import_module(f"hpabatch.{module}")
    real, calls = getattr(owner, name), []

    def stop(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) != at:
            return real(*arguments, **more)
        for argument in arguments:
            if isinstance(argument, Path) and not argument.exists():
                argument.write_bytes(b"half")
        raise error

    patch.setattr(owner, name, stop)


def stopped(
    job: Job, history: Path, out: Path, end: tuple[str, int], error: BaseException, **more: Any
) -> str:
    """Leave what a run leaves that ends at some place; return what is told."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, *end, error)
        kinds = (Killed, HistoryError, UsageError)
        with pytest.raises(kinds) as told:
            job.run(history, out, **(job.more | more))
    return str(told.value)


def test_it_goes_on_wherever_it_ended(
    job: Job, history: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    for number, end in enumerate(job.ends):
        out = tmp_path / str(number) / job.out
        out.parent.mkdir()
        stopped(job, history, out, end, Killed())
        assert not out.exists() or contents(out) == whole, end
        done = kept(out)
        assert resumed(job, history, out) == done, end
        assert contents(out) == whole, end
        assert os.listdir(out.parent) == [out.name]


def test_a_full_disk_keeps_what_is_done(
    job: Job, history: Path, out: Path, whole: dict[str, bytes]
) -> None:
    for end in (("jobs.folder:flush", 12), job.ends[-1]):
        told = stopped(job, history, out, end, FULL)
        assert "No space left on device" in told
        assert told.endswith("parts are kept in "
                             f"{out.with_name(f'.{out.name}.job')}: the same command goes on from "
                             "there")  # fmt: skip
    assert resumed(job, history, out) == job.tasks
    assert contents(out) == whole


def test_another_job_does_not_resume(job: Job, history: Path, out: Path) -> None:
    stopped(job, history, out, job.breaks, Killed())
    done, (more, told) = kept(out), job.other
    assert done
    with pytest.raises(UsageError, match=f"{told}.*discard it with --{job.anew}"):
        job.run(history, out, **(job.more | more))
    assert kept(out) == done
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hpabatch.jobs.folder.code_digest", lambda: "edited")
        for name in ("sweep", "folder"):
            patch.setattr(f"hpabatch.jobs.{name}.made_by", lambda: ["edited"])
        with pytest.raises(UsageError, match="an unfinished run of another command or history"):
            job.run(history, out, **job.more)
    seen: list[Status] = []
    job.run(history, out, seen.append, **(job.more | more | {job.anew: True}))
    assert seen[0].resumed == 0
    assert os.listdir(out.parent) == [out.name]


def test_another_history_does_not_resume(job: Job, tmp_path: Path, out: Path) -> None:
    history = job.history(tmp_path / "history")
    stopped(job, history, out, job.breaks, Killed())
    edit(history, "pod_metrics", cpu_milli=pl.col("cpu_milli") + 1)
    with pytest.raises(UsageError, match="table pod_metrics was another"):
        job.run(history, out, **job.more)


def test_a_history_that_breaks_leaves_nothing(job: Job, history: Path, out: Path) -> None:
    stopped(job, history, out, job.breaks, Killed())
    assert kept(out)
    (place, _), broken = job.breaks, HistoryError("a page is damaged")
    assert stopped(job, history, out, (place, 1), broken) == "a page is damaged"
    assert os.listdir(out.parent) == []


def test_two_at_once(job: Job, history: Path, out: Path) -> None:
    def meanwhile(status: Status) -> None:
        if status.done == 1:
            with pytest.raises(UnfinishedError, match="hpabatch is working on the same output"):
                job.run(history, out, **job.more)

    job.run(history, out, meanwhile, **job.more)


def test_places_that_cannot_be_written_are_told(job: Job, history: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*: Not a directory"):
        job.run(history, tmp_path / "file" / job.out, **job.more)
    out = tmp_path / job.out
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    if job is not JOBS["replay"]:
        with pytest.raises(UsageError, match="has got files of others; move them away"):
            job.run(history, out, **job.more)
    assert contents(out) == {"mine.txt": b"mine"}


def test_an_older_result_stays_until_the_new_one_is_whole(
    job: Job, history: Path, out: Path, whole: dict[str, bytes]
) -> None:
    more = job.other[0] | ({"replace": True} if job is JOBS["sweep"] else {})
    job.run(history, out, **(job.more | more))
    old = contents(out)
    assert old != whole
    if job is JOBS["sweep"]:
        with pytest.raises(RefusedError, match="holds another sweep"):
            job.run(history, out)
    again = {"replace": True} if job is JOBS["sweep"] else {}
    stopped(job, history, out, job.ends[-1], Killed(), **again)
    assert contents(out) == old
    assert resumed(job, history, out, **again) == job.tasks
    assert contents(out) == whole
