"""Prometheus client: requests in parallel, with retries, checked responses, halved where too large.

Statuses and timeouts decide what follows a failure, not the texts of servers (errors.py). A
request that is too large has an error of its own, as a smaller one may succeed. No message, log or
`repr` shows a secret.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

import httpx2

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.errors import (
    CredentialsError,
    GaveUpError,
    InvalidResponseError,
    RefusedQueryError,
    Reply,
    RetryableError,
    StoppedError,
    TooMuchError,
    check_reply,
)
from hpabatch.importers.prometheus.client.login import Login
from hpabatch.importers.prometheus.client.queries import RangeRequest, Request, seconds
from hpabatch.importers.prometheus.client.samples import (
    Findings,
    Samples,
    decode,
    decode_facts,
    decode_values,
    empty_samples,
    joined_samples,
)
from hpabatch.importers.prometheus.client.wire import Fields, Figures, Limits, Wire

__all__ = [
    "CredentialsError", "Figures", "GaveUpError", "Limits", "RefusedQueryError", "Server",
    "StoppedError", "TooMuchError",
]  # fmt: skip

T = TypeVar("T")

_EXACT: Final[Fields] = [
    ("dedup", "true"), ("partial_response", "false"), ("max_source_resolution", "0s"),
    ("nocache", "1"), ("deny_partial_response", "1"),
]  # fmt: skip
"""Fields for exact and complete responses; servers ignore what they do not know. The first three
are Thanos' own defaults, unless a site changed them. Without nocache VictoriaMetrics moves the
times of range queries to multiples of what it caches."""
_MOST_INVALID: Final = 5
_MOST_LARGE: Final = 2
"""Attempts at a request that can be divided instead."""
_MOST_UNREACHED: Final = 4
"""Attempts at a server that never replied: a wrong address is reported soon."""
_NO_POST: Final = (403, 405)
_NO_SUCH_THING: Final = (400, 403, 404, 405, 406, 410, 422, 501)


class Server:
    """A Prometheus server, or one with its API; safe for several threads.

    Attributes:
        url: the address before /api/v1.
        findings: counted in responses: "annotation" and "histogram", see `response.decode`.
    """

    def __init__(
        self,
        url: str,
        login: Login | None = None,
        limits: Limits | None = None,
        *,
        tell: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Args:
            url: an address before /api/v1; that itself at the end is dropped.
            login: None: without one.
            limits: None: the defaults.
            clock, sleep, transport: seconds that ascend, a wait, the carrier; for tests.

        Raises:
            UsageError: the address is invalid, or a certificate cannot be used.
        """
        self.limits = limits or Limits()
        self.findings = Findings()
        self._wire = Wire(url, login or Login(), self.limits, clock, sleep, transport)
        self.url = self._wire.url
        self._tell = tell
        self._lock = threading.Lock()
        self._posts = True
        self._exact = _EXACT

    def __repr__(self) -> str:
        return f"Server({self.url!r}, {self._wire.login!r})"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()

    def stop(self) -> None:
        """Begin no further request: waiting and retrying callers get a StoppedError."""
        self._wire.stopped.set()

    @property
    def figures(self) -> Figures:
        """What was asked so far, and what came back; a copy."""
        return self._wire.figures

    def fetch(self, request: Request) -> Samples:
        """Return the response to a request.

        Raises:
            TooMuchError: a smaller request may succeed.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: no valid response.
        """
        if isinstance(request, RangeRequest) and request.last_ms < request.first_ms:
            return empty_samples()
        expected = request.expected()
        noted = Findings()

        def attempt() -> Samples:
            return decode(self._asked(request).body, expected, noted)

        samples = self._retried(attempt, request)
        self._wire.count(samples=samples.count)
        self._note(noted)
        return samples

    def label_values(
        self, label: str, matchers: Sequence[str], start_ms: int, end_ms: int
    ) -> list[str]:
        """Return the values of a label that series had in a time, in order.

        Args:
            matchers: series selectors; none: of all series.
            start_ms, end_ms: the time; servers respond for whole blocks of it.

        Raises:
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: no valid response.
        """
        return self._texts(f"label/{label}/values", matchers, start_ms, end_ms)

    def label_names(self, matchers: Sequence[str], start_ms: int, end_ms: int) -> list[str]:
        """Return the names of the labels that series had in a time, as `label_values` does."""
        return self._texts("labels", matchers, start_ms, end_ms)

    def build_info(self) -> dict[str, str]:
        """Return the build information of the server, e.g. its version; {} if there is none.

        Raises:
            GaveUpError, CredentialsError, UsageError: it cannot be reached, or refuses the login.
        """

        def attempt() -> dict[str, str]:
            reply = self._wire.exchange("GET", "status/buildinfo", [])
            if reply.status in _NO_SUCH_THING:
                return {}
            try:
                return decode_facts(self._checked(reply).body)
            except InvalidResponseError:
                return {}  # a page for every path

        return self._retried(attempt)

    def _texts(self, path: str, matchers: Sequence[str], start_ms: int, end_ms: int) -> list[str]:
        fields = [("match[]", matcher) for matcher in matchers]
        fields += [("start", seconds(start_ms)), ("end", seconds(end_ms))]
        noted = Findings()
        texts = self._retried(lambda: decode_values(self._exactly(path, fields).body, noted))
        self._note(noted)
        return texts

    def _note(self, noted: Findings) -> None:
        with self._lock:
            for (kind, detail), count in noted.counts.items():
                self.findings.note(kind, self._wire.hide(detail), count)  # the server's own words

    def _retried(self, attempt: Callable[[], T], request: Request | None = None) -> T:
        """Return the result of the first attempt, at a request for series, that succeeds."""
        failed: Counter[str] = Counter()
        wait_s = 0.0
        while True:
            self._wire.rest(wait_s)
            try:
                result = attempt()
            except InvalidResponseError as invalid:
                told = f"{self.url}: {self._wire.hide(str(invalid))}"
                error = RetryableError(told, "invalid")
            except RetryableError as retryable:
                error = retryable
            else:
                self._wire.gate.answered()
                return result
            failed[error.failure] += 1
            wait_s = self._wait_s(error, failed, request)
            self._wire.count(retries=1)

    def _wait_s(
        self, error: RetryableError, failed: Counter[str], request: Request | None
    ) -> float:
        """Return how long this request alone waits for its next attempt.

        Raises:
            TooMuchError, GaveUpError, RefusedQueryError: there is no other attempt.
        """
        tries, most = failed.total(), self.limits.attempts
        backoff_s = self.limits.first_wait_s * 2 ** (tries - 1)
        # Jitter, so that requests that failed together are not retried together.
        wait_s = max(backoff_s * random.uniform(0.75, 1.25), error.wait_s)  # noqa: S311
        wait_s = min(wait_s, self.limits.longest_wait_s)
        if error.failure == "busy":
            self._wire.gate.slow_down(wait_s, error.begun_s)
        # Either the request is too large, or no request succeeds.
        is_too_large = (
            error.failure in ("large", "refused", "silent")
            and failed[error.failure] >= _MOST_LARGE
            and request is not None
            and request.halves() is not None
            and (self._wire.is_alive() if error.failure == "silent" else self._answers(request))
        )
        if is_too_large:
            raise TooMuchError(f"{error}, twice") from None
        if error.failure == "unreached" and not self._wire.has_replied:
            most = min(most, _MOST_UNREACHED)
        if failed["invalid"] >= _MOST_INVALID or tries >= most:
            times = "once" if tries == 1 else f"{tries} times"
            if error.failure == "refused":
                raise RefusedQueryError(
                    f"{error}. The server refuses this query; it was tried {times}"
                ) from None
            raise GaveUpError(
                f"{error}. It was tried {times}; to continue, repeat the command with --resume"
            ) from None
        if self._tell is not None:
            self._tell(f"{error}: retry in {wait_s:.0f} s ({tries + 1} of {most})")
        return 0.0 if error.failure == "busy" else wait_s

    def _answers(self, request: Request) -> bool:
        """Whether the server responds to the smallest part of a request."""
        while (halves := request.halves()) is not None:
            request = halves[1]  # the latest samples are the likeliest to exist
        try:
            self._asked(request)
        except (RetryableError, InvalidResponseError):
            return False
        return True

    def _asked(self, request: Request) -> Reply:
        path, fields = request.form_fields()
        return self._exactly(path, [*fields, ("timeout", f"{self.limits.timeout_s:g}s")])

    def _exactly(self, path: str, fields: Fields) -> Reply:
        """Return the reply to a request with the fields for exact responses.

        Google's API refuses fields that it does not know.
        """
        more = self._exact
        try:
            return self._sent(path, [*fields, *more])
        except RefusedQueryError as error:
            if not any(name in str(error) for name, _ in more):
                raise
            reply = self._sent(path, fields)
            self._exact = []
            return reply

    def _sent(self, path: str, fields: Fields) -> Reply:
        """Return the reply to a form, or to an address where forms are not allowed."""
        # Prometheus and Thanos take no form for the values of a label.
        if self._posts and not path.startswith("label/"):
            reply = self._wire.exchange("POST", path, fields)
            if reply.status not in _NO_POST:
                return self._checked(reply)
            other = self._wire.exchange("GET", path, fields)
            self._posts = other.status in _NO_POST
            return self._checked(other)
        return self._checked(self._wire.exchange("GET", path, fields))

    def _checked(self, reply: Reply) -> Reply:
        check_reply(reply, self.url, time.time(), self._wire.hide)
        return reply


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
