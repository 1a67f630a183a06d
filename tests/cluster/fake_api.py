"""An API server on loopback that does what a test tells it, down to the bytes of a reply."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from hpabatch.cluster.connection.connect import Connection, connect

Json = dict[str, Any]


@dataclass(frozen=True)
class Got:
    """A request as it came."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    target: str = ""
    """The path with its query, as it came."""

    @property
    def is_watch(self) -> bool:
        return self.params.get("watch") == "true"


class Wire:
    """The server's end of a connection."""

    def __init__(self, connection: socket.socket, stopped: threading.Event) -> None:
        self._connection = connection
        self.stopped = stopped

    @property
    def client(self) -> str:
        """The name in the client's certificate, "" if it showed none."""
        if not isinstance(self._connection, ssl.SSLSocket):
            return ""
        found: Any = self._connection.getpeercert() or {}
        return "".join(pair[1] for part in found.get("subject", ()) for pair in part)

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def reply(
        self, status: int, body: object = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {
            "Content-Type": "application/json", "Content-Length": str(len(content)),
            **(headers or {}),
        }  # fmt: skip
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in head.items())]
        self.send("\r\n".join([*lines, "", ""]).encode() + content)

    def begin(self) -> None:
        """Begin a reply that comes in chunks."""
        self.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )

    def chunk(self, data: bytes) -> None:
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def event(self, kind: str, item: object) -> None:
        self.chunk(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def end(self) -> None:
        """End the chunks as a server does that is done."""
        self.send(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close the connection, whatever was being said."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Close it with an RST."""
        linger = struct.pack("ii", 1, 0)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        os.close(self._connection.detach())  # what reads from it holds it open otherwise


Script = Callable[[Got, Wire], None]


@dataclass
class FakeApi:
    """A server; `script` answers each request, `got` is what came."""

    script: Script
    tls: ssl.SSLContext | None = None
    got: list[Got] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._stopped = threading.Event()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._main = threading.Thread(target=self._accept, daemon=True)
        self._main.start()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._main.join(30)
        self.cut_all()
        for thread in self._threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in self._threads)

    def cut_all(self) -> None:
        """Close all connections."""
        with self._lock:
            found = list(self._open)
        for one in found:
            with suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)

    @property
    def connections(self) -> int:
        with self._lock:
            return len(self._open)

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                self._open.add(connection)
                self._threads.append(thread)
            thread.start()

    def _serve(self, raw: socket.socket) -> None:
        connection = raw
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(raw, server_side=True)
                with self._lock:
                    self._open.discard(raw)
                    self._open.add(connection)
            wire = Wire(connection, self._stopped)
            with connection.makefile("rb") as stream:
                while (got := _read(stream)) is not None:
                    self.got.append(got)
                    self.script(got, wire)
        except (OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
                self._open.discard(raw)
            connection.close()


def _read(stream: Any) -> Got | None:
    first = stream.readline()
    if not first:
        return None
    method, target, _ = first.decode().split(" ", 2)
    headers = {}
    while (line := stream.readline().strip()) != b"":
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    parts = urlsplit(target)
    body = stream.read(int(headers.get("content-length", 0)))
    return Got(method, parts.path, dict(parse_qsl(parts.query)), headers, body, target)


@contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[FakeApi]:
    server = FakeApi(script, tls)
    try:
        yield server
    finally:
        server.close()


_HOP_BY_HOP = {"connection", "date", "keep-alive", "server", "transfer-encoding"}


def forwarded(
    netloc: str, got: Got, dropped: Set[str] = frozenset()
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of another server's reply to a request.

    `dropped`: names of headers that are not handed on, of the request nor of the reply.
    """
    connection = http.client.HTTPConnection(netloc, timeout=60)
    try:
        headers = {k: v for k, v in got.headers.items() if k not in {"connection", *dropped}}
        connection.request(got.method, got.target, got.body or None, headers)
        reply = connection.getresponse()
        body = reply.read()
        kept = {k.title(): v for k, v in reply.getheaders()}
        hidden = {name.title() for name in (*_HOP_BY_HOP, *dropped)}
        return reply.status, {k: v for k, v in kept.items() if k not in hidden}, body
    finally:
        connection.close()


def kubeconfig(
    folder: Path, server: str, user: Json | None = None, cluster: Json | None = None
) -> Path:
    """Write a kubeconfig, as JSON, which is YAML too."""
    path = folder / "config"
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }  # fmt: skip
    path.write_text(json.dumps(document))
    return path


def connected(
    folder: Path, server: str, user: Json | None = None, cluster: Json | None = None
) -> Connection:
    return connect(kubeconfig(folder, server, user, cluster), None, False, {})


def status(code: int, message: str, reason: str = "") -> Json:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    }  # fmt: skip
