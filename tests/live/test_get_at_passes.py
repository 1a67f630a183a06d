"""`get` at the passes of a recorded loop: what the loop itself decided in its last one."""

from __future__ import annotations

from pathlib import Path

import pytest

import hpabatch
from hpabatch.layout.codes import CONDITIONS
from tests.effort import effort
from tests.live.recorded import Recorded


@pytest.mark.parametrize("seed", range(effort(1)))
def test_get_shows_the_decisions_of_the_last_pass(seed: int, tmp_path: Path) -> None:
    recorded = Recorded(4000 + seed, "1.37", tmp_path / "history")
    for _ in range(20):
        recorded.one_pass()
    recorded.stop()
    last = max(key[0] for key in recorded.said)
    expected = {key[1:]: said for key, said in recorded.said.items() if key[0] == last}
    found = hpabatch.open(tmp_path / "history").get(instants="passes")
    shown = {(h.namespace, h.name): h.status for h in found.documents}
    both = expected.keys() & shown.keys()
    assert both
    for key in both:
        said, status = expected[key], shown[key]
        assert (status.desired_replicas, status.current_replicas) == (
            said["desired"], said["current"],
        )  # fmt: skip
        codes_said = [said[f"condition_{k}"] for k in range(4) if said[f"condition_{k}"]]
        for condition, code in zip(status.conditions, codes_said, strict=True):
            if code in CONDITIONS:  # others were there when the HPA was first seen
                assert condition.reason == CONDITIONS[code].reason
