"""A replay to disk: wherever it ends, the next run goes on, and the bytes are the same."""

from __future__ import annotations

import errno
import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hpabatch.engine.fleet import plan as planning
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.replay.request import ReplayToRequest
from hpabatch.engine.replay.run import replay_history
from hpabatch.engine.replay.score import score
from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.jobs.loop import Status
from hpabatch.jobs.parquet import EVIDENCE_KEY
from hpabatch.jobs.publish import Destination, is_result_folder
from hpabatch.jobs.replay import NothingReplayedError, ReplayDone, ReplayJob, replay_to_disk
from tests.cli.histories import drop_rows, edit, small, table
from tests.engine.made import summarize

SHARDS = 5
JOB = ".decisions.parquet.job"


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("job") / "history")


@pytest.fixture(autouse=True)
def one_hpa_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SHARD_DECISIONS", 1)


def plan(history: Path, where: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
         **parameters: Any) -> ReplayPlan:  # fmt: skip
    return plan_replay(
        open_history(history), ReplayParameters(k8s="1.38", **parameters), None, where
    )


def run(history: Path, out: Path, *, folder: bool = False, **more: Any) -> tuple[ReplayDone, int]:
    """Replay; return what it came to and how many tasks were resumed."""
    seen: list[Status] = []
    request = ReplayToRequest(**more)
    job = ReplayJob(plan(history), Destination(out, folder), request=request)
    return replay_to_disk(job, seen.append), seen[0].resumed


@pytest.fixture(scope="module")
def whole(history: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the file of a replay that nobody interrupts."""
    out = tmp_path_factory.mktemp("whole") / "decisions.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "SHARD_DECISIONS", 1)
        run(history, out)
    return out.read_bytes()


def stop_at(
    patch: pytest.MonkeyPatch, place: str, at: int, error: BaseException | None = None
) -> None:
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
        raise error or Killed

    patch.setattr(owner, name, stop)


def stopped(history: Path, out: Path, place: str, at: int, **more: Any) -> None:
    """Leave what a run leaves that ends at some place."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, place, at)
        with pytest.raises(Killed):
            run(history, out, **more)


ENDS = {
    "the first part": ("jobs.replay_parts:write_parquet", 1),
    "a summary": ("jobs.replay_parts:write_frame", 4),
    "flushing the job": ("jobs.folder:flush", 1),
    "flushing another": ("jobs.folder:flush", 9),
    "deciding": ("engine.replay.run:run_step", 6),
    "copying": ("jobs.joining:_copy", 3),
    "before it is in place": ("history.atomic:flush", 1),
    "when it is in place": ("history.atomic:flush", 2),
}


@pytest.mark.parametrize("where", ENDS)
def test_it_goes_on_wherever_it_ended(
    tmp_path: Path, history: Path, whole: bytes, where: str
) -> None:
    out = tmp_path / "decisions.parquet"
    stopped(history, out, *ENDS[where])
    assert not out.exists() or out.read_bytes() == whole
    job = tmp_path / JOB / "tasks"
    kept = len(list(job.iterdir())) if job.exists() else 0
    done, resumed = run(history, out)
    assert resumed == kept
    assert out.read_bytes() == whole
    assert os.listdir(tmp_path) == [out.name]
    assert done.summary.height == SHARDS


def test_the_result_is_that_of_a_replay_in_memory(tmp_path: Path, history: Path) -> None:
    out = tmp_path / "decisions.parquet"
    done, _ = run(history, out, score=True)
    found = replay_history(open_history(history), ReplayParameters(k8s="1.38"))
    decisions = found.decisions.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
    assert_frame_equal(pl.read_parquet(out), decisions)
    assert_frame_equal(done.summary, summarize(found.decisions, found.hpas))
    assert done.evidence == found.evidence
    assert (done.skipped, done.warnings) == (found.skipped, found.warnings)
    assert json.loads(pl.read_parquet_metadata(out)[EVIDENCE_KEY]) == found.evidence
    assert done.score is not None
    assert_frame_equal(done.score.hpas, score(found.decisions, found.hpas).hpas)


def test_sharding_does_not_change_the_rows(
    tmp_path: Path, history: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "SHARD_DECISIONS", 200)
    run(history, tmp_path / "other.parquet")
    (tmp_path / "whole.parquet").write_bytes(whole)
    frames = [pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("other", "whole")]
    assert_frame_equal(*frames)


def test_progress(tmp_path: Path, history: Path) -> None:
    seen: list[Status] = []
    job = ReplayJob(plan(history), Destination(tmp_path / "d.parquet"))
    replay_to_disk(job, seen.append)
    assert [status.done for status in seen] == list(range(SHARDS + 1))
    assert seen[-1].done_weight == seen[-1].weight == 400
    assert (seen[0].rate, seen[0].seconds_left) == (None, None)
    assert (seen[-1].rate or 0) > 0
    assert seen[-1].seconds_left == 0


def test_without_a_destination_only_summaries_are_kept(
    tmp_path: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = run(history, tmp_path / "d.parquet", score=True)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    seen: list[list[str]] = []

    def look(status: Status) -> None:
        seen.append(sorted({file.name for file in temporary.rglob("*.parquet")}))
        assert any(temporary.iterdir())

    job = ReplayJob(plan(history), None, request=ReplayToRequest(score=True))
    done = replay_to_disk(job, look)
    assert_frame_equal(done.summary, kept.summary)
    assert done.score is not None
    assert kept.score is not None
    assert_frame_equal(done.score.hpas, kept.score.hpas)
    assert seen
    assert not any(seen)  # no decisions, at any time
    assert not any(temporary.iterdir())


# ---- other jobs ---------------------------------------------------------------------------------

A_PART = ("jobs.replay_parts:write_parquet", 4)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"max_age_ms": 180_000}, r"max_age was 150000 ms \(estimated\), is 180000 ms \(given\)"),
        ({"events": "decided"}, "events was recorded, is decided"),
        ({"where": lambda f: f.filter(pl.col("hpa") != "etl")}, "HPAs was 5, is 4"),
        ({"where": lambda f: f}, None),
    ],
)
def test_another_replay_does_not_resume(
    tmp_path: Path, history: Path, more: dict[str, Any], told: str | None
) -> None:
    out = tmp_path / "decisions.parquet"
    stopped(history, out, *A_PART)
    job = ReplayJob(plan(history, **more), Destination(out))
    if told is None:
        replay_to_disk(job)
        return
    with pytest.raises(UsageError, match=f"{told}.*discard it with --restart"):
        replay_to_disk(job)
    assert (tmp_path / JOB).exists()
    seen: list[Status] = []
    replay_to_disk(
        ReplayJob(job.plan, Destination(out), request=ReplayToRequest(restart=True)), seen.append
    )
    assert seen[0].resumed == 0
    assert os.listdir(tmp_path) == [out.name]


