"""A server that speaks S3's protocol, on loopback; the environment names it."""

from __future__ import annotations

import http.client
import logging
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


class Door:
    """A server before another one, which lets requests through as its `mode` says.

    "open", "slow" (half a second a request), "silent" (no answer), or a status for all requests.
    """

    def __init__(self, behind: str) -> None:
        """Take the address of the other server; listen on loopback."""
        self.mode: str | int = "open"
        self._closed = threading.Event()
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if door.mode == "silent":
                    door._closed.wait(60)
                    self.close_connection = True
                    return
                if door.mode == "slow":
                    time.sleep(0.5)
                if isinstance(door.mode, int):
                    found: Answer = door.mode, {}, b"<Error><Code>No</Code></Error>"
                else:
                    found = forward(behind, self.command, self.path, dict(self.headers), body)
                with suppress(OSError):
                    self.answer(*found)

            def answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                        self.send_header(name, value)
                length = headers.get("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()


def forward(behind: str, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
    """Return what another server answers to a request."""
    connection = http.client.HTTPConnection(behind.partition("://")[2], timeout=30)
    try:
        connection.request(method, path, body, headers)
        found = connection.getresponse()
        return found.status, dict(found.getheaders()), found.read()
    finally:
        connection.close()


@contextmanager
def open_bucket() -> Iterator[str]:
    """Yield the URL of an empty bucket; processes that are started meanwhile find it too."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }.items():
            patch.setenv(name, value)
        patch.delenv("AWS_SESSION_TOKEN", raising=False)
        request = urllib.request.Request(f"{endpoint}/bucket", method="PUT")
        urllib.request.urlopen(request).close()
        yield "s3://bucket"
    server.stop()
