"""Kubernetes API client, read-only: gets, paged lists, watches, several requests at once.

Only GET requests are sent. Gets and lists are retried within one deadline; a watch is one attempt,
because only its caller knows where to resume (`cluster.watch.watch`).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Final, Generic, NamedTuple, Self, TypeVar

import httpx2
import msgspec

from hpabatch.cluster.connection.connect import Connection
from hpabatch.cluster.connection.errors import (
    ApiError,
    Busy,
    Expired,
    InvalidResponse,
    TooLarge,
    Unreachable,
)
from hpabatch.cluster.connection.wire import Wire
from hpabatch.cluster.objects.objects import UNREADABLE
from hpabatch.web.network import Sockets, plain_pieces, read_body

DEADLINE_ERROR: Final = "context deadline exceeded"
_GLANCE_S: Final = 0.2  # interval of a run's checks for `end`

ResultT = TypeVar("ResultT")


class NeverBegunError(TimeoutError):
    """The deadline came before a call was started."""


class RequestPool(Generic[ResultT]):
    """Runs of calls that end by a deadline or are abandoned.

    A call gets the seconds that are left and must end within them; a late call keeps its thread
    until it ends, and does not delay later runs, which have threads of their own.
    """

    def __init__(self, workers: int = 8, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the number of concurrent calls (at least 1); the clock counts seconds."""
        self._workers = max(1, workers)
        self._clock = clock
        self._ended = threading.Event()

    def run(
        self, calls: Sequence[Callable[[float], ResultT]], deadline: float
    ) -> list[ResultT | BaseException]:
        """Return each call's result, or what it raised; TimeoutError: it was late.

        NeverBegunError stands for the calls that were not started in time.

        Args:
            calls: in the order in which they are started.
            deadline: on this pool's clock.
        """
        executor = ThreadPoolExecutor(self._workers, "hpabatch-request")
        futures = [executor.submit(self._begin, call, deadline) for call in calls]
        until = time.monotonic() + deadline - self._clock()
        while not self._ended.is_set():
            left = max(0.0, until - time.monotonic())
            if not wait(futures, timeout=min(left, _GLANCE_S)).not_done or not left:
                break
        executor.shutdown(wait=False, cancel_futures=True)
        return [self._result(future) for future in futures]

    def end(self) -> None:
        """End a running `run` soon, later ones at once: their calls are late. For any thread."""
        self._ended.set()

    def now(self) -> float:
        """Return the time on this pool's clock, seconds."""
        return self._clock()

    def _begin(self, call: Callable[[float], ResultT], deadline: float) -> ResultT:
        left = deadline - self._clock()
        if left <= 0 or self._ended.is_set():
            raise NeverBegunError(DEADLINE_ERROR)
        return call(left)

    def _result(self, future: Future[ResultT]) -> ResultT | BaseException:
        if future.cancelled():
            return NeverBegunError(DEADLINE_ERROR)
        if not future.done():
            return TimeoutError(DEADLINE_ERROR)
        return future.exception() or future.result()


LINE_BYTES: Final = 32 * 2**20
_REPLY_S: Final = 30.0
"""Time limit of the beginning of a watch."""
_GRACE_S: Final = 30.0
"""A server counts as gone when a watch lasts longer than requested by this."""


class WatchStream:
    """A running watch. One thread enters it and reads its lines, any thread may end it."""

    def __init__(
        self, wire: Wire, path: str, params: Mapping[str, str], timeout_s: int, longest_line: int
    ) -> None:
        """Prepare; see `ApiClient.watch`."""
        self._wire = wire
        self._path = path
        self._params = params
        self._timeout_s = timeout_s
        self._longest_line = longest_line
        self._sockets = Sockets()
        self._stack = ExitStack()
        self._response: httpx2.Response | None = None

    def __enter__(self) -> WatchStream:
        """Begin.

        Raises:
            ApiError: it was refused, or there was no response.
        """
        with ExitStack() as stack:
            response = stack.enter_context(
                self._wire.replied("watch", self._path, self._params, _REPLY_S, self._sockets)
            )
            if response.status_code != 200:
                raise self._wire.refusal(response, self._path)
            # From now on there may be no data until the server ends it.
            response.request.extensions["timeout"]["read"] = self._timeout_s + _GRACE_S
            self._response = response
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        return self._stack.__exit__(type(error) if error else None, error, None)

    def __iter__(self) -> Iterator[bytes]:
        """Yield its lines, each one event, until the server ends it.

        Raises:
            TooLarge: a line is too long.
        """
        assert self._response is not None, "enter it first"
        return split_lines(self._pieces(self._response), self._longest_line, self._path)

    def _pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        """Yield the pieces until the server ends the watch, or should have ended it."""
        until = time.monotonic() + self._timeout_s + _GRACE_S
        for piece in plain_pieces(response):
            yield piece
            if time.monotonic() > until:
                return

    def end(self) -> None:
        """End it from another thread: its reader gets an Unreachable instead of the next line."""
        self._sockets.shut()


