"""Decoders: HPAs of any API version, pods, sizes of workloads, and what keeps pods available.

HPAs are defaulted and checked. Requests of pods are read from the spec, as the controller reads
them: what a resize in place has granted so far (status.resources) does not count. The cluster's own
controller rewrites each HPA's status at every sync. The rest is kept, and reused while its bytes
are the same: it takes most of the time.

The scale subresource of a built-in kind follows from its object (pkg/registry/apps and core,
scaleFrom…), so one watch replaces as many requests as there are targets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final, TypeAlias

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
    read_label_selector,
    string_map,
)
from hpabatch.cluster.objects.types import (
    ContainerSpec,
    HpaObject,
    Kind,
    PodKey,
    PodObject,
    PodTemplate,
    ScaleKey,
    ScaleObject,
)
from hpabatch.layout import codes
from hpabatch.model.availability import Availability, Budget, Spread
from hpabatch.model.objects.decode import KIND, V2, V2BETA2, VERSIONS, decode_hpa
from hpabatch.model.objects.decode_fields import Severity
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA, HPAStatus, LabelSelector
from hpabatch.model.objects.validate import undecidable
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests
from hpabatch.model.selectors import Selector, selector_from_object
from hpabatch.model.versions import NEWEST_K8S, Profile, profile_for

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
        return Decoded((thing.namespace, thing.name), thing)

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
        return Decoded(key, thing)

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
    hpa, problems = decode_hpa(document)
    errors = [str(problem) for problem in problems if problem.severity is Severity.error]
    return hpa, "; ".join(errors)


def _given(raw: msgspec.Raw) -> msgspec.Raw:
    return msgspec.Raw(b"null") if bytes(raw) in NOTHING else raw


REPLICATION_CONTROLLER: Final = ("", "ReplicationController")
BUILT_IN: Final[dict[tuple[str, str], str]] = {
    ("apps", "Deployment"): "deployments",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps", "ReplicaSet"): "replicasets",
    REPLICATION_CONTROLLER: "replicationcontrollers",
}
"""Resources by group and kind whose scale is read from the object; all are v1."""


class _WorkloadSpec(msgspec.Struct, gc=False):
    replicas: int | None = None
    selector: msgspec.Raw = msgspec.Raw()


class _WorkloadStatus(msgspec.Struct, gc=False):
    replicas: int | None = None
    selector: msgspec.Raw = msgspec.Raw()


class _Object(msgspec.Struct, gc=False):
    metadata: Meta | None = None
    spec: _WorkloadSpec | None = None
    status: _WorkloadStatus | None = None


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
            spec, status = found.spec or _WorkloadSpec(), found.status or _WorkloadStatus()
            selector = self._selectors(bytes(spec.selector))
            thing = ScaleObject(
                key, _size(spec.replicas, 1), _size(status.replicas), selector,
                uid=meta.uid or "", version=meta.resourceVersion or "",
            )  # fmt: skip
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise broken(self._object_kind, raw, error) from None
        except ValueError as error:
            thing = ScaleObject(key, error=str(error), code=codes.SCALE_GET_FAILED)
        return Decoded(key, thing)


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
    """Return the scale in a subresource's response, of autoscaling/v1.

    Raises:
        BrokenObjectError: it is no Scale.
    """
    try:
        found = _OBJECT.decode(raw)
        spec, status = found.spec or _WorkloadSpec(), found.status or _WorkloadStatus()
        written = bytes(status.selector)
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


OLD_BUDGETS = "policy/v1beta1"
"""The version in which an empty selector matches no pod; in v1 it matches all."""


@dataclass(frozen=True, slots=True)
class BudgetObject:
    """A disruption budget and the pods of its namespace that it is of."""

    namespace: str
    selector: Selector
    budget: Budget

    @property
    def name(self) -> str:
        """Its name."""
        return self.budget.name

    def is_of(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it is of pods with these labels."""
        return namespace == self.namespace and self.selector.matches(labels)


@dataclass(slots=True)
class Domains:
    """The values of the labels of all nodes, by key."""

    values: dict[str, set[str]] = field(default_factory=dict)

    def add(self, labels: Mapping[str, str]) -> None:
        """Take a node's labels."""
        for key, value in labels.items():
            self.values.setdefault(key, set()).add(value)

    def counted(self, spread: Spread) -> Spread:
        """Return a constraint with the number of its key's domains, if a node has that label."""
        found = self.values.get(spread.key)
        return spread if found is None else replace(spread, domains=len(found))


class _BudgetSpec(msgspec.Struct, gc=False):
    minAvailable: str | int | None = None  # noqa: N815
    maxUnavailable: str | int | None = None  # noqa: N815
    selector: msgspec.Raw = msgspec.Raw()


class _Budget(msgspec.Struct, gc=False):
    apiVersion: Text = None  # noqa: N815
    metadata: Meta | None = None
    spec: _BudgetSpec | None = None


class _Node(msgspec.Struct, gc=False):
    metadata: Meta | None = None


class _Constraint(msgspec.Struct, gc=False):
    topologyKey: Text = None  # noqa: N815
    whenUnsatisfiable: Text = None  # noqa: N815
    minDomains: int | None = None  # noqa: N815


class _PodSpec(msgspec.Struct, gc=False):
    topologySpreadConstraints: list[_Constraint | None] | None = None  # noqa: N815


_BUDGET = msgspec.json.Decoder(_Budget)
_NODE = msgspec.json.Decoder(_Node)
_POD_SPEC = msgspec.json.Decoder(_PodSpec)


def read_budget(raw: bytes) -> BudgetObject:
    """Return a disruption budget; one whose selector does not convert is of no pod.

    Raises:
        msgspec.DecodeError, ValueError: it cannot be decoded.
    """
    wire = _BUDGET.decode(raw)
    namespace, name = key_of(wire.metadata or Meta())
    spec = wire.spec or _BudgetSpec()
    selector = read_label_selector(bytes(spec.selector))
    if wire.apiVersion == OLD_BUDGETS and selector == LabelSelector():
        selector = None
    try:
        matched = selector_from_object(selector)
    except ValueError:
        matched = Selector(nothing=True)
    budget = Budget(name, _text(spec.minAvailable), _text(spec.maxUnavailable))
    return BudgetObject(namespace, matched, budget)


def read_node_labels(raw: bytes) -> dict[str, str]:
    """Return the labels of a node.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return string_map((_NODE.decode(raw).metadata or Meta()).labels)


def read_spreads(raw: bytes) -> tuple[Spread, ...]:
    """Return the topology spread constraints of a pod's spec.

    Raises:
        msgspec.DecodeError: it is no spec of a pod.
    """
    if raw in NOTHING:
        return ()
    found = _POD_SPEC.decode(raw).topologySpreadConstraints or ()
    return tuple(
        Spread(one.topologyKey or "", one.whenUnsatisfiable != "ScheduleAnyway", one.minDomains)
        for one in found
        if one is not None
    )


def availability_of_pods(
    namespace: str,
    labels: Mapping[str, str],
    spreads: Iterable[Spread],
    budgets: Iterable[BudgetObject],
    domains: Domains,
) -> Availability:
    """Return what keeps pods of a namespace with these labels available."""
    return Availability(
        tuple(one.budget for one in budgets if one.is_of(namespace, labels)),
        tuple(domains.counted(spread) for spread in spreads),
    )


def _text(value: str | int | None) -> str:
    return "" if value is None else str(value)
