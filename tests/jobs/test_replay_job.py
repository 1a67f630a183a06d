"""A replay to disk: wherever it ends, the next run goes on, and the bytes are the same."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hpabatch.engine.fleet import plan as planning
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import ReplayPlan, plan_replay
from hpabatch.engine.replay.request import ReplayToRequest
from hpabatch.engine.replay.score import score
from hpabatch.history.reader import open_history
from hpabatch.jobs.job import Status
from hpabatch.jobs.parquet import EVIDENCE_KEY
from hpabatch.jobs.publish import Destination, is_result_folder
from hpabatch.jobs.replay import NothingReplayedError, ReplayDone, ReplayJob, replay_to_disk
from tests.cli.histories import drop_rows, edit, small, table
from tests.engine.made import replay_history, summarize
from tests.jobs.test_resume import Killed, stop_at

SHARDS = 5
JOB = ".decisions.parquet.job"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("job") / "history")


@pytest.fixture(autouse=True)
def one_hpa_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SHARD_DECISIONS", 1)


def plan(history: Path) -> ReplayPlan:
    return plan_replay(open_history(history), ReplayParameters(k8s="1.38"))


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


def stopped(history: Path, out: Path, place: str, at: int, **more: Any) -> None:
    """Leave what a run leaves that ends at some place."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, place, at, Killed())
        with pytest.raises(Killed):
            run(history, out, **more)


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

A_PART = ("jobs.job:write_parquet", 4)


def test_damaged_parts_are_made_again(tmp_path: Path, history: Path, whole: bytes) -> None:
    out = tmp_path / "decisions.parquet"
    stopped(history, out, "jobs.joining:join_parquet", 1)
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