def split_lines(pieces: Iterator[bytes], longest: int, what: str = "") -> Iterator[bytes]:
    """Yield the lines of a body that comes in pieces, without their ends.

    Raises:
        TooLarge: a line is longer than `longest` bytes.
    """
    kept: list[bytes] = []
    size = 0
    for piece in pieces:
        start, end = 0, piece.find(b"\n")
        while end >= 0:
            line = piece[start:end]
            if kept:
                kept.append(line)
                line = b"".join(kept)
                kept, size = [], 0
            if len(line) > longest:
                raise TooLarge(_too_long(longest, what), 200)
            if line:
                yield line
            start, end = end + 1, piece.find(b"\n", end + 1)
        if start < len(piece):
            kept.append(piece[start:])
            size += len(piece) - start
            if size > longest:
                raise TooLarge(_too_long(longest, what), 200)
    if kept:
        yield b"".join(kept)


def _too_long(longest: int, what: str) -> str:
    return f"{what}: an event of more than {longest / 2**20:.3g} MiB was not read"


T = TypeVar("T")

GET_BYTES: Final = 64 * 2**20
PAGE_BYTES: Final = 256 * 2**20
PAGE_OBJECTS: Final = 500
_PAGE_S: Final = 60.0  # for each page, all attempts together
_MOST_LISTS: Final = 3
_MOST_PAGES: Final = 2000  # of 500 objects: a million
_OWN_PATH: Final = "/version"
_FIRST_WAIT_S: Final = 0.25
_LONGEST_WAIT_S: Final = 10.0


class Page(NamedTuple):
    """A page of a list.

    Attributes:
        items: its objects, undecoded; each holds the whole page in memory.
        first: the list begins here; earlier pages are of a list that could not be finished.
    """

    items: list[msgspec.Raw]
    resource_version: str
    first: bool


class _ListMeta(msgspec.Struct, gc=False):
    resourceVersion: str | None = None  # noqa: N815
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta | None = None
    items: list[msgspec.Raw] | None = None


_LIST: Final = msgspec.json.Decoder(_List)


