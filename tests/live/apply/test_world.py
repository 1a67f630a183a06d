"""Whatever happens to instances, network, clocks and objects: what must hold of every write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.live.apply.world import simulated

SEEDS = int(os.environ.get("HPABATCH_WORLDS", "60"))
TROUBLED_S, CALM_S = 900, 150


def live(seed: int, folder: Path) -> int:
    """Live through a world; return the number of its writes.

    Raises:
        BrokenRuleError: a write without the lease, beyond the policies, of no decision, or after
            the switch.
    """
    with simulated(seed, folder) as world:
        world.run(120)
        while world.now < TROUBLED_S:
            world.trouble()
            world.run(world.now + world.draw.expovariate(1 / 15))
        world.keep_two()
        world.switch(off=False)
        world.loss = world.slow = 0.0
        begun = len(world.writes)
        world.run(world.now + CALM_S)
        assert world.size == world.wanted or len(world.writes) > begun, "it goes on in the calm"
        return len(world.writes)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_must_hold_of_every_write(seed: int, tmp_path: Path) -> None:
    assert live(seed, tmp_path) > 0


@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        ("hpabatch.live.apply.lease._Sight.is_over", lambda *_: True),
        ("hpabatch.live.apply.ledger.Origins.recall", lambda *_: ""),
        ("hpabatch.live.apply.ledger.Ledger.add", lambda *_: ""),
        ("hpabatch.live.passes.lanes.Lanes.note_write", lambda *_: None),
        ("hpabatch.live.apply.guards._GO", ("", "yes")),
    ],
)
def test_a_fault_of_the_code_is_found(fault: str, broken: Any, tmp_path: Path) -> None:
    def is_found(seed: int) -> bool:
        (tmp_path / str(seed)).mkdir()
        try:
            live(seed, tmp_path / str(seed))
        except AssertionError:
            return True
        return False

    with mock.patch(fault, broken):
        assert any(map(is_found, range(40)))
