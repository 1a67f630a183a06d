"""Single requests to an API server: request counts, responses, connection failures."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlencode

import httpx2

from hpabatch.cluster.connection.connect import Connection
from hpabatch.cluster.connection.errors import (
    ApiError,
    Unreachable,
    Withheld,
    error_of_reply,
    requested_resource,
)
from hpabatch.web.network import SocketOption, Sockets, read_body


class Body(NamedTuple):
    """The method and body of a writing request; `media` is its content type."""

    method: str
    content: bytes
    media: str


class Request(NamedTuple):
    """A counted request: `verb` as in RBAC rules, `resource` e.g. deployments.apps/scale.

    `status` is of the response, 0: there was none.
    """

    verb: str
    resource: str
    status: int


class RequestCounter:
    """Counter of requests, including retries. Several threads may use it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Request, int] = {}

    def add(self, verb: str, resource: str, status: int) -> None:
        """Count a request whose response has begun, or failed."""
        key = Request(verb, resource, status)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1

    @property
    def total(self) -> int:
        """The number of requests."""
        with self._lock:
            return sum(self._counts.values())

    def snapshot(self) -> Mapping[Request, int]:
        """Return a copy of the counts."""
        with self._lock:
            return dict(self._counts)


_CONNECT_S: Final = 10.0
_LONGEST_TEXT: Final = 2**14
_ERROR_BYTES: Final = 256 * 2**10
_ERROR_S: Final = 30.0
_READS: Final = (b"GET ", b"CONNECT ", b"\x05", b"\x01")
"""First bytes of reading requests, and of what opens a connection through a proxy."""
_BAD_HEADER: Final = (
    'net/http: invalid header field value for "Authorization": the token has more than one line, '
    "or what no header may have"
)

_UNSENT: Final[list[SocketOption]] = [
    (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
]
"""Socket options that end unsent bytes with their connection.

Without them the kernel sends the rest of a closed connection for minutes: a size that was given up
would reach the server while another instance leads. The first makes closing drop it, also when this
process is killed; the second ends a connection without an acknowledgment for 2 s, also while this
process is suspended.
"""
if hasattr(socket, "TCP_USER_TIMEOUT"):
    _UNSENT.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, struct.pack("i", 2000)))

Fence = Callable[[float], str]


