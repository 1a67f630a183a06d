"""Grouping pods: each branch of the order, both sides of each strict comparison, a partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.layout.switches import SUCCEEDED_PODS_IGNORED
from hpabatch.packing.texts import pod_flags
from hpabatch.rules.controller import Controller
from hpabatch.rules.pods import (
    group_pod,
    is_settled,
    is_unready_for_cpu,
)

MINUTE = 60_000
CONTROLLER = Controller(5 * MINUTE, 30_000, 5 * MINUTE, SUCCEEDED_PODS_IGNORED)
OLD_CONTROLLER = CONTROLLER._replace(switches=0)
NOW = 100 * MINUTE

PHASES = ["Pending", "Running", "Succeeded", "Failed", "Unknown", ""]
READY = [None, "True", "False", "Unknown", "Odd"]
flag_words = st.builds(
    pod_flags, st.sampled_from(PHASES), st.booleans(), st.booleans(), st.sampled_from(READY)
)
times = st.integers(NOW - 12 * MINUTE, NOW + MINUTE)


def flags(
    phase: str = "Running", ready: str | None = "True", deleting: bool = False, started: bool = True
) -> int:
    return pod_flags(phase, deleting, started, ready)


@given(flag_words, st.booleans(), st.booleans(), st.booleans())
def test_grouping_is_a_partition(
    word: int, has_sample: bool, is_cpu: bool, succeeded_ignored: bool
) -> None:
    controller = CONTROLLER if succeeded_ignored else OLD_CONTROLLER
    group = group_pod(word, has_sample, is_cpu, controller)
    phase = word & codes.PHASE_MASK
    gone = bool(word & codes.POD_DELETING) or phase == codes.PHASE_FAILED
    gone = gone or (phase == codes.PHASE_SUCCEEDED and succeeded_ignored)
    pending = phase == codes.PHASE_PENDING
    claims = {
        codes.GROUP_IGNORED: gone,
        codes.GROUP_UNREADY: not gone and pending,
        codes.GROUP_MISSING: not gone and not pending and not has_sample,
        codes.GROUP_BY_READINESS: not gone and not pending and has_sample and is_cpu,
        codes.GROUP_READY: not gone and not pending and has_sample and not is_cpu,
    }
    assert [g for g, claimed in claims.items() if claimed] == [group]


@given(flag_words, times, times, times, st.booleans())
def test_the_shortcut_for_settled_pods_equals_the_general_way(
    word: int, start: int, transition: int, sample: int, is_cpu: bool
) -> None:
    if not is_settled(word, start, NOW, CONTROLLER):
        return
    group = group_pod(word, True, is_cpu, CONTROLLER)
    assert group in (codes.GROUP_READY, codes.GROUP_BY_READINESS)
    assert not is_unready_for_cpu(word, start, transition, sample, 30_000, NOW, CONTROLLER)


@pytest.mark.parametrize(
    ("word", "start", "settled"),
    [
        (flags(), -5 * MINUTE, True),
        (flags(), 1 - 5 * MINUTE, False),
        (flags(deleting=True), -60 * MINUTE, False),
        (flags(ready="Unknown"), -60 * MINUTE, False),
        (flags("Unknown"), -60 * MINUTE, False),
        (flags(started=False), -60 * MINUTE, False),
    ],
)
def test_settled_is_running_ready_and_past_initialisation(
    word: int, start: int, settled: bool
) -> None:
    assert is_settled(word, NOW + start, NOW, CONTROLLER) is settled
