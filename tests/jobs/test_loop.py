"""The loop and its folder, with work that is nothing but numbers."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import UnfinishedError, UsageError
from hpabatch.jobs.folder import Identity, count_kept, open_job
from hpabatch.jobs.frames import read_part
from hpabatch.jobs.job import Job, Part, Status, Task, Tasks, run_job

JOB = Identity("abc", {"delay": "0 ms"})


@dataclass
class Squares:
    """Squares numbers; `stop` ends it before some task, `fail` while one is saved."""

    stop: int | None = None
    fail: int | None = None
    done: list[int] = field(default_factory=list)

    def results(self, numbers: Sequence[int]) -> Iterator[int]:
        for number in numbers:
            if number == self.stop:
                raise KeyboardInterrupt
            self.done.append(number)
            yield number**2

    def part_of(self, result: int) -> Part:
        if self.fail is not None and result == self.fail**2:
            raise OSError(28, "No space left on device")
        return {"square": pl.DataFrame({"square": [result]})}, {"square": result}


def job(tasks: Sequence[Task], squares: Squares | None = None) -> Job:
    work = squares or Squares()
    return Job(tasks, work.results, lambda: JOB, "", {}, part_of=work.part_of)


def some(count: int, squares: Squares | None = None) -> Job:
    return job([Task(f"{k:03}", 10 + k, k) for k in range(count)], squares)


def test_all_tasks_in_order(tmp_path: Path) -> None:
    with open_job(tmp_path / "job", JOB) as folder:
        records = [record["square"] for record in run_job(some(5), folder)]
        assert records == [k * k for k in range(5)]
        assert read_part(folder, Task("003", 1, 3), "square").item() == 9
        assert count_kept(folder.path) == 5
        folder.discard()
    assert not (tmp_path / "job").exists()
    assert count_kept(tmp_path / "job") == 0


def test_parts_that_others_could_have_put_there_are_not_taken_over(tmp_path: Path) -> None:
    with open_job(tmp_path / "job", JOB) as folder:
        run_job(some(1), folder)
        assert folder.path.stat().st_mode & 0o777 == 0o700
    (tmp_path / "job").chmod(0o777)
    with pytest.raises(UsageError, match=r"job can be written by everybody; remove it, or name"):
        open_job(tmp_path / "job", JOB)
    (tmp_path / "job").chmod(0o755)  # as earlier versions made it
    with open_job(tmp_path / "job", JOB) as folder:
        assert list(folder.done()) == ["000"]


@pytest.mark.parametrize("stop", range(5))
def test_only_what_is_missing_is_done(tmp_path: Path, stop: int) -> None:
    with pytest.raises(KeyboardInterrupt), open_job(tmp_path / "job", JOB) as folder:
        run_job(some(5, Squares(stop=stop)), folder)
    assert (tmp_path / "job").exists() == (stop > 0)
    again = Squares()
    seen: list[Status] = []
    with open_job(tmp_path / "job", JOB) as folder:
        assert list(run_job(some(5, again), folder, seen.append))[-1]["square"] == 16
    assert again.done == list(range(stop, 5))
    assert seen[0].resumed == seen[0].done == stop
    assert seen[-1].done == 5


def test_what_cannot_be_saved_ends_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No space left"), open_job(tmp_path / "j", JOB) as folder:
        run_job(some(5, Squares(fail=2)), folder)
    assert sorted(p.name for p in (tmp_path / "j" / "tasks").iterdir()) == ["000", "001"]


# ---- the folder ---------------------------------------------------------------------------------


def test_only_one_works_in_a_folder(tmp_path: Path) -> None:
    with open_job(tmp_path / "job", JOB) as folder:
        run_job(some(1), folder)
        with pytest.raises(UnfinishedError, match="another hpabatch is working on the same output"):
            open_job(tmp_path / "job", JOB)
    open_job(tmp_path / "job", JOB).__exit__(None, None, None)


def left(path: Path) -> None:
    with open_job(path, JOB) as folder:
        run_job(some(2), folder)


@pytest.mark.parametrize(
    ("identity", "told"),
    [
        (Identity("x", {"delay": "5 ms"}), "delay was 0 ms, is 5 ms"),
        (Identity("x", {}), "delay was 0 ms, is not set"),
        (Identity("x", {"delay": "0 ms", "sha256:pods": "1"}), "table pods was another"),
        (Identity("x", {"delay": "0 ms"}), "other HPAs"),
    ],
)
def test_another_job_is_told_apart(tmp_path: Path, identity: Identity, told: str) -> None:
    left(tmp_path / "job")
    with pytest.raises(UsageError, match=told):
        open_job(tmp_path / "job", identity)
    with open_job(tmp_path / "job", identity, restart=True) as folder:
        assert list(folder.done()) == []


@pytest.mark.parametrize("text", [None, "", "{", "[]", "null"])
def test_a_job_that_is_not_known_is_begun_anew(tmp_path: Path, text: str | None) -> None:
    """None: its removal was interrupted."""
    left(tmp_path / "job")
    (tmp_path / "job" / "job.json").unlink()
    if text is not None:
        (tmp_path / "job" / "job.json").write_text(text)
    with open_job(tmp_path / "job", JOB) as folder:
        assert list(folder.done()) == []


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("mine")
    with pytest.raises(UsageError, match="File exists"):
        open_job(tmp_path / "job", JOB)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").touch()
    with pytest.raises(UsageError, match="holds files that are not of hpabatch"):
        open_job(tmp_path / "other", JOB, restart=True)


def test_a_task_that_raises_leaves_nothing(tmp_path: Path) -> None:
    with open_job(tmp_path / "job", JOB) as folder:
        with suppress(ZeroDivisionError), folder.task("a") as (place, _):
            (place / "half").touch()
            raise ZeroDivisionError
        assert not list((tmp_path / "job" / "tasks").iterdir())
        with folder.task("a") as (place, record):
            record["it"] = 1
        assert list(folder.done()) == ["a"]
        assert folder.record("a") == {"it": 1}
        with folder.task("a") as (place, record):
            record["it"] = 2
        assert folder.record("a") == {"it": 1}  # two workers may have had it


def numbered(count: int) -> Tasks:
    return Tasks(lambda k: Task(f"{k:06}", 1, k, f"{k // 4:06}"), range(count))


def test_records_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    with open_job(tmp_path / "job", JOB) as folder:
        records = run_job(some(5), folder)
        (folder.place("003") / "square.arrow").unlink()
        assert [next(records)["square"] for _ in range(3)] == [0, 1, 4]
        with pytest.raises(UsageError, match=r"finished parts have been removed meanwhile \(003\)"):
            list(records)


def test_a_job_keeps_nothing_of_its_tasks(tmp_path: Path) -> None:
    def text_of(result: int) -> Part:
        return {}, {"text": f"{result:05}" * 200}

    def peak(count: int) -> int:
        with open_job(tmp_path / f"job-{count}", JOB) as folder:
            tracemalloc.start()
            nothing = Job(numbered(count), iter, lambda: JOB, "", {}, part_of=text_of)
            found = run_job(nothing, folder)
            assert sum(1 for _ in found) == count
            held = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            folder.discard()
        return held

    peak(10)
    few = peak(100)
    # (of two, because the table of interned names grows now and then, by some megabytes at once)
    assert min(peak(300), peak(300)) - few < 200 * 40


def test_another_format_is_told_apart(tmp_path: Path) -> None:
    left(tmp_path / "job")
    file = tmp_path / "job" / "job.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 0, "fingerprint": "x"}))
    with pytest.raises(UsageError, match="of another version of hpabatch"):
        open_job(tmp_path / "job", JOB)
