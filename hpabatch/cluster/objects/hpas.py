"""Decoding of HPAs of any API version: defaulted and checked.

The cluster's own controller rewrites each HPA's status at every sync. The rest is kept, and reused
while its bytes are the same: it takes most of the time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import msgspec
from msgspec import to_builtins

from hpabatch.cluster.objects.objects import (
    NOTHING,
    UNREADABLE,
    Decoded,
    Meta,
    WireBytes,
    broken,
    key_of,
)
from hpabatch.cluster.objects.pods import owner_text
from hpabatch.cluster.objects.types import HpaObject, Kind, PodKey
from hpabatch.model.objects.decode import KIND, V2, V2BETA2, VERSIONS, decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPAStatus
from hpabatch.model.objects.validate import undecidable
from hpabatch.model.versions import NEWEST_K8S, Profile, profile_for

_KNOWN_LIMIT = 100_000  # HPAs whose spec is kept


class _Hpa(msgspec.Struct, gc=False):
    apiVersion: str | None = None  # noqa: N815
    metadata: Meta | None = None
    spec: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()


_HPA = msgspec.json.Decoder(_Hpa)


@dataclass(slots=True)
class _Known:
    """The last state of one HPA without its status."""

    written: tuple[object, ...]
    hpa: HPA
    problem: str


class HpaDecoder:
    """Decodes HPAs of one API version."""

    kind = Kind.hpa

    def __init__(self, version: str = V2, profile: Profile | None = None) -> None:
        """Take the version of list items, and the profile that validates them.

        An object that names its own version has that one.

        Raises:
            ValueError: no such version of autoscaling.
        """
        if version not in VERSIONS:
            raise ValueError(f"{version} is none of {', '.join(VERSIONS)}")
        self._version = version
        self._profile = profile or profile_for(NEWEST_K8S)
        self._known: dict[PodKey, _Known] = {}

    def decode(self, raw: WireBytes) -> Decoded:
        """Return an HPA; one with an unusable spec has a `problem`, and raises nothing.

        Raises:
            BrokenObjectError: it cannot be decoded.
        """
        try:
            wire = _HPA.decode(raw)
            meta = wire.metadata or Meta()
            key = key_of(meta)
            thing = self._hpa(key, wire, meta)
        except UNREADABLE as error:
            raise broken("horizontalpodautoscaler", raw, error) from None
        return Decoded(key, meta.uid or "", meta.resourceVersion or "", thing)

    def forget(self, key: PodKey) -> None:
        """Forget a deleted HPA."""
        self._known.pop(key, None)

    def _hpa(self, key: PodKey, wire: _Hpa, meta: Meta) -> HpaObject:
        version = wire.apiVersion or self._version
        written = (
            version, meta.uid, meta.generation, meta.creationTimestamp, bytes(wire.spec),
            bytes(meta.labels), bytes(meta.annotations), owner_text(meta.ownerReferences),
        )  # fmt: skip
        known = self._known.get(key)
        if known is None or known.written != written:
            known = self._learn(key, written, _document(version, wire, meta))
        if known.problem:
            return HpaObject(*key, known.hpa, known.problem)
        document = {"apiVersion": version, "kind": KIND, "status": _json(wire.status)}
        if version not in (V2, V2BETA2):  # older ones have a part of it in annotations
            document["metadata"] = {"annotations": _json(meta.annotations)}
        hpa, problem = _read(document)
        if problem:
            return HpaObject(*key, known.hpa, problem)
        return HpaObject(*key, replace(known.hpa, status=hpa.status))

    def _learn(
        self, key: PodKey, written: tuple[object, ...], document: dict[str, object]
    ) -> _Known:
        """Decode, default and validate an HPA."""
        hpa, problem = _read(document)
        hpa = replace(hpa, status=HPAStatus())
        if not problem:
            hpa = default_hpa(hpa)
            problem = undecidable(hpa, self._profile)
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        known = self._known[key] = _Known(written, hpa, problem)
        return known


def _read(document: dict[str, object]) -> tuple[HPA, str]:
    """Return a document's HPA, and the errors of decoding."""
    hpa, problems = decode_hpa(document)
    errors = [str(problem) for problem in problems if problem.severity is Severity.error]
    return hpa, "; ".join(errors)


def _document(version: str, wire: _Hpa, meta: Meta) -> dict[str, object]:
    """Return an HPA without its status, for `model.objects.decode`."""
    return {
        "apiVersion": version,
        "kind": KIND,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "generation": meta.generation,
            "creationTimestamp": meta.creationTimestamp,
            "ownerReferences": [to_builtins(one) for one in meta.ownerReferences or ()],
            "labels": _json(meta.labels),
            "annotations": _json(meta.annotations),
        },
        "spec": _json(wire.spec),
    }


def _json(raw: msgspec.Raw) -> object:
    written = bytes(raw)
    return None if written in NOTHING else json.loads(written)
