"""Worker processes: `hpabatch.jobs.worker` beside this process, one order at a time each.

It imports little, because a Dask worker imports it too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypedDict

from hpabatch.errors import UsageError

_CLOSE_S: Final = 0.05
_STDERR: Final = 2
_CONNECTION: Final = re.compile(r"in <.*?>: (?=\S)")


class Answer(TypedDict, total=False):
    """What a worker says of an order: one of these, with what belongs to it.

    Attributes:
        done: the key of the task that is finished.
        found: versions of the worker, which are not those of the order.
        error, lines: name and lines of an error of the package.
        bug: a traceback.
        lost: how the process that had the order ended.
    """

    done: str
    found: dict[str, str]
    error: str
    lines: list[str]
    bug: str
    lost: str


class Child:
    """A worker process; it ends when this process does, however that ends.

    It starts with its first order, and anew with the next one after it has ended.
    """

    def __init__(self, threads: int) -> None:
        """Start nothing yet; kernels and polars will have so many threads."""
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, order: str) -> str:
        """Return the answer to an order, one line of JSON: `lost` if the process has ended.

        Raises:
            UsageError: it cannot be started.
        """
        process, line = self._process or self._start(), b""
        assert process.stdin is not None
        with suppress(OSError, ValueError):
            process.stdin.write(order.encode() + b"\n")
            process.stdin.flush()
            line = self._answers.readline()
        return line.decode() if line.endswith(b"\n") else json.dumps({"lost": self.close()})

    def _start(self) -> subprocess.Popen[bytes]:
        names = ("NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
        try:
            # Not stdout: code of the user's (sitecustomize) may write there before it begins.
            reading, writing = os.pipe()
            self._answers = os.fdopen(reading, "rb")
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this program
                    # -P: nothing of the current folder is imported in place of a library.
                    [sys.executable, "-P", "-m", "hpabatch.jobs.worker", str(writing)],
                    stdin=subprocess.PIPE,
                    stdout=_STDERR,
                    pass_fds=(writing,),
                    env={**os.environ, **dict.fromkeys(names, str(self._threads))},
                    start_new_session=True,  # Ctrl-C is for this process, which ends the worker
                )
            except BaseException:
                self._answers.close()
                raise
            finally:
                os.close(writing)
        except OSError as error:
            raise UsageError(
                f"a worker process cannot be started ({error.strerror}); use fewer workers, or "
                "raise the limits of this user (ulimit -a)"
            ) from error
        return self._process

    def close(self) -> str:
        """End the process; return how it ended, for people."""
        process, self._process = self._process, None
        if process is None:
            return "it was ended"
        with suppress(OSError):
            process.kill()
        code = process.wait()
        for stream in (process.stdin, self._answers):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        return f"it was ended by signal {-code}" if code < 0 else f"it ended with code {code}"


class ProcessPool:
    """Worker processes on this machine, which share its cores."""

    def __init__(self, count: int) -> None:
        """Plan `count` workers, which start with their first order."""
        threads = max(len(os.sched_getaffinity(0)) // count, 1)
        self._children = {f"worker {k + 1}": Child(threads) for k in range(count)}
        self._askers = ThreadPoolExecutor(count, "worker")
        self._orders: dict[str, Future[str]] = {}

    def workers(self) -> Sequence[str]:
        """Return the names of all workers."""
        return list(self._children)

    def start(self, worker: str, order: str) -> Future[str]:
        """Give a worker its order; return its answer to come."""
        answer = self._orders[worker] = self._askers.submit(self._children[worker].ask, order)
        return answer

    def close(self) -> None:
        """End all workers at once; what they have not finished is lost."""
        self._askers.shutdown(wait=False, cancel_futures=True)
        while True:
            for child in self._children.values():
                child.close()
            # One that was just starting has a process only now.
            if all(answer.done() for answer in self._orders.values()):
                break
            time.sleep(_CLOSE_S)
        self._askers.shutdown()


def not_installed(where: str) -> UsageError:
    """Return the error for a machine without this package."""
    return UsageError(
        f"{where}: expected hpabatch of this command's version, got none; install it there, with "
        "the same extras"
    )


def brief(error: BaseException) -> str:
    """Return an error's first line as part of a sentence, without Dask's name of a connection."""
    lines = _CONNECTION.sub("", str(error)).strip().splitlines()
    return lines[0][:200].rstrip(". ") if lines else type(error).__name__


# ---- in a Dask worker

_lock = threading.Lock()
_child: Child | None = None


def relay(order: str) -> str:
    """Have an order done by the process beside a Dask worker; it runs in that worker."""
    from distributed import get_worker

    global _child
    with _lock:
        _child = _child or Child(get_worker().state.nthreads)
        try:
            return _child.ask(order)
        except UsageError as error:  # (of this machine alone: another one does it)
            where = get_worker().address
            return json.dumps({"error": "UsageError", "lines": [f"worker {where}: {error}"]})


def leave() -> None:
    """End the process beside a Dask worker, if it has nothing to do; it runs in that worker."""
    if _lock.acquire(blocking=False):
        if _child is not None:
            _child.close()
        _lock.release()
