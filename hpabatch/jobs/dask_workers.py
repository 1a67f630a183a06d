"""Dask workers, through their scheduler: each has a worker process of hpabatch beside it.

An order travels as a string and comes back as one. It is done in a process of its own, which has
the threads that the Dask worker has, and whose death takes nothing else with it. Orders are pinned
to a worker, one at a time, because Dask would run a dead worker's task on its neighbours until they
have died as well.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from hpabatch._json import decode_json
from hpabatch.errors import UnfinishedError, UsageError
from hpabatch.inputs.workers import TLS_FILES, Spread
from hpabatch.jobs.contact import brief, greet
from hpabatch.jobs.processes import Answer, Child, Reply

_CONNECT_S: Final = 15
_POLL_S: Final = 1.0
_ASK_S: Final = 30
_FETCH_S: Final = 30
_LEAVE_S: Final = 10

_lock = threading.Lock()
_child: Child | None = None


def relay(order: str) -> str:
    """Have an order done by the process beside a Dask worker; it runs in that worker."""
    from distributed import get_worker

    global _child
    with _lock:
        if _child is None:
            _child = Child(get_worker().state.nthreads)
        if line := _child.ask(order):
            return line
        lost, _child = _child.close(), None
        return json.dumps({"lost": lost})


def leave() -> None:
    """End the process beside a Dask worker, if it has nothing to do; it runs in that worker."""
    global _child
    if _lock.acquire(blocking=False):
        if _child is not None:
            _child.close()
            _child = None
        _lock.release()


class DaskPool:
    """The workers of a Dask scheduler, however many there are at a time."""

    def __init__(self, spread: Spread) -> None:
        """Connect (UsageError: there is no scheduler; UnfinishedError: it does not answer)."""
        from distributed import Client, Security

        self._levels = _keep_quiet()
        self._address = spread.scheduler or ""
        security = None
        if spread.scheduler_tls is not None:
            ca, certificate, key = (str(Path(spread.scheduler_tls) / name) for name in TLS_FILES)
            security = Security(  # type: ignore[no-untyped-call]
                tls_ca_file=ca,
                tls_client_cert=certificate,
                tls_client_key=key,
                require_encryption=True,
            )
        try:
            greet(self._address, spread.scheduler_tls, security, _CONNECT_S)
            self._client: Any = Client(  # type: ignore[no-untyped-call]
                self._address,
                timeout=_CONNECT_S,
                security=security,
                set_as_default=False,
                direct_to_workers=False,
            )
        except BaseException as error:
            _restore(self._levels)
            if not isinstance(error, (OSError, TimeoutError, ValueError)):
                raise
            raise UnfinishedError(
                f"--scheduler {self._address} does not answer ({brief(error)}): give the same "
                "command again"
            ) from error
        self._replies: queue.SimpleQueue[tuple[str, Future[str]]] = queue.SimpleQueue()
        self._running: dict[str, Future[str]] = {}
        self._workers: list[str] = []
        self._checked: set[str] = set()
        self._seen = 0.0

    def workers(self) -> Sequence[str]:
        """Return the addresses of the workers (UnfinishedError: the scheduler is gone)."""
        if time.monotonic() - self._seen >= _POLL_S:
            with self._or_gone():
                if self._client.status != "running":
                    raise OSError("the connection is closed")
                asked = self._client.scheduler.ncores
                found = self._client.sync(asked, workers=None, callback_timeout=_ASK_S)
                self._workers = sorted(found)
            self._seen = time.monotonic()
        return self._workers

    @contextmanager
    def _or_gone(self) -> Iterator[None]:
        """Raise UnfinishedError if the scheduler does not answer in the block: it is gone."""
        from distributed.client import ClosedClientError

        try:
            yield
        except (OSError, TimeoutError, AttributeError, ClosedClientError) as error:
            raise UnfinishedError(
                f"the scheduler at {self._address} is gone or does not answer ({brief(error)}); "
                "workers end when their scheduler does: start what has ended, then give the same "
                "command again"
            ) from error

    def start(self, worker: str, order: str) -> None:
        """Give an order to a worker; nothing here waits for one that does not answer."""
        loop = self._client.loop.asyncio_loop
        running = asyncio.run_coroutine_threadsafe(self._relay(worker, order), loop)
        self._running[worker] = running
        running.add_done_callback(lambda done: self._replies.put((worker, done)))

    async def _relay(self, worker: str, order: str) -> str:
        """Return a worker's answer to an order (UsageError: it has no hpabatch)."""
        if worker not in self._checked:
            # A worker that cannot read the order would end, so it is asked before the first one.
            found = await self._client.run(version, "hpabatch", workers=[worker], on_error="return")
            if isinstance(found.get(worker), PackageNotFoundError):
                raise _not_installed(worker)
            self._checked.add(worker)
        future = self._client.submit(
            relay,
            order,
            key=f"hpabatch-{uuid.uuid4()}",
            workers=[worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        finished = asyncio.Event()
        future.add_done_callback(lambda _: self._client.loop.add_callback(finished.set))
        try:
            await finished.wait()
            # The scheduler tries for ever to get a result from a worker that it cannot reach, and
            # a `gather` that is cancelled logs a traceback.
            fetched = asyncio.ensure_future(self._client.gather(future))
            fetched.add_done_callback(lambda done: done.cancelled() or done.exception())
            if not (await asyncio.wait([fetched], timeout=_FETCH_S))[0]:
                raise TimeoutError(f"its answer did not arrive within {_FETCH_S} s")
            return str(fetched.result())
        finally:
            future.release()

    def wait(self) -> list[Reply]:
        """Return replies, and the orders of workers that are gone; after a second none.

        Raises:
            UsageError: a worker or the scheduler has no hpabatch.
            UnfinishedError: the scheduler is gone.
        """
        found = []
        with suppress(queue.Empty):
            worker, done = self._replies.get(timeout=_POLL_S)
            if self._running.get(worker) is done:
                del self._running[worker]
                found.append(self._reply(worker, done))
        there = set(self.workers())
        for worker in [name for name in self._running if name not in there]:
            self._running.pop(worker).cancel()
            found.append(Reply(worker, {}, "it is gone", gone=True))
        return found

    def _reply(self, worker: str, done: Future[str]) -> Reply:
        """Return what came of an order."""
        try:
            answer = decode_json(done.result(), Answer)
        except UsageError:
            raise
        except Exception as error:  # (its worker died with it, in one of many ways)
            if _lacks_us(error):
                raise _not_installed(f"the scheduler at {self._address}") from error
            return Reply(worker, {}, brief(error))
        return Reply(worker, answer, answer.get("lost", ""))

    def close(self) -> None:
        """Take back all orders; a worker finishes the part that it is at, and nothing more."""
        with suppress(Exception):
            for running in self._running.values():
                running.cancel()
            # Those at an order are busy, or do not answer at all.
            idle = [worker for worker in self._workers if worker not in self._running]
            if idle and self._client.status == "running":
                asked = {"workers": idle, "on_error": "ignore", "callback_timeout": _LEAVE_S}
                self._client.run(leave, **asked)
        with suppress(Exception):
            self._client.close(timeout=2)
        _restore(self._levels)


def _not_installed(where: str) -> UsageError:
    return UsageError(
        f"{where}: expected hpabatch of this command's version, got none; install it there, with "
        "the same extras"
    )


def _lacks_us(error: BaseException) -> bool:
    """Whether an order could not be read for want of this package."""
    while not isinstance(error, ModuleNotFoundError):
        if error.__cause__ is None:
            return False
        error = error.__cause__
    return (error.name or "").startswith("hpabatch")


def _keep_quiet() -> dict[str, int]:
    """Leave it to this module's sentences to tell of lost connections: Dask writes tracebacks.

    Return the levels that its loggers had.
    """
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return levels


def _restore(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
