"""Writing of one target's scale, as upstream writes it (horizontal.go, reconcileAutoscaler).

The scale is read, its spec.replicas replaced, and put back with the resourceVersion that was read.
A conflict is followed by another reading and another attempt, at most five in all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from hpabatch.cluster.apis.scales import ScaleApis, scale_path
from hpabatch.cluster.connection.errors import ApiError, Busy
from hpabatch.cluster.connection.writes import Json, WriteClient, is_uncertain
from hpabatch.cluster.objects.types import ScaleKey
from hpabatch.live.apply.budget import Budget

TIMEOUT_S: Final = 3.0
"""Time limit of a writing request; no request begins that could end after the lease."""
_ATTEMPTS: Final = 5
_CONFLICT: Final = 409
_TOO_MANY: Final = 429
_MOST_PAUSE_S: Final = 1.0  # as an overloaded API server asks; longer ones wait for the next pass
_PAUSE_S: Final = 0.01
_JITTER: Final = 0.1

ANNOTATION: Final = "hpabatch/apply"
"""With the value "off" on an HPA (with manifests: on the target), its target is not scaled."""


class Fence(Protocol):
    """Whether a writing request may begin."""

    def refusal(self, longest_s: float) -> str:
        """Return why a request of at most `longest_s` may not begin now, "" if it may."""


class Term(Fence, Protocol):
    """Whether a writing request may begin, and by which taking of the lease."""

    @property
    def term(self) -> int:
        """Count of the times that this process took the lease: between two, others had it."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a write.

    Attributes:
        error: "" if the size was written, else why not, in the API server's words where it spoke.
        uncertain: it may have been written nevertheless.
        ended_s: when the last response was there (monotonic).
        moved: the target has another size than was decided on: nothing was sent, and the decision
            is void.
        waits: it was not begun, and waits for the next pass.
    """

    error: str = ""
    uncertain: bool = False
    ended_s: float = 0.0
    moved: bool = False
    waits: bool = False


class _MovedError(Exception):
    """The size is another than was decided on."""


class ScaleWriter:
    """Writes sizes. Several threads may use it at once."""

    def __init__(
        self,
        client: WriteClient,
        apis: ScaleApis,
        budget: Budget,
        fence: Fence,
        *,
        reads_target: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: sends the requests.
            apis: the resources of kinds.
            budget: of these requests.
            fence: is asked before each writing request.
            reads_target: the target's own annotations can forbid the write.
            sleep: of a thread, seconds.
        """
        self._client, self._apis, self._budget, self._fence = client, apis, budget, fence
        self._reads_target = reads_target
        self._sleep = sleep

    def write(self, key: ScaleKey, before: int, after: int) -> Written:
        """Write a target's size, once.

        Args:
            key: the target.
            before: its size that was decided on. If it has another one by now nothing is written:
                the next pass decides on that.
            after: its new size.
        """
        puts: list[Json] = []
        try:
            error, uncertain = self._tried(key, before, after, puts)
        except _MovedError as moved:
            return Written(str(moved), ended_s=time.monotonic(), moved=True)
        except ApiError as failure:
            error, uncertain = failure.text, bool(puts)
        except Exception as failure:  # noqa: BLE001 - one invalid response must not lose the others
            said = f"{type(failure).__name__}: {failure}"
            error, uncertain = f"hpabatch: expected a Scale, got another object: {said}", bool(puts)
        return Written(error, uncertain, time.monotonic())

    def _tried(self, key: ScaleKey, before: int, after: int, puts: list[Json]) -> tuple[str, bool]:
        """Return error and uncertainty of a write; `puts` gets what is sent, even if it raises."""
        path = scale_path(self._apis, key)
        if self._reads_target and self._is_off(path.removesuffix("/scale")):
            return f"hpabatch: the target's annotation {ANNOTATION} is off", False
        scale = self._read(path)
        if _size(scale) != before:
            raise _MovedError(
                f"hpabatch: the size is {_size(scale)}, and {before} was decided on; the next pass "
                "decides again"
            )
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._sleep(_PAUSE_S * (1 + _JITTER * random.random()))  # noqa: S311 - jitter
            self._sleep(self._budget.take())
            refusal = self._fence.refusal(TIMEOUT_S)
            if refusal:
                return f"hpabatch: {refusal}", False
            puts.append(_resized(scale, after))
            try:
                self._client.write("PUT", path, puts[-1], TIMEOUT_S)
            except ApiError as error:
                failure = error
            else:
                return "", False
            if self._has_paused(failure):
                continue
            again = self._read_again(path)
            if is_uncertain(failure):
                return self._settled(failure, scale, again, after)
            if failure.status != _CONFLICT:
                break
            scale = again or scale
        return failure.text, False

    def _settled(
        self, failure: ApiError, scale: Json, again: Json | None, after: int
    ) -> tuple[str, bool]:
        """Return what became of a write without a response: the scale itself may show it.

        One that does not show it proves nothing: the server may store the write after this reading.
        """
        if again is None or _version(again) == _version(scale) or _size(again) != after:
            return failure.text, True
        return "", False

    def _is_off(self, path: str) -> bool:
        self._sleep(self._budget.take())
        metadata = self._client.read(path, TIMEOUT_S).get("metadata") or {}
        return is_off((metadata.get("annotations") or {}).get(ANNOTATION))

    def _read(self, path: str) -> Json:
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

    def _read_again(self, path: str) -> Json | None:
        try:
            return self._read(path)
        except ApiError:
            return None


def is_off(value: object) -> bool:
    """Return whether an annotation's value forbids writes; anything but "on" does."""
    return value is not None and str(value).strip().lower() not in ("on", "true")


def _size(scale: Json) -> int:
    return int((scale.get("spec") or {}).get("replicas") or 0)


def _version(scale: Json) -> str:
    return str((scale.get("metadata") or {}).get("resourceVersion"))


def _resized(scale: Json, replicas: int) -> Json:
    return {**scale, "spec": {**(scale.get("spec") or {}), "replicas": replicas}}
