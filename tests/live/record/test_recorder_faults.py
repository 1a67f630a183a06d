"""The recorder among kills, full disks, slow stores and second recorders."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.errors import UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.store.storage import LocalStorage
from hpabatch.live.record.recorder import FullError, Recorder
from hpabatch.live.record.segments import EXPIRES_S, RENEW_S, Columns, ObjectLease, Segment
from tests.effort import effort
from tests.live.documents import START_MS
from tests.live.recorded import CLUSTER, K8S, Recorded, flushed


def played(seed: int, passes: int, folder: Path) -> Recorded:
    """Return a recording process after so many passes, which has recorded elsewhere."""
    found = Recorded(seed, K8S, folder)
    for _ in range(passes):
        found.one_pass()
    found.stop()
    return found


def start_process(folder: Path, seed: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.live.recording_process", str(folder), str(seed), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("seed", range(effort(1)))
def test_a_kill_loses_at_most_the_open_segment(tmp_path: Path, seed: int) -> None:
    dice, folder = random.Random(seed), tmp_path / "killed"
    with start_process(folder, seed) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(dice.randrange(3, 12))]
        time.sleep(dice.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        said += [int(line) for line in process.stdout]
    stored = open_history(folder).read("passes")["ts"].to_physical().to_list()
    assert stored[: len(said)] == said
    assert len(stored) - len(said) in (0, 1)
    recorded = played(seed, len(stored), tmp_path / "again")
    recorded.folder = folder
    recorded.compare()
    # The next one goes on, though nothing was closed.
    recorded.relist()
    recorded.start()
    for _ in range(3):
        recorded.one_pass()
    recorded.stop()
    assert recorded.compare() > 3
    recorded.check_end()


def test_a_full_disk_delays_rows_and_loses_none(tmp_path: Path) -> None:
    folder = tmp_path / "full"
    with start_process(folder, 3, "600") as process:
        assert process.stdout is not None
        lines = [line.strip() for line in process.stdout]
    assert process.returncode == 0
    said = [line for line in lines if line.startswith("said")]
    assert len(said) == 2, lines
    assert "cannot be written" in said[0]
    assert "File too large" in said[0]
    assert said[1] == "said recording: rows are written again"
    assert lines[-1] == "closed True"
    recorded = played(3, 15, tmp_path / "again")
    recorded.folder = folder
    assert recorded.compare() > 15


class Broken:
    """A store's commits fail while `broken`."""

    def __init__(self, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
        store = recorder._writer._store
        commit = store.commit
        self.broken = False

        def maybe(*entry: Any) -> None:
            if self.broken:
                raise UsageError("no space left on device")
            commit(*entry)

        monkeypatch.setattr(store, "commit", maybe)


def test_a_store_that_fails_for_long_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is started after that goes on, and tells the gap."""
    recorded = Recorded(1, K8S, tmp_path, limit_bytes=20_000)
    store = Broken(recorded.recorder, monkeypatch)
    for _ in range(3):
        recorded.one_pass()
        assert flushed(recorded.recorder, 30)
    stored = list(recorded.passes)
    store.broken = True

    def passes() -> None:
        for _ in range(40):
            recorded.one_pass()
            flushed(recorded.recorder, 0.1)

    with pytest.raises(FullError, match="no space left on device; correct that"):
        passes()
    assert recorded.recorder.figures.bytes_waiting < 60_000
    assert not recorded.recorder.close(0.1)
    recorded.relist()
    recorded.start()
    for _ in range(3):
        recorded.one_pass()
        assert flushed(recorded.recorder, 30)
    recorded.stop()
    history = open_history(tmp_path)
    gaps = history.read("provenance").filter(pl.col("subject") == "passes")
    (gap,) = gaps.with_columns(pl.col("valid_from", "valid_to").to_physical()).rows(named=True)
    assert (gap["method"], gap["valid_from"]) == ("absent", stored[-1] + 1)
    there = history.read("passes")["ts"].to_physical().to_list()
    assert (there[: len(stored)], len(there)) == (stored, len(stored) + 3)
    assert all(not gap["valid_from"] <= ms < gap["valid_to"] for ms in there)
    recorded.check_end()


def test_a_second_recorder_of_a_cluster_is_refused(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, CLUSTER)
    with pytest.raises(UsageError, match="records cluster c there already"):
        Recorder(tmp_path, CLUSTER)
    assert Recorder(tmp_path, "other").close()
    assert recorder.close()
    Recorder(tmp_path, CLUSTER).close()


def test_a_lease_is_one_holders_until_it_runs_out(tmp_path: Path) -> None:
    storage, now = LocalStorage(tmp_path), [1000.0]

    def take(owner: str) -> ObjectLease:
        return ObjectLease(storage, CLUSTER, clock_s=lambda: now[0], owner=owner)

    first = take("a:1")
    for _ in range(20):
        now[0] += RENEW_S
        first.renew()
        with pytest.raises(UsageError, match=r"a:1 records cluster c .* try again in 120 s"):
            take("b:1")
    assert len(storage.names("")) == 1
    now[0] += EXPIRES_S + 1
    second = take("b:1")
    with pytest.raises(UsageError, match="b:1 records"):
        first.renew()
    second.release()
    take("a:2")


def test_a_store_of_later_than_now_is_refused(tmp_path: Path) -> None:
    recorded = played(1, 1, tmp_path)
    recorded.world.now_ms -= 3_600_000
    with pytest.raises(UsageError, match="correct the clock"):
        recorded.start()
    recorded.world.now_ms += 3_600_000
    recorded.start()
    recorded.stop()


def test_a_row_that_is_refused_does_not_hold_up_the_others(tmp_path: Path) -> None:
    said = list[str]()
    recorded = Recorded(1, K8S, tmp_path, say=said.append)
    recorded.one_pass()
    add = recorded.recorder._rows.segment.table("scales").add
    scale: dict[str, Any] = {
        "namespace": "shop", "target_kind": "Deployment", "target": "other", "selector": "",
    }  # fmt: skip
    add(**scale, ts=START_MS, spec_replicas=-5, status_replicas=0)
    add(**scale, ts=START_MS + 1, spec_replicas=5, status_replicas=0)
    recorded.stop()
    assert recorded.recorder.figures.rows_refused == 1
    assert len(said) == 1
    assert "1 row refused" in said[0]
    assert recorded.compare() > 0
    rows = open_history(tmp_path).read("scales").filter(pl.col("target") == "other")
    assert rows["spec_replicas"].to_list() == [5]


def test_columns_know_null_from_numbers() -> None:
    segment = Segment("c")
    columns: Columns = segment.table("passes")
    columns.add(ts=START_MS, start=True, duration_ms=0)
    columns.add(ts=START_MS + 1, start=False, k8s="1.36", hpas=3)
    ((_, frame),) = segment.frames()
    assert frame["hpas"].to_list() == [None, 3]
    assert frame["duration_ms"].to_list() == [0, None]
    assert frame["k8s"].to_list() == [None, "1.36"]
