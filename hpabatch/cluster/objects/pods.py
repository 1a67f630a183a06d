"""Decoding of pods to the fields that an HPA uses.

Requests are read from the spec, as the controller reads them: what a resize in place has granted
so far (status.resources) does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

import msgspec

from hpabatch.cluster.objects.objects import (
    NOTHING,
    SHARED,
    UNREADABLE,
    Decoded,
    Meta,
    Owner,
    Text,
    WireBytes,
    broken,
    key_of,
    optional_ms,
    string_map,
)
from hpabatch.cluster.objects.types import ContainerSpec, Kind, PodObject, PodTemplate
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests

_Amounts: TypeAlias = dict[str, str | int | float | None]


class _Container(msgspec.Struct, gc=False):
    name: Text = None
    restartPolicy: Text = None  # noqa: N815
    resources: msgspec.Raw = msgspec.Raw()


class _Spec(msgspec.Struct, gc=False):
    nodeName: Text = None  # noqa: N815
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None  # noqa: N815
    resources: msgspec.Raw = msgspec.Raw()
    overhead: msgspec.Raw = msgspec.Raw()


class _Condition(msgspec.Struct, gc=False):
    type: Text = None
    status: Text = None
    lastTransitionTime: Text = None  # noqa: N815


class _Status(msgspec.Struct, gc=False):
    phase: Text = None
    startTime: Text = None  # noqa: N815
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct, gc=False):
    metadata: Meta | None = None
    spec: _Spec | None = None
    status: _Status | None = None


class _Resources(msgspec.Struct, gc=False):
    requests: _Amounts | None = None
    limits: _Amounts | None = None


_ContainerKey: TypeAlias = tuple[str, str | None, bytes]
_TemplateKey: TypeAlias = tuple[tuple[_ContainerKey, ...], tuple[_ContainerKey, ...], bytes, bytes]

_POD = msgspec.json.Decoder(_Pod)
_SPEC = msgspec.json.Decoder(_Spec)
_RESOURCES = msgspec.json.Decoder(_Resources)
_AMOUNTS = msgspec.json.Decoder(_Amounts)


class PodDecoder:
    """Decoder of pods: equal requests share one template, equal labels one mapping."""

    kind = Kind.pod

    def __init__(self) -> None:
        """Begin without shared values."""
        self._templates = lru_cache(SHARED)(_template)
        self._labels = lru_cache(SHARED)(string_map)

    def decode(self, raw: WireBytes) -> Decoded:
        """Return a pod.

        Raises:
            BrokenObjectError: it cannot be decoded.
        """
        try:
            pod = _POD.decode(raw)
            meta = pod.metadata or Meta()
            thing = self._pod(meta, pod.spec or _Spec(), pod.status or _Status())
        except UNREADABLE as error:
            raise broken("pod", raw, error) from None
        return Decoded((thing.namespace, thing.name), thing.uid, meta.resourceVersion or "", thing)

    def _pod(self, meta: Meta, spec: _Spec, status: _Status) -> PodObject:
        namespace, name = key_of(meta)
        ready = _ready_condition(status.conditions)
        return PodObject(
            namespace,
            name,
            meta.uid or "",
            self._labels(bytes(meta.labels)),
            owner_text(meta.ownerReferences),
            optional_ms(meta.creationTimestamp) or 0,
            optional_ms(status.startTime),
            optional_ms(meta.deletionTimestamp),
            spec.nodeName or None,
            status.phase or "",
            None if ready is None else ready.status or "",
            None if ready is None else optional_ms(ready.lastTransitionTime),
            self._templates(
                (
                    _container_keys(spec.containers),
                    _container_keys(spec.initContainers),
                    bytes(spec.resources),
                    bytes(spec.overhead),
                )
            ),
        )


def read_template(raw: bytes) -> PodTemplate:
    """Return the requests of pods that are made of a pod template with this spec.

    A limit stands for a request that is left out: so the API server fills in pods, and only pods
    (pkg/apis/core/v1/defaults.go, SetDefaults_Pod).

    Raises:
        msgspec.DecodeError, ValueError: it is no spec of a pod.
    """
    spec = _Spec() if raw in NOTHING else _SPEC.decode(raw)
    containers, init = _container_keys(spec.containers), _container_keys(spec.initContainers)
    found = _template((containers, init, bytes(spec.resources), bytes(spec.overhead)))
    return replace(
        found,
        containers=tuple(_with_limits(item) for item in found.containers),
        init_containers=tuple(_with_limits(item) for item in found.init_containers),
    )


def _with_limits(item: ContainerSpec) -> ContainerSpec:
    requests = {**item.limits, **item.requests.requests}
    return replace(item, requests=replace(item.requests, requests=requests))


def owner_text(owners: list[Owner] | None) -> str | None:
    """Return the controlling owner as `Kind/name`, None without one."""
    for owner in owners or ():
        if owner.controller:
            return f"{owner.kind or ''}/{owner.name or ''}"
    return None


def _ready_condition(conditions: list[_Condition] | None) -> _Condition | None:
    """Return the first condition Ready (podutil.GetPodReadyCondition)."""
    for condition in conditions or ():
        if condition.type == "Ready":
            return condition
    return None


def _container_keys(containers: list[_Container] | None) -> tuple[_ContainerKey, ...]:
    return tuple(
        [(item.name or "", item.restartPolicy, bytes(item.resources)) for item in containers or ()]
    )


def _template(key: _TemplateKey) -> PodTemplate:
    containers, init_containers, resources, overhead = key
    own = _RESOURCES.decode(resources) if resources not in NOTHING else _Resources()
    aside = _AMOUNTS.decode(overhead) if overhead not in NOTHING else None
    return PodTemplate(
        tuple(_container(item) for item in containers),
        tuple(_container(item) for item in init_containers),
        _quantities(own.requests),
        _quantities(own.limits),
        _quantities(aside),
    )


def _container(key: _ContainerKey) -> ContainerSpec:
    name, policy, raw = key
    resources = _RESOURCES.decode(raw) if raw not in NOTHING else _Resources()
    requests = _quantities(resources.requests) or {}
    return ContainerSpec(
        ContainerRequests(name, requests, policy), _quantities(resources.limits) or {}
    )


def _quantities(amounts: _Amounts | None) -> Mapping[str, Quantity] | None:
    """Return quantities by resource; a null one is zero, as Go decodes it."""
    if amounts is None:
        return None
    return {
        name: Quantity.parse("0" if value is None else value) for name, value in amounts.items()
    }
