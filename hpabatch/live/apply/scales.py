"""Writing of one target's size, with the resourceVersion that it was decided on.

As upstream (horizontal.go, reconcileAutoscaler), which reads the scale, decides, and puts it back.
Here a watch has read the object, so the first request is the PUT. A conflict is followed by a
reading and another attempt, at most five in all. The scale of a kind without a watch is read first.
A size that is not the one that was decided on stays, whereas upstream overwrites it after a
conflict: so of two HPAs on one target one is written in a pass, and the other's decision is void.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from hpabatch.cluster.apis.discovery import Discovery, scale_path
from hpabatch.cluster.connection.errors import ApiError, Busy, Withheld
from hpabatch.cluster.connection.writes import Budget, Json, WriteClient, is_uncertain
from hpabatch.cluster.objects.types import ScaleKey, ScaleObject

TIMEOUT_S: Final = 3.0
"""Time limit of a writing request; no request begins that could end after the lease."""
_ATTEMPTS: Final = 5
_CONFLICT: Final = 409
_TOO_MANY: Final = 429
_MOST_PAUSE_S: Final = 1.0  # as an overloaded API server asks; longer ones wait for the next pass
_PAUSE_S: Final = 0.01
_JITTER: Final = 0.1


class Fence(Protocol):
    """Whether a writing request may begin, and by which taking of the lease."""

    def refusal(self, longest_s: float) -> str:
        """Return why a request of at most `longest_s` may not begin now, "" if it may."""

    @property
    def term(self) -> int:
        """Count of the times that this process took the lease: between two, others had it."""


class Outcome(StrEnum):
    """Outcome of a decided size."""

    DONE = "done"
    FAILED = "failed"
    WAITS = "waits"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Written:
    """Result of a write.

    Attributes:
        outcome: DONE: the size is written. FAILED: it is not. WAITS: nothing was sent, since a rule
            forbids it now; it waits for the next pass. MOVED: the decision is void and nothing was
            sent, since the target has another size than was decided on.
        error: "" if the size was written, else why not, in the API server's words where it spoke.
        uncertain: it failed, and may have been written nevertheless.
        ended_s: when the last response was there (monotonic).
    """

    outcome: Outcome = Outcome.DONE
    error: str = ""
    uncertain: bool = False
    ended_s: float = field(default_factory=lambda: time.monotonic())

    @property
    def is_void(self) -> bool:
        """Whether the decision is void."""
        return self.outcome is Outcome.MOVED


class ScaleWriter:
    """Writes sizes. Several threads may use it at once."""

    def __init__(
        self,
        client: WriteClient,
        apis: Discovery,
        budget: Budget,
        fence: Fence,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            fence: is checked before each writing request.
            sleep: of a thread, seconds.
        """
        self._client, self._apis, self._budget, self._fence = client, apis, budget, fence
        self._sleep = sleep

    def write(self, key: ScaleKey, before: int, after: int, seen: ScaleObject | None) -> Written:
        """Write a target's size, once.

        Args:
            before: its size that was decided on. If it has another one by now nothing is written:
                the next pass decides on that.
            seen: the scale that was decided on; without a version it is read first.
        """
        puts: list[Json] = []
        try:
            return self._tried(key, before, after, _known(seen, before), puts)
        except ApiError as failure:
            error = failure.text
        except Exception as failure:  # noqa: BLE001 - one invalid response must not lose the others
            said = f"{type(failure).__name__}: {failure}"
            error = f"hpabatch: expected a Scale, got another object: {said}"
        return Written(Outcome.FAILED, error, bool(puts))

    def _tried(
        self, key: ScaleKey, before: int, after: int, scale: Json | None, puts: list[Json]
    ) -> Written:
        """Write a size; `puts` gets what is sent, until it is known to have failed."""
        path, text = scale_path(self._apis, key), ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._sleep(_PAUSE_S * (1 + _JITTER * random.random()))  # noqa: S311 - jitter
            if scale is None:
                scale = self._get(path)
                if _size(scale) != before:
                    said = f"the size is {_size(scale)}, and {before} was decided on"
                    return Written(Outcome.MOVED, f"hpabatch: {said}; the next pass decides again")
            self._sleep(self._budget.take())
            refusal = self._fence.refusal(TIMEOUT_S)
            if refusal:
                return Written(Outcome.WAITS, f"hpabatch: waits: {refusal}")
            puts.append({**scale, "spec": {**(scale.get("spec") or {}), "replicas": after}})
            try:
                self._client.write("PUT", path, puts[-1], TIMEOUT_S)
            except Withheld as error:
                return Written(Outcome.WAITS, f"hpabatch: waits: {error.text}")
            except ApiError as error:
                failure = error
            else:
                return Written()
            if is_uncertain(failure):
                return self._settled(failure, path, scale, after)
            puts.clear()
            text = failure.text
            if self._has_paused(failure):
                continue
            if failure.status != _CONFLICT:
                break
            scale = None
        return Written(Outcome.FAILED, text)

    def _settled(self, failure: ApiError, path: str, scale: Json, after: int) -> Written:
        """Return the result of a write without a response: the scale may show it.

        One that does not show it proves nothing: the server may store the write after this reading.
        """
        try:
            again = self._get(path)
            is_made = _version(again) != _version(scale) and _size(again) == after
        except ApiError:
            is_made = False
        return Written() if is_made else Written(Outcome.FAILED, failure.text, uncertain=True)

    def _get(self, path: str) -> Json:
        for _ in range(_ATTEMPTS - 1):
            self._sleep(self._budget.take())
            try:
                return self._client.read(path, TIMEOUT_S)
            except ApiError as error:
                if not self._has_paused(error):
                    raise
        self._sleep(self._budget.take())
        return self._client.read(path, TIMEOUT_S)

    def _has_paused(self, error: ApiError) -> bool:
        """Wait as a busy server asks, and return whether the request is to be sent again.

        As client-go (rest/request.go), which repeats what was refused by 429 with Retry-After.
        """
        if not isinstance(error, Busy) or error.status != _TOO_MANY or error.retry_after is None:
            return False
        if error.retry_after > _MOST_PAUSE_S:
            return False
        self._sleep(error.retry_after)
        return True


def _known(seen: ScaleObject | None, before: int) -> Json | None:
    """Return a watched scale as the API has it, None where it has to be read."""
    if seen is None or not seen.version or seen.error or seen.replicas != before:
        return None
    return _scale(seen.key.namespace, seen.key.name, seen.uid, seen.version, seen.replicas)


def _scale(namespace: str, name: str, uid: str, version: str, replicas: int) -> Json:
    metadata = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": version}
    return {
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
        "spec": {"replicas": replicas},
    }  # fmt: skip


def _size(scale: Json) -> int:
    return int((scale.get("spec") or {}).get("replicas") or 0)


def _version(scale: Json) -> str:
    return str((scale.get("metadata") or {}).get("resourceVersion"))
