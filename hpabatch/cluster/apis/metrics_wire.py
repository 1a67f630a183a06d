"""Decoding of responses of metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io.

One broken item among those of thousands of pods does not spoil a response: it is left out and
named, and its pod counts as one without a sample. (Upstream requests metrics per HPA, and fails
that HPA's metric alone.) A response to a request for a single metric fails as a whole, as
upstream's does.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import msgspec

from hpabatch.cluster.objects.objects import UNREADABLE, Text, duration_ms, optional_ms
from hpabatch.cluster.objects.types import ContainerUsage, PodSample, SeriesSample, UsageSample
from hpabatch.model.quantity import Quantity

_Amount: TypeAlias = str | int | float | None
_SHOWN_NOTES = 3

ItemT = TypeVar("ItemT")
SampleT = TypeVar("SampleT")


class _Named(msgspec.Struct, gc=False):
    namespace: Text = None
    name: Text = None


class _Amounts(msgspec.Struct, gc=False):
    cpu: _Amount = None
    memory: _Amount = None


class _Container(msgspec.Struct, gc=False):
    name: Text = None
    usage: _Amounts | None = None


class _PodMetrics(msgspec.Struct, gc=False):
    metadata: _Named | None = None
    timestamp: Text = None
    window: Text = None
    containers: list[_Container] | None = None


class _Value(msgspec.Struct, gc=False):
    """A MetricValue; v1beta1's `window` is windowSeconds in v1beta2."""

    describedObject: _Named | None = None  # noqa: N815
    timestamp: Text = None
    window: int | None = None
    windowSeconds: int | None = None  # noqa: N815
    value: _Amount = None


class _ExternalValue(msgspec.Struct, gc=False):
    metricLabels: dict[str, Text] | None = None  # noqa: N815
    timestamp: Text = None
    value: _Amount = None


class _UsageList(msgspec.Struct, gc=False):
    items: list[_PodMetrics] | None = None


class _ValueList(msgspec.Struct, gc=False):
    items: list[_Value] | None = None


class _ExternalList(msgspec.Struct, gc=False):
    items: list[_ExternalValue] | None = None