def test_other_options_do_not_resume(tmp_path: Path, history: Path) -> None:
    out = tmp_path / "decisions.parquet"
    stopped(history, out, *A_PART)
    with pytest.raises(UsageError, match="score was False, is True"):
        run(history, out, score=True)


def test_another_history_does_not_resume(tmp_path: Path) -> None:
    history, out = small(tmp_path / "history"), tmp_path / "out" / "decisions.parquet"
    stopped(history, out, *A_PART)
    edit(history, "pod_metrics", cpu_milli=pl.col("cpu_milli") + 1)
    with pytest.raises(UsageError, match="table pod_metrics was another"):
        run(history, out)


def test_another_version_does_not_resume(
    tmp_path: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "decisions.parquet"
    stopped(history, out, *A_PART)
    monkeypatch.setattr("hpabatch.jobs.folder.code_digest", lambda: "edited")
    with pytest.raises(UsageError, match="an unfinished run of another command or history"):
        run(history, out)


def test_a_history_that_breaks_leaves_nothing(
    tmp_path: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, "engine.replay.run:run_step", 7, HistoryError("a page is damaged"))
    with pytest.raises(HistoryError, match="a page is damaged"):
        run(history, tmp_path / "decisions.parquet")
    assert os.listdir(tmp_path) == []


def test_damaged_parts_are_made_again(tmp_path: Path, history: Path, whole: bytes) -> None:
    out = tmp_path / "decisions.parquet"
    stopped(history, out, "jobs.publish:join_parquet", 1)
    tasks = sorted((tmp_path / JOB / "tasks").iterdir())
    (tasks[0] / "decisions.parquet").write_bytes(b"short")
    (tasks[1] / "summary.arrow").unlink()
    (tasks[2] / "record.json").write_text("{")
    (tasks[3] / "record.json").write_text('{"files": {}, "record": []}')
    assert run(history, out)[1] == 1
    assert out.read_bytes() == whole


def test_nothing_to_replay(tmp_path: Path) -> None:
    history = small(tmp_path / "history")
    edit(history, "scales", target=pl.lit("other"))
    with pytest.raises(NothingReplayedError, match="nothing is written; the reasons are") as told:
        run(history, tmp_path / "out" / "d.parquet")
    assert len(told.value.skipped) == SHARDS
    assert not list((tmp_path / "out").glob("*"))


# ---- disks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["jobs.replay_parts:write_parquet", "jobs.joining:_copy"])
def test_a_full_disk_keeps_what_is_done(
    tmp_path: Path, history: Path, whole: bytes, place: str
) -> None:
    out = tmp_path / "decisions.parquet"
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, place, 3, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        with pytest.raises(UsageError) as told:
            run(history, out)
    assert "No space left on device; choose another place or make room there" in str(told.value)
    assert str(told.value).endswith("the same command goes on from there")
    assert run(history, out)[1] >= 2
    assert out.read_bytes() == whole


def test_a_disk_that_clearly_is_too_small(
    tmp_path: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("hpabatch.jobs.replay.shutil.disk_usage", lambda _: usage)
    with pytest.raises(UsageError, match=r"about 400 decisions take at least .* make room there"):
        run(history, tmp_path / "d.parquet")
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written(tmp_path: Path, history: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*: Not a directory"):
        run(history, tmp_path / "file" / "d.parquet")


# ---- folders ------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_folder_of_parts(tmp_path: Path, history: Path, whole: bytes) -> None:
    out = tmp_path / "decisions"
    done, _ = run(history, out, folder=True)
    names = [f"part-{k:05}.parquet" for k in range(SHARDS)]
    assert sorted(contents(out)) == ["evidence.json", *names]
    found = json.loads((out / "evidence.json").read_text())
    assert found == {EVIDENCE_KEY: done.evidence, "parts": names}
    (tmp_path / "whole.parquet").write_bytes(whole)
    assert_frame_equal(
        pl.read_parquet(out / "*.parquet"), pl.read_parquet(tmp_path / "whole.parquet")
    )
    assert is_result_folder(out)


def test_an_older_folder_is_replaced_whole(tmp_path: Path, history: Path) -> None:
    out = tmp_path / "decisions"
    out.mkdir()
    (out / "part-00009.parquet").touch()
    names = {EVIDENCE_KEY: {}, "parts": ["part-00009.parquet"]}
    (out / "evidence.json").write_text(json.dumps(names))
    stopped(history, out, *A_PART, folder=True)
    assert sorted(contents(out)) == ["evidence.json", "part-00009.parquet"]
    run(history, out, folder=True)
    assert "part-00009.parquet" not in contents(out)
    assert os.listdir(tmp_path) == ["decisions"]


FOLDER_ENDS = [
    ("jobs.publish:_link", 2),
    ("history.atomic:flush", SHARDS + 3),
    ("jobs.publish:is_result_folder", 1),
]


@pytest.mark.parametrize(("name", "at"), FOLDER_ENDS)
def test_a_folder_goes_on_wherever_it_ended(
    tmp_path: Path, history: Path, name: str, at: int
) -> None:
    out = tmp_path / "decisions"
    run(history, out, folder=True)
    before = contents(out)
    stopped(history, out, name, at, folder=True)
    assert run(history, out, folder=True)[1] == SHARDS
    assert contents(out) == before
    assert os.listdir(tmp_path) == ["decisions"]


def test_a_folder_that_others_use_meanwhile(
    tmp_path: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "decisions"
    out.mkdir()
    (out / "notes.txt").touch()
    with pytest.raises(UsageError, match="has got files of others; move them away"):
        run(history, out, folder=True)
    assert sorted(contents(out)) == ["notes.txt"]


def test_where_links_are_not_possible(
    tmp_path: Path, history: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    run(history, tmp_path / "decisions", folder=True)
    (tmp_path / "whole.parquet").write_bytes(whole)
    frames = [pl.read_parquet(tmp_path / name) for name in ("decisions/*.parquet", "whole.parquet")]
    assert_frame_equal(*frames)


# ---- histories that are odd ---------------------------------------------------------------------


def test_a_pod_that_is_not_known(tmp_path: Path) -> None:
    history = small(tmp_path / "history")
    pods = table(history, "pod_metrics").filter(pl.col("pod").str.starts_with("worker"))["pod"]
    drop_rows(history, "pods", pl.col("pod") == pods.sort()[0])
    out = tmp_path / "out" / "d.parquet"
    stopped(history, out, *A_PART)
    done, resumed = run(history, out)
    assert resumed == 3
    assert sum("of pods that the pods table does not hold" in w for w in done.warnings)
    again, _ = run(history, tmp_path / "out" / "again.parquet")
    assert again.warnings == done.warnings


# ---- elsewhere ----------------------------------------------------------------------------------
