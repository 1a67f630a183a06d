"""Samples as the bytes of an answer, tens of millions a second: digits are looked up, not made."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.prometheus_standin_fleet import MINUTE_MS, SCRAPE_MS, Fleet, Ints

Bytes = npt.NDArray[np.uint8]
Records = np.ndarray[tuple[int], np.dtype[np.void]]


def _table(texts: list[bytes], kind: str) -> npt.NDArray[np.unsignedinteger]:
    return np.frombuffer(b"".join(texts), dtype=kind)


_FOUR: Final = _table([b"%04d" % k for k in range(10_000)], "u4")
_TWO: Final = _table([b"%02d" % k for k in range(100)], "u2")
_POINT: Final = _table([b".%03d" % k for k in range(1000)], "u4")
# [1790812800.123,"123456.789012"],
_CPU_ROW: Final = b'[0000000000.000,"000000.000000"],'
_MEMORY_ROW: Final = b'[0000000000.000,"000000000"],'


def _rows(template: bytes, count: int, places: dict[str, tuple[str, int]]) -> tuple[Bytes, Records]:
    """Return so many copies of a row, and the same as records of its places."""
    rows = np.tile(np.frombuffer(template, np.uint8), (count, 1))
    kind = np.dtype(
        {
            "names": list(places),
            "formats": [form for form, _ in places.values()],
            "offsets": [offset for _, offset in places.values()],
            "itemsize": len(template),
        }
    )
    records: Records = rows.view(kind)[:, 0]
    return rows, records


_TIME_PLACES: Final = {"t0": ("u4", 1), "t1": ("u4", 5), "t2": ("u2", 9), "t3": ("u4", 11)}


def _set_times(record: Records, ts: Ints) -> None:
    seconds, ms = np.divmod(ts, 1000)
    high, low = np.divmod(seconds, 100)
    record["t0"], record["t1"] = _FOUR[high // 10_000], _FOUR[high % 10_000]
    record["t2"], record["t3"] = _TWO[low], _POINT[ms]


def flat(rows: Bytes) -> memoryview:
    """Return all rows as one text."""
    return memoryview(rows.reshape(-1).data)


def cpu_rows(ts: Ints, micros: Ints) -> Bytes:
    """Return a row of bytes per sample; counters have six digits before and after the point."""
    places = {**_TIME_PLACES, "v0": ("u4", 17), "v1": ("u2", 21), "v2": ("u4", 24),
              "v3": ("u2", 28)}  # fmt: skip
    rows, record = _rows(_CPU_ROW, len(ts), places)
    _set_times(record, ts)
    whole, part = np.divmod(micros, 1_000_000)
    record["v0"], record["v1"] = _FOUR[whole // 100], _TWO[whole % 100]
    record["v2"], record["v3"] = _FOUR[part // 100], _TWO[part % 100]
    return rows


def memory_rows(ts: Ints, values: Ints) -> Bytes:
    """Return a row of bytes per sample; values have nine digits."""
    places = {**_TIME_PLACES, "v0": ("u4", 17), "v1": ("u4", 21), "v2": ("u1", 25)}
    rows, record = _rows(_MEMORY_ROW, len(ts), places)
    _set_times(record, ts)
    high, last = np.divmod(values, 10)
    record["v0"], record["v1"] = _FOUR[high // 10_000], _FOUR[high % 10_000]
    record["v2"] = last + ord("0")
    return rows


@lru_cache(maxsize=256)
def gauge_rows(fleet: Fleet, value: str) -> tuple[memoryview, int]:
    """Return rows for all scrapes of a fleet, at which something has a value; and their length."""
    row = b'[0000000000,"%s"],' % value.encode()
    places = {"t0": ("u4", 1), "t1": ("u4", 5), "t2": ("u2", 9)}
    rows, record = _rows(row, fleet.minutes, places)
    seconds = (fleet.start_ms + SCRAPE_MS + np.arange(fleet.minutes) * MINUTE_MS) // 1000
    high, low = np.divmod(seconds, 100)
    record["t0"], record["t1"] = _FOUR[high // 10_000], _FOUR[high % 10_000]
    record["t2"] = _TWO[low]
    return flat(rows), len(row)