class _RawList(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


_USAGE_LIST = msgspec.json.Decoder(_UsageList)
_VALUE_LIST = msgspec.json.Decoder(_ValueList)
_EXTERNAL_LIST = msgspec.json.Decoder(_ExternalList)
_RAW_LIST = msgspec.json.Decoder(_RawList)
_USAGE_ITEM = msgspec.json.Decoder(_PodMetrics)
_VALUE_ITEM = msgspec.json.Decoder(_Value)


def read_usage(body: bytes, notes: list[str], namespace: str = "") -> tuple[UsageSample, ...]:
    """Return the samples of a PodMetricsList.

    Args:
        body: the response.
        notes: problems of single items are added here.
        namespace: of items that name none.

    Raises:
        ValueError: the response is no such list.
    """
    try:
        with collector_held():
            found = _USAGE_LIST.decode(body)
            return tuple([_usage(item, namespace) for item in found.items or ()])
    except UNREADABLE:
        return _one_by_one(body, _USAGE_ITEM, lambda item: _usage(item, namespace), notes)


def _usage(item: _PodMetrics, namespace: str) -> UsageSample:
    named = item.metadata
    if named is None or not named.name:
        raise ValueError("metadata.name is missing")
    window = item.window
    return UsageSample(
        named.namespace or namespace,
        named.name,
        optional_ms(item.timestamp) or 0,
        None if window is None else duration_ms(window),
        tuple([_container(container) for container in item.containers or ()]),
    )


def _container(item: _Container) -> ContainerUsage:
    usage = item.usage
    if usage is None:
        return ContainerUsage(item.name or "", None, None)
    cpu, memory = usage.cpu, usage.memory
    return ContainerUsage(
        item.name or "",
        None if cpu is None else milli_of(cpu),
        None if memory is None else milli_of(memory),
    )


def read_pod_values(body: bytes, notes: list[str]) -> tuple[PodSample, ...]:
    """Return the samples of pods in a MetricValueList, the last of each pod's.

    Args:
        body: the response.
        notes: problems of single items are added here.

    Raises:
        ValueError: the response is no such list.
    """
    try:
        with collector_held():
            found = _VALUE_LIST.decode(body)
            samples: Iterable[PodSample] = [_pod_value(item) for item in found.items or ()]
    except UNREADABLE:
        samples = _one_by_one(body, _VALUE_ITEM, _pod_value, notes)
    return tuple({sample.pod: sample for sample in samples}.values())


def _pod_value(item: _Value) -> PodSample:
    of = item.describedObject
    if of is None or not of.name:
        raise ValueError("describedObject.name is missing")
    window_s = item.window if item.windowSeconds is None else item.windowSeconds
    return PodSample(
        of.name,
        optional_ms(item.timestamp) or 0,
        None if window_s is None else _window_ms(window_s),
        _milli(item.value),
    )


def _window_ms(seconds: int) -> int:
    """Return windowSeconds in ms, as metrics/client.go has it: in ns of 64 bits, which wrap."""
    if not -(2**63) <= seconds < 2**63:
        raise ValueError(f"expected a window as a 64-bit number of seconds, got {seconds}")
    wrapped_ns = (seconds * 10**9 + 2**63) % 2**64 - 2**63
    return wrapped_ns // 10**6


def read_object_value(body: bytes) -> tuple[SeriesSample, ...]:
    """Return the one sample of a MetricValueList.

    Raises:
        ValueError: it has another number of items (in upstream's words), or is no such list.
    """
    items = _decoded(_VALUE_LIST, body).items or []
    if len(items) != 1:
        raise ValueError(
            f"the custom metrics API server returned {len(items)} results when we asked for "
            "exactly one"
        )
    item = items[0]
    ts_ms = optional_ms(item.timestamp) or 0
    return (SeriesSample("", ts_ms, _milli(item.value)),)


def read_external_values(body: bytes) -> tuple[SeriesSample, ...]:
    """Return the samples of an ExternalMetricValueList, named by their labels.

    Raises:
        ValueError: it is no such list.
    """
    samples = []
    seen: dict[str, int] = {}
    for item in _decoded(_EXTERNAL_LIST, body).items or ():
        labels = item.metricLabels or {}
        series = ",".join(f"{key}={value or ''}" for key, value in sorted(labels.items()))
        nth = seen[series] = seen.get(series, 0) + 1
        ts_ms = optional_ms(item.timestamp) or 0
        name = series if nth == 1 else f"{series}#{nth}"
        samples.append(SeriesSample(name, ts_ms, _milli(item.value)))
    return tuple(samples)


def _milli(value: _Amount) -> int:
    return 0 if value is None else milli_of(value)


def _decoded(decoder: msgspec.json.Decoder[ItemT], body: bytes) -> ItemT:
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise ValueError(f"the response cannot be decoded: {error}") from None


def _one_by_one(
    body: bytes,
    decoder: msgspec.json.Decoder[ItemT],
    read: Callable[[ItemT], SampleT],
    notes: list[str],
) -> tuple[SampleT, ...]:
    """Return the samples of the items that can be read, and name those that cannot."""
    samples: list[SampleT] = []
    broken = 0
    for index, raw in enumerate(_decoded(_RAW_LIST, body).items or ()):
        try:
            samples.append(read(decoder.decode(raw)))
        except UNREADABLE as error:
            broken += 1
            if broken <= _SHOWN_NOTES:
                notes.append(f"items[{index}]{_whose(raw)} is left out: {error}")
    if broken > _SHOWN_NOTES:
        notes.append(f"{broken - _SHOWN_NOTES} more items are left out")
    return tuple(samples)


class _Whose(msgspec.Struct, gc=False):
    metadata: _Named | None = None
    describedObject: _Named | None = None  # noqa: N815


def _whose(raw: msgspec.Raw) -> str:
    """Return the name of an item's pod for messages, "" if it cannot be read."""
    try:
        found = msgspec.json.decode(raw, type=_Whose)
    except UNREADABLE:
        return ""
    named = found.metadata or found.describedObject or _Named()
    return f" of {named.namespace or ''}/{named.name}" if named.name else ""


_lock = threading.Lock()
_holding = 0
_was_enabled = False


@contextmanager
def collector_held() -> Iterator[None]:
    """Hold the collector back, in the whole process; several threads may at once."""
    global _holding, _was_enabled
    with _lock:
        if not _holding:
            _was_enabled = gc.isenabled()
            gc.disable()
        _holding += 1
    try:
        yield
    finally:
        with _lock:
            _holding -= 1
            if not _holding and _was_enabled:
                gc.enable()


_UNITS_PER_MILLI = {"n": 1_000_000, "u": 1000, "m": 1}
_BINARY_MILLI = {"Ki": (1024_000, 11), "Mi": (1024_000 << 10, 8), "Gi": (1024_000 << 20, 5)}
_MAX_DIGITS = 18
_MAX_WHOLE_DIGITS = 15


def milli_of(value: str | int | float) -> int:
    """Return what `Quantity.parse(value).milli()` returns, for all that it takes.

    The forms that metrics servers write (`123456789n`, `52m`, `123456Ki`, `104857600`) are read
    at once, as far as upstream keeps them exactly in 64 bits: more is rounded up to whole milli.

    Raises:
        ValueError: not a quantity.
    """
    if type(value) is str and value.isascii():
        digits, unit = value[:-1], value[-1:]
        if digits.isdigit():
            divisor = _UNITS_PER_MILLI.get(unit)
            if divisor is not None and len(digits) <= _MAX_DIGITS:
                return -(-int(digits) // divisor)
            if unit.isdigit() and len(digits) < _MAX_WHOLE_DIGITS:
                return int(value) * 1000
        elif unit == "i":
            factor, most = _BINARY_MILLI.get(value[-2:], (0, 0))
            digits = value[:-2]
            if len(digits) <= most and digits.isdigit():
                return int(digits) * factor
    return Quantity.parse(value).milli()
