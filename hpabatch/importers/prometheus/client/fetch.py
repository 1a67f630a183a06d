"""Requests in parallel, halved where a response is too large."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.errors import TooMuchError
from hpabatch.importers.prometheus.client.http import Server
from hpabatch.importers.prometheus.client.samples import Samples, joined_samples
from hpabatch.importers.prometheus.client.series_requests import Request


class Fetcher:
    """Gets responses from a server.

    Attributes:
        samples: samples that came back from it.
        halved: requests that had to be divided.
    """

    def __init__(self, server: Server, concurrency: int, most: int = 1 << 40) -> None:
        """Send a server at most `concurrency` requests at once.

        A response of more than `most` samples makes later requests of its kind smaller.
        """
        self.server = server
        self.samples = 0
        self.halved = 0
        self._most = most
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="ask")
        self._too_much: dict[str, int] = {}

    def __enter__(self) -> Fetcher:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let the requests that are on their way end, and drop the others."""
        if kind is not None:
            # No response is needed any more, so the waits of retries end, too.
            self.server.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def get(self, asks: Sequence[Request]) -> list[Samples]:
        """Return the responses, in the order of the requests.

        Raises:
            UsageError: a request has no response; no other one is begun then.
        """
        waiting: list[Future[Samples]] = [self._pool.submit(self._one, ask) for ask in asks]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise

    def joined(self, asks: Sequence[Request]) -> Samples:
        """Return the responses of several requests as one."""
        found = self.get(asks)
        return found[0] if len(found) == 1 else joined_samples(found)

    def retry_sizes(self) -> None:
        """Ask for twice as much again: what was too large may have been so for a moment only."""
        with self._lock:
            self._too_much = {kind: 2 * size for kind, size in self._too_much.items()}

    def _one(self, ask: Request) -> Samples:
        kind, size = ask.kind(), ask.size()
        halves = ask.halves()
        # A request of a size that was too large once is divided at once.
        if halves is not None and size >= self._too_much.get(kind, size + 1):
            return joined_samples([self._one(half) for half in halves])
        try:
            found = ask.ours(self.server.fetch(ask))
        except TooMuchError as error:
            if halves is None:
                raise UsageError(
                    f"{error}; it cannot be divided further: {ask.promql()[:200]}"
                ) from None
            with self._lock:
                self.halved += 1
            first = self._one(halves[0])
            # Only now the size is known to be the reason.
            with self._lock:
                self._too_much[kind] = min(size, self._too_much.get(kind, size))
            return joined_samples([first, self._one(halves[1])])
        with self._lock:
            self.samples += found.count
            if halves is not None and found.count > self._most:
                self._too_much[kind] = min(size, self._too_much.get(kind, size))
        return found
