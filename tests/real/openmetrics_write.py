"""Blocks by remote write: what text cannot say, such as stale markers, comes into them so."""

from __future__ import annotations

import json
import shutil
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tests.real.openmetrics_family import Family
from tests.real.openmetrics_site import Floats, Ints
from tests.real.prometheus import running_prometheus

STALE: Final = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
"""Prometheus' own NaN: from here on the series is not there."""
_LITERAL: Final = 1 << 16
_BATCH: Final = 50_000
# A server takes no samples that are more than an hour older than its newest.
_AT_ONCE_MS: Final = 30 * 60_000


def write_blocks(families: Sequence[Family], folder: Path, data_dir: Path) -> int:
    """Make blocks of samples with a server of its own, which takes them and writes a snapshot.

    Ten times slower than text (see `prometheus.backfill`, which may fill the same folder), but
    exact to the bit. Samples that were written to a server beside its blocks instead would be
    missing from its lists of labels.

    Args:
        families: what is written; several series of the same labels must not be there.
        folder: a new one, for the server.
        data_dir: gets the blocks.

    Returns:
        The number of samples.

    Raises:
        RuntimeError: the server refused some; the message is its answer.
    """
    folder.mkdir(parents=True)
    flags = ["--web.enable-remote-write-receiver", "--web.enable-admin-api"]
    with running_prometheus(folder, folder / "data", extra_flags=flags) as url:
        sent = remote_write(url, families)
        asked = urllib.request.Request(f"{url}/api/v1/admin/tsdb/snapshot", method="POST")
        with urllib.request.urlopen(asked) as answer:
            name = json.loads(answer.read())["data"]["name"]
    data_dir.mkdir(parents=True, exist_ok=True)
    for block in (folder / "data/snapshots" / name).iterdir():
        shutil.move(block, data_dir / block.name)
    shutil.rmtree(folder)
    return sent


def with_stale_ends(family: Family, grid: Ints) -> Family:
    """Return a metric of which every series that ends gets a stale marker at the next scrape.

    And wherever a scrape that took place does not have it.
    """
    order = np.arange(len(family.ts))
    place = np.searchsorted(grid, family.ts)
    last = np.append(family.series[1:] != family.series[:-1], True)
    broken = ~last & (np.append(place[1:], 0) > place + 1)
    ends = order[(last | broken) & (place + 1 < len(grid))]
    series = np.append(family.series, family.series[ends])
    ts = np.append(family.ts, grid[place[ends] + 1])
    values = np.append(family.values, np.full(len(ends), STALE))
    sort = np.lexsort((ts, series))
    return Family(family.name, family.labels, series[sort], ts[sort], values[sort])


def remote_write(url: str, families: Sequence[Family]) -> int:
    """Send all samples to a server with --web.enable-remote-write-receiver; return their number.

    They go in the order of time, half an hour of all series at once.

    Raises:
        RuntimeError: it refused some; the message is its answer.
    """
    if not families:
        return 0
    first = min(int(family.ts.min()) for family in families if len(family.ts))
    last = max(int(family.ts.max()) for family in families if len(family.ts))
    sent = 0
    labels = [_labels(family) for family in families]
    for at in range(first, last + 1, _AT_ONCE_MS):
        for family, named in zip(families, labels, strict=True):
            part = family.kept((family.ts >= at) & (family.ts < at + _AT_ONCE_MS))
            for body, count in _requests(part, named):
                _send(url, body)
                sent += count
    return sent


def _send(url: str, body: bytes) -> None:
    headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf",
               "X-Prometheus-Remote-Write-Version": "0.1.0"}  # fmt: skip
    request = urllib.request.Request(f"{url}/api/v1/write", _snappy(body), headers)
    try:
        with urllib.request.urlopen(request):
            return
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{error.code}: {error.read().decode()}") from error


def _labels(family: Family) -> list[bytes]:
    """Return the labels of each series as they stand in a message."""
    found = []
    for labels in family.label_sets():
        named = sorted({**labels, "__name__": family.name}.items())
        found.append(b"".join(_field(1, _text(1, n) + _text(2, v)) for n, v in named))
    return found


def _requests(family: Family, labels: list[bytes]) -> Iterator[tuple[bytes, int]]:
    """Generate protobuf messages prometheus.WriteRequest and their numbers of samples."""
    bounds = np.searchsorted(family.series, np.arange(family.labels.height + 1)).tolist()
    parts: list[bytes] = []
    count = 0
    for place, named in enumerate(labels):
        first, last = bounds[place], bounds[place + 1]
        if first == last:
            continue
        samples = _samples(family.ts[first:last], family.values[first:last])
        parts.append(_field(1, named + samples))
        count += last - first
        if count >= _BATCH:
            yield b"".join(parts), count
            parts, count = [], 0
    if count:
        yield b"".join(parts), count


def _samples(ts: Ints, values: Floats) -> bytes:
    """Return messages prometheus.Sample, all of the same length: times have six bytes."""
    kind = np.dtype([("head", "u1", 3), ("value", "<u8"), ("tag", "u1"), ("time", "u1", 6)])
    assert len(ts) == 0 or (int(ts.min()) >= 1 << 35 and int(ts.max()) < 1 << 42)
    rows = np.zeros(len(ts), kind)
    rows["head"] = (2 << 3 | 2, 16, 9)  # field 2, length; field 1, fixed64
    # A stale marker must keep its bits: they are copied, never computed with.
    rows["value"] = values.view(np.uint64)
    rows["tag"] = 16  # field 2, varint
    for place in range(6):
        more = 0x80 if place < 5 else 0
        rows["time"][:, place] = (ts >> 7 * place) & 0x7F | more
    return rows.tobytes()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(body)) + body


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())


def _snappy(body: bytes) -> bytes:
    """Return a body in Snappy's block format, uncompressed: literals only."""
    parts = [_varint(len(body))]
    for at in range(0, len(body), _LITERAL):
        piece = body[at : at + _LITERAL]
        parts.append(b"\xf4" + struct.pack("<H", len(piece) - 1) + piece)
    return b"".join(parts)
