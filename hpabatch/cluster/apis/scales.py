"""Scales of the HPAs' targets: their keys, paths, requests and errors.

Errors read as the cluster's own controller gets them, since its events and conditions quote them
(horizontal.go, reconcileAutoscaler, scaleForResourceMappings).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import ApiError
from hpabatch.cluster.objects.decoders import REPLICATION_CONTROLLER, read_scale
from hpabatch.cluster.objects.objects import BrokenObjectError
from hpabatch.cluster.objects.types import ScaleKey, ScaleObject
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import CrossVersionObjectReference

_SCALE_BYTES: Final = 4 * 2**20
_ATTEMPTS: Final = 2
REFRESH_S: Final = 5.0
"""Default time limit of all requests for scales of a pass."""
# The server's name of the resource of a missing object (pkg/registry/apps and core).
_NOT_FOUND: Final = {
    ("apps", "Deployment"): "deployments/scale.apps",
    ("apps", "StatefulSet"): "statefulsets.apps",
    ("apps", "ReplicaSet"): "replicasets/scale.apps",
    REPLICATION_CONTROLLER: "replicationcontrollers/scale.autoscaling",
}
_SAFE: Final = ":@!$&'()*+,;=~"


def target_key(namespace: str, target: CrossVersionObjectReference) -> ScaleKey:
    """Return the key of a target's scale; the version in its apiVersion does not matter.

    An apiVersion that does not parse (two slashes or more) is kept whole as the group, see
    `bad_version`.
    """
    version = target.api_version
    slashes = version.count("/")
    group = version if slashes > 1 else version.partition("/")[0] if slashes else ""
    return ScaleKey(group, target.kind, namespace, target.name)


def bad_version(key: ScaleKey) -> ScaleObject | None:
    """Return the scale of a target whose apiVersion does not parse, None if it does."""
    if "/" not in key.group:
        return None
    text = f"unexpected GroupVersion string: {key.group}"
    return ScaleObject(key, error=text, code=codes.SCALE_BAD_VERSION)


def missing_scale(key: ScaleKey) -> ScaleObject:
    """Return the scale of a missing target of a built-in kind."""
    text = f'{_NOT_FOUND[(key.group, key.kind)]} "{key.name}" not found'
    return ScaleObject(key, error=text, code=codes.SCALE_GET_FAILED)


def scale_path(apis: Discovery, key: ScaleKey) -> str:
    """Return the path of a target's scale (ApiError: its kind is not served)."""
    at = apis.scale_resource(key.group, key.kind)
    root = f"/apis/{at.group}/{at.version}" if at.group else f"/api/{at.version}"
    namespace, name = quote(key.namespace, _SAFE), quote(key.name, _SAFE)
    return f"{root}/namespaces/{namespace}/{at.name}/{name}/scale"


def read_scale_from(
    client: ApiClient, apis: Discovery, key: ScaleKey, timeout: float
) -> ScaleObject:
    """Request a target's scale; a failure becomes its error."""
    try:
        path = scale_path(apis, key)
    except ApiError as error:
        return ScaleObject(key, error=error.text, code=codes.SCALE_NO_RESOURCE)
    try:
        body = client.get(path, limit_bytes=_SCALE_BYTES, timeout=timeout, attempts=_ATTEMPTS)
        return read_scale(key, body)
    except ApiError as error:
        return ScaleObject(key, error=error.text, code=codes.SCALE_GET_FAILED)
    except BrokenObjectError as error:
        return ScaleObject(key, error=client.hide(str(error)), code=codes.SCALE_GET_FAILED)
