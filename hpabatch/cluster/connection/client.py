"""The client of an API server: gets, lists in pages, watches. It reads only.

Nothing but GET is ever sent. Gets and lists are tried again where that may help, within one
deadline; a watch is one attempt, as only its asker knows from where it goes on (watch_part.py).
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec
import stamina

from hpabatch.cluster.connection.connect import Connection
from hpabatch.cluster.connection.errors import (
    BadAnswer,
    Busy,
    Expired,
    TooLarge,
    Unreachable,
)
from hpabatch.cluster.connection.requests import RequestCounter
from hpabatch.cluster.connection.skew import Dated
from hpabatch.cluster.connection.stream import LINE_BYTES, WatchStream
from hpabatch.cluster.connection.wire import Wire
from hpabatch.cluster.objects.objects import UNREADABLE
from hpabatch.web.bounded import read_body

__all__ = ["ApiClient", "Page"]

# Without any handler Python prints stamina's note of every retry to stderr.
logging.getLogger("stamina").addHandler(logging.NullHandler())

T = TypeVar("T")

GET_BYTES: Final = 64 * 2**20
PAGE_BYTES: Final = 256 * 2**20
PAGE_OBJECTS: Final = 500
_MOST_LISTS: Final = 3
_MOST_PAGES: Final = 2000  # of 500 objects: a million
_MOST_EMPTY: Final = 16
_OWN_PATH: Final = "/version"
_FIRST_WAIT_S: Final = 0.25
_LONGEST_WAIT_S: Final = 10.0


class Page(NamedTuple):
    """A page of a list.

    Attributes:
        items: its objects as they came; each holds the whole page in memory.
        resource_version: of the whole list.
        first: the list begins here; pages before it are of one that could not be ended.
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


