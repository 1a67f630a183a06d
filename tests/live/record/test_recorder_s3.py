"""The recorder into an object storage: the same rows, and one recorder at a time by a lease."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.live.record.recorder import Recorder
from tests.history.store.faulty import LOST, Faults, faulty
from tests.history.store.test_objects import bucket
from tests.live.recorded import CLUSTER, K8S, Recorded, flushed

__all__ = ["bucket"]


def test_a_recording_goes_to_a_bucket(bucket: str) -> None:
    recorded = Recorded(4, K8S, f"{bucket}/recorded", compact_every_s=0)
    with pytest.raises(UsageError, match="records cluster c there"):
        Recorder(recorded.folder, CLUSTER, clock=lambda: recorded.world.now_ms)
    for run in range(2):
        for _ in range(2):
            recorded.one_pass()
            recorded.flush()
        recorded.stop()
        if run == 0:
            recorded.relist()
            recorded.start()
    assert recorded.compare() > 4


def test_a_recording_goes_on_after_a_fault(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other faults of a storage: tests/history/store."""
    faults = Faults("", "PUT", "_log/", count=0)
    with faulty(os.environ["AWS_ENDPOINT_URL"], faults) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        recorded = Recorded(4, K8S, f"{bucket}/failing", compact_every_s=0)
        for number in range(6):
            recorded.one_pass()
            faults.begin(LOST, count=1 if number == 1 else 0)
            flushed(recorded.recorder)
        assert faults.met
        recorded.flush()
        recorded.stop()
    monkeypatch.undo()
    assert recorded.compare() > 0


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        Recorder(tmp_path, CLUSTER)
