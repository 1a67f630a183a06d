"""The package agrees with the naive reference on drawn inputs of all kinds, under all versions.

How many and which: see tests/fuzz/harness.py. HPABATCH_FUZZ_DECISIONS and HPABATCH_FUZZ_SEED are
what `make fuzz` sets by N and SEED.
"""

from __future__ import annotations

import math
import os
import time

import pytest

from tests.effort import effort
from tests.fuzz.harness import (
    KINDS,
    TIMELINES_PER_CASE,
    available_processes,
    plan,
    run_batches,
    tell_at_once,
)
from tests.reference.profiles import VERSIONS

_CASES = int(os.environ.get("HPABATCH_FUZZ_DECISIONS") or effort(1_000, kernel=True))
_SEED = int(os.environ.get("HPABATCH_FUZZ_SEED") or 20260915)
_IS_LONG = _CASES > 20_000


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
        pytest.fail("\n".join(("inputs that differ:", *figures.differences[:20])))
