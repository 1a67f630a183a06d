"""The package agrees with the naive reference on drawn inputs of all kinds, under all versions.

How many and which: see tests/fuzz/harness.py. HPABATCH_FUZZ_DECISIONS and HPABATCH_FUZZ_SEED are
what `make fuzz` sets by N and SEED.
"""

from __future__ import annotations

import math
import os
import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import effort
from tests.fuzz.harness import (
    BEHAVIOR_TIMELINE,
    CASE,
    GROUP,
    KINDS,
    TIMELINE,
    TIMELINES_PER_CASE,
    available_processes,
    decisions,
    draw,
    plan,
    run_batches,
    tell_at_once,
)
from tests.reference.profiles import VERSIONS

_CASES = int(os.environ.get("HPABATCH_FUZZ_DECISIONS") or effort(1_000, kernel=True))
_SEED = int(os.environ.get("HPABATCH_FUZZ_SEED") or 20260915)
_IS_LONG = _CASES > 20_000
_SETTINGS = settings(
    derandomize=not os.environ.get("HPABATCH_FUZZ_SEED"),
    max_examples=max(effort(60, kernel=True), _CASES // 40),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_package_agrees_with_reference(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.perf_counter()
    batches = plan(_SEED, _CASES, max(math.ceil(_CASES * TIMELINES_PER_CASE), 5))
    with capsys.disabled():
        figures = run_batches(batches, available_processes() if _IS_LONG else 1, tell_at_once)
        seconds = time.perf_counter() - started
        tell_at_once(f"\nfuzz: {figures}; SEED={_SEED}, {seconds:.0f} s")
        if _IS_LONG:
            tell_at_once(figures.by_version())
    assert {kind for kind, _ in figures.decisions} == set(KINDS)
    if _CASES >= 500:  # fewer may miss one
        assert {k8s for _, k8s in figures.decisions} == set(VERSIONS)
    if figures.differences:
        pytest.fail("\n".join(("the smallest inputs that differ:", *figures.differences[:20])))


@_SETTINGS
@given(st.randoms(use_true_random=False), st.sampled_from(VERSIONS))
def test_drawn_cases_agree(rng: random.Random, k8s: str) -> None:
    """Hypothesis draws every random number itself, so that it can make a failing case smaller."""
    ours, reference = decisions(draw(CASE, rng), k8s)
    assert ours == reference


@_SETTINGS
@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.sampled_from((TIMELINE, BEHAVIOR_TIMELINE, GROUP)),
    st.sampled_from(VERSIONS),
)
def test_drawn_timelines_agree(seed: int, ticks: int, kind: str, k8s: str) -> None:
    """Hypothesis draws seed and length: a timeline takes too many numbers to draw each."""
    ours, reference = decisions(draw(kind, random.Random(seed), ticks), k8s)
    assert ours == reference
