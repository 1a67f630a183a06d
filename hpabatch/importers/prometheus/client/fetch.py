"""Asking questions: few at once, halved where an answer is too large, each answered once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.ask import Question
from hpabatch.importers.prometheus.client.errors import TooMuchError
from hpabatch.importers.prometheus.client.pieces import Pieces
from hpabatch.importers.prometheus.client.samples import Samples, joined_samples


class Answering(Protocol):
    """What answers a question: `http.Server`, or a test."""

    def answer(self, question: Question, /) -> Samples:
        """Return the answer.

        Raises:
            TooMuchError: it is too large.
            UsageError: there is none, after all attempts.
        """

    def stop(self) -> None:
        """Begin no further request, and wait for none."""


class Fetcher:
    """Gets answers, from the pieces that are there already or from the server.

    Attributes:
        samples: samples that came back from it.
        halved: questions that had to be divided.
    """

    def __init__(
        self,
        server: Answering,
        pieces: Pieces,
        concurrency: int,
        most: int = 1 << 40,
    ) -> None:
        """Ask a server at most `concurrency` questions at once.

        An answer of more than `most` samples makes later questions of its kind smaller.
        """
        self.server = server
        self.pieces = pieces
        self.samples = 0
        self.halved = 0
        self._most = most
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="ask")
        self._too_much: dict[str, int] = {}
        self._used: set[str] = set()

    def __enter__(self) -> Fetcher:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let the questions that are on their way end, and drop the others."""
        if kind is not None:
            # Nobody waits for an answer any more: not for minutes of back-off either.
            self.server.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def get(self, asks: Sequence[Question]) -> list[Samples]:
        """Return the answers, in the order of the questions.

        Raises:
            UsageError: a question has no answer; no other one is begun then.
        """
        waiting: list[Future[Samples]] = [self._pool.submit(self._one, ask) for ask in asks]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise

    def joined(self, asks: Sequence[Question]) -> Samples:
        """Return the answers of several questions as one."""
        found = self.get(asks)
        return found[0] if len(found) == 1 else joined_samples(found)

    def forget(self) -> None:
        """Remove the pieces of all answers so far: what they gave is in the store."""
        with self._lock:
            used, self._used = self._used, set()
        self.pieces.forget(used)

    def _one(self, ask: Question) -> Samples:
        key = ask.key()
        with self._lock:
            self._used.add(key)
        found = self.pieces.read(key)
        if found is not None:
            with self._lock:
                self.pieces.reused += 1
            return found
        found = self._ask(ask)
        self.pieces.keep(key, found)
        return found

    def _ask(self, ask: Question) -> Samples:
        kind, size = ask.kind(), ask.size()
        halves = ask.halves()
        # Who found it too large once is not asked for as much again.
        if halves is not None and size >= self._too_much.get(kind, size + 1):
            return joined_samples([self._one(half) for half in halves])
        try:
            found = ask.ours(self.server.answer(ask))
        except TooMuchError as error:
            if error.reason == "query":
                # Too long a text gets no shorter by asking of less time.
                halves = ask.halves(by_name=True) or halves
            if halves is None:
                raise UsageError(
                    f"{error}; it cannot be asked in smaller parts: {ask.promql()[:200]}"
                ) from None
            with self._lock:
                self.halved += 1
                self._too_much[kind] = min(size, self._too_much.get(kind, size))
            return joined_samples([self._one(half) for half in halves])
        with self._lock:
            self.samples += found.count
            if halves is not None and found.count > self._most:
                self._too_much[kind] = min(size, self._too_much.get(kind, size))
        return found
