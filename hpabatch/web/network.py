"""Connections of an HTTP client: fences, deadlines, bodies of a bounded size.

All bytes of a client pass here, below the HTTP library. It bounds the time between two pieces of a
response. A server that now and then sends a byte of its headers, or an interim response (1xx), is
not bounded by that: hence a deadline. Bytes leave only inside a request that its thread has
announced, and each time its fence is asked first.
"""

from __future__ import annotations

import importlib
import ipaddress
import socket
import ssl
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import httpcore2
import httpx2

_TAKEN: Final = ("", "identity", "gzip")
"""gzip compresses at most about a thousandfold; compressed twice, or by a denser code, 64 KiB can
expand to more than any memory."""
_PIECE_BYTES: Final = 2**20


def pieces_of(
    response: httpx2.Response, until: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[bytes]:
    """Yield the pieces of a body, at least one per received chunk; they may be empty.

    Args:
        response: its body was not read yet.
        until: by the clock; no piece is awaited after that.
        clock: monotonic seconds.

    Raises:
        httpx2.ReadTimeout: it was not complete at the deadline.
        httpx2.DecodingError: its encoding is unsupported, as it could expand to any size, or wrong.
    """
    for piece in plain_pieces(response):
        yield piece
        if clock() > until:
            raise httpx2.ReadTimeout("the response was not complete", request=response.request)


def plain_pieces(response: httpx2.Response) -> Iterator[bytes]:
    """Yield the pieces of a body however long it takes, see `pieces_of`."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _TAKEN:
        raise httpx2.DecodingError("a Content-Encoding that was not requested")
    return _unpacked(response.iter_raw()) if encoding == "gzip" else response.iter_raw()


def _unpacked(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield decompressed pieces, at least one per received chunk.

    The HTTP library's decoder yields nothing while there is no output: for a header without an
    end, or for data after the end, which it keeps in memory.
    """
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    for packed in raw:
        try:
            piece = unpacker.decompress(packed, _PIECE_BYTES)
            yield piece
            while piece:
                piece = unpacker.decompress(unpacker.unconsumed_tail, _PIECE_BYTES)
                yield piece
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from None
        if unpacker.unused_data:
            raise httpx2.DecodingError("bytes after the end of what gzip packed")


def read_body(response: httpx2.Response, most: int, until: float) -> tuple[bytes, bool]:
    """Return a body, and whether that is all of it: not if it is larger than `most` bytes.

    Raises:
        httpx2.HTTPError: see `pieces_of`, or the connection failed.
    """
    pieces, size = [], 0
    for piece in pieces_of(response, until):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            return b"".join(pieces)[:most], False
    return b"".join(pieces), True


SocketOption = tuple[int, int, int] | tuple[int, int, bytes]
Fence = Callable[[bytes], None]
"""Is called with bytes right before they leave, and raises an error if they may not."""

_ERRORS: Final = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)


