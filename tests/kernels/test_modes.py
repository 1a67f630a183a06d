"""Every kernel gives the same interpreted, and on two threads."""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module

import pytest

from hpabatch import _jit
from tests.kernels.processes import in_process

KERNELS = ("align", "replay", "simulate", "status", "usage")

_DIGESTS = f"""
import importlib, json
print(json.dumps({{
    name: importlib.import_module(f"tests.kernels.test_{{name}}").digests() for name in {KERNELS}
}}))
"""


@cache
def interpreted() -> dict[str, list[str]]:
    # One process for all kernels: starting it takes as long as its runs.
    found: dict[str, list[str]] = json.loads(in_process(_DIGESTS, NUMBA_DISABLE_JIT="1"))
    return found


@pytest.mark.compiled
@pytest.mark.parametrize("kernel", KERNELS)
def test_compiled_equals_interpreted(kernel: str) -> None:
    digests = import_module(f"tests.kernels.test_{kernel}").digests
    assert digests() == interpreted()[kernel]


@pytest.mark.compiled
@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != "simulate"])  # (own test)
def test_the_number_of_threads_does_not_matter(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = import_module(f"tests.kernels.test_{kernel}").digests
    one = digests()
    digests.cache_clear()
    monkeypatch.setattr(_jit, "THREADS", 2)
    assert digests() == one
    digests.cache_clear()
