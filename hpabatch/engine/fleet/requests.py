"""Requests of a recorded pod at a time, by the rules of `model.requests`."""

from __future__ import annotations

from functools import lru_cache

from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests, PodRequest, RequestRules, pod_request

Row = tuple[str, str, int, int | None, int | None]  # container, kind, index, cpu, memory in milli


@lru_cache(maxsize=200_000)
def request_of_rows(
    rows: tuple[Row, ...], resource: str, container: str, rules: RequestRules
) -> tuple[int, int]:
    """Return (known 0/1, milli) of a pod's request; equal pods are computed once."""
    request = _request(rows, resource, container, rules, "")
    return int(request.error is None), request.milli


def request_error_of_rows(
    rows: tuple[Row, ...], resource: str, container: str, rules: RequestRules, pod: str
) -> str:
    """Return upstream's error of a request that is not known; `pod` is the pod's name.

    A pod without any row was recorded without its containers; there upstream would name the first,
    or the one that is asked for.
    """
    if not rows:
        rows = ((container or "<not recorded>", "app", 0, None, None),)
    return _request(rows, resource, container, rules, pod).error or ""


def _request(
    rows: tuple[Row, ...], resource: str, container: str, rules: RequestRules, pod: str
) -> PodRequest:
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
    return pod_request(
        pod,
        of_kind("app"),
        of_kind("sidecar", "init"),
        level[0] if level else None,
        overhead[0] if overhead else None,
        container=container,
        resource=resource,
        rules=rules,
    )
