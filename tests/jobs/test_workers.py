"""Worker processes: the same parts as of one process, whatever dies or goes wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.errors import UnfinishedError, UsageError
from hpabatch.history.flat import FlatHistory
from hpabatch.inputs.workers import Spread
from hpabatch.jobs import executor, processes
from hpabatch.jobs.folder import count_kept, open_job
from hpabatch.jobs.job import Status
from hpabatch.jobs.parts_place import PartsPlace, job_name
from hpabatch.jobs.worker import Worker, describe
from tests.jobs.small import keep_workers, kept_workers
from tests.jobs.squares import PLAN_JOB, expected, plan_job, run

TWO = Spread(workers=2)
SLOW = {"seconds": 0.05}
shared = pytest.mark.usefixtures("shared_workers")


@pytest.fixture(scope="module")
def kept() -> Iterator[list[processes.Child]]:
    with kept_workers() as found:
        yield found


@pytest.fixture
def shared_workers(monkeypatch: pytest.MonkeyPatch, kept: list[processes.Child]) -> None:
    """Let a test's workers be those of the one before, where none of them is to end."""
    keep_workers(monkeypatch, kept)


def contents(folder: Path) -> dict[str, bytes]:
    """Return by name the bytes of a job folder's parts."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("tasks/*/*"))}


@shared
def test_workers_leave_the_parts_that_this_process_would(tmp_path: Path) -> None:
    values = {"count": 13}
    assert run(tmp_path / "here", values, Spread()) == expected(13)
    seen: list[Status] = []
    assert run(tmp_path / "there", values, TWO, seen.append) == expected(13)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    assert [status.done for status in seen] == list(range(14))


def test_a_worker_that_dies_costs_one_part(
    tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pids, start = list[int](), processes.Child._start

    def seen(child: processes.Child) -> Any:
        process = start(child)
        pids.append(process.pid)
        return process

    monkeypatch.setattr(processes.Child, "_start", seen)
    monkeypatch.setattr(executor, "REST_S", 0.0)

    def kill(status: Status) -> None:
        if status.done in (3, 6):
            os.kill(pids[-1], signal.SIGKILL)

    values = {"count": 9, "squares": SLOW}
    assert run(tmp_path / "job", values, TWO, kill) == expected(9)
    assert len(pids) > 2
    dead = r"worker \d: it was ended by signal 9; task 00000\d is given out again"
    assert all(re.fullmatch(dead, message) for message in caplog.messages), caplog.messages
    assert caplog.messages


def test_a_worker_that_is_just_starting_ends_with_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    start, begun = processes.Child._start, threading.Event()

    def slowly(child: processes.Child) -> Any:
        begun.set()
        time.sleep(0.2)
        return start(child)

    monkeypatch.setattr(processes.Child, "_start", slowly)
    pool = processes.ProcessPool(1)
    answer = pool.start("worker 1", "{}")
    begun.wait()
    pool.close()
    assert json.loads(answer.result()) == {"lost": "it was ended"}


def test_a_part_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    values = {"count": 9, "squares": {"deadly": 5}}
    with pytest.raises(UnfinishedError, match=r"task 000005 could not .* by 3 workers .*signal 9"):
        run(tmp_path / "job", values, TWO)
    assert count_kept(tmp_path / "job") >= 1  # (on a busy machine the other worker has just begun)


@shared
def test_faults_are_those_that_this_process_would_raise(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pods\.parquet is broken: restore it"):
        run(tmp_path / "wrong", {"count": 9, "squares": {"wrong": 1}}, TWO)
    with pytest.raises(RuntimeError, match=r"(?s)worker \d:.*ZeroDivisionError"):
        run(tmp_path / "bug", {"count": 3, "squares": {"buggy": 1}}, TWO)


@shared
def test_equal_jobs_of_two_outputs_keep_their_parts_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: dict[str, Any] = {"count": 3}
    spread = Spread(workers=1, parts=str(tmp_path / "parts"))
    with open_job(tmp_path / "one", plan_job(values).identity) as folder:
        order = order_of(values, parts=spread.parts, job=job_name(folder))
    assert Worker().answer(order) == {"done": "000001"}
    assert run(tmp_path / "two", values, spread) == expected(3)
    assert [path.parent.name for path in tmp_path.glob("parts/*/*/record.json")] == ["000001"]
    assert run(tmp_path / "one", values, spread) == expected(3)
    assert not list(tmp_path.glob("parts/*/*/record.json"))


def test_an_order_has_absolute_places_and_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, seen = "s3cr3t-value", list[str]()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.setenv(name, secret)
    start = processes.ProcessPool.start

    def inspected(pool: processes.ProcessPool, worker: str, order: str) -> Any:
        seen.append(order)
        return start(pool, worker, order)

    monkeypatch.setattr(processes.ProcessPool, "start", inspected)
    monkeypatch.chdir(tmp_path)
    assert run(Path("job"), {"count": 2}, Spread(workers=1, parts="parts")) == expected(2)
    assert len(seen) == 2
    assert not any(secret in order for order in seen)
    order = json.loads(seen[-1])
    assert (order["parts"], order["tasks"]) == (
        str(tmp_path / "parts"),
        str(tmp_path / "job/tasks"),
    )


@shared
def test_a_part_that_cannot_be_fetched_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, tries = PartsPlace.fetch, list[str]()

    def loses_the_last(place: PartsPlace, key: str, folder: Any) -> bool:
        tries.append(key)
        return (key != "000004" or tries.count(key) > 1) and fetch(place, key, folder)

    monkeypatch.setattr(PartsPlace, "fetch", loses_the_last)
    spread = Spread(workers=2, parts=str(tmp_path / "parts"))
    assert run(tmp_path / "job", {"count": 5}, spread) == expected(5)
    assert tries.count("000004") == 2


@shared
def test_the_same_command_removes_the_parts_that_were_left(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(status: Status) -> None:
        if status.done == 4:
            raise StoppedError

    def left() -> bool:
        # (a worker that is killed while it writes leaves its temporary files in _work)
        found = (tmp_path / "parts").rglob("*")
        return any(path.is_file() and "_work" not in path.parts for path in found)

    values: dict[str, Any] = {"count": 9, "squares": SLOW}
    spread = Spread(workers=2, parts=str(tmp_path / "parts"))
    with pytest.raises(StoppedError):
        run(tmp_path / "job", values, spread, stop)
    assert left()
    assert run(tmp_path / "job", values, spread) == expected(9)
    assert not left()


@shared
def test_parts_that_cannot_be_removed_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parts = tmp_path / "parts"
    spread = Spread(workers=1, parts=str(parts))
    with monkeypatch.context() as patch:
        patch.setattr(PartsPlace, "_remove", lambda place, names: broken_place())
        assert run(tmp_path / "job", {"count": 2}, spread) == expected(2)
    assert "finished parts could not be removed: --parts: no access" in caplog.text
    assert any(path.is_file() for path in parts.rglob("*"))
    # The same command finds nothing left to do, and removes them.
    assert run(tmp_path / "job", {"count": 2}, spread) == expected(2)
    assert not any(path.is_file() for path in parts.rglob("*"))


def broken_place() -> None:
    raise UsageError("--parts: no access")


@pytest.mark.parametrize("given", ["-", "/dev/stdin", "/dev/fd/63"])
def test_an_input_of_this_process_alone_is_refused(given: str) -> None:
    job = replace(plan_job({"count": 1}), values={"hpas": ["a.yaml", given]})
    with pytest.raises(UsageError, match=rf"--hpas {given}: expected a file with --workers"):
        executor.by_workers(TWO, job)


@shared
def test_a_worker_that_failed_lets_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start, failed = processes.ProcessPool.start, list[str]()

    def fails(pool: processes.ProcessPool, worker: str, order: str) -> Any:
        if worker == "worker 2":
            return start(pool, worker, order)
        failed.append(order)
        answer = Future[str]()
        answer.set_result('{"error": "UsageError", "lines": ["no credentials"]}')
        return answer

    monkeypatch.setattr(processes.ProcessPool, "start", fails)
    assert run(tmp_path / "job", {"count": 20}, TWO) == expected(20)
    assert len(failed) == 1
    (told,) = caplog.messages
    assert re.fullmatch(r"worker 1: no credentials; task \d+ is given out again", told)


@shared
def test_a_job_that_is_another_one_there_is_refused(tmp_path: Path) -> None:
    values = {"count": 3, "differs": os.getpid()}
    with pytest.raises(UsageError, match=r"plans another job .*expected the same history"):
        run(tmp_path / "job", values, TWO)


def test_a_table_in_memory_tells_its_warnings_again(tmp_path: Path) -> None:
    rows = pl.read_parquet("data/demo/hpas.parquet").head(1)
    pl.concat([rows, rows]).write_parquet(tmp_path / "hpas.parquet")
    history = FlatHistory(tmp_path, {"hpas": (tmp_path / "hpas.parquet",)}, [])
    history.read("hpas", ["spec"])
    told = list(history.warnings)
    assert len(told) == 1
    assert "dropped" in told[0]
    history.forget_warnings(0)
    assert history.warnings == []
    history.read("hpas", ["spec"])
    assert history.warnings == told


def order_of(values: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the order of a task as a worker reads it."""
    fingerprint = plan_job(values).identity.fingerprint
    task: dict[str, Any] = {
        "task": "000001",
        "plan_job": PLAN_JOB,
        "values": values,
        "fingerprint": fingerprint,
    }
    task |= {"tasks": "", "parts": None, "job": "0" * 24, "folder": os.getcwd()}
    return {**task, "versions": describe(), **more}


