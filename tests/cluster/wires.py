"""Documents as servers of several versions write them, and changes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hpabatch.cluster.objects.types import HpaObject, MetricKey, requests_of

_FOLDER = Path(__file__).with_name("wire")


def wire(name: str) -> Any:
    """Return a document of the folder `wire`, parsed anew."""
    return json.loads((_FOLDER / f"{name}.json").read_text())


def packed(document: object) -> bytes:
    """Return a document as a server sends it."""
    return json.dumps(document, separators=(",", ":")).encode()


def wire_bytes(name: str) -> bytes:
    return packed(wire(name))


def merged(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with other fields, objects merged, the rest replaced."""
    found = dict(document)
    for key, value in changes.items():
        had = found.get(key)
        if isinstance(value, Mapping) and isinstance(had, Mapping):
            found[key] = merged(had, value)
        else:
            found[key] = value
    return found


def wanted(hpas: Iterable[HpaObject]) -> frozenset[MetricKey]:
    """Return the requests that some HPAs need."""
    usable = (item for item in hpas if not item.problem)
    return frozenset[MetricKey]().union(
        *(requests_of(item.namespace, item.hpa.spec) for item in usable)
    )
