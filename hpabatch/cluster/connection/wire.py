"""One GET to an API server and its reply, counted; what a failed connection means."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Final
from urllib.parse import urlencode, urlsplit

import httpx2
from lightkube.core.exceptions import ConfigError

from hpabatch.cluster.connection.connect import Connection
from hpabatch.cluster.connection.errors import ApiError, Unreachable, asked_for, error_of_reply
from hpabatch.cluster.connection.requests import RequestCounter
from hpabatch.web.bounded import read_body

_CONNECT_S: Final = 10.0
_LONGEST_TEXT: Final = 2**14
_ERROR_BYTES: Final = 256 * 2**10
_ERROR_S: Final = 30.0
_OPENED: Final = ("connect_tcp.complete", "start_tls.complete")
_REASONS: Final = {
    errno.ECONNREFUSED: "connect: connection refused",
    errno.ECONNRESET: "read: connection reset by peer",
    errno.EHOSTUNREACH: "connect: no route to host",
    errno.ENETUNREACH: "connect: network is unreachable",
    errno.ETIMEDOUT: "read: connection timed out",
    errno.EPIPE: "write: broken pipe",
}

_BAD_HEADER: Final = (
    'net/http: invalid header field value for "Authorization": the token has more than one line, '
    "or what no header may have"
)

Trace = Callable[[str, Mapping[str, object]], None]


class Sockets:
    """Connections that were opened, so that another thread can end what waits on them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._shut = False

    def note(self, name: str, info: Mapping[str, object]) -> None:
        """Take a connection from what the HTTP client tells of its steps."""
        if not name.endswith(_OPENED):
            return
        found = getattr(info.get("return_value"), "get_extra_info", lambda _: None)("socket")
        if isinstance(found, socket.socket):
            with self._lock:
                self._sockets.add(found)
                shut = self._shut
            if shut:
                self.shut()

    def shut(self) -> None:
        """End all traffic, also of connections to come: whoever waits sees theirs end."""
        with self._lock:
            self._shut = True
            found = list(self._sockets)
        for one in found:
            with suppress(OSError):
                # Not the TLS layer's: it would take that layer from under the thread that reads.
                socket.socket.shutdown(one, socket.SHUT_RDWR)


