"""Requests in parallel, halved where a response is too large, each response kept on disk.

There is one file for each finished request, until the rows of its window are in the store. An
interrupted import goes on from these files.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.history.atomic import atomic_path
from hpabatch.importers.common.work import disk_errors
from hpabatch.importers.prometheus.client.errors import TooMuchError
from hpabatch.importers.prometheus.client.http import Server
from hpabatch.importers.prometheus.client.samples import Samples, joined_samples
from hpabatch.importers.prometheus.client.series_requests import Request


@dataclass(slots=True)
class Pieces:
    """The finished pieces of an import, in a folder.

    Attributes:
        folder: their place.
    """

    folder: Path

    def read(self, key: str) -> Samples | None:
        """Return a finished piece, None where there is none (or its file is damaged)."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            series = json.loads(pl.read_parquet_metadata(path)["series"])
            types = dict.fromkeys(series, pl.String) | {"series": pl.UInt32}
            return Samples(pl.DataFrame(series, types), pl.read_parquet(path))
        except (OSError, ValueError, KeyError, pl.exceptions.PolarsError):
            return None

    def keep(self, key: str, samples: Samples) -> None:
        """Keep a piece, whole or not at all."""
        series = json.dumps(samples.series.to_dict(as_series=False))
        with disk_errors(self.folder), atomic_path(self._path(key)) as temporary:
            samples.points.write_parquet(temporary, compression="lz4", metadata={"series": series})

    def forget(self, keys: Iterable[str]) -> None:
        """Remove pieces that are not needed any more."""
        for key in keys:
            self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.parquet"


class Fetcher:
    """Gets responses, from the pieces that are there already or from the server.

    Attributes:
        samples: samples that came back from it.
        halved: requests that had to be divided.
    """

    def __init__(
        self,
        server: Server,
        pieces: Pieces,
        concurrency: int,
        most: int = 1 << 40,
    ) -> None:
        """Send a server at most `concurrency` requests at once.

        A response of more than `most` samples makes later requests of its kind smaller.
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

    def forget(self) -> None:
        """Remove the pieces of all responses so far: what they gave is in the store."""
        with self._lock:
            used, self._used = self._used, set()
            # What was too large once may have been too large for a moment only.
            self._too_much = {kind: 2 * size for kind, size in self._too_much.items()}
        self.pieces.forget(used)

    def _one(self, ask: Request) -> Samples:
        key = ask.key()
        with self._lock:
            self._used.add(key)
        found = self.pieces.read(key)
        if found is None:
            found = self._ask(ask)
            self.pieces.keep(key, found)
        return found

    def _ask(self, ask: Request) -> Samples:
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
