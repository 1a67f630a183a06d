"""A proxy before an object storage that answers chosen requests as a failing network would."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

LOST: Final = "lost"
"""The request is carried out, then the connection is reset before the response."""
CUT: Final = "cut"
"""The connection is reset in the middle of the response's body."""
EXPIRED: Final = "expired"
"""403, as for credentials that ran out."""

Choose = Callable[[str, str], str | None]
"""From method and path to a fault, None: none."""


class Faults:
    """The fault that the next matching requests meet.

    Attributes:
        met: method and path of those that did.
    """

    def __init__(self, kind: str, method: str, part: str, count: int = 1) -> None:
        """Take a fault, and which requests meet it: method, part of the path, how many."""
        self._kind, self._method, self._part, self._left = kind, method, part, count
        self._lock = threading.Lock()
        self.met: list[tuple[str, str]] = []

    def begin(self, kind: str, count: int) -> None:
        """Let the next so many requests meet a fault."""
        with self._lock:
            self._kind, self._left = kind, count

    def __call__(self, method: str, path: str) -> str | None:
        """Return what the request meets."""
        with self._lock:
            if method != self._method or self._part not in path or not self._left:
                return None
            self._left -= 1
            self.met.append((method, path))
            return self._kind


@contextmanager
def faulty(endpoint: str, choose: Choose) -> Iterator[str]:
    """Yield the endpoint of a proxy before another one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kind = choose(self.command, self.path)
            if kind == EXPIRED:
                return self._send(403, [], b"<Error><Code>ExpiredToken</Code></Error>")
            status, headers, data = _forward(endpoint, self, body)
            if kind == LOST:
                return self._reset()
            if kind == CUT:
                self._send(status, headers, data, len(data) // 2)
                return self._reset()
            return self._send(status, headers, data)

        def _send(
            self, status: int, headers: list[tuple[str, str]], data: bytes, upto: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            if "content-length" not in {name.lower() for name, _ in headers}:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data[:upto])

        def _reset(self) -> None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _any  # noqa: N815 - its base's names

        def finish(self) -> None:
            try:
                super().finish()
            except (OSError, ValueError):
                return  # (it was reset)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def shutdown_request(self, request: object) -> None:
            try:
                super().shutdown_request(request)  # type: ignore[arg-type]
            except OSError:
                return

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _forward(
    endpoint: str, request: BaseHTTPRequestHandler, body: bytes
) -> tuple[int, list[tuple[str, str]], bytes]:
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
    try:
        headers = {n: v for n, v in request.headers.items() if n.lower() != "connection"}
        connection.request(request.command, request.path, body or None, headers)
        response = connection.getresponse()
        data = response.read()
        dropped = {"connection", "transfer-encoding", "date", "server"}
        kept = [(n, v) for n, v in response.getheaders() if n.lower() not in dropped]
        return response.status, kept, data
    finally:
        connection.close()
