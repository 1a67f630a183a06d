"""Kinds of objects that metrics describe, with their names in Kubernetes' APIs.

The kinds of a cluster are not known here; those of Kubernetes itself are. The plural of another
kind is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_GROUPS: Final = {
    "": "Pod Node Namespace Service PersistentVolume PersistentVolumeClaim ConfigMap Secret Event "
    "ReplicationController Endpoints ServiceAccount LimitRange ResourceQuota PodTemplate",
    "apps": "Deployment StatefulSet ReplicaSet DaemonSet ControllerRevision",
    "batch": "Job CronJob",
    "networking.k8s.io": "Ingress IngressClass NetworkPolicy",
    "autoscaling": "HorizontalPodAutoscaler",
    "policy": "PodDisruptionBudget",
    "discovery.k8s.io": "EndpointSlice",
    "storage.k8s.io": "StorageClass VolumeAttachment",
}
_LEGACY_GROUP: Final = "extensions"  # where Deployments and Ingresses once were
ROOT_SCOPED: Final = ("nodes", "persistentvolumes")
"""Resources without a namespace, beside namespaces themselves."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of objects as APIs name it."""

    group: str
    plural: str
    singular: str

    def __str__(self) -> str:
        """Return `ingresses.networking.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def is_named(self, group: str, name: str) -> bool:
        """Whether a group (its beginning, or "") and a plural or singular name mean this."""
        if name not in (self.plural, self.singular):
            return False
        if group:
            return self.group.startswith(group)
        built_in = _BUILT_IN.get(self.singular)
        return built_in is None or self.group in (built_in.group, _LEGACY_GROUP)


def _guessed(group: str, kind: str) -> Resource:
    """Return the resource of a kind, its plural as English has it."""
    singular = kind.lower()
    plural = singular + "s"
    if singular.endswith("endpoints"):
        plural = singular
    elif singular.endswith(("s", "x", "ch")):
        plural = singular + "es"
    elif singular.endswith("y") and singular[-2:-1] not in tuple("aeiou"):
        plural = singular[:-1] + "ies"
    return Resource(group, plural, singular)


_BUILT_IN: Final = {
    kind.lower(): _guessed(group, kind)
    for group, kinds in _GROUPS.items()
    for kind in kinds.split()
}
PODS: Final = _BUILT_IN["pod"]
NAMESPACES: Final = _BUILT_IN["namespace"]


def resource_of(kind: str, api_version: str) -> Resource:
    """Return the resource of a described object.

    Raises:
        ValueError: a kind of an API group that the reference does not name.
    """
    group, slash, _ = api_version.partition("/")
    group = group if slash else ""
    built_in = _BUILT_IN.get(kind.lower())
    if built_in is not None and built_in.group and not group:
        raise ValueError(
            f"describedObject has no apiVersion: the controller finds no {kind} without "
            f"{built_in.group}/…"
        )
    return _guessed(group, kind)
