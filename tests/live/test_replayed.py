"""What a loop decided is decided again from what was recorded of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.effort import effort
from tests.live.recorded import Recorded

VERSIONS = ("1.20", "1.26", "1.33", "1.36", "1.37")


def compare(recorded: Recorded) -> int:
    """Compare every decision with its replay; return how many there were."""
    again, skipped = recorded.replayed()
    # A replay begins those anew with their last target, where the loop went on.
    moved = {(s.namespace, s.hpa) for s in skipped if "target was" in s.reason}
    compared = 0
    for key, said in recorded.said.items():
        if key[1:] not in moved:
            assert again.get(key) == said, (key, again.get(key), said)
            compared += 1
    assert not set(again) - set(recorded.said)
    return compared


@pytest.mark.parametrize("k8s", VERSIONS)
@pytest.mark.parametrize("seed", range(effort(3)))
def test_a_recorded_run_replays_to_the_same_decisions(seed: int, k8s: str, tmp_path: Path) -> None:
    recorded = Recorded(1000 + seed, k8s, tmp_path / "history", zero=seed % 3 == 2)
    for _ in range(40):
        recorded.one_pass()
    recorded.stop()
    assert compare(recorded) > 40


@pytest.mark.parametrize("k8s", VERSIONS)
@pytest.mark.parametrize("how", ["taken up", "anew", "killed"])
@pytest.mark.parametrize("seed", range(effort(1)))
def test_a_loop_that_was_started_again(seed: int, how: str, k8s: str, tmp_path: Path) -> None:
    recorded = Recorded(2000 + seed, k8s, tmp_path / "history", zero=seed % 3 == 2)
    state = tmp_path / "state.npz"
    for k in range(30):
        recorded.one_pass()
        if how == "killed" and k % 4 == 3:
            recorded.flush()
        if k % 10 == 9:
            recorded.decider.save(state, "test")
            (recorded.kill if how == "killed" else recorded.stop)()
            for _ in range(5):
                recorded.world.step()
            recorded.relist()
            recorded.start(state if how == "taken up" else None)
    recorded.stop()
    assert compare(recorded) > 40
