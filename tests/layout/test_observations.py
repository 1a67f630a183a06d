"""Layouts of recorded observations: where cursors begin."""

from __future__ import annotations

import numpy as np

from hpabatch.layout.observations import (
    CURSOR_LAST_CLOCK,
    CURSOR_LENGTH,
    CURSOR_LIFE,
    CURSOR_TICK,
    CURSOR_VALUE,
    STEP,
    empty_steps,
    new_cursors,
)


def test_cursors_begin_at_their_lanes_own_ticks_and_values() -> None:
    cursors = new_cursors(np.array([0, 40]), np.array([7, 9]))
    expected = np.zeros((2, CURSOR_LENGTH), np.int64)
    expected[:, CURSOR_TICK], expected[:, CURSOR_VALUE] = [0, 40], [7, 9]
    expected[:, [CURSOR_LAST_CLOCK, CURSOR_LIFE]] = -1  # no instant had a spec yet
    np.testing.assert_array_equal(cursors, expected)
    assert cursors.dtype == np.int64
    assert cursors.flags.c_contiguous


def test_steps_are_records_by_name() -> None:
    steps = empty_steps(3)
    assert steps.dtype == STEP
    assert steps.seen_ms.tolist() == [0, 0, 0]
    assert empty_steps(0).size == 0
