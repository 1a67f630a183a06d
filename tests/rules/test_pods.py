"""Grouping pods: each branch of the order, both sides of each strict comparison, a partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.layout import codes
from hpabatch.layout.switches import SUCCEEDED_PODS_IGNORED
from hpabatch.packing.pack import pod_flags
from hpabatch.rules.controller import Controller
from hpabatch.rules.pods import (
    group_pod,
    is_initialising,
    is_running_and_ready,
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


def test_phases_flags_and_readiness_share_a_word() -> None:
    assert flags() == codes.PHASE_RUNNING | codes.READY_TRUE | codes.POD_STARTED
    assert flags("Odd", None, started=False) == 0
    assert flags("Failed", "False", deleting=True) == 4 + 32 + 8 + 64
    assert flags(ready="Odd") & codes.READY_MASK == codes.READY_UNKNOWN


@pytest.mark.parametrize("is_cpu", [True, False])
@pytest.mark.parametrize("has_sample", [True, False])
def test_failed_and_deleting_pods_are_ignored_first(has_sample: bool, is_cpu: bool) -> None:
    for word in (flags("Failed"), flags("Pending", deleting=True), flags(deleting=True)):
        assert group_pod(word, has_sample, is_cpu, CONTROLLER) == codes.GROUP_IGNORED


@pytest.mark.parametrize(
    ("has_sample", "controller", "group"),
    [
        (True, CONTROLLER, codes.GROUP_IGNORED),
        (False, CONTROLLER, codes.GROUP_IGNORED),
        (True, OLD_CONTROLLER, codes.GROUP_READY),
        (False, OLD_CONTROLLER, codes.GROUP_MISSING),
    ],
)
def test_succeeded_pods_are_ignored_by_newer_controllers(
    has_sample: bool, controller: Controller, group: int
) -> None:
    assert group_pod(flags("Succeeded"), has_sample, False, controller) == group


@pytest.mark.parametrize("has_sample", [True, False])
def test_pending_comes_before_the_look_for_a_sample(has_sample: bool) -> None:
    assert group_pod(flags("Pending"), has_sample, False, CONTROLLER) == codes.GROUP_UNREADY
    assert group_pod(flags("Pending"), has_sample, True, CONTROLLER) == codes.GROUP_UNREADY


@pytest.mark.parametrize("phase", ["Running", "Unknown", ""])
def test_other_phases_need_a_sample_and_only_cpu_asks_for_readiness(phase: str) -> None:
    word = flags(phase, "False")
    assert group_pod(word, False, True, CONTROLLER) == codes.GROUP_MISSING
    assert group_pod(word, True, False, CONTROLLER) == codes.GROUP_READY
    assert group_pod(word, True, True, CONTROLLER) == codes.GROUP_BY_READINESS


@pytest.mark.parametrize(("start", "initialising"), [(-5 * MINUTE, False), (1 - 5 * MINUTE, True)])
def test_initialisation_ends_exactly_after_its_period(start: int, initialising: bool) -> None:
    assert is_initialising(flags(), NOW + start, NOW, CONTROLLER) is initialising
    assert not is_initialising(flags(started=False), NOW + start, NOW, CONTROLLER)


def unready(
    word: int, start: int, transition: int = -20 * MINUTE, sample: int = 0, window: int = 30_000
) -> bool:
    """Say whether the pod is set aside; times in ms relative to now."""
    return is_unready_for_cpu(
        word, NOW + start, NOW + transition, NOW + sample, window, NOW, CONTROLLER
    )


def test_without_ready_condition_or_start_time_a_pod_is_unready() -> None:
    assert unready(flags(ready=None), -60 * MINUTE)
    assert unready(flags(started=False), -60 * MINUTE)
    assert not unready(flags(), -60 * MINUTE)


@pytest.mark.parametrize(("sample", "is_unready"), [(-30_001, True), (-30_000, False)])
def test_while_initialising_the_sample_must_lie_after_the_transition(
    sample: int, is_unready: bool
) -> None:
    assert unready(flags(), -MINUTE, transition=-60_000, sample=sample) is is_unready


@pytest.mark.parametrize(("ready", "is_unready"), [("False", True), ("Unknown", False)])
def test_while_initialising_unknown_readiness_is_not_false(ready: str, is_unready: bool) -> None:
    assert unready(flags(ready=ready), -MINUTE, transition=-MINUTE) is is_unready


@pytest.mark.parametrize(("transition", "is_unready"), [(29_999, True), (30_000, False)])
def test_later_only_a_pod_that_was_never_ready_is_set_aside(
    transition: int, is_unready: bool
) -> None:
    start = -5 * MINUTE
    assert unready(flags(ready="False"), start, transition=start + transition) is is_unready
    assert not unready(flags(), start, transition=start + transition)
    assert not unready(flags(ready="Unknown"), start, transition=start + transition)


def test_later_the_age_of_the_sample_does_not_matter() -> None:
    assert not unready(flags(), -5 * MINUTE, transition=0, sample=-60 * MINUTE)


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


@given(flag_words)
def test_deletion_plays_no_part_for_object_and_external_values(word: int) -> None:
    counts = is_running_and_ready(word)
    running = word & codes.PHASE_MASK == codes.PHASE_RUNNING
    assert counts == (running and word & codes.READY_MASK == codes.READY_TRUE)
    assert is_running_and_ready(word ^ codes.POD_DELETING) == counts
