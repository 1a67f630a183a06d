"""Compiled functions: the decorators `rule`, `rare`, `entry` and `kernel`, and how Python calls it.

A rule is a plain function. Called from Python it runs as such, one decision at a time; what decides
many is an entry or a kernel, which is compiled with all rules that it calls to one object of
machine code (`_compile`), kept in a folder (`_code`) and called without numba.
"""

from __future__ import annotations

import functools
import os
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Final,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
P = ParamSpec("P")

INTERPRETED: Final = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""Whether everything runs as plain Python."""

COMPILING = False
"""Whether this process is one of `_compile`: then the decorators give what numba compiles."""

_PROCESSORS: Final = (
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
)
_STATED: Final = os.environ.get("NUMBA_NUM_THREADS", "")
THREADS: int = max(int(_STATED) if _STATED.isdecimal() else _PROCESSORS, 1)
"""Threads that run a kernel together; NUMBA_NUM_THREADS, else the processors of this process."""

PARTS_PER_THREAD: Final = 8
"""Parts of the lanes for each thread, which takes the next one when it has done one."""

_LOADING: Final = threading.Lock()


def _for_numba(function: F, *, inline: bool) -> F:
    if not COMPILING:
        return function
    import numba

    options: dict[str, Any] = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    # Rules never allocate, so they are compiled without reference counting: with it each call
    # counts every array up and down (measured: a tick of 20 pods 1.1 µs with,
    # 0.5 without). Forced inlining at machine level (0.12 µs) saves passing some hundred words a
    # call; it is not numba's `inline`.
    compiled: Any = numba.njit(
        function,
        nogil=True,
        error_model="numpy",  # division by zero gives Inf or NaN, as Go's floats do
        fastmath=False,  # it may move a ceil across an operation
        forceinline=inline,
        **options,
    )
    return compiled  # type: ignore[no-any-return]


def rule(function: F) -> F:
    """Mark a scalar rule or a serial lane: no allocation, no exception, no clock."""
    return _for_numba(function, inline=True)


def rare(function: F) -> F:
    """Mark what a lane does now and then, compiled as a function of its own.

    A call costs the time of passing some hundred words; inlined at every place where it is called,
    rare code makes compiling a kernel several times as long.
    """
    return _for_numba(function, inline=False)


def compiled_as(body: Callable[..., Any]) -> Callable[[F], F]:
    """Let numba take another body for a function of one argument, `value`, that Python runs."""

    def mark(function: F) -> F:
        if COMPILING:
            from numba.extending import overload

            # (a copy for each call's types: numba keeps what it knows of a body with the function)
            overload(function)(lambda value: FunctionType(body.__code__, body.__globals__))
        return function

    return mark


class Compiled:
    """A function as machine code, found or compiled when it is first called.

    Its annotations are its only signature: integers, floats, booleans, arrays in C order and named
    tuples of these; a result is an integer or None. No lock is held while it runs.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Take a rule, or what `entry` or `kernel` decorates, of a module."""
        self.function = function

    @functools.cached_property
    def types(self) -> list[object]:
        """The types of its arguments: int, bool, float, or an array's dtype and dimensions."""
        types: list[object] = []
        _flatten(examples(self.function), types, [])
        return types

    @functools.cached_property
    def code(self) -> Callable[[int], int]:
        """Machine code that takes the address of its words."""
        from hpabatch import _code

        with _LOADING:
            return self.__dict__.get("code") or _code.load(self.function)

    def words(self, arguments: tuple[Any, ...]) -> list[int]:
        """Return the words that stand for arguments.

        Raises:
            TypeError: an argument is not of the type that is annotated.
        """
        types: list[object] = []
        words: list[int] = []
        _flatten(arguments, types, words)
        if types != self.types:
            pairs = zip(types, self.types, strict=False)
            got, expected = next((p for p in pairs if p[0] != p[1]), (len(types), len(self.types)))
            raise TypeError(f"{self.function.__name__}: expected {expected}, got {got}")
        return words

    def __call__(self, *arguments: Any) -> int:
        """Run it.

        Raises:
            TypeError: an argument is not of the type that is annotated.
        """
        own = np.array(self.words(arguments), np.int64)
        return self.code(own.ctypes.data)


