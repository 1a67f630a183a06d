"""The recorder into an object storage: the same rows, and one recorder at a time by a lease."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.store.verify import check_history
from hpabatch.live.record.recorder import Recorder
from hpabatch.live.record.segments import Upkeep
from tests.history.store.faulty import LOST, Faults, faulty
from tests.history.store.test_objects import bucket
from tests.live.cluster_game import CLUSTER, Game, Shown, compare

__all__ = ["bucket"]


def test_a_recording_goes_to_a_bucket(bucket: str) -> None:
    url, game = f"{bucket}/recorded", Game(4)
    for _ in range(2):
        recorder = Recorder(
            url,
            CLUSTER,
            clock=lambda: game.now_ms,
            segment_s=1e9,
            upkeep=Upkeep(every_s=0),
        )
        with pytest.raises(UsageError, match="records cluster demo there"):
            Recorder(url, CLUSTER, clock=lambda: game.now_ms)
        game.list_all()
        game.stir(10)
        for number in range(2):
            game.play(recorder, started=number == 0)
            game.stir(3)
            assert recorder.flush()
        assert recorder.close()
    history = open_history(url)
    assert check_history(history).is_empty()
    shown = Shown(history)
    for picture in game.pictures:
        compare(picture, shown.at(picture.now_ms, picture.started))


def test_a_recording_goes_on_after_a_fault(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other faults of a storage: tests/history/store."""
    url, game = f"{bucket}/failing", Game(4)
    faults = Faults("", "PUT", "_log/", count=0)
    with faulty(os.environ["AWS_ENDPOINT_URL"], faults) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        recorder = Recorder(
            url, CLUSTER, clock=lambda: game.now_ms, segment_s=1e9, upkeep=Upkeep(every_s=0)
        )
        game.list_all()
        game.stir(10)
        for number in range(3):
            game.play(recorder, started=number == 0)
            game.stir(3)
            faults.begin(LOST, count=1 if number == 1 else 0)
            recorder.flush()
        assert faults.met
        assert recorder.flush()
        assert recorder.close()
    monkeypatch.undo()
    history = open_history(url)
    assert check_history(history).is_empty()
    shown = Shown(history)
    for picture in game.pictures:
        compare(picture, shown.at(picture.now_ms, picture.started))


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        Recorder(tmp_path, CLUSTER)
