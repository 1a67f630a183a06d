"""Dask workers, through their scheduler: each has a worker process of hpabatch beside it.

An order travels as a string and comes back as one. It is done in a process of its own, which has
the threads that the Dask worker has, and whose death takes nothing else with it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from hpabatch.errors import UnfinishedError
from hpabatch.inputs.workers import TLS_FILES, Spread
from hpabatch.jobs.processes import brief, leave, not_installed, relay

NO_WORKER_S: Final = 60.0
"""Time that a scheduler may be without any worker."""

WARN_EVERY_S: Final = 20.0
_CONNECT_S: Final = 15
_POLL_S: Final = 1.0
_ASK_S: Final = 30
_GREET_S: Final = 5
_LEAVE_S: Final = 10
_log = logging.getLogger(__name__)


def _greet(address: str, security: Any) -> None:
    """Make sure that a scheduler is there (OSError, TimeoutError, ValueError: it is not).

    Dask's own client tries again and again whatever it meets, and nobody can end that. In a thread:
    the caller may have a running loop, and a signal must get through.
    """
    from distributed.comm.core import connect
    from distributed.core import send_recv

    arguments = {} if security is None else security.get_connection_args("client")
    heard: Future[Any] = Future()

    async def ask() -> Any:
        comm = await connect(  # type: ignore[no-untyped-call]
            address, timeout=_CONNECT_S, **arguments
        )
        try:
            return await send_recv(comm, op="identity")
        finally:
            comm.abort()

    def answer() -> None:
        try:
            heard.set_result(asyncio.run(asyncio.wait_for(ask(), _CONNECT_S)))
        except BaseException as error:  # noqa: BLE001  (the caller raises it)
            heard.set_exception(error)

    threading.Thread(target=answer, daemon=True).start()
    kind = heard.result(_CONNECT_S + _POLL_S).get("type")
    if kind != "Scheduler":
        raise ValueError(f"it is a Dask {kind}")


class DaskPool:
    """The workers of a Dask scheduler, however many there are at a time."""

    def __init__(self, spread: Spread) -> None:
        """Connect (UnfinishedError: no scheduler answers; UsageError: a worker lacks hpabatch)."""
        from distributed import Client, Security

        # Dask writes tracebacks about lost connections, of which this module's sentences tell.
        names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
        self._levels = {name: logging.getLogger(name).level for name in names}
        for name in names:
            logging.getLogger(name).setLevel(logging.CRITICAL)
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
            _greet(self._address, security)
            self._client: Any = Client(  # type: ignore[no-untyped-call]
                self._address,
                timeout=_CONNECT_S,
                security=security,
                set_as_default=False,
                direct_to_workers=False,
            )
        except (OSError, TimeoutError, ValueError) as error:
            self._restore()
            raise UnfinishedError(
                f"--scheduler {self._address} does not answer as a Dask scheduler "
                f"({brief(error)}): start it, or check its port (usually 8786), the network and "
                "whether both sides use TLS with certificates of the same authority"
            ) from error
        except BaseException:
            self._restore()
            raise
        self._workers: list[str] = []
        self._seen, self._present, self._warned = 0.0, time.monotonic(), time.monotonic()
        # A worker that cannot read an order would end.
        asked: dict[str, Any] = {"on_error": "return", "callback_timeout": _GREET_S}
        with suppress(OSError, TimeoutError):
            for worker, found in self._client.run(version, "hpabatch", **asked).items():
                if isinstance(found, PackageNotFoundError):
                    self.close()
                    raise not_installed(worker)

    def workers(self) -> Sequence[str]:
        """Return the addresses of the workers.

        Raises:
            UnfinishedError: the scheduler is gone, or has had no worker for too long.
        """
        with self._or_gone():
            if self._client.status != "running":
                raise OSError("the connection is closed")
            if (now := time.monotonic()) - self._seen >= _POLL_S:
                asked = self._client.scheduler.ncores
                found = self._client.sync(asked, workers=None, callback_timeout=_ASK_S)
                self._workers, self._seen = sorted(found), now
        if self._workers:
            self._present = self._warned = now
        elif now - self._present > NO_WORKER_S:
            raise UnfinishedError(
                f"the scheduler has had no worker for {NO_WORKER_S:.0f} s; start some, then "
                "give the same command again"
            )
        elif now - self._warned >= WARN_EVERY_S:
            self._warned = now
            _log.warning(
                "the scheduler has no worker: waiting for one, %.0f s of %.0f s",
                *(now - self._present, NO_WORKER_S),
            )
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

    def start(self, worker: str, order: str) -> Future[str]:
        """Give a worker an order; if it dies, another does it."""
        with self._or_gone():
            pinned = {"workers": [worker], "allow_other_workers": True}
            future = self._client.submit(relay, order, pure=False, retries=0, **pinned)
            # Not its executor: that never answers where an answer is lost on the way.
            loop = self._client.loop.asyncio_loop
            return asyncio.run_coroutine_threadsafe(future._result(), loop)

    def close(self) -> None:
        """Take back all orders; a worker finishes the part that it is at, and nothing more."""
        with suppress(Exception):
            if self._workers and self._client.status == "running":
                asked = {"on_error": "ignore", "callback_timeout": _LEAVE_S}
                self._client.run(leave, workers=self._workers, **asked)
        with suppress(Exception):
            self._client.close(timeout=2)
        self._restore()

    def _restore(self) -> None:
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
