"""The recorder among kills, full disks, slow stores and second recorders."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hpabatch.cluster.objects.rows import Outcome
from hpabatch.cluster.objects.types import (
    Change,
    ExternalMetricKey,
    PodMetricKey,
    PodSample,
    Response,
    Responses,
    SeriesSample,
)
from hpabatch.errors import UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.store.storage import LocalStorage
from hpabatch.live.record.lease import EXPIRES_S, RENEW_S, ObjectLease
from hpabatch.live.record.recorder import Recorder
from hpabatch.live.record.segments import Columns, Segment, Upkeep
from tests.effort import effort
from tests.live.cluster_game import CLUSTER, Game, Shown, compare
from tests.live.documents import START_MS
from tests.live.passes.test_decide import contained
from tests.live.record.test_recorder import check_clean, check_pictures, recorder_of


class Nobody:
    """Takes what a recorder takes, and writes nothing."""

    def apply(self, *args: object) -> None:
        return None

    observe = pass_done = apply


def played(seed: int, passes: int) -> Game:
    """Return the game of a recording process after so many passes."""
    game = Game(seed)
    game.stir(20)
    for number in range(passes):
        game.play(Nobody(), started=number == 0)  # type: ignore[arg-type]
        game.stir(4)
    return game


def start_process(folder: Path, seed: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.live.recording_process", str(folder), str(seed), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("seed", range(effort(1)))
def test_a_kill_loses_at_most_the_open_segment(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    with start_process(tmp_path, seed) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(dice.randrange(3, 12))]
        time.sleep(dice.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        said += [int(line) for line in process.stdout]
    check_clean(tmp_path)
    shown = Shown(open_history(tmp_path))
    stored = [row["ts"] for row in shown.tables["passes"]]
    assert stored[: len(said)] == said
    assert len(stored) - len(said) in (0, 1)
    game = played(seed, len(stored))
    check_pictures(tmp_path, game)
    # The next one goes on, though nothing was closed.
    game.changes.clear()
    game.now_ms += 30_000
    recorder = recorder_of(tmp_path, game)
    game.list_all()
    for number in range(3):
        game.play(recorder, started=number == 0)
        game.stir(5)
    assert recorder.close()
    check_clean(tmp_path)
    check_pictures(tmp_path, game)


def test_a_full_disk_delays_rows_and_loses_none(tmp_path: Path) -> None:
    with start_process(tmp_path, 3, "600") as process:
        assert process.stdout is not None
        lines = [line.strip() for line in process.stdout]
    assert process.returncode == 0
    said = [line for line in lines if line.startswith("said")]
    assert len(said) == 2, lines
    assert "cannot be written" in said[0]
    assert "File too large" in said[0]
    assert said[1] == "said recording: rows are written again"
    assert lines[-1] == "closed True"
    check_clean(tmp_path)
    check_pictures(tmp_path, played(3, 15))


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


@pytest.mark.parametrize("seed", range(effort(1)))
def test_a_store_that_fails_for_long_leaves_a_gap_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    game, said, dice = Game(seed), list[str](), random.Random(seed)
    recorder = recorder_of(tmp_path, game, limit_bytes=20_000, say=said.append)
    store = Broken(recorder, monkeypatch)
    game.stir(20)
    most = 0
    for number in range(36):
        store.broken = 6 <= number < 28
        game.play(recorder, started=number == 0)
        game.stir(dice.randrange(8))
        most = max(most, recorder.figures.bytes_waiting)
        if number == 27:
            assert recorder.figures.rows_lost > 0  # told while it goes on
        if not store.broken:
            assert recorder.flush(30)
        elif number == 6:
            until = time.monotonic() + 60
            assert not recorder.flush(0.5)
            while not recorder.figures.trouble:
                assert time.monotonic() < until
                assert not recorder.flush(0.5)
    assert recorder.close()
    assert 20_000 < most < 40_000
    figures = recorder.figures
    assert figures.rows_lost > 0
    assert figures.rows_refused == 0
    assert sum("cannot be written" in line for line in said) == 1
    assert sum("rows are dropped" in line for line in said) == 1
    check_clean(tmp_path)
    shown = Shown(open_history(tmp_path))
    (gap,) = [row for row in shown.tables["provenance"] if row["subject"] == "passes"]
    assert gap["method"] == "absent"
    assert gap["detail"] == f"lost {figures.rows_lost} rows: no space left on device"
    stored = {row["ts"] for row in shown.tables["passes"]}
    lost = [one.now_ms for one in game.pictures if one.now_ms not in stored]
    assert lost
    assert all(gap["valid_from"] <= ms < gap["valid_to"] for ms in lost)
    for picture in game.pictures:
        if picture.now_ms in stored:
            compare(picture, shown.at(picture.now_ms, picture.started))


def test_a_second_recorder_of_a_cluster_is_refused(tmp_path: Path) -> None:
    game = Game(1)
    recorder = recorder_of(tmp_path, game)
    with pytest.raises(UsageError, match="records cluster demo there already"):
        recorder_of(tmp_path, game)
    other = Recorder(tmp_path, "other", clock=lambda: game.now_ms)
    assert other.close()
    game.play(recorder, started=True)
    assert recorder.close()
    recorder_of(tmp_path, game).close()


def test_a_lease_is_one_holders_until_it_runs_out(tmp_path: Path) -> None:
    storage, now = LocalStorage(tmp_path), [1000.0]

    def take(owner: str) -> ObjectLease:
        return ObjectLease(storage, CLUSTER, clock_s=lambda: now[0], owner=owner)

    first = take("a:1")
    for _ in range(20):
        now[0] += RENEW_S
        first.renew()
        with pytest.raises(UsageError, match=r"a:1 records cluster demo .* try again in 120 s"):
            take("b:1")
    assert len(storage.names("")) == 1
    now[0] += EXPIRES_S + 1
    second = take("b:1")
    with pytest.raises(UsageError, match="b:1 records"):
        first.renew()
    second.release()
    take("a:2")


def test_a_store_of_later_than_now_is_refused(tmp_path: Path) -> None:
    game = Game(1)
    recorder = recorder_of(tmp_path, game)
    game.play(recorder, started=True)
    assert recorder.close()
    game.now_ms -= 3_600_000
    with pytest.raises(UsageError, match="correct the clock"):
        recorder_of(tmp_path, game)
    game.now_ms += 3_600_000
    assert recorder_of(tmp_path, game).close()


def test_a_row_that_is_refused_does_not_hold_up_the_others(tmp_path: Path) -> None:
    game, said = Game(1), list[str]()
    recorder = recorder_of(tmp_path, game, say=said.append)
    game.stir(10)
    game.play(recorder, started=True)
    add = recorder._segment.table("scales").add
    scale: dict[str, Any] = {
        "namespace": "shop",
        "target_kind": "Deployment",
        "target": "web",
        "selector": "",
    }
    add(**scale, ts=START_MS, spec_replicas=-5, status_replicas=0)
    add(**scale, ts=START_MS + 1, spec_replicas=5, status_replicas=0)
    assert recorder.close()
    assert recorder.figures.rows_refused == 1
    assert len(said) == 1
    assert "1 row refused" in said[0]
    check_pictures(tmp_path, game)
    rows = Shown(open_history(tmp_path)).tables["scales"]
    assert (START_MS + 1, 5) in [(row["ts"], row["spec_replicas"]) for row in rows]


def churn(recorder: Recorder, game: Game, number: int) -> None:
    """Let a pass come in which nearly everything is another than in the last one."""
    now = START_MS + number * 15_000
    game.now_ms = now - 1000
    game.changes.clear()
    for key in list(game.pods):
        game.world.remove_pod(key)
    game.stir(40)
    game.world.draw_answers()
    pods = PodMetricKey("shop", f"rps-{number // 50}", "")
    answers = Responses(
        usage=game.world.answers().usage,
        pods={pods: Response(now, tuple(PodSample(k[1], now, None, 1) for k in game.pods))},
        external={
            ExternalMetricKey("shop", "lag", ""): Response(
                now, tuple(SeriesSample(f"pod={number}-{k}", now, k) for k in range(5))
            )
        },
    )
    changes = [Change(c.kind, c.key, c.thing, min(c.seen_ms, now - 1)) for c in game.changes]
    recorder.apply(changes)
    recorder.observe(now, answers, {key: [Outcome("error", f"{now}", now)] for key in game.hpas})
    recorder.pass_done(now, number == 0)


def test_memory_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpabatch.live.record.lives.GONE_KEPT", 500)
    game = Game(11)
    recorder = recorder_of(tmp_path, game, upkeep=Upkeep(every_s=0))
    # What the store itself takes is not the question here.
    monkeypatch.setattr(recorder._writer, "submit", lambda segment: None)
    sizes = []
    for number in range(effort(1200)):
        churn(recorder, game, number)
        if number % 100 == 99:
            recorder._hand_over()
            streams = sum(len(one.streams) for one in recorder._samples._recorded.values())
            sizes.append(contained(recorder, set()) | {"streams": streams})
    assert recorder.close()
    # What nobody asked for is forgotten after an hour, which is 240 passes.
    for size in sizes[4:]:
        for name, count in size.items():
            most = max(one.get(name, 0) for one in sizes[2:4])
            assert count <= 1.2 * most + 60, (name, [one.get(name) for one in sizes])


def test_columns_know_null_from_numbers() -> None:
    segment = Segment("c")
    columns: Columns = segment.table("passes")
    columns.add(ts=START_MS, start=True, duration_ms=0)
    columns.add(ts=START_MS + 1, start=False, k8s="1.36", hpas=3)
    ((_, frame),) = segment.frames()
    assert frame["hpas"].to_list() == [None, 3]
    assert frame["duration_ms"].to_list() == [0, None]
    assert frame["k8s"].to_list() == [None, "1.36"]