def test_a_folder_that_a_worker_does_not_see_needs_another_place(tmp_path: Path) -> None:
    answer = Worker().answer(order_of({"count": 3}, tasks=str(tmp_path / "tasks")))
    assert answer["error"] == "UsageError"
    told = r"expected the command's folder .*No such file .*/tasks/\).*or --parts with an object"
    assert re.search(told, answer["lines"][0])


@pytest.mark.parametrize(
    ("full", "kind", "told"),
    [
        ("memory", "UnfinishedError", "its memory is full; give the workers more memory"),
        ("disk", "UsageError", "No space left; make room there"),
    ],
)
def test_a_worker_without_room_says_so(tmp_path: Path, full: str, kind: str, told: str) -> None:
    values = {"count": 3, "squares": {"full": full}}
    answer = Worker().answer(order_of(values, parts=str(tmp_path / "parts")))
    assert answer["error"] == kind
    assert re.match(rf"worker on \S+: {told}", answer["lines"][0])


def test_more_workers_than_can_be_started_are_refused(tmp_path: Path) -> None:
    arguments = [str(tmp_path / "job"), json.dumps({"count": 60}), json.dumps({"workers": 30})]
    line = [sys.executable, "-m", "tests.jobs.squares", *arguments]
    limited = ["sh", "-c", 'ulimit -n 24; exec "$@"', "sh", *line]
    found = subprocess.run(limited, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    told = r"UsageError: a worker process cannot be started \(Too many open files\); use few"
    assert re.search(told, found.stderr)


def test_what_is_printed_before_a_worker_begins_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('banner', flush=True)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert run(tmp_path / "job", {"count": 2}, Spread(workers=1)) == expected(2)
    found = capfd.readouterr()
    assert ("banner" in found.out, "banner" in found.err) == (False, True)


def test_an_answer_that_cannot_be_read_costs_one_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, broken_ones = processes.Child.ask, ["nothing", '{"done": "another"}']

    def breaks(child: processes.Child, order: str) -> str:
        if broken_ones:
            return broken_ones.pop()
        return ask(child, order)

    monkeypatch.setattr(processes.Child, "ask", breaks)
    assert run(tmp_path / "job", {"count": 2}, Spread(workers=1)) == expected(2)
    assert not broken_ones


def test_a_worker_without_the_extra_for_a_place_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "hpabatch.history.store.objects", raising=False)
    answer = Worker().answer(order_of({"count": 3}, parts="s3://bucket/parts"))
    assert answer["error"] == "UsageError"
    assert re.search(r"worker on .*: s3://.* install hpabatch\[s3\]", answer["lines"][0])


