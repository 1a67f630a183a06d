"""The scale of every HPA's target: from a watch where there is one, else asked for.

Errors read as the cluster's own controller gets them, since its events and conditions quote them
(horizontal.go, reconcileAutoscaler, scaleForResourceMappings).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote

from hpabatch.cluster.apis.metrics import Gets
from hpabatch.cluster.connection.errors import ApiError
from hpabatch.cluster.connection.pool import NeverBegunError, RequestPool, Turns
from hpabatch.cluster.objects.objects import BrokenObjectError
from hpabatch.cluster.objects.types import Change, Kind, ScaleKey, ScaleObject
from hpabatch.cluster.objects.workloads import BUILT_IN, REPLICATION_CONTROLLER, read_scale
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import CrossVersionObjectReference

_SCALE_BYTES: Final = 4 * 2**20
_ATTEMPTS: Final = 2
REFRESH_S: Final = 5.0
"""How long a refresh takes at most, if nothing else is said."""
# What the server calls the resource when it has no such object (pkg/registry/apps and core).
_NOT_FOUND: Final = {
    ("apps", "Deployment"): "deployments/scale.apps",
    ("apps", "StatefulSet"): "statefulsets.apps",
    ("apps", "ReplicaSet"): "replicasets/scale.apps",
    REPLICATION_CONTROLLER: "replicationcontrollers/scale.autoscaling",
}
_SAFE: Final = ":@!$&'()*+,;=~"


class Resource(NamedTuple):
    """Where the objects of a kind are: `/apis/GROUP/VERSION/…/RESOURCE`."""

    group: str
    version: str
    name: str


class ScaleApis(Protocol):
    """What has to be known of the API server's kinds: `discovery.Discovery`."""

    def scale_resource(self, group: str, kind: str) -> Resource:
        """Return a kind's resource in its preferred version (ApiError: no such kind)."""


def target_key(namespace: str, target: CrossVersionObjectReference) -> ScaleKey:
    """Return the key of a target's scale; the version in its apiVersion does not matter.

    An apiVersion that does not parse (two slashes or more) stands as the group: `scale_error`
    knows it by that.
    """
    version = target.api_version
    slashes = version.count("/")
    group = version if slashes > 1 else version.partition("/")[0] if slashes else ""
    return ScaleKey(group, target.kind, namespace, target.name)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__


def bad_version(key: ScaleKey) -> ScaleObject | None:
    """Return the scale of a target whose apiVersion does not parse, None if it does."""
    if "/" not in key.group:
        return None
    text = f"unexpected GroupVersion string: {key.group}"
    return ScaleObject(key, error=text, code=codes.SCALE_BAD_VERSION)


def missing_scale(key: ScaleKey) -> ScaleObject:
    """Return the scale of a built-in kind's target that is not there."""
    text = f'{_NOT_FOUND[(key.group, key.kind)]} "{key.name}" not found'
    return ScaleObject(key, error=text, code=codes.SCALE_GET_FAILED)


def read_scale_from(client: Gets, apis: ScaleApis, key: ScaleKey, timeout: float) -> ScaleObject:
    """Ask for a target's scale; what goes wrong is its error."""
    try:
        at = apis.scale_resource(key.group, key.kind)
    except ApiError as error:
        return ScaleObject(key, error=error.text, code=codes.SCALE_NO_RESOURCE)
    root = f"/apis/{at.group}/{at.version}" if at.group else f"/api/{at.version}"
    namespace, name = quote(key.namespace, _SAFE), quote(key.name, _SAFE)
    path = f"{root}/namespaces/{namespace}/{at.name}/{name}/scale"
    try:
        body = client.get(path, limit_bytes=_SCALE_BYTES, timeout=timeout, attempts=_ATTEMPTS)
        return read_scale(key, body)
    except ApiError as error:
        return ScaleObject(key, error=error.text, code=codes.SCALE_GET_FAILED)
    except BrokenObjectError as error:
        return ScaleObject(key, error=client.hide(str(error)), code=codes.SCALE_GET_FAILED)


class ScaleBook:
    """The scales of HPAs' targets, whatever their kind, as changes. For one thread.

    In a pass: `refresh` before the inbox is cut, `settle` with what was cut.
    """

    def __init__(
        self,
        client: Gets,
        apis: ScaleApis,
        *,
        watched: Callable[[ScaleKey], bool] | None = None,
        workers: int = 8,
        deadline_s: float = REFRESH_S,
        request_s: float = REFRESH_S,
    ) -> None:
        """Begin with no scale.

        Args:
            client: sends requests; several threads use it.
            apis: the resources of kinds.
            watched: whether a watch shows the built-in kind of a key (in its namespace); None:
                always. False where it may not be watched: then each is asked for.
            workers: requests at once.
            deadline_s: how long a refresh takes at most, in seconds.
            request_s: how long one request takes at most.
        """
        self._client = client
        self._apis = apis
        self._is_watched = watched or (lambda key: True)
        self._deadline_s = deadline_s
        self._request_s = request_s
        self._pool: RequestPool[ScaleObject] = RequestPool(workers)
        self._seen: dict[ScaleKey, ScaleObject] = {}  # from watches
        self._made: dict[ScaleKey, ScaleObject] = {}  # asked for, or not there
        self._fresh: dict[ScaleKey, ScaleObject] = {}  # asked for since the last settle
        self._turns: Turns[ScaleKey] = Turns()

    def refresh(self, targets: Iterable[ScaleKey]) -> int:
        """Ask for the scales that no watch shows, a few at once; returns how many. Never raises.

        One that is not there in time has that as its error; one whose turn did not come keeps what
        it was, and is the first to be asked next time.
        """
        keys = {key for key in targets if "/" not in key.group and not self._by_watch(key)}
        self._turns.keep(keys)
        asked = self._turns.order(sorted(keys))
        calls = [partial(self._read, key) for key in asked]
        results = self._pool.run(calls, self._pool.now() + self._deadline_s)
        for key, result in zip(asked, results, strict=True):
            self._turns.note(key, result)
            if isinstance(result, ScaleObject):
                self._fresh[key] = result
            elif not isinstance(result, NeverBegunError):
                code = codes.SCALE_GET_FAILED
                self._fresh[key] = ScaleObject(key, error=_said(result), code=code)
        return len(asked)

    def settle(
        self, changes: Sequence[Change], targets: Iterable[ScaleKey], now_ms: int
    ) -> list[Change]:
        """Return the changes that were cut, then those of targets that no watch can tell.

        Args:
            changes: as cut.
            targets: of all HPAs, those of the cut among them.
            now_ms: the instant of the cut; what is added was known 1 ms before.
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
        """Return a target's scale as settled last, None: it is not known yet."""
        return self._made.get(key) or self._seen.get(key)

    def end(self) -> None:
        """Let a refresh under way end soon; for any thread."""
        self._pool.end()

    def close(self) -> None:
        """Let the threads go."""
        self._pool.close()

    def _by_watch(self, key: ScaleKey) -> bool:
        return (key.group, key.kind) in BUILT_IN and self._is_watched(key)

    def _make(self, key: ScaleKey) -> ScaleObject | None:
        """Return what is known of a target beside what watches show, None: nothing."""
        if self._by_watch(key):
            return None if key in self._seen else missing_scale(key)
        return self._fresh.get(key) or self._made.get(key) or bad_version(key)

    def _read(self, key: ScaleKey, left_s: float) -> ScaleObject:
        timeout = min(left_s, self._request_s)
        return read_scale_from(self._client, self._apis, key, timeout)
