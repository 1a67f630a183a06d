"""HTTP requests with limits of size and time, and counters."""

from __future__ import annotations

import math
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies

import httpx2

from hpabatch import __version__
from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.client.errors import (
    CredentialsError,
    Reply,
    RetryableError,
    StoppedError,
    TooMuchError,
)
from hpabatch.importers.prometheus.client.login import Login, server_url
from hpabatch.web.bounded import pieces_of
from hpabatch.web.network import Network, Transport, proxy_of
from hpabatch.web.secrets import Secrets, bare_url, secrets_of_url

Fields = list[tuple[str, str]]
"""Names and values of a form."""

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
        response_bytes: the largest response, uncompressed.
        timeout_s: time for a request; it is sent to the server.
        longest_wait_s: the longest wait between two attempts, even if the server asks for more.
        first_wait_s: the first wait, about; each further one is about twice as long.
        gzip: accept compressed responses (a quarter of the size). Compression costs a Prometheus
            about as much time as the response itself.
    """

    concurrency: int = 2
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
        by_status: replies by status; 0: none came.
        bytes: of all replies, uncompressed.
        received_bytes: of all replies, as they came.
        largest_bytes, largest_samples: of one reply, and of one response.
        waited_s: from sending a request to its last byte, of all requests together.
        paused_s: the time that all threads together waited because the server asked for it.
    """

    requests: int = 0
    retries: int = 0
    by_status: dict[int, int] = field(default_factory=dict)
    bytes: int = 0
    received_bytes: int = 0
    samples: int = 0
    largest_bytes: int = 0
    largest_samples: int = 0
    waited_s: float = 0.0
    paused_s: float = 0.0


