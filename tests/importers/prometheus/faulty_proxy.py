"""A proxy on loopback that does to a client what networks, gateways and servers do.

Which requests fail, and how, follows from a seed, the request itself and how often it came before:
not from the order in which threads send. After three faults in a row a request passes, so that a
client that tries again ends right; with `always` it never does.
"""

from __future__ import annotations

import gzip
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from tests.cluster.fake_api import FakeApi, Got, Wire, forwarded

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

    @property
    def url(self) -> str:
        """The proxy's address, with the upstream's path."""
        return f"{self._server.url}{self._upstream.path.rstrip('/')}"

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._server = FakeApi(self._serve)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._server.close()

    def _serve(self, got: Got, wire: Wire) -> None:
        kind = self.fault(got.method, got.target, got.body)
        try:
            self._reply(kind, got, wire)
        finally:
            with self._lock:
                self._active -= 1

    def _reply(self, kind: str, got: Got, wire: Wire) -> None:
        if kind in REFUSALS:
            after = {"Retry-After": "0"} if kind.endswith("-after") else {}
            return wire.reply(int(kind[:3]), b"not now\n", {"Content-Type": "text/plain", **after})
        if kind == "reset":
            return wire.reset()
        if kind == "html":
            return wire.reply(200, _PAGE, {"Content-Type": "text/html"})
        if kind == "slow":
            time.sleep(0.02)
        status, headers, body = self.forward(got)
        if kind == "no-json":
            body = body[: len(body) // 2]
        elif kind in LIES and status == 200:
            body = lie(body, kind)
        if "gzip" in got.headers.get("accept-encoding", "") and len(body) > 1000:
            body = gzip.compress(body, 1)
            headers["Content-Encoding"] = "gzip"
        if kind == "truncated":
            wire.reply(status, body, {**headers, "Content-Length": str(len(body) + 1)})
            return wire.cut()
        wire.reply(status, body, headers)

    def forward(self, got: Got) -> tuple[int, dict[str, str], bytes]:
        """Return the upstream's reply, not compressed."""
        return forwarded(self._upstream.netloc, got, _DROPPED)

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


_DROPPED = {"accept-encoding", "content-encoding", "content-length", "host"}


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
