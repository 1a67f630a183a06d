"""HPA objects as frozen dataclasses, in the shape of `autoscaling/v2`.

Every other API version is converted to this shape by `model.objects.decode`. Field names are the
API's in snake case; absent optional fields are None. Source of the shape: k8s.io/api
autoscaling/v2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hpabatch.model.quantity import Quantity


@dataclass(frozen=True, slots=True)
class CrossVersionObjectReference:
    """The object that an HPA scales, or that an Object metric describes."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class LabelSelectorRequirement:
    """One `matchExpressions` entry; the operator is kept as written, valid or not."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A label selector object as written (its conversion can fail at run time)."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricIdentifier:
    """A metric's name and, optionally, the selector of its series."""

    name: str = ""
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class MetricTarget:
    """A metric's target; `type` need not agree with the member that is set."""

    type: str = ""
    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: int | None = None


@dataclass(frozen=True, slots=True)
class ObjectMetricSource:
    """A metric of one Kubernetes object."""

    described_object: CrossVersionObjectReference = field(
        default_factory=CrossVersionObjectReference
    )
    metric: MetricIdentifier = field(default_factory=MetricIdentifier)
    target: MetricTarget = field(default_factory=MetricTarget)


@dataclass(frozen=True, slots=True)
class PodsMetricSource:
    """A custom metric of each pod."""

    metric: MetricIdentifier = field(default_factory=MetricIdentifier)
    target: MetricTarget = field(default_factory=MetricTarget)


@dataclass(frozen=True, slots=True)
class ResourceMetricSource:
    """cpu, memory or another resource, summed over a pod's containers."""

    name: str = ""
    target: MetricTarget = field(default_factory=MetricTarget)


@dataclass(frozen=True, slots=True)
class ContainerResourceMetricSource:
    """A resource of one named container of each pod."""

    name: str = ""
    container: str = ""
    target: MetricTarget = field(default_factory=MetricTarget)


@dataclass(frozen=True, slots=True)
class ExternalMetricSource:
    """A metric from outside the cluster: the sum of its series."""

    metric: MetricIdentifier = field(default_factory=MetricIdentifier)
    target: MetricTarget = field(default_factory=MetricTarget)


ResourceSource = ResourceMetricSource | ContainerResourceMetricSource
MetricSource = ObjectMetricSource | PodsMetricSource | ResourceSource | ExternalMetricSource
SOURCES: Final[Mapping[str, type[MetricSource]]] = {
    "object": ObjectMetricSource,
    "pods": PodsMetricSource,
    "resource": ResourceMetricSource,
    "container_resource": ContainerResourceMetricSource,
    "external": ExternalMetricSource,
}
"""The fields of a `MetricSpec` that hold its source."""
MEMBERS: Final[Mapping[str, str]] = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}
"""The member that each type of metric has in JSON, in the order of the API and of SOURCES."""
_FIELDS: Final = dict(zip(MEMBERS, SOURCES, strict=True))


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One entry of `spec.metrics`; more than one member set is a validation error."""

    type: str = ""
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None

    def member(self, kind: str) -> MetricSource | None:
        """Return the member of a type of metric, None where it is not set or there is no such."""
        return getattr(self, _FIELDS[kind]) if kind in _FIELDS else None

    @property
    def own(self) -> MetricSource | None:
        """The member of its type."""
        return self.member(self.type)

    @property
    def source(self) -> MetricSource | None:
        """The first member that is set."""
        return next((source for kind in MEMBERS if (source := self.member(kind))), None)

    @property
    def subject(self) -> str:
        """The name of the resource or metric, its type without one."""
        source = self.source
        if source is None:
            return self.type
        return source.name if isinstance(source, ResourceSource) else source.metric.name

    @property
    def target(self) -> MetricTarget:
        """The target of the member that is set, empty without one."""
        return MetricTarget() if self.source is None else self.source.target

    def with_target(self, target: MetricTarget) -> MetricSpec:
        """Return it with another target of the member that is set."""
        sources = {name: getattr(self, name) for name in SOURCES}
        there = {name: source for name, source in sources.items() if source is not None}
        return replace(self, **{k: replace(source, target=target) for k, source in there.items()})


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """At most `value` pods or percent in any `period_seconds`."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """One direction of `spec.behavior`; None where the document leaves a field out."""

    stabilization_window_seconds: int | None = None
    select_policy: str | None = None
    policies: tuple[ScalingPolicy, ...] | None = None
    tolerance: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Behavior:
    """`spec.behavior`; present but empty is not the same as absent."""

    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None


@dataclass(frozen=True, slots=True)
class HPASpec:
    """`spec` of a HorizontalPodAutoscaler."""

    scale_target_ref: CrossVersionObjectReference = field(
        default_factory=CrossVersionObjectReference
    )
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()
    behavior: Behavior | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of `status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


@dataclass(frozen=True, slots=True)
class MetricValueStatus:
    """`current` of a metric's status; None where a member is not set."""

    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: int | None = None


@dataclass(frozen=True, slots=True)
class MetricStatus:
    """One entry of `status.currentMetrics`; all is empty for a metric that could not be computed.

    `type` names the member that the API has per type; fields of other types are empty: `name` and
    `container` belong to resources, `metric` and `described_object` to the other types.
    """

    type: str = ""
    name: str = ""
    container: str = ""
    metric: MetricIdentifier | None = None
    described_object: CrossVersionObjectReference | None = None
    current: MetricValueStatus = field(default_factory=MetricValueStatus)


@dataclass(frozen=True, slots=True)
class HPAStatus:
    """`status` of a HorizontalPodAutoscaler; `current_metrics` None: unset (`null`)."""

    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: str | None = None
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    current_metrics: tuple[MetricStatus, ...] | None = None

    @property
    def is_unwritten(self) -> bool:
        """Whether no controller has ever written it: the first write includes conditions.

        They are absent only where an old API server returns autoscaling/v1; then replicas count.
        """
        return not (
            self.conditions
            or self.current_replicas
            or self.desired_replicas
            or self.last_scale_time
            or self.observed_generation
        )


@dataclass(frozen=True, slots=True)
class HPA:
    """A HorizontalPodAutoscaler: metadata that hpabatch uses, spec and status.

    `api_version` is the version of the document. `namespace` is "" where the document has none.
    `owner` is the controlling object as Kind/name, "" where there is none.
    """

    name: str = ""
    namespace: str = ""
    spec: HPASpec = field(default_factory=HPASpec)
    status: HPAStatus = field(default_factory=HPAStatus)
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    uid: str = ""
    generation: int | None = None
    api_version: str = "autoscaling/v2"
    generate_name: str = ""
    creation_timestamp: str | None = None
    owner: str = ""

    @property
    def shown_name(self) -> str:
        """The name, or `web-*` where the server is to make one."""
        return self.name or f"{self.generate_name}*"