class Wire:
    """Carries requests to a server. Several threads may send at once.

    Attributes:
        url: the address before /api/v1.
        stopped: no further request begins.
        has_replied: the server has sent a reply.
    """

    def __init__(
        self,
        url: str,
        login: Login,
        limits: Limits,
        clock: Callable[[], float],
        sleep: Callable[[float], None] | None,
        transport: httpx2.BaseTransport | None,
    ) -> None:
        """Prepare; see `http.Server`."""
        self.url = server_url(url)
        self.stopped = threading.Event()
        self.has_replied = False
        self.gate = Gate(limits.concurrency, clock, self.rest)
        self._login = login
        self._limits = limits
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._figures = Figures()
        self._proxies = getproxies().values()
        self._secrets = Secrets(login.secrets().union(*map(secrets_of_url, self._proxies)))
        self._network = Network()
        self._timeout_s = limits.timeout_s + _GRACE_S
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
                    "Accept-Encoding": "gzip" if self._limits.gzip else "identity",
                    "User-Agent": f"hpabatch/{__version__}",
                },
                transport=transport or Transport(self._network, tls, limits, self._proxy()),
            )
        except (ImportError, ValueError, httpx2.InvalidURL):
            # The messages may quote a part of a password as a port.
            named = ", ".join(sorted({bare_url(proxy) for proxy in self._proxies}))
            raise UsageError(
                f"a proxy of the environment cannot be used ({named}): give HTTP_PROXY, "
                "HTTPS_PROXY and ALL_PROXY addresses such as http://proxy:3128, or unset them"
            ) from None

    def _proxy(self) -> str | None:
        """Return the proxy that the environment or the system names for the server."""
        names = {f"{scheme}_proxy": url for scheme, url in getproxies().items()}
        scheme, host = urlsplit(self.url).scheme, urlsplit(self.url).hostname or ""
        return proxy_of(scheme, host, names) or proxy_of("all", host, names)

    @property
    def login(self) -> Login:
        """The login, with the token that was read last."""
        return self._login

    def hide(self, text: str) -> str:
        """Return a message of a server without secrets of requests."""
        return self._secrets.hide(text)

    @property
    def figures(self) -> Figures:
        """Counters so far; a copy."""
        with self._lock:
            by_status = dict(sorted(self._figures.by_status.items()))
            return replace(self._figures, by_status=by_status, paused_s=self.gate.paused_s)

    def close(self) -> None:
        """Stop, and close the connections."""
        self.stopped.set()
        self._client.close()

    def rest(self, wait_s: float) -> None:
        """Wait, unless and until there is a stop.

        Raises:
            StoppedError: there was.
        """
        if wait_s > 0 and self._sleep is not None:
            self._sleep(wait_s)
        elif wait_s > 0:
            self.stopped.wait(wait_s)
        if self.stopped.is_set():
            raise StoppedError(f"{self.url}: no further request: the client was stopped")

    def count(self, retries: int = 0, samples: int = 0) -> None:
        """Count retries, or the samples of a response."""
        with self._lock:
            self._figures.retries += retries
            self._figures.samples += samples
            self._figures.largest_samples = max(self._figures.largest_samples, samples)

    def exchange(self, method: str, path: str, fields: Fields) -> Reply:
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
        reply = self._send(method, path, fields, login)
        if reply.status != 401:
            return reply
        with self._lock:
            if self._login is login:
                self._login = login.reread()
            fresh = self._login
        return reply if fresh == login else self._send(method, path, fields, fresh)

    def is_alive(self) -> bool:
        """Whether the server begins a reply to a small request; the reply is not read."""
        address = f"{self.url}/api/v1/status/buildinfo"
        headers = self._login.request_headers()
        try:
            with self._opened("GET", address, None, headers, _CONNECT_S):
                return True
        except httpx2.HTTPError:
            return False

    @contextmanager
    def _opened(
        self,
        method: str,
        address: str,
        content: bytes | None,
        headers: dict[str, str],
        wait_s: float,
    ) -> Iterator[httpx2.Response]:
        """Send a request and give its reply, which begins within a time; its body is unread."""
        self._secrets.note(headers.get("Authorization"))
        timeout = httpx2.Timeout(wait_s, connect=_CONNECT_S, pool=None)
        request = self._client.build_request(
            method, address, content=content, headers=headers, timeout=timeout
        )
        # All of them are queries, also those that are POSTed.
        with self._network.sending(wait_s, lambda sent: None):
            response = self._client.send(request, stream=True)
        try:
            yield response
        finally:
            response.close()

    def _send(self, method: str, path: str, fields: Fields, login: Login) -> Reply:
        address, form = f"{self.url}/api/v1/{path}", urlencode(fields)
        headers = login.request_headers()
        if method == "POST":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        elif form:
            address = f"{address}?{form}"
        content = form.encode() if method == "POST" else None
        with self.gate.request() as begun:
            status, body, received = 0, bytearray(), 0
            try:
                with self._opened(method, address, content, headers, self._timeout_s) as response:
                    status = response.status_code
                    self.has_replied = True
                    self._read(response, body, begun)
                    received = response.num_bytes_downloaded
            except httpx2.HTTPError as error:
                self._fail(error)
            finally:
                self._count(status, len(body), received, begun)
        return Reply(status, response.headers, body, begun)

    def _read(self, response: httpx2.Response, body: bytearray, begun: float) -> None:
        most, until = self._limits.response_bytes, begun + _SLOWEST * self._limits.timeout_s
        for chunk in pieces_of(response, math.inf, self._clock):
            body += chunk
            if len(body) > most:
                raise TooMuchError(f"{self.url} responds with more than {most / 2**20:.0f} MiB")
            if self._clock() > until:
                raise RetryableError(
                    f"{self.url}: the response was still coming after "
                    f"{_SLOWEST * self._limits.timeout_s:.0f} s",
                    "large",
                )
            if self.stopped.is_set():
                self.rest(0)

    def _count(self, status: int, size: int, received: int, begun: float) -> None:
        with self._lock:
            figures = self._figures
            figures.requests += 1
            figures.by_status[status] = figures.by_status.get(status, 0) + 1
            figures.bytes += size
            figures.received_bytes += received
            figures.largest_bytes = max(figures.largest_bytes, size)
            figures.waited_s += self._clock() - begun

    def _fail(self, error: httpx2.HTTPError) -> NoReturn:
        text = re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(error).split()))
        said = self.hide(text) or type(error).__name__
        self._fail_of_tls(said)
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
            raise RetryableError(f"{self.url} cannot be reached: {said}", "unreached") from None
        if isinstance(error, httpx2.ReadTimeout):
            told = f"{self.url} sent no reply for {self._timeout_s:.0f} s"
            raise RetryableError(told, "silent") from None
        if isinstance(error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
            raise UsageError(f"{self.url} cannot be asked: {said}") from None
        raise RetryableError(f"{self.url}: the reply was cut off: {said}", "passing") from None

    def _fail_of_tls(self, said: str) -> None:
        if "CERTIFICATE_VERIFY_FAILED" in said:
            raise CredentialsError(
                f"{self.url}: its certificate is not trusted ({said}). Name the file of the "
                "authority that signed it with --ca; --insecure trusts any server"
            )
        if any(text in said for text in _NO_TLS):
            raise UsageError(f"{self.url} speaks no TLS ({said}): begin --url with http://")
        if "alert" in said and ("certificate" in said or "handshake" in said or "ca" in said):
            raise CredentialsError(
                f"{self.url} refuses the client certificate ({said}): name one with --cert and "
                "--key that is signed by an authority it trusts"
            )


GOOD_ANSWERS: Final = 16
"""After this number in a row the limit grows by one."""
_LOOK_AGAIN_S: Final = 1.0


class Gate:
    """Lets threads through to a server.

    Attributes:
        paused_s: the time that all threads together waited because the server asked for it.
    """

    def __init__(
        self, width: int, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        """Let `width` requests through at once; `sleep` may raise, also when it need not wait."""
        self.width = width
        self.paused_s = 0.0
        self._clock = clock
        self._sleep = sleep
        self._changed = threading.Condition()
        self._allowed = width
        self._active = 0
        self._good = 0
        self._closed_until = clock()
        self._slowed_at = float("-inf")

    @contextmanager
    def request(self) -> Iterator[float]:
        """Wait until a request may begin, give the time when it does, and note its end."""
        begun = self._enter()
        try:
            yield begun
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    def answered(self) -> None:
        """Note a good response."""
        with self._changed:
            self._good += 1
            if self._good >= GOOD_ANSWERS and self._allowed < self.width:
                self._allowed += 1
                self._good = 0
                self._changed.notify_all()

    def slow_down(self, wait_s: float, begun: float) -> None:
        """Let no request through for a time, then half as many at once.

        Args:
            begun: when the refused request began. Of several that are refused at once, those that
                began before the limit was lowered do not lower it again.
        """
        with self._changed:
            now = self._clock()
            self._closed_until = max(self._closed_until, now + wait_s)
            self._good = 0
            if begun > self._slowed_at:
                self._allowed = max(1, self._allowed // 2)
                self._slowed_at = now

    def _enter(self) -> float:
        while True:
            self._sleep(0.0)
            with self._changed:
                now, closed_until = self._clock(), self._closed_until
                if now >= closed_until and self._active < self._allowed:
                    self._active += 1
                    return now
                if now >= closed_until:
                    self._changed.wait(_LOOK_AGAIN_S)
                    continue
            self._sleep(closed_until - now)
            with self._changed:
                self.paused_s += closed_until - now
                if self._closed_until == closed_until:
                    self._closed_until = now  # over: a clock may be a little behind its sleep