class ApiClient(Wire):
    """Client of an API server. Several threads may use it at once."""

    def __init__(self, connection: Connection, *, attempts: int = 4) -> None:
        """Prepare; nothing is sent yet.

        Args:
            connection: from `connect.connect`; it is closed with the client.
            attempts: number of attempts of a get or a page.
        """
        super().__init__(connection)
        self._attempts = attempts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        limit_bytes: int = GET_BYTES,
        timeout: float = 30.0,
        attempts: int | None = None,
        verb: str = "get",
    ) -> bytes:
        """Return the body of a response with status 200.

        Args:
            path: after the server's address, quoted where needed.
            params: of the query, not yet quoted.
            limit_bytes: a larger one is refused.
            timeout: seconds for all attempts together.
            attempts: number of attempts, None: the client's.
            verb: counted as get or list.

        Raises:
            ApiError: see `errors`.
        """
        until = time.monotonic() + timeout
        return self._tried(
            lambda: self._read(verb, path, params or {}, limit_bytes, until), until, attempts
        )

    def date(self, timeout: float) -> tuple[float, str, float]:
        """Return the Date of a response of the API server itself, from one attempt.

        It stands between the local times (UTC s) of request and response.

        Args:
            timeout: seconds.

        Raises:
            ApiError: see `errors`.
        """
        asked_s = time.time()
        with self.replied("get", _OWN_PATH, {}, timeout) as response:
            came_s = time.time()
            if response.status_code != 200:
                raise self.refusal(response, _OWN_PATH)
            read_body(response, GET_BYTES, time.monotonic() + timeout)
            return asked_s, response.headers.get("date", ""), came_s

    def list_pages(self, path: str, *, chunk: int = PAGE_OBJECTS) -> Iterator[Page]:
        """Yield a list page by page, all of one resource version.

        A list whose continue token expired begins again, see `Page.first`. A page that is too
        large is requested with fewer objects.

        Args:
            chunk: objects a page.

        Raises:
            ApiError: see `errors`; Expired if it expired again and again, InvalidResponse if it
                has no end.
        """
        lists, token, pages = 1, "", 0
        while True:
            query = {"limit": str(chunk)} | ({"continue": token} if token else {})
            try:
                found = self._page(path, query)
            except TooLarge:
                if chunk <= 1:
                    raise
                chunk = max(1, chunk // 4)
                continue
            except Expired:
                if not token or lists == _MOST_LISTS:
                    raise
                lists, token, pages = lists + 1, "", 0
                continue
            meta = found.metadata or _ListMeta()
            yield Page(found.items or [], meta.resourceVersion or "", not token)
            token = meta.continue_ or ""
            if not token:
                return
            pages += 1
            if pages >= _MOST_PAGES:
                wrong = f"{path}: expected a list that ends, got {pages} pages and no end"
                raise InvalidResponse(wrong, 200)

    def watch(
        self,
        path: str,
        resource_version: str,
        *,
        timeout_s: int = 300,
        longest_line: int = LINE_BYTES,
    ) -> WatchStream:
        """Return a watch, which begins when it is entered, on a connection of its own.

        Args:
            resource_version: from which it resumes.
            timeout_s: the server ends it after this.
            longest_line: bytes; a longer line ends it with TooLarge.
        """
        query = {
            "watch": "true", "allowWatchBookmarks": "true",
            "resourceVersion": resource_version, "timeoutSeconds": str(timeout_s),
        }  # fmt: skip
        return WatchStream(self, path, query, timeout_s, longest_line)

    def _page(self, path: str, params: Mapping[str, str]) -> _List:
        until = time.monotonic() + _PAGE_S

        def attempt() -> _List:
            body = self._read("list", path, params, PAGE_BYTES, until)
            try:
                return _LIST.decode(body)
            except UNREADABLE as error:
                where = self.connection.server
                raise InvalidResponse(f"{path}: no list: {error}", 200, where=where) from None

        return self._tried(attempt, until, None)

    def _tried(self, attempt: Callable[[], T], until: float, attempts: int | None) -> T:
        left = self._attempts if attempts is None else attempts
        backoff_s = _FIRST_WAIT_S
        while True:
            left -= 1
            try:
                return attempt()
            except ApiError as error:
                # Random, so that clients whose requests failed together do not retry together.
                wait_s = backoff_s * random.uniform(0.5, 1.0)  # noqa: S311
                if isinstance(error, Busy) and error.retry_after is not None:
                    wait_s = max(wait_s, error.retry_after)
                is_late = time.monotonic() + wait_s >= until
                if left <= 0 or is_late or not _is_transient(error):
                    raise
            backoff_s = min(backoff_s * 2, _LONGEST_WAIT_S)
            if self.stopped.wait(wait_s):
                raise self.ended()

    def _read(
        self, verb: str, path: str, params: Mapping[str, str], limit_bytes: int, until: float
    ) -> bytes:
        left = max(until - time.monotonic(), 0.001)
        with self.replied(verb, path, params, left) as response:
            if response.status_code != 200:
                raise self.refusal(response, path)
            body, complete = read_body(response, limit_bytes, until)
            if not complete:
                raise TooLarge(
                    f"{path}: the response is larger than {limit_bytes / 2**20:.3g} MiB",
                    200, where=self.connection.server,
                )  # fmt: skip
            return body


def _is_transient(error: ApiError) -> bool:
    cut_off = isinstance(error, InvalidResponse) and error.status == 200
    return isinstance(error, Unreachable | Busy) or (cut_off and not isinstance(error, TooLarge))
