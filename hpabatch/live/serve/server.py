"""HTTP endpoint of the live loop: /metrics, /healthz, /readyz.

It has its own threads and never waits for the loop, nor the loop for it. A silent client is
disconnected after a few seconds.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from io import StringIO
from socketserver import TCPServer
from typing import Any, Final, TextIO
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from hpabatch.cluster.watch.watch import WatchState
from hpabatch.errors import UsageError

_SILENT_S: Final = 5.0  # time limit of a client between two packets
_GRACE_PERIODS: Final = 3
_LEAST_GRACE_S: Final = 60.0
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
        host, port = parse_address(address)
        try:
            self._server = _Server(host, port)
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(
                f"--metrics-addr {address}: cannot listen there: {reason}; name another port"
            ) from None
        self._server.set_app(_app(registry, health))
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics-server", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The listening port."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening and end the thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingWSGIServer):
    """A thread per client, on IPv4 and IPv6 where there is no host."""

    block_on_close = False
    request_queue_size = 64

    def __init__(self, host: str, port: int) -> None:
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
        TCPServer.server_bind(self)  # HTTPServer's resolves a host name that is not needed
        self.server_name, self.server_port = "hpabatch", self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client that disconnects early is no error."""


class _Handler(WSGIRequestHandler):
    timeout = _SILENT_S

    def get_stderr(self) -> TextIO:
        return StringIO()  # a client that does not read its response is no error

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: scrapes are not logged."""


def _app(registry: CollectorRegistry, health: Health) -> Callable[..., list[bytes]]:
    metrics = make_wsgi_app(registry)
    checks = {"/healthz": health.not_alive, "/readyz": health.not_ready}

    def respond(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics" or environ["REQUEST_METHOD"] != "GET":
            body: list[bytes] = metrics(environ, start)
            return body
        status, text = "404 Not Found", "not found: /metrics, /healthz and /readyz are here"
        if path in checks:
            text = checks[path]()
            status = "503 Service Unavailable" if text else "200 OK"
        start(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text or 'ok'}\n".encode()]

    return respond
