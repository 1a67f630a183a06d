"""The loop and its folder, with work of numbers; real jobs go on in test_resume.py."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import UsageError
from hpabatch.jobs.folder import Identity, open_job
from hpabatch.jobs.loop import Task, Tasks, run_job

JOB = Identity("abc", {"delay": "0 ms"})


class Squares:
    """Squares numbers."""

    def compute(self, tasks: Sequence[Task]) -> Iterator[int]:
        yield from (task.argument**2 for task in tasks)

    def save(self, result: int, place: Path) -> dict[str, Any]:
        (place / "square.txt").write_text(str(result))
        return {"square": result}


def tasks(count: int) -> list[Task]:
    return [Task(f"{k:03}", 10 + k, k) for k in range(count)]


def test_parts_that_others_could_have_put_there_are_not_taken_over(tmp_path: Path) -> None:
    with open_job(tmp_path / "job", JOB) as folder:
        run_job(tasks(1), Squares(), folder)
        assert folder.path.stat().st_mode & 0o777 == 0o700
    (tmp_path / "job").chmod(0o777)
    with pytest.raises(UsageError, match=r"job can be written by everybody; remove it, or name"):
        open_job(tmp_path / "job", JOB)
    (tmp_path / "job").chmod(0o755)  # as earlier versions made it
    with open_job(tmp_path / "job", JOB) as folder:
        assert list(folder.done()) == ["000"]


# ---- the folder ---------------------------------------------------------------------------------


def left(path: Path) -> None:
    with open_job(path, JOB) as folder:
        run_job(tasks(2), Squares(), folder)


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
        records = run_job(tasks(5), Squares(), folder)
        (folder.place("003") / "square.txt").unlink()
        assert [next(records) for _ in range(3)] == [{"square": 0}, {"square": 1}, {"square": 4}]
        with pytest.raises(UsageError, match=r"finished parts have been removed meanwhile \(003\)"):
            list(records)


def test_a_job_keeps_nothing_of_its_tasks(tmp_path: Path) -> None:
    class Nothing:
        def compute(self, tasks: Sequence[Task]) -> Iterator[int]:
            yield from (task.argument for task in tasks)

        def save(self, result: int, place: Path) -> dict[str, Any]:
            return {"text": f"{result:05}" * 200}

    def peak(count: int) -> int:
        with open_job(tmp_path / f"job-{count}", JOB) as folder:
            tracemalloc.start()
            found = run_job(numbered(count), Nothing(), folder)
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
