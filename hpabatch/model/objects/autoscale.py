"""HPAs as `kubectl autoscale` creates them: target, replica limits and resource metrics.

Follows k8s.io/kubectl pkg/cmd/autoscale/autoscale.go (the form since 1.34, with --cpu and
--memory), cli-runtime pkg/resource/builder.go for the arguments and client-go scale/util.go.
Messages are kubectl's where it has one. No API server is involved: the types with a scale
subresource are a table of the built-in ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from hpabatch.errors import RefusedError, UsageError
from hpabatch.model.objects.hpa import (
    HPA,
    CrossVersionObjectReference,
    HPASpec,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from hpabatch.model.options import Request, option
from hpabatch.model.quantity import Quantity

_INT32 = (-(2**31), 2**31 - 1)
_BLANKS = " \t\n\v\f\r\x85\xa0"  # of strings.TrimSpace
_PERCENT = re.compile(r"[+-]?[0-9]+", re.ASCII)
# What strconv.ParseFloat takes, without its hexadecimal form.
_FLOAT = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE | re.ASCII
)
_DEFAULT_UNITS = {"cpu": "m", "memory": "Mi"}
_OWN_MANIFEST = "write its HPA's manifest by hand, and check it with hpabatch validate"


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A built-in type of object, by all the names that kubectl takes."""

    kind: str
    plural: str
    short: str = ""
    group: str = ""
    version: str = "v1"
    has_scale: bool = False

    @property
    def api_version(self) -> str:
        """Return `group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def is_named(self, name: str, rest: str) -> bool:
        """Whether `name` and the part after its first dot name this type."""
        if not name or name not in (self.plural, self.kind.lower(), self.short):
            return False
        return rest in ("", self.group, f"{self.version}.{self.group}")


TYPES: Final = (
    ResourceType("Deployment", "deployments", "deploy", "apps", has_scale=True),
    ResourceType("ReplicaSet", "replicasets", "rs", "apps", has_scale=True),
    ResourceType("StatefulSet", "statefulsets", "sts", "apps", has_scale=True),
    ResourceType("ReplicationController", "replicationcontrollers", "rc", has_scale=True),
    ResourceType("DaemonSet", "daemonsets", "ds", "apps"),
    ResourceType("Pod", "pods", "po"),
    ResourceType("Service", "services", "svc"),
    ResourceType("ConfigMap", "configmaps", "cm"),
    ResourceType("Secret", "secrets"),
    ResourceType("Node", "nodes", "no"),
    ResourceType("Namespace", "namespaces", "ns"),
    ResourceType("PersistentVolumeClaim", "persistentvolumeclaims", "pvc"),
    ResourceType("ServiceAccount", "serviceaccounts", "sa"),
    ResourceType("Job", "jobs", "", "batch"),
    ResourceType("CronJob", "cronjobs", "cj", "batch"),
    ResourceType("Ingress", "ingresses", "ing", "networking.k8s.io"),
    ResourceType("PodDisruptionBudget", "poddisruptionbudgets", "pdb", "policy"),
    ResourceType("HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", "autoscaling", "v2"),
)
_SCALABLE = ", ".join(f"{item.plural}.{item.group}".rstrip(".") for item in TYPES if item.has_scale)


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
    max_replicas: int | None = option(
        "number", "Upper limit of the replicas. Required.", metavar="PODS", flag="--max"
    )
    min_replicas: int | None = option(
        "number", "Lower limit of the replicas.", metavar="PODS", flag="--min",
        unset="1",
    )  # fmt: skip
    cpu: str = option(
        "text", "Target for cpu: 70%, 500m, or a number of milli-cpu.", "", metavar="TARGET"
    )
    memory: str = option(
        "text", "Target for memory: 80%, 500Mi, or a number of MiB.", "", metavar="TARGET"
    )
    cpu_percent: int | None = option("number", "Deprecated: --cpu N%.", metavar="N")
    name: str = option("text", "Name of the HPA.", "", metavar="NAME", unset="that of the target")
    namespace: str = option("text", "Namespace of the HPA.", "", metavar="NAME", short="-n")
    filename: tuple[str, ...] = option(
        "paths", "Manifest of the target, - for stdin; may be repeated.", (), metavar="FILE",
        short="-f",
    )  # fmt: skip

    def check(self) -> None:
        """Refuse a target that is given twice (UsageError, in kubectl's words)."""
        super().check()
        if self.filename and self.target:
            raise UsageError(
                "when paths, URLs, or stdin is provided as input, you may not specify resource "
                f"arguments as well: leave out -f, or {' '.join(self.target)}"
            )


def autoscale(targets: Sequence[Target], request: AutoscaleRequest) -> list[HPA]:
    """Return the HPAs of the flags, one per target, neither defaulted nor validated.

    Raises:
        UsageError: flags that kubectl refuses, or several HPAs of one name.
    """
    minimum, maximum = _limits(request)
    metrics = _metrics(request)
    hpas = [
        HPA(
            name=request.name or target.reference.name,
            namespace=target.namespace,
            spec=HPASpec(target.reference, minimum, maximum, metrics),
        )
        for target in targets
    ]
    places = [(hpa.namespace, hpa.name) for hpa in hpas]
    for place, hpa in zip(places, hpas, strict=True):
        if places.count(place) > 1:
            raise UsageError(
                f'horizontalpodautoscalers.autoscaling "{hpa.name}" already exists: several '
                "targets would have HPAs of one name; autoscale them one by one, each with --name"
            )
    return hpas


def _limits(request: AutoscaleRequest) -> tuple[int | None, int]:
    """Return minReplicas, which only a positive --min sets, and maxReplicas."""
    maximum, minimum = request.max_replicas, request.min_replicas
    flags = {"max": maximum, "min": minimum, "cpu-percent": request.cpu_percent}
    for flag, number in flags.items():
        if number is not None and not _INT32[0] <= number <= _INT32[1]:
            raise UsageError(
                f'invalid argument "{number}" for "--{flag}" flag: value out of range; '
                f"the API takes at most {_INT32[1]}"
            )
    if maximum is None:
        raise UsageError('required flag(s) "max" not set; give --max=MAXPODS')
    if maximum < 1:
        raise UsageError(f"--max=MAXPODS is required and must be at least 1, max: {maximum}")
    if minimum is not None and maximum < minimum:
        raise UsageError(
            "--max=MAXPODS must be larger or equal to --min=MINPODS, "
            f"max: {maximum}, min: {minimum}"
        )
    return (minimum if minimum is not None and minimum > 0 else None), maximum


def _metrics(request: AutoscaleRequest) -> tuple[MetricSpec, ...]:
    """Return the metrics, cpu before memory; none: the server takes cpu at 80 %."""
    found: list[tuple[str, MetricTarget]] = []
    if request.cpu_percent is not None and request.cpu_percent > 0:
        if request.cpu:
            raise UsageError("--cpu-percent and --cpu are mutually exclusive; leave one out")
        found.append(("cpu", MetricTarget("Utilization", average_utilization=request.cpu_percent)))
    for resource, text in (("cpu", request.cpu), ("memory", request.memory)):
        if text:
            found.append((resource, resource_target(text, resource)))
    return tuple(
        MetricSpec("Resource", resource=ResourceMetricSource(resource, target))
        for resource, target in found
    )


def resource_target(text: str, resource: str) -> MetricTarget:
    """Return the target of --cpu or --memory: `70%`, `500m`, or a number of milli-cpu or MiB.

    Raises:
        UsageError: another string; the message names the flag and its forms.
    """
    try:
        return _parse_target(text.strip(_BLANKS), resource)
    except ValueError as error:
        raise UsageError(
            f"--{resource} {text!r}: {error}; write a percentage such as 70%, "
            f"or a quantity such as 500{_DEFAULT_UNITS[resource]}"
        ) from None


def _parse_target(text: str, resource: str) -> MetricTarget:
    """Parse a target without surrounding blanks.

    Raises:
        ValueError: another string, in kubectl's words.
    """
    if not text:
        raise ValueError("empty input")
    if text.endswith("%"):
        number = text.removesuffix("%")
        if not _PERCENT.fullmatch(number) or not 0 <= int(number) <= _INT32[1]:
            raise ValueError(f"invalid percentage value: {number}")
        return MetricTarget("Utilization", average_utilization=int(number))
    if _FLOAT.fullmatch(text):
        quantity = Quantity.parse(_go_float(float(text)) + _DEFAULT_UNITS[resource])
        return MetricTarget("AverageValue", average_value=quantity)
    try:
        return MetricTarget("AverageValue", average_value=Quantity.parse(text))
    except ValueError:
        raise ValueError(f"invalid resource {resource} value: {text}") from None


def _go_float(value: float) -> str:
    """Print a number as Go's %g does: with an exponent from 1e6 on, and below 1e-4."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:+}".replace("inf", "Inf")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) + exponent - 1
    if -4 <= power < 6:
        return repr(value).removesuffix(".0")
    first, *others = map(str, digits)
    mantissa = f"{first}.{''.join(others)}" if others else first
    return f"{'-' if sign else ''}{mantissa}e{power:+03}"


def targets_of_arguments(arguments: Sequence[str], namespace: str = "") -> list[Target]:
    """Return the targets of `TYPE NAME…` or `TYPE/NAME…`, several types joined by commas.

    Raises:
        UsageError: arguments that name nothing, or a type that is not built in.
        RefusedError: a type without a scale subresource.
    """
    if not arguments:
        raise UsageError(
            "You must provide one or more resources by argument or filename: "
            "deployment/web, deployment web, or -f FILE"
        )
    slashes = sum("/" in argument for argument in arguments)
    if slashes == len(arguments):
        pairs = [_split(argument) for argument in arguments]
    elif slashes:
        raise UsageError(
            "there is no need to specify a resource type as a separate argument when passing "
            "arguments in resource/name form: write deployment/web, not deployment deployment/web"
        )
    elif len(arguments) == 1:
        raise UsageError(
            "resource(s) were provided, but no name was specified: "
            f"write {arguments[0]}/NAME, or {arguments[0]} NAME"
        )
    else:
        types, names = arguments[0].split(","), arguments[1:]
        pairs = [(kind, name) for kind in types for name in names]
    return [Target(_reference(_type_named(kind), name), namespace) for kind, name in pairs]


def _split(argument: str) -> tuple[str, str]:
    kind, *names = argument.split("/")
    if len(names) != 1:
        raise UsageError(
            f"{argument}: arguments in resource/name form may not have more than one slash"
        )
    if not kind or not names[0] or "," in kind:
        raise UsageError(
            f"{argument}: arguments in resource/name form must have a single resource and name, "
            "such as deployment/web"
        )
    return kind, names[0]


def _type_named(text: str) -> ResourceType:
    """Return the type that `deploy`, `Deployment`, `deployments.apps`, … names.

    Raises:
        UsageError: no such type.
    """
    name, _, rest = text.lower().partition(".")
    for item in TYPES:
        if item.is_named(name, rest):
            return item
    raise UsageError(
        f'no built-in resource type "{text}"; with a scale subresource are {_SCALABLE}; '
        f"for a custom resource {_OWN_MANIFEST}"
    )


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
    kind, version, name, home = (
        value if isinstance(value, str) else ""
        for value in (
            document.get("kind"), document.get("apiVersion"), own.get("name"), own.get("namespace")
        )
    )  # fmt: skip
    if not kind or not version:
        missing = "apiVersion" if kind else "kind"
        raise RefusedError(
            f"a manifest without {missing}: nothing to autoscale; name its {missing}"
        )
    found = _type_of_kind(kind, version)
    if not name:
        raise RefusedError(f"a {kind} without metadata.name: an HPA names what it scales")
    reference = _reference(found, name)
    if namespace and home not in ("", namespace):
        raise UsageError(
            f'the namespace from the provided object "{home}" does not match the namespace '
            f"\"{namespace}\". You must pass '--namespace={home}' to perform this operation"
        )
    return Target(reference, home or namespace)


def _type_of_kind(kind: str, version: str) -> ResourceType:
    """Return the type of a manifest's kind and apiVersion.

    Raises:
        RefusedError: not a built-in one.
    """
    of_kind = [item for item in TYPES if item.kind == kind]
    for item in of_kind:
        if item.api_version == version:
            return item
    if of_kind and "." not in version.partition("/")[0]:
        raise RefusedError(
            f'no matches for kind "{kind}" in version "{version}"; it is {of_kind[0].api_version}'
        )
    raise RefusedError(
        f"cannot autoscale a {kind}: only the API server knows whether {version} has a scale "
        f"subresource for it; if it has, {_OWN_MANIFEST}"
    )


def _reference(item: ResourceType, name: str) -> CrossVersionObjectReference:
    """Return the reference to an object that can be scaled.

    Raises:
        RefusedError: a type without a scale subresource.
    """
    if not item.has_scale:
        raise RefusedError(
            f"cannot autoscale a {item.kind}: could not find scale subresource for "
            f"{item.group}/{item.version}, Resource={item.plural} in discovery information; "
            f"autoscale one of {_SCALABLE}"
        )
    return CrossVersionObjectReference(item.kind, name, item.api_version)
