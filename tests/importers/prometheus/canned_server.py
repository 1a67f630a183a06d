"""A small server on loopback that answers queries with what their text says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

from tests.cluster.fake_api import Got, Wire, serving

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


def _script(got: Got, wire: Wire) -> None:
    fields = parse_qs(got.body.decode() or urlsplit(got.target).query)
    wire.reply(200, {"status": "success", "data": reply(got.path, fields)})


@contextmanager
def canned_server() -> Iterator[str]:
    """Serve on a free port; give the address."""
    with serving(_script) as server:
        yield server.url
