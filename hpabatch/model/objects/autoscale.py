"""HPAs as `kubectl autoscale` creates them: target, replica limits and resource metrics.

Follows k8s.io/kubectl pkg/cmd/autoscale/autoscale.go (the form since 1.34, with --cpu and
--memory), cli-runtime pkg/resource/builder.go for the arguments and client-go scale/util.go. No API
server is involved: the types with a scale subresource are a table of the built-in ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hpabatch.errors import RefusedError, UsageError
from hpabatch.model.objects.hpa import (
    HPA,
    CrossVersionObjectReference,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from hpabatch.model.options import REQUIRED, Request, option
from hpabatch.model.quantity import Quantity

_MOST: Final = 2**31 - 1
_PERCENT: Final = re.compile(r"([0-9]{1,10})%", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)
_UNITS: Final = {"cpu": "m", "memory": "Mi"}
_OWN_MANIFEST: Final = "write its HPA's manifest by hand, and check it with hpabatch validate"


class ResourceType(NamedTuple):
    """A built-in type of object, by all the names that kubectl takes."""

    kind: str
    plural: str
    short: str
    api_version: str
    has_scale: bool = False

    def is_named(self, name: str, rest: str) -> bool:
        """Whether `name` and the part after its first dot name this type."""
        if not name or name not in (self.plural, self.kind.lower(), self.short):
            return False
        version = self.api_version.rpartition("/")[2]
        return rest in ("", self.group, f"{version}.{self.group}")

    @property
    def group(self) -> str:
        """The API group, "" for the core group."""
        return self.api_version.rpartition("/")[0]


TYPES: Final = (
    ResourceType("Deployment", "deployments", "deploy", "apps/v1", has_scale=True),
    ResourceType("ReplicaSet", "replicasets", "rs", "apps/v1", has_scale=True),
    ResourceType("StatefulSet", "statefulsets", "sts", "apps/v1", has_scale=True),
    ResourceType("ReplicationController", "replicationcontrollers", "rc", "v1", has_scale=True),
    ResourceType("DaemonSet", "daemonsets", "ds", "apps/v1"),
    ResourceType("Pod", "pods", "po", "v1"),
    ResourceType("Service", "services", "svc", "v1"),
    ResourceType("ConfigMap", "configmaps", "cm", "v1"),
    ResourceType("Secret", "secrets", "", "v1"),
    ResourceType("Node", "nodes", "no", "v1"),
    ResourceType("Namespace", "namespaces", "ns", "v1"),
    ResourceType("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", "v1"),
    ResourceType("ServiceAccount", "serviceaccounts", "sa", "v1"),
    ResourceType("Job", "jobs", "", "batch/v1"),
    ResourceType("CronJob", "cronjobs", "cj", "batch/v1"),
    ResourceType("Ingress", "ingresses", "ing", "networking.k8s.io/v1"),
    ResourceType("PodDisruptionBudget", "poddisruptionbudgets", "pdb", "policy/v1"),
    ResourceType("HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", "autoscaling/v2"),
)
_SCALABLE: Final = ", ".join(item.plural for item in TYPES if item.has_scale)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of an HPA; `namespace` is "" if none is named."""

    reference: CrossVersionObjectReference
    namespace: str = ""


@dataclass(frozen=True, kw_only=True)
class AutoscaleRequest(Request):
    """The arguments and flags of `kubectl autoscale`; None and "" stand for one that is absent."""

    target: tuple[str, ...] = option(
        "texts",
        "Object that the HPA scales; several give several HPAs.",
        (),
        metavar="TYPE/NAME | TYPE NAME",
        positional=True,
    )
    max_replicas: int = option(
        "number", "Upper limit of the replicas.", REQUIRED, metavar="PODS", flag="--max",
        minimum=1, maximum=_MOST,
    )  # fmt: skip
    min_replicas: int | None = option(
        "number", "Lower limit of the replicas.", metavar="PODS", flag="--min", unset="1",
        maximum=_MOST,
    )  # fmt: skip
    cpu: str = option(
        "text", "Target for cpu: 70%, 500m, or a number of milli-cpu.", "", metavar="TARGET"
    )
    memory: str = option(
        "text", "Target for memory: 80%, 500Mi, or a number of MiB.", "", metavar="TARGET"
    )
    name: str = option("text", "Name of the HPA.", "", metavar="NAME", unset="that of the target")
    namespace: str = option("text", "Namespace of the HPA.", "", metavar="NAME", short="-n")
    filename: tuple[str, ...] = option(
        "paths", "Manifest of the target, - for stdin; may be repeated.", (), metavar="FILE",
        short="-f",
    )  # fmt: skip

    def check(self) -> None:
        """Refuse a target that is given twice, and limits that exclude each other (UsageError)."""
        super().check()
        if self.filename and self.target:
            raise UsageError(f"expected one target, got two: leave out -f, or {self.target[0]}")
        if self.min_replicas is not None and self.max_replicas < self.min_replicas:
            raise UsageError(
                f"--max: expected at least --min {self.min_replicas}, got {self.max_replicas}"
            )


