"""The decorators `rule`, `rare` and `kernel`: all that configures numba, and the threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar

import numba

from hpabatch import _cache

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")

THREADS: int = numba.get_num_threads()
"""Threads that run a kernel together; NUMBA_NUM_THREADS, else the processors of this process."""

PARTS_PER_THREAD = 8
"""Parts of the lanes for each thread, which takes the next one when it has done one."""


def _compile(function: F, *, inline: bool) -> F:
    # Rules never allocate, so they are compiled without reference counting: with it each call
    # counts every array up and down (measured: a tick of 20 pods 1.1 µs with,
    # 0.5 without). Forced inlining at machine level (0.12 µs) saves passing some hundred words a
    # call; it is not numba's `inline`.
    compiled: Any = numba.njit(
        function,
        nogil=True,
        error_model="numpy",  # division by zero gives Inf or NaN, as Go's floats do
        fastmath=False,  # it may move a ceil across an operation
        _nrt=False,
        no_cfunc_wrapper=True,
        forceinline=inline,
    )
    if _cache.FOLDER is not None:
        compiled._cache = _cache.KernelCache(function)
    return compiled  # type: ignore[no-any-return]


def rule(function: F) -> F:
    """Compile a scalar rule or a serial lane: no allocation, no exception, no clock."""
    return _compile(function, inline=True)


def rare(function: F) -> F:
    """Compile what a lane does now and then as a function of its own.

    A call costs the time of passing some hundred words; inlined at every place where it is called,
    rare code makes compiling a kernel several times as long.
    """
    return _compile(function, inline=False)


def kernel(function: Callable[Concatenate[int, int, P], None]) -> Callable[P, None]:
    """Compile a loop over the lanes `first:last`; return a function that runs it over all lanes.

    Its first two arguments are given here; `lanes` of the next one says how many there are. Lanes
    share nothing, so that neither the threads nor the parts that they take change a result. What is
    compiled holds no lock: other threads of Python run meanwhile, and may run kernels too.
    """
    compiled: Any = _compile(function, inline=False)

    @functools.wraps(function)
    def over_all_lanes(*arguments: P.args, **named: P.kwargs) -> None:
        count: int = arguments[0].lanes.size  # type: ignore[attr-defined]
        if compiled is function or THREADS == 1 or count <= 1:
            compiled(0, count, *arguments, **named)
            return
        # (next() of one iterator is atomic; more parts than threads, as lanes differ in length)
        step = -(-count // (THREADS * PARTS_PER_THREAD))
        starts = iter(range(0, count, step))

        def work() -> None:
            for first in starts:
                compiled(first, min(first + step, count), *arguments, **named)

        others = [_pool().submit(work) for _ in range(min(THREADS, count) - 1)]
        work()
        for other in others:
            other.result()

    over_all_lanes.compiled = compiled  # type: ignore[attr-defined]
    return over_all_lanes


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(numba.config.NUMBA_NUM_THREADS - 1, 1), "lanes")
