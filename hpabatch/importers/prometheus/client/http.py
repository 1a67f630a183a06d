"""Prometheus client: requests in parallel, with limits, retries and checks, halved where too large.

Statuses and timeouts decide what follows a failure, not the texts of servers (errors.py). A
request that is too large has an error of its own, as a smaller one may succeed. No message, log or
`repr` shows a secret.
"""

from __future__ import annotations

import math
import random
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, NoReturn, TypeVar
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies

import httpx2

from hpabatch import __version__
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
from hpabatch.importers.prometheus.client.login import Login, server_url
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
from hpabatch.web.network import Network, Transport, pieces_of, proxy_of
from hpabatch.web.secrets import Secrets, bare_url, secrets_of_url

__all__ = [
    "CredentialsError", "Figures", "GaveUpError", "Limits", "RefusedQueryError", "Server",
    "StoppedError", "TooMuchError",
]  # fmt: skip

T = TypeVar("T")
Fields = list[tuple[str, str]]
"""Names and values of a form."""

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
_CONNECT_S: Final = 15.0
_GRACE_S: Final = 15.0
"""Additional time in which a server can report its own timeout."""
_SLOWEST: Final = 4
"""Time from first to last byte of a response, in multiples of the timeout."""
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "record layer failure", "packet length too long")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a client.

    Attributes:
        concurrency: requests at once.
        most_samples: a larger response makes later requests of its kind smaller.
        response_bytes: the largest response, uncompressed.
        timeout_s: time for a request; it is sent to the server.
        longest_wait_s: the longest wait between two attempts, even if the server asks for more.
        first_wait_s: the first wait, about; each further one is about twice as long.
        gzip: accept compressed responses (a quarter of the size). Compression costs a Prometheus
            about as much time as the response itself.
    """

    concurrency: int = 2
    most_samples: int = 1 << 40
    response_bytes: int = 256 * 2**20
    timeout_s: float = 120.0
    attempts: int = 8
    longest_wait_s: float = 120.0
    first_wait_s: float = 1.0
    gzip: bool = True


@dataclass(slots=True)
class Figures:
    """Counters of requests and replies.

    Attributes:
        requests: that were sent, retries among them.
        retries: attempts after the first.
        bytes: of all replies, uncompressed.
        largest_samples: of one response.
        paused_s: the time that all threads together waited because the server asked for it.
    """

    requests: int = 0
    retries: int = 0
    bytes: int = 0
    samples: int = 0
    largest_samples: int = 0
    paused_s: float = 0.0


class Server:
    """A Prometheus server, or one with its API; safe for several threads.

    Attributes:
        url: the address before /api/v1.
        findings: counted in responses: "annotation" and "histogram", see `samples.decode`.
        samples: samples that came back, as far as they were requested.
        halved: requests that had to be divided.
    """

    def __init__(
        self,
        url: str,
        login: Login | None = None,
        limits: Limits | None = None,
        *,
        tell: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
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
        self.url = server_url(url)
        self.limits = limits or Limits()
        self.findings = Findings()
        self.samples = 0
        self.halved = 0
        self._pool = ThreadPoolExecutor(self.limits.concurrency, thread_name_prefix="ask")
        self._too_much: dict[str, int] = {}
        self._login = login or Login()
        self._tell = tell
        self._clock = clock
        self._stopped = threading.Event()
        self._sleep = sleep or self._stopped.wait
        self._lock = threading.Lock()
        self._figures = Figures()
        self._paused_until = clock()
        self._has_replied = False
        self._posts = True
        self._exact = _EXACT
        self._proxies = getproxies()
        addresses = self._proxies.values()
        self._secrets = Secrets(self._login.secrets().union(*map(secrets_of_url, addresses)))
        self._network = Network()
        self._timeout_s = self.limits.timeout_s + _GRACE_S
        self._client = self._make(transport)

    def _make(self, transport: httpx2.BaseTransport | None) -> httpx2.Client:
        # Loading the usual authorities takes a while; without TLS none are needed.
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls = self._login.tls() if self.url.startswith("https:") else bare
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=30)
        try:
            return httpx2.Client(
                timeout=httpx2.Timeout(self._timeout_s, connect=_CONNECT_S, pool=None),
                headers={
                    "Accept": "application/json",
                    "Accept-Encoding": "gzip" if self.limits.gzip else "identity",
                    "User-Agent": f"hpabatch/{__version__}",
                },
                transport=transport or Transport(self._network, tls, limits, self._proxy()),
            )
        except (ImportError, ValueError, httpx2.InvalidURL):
            # The messages may quote a part of a password as a port.
            named = ", ".join(sorted({bare_url(proxy) for proxy in self._proxies.values()}))
            raise UsageError(
                f"a proxy of the environment cannot be used ({named}): give HTTP_PROXY, "
                "HTTPS_PROXY and ALL_PROXY addresses such as http://proxy:3128, or unset them"
            ) from None

    def _proxy(self) -> str | None:
        """Return the proxy that the environment or the system names for the server."""
        names = {f"{scheme}_proxy": url for scheme, url in self._proxies.items()}
        scheme, host = urlsplit(self.url).scheme, urlsplit(self.url).hostname or ""
        return proxy_of(scheme, host, names) or proxy_of("all", host, names)

    def __repr__(self) -> str:
        return f"Server({self.url!r}, {self._login!r})"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        """Let the requests that are on their way end, and drop the others."""
        self.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def stop(self) -> None:
        """Begin no further request: waiting and retrying callers get a StoppedError."""
        self._stopped.set()

    @property
    def figures(self) -> Figures:
        """What was asked so far, and what came back; a copy."""
        with self._lock:
            return replace(self._figures)

    def get(self, asks: Sequence[Request]) -> list[Samples]:
        """Return the responses to several requests, in their order, divided where too large.

        Raises:
            UsageError: a request has no response; no other one is begun then.
        """
        waiting: list[Future[Samples]] = [self._pool.submit(self._whole, ask) for ask in asks]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise

    def joined(self, asks: Sequence[Request]) -> Samples:
        """Return the responses to several requests as one."""
        found = self.get(asks)
        return found[0] if len(found) == 1 else joined_samples(found)

    def retry_sizes(self) -> None:
        """Ask for twice as much again: what was too large may have been so for a moment only."""
        with self._lock:
            self._too_much = {kind: 2 * size for kind, size in self._too_much.items()}

    def _whole(self, ask: Request) -> Samples:
        kind, size, halves = ask.kind(), ask.size(), ask.halves()
        # A request of a size that was too large once is divided at once.
        if halves is not None and size >= self._too_much.get(kind, size + 1):
            return joined_samples([self._whole(half) for half in halves])
        try:
            found = ask.ours(self.fetch(ask))
        except TooMuchError as error:
            if halves is None:
                raise UsageError(
                    f"{error}; it cannot be divided further: {ask.promql()[:200]}"
                ) from None
            with self._lock:
                self.halved += 1
            first = self._whole(halves[0])
            # Only now the size is known to be the reason.
            with self._lock:
                self._too_much[kind] = min(size, self._too_much.get(kind, size))
            return joined_samples([first, self._whole(halves[1])])
        with self._lock:
            self.samples += found.count
            if halves is not None and found.count > self.limits.most_samples:
                self._too_much[kind] = min(size, self._too_much.get(kind, size))
        return found

    def fetch(self, request: Request) -> Samples:
        """Return the response to a request.

        Raises:
            TooMuchError: a smaller request may succeed.
            GaveUpError, CredentialsError, RefusedQueryError, UsageError: no valid response.
        """
        if isinstance(request, RangeRequest) and request.last_ms < request.first_ms:
            return empty_samples()
        expected, noted = request.expected(), Findings()
        samples = self._retried(
            lambda: decode(self._asked(request).body, expected, noted), noted, request
        )
        with self._lock:
            self._figures.samples += samples.count
            self._figures.largest_samples = max(self._figures.largest_samples, samples.count)
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
        fields = [("match[]", matcher) for matcher in matchers]
        fields += [("start", seconds(start_ms)), ("end", seconds(end_ms))]
        path, noted = f"label/{label}/values", Findings()
        return self._retried(lambda: decode_values(self._exactly(path, fields).body, noted), noted)

    def build_info(self) -> dict[str, str]:
        """Return the build information of the server, e.g. its version; {} if there is none.

        Raises:
            GaveUpError, CredentialsError, UsageError: it cannot be reached, or refuses the login.
        """

        def attempt() -> dict[str, str]:
            reply = self._exchange("GET", "status/buildinfo", [])
            if reply.status in _NO_SUCH_THING:
                return {}
            try:
                return decode_facts(self._checked(reply).body)
            except InvalidResponseError:
                return {}  # a page for every path

        return self._retried(attempt, Findings())

    def _retried(
        self, attempt: Callable[[], T], noted: Findings, request: Request | None = None
    ) -> T:
        """Return the result of the first attempt, at a request for series, that succeeds.

        What it `noted` is added to the server's findings.
        """
        failed: Counter[str] = Counter()
        while True:
            self._rest(0.0)
            try:
                result = attempt()
                break
            except InvalidResponseError as invalid:
                told = f"{self.url}: {self._secrets.hide(str(invalid))}"
                error = RetryableError(told, "invalid")
            except RetryableError as retryable:
                error = retryable
            failed[error.failure] += 1
            wait_s = self._wait_s(error, failed, request)
            with self._lock:
                self._figures.retries += 1
            self._rest(wait_s)
        with self._lock:
            for (kind, detail), count in noted.counts.items():
                self.findings.note(kind, self._secrets.hide(detail), count)  # the server's words
        return result

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
        if error.failure == "busy":  # all requests wait, see `_send`
            with self._lock:
                self._paused_until = max(self._paused_until, self._clock() + wait_s)
        # Either the request is too large, or no request succeeds.
        is_too_large = (
            error.failure in ("large", "refused", "silent")
            and failed[error.failure] >= _MOST_LARGE
            and request is not None
            and request.halves() is not None
            and (self._is_alive() if error.failure == "silent" else self._answers(request))
        )
        if is_too_large:
            raise TooMuchError(f"{error}, twice") from None
        if error.failure == "unreached" and not self._has_replied:
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

    def _is_alive(self) -> bool:
        """Whether the server responds to a small request soon."""
        try:
            self._send("GET", "status/buildinfo", [], self._login, _CONNECT_S)
        except RetryableError:
            return False
        return True

    def _rest(self, wait_s: float) -> None:
        """Wait, unless and until there is a stop (StoppedError)."""
        if wait_s > 0:
            self._sleep(wait_s)
        if self._stopped.is_set():
            raise StoppedError(f"{self.url}: no further request: the client was stopped")

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
            reply = self._exchange("POST", path, fields)
            if reply.status not in _NO_POST:
                return self._checked(reply)
            other = self._exchange("GET", path, fields)
            self._posts = other.status in _NO_POST
            return self._checked(other)
        return self._checked(self._exchange("GET", path, fields))

    def _checked(self, reply: Reply) -> Reply:
        check_reply(reply, self.url, self._secrets.hide)
        return reply

    def _exchange(self, method: str, path: str, fields: Fields) -> Reply:
        """Return a reply of any status, in full; a refused token is read again first.

        Args:
            method: GET, or POST with the fields as a form.
            path: after /api/v1/.

        Raises:
            RetryableError: there was none.
            TooMuchError: it is larger than the limit.
            CredentialsError: the server wants a client certificate.
            UsageError: the server cannot be spoken to.
        """
        login = self._login
        reply = self._send(method, path, fields, login, self._timeout_s)
        if reply.status != 401:
            return reply
        with self._lock:
            if self._login is login:
                self._login = login.reread()
            fresh = self._login
        return reply if fresh == login else self._send(method, path, fields, fresh, self._timeout_s)

    def _send(
        self, method: str, path: str, fields: Fields, login: Login, timeout_s: float
    ) -> Reply:
        address, form = f"{self.url}/api/v1/{path}", urlencode(fields)
        headers, content = login.request_headers(), None
        if method == "POST":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            content = form.encode()
        elif form:
            address = f"{address}?{form}"
        while (pause_s := self._paused_until - self._clock()) > 0:
            self._rest(pause_s)
            with self._lock:
                self._figures.paused_s += pause_s
        begun = self._clock()
        timeout = httpx2.Timeout(timeout_s, connect=_CONNECT_S, pool=None)
        request = self._client.build_request(
            method, address, content=content, headers=headers, timeout=timeout
        )
        body = bytearray()
        try:
            # All of them are queries, also those that are POSTed.
            with self._network.sending(timeout_s, lambda sent: None):
                response = self._client.send(request, stream=True)
            try:
                self._has_replied = True
                self._read(response, body, begun)
            finally:
                response.close()
        except httpx2.HTTPError as error:
            self._fail(error)
        finally:
            with self._lock:
                self._figures.requests += 1
                self._figures.bytes += len(body)
        return Reply(response.status_code, response.headers, body)

    def _read(self, response: httpx2.Response, body: bytearray, begun: float) -> None:
        most, slowest_s = self.limits.response_bytes, _SLOWEST * self.limits.timeout_s
        for chunk in pieces_of(response, math.inf, self._clock):
            body += chunk
            if len(body) > most:
                raise TooMuchError(f"{self.url} responds with more than {most / 2**20:.0f} MiB")
            if self._clock() > begun + slowest_s:
                told = f"{self.url}: the response was still coming after {slowest_s:.0f} s"
                raise RetryableError(told, "large")
            self._rest(0.0)

    def _fail(self, error: httpx2.HTTPError) -> NoReturn:
        text = re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(error).split()))
        said = self._secrets.hide(text) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in said:
            raise CredentialsError(
                f"{self.url}: its certificate is not trusted ({said}). Name the file of the "
                "authority that signed it with --ca; --insecure trusts any server"
            ) from None
        if any(text in said for text in _NO_TLS):
            raise UsageError(
                f"{self.url} speaks no TLS ({said}): begin --url with http://"
            ) from None
        if "alert" in said and ("certificate" in said or "handshake" in said or "ca" in said):
            raise CredentialsError(
                f"{self.url} asks for a client certificate ({said}): reach it through a proxy on "
                "this machine that shows one"
            ) from None
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
            raise RetryableError(f"{self.url} cannot be reached: {said}", "unreached") from None
        if isinstance(error, httpx2.ReadTimeout):
            told = f"{self.url} sent no reply for {self._timeout_s:.0f} s"
            raise RetryableError(told, "silent") from None
        if isinstance(error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
            raise UsageError(f"{self.url} cannot be asked: {said}") from None
        raise RetryableError(f"{self.url}: the reply was cut off: {said}", "passing") from None