@shared
def test_versions_are_compared_before_any_work(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(executor, "describe", lambda: describe() | {"polars": "0.1"})
    with pytest.raises(UsageError, match=r"worker \d has polars .*, this command has 0\.1: inst"):
        run(tmp_path / "job", {"count": 3}, TWO)
    assert count_kept(tmp_path / "job") == 0


def client(place: Path, values: dict[str, Any], spread: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Return a command in a process of its own, which writes how many parts are done."""
    arguments = [str(place), json.dumps(values), json.dumps(spread)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.jobs.squares", *arguments],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
    )


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def wait_until_gone(pids: list[int]) -> None:
    until = time.monotonic() + 20
    for pid in pids:
        while time.monotonic() < until:
            with suppress(ProcessLookupError):
                os.kill(pid, 0)
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    time.sleep(0.05)
                    continue
            break
        else:
            raise AssertionError(f"process {pid} is still there")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_command(tmp_path: Path, sent: signal.Signals) -> None:
    values = {"count": 40, "squares": SLOW}
    process = client(tmp_path / "job", values, {"workers": 2})
    assert process.stdout is not None
    while int(process.stdout.readline()) < 5:
        pass
    workers = descendants(process.pid)
    assert len(workers) == 2
    process.send_signal(sent)
    process.wait()
    process.stdout.close()
    wait_until_gone(workers)
    kept = count_kept(tmp_path / "job")
    assert 5 <= kept < 40
    seen: list[Status] = []
    assert run(tmp_path / "job", values, TWO, seen.append) == expected(40)
    assert seen[0].resumed >= kept
