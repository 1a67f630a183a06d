"""Tests of measures of the recording, beside those of a simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hpabatch.engine.columns.recorded import ABOVE_MINUTES, RECORDED_MEASURES
from hpabatch.engine.fit.run import Recorded, fit
from hpabatch.model.plant import CEILINGS_PCT
from tests.engine.closed_loop import RECORDING, START, STEP_MS, Loop, usage_of
from tests.engine.fit.test_run import limits_of, loop_of

HOUR_MS = 3_600_000
HOURS = [k * HOUR_MS for k in range(6)]


def small() -> Recorded:
    """Return two hours of 3, one of 5 and three of 4 pods; a minute an hour is above levels."""
    return Recorded(
        size_ms=np.array([0, 2 * HOUR_MS, 3 * HOUR_MS]),
        size=np.array([3, 5, 4]),
        until_ms=6 * HOUR_MS,
        pods_ms=np.array([[0, 6 * HOUR_MS], [HOUR_MS, 1 << 60]]),
        starts_ms=np.array(HOURS),
        saturated=np.array([True, False, True, True, False, False]),
        above=np.array([0, 1, 2, 3, 4, 5], np.int8),
    )


def test_sums_of_a_time() -> None:
    found = small().between(HOUR_MS, 4 * HOUR_MS)
    assert tuple(found) == RECORDED_MEASURES
    assert found["replica_hours"] == pytest.approx(3 + 5 + 4)
    assert found["rescales"] == 2
    assert found["pod_hours"] == pytest.approx(3 + 3)
    assert found["saturated_minutes"] == 2
    assert [found[name] for name in ABOVE_MINUTES] == [3, 2, 1, 0, 0]


def test_parts_add_up() -> None:
    whole, parts = small().between(0, 6 * HOUR_MS), [small().between(a, a + HOUR_MS) for a in HOURS]
    for name in RECORDED_MEASURES:
        assert sum(part[name] or 0.0 for part in parts) == pytest.approx(whole[name]), name


def test_longer_samples_count_with_their_length() -> None:
    found = replace(small(), piece_ms=300_000).between(0, 6 * HOUR_MS)
    assert found["saturated_minutes"] == 15


def test_what_is_not_known_is_none() -> None:
    nothing = np.zeros(0, np.int64)
    found = Recorded(nothing, nothing, 0, np.zeros((0, 2), np.int64)).between(0, HOUR_MS)
    assert found == dict.fromkeys(RECORDED_MEASURES)


def test_a_fit_tells_what_was_recorded() -> None:
    """Usage of 20 minutes is at 2 cores, of the rest far below."""
    loop = loop_of()
    usage = np.full(loop.usage.size, 500.0)
    usage[400:480] = 2000.0
    observed = usage_of(Loop(loop.work, loop.ready, usage, loop.size))
    found = fit(observed, RECORDING).recorded
    assert found is not None
    told = found.between(START, START + usage.size * STEP_MS + HOUR_MS)
    assert told["saturated_minutes"] is None
    below = [2000 * pct / 100 < 2000 for pct in CEILINGS_PCT]
    assert [told[name] for name in ABOVE_MINUTES] == [20 if is_below else 0 for is_below in below]
    changes = np.flatnonzero(np.diff(loop.size)).size
    assert told["rescales"] == changes
    limited = fit(replace(observed, limits=limits_of(observed, 2000)), RECORDING).recorded
    assert limited is not None
    told = limited.between(START, START + usage.size * STEP_MS + HOUR_MS)
    assert told["saturated_minutes"] == 20
    assert told[ABOVE_MINUTES[0]] is None
