"""HTTP endpoint of the live loop: /metrics, /healthz, /readyz.

It has its own threads and never waits for the loop, nor the loop for it. A slow or silent client
is disconnected, at once where there are many: first those that have not sent a request yet, so
that a probe, which sends it with its connection, always gets a response. Only a few scrapes run at
once, others get 503.
"""

from __future__ import annotations

import gzip
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from hpabatch.errors import UsageError
from hpabatch.live.serve.exporter import WatchState

_SILENT_S: Final = 5.0  # time limit of a client between two packets
_LONGEST_S: Final = 15.0  # time limit of a client in total
_MAX_CLIENTS: Final = 64
_MAX_SCRAPES: Final = 16
_MOST_BYTES: Final = 2**16  # of a request
_GRACE_PERIODS: Final = 3
_LEAST_GRACE_S: Final = 60.0
_TEXT: Final = "text/plain; charset=utf-8"
_ADDRESS = re.compile(r"(?:\[([^\]]*)\]|([^:\[\]]*)):([0-9]{1,5})", re.ASCII)


class Health:
    """Liveness of the loop, and readiness of its watches.

    `watches`: the states of all required watches. Thread-safe: single values only.
    """

    def __init__(
        self,
        period_s: float,
        watches: Callable[[], Iterable[WatchState]],
        clock: Callable[[], float] = time.monotonic,
        *,
        pass_s: float = 0.0,
    ) -> None:
        """Begin as alive, not as ready; `pass_s`: how long requests may delay a pass."""
        self._grace_s = max(_GRACE_PERIODS * period_s, _LEAST_GRACE_S) + pass_s
        self._watches, self._clock = watches, clock
        self._began_s = clock()
        self._done = False
        self._synced: set[str] = set()

    def began(self) -> None:
        """Note that a pass begins, or that the loop waits on purpose."""
        self._began_s = self._clock()

    def done(self) -> None:
        """Note that a pass is finished."""
        self._done = True

    def not_alive(self) -> str:
        """Return why the process should be restarted, "" if it should not."""
        ago_s = self._clock() - self._began_s
        if ago_s < self._grace_s:
            return ""
        return f"the last pass began {ago_s:.0f} s ago (at most {self._grace_s:.0f} s is well)"

    def not_ready(self) -> str:
        """Return what is missing before the output is reliable, "" for nothing.

        A watch that was synced once counts as synced: while the API server is unreachable, another
        process would not know more.
        """
        watches = list(self._watches())
        self._synced |= {watch.name for watch in watches if watch.has_listed}
        missing = sorted({watch.name for watch in watches} - self._synced)
        if missing:
            return f"not yet listed: {', '.join(missing)}"
        return "" if self._done else "no pass was done yet"


def parse_address(text: str) -> tuple[str, int]:
    """Return (host, port) of `:9099`, `host:9099` or `[::1]:9099`; host "" means every address.

    Raises:
        UsageError: another form.
    """
    found = _ADDRESS.fullmatch(text)
    port = int(found[3]) if found else 0
    if found is None or port > 65_535:
        raise UsageError(f"--metrics-addr: expected :9099 or HOST:PORT, got {text!r}")
    return found[1] or found[2] or "", port


class MetricsServer:
    """Serves a registry and a health on an address until it is closed; port 0 picks a free one.

    Raises:
        UsageError: the address cannot be listened on.
    """

    def __init__(self, address: str, registry: CollectorRegistry, health: Health) -> None:
        """Listen and serve requests from now on."""
        host, port = parse_address(address)
        try:
            self._server = _Server(host, port, registry, health)
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(
                f"--metrics-addr {address}: cannot listen there: {reason}; name another port"
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics-server", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The listening port."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening, disconnect clients and end the thread."""
        self._server.shutdown()
        self._server.cut_off(0.0)
        self._server.server_close()
        self._thread.join()


@dataclass(slots=True)
class _Client:
    """A client, connected since `since_s`; `has_asked`: it sent its whole request."""

    since_s: float
    has_asked: bool = False


class _Server(ThreadingHTTPServer):
    """A thread per client, with limits of number and time."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, host: str, port: int, registry: CollectorRegistry, health: Health) -> None:
        self.registry, self.health = registry, health
        self.scrapes = threading.BoundedSemaphore(_MAX_SCRAPES)
        self._clients: dict[socket.socket, _Client] = {}
        self._lock = threading.Lock()
        self._dual_stack = host == "" and socket.has_dualstack_ipv6()
        info = socket.getaddrinfo(
            "::" if self._dual_stack else host or "0.0.0.0",  # noqa: S104 - meant by ":9099"
            port,
            type=socket.SOCK_STREAM,
        )
        self.address_family = info[0][0]
        super().__init__(info[0][4][:2], _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        if self._dual_stack:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not the base class's, which resolves a host name that is not needed.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "hpabatch", self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with self._lock:
            if len(self._clients) >= _MAX_CLIENTS:
                waits = [client for client, told in self._clients.items() if not told.has_asked]
                self._cut(next(iter(waits or self._clients)))  # the oldest: they are in order
            self._clients[request] = _Client(time.monotonic())
            return True

    def has_asked(self, request: Any) -> None:
        """Note that a client's request is complete."""
        with self._lock:
            if request in self._clients:
                self._clients[request].has_asked = True

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Disconnect slow clients; called about twice a second."""
        self.cut_off(_LONGEST_S)

    def cut_off(self, longest_s: float) -> None:
        """Disconnect clients connected for longer, which frees their places at once."""
        now = time.monotonic()
        with self._lock:
            for client, told in list(self._clients.items()):
                if now - told.since_s >= longest_s:
                    self._cut(client)

    def _cut(self, client: socket.socket) -> None:
        """Disconnect a client; the lock is held."""
        del self._clients[client]
        with suppress(OSError):  # it is disconnected already
            client.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client that disconnects early is no error."""


class _AtMost:
    """The beginning of a client's request; it ends after the byte limit."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._left = _MOST_BYTES
        self.close = stream.close

    def readline(self, size: int) -> bytes:
        line: bytes = self._stream.readline(min(size, self._left))
        self._left -= len(line)
        return line


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SILENT_S
    server_version = "hpabatch"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = _AtMost(self.rfile)  # type: ignore[assignment]

    def do_GET(self) -> None:
        self.server.has_asked(self.connection)
        path = self.path.partition("?")[0]
        match path:
            case "/metrics":
                self._metrics()
            case "/healthz":
                self._said(self.server.health.not_alive())
            case "/readyz":
                self._said(self.server.health.not_ready())
            case _:
                self._answer(404, b"not found: /metrics, /healthz and /readyz are here\n", _TEXT)

    do_HEAD = do_GET  # noqa: N815 - the base class looks for this name

    def _metrics(self) -> None:
        if not self.server.scrapes.acquire(blocking=False):
            self._answer(503, b"too many scrapes at once: try again later\n", _TEXT)
            return
        try:
            self._exposition()
        finally:
            self.server.scrapes.release()

    def _exposition(self) -> None:
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        body = encode(self.server.registry)
        packed = "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            body = gzip.compress(body, compresslevel=1)
        self._answer(200, body, content_type, {"Content-Encoding": "gzip"} if packed else {})

    def _said(self, wrong: str) -> None:
        self._answer(503 if wrong else 200, f"{wrong or 'ok'}\n".encode(), _TEXT)

    def _answer(
        self, status: int, body: bytes, content_type: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: scrapes are not logged."""
