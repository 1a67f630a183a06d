"""A small server on loopback that responses queries with what their text says."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_PODS = re.compile(r'pod=~?"([^"]*)"')
_RANGE = re.compile(r"\[(\d+)ms\]$")
FACTS = {"version": "2.42.0", "goVersion": "go1.19"}


def pod_values(pod: str, at_ms: int, window_s: int) -> list[list[object]]:
    """Return a sample every ten seconds of the time until an instant, whose value is its time."""
    last = at_ms // 10_000 * 10
    first = (at_ms - window_s * 1000) // 10_000 * 10 + 10
    return [[ts, f"{ts % 1000 + len(pod)}.5"] for ts in range(first, last + 1, 10)]


def reply(path: str, fields: dict[str, list[str]]) -> object:
    """Return the data of a response."""
    if path.endswith("/status/buildinfo"):
        return FACTS
    if "/label/" in path:
        return ["a", "b"]
    (query,) = fields["query"]
    found = _PODS.search(query)
    assert found is not None
    pods = found[1].split("|")
    metrics = [{"__name__": "x", "namespace": "shop", "pod": pod} for pod in pods]
    if path.endswith("/query_range"):
        start, end, step = (int(float(fields[name][0])) for name in ("start", "end", "step"))
        values = [[ts, str(ts)] for ts in range(start, end + 1, step)]
        return _result("matrix", [{"metric": m, "values": values} for m in metrics])
    at_ms = round(float(fields["time"][0]) * 1000)
    window = _RANGE.search(query)
    if window is None:
        return _result("vector", [{"metric": m, "value": [at_ms / 1000, "1"]} for m in metrics])
    return _result(
        "matrix",
        [
            {"metric": m, "values": pod_values(m["pod"], at_ms, int(window[1]) // 1000)}
            for m in metrics
        ],
    )


def _result(kind: str, result: object) -> object:
    return {"resultType": kind, "result": result}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._send(parts.path, parts.query)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._send(self.path, body.decode())

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def _send(self, path: str, form: str) -> None:
        data = reply(path, parse_qs(form))
        body = json.dumps({"status": "success", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def canned_server() -> Iterator[str]:
    """Serve on a free port; give the address."""
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
