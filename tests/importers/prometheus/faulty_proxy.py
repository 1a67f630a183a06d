"""A proxy on loopback that does to a client what networks, gateways and servers do.

Which requests fail, and how, follows from a seed, the request itself and how often it came before:
not from the order in which threads send. After three faults in a row a request passes, so that a
client that tries again ends right; with `always` it never does.
"""

from __future__ import annotations

import gzip
import http.client
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

REFUSALS = ("429", "429-after", "503", "503-after", "500", "502")
BREAKS = ("slow", "truncated", "reset", "html", "no-json")
LIES = ("shifted", "relabelled", "partial", "swapped", "doubled", "backwards")
FAULTS = (*REFUSALS, *BREAKS, *LIES)

_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


@dataclass
class Seen:
    """What a proxy saw.

    Attributes:
        requests: that came.
        faults: how many of them failed how; "": passed.
        most_at_once: requests under way at the same time.
        paths: requests by method and path.
    """

    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    most_at_once: int = 0
    paths: Counter[str] = field(default_factory=Counter)


class FaultyProxy:
    """Forwards to a server, with faults.

    ::

        with FaultyProxy("http://127.0.0.1:9090", seed=1) as proxy:
            server = Server(proxy.url)
        assert proxy.seen.faults["reset"]
    """

    def __init__(
        self,
        upstream: str,
        *,
        seed: int = 0,
        rate: float = 0.4,
        always: str = "",
    ) -> None:
        """Prepare.

        Args:
            upstream: where requests go, a path included.
            seed: of the faults.
            rate: of the requests that may fail, how many do.
            always: this fault for every request, for ever.
        """
        assert always in (*FAULTS, "")
        self.seen = Seen()
        self._upstream = urlsplit(upstream)
        self._seed = seed
        self._rate = rate
        self._always = always
        self._lock = threading.Lock()
        self._times: Counter[bytes] = Counter()
        self._in_a_row: Counter[bytes] = Counter()
        self._active = 0
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """The proxy's address, with the upstream's path."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}{self._upstream.path.rstrip('/')}"

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def fault(self, method: str, path: str, body: bytes) -> str:
        """Return what becomes of a request, "" if it passes, and note that it came."""
        with self._lock:
            self.seen.requests += 1
            self.seen.paths[f"{method} {path.partition('?')[0]}"] += 1
            self._active += 1
            self.seen.most_at_once = max(self.seen.most_at_once, self._active)
            kind = self._fault(path, body)
            self.seen.faults[kind] += 1
            return kind

    def ended(self) -> None:
        """Note the end of a request."""
        with self._lock:
            self._active -= 1

    def _fault(self, path: str, body: bytes) -> str:
        if path.partition("?")[0].endswith("/status/buildinfo"):
            return ""
        if self._always:
            return self._always
        key = path.encode() + b"\n" + body
        chance = random.Random(f"{self._seed} {self._times[key]} {key!r}")
        self._times[key] += 1
        if self._in_a_row[key] >= 3 or chance.random() >= self._rate:
            self._in_a_row[key] = 0
            return ""
        self._in_a_row[key] += 1
        return chance.choice(FAULTS)

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Return the upstream's reply, not compressed."""
        host, port = self._upstream.hostname or "", self._upstream.port
        connection = http.client.HTTPConnection(host, port, timeout=60)
        try:
            headers = {k: v for k, v in headers.items() if k.lower() not in _HOP_BY_HOP}
            connection.request(method, path, body or None, headers)
            reply = connection.getresponse()
            found = reply.read()
            kept = {k: v for k, v in reply.getheaders() if k.lower() not in _HOP_BY_HOP}
            return reply.status, kept, found
        finally:
            connection.close()


_HOP_BY_HOP = {
    "accept-encoding", "connection", "content-encoding", "content-length", "date", "host",
    "keep-alive", "server", "transfer-encoding",
}  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: clients may go away."""


class _Handler(BaseHTTPRequestHandler):
    owner: FaultyProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.owner.fault(self.command, self.path, body)
        try:
            self._reply(kind, body)
        finally:
            self.owner.ended()

    def _reply(self, kind: str, body: bytes) -> None:
        after = {"Retry-After": "0"} if kind.endswith("-after") else {}
        if kind in REFUSALS:
            status = int(kind[:3])
            self._send(status, {"Content-Type": "text/plain", **after}, b"not now\n")
            return
        if kind == "reset":
            # The connection ends with a reset, not a proper end.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
            return
        if kind == "html":
            self._send(200, {"Content-Type": "text/html"}, _PAGE)
            return
        if kind == "slow":
            time.sleep(0.02)
        status, headers, response = self.owner.forward(
            self.command, self.path, dict(self.headers.items()), body
        )
        if kind == "no-json":
            response = response[: len(response) // 2]
        if kind == "truncated":
            self._send(status, headers, response, len(response) + 1)
            self.close_connection = True
            return
        if kind in LIES and status == 200:
            response = lie(response, kind)
        self._send(status, headers, response)

    def _send(
        self, status: int, headers: dict[str, str], body: bytes, length: int | None = None
    ) -> None:
        if "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 1000:
            body = gzip.compress(body, 1)
            headers = {**headers, "Content-Encoding": "gzip"}
            length = None if length is None else len(body) + 1
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)


def lie(body: bytes, kind: str) -> bytes:
    """Return a response as a lie of a kind; one without anything to lie about has a warning."""
    response = json.loads(body)
    data = response.get("data")
    series = data.get("result") if isinstance(data, dict) else None
    if kind == "partial" or not series:
        response["warnings"] = ["store 10.0.0.7:10901 is unavailable, the response is partial"]
        return json.dumps(response).encode()
    first = series[0]
    samples = first.get("values") or [first["value"]]
    if kind == "shifted":  # another time's response
        for sample in samples:
            sample[0] += 40 * 86_400
    elif kind == "relabelled":  # another request's response
        first["metric"] = {"__name__": "other_series", "namespace": "elsewhere", "pod": "other"}
    elif kind == "swapped":
        data["resultType"] = "vector" if data["resultType"] == "matrix" else "matrix"
        for one in series:
            if "values" in one:
                one["value"] = one.pop("values")[-1]
            else:
                one["values"] = [one.pop("value")]
    elif kind == "doubled":
        series.append(first)
    elif kind == "backwards":
        samples.append(list(samples[0]))
        first.pop("value", None)
        first["values"] = samples
    return json.dumps(response).encode()
