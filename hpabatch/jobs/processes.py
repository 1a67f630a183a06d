"""Worker processes: `hpabatch.jobs.worker` beside this process, one order at a time each.

It imports little, because a Dask worker imports it too.
"""

from __future__ import annotations

import os
import queue
import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypedDict

from hpabatch._json import decode_json
from hpabatch.errors import UsageError

AHEAD: Final = "--ahead"
_WAIT_S: Final = 10.0
_LOOK_S: Final = 1.0
_STOPPED_S: Final = 10.0
"""Time for which a worker may be stopped (SIGSTOP) before it is ended."""

_STDERR: Final = 2


class Answer(TypedDict, total=False):
    """What a worker says of an order: one of these, with what belongs to it.

    Attributes:
        done: the key of the task that is finished.
        found, compiled: versions of the worker, and whether it has the kernel compiled.
        error, lines: name and lines of an error of the package.
        bug: a traceback.
        lost: how the process beside a Dask worker ended.
    """

    done: str
    found: dict[str, str]
    compiled: bool
    error: str
    lines: list[str]
    bug: str
    lost: str


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply to a worker's order: its answer, or why there is none ("": there is one).

    `gone`: it has been removed, which is no fault of the order as far as is known.
    """

    worker: str
    answer: Answer
    lost: str = ""
    gone: bool = False


class Child:
    """A worker process; it ends when this process does, however that ends."""

    def __init__(self, threads: int, *, ahead: bool = False) -> None:
        """Start it; kernels and polars get so many threads before they are imported.

        `ahead`: before there is an order, so that it imports meanwhile what most jobs need.
        """
        self.threads = threads
        names = ("NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
        # Not stdout: code of the user's (sitecustomize) may write there before the worker begins.
        reading, writing = os.pipe()
        # -P: nothing of the current folder is imported in place of a library.
        line = [sys.executable, "-P", "-m", "hpabatch.jobs.worker", str(writing)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this program
                [*line, *([AHEAD] if ahead else [])],
                stdin=subprocess.PIPE,
                stdout=_STDERR,
                pass_fds=(writing,),
                env={**os.environ, **dict.fromkeys(names, str(threads))},
                start_new_session=True,  # Ctrl-C is for this process, which ends the worker itself
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._answers = os.fdopen(reading, "rb")
        self._why = ""

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def ask(self, order: str) -> str:
        """Return the answer to an order, one line of JSON; "": the process has ended.

        One that somebody stops for some seconds is ended.
        """
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(order.encode() + b"\n")
            stdin.flush()
            self._wait()
            line = self._answers.readline()
        except (OSError, ValueError):
            return ""
        return line.decode() if line.endswith(b"\n") else ""

    def _wait(self) -> None:
        """Wait until there is an answer, or the process has ended or is stopped for long."""
        looks, options = 0, os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        with selectors.DefaultSelector() as ready:  # (select takes no descriptor above 1023)
            ready.register(self._answers, selectors.EVENT_READ)
            while not ready.select(_LOOK_S):
                looks = looks + 1 if os.waitid(os.P_PID, self.pid, options) else 0
                if looks * _LOOK_S >= _STOPPED_S:
                    self._why = f"it was stopped for {_STOPPED_S:.0f} s, so "
                    self._process.kill()

    def close(self) -> str:
        """End the process; return how it ended, for people."""
        with suppress(OSError):
            self._process.kill()
        code = self._process.wait()
        for stream in (self._process.stdin, self._answers):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        how = f"it was ended by signal {-code}" if code < 0 else f"it ended with code {code}"
        return f"{self._why}{how}"


_ahead: list[Child] = []


@contextmanager
def started_ahead(count: int | None) -> Iterator[None]:
    """Start so many processes for the pools of the block; those that none has taken end with it.

    They import what they need while this process plans. None are started where there are more than
    cores: there may be fewer parts than that.
    """
    if count is not None and count <= len(os.sched_getaffinity(0)):
        with suppress(OSError):  # (the pool tells why one cannot be started)
            _ahead.extend(Child(_threads(count), ahead=True) for _ in range(count))
    try:
        yield
    finally:
        _end_ahead()


def _end_ahead() -> None:
    while _ahead:
        _ahead.pop().close()


def _threads(count: int) -> int:
    """Return the threads of each of some workers, which share the cores."""
    return max(len(os.sched_getaffinity(0)) // count, 1)


class ProcessPool:
    """Worker processes on this machine; one that ends is replaced with the next order."""

    def __init__(self, count: int) -> None:
        """Plan `count` workers; those that were not started ahead start with their first order."""
        self._threads = _threads(count)
        if any(child.threads != self._threads for child in _ahead):
            _end_ahead()
        self._names = [f"worker {k + 1}" for k in range(count)]
        self._children: dict[str, Child] = {}
        self._replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._askers = ThreadPoolExecutor(count, "worker")

    def workers(self) -> Sequence[str]:
        """Return the names of all workers."""
        return self._names

    def start(self, worker: str, order: str) -> None:
        """Give a worker its order (UsageError: it cannot be started)."""
        if worker not in self._children:
            try:
                self._children[worker] = _ahead.pop(0) if _ahead else Child(self._threads)
            except OSError as error:
                raise UsageError(
                    f"--workers {len(self._names)}: {worker} cannot be started ({error.strerror}); "
                    "use fewer workers, or raise the limits of this user (ulimit -a)"
                ) from error
        self._askers.submit(self._ask, worker, self._children[worker], order)

    def _ask(self, worker: str, child: Child, order: str) -> None:
        # Whatever happens here is a reply: an error that stays in this thread leaves the command
        # waiting.
        try:
            if line := child.ask(order):
                self._replies.put(Reply(worker, decode_json(line, Answer)))
                return
            why = child.close()
        except Exception as error:  # noqa: BLE001
            why = f"{error}; {child.close()}"
        self._children.pop(worker, None)
        self._replies.put(Reply(worker, {}, why))

    def wait(self) -> list[Reply]:
        """Return replies, after some seconds none."""
        try:
            return [self._replies.get(timeout=_WAIT_S)]
        except queue.Empty:
            return []

    def close(self) -> None:
        """End all workers at once; what they have not finished is lost."""
        for child in list(self._children.values()):
            child.close()
        self._askers.shutdown()
