"""Form fields of requests, and what their responses must be."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from hpabatch.importers.prometheus.client.responses import Expected

Must = Mapping[str, Collection[str] | None]
Fields = list[tuple[str, str]]

# Fields that servers need for an exact response; Prometheus itself needs none.
# Thanos: its defaults, unless a site changed them. VictoriaMetrics: without nocache it moves the
# times of range queries to multiples of what it caches.
_EXACTLY: Final[Mapping[str, Fields]] = {
    "thanos": [("dedup", "true"), ("partial_response", "false"), ("max_source_resolution", "0s")],
    "victoriametrics": [("nocache", "1"), ("deny_partial_response", "1")],
}
_RANGE: Final = re.compile(r"\[\s*((?:\d+(?:ms|[smhdwy]))+)\s*(:[^\[\]]*)?\]$")
_SHIFT: Final = re.compile(r"(?:\boffset\s+-?\w+|@\s*[-+\w.]+(?:\(\))?)$", re.IGNORECASE)
_DURATION: Final = re.compile(r"(\d+)(ms|[smhdwy])")
_UNIT_MS: Final = {
    "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000,
    "y": 365 * 86_400_000,
}  # fmt: skip
_FIRST_MS: Final = 0
_LAST_MS: Final = 2**43  # in the year 2248


def expected_at(query: str, at_ms: int, must: Must) -> Expected:
    """Return what the response to an instant query must be, by the end of the query.

    One that ends in a range (`x[5m]`) gives a matrix of the samples of that time, every other a
    vector at the instant; with `offset` or `@` at its end the time is not looked into.
    """
    rest = query.rstrip()
    shifted = _SHIFT.search(rest)
    while (shift := _SHIFT.search(rest)) is not None:
        rest = rest[: shift.start()].rstrip()
    window = _RANGE.search(rest)
    if window is None:
        return Expected(at_ms, at_ms, must, "vector")
    if shifted is not None:
        return Expected(_FIRST_MS, _LAST_MS, must, "matrix")
    length = sum(int(n) * _UNIT_MS[unit] for n, unit in _DURATION.findall(window[1]))
    return Expected(at_ms - length, at_ms, must, "matrix")


def expected_in_steps(start_ms: int, end_ms: int, step_ms: int, must: Must) -> Expected:
    """Return what the response to a range query must be.

    The query frontend of Thanos moves a start to the multiple of the step before it.
    """
    first_ms = start_ms if start_ms % step_ms == 0 else start_ms - step_ms
    return Expected(first_ms, end_ms, must, "matrix", step_ms)


def exact_fields(flavour: str) -> Fields:
    """Return the additional fields for a flavour; for an unknown one those of all."""
    if flavour == "unknown":
        return [field for fields in _EXACTLY.values() for field in fields]
    return list(_EXACTLY.get(flavour, []))


def names_field(text: str, fields: Fields) -> bool:
    """Say whether an error is about one of these fields: Google's API refuses unknown ones."""
    return any(re.search(rf"\b{re.escape(name)}\b", text) is not None for name, _ in fields)


def seconds(ms: int) -> str:
    """Return an instant or a length as servers read it, to the millisecond."""
    return f"{ms // 1000}.{ms % 1000:03d}"
