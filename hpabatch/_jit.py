"""The only place that configures numba: the decorators `rule`, `rare` and `kernel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from hpabatch import _cache

F = TypeVar("F", bound=Callable[..., Any])


def _compile(function: F, *, parallel: bool, inline: bool = True) -> F:
    # Rules never allocate, so they are compiled without reference counting: with it each call
    # counts every array up and down (measured: a tick of 20 pods 1.1 µs with,
    # 0.5 without). Forced inlining at machine level (0.12 µs) saves passing some hundred words a
    # call; it is not numba's `inline`, which would break writes inside prange.
    options: dict[str, Any] = (
        {} if parallel else {"_nrt": False, "no_cfunc_wrapper": True, "forceinline": inline}
    )
    compiled: Any = numba.njit(
        function,
        nogil=True,
        error_model="numpy",  # division by zero gives Inf or NaN, as Go's floats do
        fastmath=False,  # it may move a ceil across an operation
        parallel=parallel,
        **options,
    )
    if _cache.FOLDER is not None:
        compiled._cache = _cache.KernelCache(function)
    return compiled  # type: ignore[no-any-return]


def rule(function: F) -> F:
    """Compile a scalar rule or a serial lane: no allocation, no exception, no clock."""
    return _compile(function, parallel=False)


def rare(function: F) -> F:
    """Compile what a lane does now and then as a function of its own.

    A call costs the time of passing some hundred words; inlined at every place where it is called,
    rare code makes compiling a kernel several times as long.
    """
    return _compile(function, parallel=False, inline=False)


def kernel(function: F) -> F:
    """Compile a loop over lanes with `prange`; its body must be one call of a serial function.

    Inside a `prange` body a write to an array that is a NamedTuple's attribute is lost without a
    word (measured with numba 0.68), and inlining brings that back, so neither is done here.
    """
    return _compile(function, parallel=True)