class Sockets:
    """Opened sockets, so that another thread can end all traffic on them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._shut = False

    def add(self, opened: socket.socket) -> None:
        """Take a socket; after `shut` its traffic ends at once."""
        with self._lock:
            self._sockets.add(opened)
            shut = self._shut
        if shut:
            self.shut()

    def shut(self) -> None:
        """End all traffic, also of later sockets: waiting threads get an error."""
        with self._lock:
            self._shut = True
            for one in self._sockets:
                with suppress(OSError):
                    # Not the TLS layer's: it would take it from under the thread that reads.
                    socket.socket.shutdown(one, socket.SHUT_RDWR)


class _Sending(NamedTuple):
    """The request that a thread sends; `until` is monotonic."""

    until: float
    fence: Fence
    sockets: Sockets | None


class Network(httpcore2.NetworkBackend):
    """Opens the connections of a client. Several threads may use it at once.

    Attributes:
        options: of each socket, set once it is connected.
        sockets: all that were opened.
    """

    def __init__(self, options: Iterable[SocketOption] = ()) -> None:
        """Begin without connections."""
        self.options = [*options]
        self.sockets = Sockets()
        self._inner = httpcore2.SyncBackend()
        self._own = threading.local()

    @contextmanager
    def sending(
        self, seconds: float, fence: Fence, sockets: Sockets | None = None
    ) -> Iterator[None]:
        """Let this thread send a request inside the block.

        Args:
            seconds: after which its waits end with httpx2.ReadTimeout.
            fence: of its bytes.
            sockets: receives the connections of the request.
        """
        self._own.sending = _Sending(time.monotonic() + seconds, fence, sockets)
        try:
            yield
        finally:
            self._own.sending = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _Stream:
        """Open a connection (httpcore2.NetworkError, httpcore2.TimeoutException: it failed)."""
        options = [*(socket_options or ()), *self.options]
        inner = self._inner.connect_tcp(host, port, self.left(timeout), local_address, options)
        return _Stream(inner, self)

    def sleep(self, seconds: float) -> None:
        """Wait between two attempts to connect."""
        self._inner.sleep(seconds)

    def left(self, timeout: float | None) -> float | None:
        """Return the time limit of one wait (s) whose own limit is `timeout`."""
        sending = self._sending()
        if sending is None:
            return timeout
        left = max(sending.until - time.monotonic(), 0.001)
        return left if timeout is None else min(timeout, left)

    def check(self, buffer: bytes, opened: socket.socket) -> None:
        """Raise an error unless this thread may send these bytes now."""
        sending = self._sending()
        if sending is None:
            raise AssertionError("bytes leave only inside a request that was announced")
        if sending.sockets is not None:  # it may have been opened by another request
            sending.sockets.add(opened)
        sending.fence(buffer)

    def note(self, opened: socket.socket) -> None:
        """Take a socket that this thread has opened."""
        self.sockets.add(opened)
        sending = self._sending()
        if sending is not None and sending.sockets is not None:
            sending.sockets.add(opened)

    def _sending(self) -> _Sending | None:
        return getattr(self._own, "sending", None)


class _Stream(httpcore2.NetworkStream):
    """A connection of a network."""

    def __init__(self, inner: httpcore2.NetworkStream, network: Network) -> None:
        self._inner, self._network = inner, network
        network.note(inner.get_extra_info("socket"))

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._network.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self._network.check(buffer, self._inner.get_extra_info("socket"))
            self._inner.write(buffer, self._network.left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> _Stream:
        plain = self._inner.get_extra_info("socket")
        # The handshake takes the socket itself away, and may hang for its limit.
        with socket.fromfd(plain.fileno(), plain.family, plain.type) as greeting:
            self._network.note(greeting)
            left = self._network.left(timeout)
            inner = self._inner.start_tls(ssl_context, server_hostname, left)
            return _Stream(inner, self._network)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class Transport(httpx2.BaseTransport):
    """HTTP over a network; the library's own transport takes none."""

    def __init__(
        self, network: Network, tls: ssl.SSLContext, limits: httpx2.Limits, proxy: str | None
    ) -> None:
        """Prepare; nothing is sent yet.

        Raises:
            ValueError, httpx2.InvalidURL: `proxy` cannot be one.
            ImportError: it needs a package that is not installed.
        """
        self._pool = httpcore2.ConnectionPool(
            tls,
            None if proxy is None else _proxy(httpx2.Proxy(proxy)),
            limits.max_connections,
            limits.max_keepalive_connections,
            limits.keepalive_expiry,
            network_backend=network,
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return its response, body unread (httpx2.HTTPError: it failed)."""
        assert isinstance(request.stream, httpx2.SyncByteStream)
        sent = httpcore2.Request(
            request.method,
            _url(request.url),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _named():
            reply = self._pool.handle_request(sent)
        return httpx2.Response(
            reply.status, headers=reply.headers, stream=_Body(reply), extensions=reply.extensions
        )

    def close(self) -> None:
        """Close all connections."""
        with _named():
            self._pool.close()


class _Body(httpx2.SyncByteStream):
    """The body of a response."""

    def __init__(self, reply: httpcore2.Response) -> None:
        self._reply = reply

    def __iter__(self) -> Iterator[bytes]:
        with _named():
            yield from self._reply.iter_stream()

    def close(self) -> None:
        with _named():
            self._reply.close()


@contextmanager
def _named() -> Iterator[None]:
    """Raise the errors of the connection library under their names in httpx2."""
    try:
        yield
    except _ERRORS as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from error


def _url(url: httpx2.URL) -> httpcore2.URL:
    return httpcore2.URL(
        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
    )


def _proxy(proxy: httpx2.Proxy) -> httpcore2.Proxy:
    if proxy.url.scheme.startswith("socks"):
        importlib.import_module("socksio")  # otherwise missed by the first request only
    return httpcore2.Proxy(_url(proxy.url), proxy.raw_auth, proxy.headers.raw)


def proxy_of(scheme: str, host: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy that the environment names for a host, as Go programs read it.

    NO_PROXY may exempt networks (10.0.0.0/8), which the HTTP client does not support.
    """
    name = f"{scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name)
    if not proxy:
        return None
    if host == "localhost" or _within(host, "127.0.0.0/8") or _within(host, "::1/128"):
        return None
    for one in (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(","):
        exempt = one.strip().lower()
        if exempt == "*" or (exempt and _matches(host.lower(), exempt)):
            return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _matches(host: str, exempt: str) -> bool:
    if "/" in exempt:
        return _within(host, exempt)
    if exempt.count(":") == 1:
        exempt = exempt.split(":")[0]
    bare = exempt.removeprefix("*").removeprefix(".")
    return host == bare or host.endswith(f".{bare}")


def _within(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