def examples(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return arguments of the types that are annotated: arrays have one item, of no value."""
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    return tuple(map(_example, hints.values()))


def _example(hint: Any) -> Any:
    from hpabatch.layout.records import RecordArray, record_dtype

    dimensions = 1
    if get_origin(hint) is Annotated:
        hint, dimensions = get_args(hint)
    if hint in (int, bool, float):
        return hint()
    if isinstance(hint, type) and issubclass(hint, tuple):
        parts = get_type_hints(hint, include_extras=True).values()
        return hint(*map(_example, parts))
    if isinstance(hint, type) and issubclass(hint, RecordArray):
        return np.zeros(1, record_dtype(hint))
    (scalar,) = get_args(get_args(hint)[1])
    return np.zeros((1,) * dimensions, scalar)


def _flatten(value: Any, types: list[object], words: list[int]) -> None:
    # As numba passes them: an array is meminfo, parent, items, item size, data, shape, strides.
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise TypeError(f"expected an array in C order, got strides {value.strides}")
        data = value.__array_interface__["data"][0]
        words += (0, 0, value.size, value.itemsize, data, *value.shape, *value.strides)
        types.append((value.dtype, value.ndim))
    elif isinstance(value, tuple):
        for part in value:
            _flatten(part, types, words)
    elif isinstance(value, bool | np.bool_):
        words.append(int(value))
        types.append(bool)
    elif isinstance(value, int | np.integer):
        words.append(int(value))
        types.append(int)
    elif isinstance(value, float):
        words += struct.unpack("q", struct.pack("d", value))
        types.append(float)
    else:
        raise TypeError(f"expected numbers, arrays and tuples of them, got {type(value)}")


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that is called from Python as a whole."""
    if COMPILING or INTERPRETED:
        return _for_numba(function, inline=False)
    compiled: Any = functools.wraps(function)(Compiled(function))
    return compiled  # type: ignore[no-any-return]


def kernel(function: Callable[Concatenate[int, int, P], None]) -> Callable[P, None]:
    """Compile a loop over the lanes `first:last`; return a function that runs it over all lanes.

    Its first two arguments are given here; `lanes` of the next one says how many there are. Lanes
    share nothing, so neither the threads nor the parts that they take change a result.
    """
    if COMPILING:
        return _for_numba(function, inline=False)  # type: ignore[return-value]
    compiled = Compiled(function)

    @functools.wraps(function)
    def over_all_lanes(*arguments: P.args, **named: P.kwargs) -> None:
        count: int = arguments[0].lanes.size  # type: ignore[attr-defined]
        if INTERPRETED:
            function(0, count, *arguments, **named)
            return
        code, words = compiled.code, compiled.words((0, count, *arguments))
        # (more parts than threads, as lanes differ in length; next() of an iterator is atomic)
        threads = min(THREADS, count)
        step = -(-count // (threads * PARTS_PER_THREAD)) if threads > 1 else max(count, 1)
        starts = iter(range(0, count, step))

        def work(_kept: object = arguments) -> None:  # (the words are addresses in them)
            own = np.array(words, np.int64)
            for first in starts:
                own[0], own[1] = first, min(first + step, count)
                code(own.ctypes.data)

        others = [_pool().submit(work) for _ in range(threads - 1)]
        try:
            work()
        finally:
            for _ in starts:  # after an interruption nobody takes another part,
                pass
            for other in others:  # and what is being done still needs its arrays
                other.result()

    over_all_lanes.compiled = compiled  # type: ignore[attr-defined]
    return over_all_lanes


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(THREADS, _PROCESSORS), "lanes")


# (a process that is forked has none of the threads)
os.register_at_fork(after_in_child=_pool.cache_clear)
