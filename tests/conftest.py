"""Settings of the whole suite: hypothesis profiles, and what needs compiled kernels."""

from __future__ import annotations

import functools
import gc
import os
from typing import Any

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

from hpabatch import _jit
from tests.effort import INTERPRETED, effort

# `ci` gives the same examples in every run; `search` looks for new ones (HYPOTHESIS_PROFILE).
# No deadlines: the first call of a kernel compiles it.
_SLOW_BUT_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=effort(100),
    suppress_health_check=_SLOW_BUT_FINE,
)
settings.register_profile(
    "search", deadline=None, max_examples=2000, suppress_health_check=_SLOW_BUT_FINE
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Tests call kernels thousands of times on a few lanes. Where the cores are busy, a call on two
# threads waits for the second one to be scheduled: 29 ms and 1.5 ms of CPU, on one thread 2 µs.
# Tests of threads set their number themselves.
if not INTERPRETED:
    _jit.THREADS = 1


# No test can cut the power: what this process writes is there for all others without waiting for
# the disk, 2 to 4 ms for each of many thousand files. Commands in processes of their own wait.
setattr(os, "fsync", lambda file: None)  # noqa: B010 - a plain assignment has no type


_build_command = functools.cache(typer.main.get_command)
_registered = 0


def _get_command(app: typer.Typer) -> Any:
    """Return an app's command, built anew when more is registered.

    A program builds it once; a run of tests would for each call of one, a seventh of its time.
    """
    global _registered
    count = len(app.registered_commands) + len(app.registered_groups)
    if count != _registered:
        _build_command.cache_clear()
        _registered = count
    return _build_command(app)


for _module, _name in ((typer.main, "get_command"), (typer.testing, "_get_command")):
    setattr(_module, _name, _get_command)


def pytest_collection_finish() -> None:
    # The collector would look through all modules and tests again and again: a third of the time
    # of a test that reads large documents.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not INTERPRETED:
        return
    skip = pytest.mark.skip(reason="needs the compiled kernels (NUMBA_DISABLE_JIT=1)")
    for item in items:
        if "compiled" in item.keywords:
            item.add_marker(skip)
