"""Settings of the whole suite: hypothesis profiles, and what needs compiled kernels."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# `ci` gives the same examples in every run; `search` looks for new ones (HYPOTHESIS_PROFILE).
# No deadlines: the first call of a kernel compiles it.
_SLOW_BUT_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=_SLOW_BUT_FINE
)
settings.register_profile(
    "search", deadline=None, max_examples=2000, suppress_health_check=_SLOW_BUT_FINE
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def is_interpreted() -> bool:
    """Say whether numba compiles nothing in this run."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not is_interpreted():
        return
    skip = pytest.mark.skip(reason="needs the compiled kernels (NUMBA_DISABLE_JIT=1)")
    for item in items:
        if "compiled" in item.keywords:
            item.add_marker(skip)
