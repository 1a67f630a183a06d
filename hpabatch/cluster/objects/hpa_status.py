"""Fast decoding of an HPA's status in v2 and v2beta2: it changes at every sync.

The result is that of `model.objects.decode`, which takes over where the fast path does not apply.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from hpabatch.cluster.objects.objects import NOTHING, Text, read_label_selector
from hpabatch.model.objects.decode_fields import api_time_ms
from hpabatch.model.objects.decode_status import MEMBERS
from hpabatch.model.objects.hpa import (
    Condition,
    CrossVersionObjectReference,
    HPAStatus,
    MetricIdentifier,
    MetricStatus,
    MetricValueStatus,
)
from hpabatch.model.quantity import Quantity

_INT32 = 2**31
_INT64 = 2**63


class _Status(msgspec.Struct, gc=False):
    currentReplicas: int | None = None  # noqa: N815
    desiredReplicas: int | None = None  # noqa: N815
    lastScaleTime: Text = None  # noqa: N815
    observedGeneration: int | None = None  # noqa: N815
    conditions: msgspec.Raw = msgspec.Raw()
    currentMetrics: msgspec.Raw = msgspec.Raw()  # noqa: N815


class _Condition(msgspec.Struct, gc=False):
    type: Text = None
    status: Text = None
    reason: Text = None
    message: Text = None
    lastTransitionTime: Text = None  # noqa: N815


class _Reference(msgspec.Struct, gc=False):
    kind: Text = None
    name: Text = None
    apiVersion: Text = None  # noqa: N815


class _Identifier(msgspec.Struct, gc=False):
    name: Text = None
    selector: msgspec.Raw = msgspec.Raw()


class _Current(msgspec.Struct, gc=False):
    value: str | int | float | None = None
    averageValue: str | int | float | None = None  # noqa: N815
    averageUtilization: int | None = None  # noqa: N815


class _Member(msgspec.Struct, gc=False):
    name: Text = None
    container: Text = None
    metric: _Identifier | None = None
    describedObject: _Reference | None = None  # noqa: N815
    current: _Current | None = None


class _Metric(msgspec.Struct, gc=False):
    type: Text = None
    object: _Member | None = None
    pods: _Member | None = None
    resource: _Member | None = None
    containerResource: _Member | None = None  # noqa: N815
    external: _Member | None = None


_STATUS = msgspec.json.Decoder(_Status)
_CONDITIONS = msgspec.json.Decoder(list[_Condition | None])
_METRICS = msgspec.json.Decoder(list[_Metric | None])


class StatusReader:
    """Reader of one HPA's status; keeps its conditions, which seldom change."""

    __slots__ = ("_conditions", "_written")

    def __init__(self) -> None:
        """Begin without conditions."""
        self._written = b""
        self._conditions: tuple[Condition, ...] = ()

    def read(self, raw: bytes) -> HPAStatus:
        """Return a status.

        Raises:
            msgspec.DecodeError, ValueError: a part of it does not have the form of the API.
        """
        if raw in NOTHING:
            return HPAStatus()
        status = _STATUS.decode(raw)
        written = bytes(status.conditions)
        if written != self._written:
            self._conditions = () if written in NOTHING else read_conditions(written)
            self._written = written
        if status.lastScaleTime is not None:
            api_time_ms(status.lastScaleTime)
        metrics = bytes(status.currentMetrics)
        generation = status.observedGeneration
        if generation is not None and not -_INT64 <= generation < _INT64:
            raise ValueError(f"{generation} is not an int64")
        return HPAStatus(
            _int32(status.currentReplicas) or 0,
            _int32(status.desiredReplicas) or 0,
            status.lastScaleTime,
            generation,
            self._conditions,
            None if metrics in NOTHING else read_metrics(metrics),
        )


def read_conditions(raw: bytes) -> tuple[Condition, ...]:
    """Return `status.conditions`; raises as `StatusReader.read`."""
    found = []
    for item in _CONDITIONS.decode(raw):
        written = item or _Condition()
        if written.lastTransitionTime is not None:
            api_time_ms(written.lastTransitionTime)
        condition = Condition(
            written.type or "",
            written.status or "",
            written.reason or "",
            written.message or "",
            written.lastTransitionTime,
        )
        found.append(condition)
    return tuple(found)


def read_metrics(raw: bytes) -> tuple[MetricStatus, ...]:
    """Return `status.currentMetrics`; raises as `StatusReader.read`."""
    return tuple([_metric(item or _Metric()) for item in _METRICS.decode(raw)])


def _metric(item: _Metric) -> MetricStatus:
    """Return one entry: the member of its type, else the first other one, else an empty status."""
    kind = item.type or ""
    member = getattr(item, MEMBERS[kind]) if kind in MEMBERS else None
    if member is not None:
        return _shown(kind, member)
    for other, name in MEMBERS.items():
        member = getattr(item, name)
        if member is not None:
            return _shown(other, member)
    return MetricStatus("" if kind in MEMBERS else kind)


def _shown(kind: str, member: _Member) -> MetricStatus:
    current = member.current or _Current()
    value = MetricValueStatus(
        _quantity(current.value),
        _quantity(current.averageValue),
        _int32(current.averageUtilization),
    )
    if kind == "Resource":
        return MetricStatus(kind, member.name or "", current=value)
    if kind == "ContainerResource":
        return MetricStatus(kind, member.name or "", member.container or "", current=value)
    described = _reference(member.describedObject) if kind == "Object" else None
    return MetricStatus(
        kind, metric=_identifier(member.metric), described_object=described, current=value
    )


def _reference(written: _Reference | None) -> CrossVersionObjectReference:
    item = written or _Reference()
    return _shared_reference(item.kind or "", item.name or "", item.apiVersion or "")


def _identifier(written: _Identifier | None) -> MetricIdentifier:
    item = written or _Identifier()
    return _shared_identifier(item.name or "", bytes(item.selector))


# These are the same at every sync.
@lru_cache(maxsize=20_000)
def _shared_reference(kind: str, name: str, api_version: str) -> CrossVersionObjectReference:
    return CrossVersionObjectReference(kind, name, api_version)


@lru_cache(maxsize=20_000)
def _shared_identifier(name: str, selector: bytes) -> MetricIdentifier:
    return MetricIdentifier(name, read_label_selector(selector))


def _quantity(value: str | int | float | None) -> Quantity | None:
    return None if value is None else Quantity.parse(value)


def _int32(value: int | None) -> int | None:
    if value is not None and not -_INT32 <= value < _INT32:
        raise ValueError(f"{value} is not an int32")
    return value
