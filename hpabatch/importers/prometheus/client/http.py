"""Prometheus client: requests with retries, a limit of concurrency, and checked responses.

Retried are refused and cut connections, 429, 5xx, HTML pages in the place of JSON (replies.py), and
invalid responses (responses.py). A request that is too large has an error of its own, as a smaller
request may succeed. No message, log or `repr` shows a secret.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import httpx2
import stamina

from hpabatch.importers.prometheus.client.errors import (
    CredentialsError,
    GaveUpError,
    RefusedQueryError,
    RetryableError,
    StoppedError,
    TooMuchError,
)
from hpabatch.importers.prometheus.client.login import Login
from hpabatch.importers.prometheus.client.params import (
    Fields,
    Must,
    exact_fields,
    expected_at,
    expected_in_steps,
    names_field,
    seconds,
)
from hpabatch.importers.prometheus.client.replies import Reply, check_reply, check_size, flavour_of
from hpabatch.importers.prometheus.client.responses import (
    Expected,
    InvalidResponseError,
    decode,
    decode_facts,
    decode_values,
)
from hpabatch.importers.prometheus.client.samples import Findings, Samples, empty_samples
from hpabatch.importers.prometheus.client.series_requests import (
    RangeRequest,
    Request,
    SeriesRequest,
)
from hpabatch.importers.prometheus.client.wire import Figures, Limits, Wire

__all__ = [
    "CredentialsError", "Figures", "GaveUpError", "Limits", "RefusedQueryError", "Server",
    "StoppedError", "TooMuchError",
]  # fmt: skip

# Without any handler Python prints stamina's note of every retry to stderr.
logging.getLogger("stamina").addHandler(logging.NullHandler())

T = TypeVar("T")

_MOST_INVALID: Final = 5
_MOST_SLOW: Final = 2
_MOST_UNREACHED: Final = 4
"""Attempts at a server that never replied: a wrong address is reported soon."""
_NO_POST: Final = (403, 405)
_NO_SUCH_THING: Final = (400, 403, 404, 405, 406, 410, 422, 501)


class Server:
    """A Prometheus server, or one with its API; safe for several threads.

    Attributes:
        url: the address before /api/v1.
        limits: of concurrency, size, time and retries.
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
            tell: gets a sentence about every failed attempt.
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
        self._facts_lock = threading.Lock()
        self._facts: dict[str, str] | None = None
        self._posts = True
        self._exactly = True

    def __repr__(self) -> str:
        """Return the address and the login, without secrets."""
        return f"Server({self.url!r}, {self._wire.login!r})"

    def __enter__(self) -> Server:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and close the connections."""
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
        if isinstance(request, RangeRequest):
            if request.last_ms < request.first_ms:
                return empty_samples()
            return self.ranged(
                request.promql(), request.first_ms, request.last_ms, request.step_ms,
                must=request.allowed(),
            )  # fmt: skip
        must: Must = request.allowed()
        if isinstance(request, SeriesRequest) and request.form in ("raw", "now"):
            must = {"__name__": request.query.series[:1], **must}
        return self.instant(request.promql(), request.until_ms, must=must)

    def instant(self, query: str, at_ms: int, *, must: Must | None = None) -> Samples:
        """Return a vector, or the raw samples of a query that ends in a range.

        Args:
            query: PromQL.
            at_ms: when it is evaluated (ms UTC).
            must: see `response.Expected.must`.

        Raises:
            TooMuchError: a smaller request may succeed.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: no valid response.
        """
        fields = [("query", query), ("time", seconds(at_ms))]
        return self._samples("query", fields, expected_at(query, at_ms, must or {}))

    def ranged(
        self, query: str, start_ms: int, end_ms: int, step_ms: int, *, must: Must | None = None
    ) -> Samples:
        """Return the values of a query at `start_ms` and every `step_ms` after, up to `end_ms`.

        Some servers move the start to a multiple of the step: let it be one.

        Raises:
            TooMuchError: a smaller request may succeed.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: no valid response.
        """
        fields = [
            ("query", query), ("start", seconds(start_ms)), ("end", seconds(end_ms)),
            ("step", seconds(step_ms)),
        ]  # fmt: skip
        asked = expected_in_steps(start_ms, end_ms, step_ms, must or {})
        return self._samples("query_range", fields, asked)

    def label_values(
        self, label: str, matchers: Sequence[str], start_ms: int, end_ms: int
    ) -> list[str]:
        """Return the values of a label that series had in a time, in order.

        Args:
            label: its name.
            matchers: series selectors; none: of all series.
            start_ms, end_ms: the time; servers response for whole blocks of it.

        Raises:
            TooMuchError: a smaller request may succeed.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: no valid response.
        """
        # Prometheus and Thanos take no form here.
        return self._texts(self._get, f"label/{label}/values", matchers, start_ms, end_ms)

    def label_names(self, matchers: Sequence[str], start_ms: int, end_ms: int) -> list[str]:
        """Return the names of the labels that series had in a time, in order.

        Args:
            matchers: series selectors; none: of all series.
            start_ms, end_ms: the time; servers response for whole blocks of it.

        Raises:
            TooMuchError: a smaller request may succeed.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: no valid response.
        """
        return self._texts(self._post, "labels", matchers, start_ms, end_ms)

    def build_info(self) -> dict[str, str]:
        """Return the build information of the server with its "flavour"; {} if there is none.

        Raises:
            GaveUpError, CredentialsError, UsageError: it cannot be reached, or refuses the login.
        """
        with self._facts_lock:
            if self._facts is None:
                self._facts = self._fetch_facts()
            return dict(self._facts)

    @property
    def flavour(self) -> str:
        """What the server is: prometheus, thanos, mimir, cortex, victoriametrics or unknown."""
        return self.build_info().get("flavour", "unknown")

    def _samples(self, path: str, fields: Fields, asked: Expected) -> Samples:
        said = [*fields, ("timeout", f"{self.limits.timeout_s:g}s")]
        noted = Findings()

        def attempt() -> Samples:
            reply = self._exactly_asked(lambda more: self._post(path, [*said, *more]))
            return decode(reply.body, asked, noted)

        found = self._ask(attempt)
        self._wire.count(samples=found.count)
        self._note(noted)
        return found

    def _texts(
        self,
        send: Callable[[str, Fields], Reply],
        path: str,
        matchers: Sequence[str],
        start_ms: int,
        end_ms: int,
    ) -> list[str]:
        fields = [("match[]", matcher) for matcher in matchers]
        fields += [("start", seconds(start_ms)), ("end", seconds(end_ms))]
        noted = Findings()

        def attempt() -> list[str]:
            reply = self._exactly_asked(lambda more: send(path, [*fields, *more]))
            return decode_values(reply.body, noted)

        found = self._ask(attempt)
        self._note(noted)
        return found

    def _note(self, noted: Findings) -> None:
        with self._lock:
            for (kind, detail), count in noted.counts.items():
                self.findings.note(kind, self._wire.hide(detail), count)  # the server's own words

    def _ask(self, attempt: Callable[[], T], most_invalid: int = _MOST_INVALID) -> T:
        """Return the result of the first attempt that succeeds."""
        retries = _Retries(self._wire, self.limits, self._tell, most_invalid)
        # stamina does not wait: a stop must end a wait, and some waits hold back all threads.
        tries = stamina.retry_context(on=retries, attempts=self.limits.attempts, timeout=None)
        try:
            for one in tries:
                retries.wait()
                with one:
                    return self._try(attempt)
        except RetryableError as last:
            if retries.too_slow:
                raise TooMuchError(f"{last}, twice", "time") from None
            times = "once" if retries.failed <= 1 else f"{retries.failed} times"
            raise GaveUpError(
                f"{last}. It was tried {times}; to continue, repeat the command with --resume"
            ) from None
        raise AssertionError("stamina ends with a response or an error")

    def _try(self, attempt: Callable[[], T]) -> T:
        try:
            found = attempt()
        except InvalidResponseError as lie:
            told = self._wire.hide(str(lie))
            check_size(told, f"{self.url}: {told}")  # some send this with status 200
            raise RetryableError(f"{self.url}: {told}", invalid=True) from None
        self._wire.gate.answered()
        return found

    def _fetch_facts(self) -> dict[str, str]:
        """Return the build information; a server without any is no failure."""

        def attempt() -> dict[str, str]:
            reply = self._wire.exchange("GET", "status/buildinfo", [])
            if reply.status in _NO_SUCH_THING:
                return {}
            return decode_facts(self._check(reply).body)

        try:
            facts = self._ask(attempt, most_invalid=2)
        except TooMuchError as error:
            raise GaveUpError(str(error)) from None  # nothing can be smaller
        except GaveUpError:
            if not self.figures.by_status.get(200):
                raise
            return {}  # a page for every path
        return {"flavour": flavour_of(facts), **facts} if facts else {}

    def _exactly_asked(self, ask: Callable[[Fields], Reply]) -> Reply:
        """Return the reply to a request with the additional fields of this flavour."""
        flavour = self.flavour
        more = exact_fields(flavour) if self._exactly else []
        try:
            return ask(more)
        except RefusedQueryError as error:
            if flavour != "unknown" or not names_field(str(error), more):
                raise
            self._exactly = False
            return ask([])

    def _post(self, path: str, fields: Fields) -> Reply:
        """Return the reply to a form, or to an address where forms are not allowed."""
        if self._posts:
            reply = self._wire.exchange("POST", path, fields)
            if reply.status not in _NO_POST:
                return self._check(reply)
            other = self._wire.exchange("GET", path, fields)
            self._posts = other.status in _NO_POST
            return self._check(other)
        return self._get(path, fields)

    def _get(self, path: str, fields: Fields) -> Reply:
        return self._check(self._wire.exchange("GET", path, fields))

    def _check(self, reply: Reply) -> Reply:
        """Return a reply that may be a valid response."""
        check_reply(reply, self.url, time.time(), self._wire.hide)
        return reply


class _Retries:
    """Retry policy of one request, as a hook of stamina."""

    def __init__(
        self, wire: Wire, limits: Limits, tell: Callable[[str], None] | None, most_invalid: int
    ) -> None:
        self.failed = 0
        self.too_slow = False
        self._wire = wire
        self._limits = limits
        self._tell = tell
        self._left = {"invalid": most_invalid, "slow": _MOST_SLOW, "silent": _MOST_SLOW}
        self._wait_s = 0.0

    def __call__(self, error: Exception) -> float | bool:
        """Return for how long stamina itself waits, False: there is no other attempt."""
        if not isinstance(error, RetryableError):
            return False
        self.failed += 1
        most = self._limits.attempts
        if error.unreached and not self._wire.has_replied:
            most = min(most, _MOST_UNREACHED)
        goes_on = self.failed < most and not self._has_enough(error)
        backoff_s = self._limits.first_wait_s * 2 ** (self.failed - 1)
        # Jitter, so that requests that failed together are not retried together.
        wait_s = max(backoff_s * random.uniform(0.75, 1.25), error.wait_s or 0.0)  # noqa: S311
        wait_s = min(wait_s, self._limits.longest_wait_s)
        if error.busy:
            self._wire.gate.slow_down(wait_s, error.begun_s)
        self._wait_s = 0.0 if error.busy else wait_s
        if goes_on and self._tell is not None:
            self._tell(f"{error}: retry in {wait_s:.0f} s ({self.failed + 1} of {most})")
        return 0.0 if goes_on else False

    def wait(self) -> None:
        """Wait before an attempt, if this request alone has to."""
        if self.failed:
            self._wire.count(retries=1)
        self._wire.rest(self._wait_s)

    def _has_enough(self, error: RetryableError) -> bool:
        """Whether the failure will repeat, as it did so often."""
        for kind in self._left:
            self._left[kind] -= bool(getattr(error, kind))
        self.too_slow = self._left["slow"] <= 0
        if self._left["silent"] <= 0 and not self.too_slow:
            # No reply, twice: either the request is too large, or the server is gone.
            self.too_slow = self._wire.is_alive()
        return self.too_slow or self._left["invalid"] <= 0
