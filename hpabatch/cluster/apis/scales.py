"""Scales of the HPAs' targets: from a watch where there is one, otherwise from requests.

Errors read as the cluster's own controller gets them, since its events and conditions quote them
(horizontal.go, reconcileAutoscaler, scaleForResourceMappings).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final
from urllib.parse import quote

from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import ApiError
from hpabatch.cluster.connection.pool import NeverBegunError, RequestPool, Turns
from hpabatch.cluster.objects.decoders import BUILT_IN, REPLICATION_CONTROLLER, read_scale
from hpabatch.cluster.objects.objects import BrokenObjectError
from hpabatch.cluster.objects.types import Change, Kind, ScaleKey, ScaleObject
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import CrossVersionObjectReference

_SCALE_BYTES: Final = 4 * 2**20
_ATTEMPTS: Final = 2
REFRESH_S: Final = 5.0
"""Default time limit of a refresh."""
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


class ScaleBook:
    """Scales of HPAs' targets of any kind, as changes. For one thread.

    In a pass: `refresh` before the inbox is cut, then `settle` with the cut changes.
    """

    def __init__(
        self,
        client: ApiClient,
        apis: Discovery,
        *,
        watched: Callable[[ScaleKey], bool] | None = None,
        workers: int = 8,
        deadline_s: float = REFRESH_S,
    ) -> None:
        """Begin with no scale.

        Args:
            client: sends requests; several threads use it.
            watched: whether a watch covers the built-in kind of a key (in its namespace); None:
                always. False where it may not be watched: then each scale is requested.
            deadline_s: time limit of a refresh.
        """
        self._client = client
        self._apis = apis
        self._is_watched = watched or (lambda key: True)
        self._deadline_s = deadline_s
        self._pool: RequestPool[ScaleObject] = RequestPool(workers)
        self._seen: dict[ScaleKey, ScaleObject] = {}  # from watches
        self._made: dict[ScaleKey, ScaleObject] = {}  # requested, or not there
        self._fresh: dict[ScaleKey, ScaleObject] = {}  # requested since the last settle
        self._turns: Turns[ScaleKey] = Turns()

    def refresh(self, targets: Iterable[ScaleKey]) -> int:
        """Request the scales that no watch covers; return how many. Never raises.

        A late scale has that as its error. A scale whose request was not sent in time keeps its
        state, and is requested first in the next refresh.
        """
        keys = {key for key in targets if "/" not in key.group and not self._by_watch(key)}
        self._turns.keep(keys)
        ordered = self._turns.order(sorted(keys))
        calls = [partial(read_scale_from, self._client, self._apis, key) for key in ordered]
        results = self._pool.run(calls, self._pool.now() + self._deadline_s)
        for key, result in zip(ordered, results, strict=True):
            self._turns.note(key, result)
            if isinstance(result, ScaleObject):
                self._fresh[key] = result
            elif not isinstance(result, NeverBegunError):
                code = codes.SCALE_GET_FAILED
                self._fresh[key] = ScaleObject(
                    key, error=(str(result) or type(result).__name__), code=code
                )
        return len(ordered)

    def settle(
        self, changes: Sequence[Change], targets: Iterable[ScaleKey], now_ms: int
    ) -> list[Change]:
        """Return the cut changes, then those of targets that no watch covers.

        Args:
            targets: of all HPAs, those of the cut among them.
            now_ms: time of the cut; added changes were known 1 ms before.
        """
        wanted = set(targets)
        for change in changes:
            if change.kind is Kind.scale and isinstance(change.key, ScaleKey):
                if isinstance(change.thing, ScaleObject):
                    self._seen[change.key] = change.thing
                    self._made.pop(change.key, None)
                else:
                    self._seen.pop(change.key, None)
        made = {key: thing for key in wanted if (thing := self._make(key)) is not None}
        added = [
            Change(Kind.scale, key, thing, now_ms - 1)
            for key, thing in sorted(made.items())
            if self._made.get(key) != thing
        ]
        gone = [key for key in sorted(self._made) if key not in made and key not in self._seen]
        added += [Change(Kind.scale, key, None, now_ms - 1) for key in gone]
        self._made = made
        self._fresh.clear()
        return [*changes, *added]

    def scale_of(self, key: ScaleKey) -> ScaleObject | None:
        """Return a target's scale as last settled, None: it is not known yet."""
        return self._made.get(key) or self._seen.get(key)

    def end(self) -> None:
        """End a running refresh soon; for any thread."""
        self._pool.end()

    def close(self) -> None:
        """Release the threads."""
        self._pool.close()

    def _by_watch(self, key: ScaleKey) -> bool:
        return (key.group, key.kind) in BUILT_IN and self._is_watched(key)

    def _make(self, key: ScaleKey) -> ScaleObject | None:
        """Return the scale of a target that no watch gives, None: it is not known."""
        if self._by_watch(key):
            return None if key in self._seen else missing_scale(key)
        return self._fresh.get(key) or self._made.get(key) or bad_version(key)
