"""The package agrees with the naive reference on drawn calculator cases and timelines.

HPABATCH_FUZZ_SCALE=1 compares 200,000 cases and 5,000 timelines, the default is a hundredth;
HPABATCH_FUZZ_SEED draws others. A difference is written to build/fuzz as small as it can be made.
"""

from __future__ import annotations

import math
import os
import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.harness import (
    BEHAVIOR_TIMELINE,
    CASE,
    TIMELINE,
    VERSIONS,
    available_processes,
    decisions,
    draw,
    plan,
    run_batches,
)

_CASES, _TIMELINES = 200_000, 5_000
_SCALE = float(os.environ.get("HPABATCH_FUZZ_SCALE") or 0.01)
_SEED = int(os.environ.get("HPABATCH_FUZZ_SEED") or 20260915)
_SETTINGS = settings(
    derandomize="HPABATCH_FUZZ_SEED" not in os.environ,
    max_examples=max(200, math.ceil(5_000 * _SCALE)),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_package_agrees_with_reference(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.perf_counter()
    batches = plan(_SEED, math.ceil(_CASES * _SCALE), math.ceil(_TIMELINES * _SCALE))
    figures = run_batches(batches, available_processes() if _SCALE > 0.1 else 1)
    seconds = time.perf_counter() - started
    with capsys.disabled():
        print(f"\nfuzz: {figures}; seed {_SEED}, {seconds:.0f} s")  # noqa: T201
    if figures.files:
        pytest.fail("\n".join(("the smallest inputs that differ:", *figures.files[:20])))


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
    st.sampled_from((TIMELINE, BEHAVIOR_TIMELINE)),
    st.sampled_from(VERSIONS),
)
def test_drawn_timelines_agree(seed: int, ticks: int, kind: str, k8s: str) -> None:
    """Hypothesis draws seed and length: a timeline takes too many numbers to draw each."""
    ours, reference = decisions(draw(kind, random.Random(seed), ticks), k8s)
    assert ours == reference