def autoscale(targets: Sequence[Target], request: AutoscaleRequest) -> list[HPA]:
    """Return the HPAs of the flags, one per target, neither defaulted nor validated.

    Only a positive --min is sent. Without any metric the server takes cpu at 80 %.

    Raises:
        UsageError: a metric's target that is none, or several HPAs of one name.
    """
    minimum = request.min_replicas
    metrics = tuple(
        MetricSpec("Resource", resource=ResourceMetricSource(name, resource_target(text, name)))
        for name, text in (("cpu", request.cpu), ("memory", request.memory))
        if text
    )
    hpas: dict[tuple[str, str], HPA] = {}
    for target in targets:
        name = request.name or target.reference.name
        if (target.namespace, name) in hpas:
            raise UsageError(
                f"several targets would have HPAs of one name, {name}: autoscale them one by one, "
                "each with --name"
            )
        spec = HPASpec(
            target.reference, minimum if minimum and minimum > 0 else None, request.max_replicas,
            metrics,
        )  # fmt: skip
        hpas[target.namespace, name] = HPA(name=name, namespace=target.namespace, spec=spec)
    return list(hpas.values())


def resource_target(text: str, resource: str) -> MetricTarget:
    """Return the target of --cpu or --memory: `70%`, `500m`, or a number of milli-cpu or MiB.

    Raises:
        UsageError: another string; the message names the flag and its forms.
    """
    text, unit = text.strip(), _UNITS[resource]
    percent = _PERCENT.fullmatch(text)
    if percent is not None and int(percent[1]) <= _MOST:
        return MetricTarget("Utilization", average_utilization=int(percent[1]))
    try:
        quantity = Quantity.parse(text + unit if _NUMBER.fullmatch(text) else text)
    except ValueError:
        raise UsageError(
            f"--{resource}: expected a percentage such as 70%, or a quantity such as 500{unit}, "
            f"got {text!r}"
        ) from None
    return MetricTarget("AverageValue", average_value=quantity)


def targets_of_arguments(arguments: Sequence[str], namespace: str = "") -> list[Target]:
    """Return the targets of `TYPE NAME…` or `TYPE/NAME…`.

    Raises:
        UsageError: arguments that name nothing, or a type that is not built in.
        RefusedError: a type without a scale subresource.
    """
    if not arguments:
        raise UsageError("no target: name deployment/web, deployment web, or -f FILE")
    pairs = [argument.split("/") for argument in arguments]
    if len(arguments) > 1 and not any("/" in argument for argument in arguments):
        pairs = [[arguments[0], name] for name in arguments[1:]]
    for pair, argument in zip(pairs, arguments, strict=False):
        if len(pair) != 2 or not all(pair):
            raise UsageError(f"{argument}: expected TYPE/NAME or TYPE NAME, such as deployment/web")
    return [Target(_reference(_type_named(kind), name), namespace) for kind, name in pairs]


def _type_named(text: str) -> ResourceType:
    """Return the type that `deploy`, `Deployment`, `deployments.apps`, … names (UsageError)."""
    name, _, rest = text.lower().partition(".")
    found = next((item for item in TYPES if item.is_named(name, rest)), None)
    if found is None:
        raise UsageError(
            f'no built-in resource type "{text}"; with a scale subresource are {_SCALABLE}; '
            f"for a custom resource {_OWN_MANIFEST}"
        )
    return found


def target_of_document(document: Mapping[str, object], namespace: str = "") -> Target:
    """Return the target in a manifest; `namespace` is the requested one, "" for none.

    The target is in the namespace of its manifest, and so is its HPA, which could not scale it
    from another one. (kubectl creates it in the namespace of the context.)

    Raises:
        UsageError: the manifest's namespace is not the requested one.
        RefusedError: a manifest without name, or of a kind without a scale subresource.
    """
    metadata = document.get("metadata")
    own = metadata if isinstance(metadata, Mapping) else {}
    given = {"kind": document.get("kind"), "apiVersion": document.get("apiVersion")}
    given |= {"metadata.name": own.get("name"), "namespace": own.get("namespace")}
    kind, version, name, home = (v if isinstance(v, str) else "" for v in given.values())
    for field, value in (("kind", kind), ("apiVersion", version), ("metadata.name", name)):
        if not value:
            raise RefusedError(f"a manifest without {field}: nothing to autoscale; name it")
    of_kind = next((item for item in TYPES if item.kind == kind), None)
    if of_kind is None or "." in version.partition("/")[0]:
        raise RefusedError(
            f"cannot autoscale a {kind}: only the API server knows whether {version} has a scale "
            f"subresource for it; if it has, {_OWN_MANIFEST}"
        )
    if of_kind.api_version != version:
        raise RefusedError(
            f'no matches for kind "{kind}" in version "{version}"; it is {of_kind.api_version}'
        )
    if namespace and home not in ("", namespace):
        raise UsageError(
            f"-n: expected {home}, the namespace of the manifest, got {namespace}; leave -n out"
        )
    return Target(_reference(of_kind, name), home or namespace)


def _reference(item: ResourceType, name: str) -> CrossVersionObjectReference:
    """Return the reference to an object (RefusedError: it has no scale subresource)."""
    if not item.has_scale:
        raise RefusedError(
            f"cannot autoscale a {item.kind}: it has no scale subresource; autoscale one of "
            f"{_SCALABLE}"
        )
    return CrossVersionObjectReference(item.kind, name, item.api_version)
