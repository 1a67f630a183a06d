"""A stand-in for a Prometheus of a large fleet, which answers faster than anybody asks.

    python -m benchmarks.prometheus_standin [--pods N] [--days N] [--port P]

prints its URL and serves until it is stopped. /_figures says what it gave, and its own seconds.
What it understands of PromQL is in prometheus_standin_promql.py; all else is 400, as is there.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from benchmarks.prometheus_standin_answer import Answers, Body, Chunk, TooManyError
from benchmarks.prometheus_standin_fleet import Fleet
from benchmarks.prometheus_standin_promql import QueryError, duration_ms

BUILD: Final = {
    "version": "2.42.0", "revision": "standin", "branch": "standin", "buildUser": "",
    "buildDate": "", "goVersion": "none",
}  # fmt: skip
Fields = dict[str, list[str]]


@dataclass(slots=True)
class Figures:
    """What was given.

    Attributes:
        requests: by path.
        errors: answers with an error.
        samples: of all answers.
        raw: raw samples by metric.
        bytes: of all bodies, before they were compressed.
        largest_bytes: of one body.
        largest_samples: of one body.
        making_s: from a request's last byte to the body, of all requests together.
        sending_s: until the client had taken the bodies.
        cpu_s: of the process, since it began.
    """

    requests: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    samples: int = 0
    raw: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    largest_bytes: int = 0
    largest_samples: int = 0
    making_s: float = 0.0
    sending_s: float = 0.0
    cpu_s: float = 0.0


class StandIn(ThreadingHTTPServer):
    """The server.

    Attributes:
        answers: what answers queries.
        figures: what was given so far.
        gzip_level: of answers to those who take it; 0: none is compressed.
    """

    daemon_threads = True

    def __init__(self, answers: Answers, port: int = 0, gzip_level: int = 0) -> None:
        """Listen on a port of 127.0.0.1; 0: any free one."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.answers = answers
        self.gzip_level = gzip_level
        self.figures = Figures()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        self._answer(split.path, parse_qs(split.query))

    def do_POST(self) -> None:
        split = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self._answer(split.path, parse_qs(body) | parse_qs(split.query))

    def _answer(self, path: str, fields: Fields) -> None:
        begun = time.perf_counter()
        if path == "/_figures":
            self._send(200, Body([json.dumps(self._figures()).encode()]))
            return
        try:
            status, body = 200, respond(self.server.answers, path, fields)
        except QueryError as error:
            status, body = 400, _error("bad_data", str(error))
        except TooManyError:
            status = 422
            body = _error(
                "execution",
                "query processing would load too many samples into memory in query execution",
            )
        except LookupError:
            status, body = 404, Body([b"404 page not found\n"])
        made = time.perf_counter()
        self._send(status, body)
        self._count(path, status, body, made - begun, time.perf_counter() - made)

    def _send(self, status: int, body: Body) -> None:
        chunks: list[Chunk] = body.chunks
        taken = "gzip" in self.headers.get("Accept-Encoding", "")
        compressed = bool(taken and self.server.gzip_level and body.size > 1400)
        if compressed:
            chunks = [gzip.compress(b"".join(chunks), self.server.gzip_level)]
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(sum(len(chunk) for chunk in chunks)))
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if len(chunks) > 1000:  # a call for each small piece would cost more than a copy
            chunks = [b"".join(chunks)]
        for chunk in chunks:
            self.wfile.write(chunk)

    def _count(self, path: str, status: int, body: Body, making: float, sending: float) -> None:
        figures = self.server.figures
        with self.server.lock:
            figures.requests[path] = figures.requests.get(path, 0) + 1
            figures.errors += status >= 400
            figures.samples += body.samples
            for name, count in body.raw.items():
                figures.raw[name] = figures.raw.get(name, 0) + count
            figures.bytes += body.size
            figures.largest_bytes = max(figures.largest_bytes, body.size)
            figures.largest_samples = max(figures.largest_samples, body.samples)
            figures.making_s += making
            figures.sending_s += sending

    def _figures(self) -> dict[str, Any]:
        with self.server.lock:
            self.server.figures.cpu_s = time.process_time()
            return asdict(self.server.figures)


def respond(answers: Answers, path: str, fields: Fields) -> Body:
    """Return the answer to a request.

    Raises:
        QueryError: 400.
        TooManyError: 422.
        LookupError: 404.
    """
    fleet = answers.fleet
    name = path.removeprefix("/api/v1/")
    if name == "query":
        return answers.query(_one(fields, "query"), _ms(_one(fields, "time", "now"), fleet))
    if name == "query_range":
        start, end = (_ms(_one(fields, key), fleet) for key in ("start", "end"))
        return answers.query_range(_one(fields, "query"), start, end, _step(_one(fields, "step")))
    start, end = (_ms(_one(fields, key, "now"), fleet) for key in ("start", "end"))
    if "start" not in fields:
        start = 0
    matchers = fields.get("match[]", [])
    if name == "status/buildinfo":
        return _data(BUILD)
    if name == "series":
        if not matchers:
            raise QueryError("no match[] parameter provided")
        return _data(answers.series(matchers, start, end))
    if name == "labels":
        found = answers.series(matchers or ['{__name__!=""}'], start, end)
        return _data(sorted({label for labels in found for label in labels}))
    if name.startswith("label/") and name.endswith("/values"):
        label = name.split("/")[1]
        found = answers.series(matchers or ['{__name__!=""}'], start, end)
        return _data(sorted({labels[label] for labels in found if label in labels}))
    if path in ("/-/ready", "/-/healthy"):
        return Body([b"ready\n"])
    raise LookupError(path)


def _data(data: object) -> Body:
    return Body([json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()])


def _error(kind: str, text: str) -> Body:
    said = {"status": "error", "errorType": kind, "error": text}
    return Body([json.dumps(said, separators=(",", ":")).encode()])


def _one(fields: Fields, name: str, default: str | None = None) -> str:
    if name in fields:
        return fields[name][0]
    if default is None:
        raise QueryError(f'invalid parameter "{name}": it is missing')
    return default


def _ms(text: str, fleet: Fleet) -> int:
    if text == "now":
        return fleet.end_ms
    try:
        return round(float(text) * 1000)
    except ValueError:
        raise QueryError(f'cannot parse "{text}" to a valid timestamp') from None


def _step(text: str) -> int:
    try:
        step = round(float(text) * 1000)
    except ValueError:
        step = duration_ms(text)
    if step <= 0:
        raise QueryError('invalid parameter "step": zero or negative query resolution step widths')
    return step


@contextmanager
def running_standin(*options: str) -> Iterator[str]:
    """Run a stand-in as a process of its own; yields its URL.

    Args:
        options: see the command's, e.g. "--pods", "200".
    """
    command = [sys.executable, "-m", "benchmarks.prometheus_standin", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, "the stand-in did not start"
            yield url
        finally:
            process.terminate()


def figures_of(url: str) -> dict[str, Any]:
    """Return the figures of a running stand-in."""
    with urllib.request.urlopen(f"{url}/_figures") as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--namespaces", type=int, default=20)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--max-samples", type=int, default=50_000_000)
    parser.add_argument("--left-open", action="store_true", help="ranges as in Prometheus 3")
    parser.add_argument("--gzip", type=int, default=0, metavar="LEVEL")
    asked = parser.parse_args(arguments)
    fleet = Fleet(asked.pods, asked.namespaces, asked.days)
    server = StandIn(Answers(fleet, asked.max_samples, asked.left_open), asked.port, asked.gzip)
    print(server.url, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
