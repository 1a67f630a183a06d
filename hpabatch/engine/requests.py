"""What a recorded pod requests at a time, by the rules of `model.requests`."""

from __future__ import annotations

from functools import lru_cache

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