class Wire:
    """Sender of requests over a connection. Several threads may use it at once.

    Attributes:
        stopped: no further request is sent.
    """

    def __init__(self, connection: Connection) -> None:
        """Prepare; nothing is sent yet, and only GET is ever sent."""
        self.connection = connection
        self._may_write = False
        self._fence: Fence | None = None
        self.stopped = threading.Event()
        self.requests = RequestCounter()

    def allow_writes(self, fence: Fence | None) -> None:
        """Let other requests than GET be sent.

        Args:
            fence: is asked right before bytes of a writing request leave, also those of the second
                attempt, with the request's time limit (s); returns why they may not, or "".
        """
        self._may_write, self._fence = True, fence
        self.connection.network.options += _UNSENT

    def close(self) -> None:
        """End all running requests, and start no other."""
        self.stopped.set()
        self.connection.network.sockets.shut()
        self.connection.close()

    def ended(self) -> ApiError:
        """Return the error of a request ended by `close`."""
        return Unreachable("the client was closed", where=self.connection.server)

    def hide(self, text: str) -> str:
        """Return the first 16 KiB of a server's message, without the secrets of requests."""
        return self.connection.secrets.hide(text[:_LONGEST_TEXT])

    def refusal(self, response: httpx2.Response, path: str) -> ApiError:
        """Return the error of a response with a status other than 200; its body is read."""
        body, _ = read_body(response, _ERROR_BYTES, time.monotonic() + _ERROR_S)
        where = self.connection.server
        return error_of_reply(response.status_code, response.headers, body, path, where, self.hide)

    @contextmanager
    def replied(
        self,
        verb: str,
        path: str,
        params: Mapping[str, str],
        timeout: float,
        sockets: Sockets | None = None,
        body: Body | None = None,
    ) -> Iterator[httpx2.Response]:
        """Send a request and yield the response of any status, body unread.

        A response 401 and a failure of TLS are followed by a second attempt, if there are fresh
        credentials by then. A connection that fails, also while the body is read, is Unreachable.
        The time limit of a writing request includes getting credentials and the second attempt.

        Args:
            path: after the server's address.
            timeout: seconds until the response begins, and between two pieces of its body.
            sockets: receives the connection.
            body: of a writing request; None: a GET.

        Raises:
            AssertionError: a writing request on a read-only wire.
            Withheld: a writing request was not sent.
        """
        if body is not None and not self._may_write:
            raise AssertionError(f"{body.method} {path}: this client is read-only")
        address = self.connection.server + path + ("?" + urlencode(params) if params else "")
        until = time.monotonic() + timeout
        for last in (False, True):
            if self.stopped.is_set():
                raise self.ended()
            http = self.connection.client()
            with ExitStack() as stack:
                response = self._send(http, verb, path, address, timeout, until, sockets, body)
                if isinstance(response, httpx2.Response):
                    stack.callback(response.close)
                if not last and _wants_login(response) and self.connection.renew(http):
                    continue
                if isinstance(response, ApiError):
                    raise response
                try:
                    yield response
                except httpx2.HTTPError as error:
                    raise self._failure(error, address) from None
            return

    def _send(
        self,
        http: httpx2.Client,
        verb: str,
        path: str,
        address: str,
        timeout: float,
        until: float,
        sockets: Sockets | None,
        body: Body | None,
    ) -> httpx2.Response | Unreachable:
        status = 0
        try:
            request = http.build_request(
                "GET" if body is None else body.method, address,
                content=None if body is None else body.content,
                headers=None if body is None else {"Content-Type": body.media},
                timeout=httpx2.Timeout(timeout, connect=min(_CONNECT_S, timeout), pool=None),
                extensions=dict(self.connection.extensions),
            )  # fmt: skip
            left = timeout if body is None else until - time.monotonic()
            fence = partial(self._check_fence, body, path, timeout, until)
            with self.connection.network.sending(left, fence, sockets):
                response = self._response_to(request, http)
            status = response.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return self._failure(error, address, body)
        except RuntimeError:
            if not http.is_closed:
                raise
            return Unreachable("the client was closed", where=self.connection.server)
        except (OSError, ValueError) as error:  # of credentials
            said = self.hide(str(error))
            return Unreachable(f"getting credentials: {said}", where=self.connection.server)
        finally:
            self.requests.add(verb, label(path), status)
        return response

    def _check_fence(
        self, body: Body | None, path: str, timeout: float, until: float, sent: bytes
    ) -> None:
        """Raise Withheld if bytes of a writing request may not leave now.

        Credentials and connection are there by now: a plugin may have taken a minute for them.
        """
        if body is None:
            if not sent.startswith(_READS):
                raise AssertionError("only a GET is sent without a body")
            return
        why = "" if time.monotonic() < until else "its time limit passed before it could be sent"
        if not why and self._fence is not None:
            why = self._fence(timeout)
        if why:
            raise Withheld(f"{body.method} {path} was not sent: {why}")

    def _response_to(self, request: httpx2.Request, http: httpx2.Client) -> httpx2.Response:
        try:
            return http.send(request, stream=True)
        finally:
            # The authentication has added the credentials to this request.
            self.connection.secrets.note(request.headers.get("Authorization"))

    def _failure(self, error: Exception, address: str, body: Body | None = None) -> Unreachable:
        if self.stopped.is_set():
            return Unreachable("the client was closed", where=self.connection.server)
        method = "Get" if body is None else body.method.capitalize()
        text = f'{method} "{address}": {self.hide(_reason(error))}'
        found = Unreachable(text, where=self.connection.server)
        found.of_tls = _cause(error, ssl.SSLError) is not None
        return found


def label(path: str) -> str:
    """Return the resource that a path is counted as, or the path where it has none.

    Metrics are counted by API, because there may be many names.
    """
    requested = requested_resource(path)
    if not requested.resource:
        return path
    if requested.group in ("custom.metrics.k8s.io", "external.metrics.k8s.io"):
        return requested.group
    return requested.label


def _wants_login(response: httpx2.Response | Unreachable) -> bool:
    return response.of_tls if isinstance(response, Unreachable) else response.status_code == 401


def _cause(error: BaseException, kind: type[OSError]) -> OSError | None:
    """Return the first error of a kind in the chain of causes."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, kind):
            return found
        found = found.__cause__ or found.__context__
    return None


def _reason(error: Exception) -> str:
    tls = _cause(error, ssl.SSLError)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {tls.verify_message}"
    if tls is not None:
        return f"tls: {getattr(tls, 'reason', None) or tls}"
    if isinstance(error, httpx2.TimeoutException):
        return "context deadline exceeded"
    if isinstance(error, httpx2.LocalProtocolError):
        return _BAD_HEADER  # its own message quotes the header, which may be a secret
    system = _cause(error, OSError)
    if system is not None and system.strerror:
        return system.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__
