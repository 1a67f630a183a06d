"""Removal of what tests of jobs leave, at the end of each module."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def collected() -> Iterator[None]:
    """Let no later module meet a socket that Dask left open (dask_cluster.LEAVES_SOCKETS)."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        gc.collect()
