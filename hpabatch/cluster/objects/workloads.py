"""Sizes of workloads: of the four built-in kinds from the objects, of other kinds from a Scale.

The scale subresource of a built-in kind follows from its object (pkg/registry/apps and core,
scaleFrom…), so one watch replaces as many requests as there are targets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from hpabatch.cluster.objects.objects import (
    NOTHING,
    SHARED,
    UNREADABLE,
    Decoded,
    Meta,
    Text,
    WireBytes,
    broken,
    key_of,
    read_label_selector,
    string_map,
)
from hpabatch.cluster.objects.types import Kind, ScaleKey, ScaleObject
from hpabatch.layout import codes
from hpabatch.model.selectors import selector_from_object

REPLICATION_CONTROLLER: Final = ("", "ReplicationController")
BUILT_IN: Final[dict[tuple[str, str], str]] = {
    ("apps", "Deployment"): "deployments",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps", "ReplicaSet"): "replicasets",
    REPLICATION_CONTROLLER: "replicationcontrollers",
}
"""Resources by group and kind whose scale is read from the object; all are v1."""
ANNOTATION: Final = "hpabatch/apply"
"""With the value "off" on an HPA (with --manifests: on the target), its target is not scaled."""
_ANNOTATION_JSON: Final = b'"hpabatch/apply"'


class _Spec(msgspec.Struct, gc=False):
    replicas: int | None = None
    selector: msgspec.Raw = msgspec.Raw()


class _Status(msgspec.Struct, gc=False):
    replicas: int | None = None
    selector: msgspec.Raw = msgspec.Raw()
    targetSelector: Text = None  # noqa: N815


class _Object(msgspec.Struct, gc=False):
    metadata: Meta | None = None
    spec: _Spec | None = None
    status: _Status | None = None


_OBJECT = msgspec.json.Decoder(_Object)
_TEXT = msgspec.json.Decoder(str)


class WorkloadDecoder:
    """Decoder of Deployments, StatefulSets, ReplicaSets or ReplicationControllers to scales."""

    kind = Kind.scale

    def __init__(self, group: str, kind: str) -> None:
        """Take one of `BUILT_IN`, or a custom kind with the same fields."""
        self._group = group
        self._object_kind = kind
        simple = (group, kind) == REPLICATION_CONTROLLER
        self._selectors = lru_cache(SHARED)(set_text if simple else selector_text)

    def decode(self, raw: WireBytes) -> Decoded:
        """Return a workload's scale; a selector that does not convert is the scale's error.

        Raises:
            BrokenObjectError: it cannot be decoded.
        """
        try:
            found = _OBJECT.decode(raw)
            meta = found.metadata or Meta()
            key = ScaleKey(self._group, self._object_kind, *key_of(meta))
        except UNREADABLE as error:
            raise broken(self._object_kind, raw, error) from None
        try:
            spec, status = found.spec or _Spec(), found.status or _Status()
            selector = self._selectors(bytes(spec.selector))
            thing = ScaleObject(
                key, _size(spec.replicas, 1), _size(status.replicas), selector,
                uid=meta.uid or "", version=meta.resourceVersion or "",
                apply=_annotation(bytes(meta.annotations)),
            )  # fmt: skip
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise broken(self._object_kind, raw, error) from None
        except ValueError as error:
            thing = ScaleObject(key, error=str(error), code=codes.SCALE_GET_FAILED)
        return Decoded(key, meta.uid or "", meta.resourceVersion or "", thing)


def _annotation(raw: bytes) -> str | None:
    return string_map(raw).get(ANNOTATION) if _ANNOTATION_JSON in raw else None


def selector_text(raw: bytes) -> str:
    """Return a LabelSelector object as a scale's string (metav1.LabelSelectorAsSelector).

    Raises:
        msgspec.DecodeError: it is no selector object.
        ValueError: it does not convert; the words are upstream's.
    """
    return str(selector_from_object(read_label_selector(raw)))


def set_text(raw: bytes) -> str:
    """Return a map of labels as a scale's string (labels.SelectorFromSet: nothing is checked)."""
    if raw in NOTHING:
        return ""
    return ",".join(f"{key}={value}" for key, value in sorted(string_map(raw).items()))


def read_scale(key: ScaleKey, raw: bytes) -> ScaleObject:
    """Return the scale in a subresource's response, of any API version.

    In extensions/v1beta1 and apps/v1beta1 and v1beta2 the selector's string is `targetSelector`,
    and a map of labels stands beside it (client-go scale/scheme, Convert_…_ScaleStatus).

    Raises:
        BrokenObjectError: it is no Scale.
    """
    try:
        found = _OBJECT.decode(raw)
        spec, status = found.spec or _Spec(), found.status or _Status()
        written = bytes(status.selector)
        if status.targetSelector:
            selector = status.targetSelector
        elif written[:1] == b"{":
            selector = set_text(written)
        else:
            selector = "" if written in NOTHING else _TEXT.decode(written)
        return ScaleObject(key, _size(spec.replicas), _size(status.replicas), selector)
    except UNREADABLE as error:
        raise broken(f"scale of {key.kind} {key.namespace}/{key.name}", raw, error) from None


def _size(written: int | None, default: int = 0) -> int:
    """Return a number of replicas; an absent one has the API's default."""
    if written is None:
        return default
    if not -(2**31) <= written < 2**31:
        raise ValueError(f"{written} is not an int32")
    return written
