"""Decoding of HPAs of any API version: defaulted and checked.

The cluster's own controller rewrites each HPA's status at every sync. The rest is kept, and reused
while its bytes are the same: it takes most of the time.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache, partial

import msgspec

from hpabatch.cluster.objects.objects import (
    NOTHING,
    SHARED,
    UNREADABLE,
    Decoded,
    Meta,
    WireBytes,
    broken,
    key_of,
)
from hpabatch.cluster.objects.types import HpaObject, Kind, PodKey
from hpabatch.model.objects.decode import KIND, V2, V2BETA2, VERSIONS, decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPAStatus
from hpabatch.model.objects.validate import undecidable
from hpabatch.model.versions import NEWEST_K8S, Profile, profile_for


class _Hpa(msgspec.Struct, gc=False):
    apiVersion: str | None = None  # noqa: N815
    metadata: Meta | None = None
    spec: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()


_HPA = msgspec.json.Decoder(_Hpa)


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
        self._known = lru_cache(SHARED)(partial(_learn, profile or profile_for(NEWEST_K8S)))

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

    def _hpa(self, key: PodKey, wire: _Hpa, meta: Meta) -> HpaObject:
        version = wire.apiVersion or self._version
        metadata = {
            "name": meta.name, "namespace": meta.namespace, "uid": meta.uid,
            "generation": meta.generation, "creationTimestamp": meta.creationTimestamp,
            "ownerReferences": meta.ownerReferences or [], "labels": _given(meta.labels),
            "annotations": _given(meta.annotations),
        }  # fmt: skip
        document: dict[str, object] = {"apiVersion": version, "kind": KIND}
        written = {**document, "metadata": metadata, "spec": _given(wire.spec)}
        known, problem = self._known(msgspec.json.encode(written))
        if problem:
            return HpaObject(*key, known, problem)
        document["status"] = json.loads(bytes(_given(wire.status)))
        if version not in (V2, V2BETA2):  # older ones have a part of it in annotations
            document["metadata"] = {"annotations": json.loads(bytes(_given(meta.annotations)))}
        hpa, problem = _read(document)
        return HpaObject(*key, known if problem else replace(known, status=hpa.status), problem)


def _learn(profile: Profile, written: bytes) -> tuple[HPA, str]:
    """Return an HPA without its status, decoded, defaulted and validated, and its problem."""
    hpa, problem = _read(json.loads(written))
    if problem:
        return replace(hpa, status=HPAStatus()), problem
    hpa = default_hpa(replace(hpa, status=HPAStatus()))
    return hpa, undecidable(hpa, profile)


def _read(document: dict[str, object]) -> tuple[HPA, str]:
    """Return a document's HPA, and the errors of decoding."""
    hpa, problems = decode_hpa(document)
    errors = [str(problem) for problem in problems if problem.severity is Severity.error]
    return hpa, "; ".join(errors)


def _given(raw: msgspec.Raw) -> msgspec.Raw:
    return msgspec.Raw(b"null") if bytes(raw) in NOTHING else raw