class Wire:
    """Sends GETs over a connection. Several threads may send at once.

    Attributes:
        connection: to which server, and as who.
        stopped: no further request begins.
        requests: counts them.
    """

    def __init__(self, connection: Connection) -> None:
        """Prepare; nothing is sent yet."""
        self.connection = connection
        self.stopped = threading.Event()
        self.requests = RequestCounter()
        self._sockets = Sockets()

    def close(self) -> None:
        """End all requests under way, and begin no other."""
        self.stopped.set()
        self._sockets.shut()
        self.connection.close()

    def ended(self) -> ApiError:
        """Return the error of a request that this side ended."""
        return Unreachable("the client was closed", where=self.connection.server)

    def hide(self, text: str) -> str:
        """Return the first 16 KiB of what a server says, without the secrets of requests."""
        return self.connection.secrets.hide(text[:_LONGEST_TEXT])

    def refusal(self, reply: httpx2.Response, path: str) -> ApiError:
        """Return the error that a reply of another status than 200 is; its body is read."""
        body, _ = read_body(reply, _ERROR_BYTES, time.monotonic() + _ERROR_S)
        where = self.connection.server
        return error_of_reply(reply.status_code, reply.headers, body, path, where, self.hide)

    @contextmanager
    def replied(
        self,
        verb: str,
        path: str,
        params: Mapping[str, str],
        timeout: float,
        sockets: Sockets | None = None,
    ) -> Iterator[httpx2.Response]:
        """Send a GET and yield the reply of any status, body unread.

        A reply 401 and a failure of TLS are followed by a second attempt, if there are fresh
        credentials by then. A connection that fails, also while the body is read, is Unreachable.

        Args:
            verb: what it counts as.
            path: after the server's address.
            params: of the query.
            timeout: seconds until the reply begins, and between two pieces of its body.
            sockets: is given the connection, which is then this request's alone.
        """
        address = self.connection.server + path + ("?" + urlencode(params) if params else "")
        for last in (False, True):
            if self.stopped.is_set():
                raise self.ended()
            with self.connection.lease(alone=sockets is not None) as http, ExitStack() as stack:
                reply = self._send(http, verb, path, address, timeout, sockets)
                if isinstance(reply, httpx2.Response):
                    stack.callback(reply.close)
                if not last and _wants_login(reply) and self.connection.renew(http):
                    continue
                if isinstance(reply, ApiError):
                    raise reply
                try:
                    yield reply
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
        sockets: Sockets | None,
    ) -> httpx2.Response | Unreachable:
        def note(name: str, info: Mapping[str, object]) -> None:
            self._sockets.note(name, info)
            if sockets is not None:
                sockets.note(name, info)

        status = 0
        try:
            request = http.build_request(
                "GET", address,
                timeout=httpx2.Timeout(timeout, connect=min(_CONNECT_S, timeout), pool=None),
                extensions={"trace": note, **self.connection.extensions},
            )  # fmt: skip
            reply = self._reply_to(request, http, timeout)
            status = reply.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return self._failure(error, address)
        except (ConfigError, OSError, ValueError) as error:  # of credentials
            said = self.hide(str(error))
            return Unreachable(f"getting credentials: {said}", where=self.connection.server)
        finally:
            self.requests.add(verb, label(path), status)
        return reply

    def _reply_to(
        self, request: httpx2.Request, http: httpx2.Client, timeout: float
    ) -> httpx2.Response:
        try:
            with self.connection.deadline.within(timeout):
                return http.send(request, stream=True)
        finally:
            # Whoever gives credentials has added them to this very request.
            self.connection.secrets.note(request.headers.get("Authorization"))

    def _failure(self, error: Exception, address: str) -> Unreachable:
        """Return what a failure of the connection means, as the controller's client words it."""
        if self.stopped.is_set():
            return Unreachable("the client was closed", where=self.connection.server)
        text = f'Get "{address}": {self.hide(_reason(error, address))}'
        found = Unreachable(text, where=self.connection.server)
        found.of_tls = _cause(error, ssl.SSLError) is not None
        return found


def label(path: str) -> str:
    """Return what a path counts as: its resource, or the path where it has none.

    Metrics are counted by their API: their names may be many.
    """
    asked = asked_for(path)
    if not asked.resource:
        return path
    if asked.group in ("custom.metrics.k8s.io", "external.metrics.k8s.io"):
        return asked.group
    return asked.label


def _wants_login(reply: httpx2.Response | Unreachable) -> bool:
    return reply.of_tls if isinstance(reply, Unreachable) else reply.status_code == 401


def _cause(error: BaseException, kind: type[OSError]) -> OSError | None:
    """Return the first error of a kind in the chain of what led to one."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, kind):
            return found
        found = found.__cause__ or found.__context__
    return None


def _reason(error: Exception, address: str) -> str:
    tls = _cause(error, ssl.SSLError)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {tls.verify_message}"
    if tls is not None:
        return f"tls: {getattr(tls, 'reason', None) or tls}"
    if isinstance(error, httpx2.TimeoutException):
        return "context deadline exceeded"
    if isinstance(error, httpx2.LocalProtocolError):
        return _BAD_HEADER  # its own words quote the header, which may be a secret
    system = _cause(error, OSError)
    where = urlsplit(address)
    if isinstance(system, socket.gaierror):
        return f"dial tcp: lookup {where.hostname}: no such host"
    if system is not None and system.errno in _REASONS:
        port = where.port or (443 if where.scheme == "https" else 80)
        verb = "dial" if isinstance(error, httpx2.ConnectError) else "read"
        return f"{verb} tcp {where.hostname}:{port}: {_REASONS[system.errno]}"
    if isinstance(error, httpx2.RemoteProtocolError):
        said = str(error)
        if "without sending a response" in said:
            return "EOF"
        if "closed connection" in said:
            return "unexpected EOF"
        return f"net/http: HTTP/1.x transport connection broken: {said}"
    if isinstance(error, httpx2.DecodingError):
        return "the reply is packed in a way that was not asked for"
    return " ".join(str(error).split()) or type(error).__name__