class ApiClient:
    """Asks an API server. Several threads may ask at once."""

    def __init__(self, connection: Connection, *, attempts: int = 4) -> None:
        """Prepare to ask; nothing is sent yet.

        Args:
            connection: from `connect.connect`; it is closed with the client.
            attempts: how often a get or a page is asked for.
        """
        self._wire = Wire(connection)
        self._attempts = attempts

    def __enter__(self) -> ApiClient:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    @property
    def connection(self) -> Connection:
        """To which server, and as who."""
        return self._wire.connection

    @property
    def requests(self) -> RequestCounter:
        """How many requests were sent."""
        return self._wire.requests

    def hide(self, text: str) -> str:
        """Return the first 16 KiB of what a server says, without the secrets of requests."""
        return self._wire.hide(text)

    def close(self) -> None:
        """End all requests under way, whichever thread waits for them, and begin no other."""
        self._wire.close()

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
        """Return the body of a reply with status 200.

        Args:
            path: after the server's address, quoted where needed.
            params: of the query, not yet quoted.
            limit_bytes: a larger one is refused.
            timeout: seconds for all attempts together.
            attempts: how often it is asked for, None: as the client's.
            verb: what it counts as, get or list.

        Raises:
            ApiError: see `errors`.
        """
        until = time.monotonic() + timeout
        return self._tried(
            lambda: self._read(verb, path, params or {}, limit_bytes, until), until, attempts
        )

    def dated(self, timeout: float) -> Dated:
        """Return the Date of a reply that is the API server's own, asked for by one attempt.

        Args:
            timeout: seconds.

        Raises:
            ApiError: see `errors`.
        """
        asked_s = time.time()
        with self._wire.replied("get", _OWN_PATH, {}, timeout) as reply:
            came_s = time.time()
            if reply.status_code != 200:
                raise self._wire.refusal(reply, _OWN_PATH)
            read_body(reply, GET_BYTES, time.monotonic() + timeout)
            return Dated(reply.headers.get("date", ""), asked_s, came_s)

    def list_pages(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        chunk: int = PAGE_OBJECTS,
        limit_bytes: int = PAGE_BYTES,
        timeout: float = 60.0,
    ) -> Iterator[Page]:
        """Yield a list page by page, all of one resource version.

        A list whose continue token expired begins again, see `Page.first`. A page that is too
        large is asked for with fewer objects.

        Args:
            path: of the collection.
            params: of the query; `limit` and `continue` are set here.
            chunk: objects a page.
            limit_bytes: of a page.
            timeout: seconds for each page, all attempts together.

        Raises:
            ApiError: see `errors`; Expired if it expired again and again, BadAnswer if it has no
                end.
        """
        lists, token = 1, ""
        walk = _Walk(path)
        while True:
            asked = {**(params or {}), "limit": str(chunk)}
            if token:
                asked["continue"] = token
            try:
                found = self._page(path, asked, limit_bytes, timeout)
            except TooLarge:
                if chunk <= 1:
                    raise
                chunk = max(1, chunk // 4)
                continue
            except Expired:
                if not token or lists == _MOST_LISTS:
                    raise
                lists, token = lists + 1, ""
                walk = _Walk(path)
                continue
            meta = found.metadata or _ListMeta()
            yield Page(found.items or [], meta.resourceVersion or "", not token)
            token = meta.continue_ or ""
            if not token:
                return
            walk.check(token, bool(found.items))

    def watch(
        self,
        path: str,
        resource_version: str,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: int = 300,
        longest_line: int = LINE_BYTES,
    ) -> WatchStream:
        """Return a watch, which begins when it is entered, on a connection of its own.

        Args:
            path: of the collection.
            resource_version: from where it goes on.
            params: of the query, beside those of a watch.
            timeout_s: after which the server ends it.
            longest_line: bytes; a longer one ends it with TooLarge.
        """
        asked = {
            **(params or {}), "watch": "true", "allowWatchBookmarks": "true",
            "resourceVersion": resource_version, "timeoutSeconds": str(timeout_s),
        }  # fmt: skip
        return WatchStream(self._wire, path, asked, timeout_s, longest_line)

    def _page(
        self, path: str, params: Mapping[str, str], limit_bytes: int, timeout: float
    ) -> _List:
        until = time.monotonic() + timeout

        def attempt() -> _List:
            body = self._read("list", path, params, limit_bytes, until)
            try:
                return _LIST.decode(body)
            except UNREADABLE as error:
                where = self.connection.server
                raise BadAnswer(f"{path}: no list: {error}", 200, where=where) from None

        return self._tried(attempt, until, None)

    def _tried(self, attempt: Callable[[], T], until: float, attempts: int | None) -> T:
        """Return what one of several attempts gives."""
        patience = _Patience(until)
        most = self._attempts if attempts is None else attempts
        # The waits are not stamina's: a stop ends them.
        for one in stamina.retry_context(on=patience, attempts=most, timeout=None):
            if patience.wait_s and self._wire.stopped.wait(patience.wait_s):
                break
            with one:
                return attempt()
        raise self._wire.ended()

    def _read(
        self, verb: str, path: str, params: Mapping[str, str], limit_bytes: int, until: float
    ) -> bytes:
        left = max(until - time.monotonic(), 0.001)
        with self._wire.replied(verb, path, params, left) as reply:
            if reply.status_code != 200:
                raise self._wire.refusal(reply, path)
            body, complete = read_body(reply, limit_bytes, until)
            if not complete:
                raise TooLarge(
                    f"{path}: the answer is larger than {limit_bytes / 2**20:.3g} MiB",
                    200, where=self.connection.server,
                )  # fmt: skip
            return body


class _Walk:
    """The pages of one list so far, to tell when it has no end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._tokens: set[int] = set()
        self._empty = 0

    def check(self, token: str, has_objects: bool) -> None:
        """Take the continue token of a page.

        Raises:
            BadAnswer: the list cannot end, or is longer than any.
        """
        self._empty = 0 if has_objects else self._empty + 1
        if hash(token) in self._tokens:
            wrong = "a continue token that it gave before"
        elif self._empty > _MOST_EMPTY:
            wrong = f"{self._empty} pages without an object, one after the other"
        elif len(self._tokens) >= _MOST_PAGES:
            wrong = f"more than {_MOST_PAGES} pages"
        else:
            self._tokens.add(hash(token))
            return
        raise BadAnswer(f"{self._path}: expected a list that ends, got {wrong}", 200)


class _Patience:
    """Decides, as stamina's hook, whether a request is sent again, and when."""

    def __init__(self, until: float) -> None:
        self.wait_s = 0.0
        self._until = until
        self._backoff_s = _FIRST_WAIT_S

    def __call__(self, error: Exception) -> float | bool:
        """Return for how long stamina itself waits, False: it is not sent again."""
        again = isinstance(error, Unreachable | Busy) or (
            isinstance(error, BadAnswer) and error.status == 200 and not isinstance(error, TooLarge)
        )
        if not again:
            return False
        # Chance, so that those who failed together do not come together again.
        wait_s = self._backoff_s * random.uniform(0.5, 1.0)  # noqa: S311
        if isinstance(error, Busy) and error.retry_after is not None:
            wait_s = max(wait_s, error.retry_after)
        self._backoff_s = min(self._backoff_s * 2, _LONGEST_WAIT_S)
        self.wait_s = wait_s
        return 0.0 if time.monotonic() + wait_s < self._until else False
