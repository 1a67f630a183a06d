"""What a recorded pod requests at a time, by the rules of `model.requests`."""

from __future__ import annotations

from functools import lru_cache

import polars as pl

from hpabatch.engine.recording import Recording, milliseconds
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests, pod_request

Row = tuple[str, str, int, int | None, int | None]  # container, kind, index, cpu, memory in milli


@lru_cache(maxsize=200_000)
def request_of_rows(
    rows: tuple[Row, ...], resource: str, container: str, pod_level_gate: bool
) -> tuple[int, int]:
    """Return (known 0/1, milli) of a pod's request; equal pods are computed once."""

    def amounts(row: Row) -> dict[str, Quantity]:
        pairs = (("cpu", row[3]), ("memory", row[4]))
        return {name: Quantity.from_milli(v) for name, v in pairs if v is not None}

    def of_kind(*kinds: str) -> list[ContainerRequests]:
        chosen = sorted((row for row in rows if row[1] in kinds), key=lambda row: row[2])
        return [
            ContainerRequests(row[0], amounts(row), "Always" if row[1] == "sidecar" else None)
            for row in chosen
        ]

    level = [amounts(row) for row in rows if row[1] == "pod"]
    overhead = [amounts(row) for row in rows if row[1] == "overhead"]
    request = pod_request(
        "",
        of_kind("app"),
        of_kind("sidecar", "init"),
        level[0] if level else None,
        overhead[0] if overhead else None,
        container=container,
        resource=resource,
        pod_level_gate=pod_level_gate,
    )
    return int(request.error is None), request.milli


class RequestLookup:
    """Requests of a recording's pods, valid from a time on (resizes in place)."""

    def __init__(self, recording: Recording, pod_level_gate: bool) -> None:
        """Take the rows out of the frame once; they are looked at pod by pod."""
        self.first = recording.request_first
        frame = recording.requests
        self.valid_from = milliseconds(frame["valid_from"])
        columns = ["container", "kind", "index", "cpu_milli", "memory_milli"]
        self.rows: list[Row] = list(frame.select(pl.col(columns)).iter_rows())
        self.pod_level_gate = pod_level_gate

    def change_times(self, p: int) -> list[int]:
        """Return the times in ms at which a pod's requests change."""
        first, last = int(self.first[p]), int(self.first[p + 1])
        return sorted(set(self.valid_from[first:last].tolist()))

    def request(self, p: int, ms: int, resource: str, container: str) -> tuple[int, int]:
        """Return (known 0/1, milli) of a pod's request at a time.

        Before its first row a pod has what that row says.
        """
        first, last = int(self.first[p]), int(self.first[p + 1])
        if first == last:
            return 0, 0
        at = max(ms, int(self.valid_from[first]))
        latest: dict[tuple[str, str, int], Row] = {}
        for k in range(first, last):
            if self.valid_from[k] <= at:
                row = self.rows[k]
                latest[row[:3]] = row
        return request_of_rows(tuple(latest.values()), resource, container, self.pod_level_gate)
