"""Built-in types of Kubernetes' objects, by the names that discovery gives first."""

from __future__ import annotations

from typing import Final, NamedTuple


class ResourceType(NamedTuple):
    """A built-in type of object."""

    kind: str
    plural: str
    short: str
    api_version: str

    @property
    def group(self) -> str:
        """The API group, "" for the core group."""
        return self.api_version.rpartition("/")[0]


TYPES: Final = (
    ResourceType("Deployment", "deployments", "deploy", "apps/v1"),
    ResourceType("ReplicaSet", "replicasets", "rs", "apps/v1"),
    ResourceType("StatefulSet", "statefulsets", "sts", "apps/v1"),
    ResourceType("ReplicationController", "replicationcontrollers", "rc", "v1"),
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
