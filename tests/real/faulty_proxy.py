"""A proxy before a real API server that breaks what passes, on purpose.

It has the API server's own certificate. What is asked is handed on unless a fault takes it.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.ports import hold_port, port_of
from tests.real.cluster import Cluster

ADMIN = "admin-token"
_CHUNKED = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
_RST = struct.pack("ii", 1, 0)
Where = Callable[[str], bool]
"""Whether a fault takes a path with its query."""


def every(path: str) -> bool:
    return bool(path)


def metrics(path: str) -> bool:
    return "metrics.k8s.io" in path


def core(path: str) -> bool:
    return not metrics(path)


def watches(path: str) -> bool:
    return parse_qs(urlsplit(path).query).get("watch") == ["true"]


def pages(path: str) -> bool:
    """Whether it is a page of a list after the first."""
    return "continue" in parse_qs(urlsplit(path).query)


def status(code: int, reason: str, message: str) -> bytes:
    return json.dumps(
        {
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": reason, "message": message,
        }
    ).encode()  # fmt: skip


class Exchange:
    """One request, and what is done about it."""

    def __init__(self, handler: _Handler) -> None:
        self.path = handler.path
        self._handler = handler
        self._proxy = handler.server.proxy

    def reply(self, code: int, body: bytes, kind: str = "application/json", **more: str) -> None:
        """Answer in the server's place."""
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        self._head(code, {"Content-Type": kind, "Content-Length": str(len(body)), **headers})
        self._handler.wfile.write(body)

    def echo(self) -> None:
        """Refuse, and repeat all headers of the request, as they are and in base64."""
        headers = json.dumps(dict(self._handler.headers.items()))
        packed = base64.b64encode(headers.encode()).decode()
        self.reply(500, status(500, "InternalError", f"gateway: {headers} {packed}"))

    def hand_on(self, change: Callable[[bytes], bytes] | None = None, date_s: float = 0) -> None:
        """Answer as the server does, the body changed, its Date shifted by seconds."""
        with self._asked() as answer:
            if watches(self.path) and answer.status == 200:
                self._head(200, _CHUNKED, date_s)
                self._stream(answer, change)
                return
            body = answer.read()
            kept = ("content-type", "retry-after")
            headers = {k: v for k, v in answer.getheaders() if k.lower() in kept}
            if change is not None and answer.status == 200:
                body = change(body)
            headers["Content-Length"] = str(len(body))
            self._head(answer.status, headers, date_s)
            self._handler.wfile.write(body)

    def half(self) -> None:
        """Answer with the beginning of a body that was promised whole."""
        with self._asked() as answer:
            body = answer.read()
        self._head(answer.status, {"Content-Type": "application/json",
                                   "Content-Length": str(len(body) + 10)})  # fmt: skip
        self._handler.wfile.write(body[: len(body) // 2])
        self._handler.wfile.flush()
        self._handler.close_connection = True

    def dribble(self, pieces_s: float = 0.2) -> None:
        """Answer byte by byte, as long as the proxy lives."""
        with self._asked() as answer:
            body = answer.read()
        self._head(answer.status, {"Content-Type": "application/json",
                                   "Content-Length": str(len(body))})  # fmt: skip
        for byte in body:
            if self._proxy.ended.wait(pieces_s):
                return
            self._handler.wfile.write(bytes([byte]))
            self._handler.wfile.flush()

    def hang(self) -> None:
        """Never answer."""
        self._proxy.ended.wait()

    def reset(self) -> None:
        """Break the connection off."""
        self._proxy.cut_one(self._handler.connection)
        self._handler.close_connection = True

    def in_small_pages(self) -> None:
        """Answer as the server does, lists in pages of two."""
        self.path = self.path.replace("limit=500", "limit=2")
        self.hand_on()

    def stream(self, *lines: bytes, whole: bool = True) -> None:
        """Answer a watch with events of our own; whole: and end it as it should be."""
        self._head(200, _CHUNKED)
        for line in lines:
            self._chunk(line + b"\n")
        if whole:
            self._chunk(b"")
        self._handler.close_connection = True

    def _stream(
        self, answer: http.client.HTTPResponse, change: Callable[[bytes], bytes] | None
    ) -> None:
        while True:
            piece = answer.readline() if change is not None else answer.read1(2**16)
            if not piece:
                break
            self._chunk(change(piece) if change is not None else piece)
        self._chunk(b"")

    def _chunk(self, piece: bytes) -> None:
        self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self._handler.wfile.flush()

    def _head(self, code: int, headers: Mapping[str, str], date_s: float = 0) -> None:
        handler = self._handler
        handler.send_response_only(code)
        handler.send_header("Date", formatdate(time.time() + date_s, usegmt=True))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.flush()

    @contextmanager
    def _asked(self) -> Iterator[http.client.HTTPResponse]:
        proxy = self._proxy
        link = http.client.HTTPSConnection("127.0.0.1", proxy.api_port, context=proxy.trust)
        proxy.links.add(link)
        try:
            wanted = ("authorization", "accept", "user-agent")
            headers = {k: v for k, v in self._handler.headers.items() if k.lower() in wanted}
            link.request("GET", self.path, headers=headers)
            yield link.getresponse()
        finally:
            proxy.links.discard(link)
            link.close()


class FaultyProxy:
    """Listens on a port of its own before a cluster's API server.

    Attributes:
        asked: every path that was asked for, and when (seconds of time.monotonic).
    """

    def __init__(self, cluster: Cluster) -> None:
        """Begin to listen."""
        environment = cluster.environment
        self.folder = Path(environment["RUN"])
        self.api_port = int(environment["P_API"])
        self.trust = ssl.create_default_context(cafile=str(self.folder / "pki/ca.crt"))
        self.ended = threading.Event()
        self.links: set[http.client.HTTPSConnection] = set()
        self.clients: dict[socket.socket, str] = {}
        self.lock = threading.Lock()
        self.asked: list[tuple[float, str]] = []
        self._faults: list[tuple[Where, Callable[[Exchange], None]]] = []
        self._server: _Server | None = None
        self._held = hold_port()  # while it is down, too
        self.port = port_of(self._held)
        self.up()

    def kubeconfig(self, to: Path, token: str = ADMIN) -> Path:
        """Write a kubeconfig that leads here."""
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {
                "server": f"https://127.0.0.1:{self.port}",
                "certificate-authority": str(self.folder / "pki/ca.crt"),
            }}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }  # fmt: skip
        to.write_text(json.dumps(config))
        return to

    @contextmanager
    def fault(self, where: Where, act: Callable[[Exchange], Any]) -> Iterator[None]:
        """Let something happen to what is asked from now on; the newest fault goes first."""
        entry = (where, act)
        self._faults.insert(0, entry)
        try:
            yield
        finally:
            self._faults.remove(entry)

    def act(self, exchange: Exchange) -> None:
        self.asked.append((time.monotonic(), exchange.path))
        for where, act in list(self._faults):
            if where(exchange.path):
                act(exchange)
                return
        exchange.hand_on()

    def cut(self, where: Where = every) -> None:
        """Break off the connections whose last request was such."""
        with self.lock:
            found = [one for one, path in self.clients.items() if where(path)]
        for one in found:
            self.cut_one(one)

    def cut_one(self, one: socket.socket) -> None:
        with suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
            socket.socket.shutdown(one, socket.SHUT_RDWR)

    def down(self) -> None:
        """Refuse connections, and break off those that are there."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
        self.cut()

    def up(self) -> None:
        """Listen again, on the same port."""
        self._server = _Server(self)
        run = self._server.serve_forever
        threading.Thread(target=run, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """End all."""
        self.ended.set()
        self.down()
        self._held.close()
        for link in list(self.links):
            if link.sock is not None:
                with suppress(OSError):
                    socket.socket.shutdown(link.sock, socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, proxy: FaultyProxy) -> None:
        self.proxy = proxy
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pki = proxy.folder / "pki"
        self.tls.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
        super().__init__(("127.0.0.1", proxy.port), _Handler)
        self.socket = self.tls.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    def shutdown_request(self, request: Any) -> None:
        with self.proxy.lock:
            self.proxy.clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whoever asks may go away."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 2**16

    def do_GET(self) -> None:
        proxy = self.server.proxy
        with proxy.lock:
            proxy.clients[self.connection] = self.path
        proxy.act(Exchange(self))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
