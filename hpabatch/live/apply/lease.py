"""Leader election by a Lease (coordination.k8s.io), and the fence that follows from it.

The rules are those of client-go's leaderelection: another candidate takes a Lease once it has seen
no renewal for the Lease's duration on its own monotonic clock. Nothing compares clocks of two
machines, so their skew does not matter. From that follows the fence: whoever renews knows that
nobody takes the Lease before its duration has passed since the renewal was *sent*. A writing
request begins only if its time limit ends before that, less a margin for clocks of different pace.

A scale's resourceVersion is no fence: a leader that was suspended and wakes up would read the
present one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hpabatch.cluster.connection.errors import ApiError, NotFound
from hpabatch.cluster.connection.writes import Json, WriteClient

NAME: Final = "hpabatch-apply"
DRY_NAME: Final = "hpabatch-apply-dry-run"
"""Of instances that store no size: none of them may keep those that do from writing."""
_MARGIN_S: Final = 1.0
_RENEWALS: Final = 6  # within a duration
_MOST_REQUEST_S: Final = 5.0
_CONFLICT: Final = 409


def elapsed_s() -> float:
    """Return monotonic seconds; on Linux they go on while the system is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate of an election.

    Attributes:
        namespace: of the Lease.
        identity: of this process, unlike any other's.
        duration_s: after which others may take a Lease that is not renewed.
        name: of the Lease.
    """

    namespace: str
    identity: str
    duration_s: int = 15
    name: str = NAME

    @property
    def collection(self) -> str:
        """The path of the namespace's Leases."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"


class Election:
    """Takes and renews a Lease in a thread of its own. Several threads may ask it."""

    def __init__(
        self,
        client: WriteClient,
        candidate: Candidate,
        *,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = elapsed_s,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            client: sends the requests; it must store them (no dry run).
            candidate: this process.
            say: gets a sentence at every change, from the thread.
            clock: monotonic seconds, those of a suspended system included.
        """
        self.candidate = candidate
        self.hindrance: Callable[[], str] = lambda: ""
        """Returns why this process could not write whoever leads: then it does not renew."""
        self.problem = ""
        self.holder = ""
        self.term = 0  # counts how often this process took the lease: between two, others had it
        self._client, self._say, self._clock = client, say, clock
        self._until = -1.0  # on the clock: nobody else takes the Lease before
        self._seen: tuple[str, float] = ("", clock())  # resourceVersion, first seen
        self._leads = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to apply for the Lease."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and release the Lease if it is held: no write may begin after this."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * _MOST_REQUEST_S)
        held, self._until, self._leads = self._until > self._clock(), -1.0, False
        if held and not self._thread.is_alive():
            self._release()

    @property
    def leads(self) -> bool:
        """Whether this process holds the Lease."""
        return self._clock() < self._until - _MARGIN_S

    def refusal(self, longest_s: float) -> str:
        """Return why a request of at most `longest_s` may not begin now, "" if it may."""
        if self._clock() + longest_s <= self._until - _MARGIN_S:
            return ""
        return "this process does not hold the lease for long enough to end the write"

    def turn(self) -> None:
        """Apply for the Lease or renew it, once."""
        sent = self._clock()
        try:
            self._apply(sent)
            self.problem = ""
        except ApiError as error:
            self.problem = f"the lease {self._place} cannot be renewed: {error.text}"
        if self.leads != self._leads:
            self._leads = self.leads
            self._say(self._told())

    # ---- parts

    def _told(self) -> str:
        if self._leads:
            return (
                f"holds the lease {self._place} as {self.candidate.identity}, and writes from now "
                "on"
            )
        other = self.holder not in ("", self.candidate.identity)
        whose, why = f"; {self.holder} has it" if other else "", self.hindrance()
        left = f", which is left to others: {why}" if why else ""
        return f"no longer holds the lease {self._place}{left}{whose}"

    @property
    def _place(self) -> str:
        return f"{self.candidate.namespace}/{self.candidate.name}"

    @property
    def _path(self) -> str:
        return f"{self.candidate.collection}/{self.candidate.name}"

    def _run(self) -> None:
        pause_s = self.candidate.duration_s / _RENEWALS
        while not self._stop.is_set():
            try:
                self.turn()
            except Exception as error:  # noqa: BLE001 - an invalid Lease must not end the thread
                self.problem = f"the lease {self._place}: {type(error).__name__}: {error}"
            self._stop.wait(pause_s)

    def _timeout_s(self) -> float:
        return min(_MOST_REQUEST_S, self.candidate.duration_s / 3)

    def _apply(self, sent: float) -> None:
        timeout_s = self._timeout_s()
        try:
            lease = self._client.read(self._path, timeout_s)
        except NotFound:
            if self._is_missed():
                self._until = -1.0
            elif not self.hindrance():
                self._put("POST", self.candidate.collection, self._document({}), sent)
            return
        spec = lease.get("spec") or {}
        self.holder = str(spec.get("holderIdentity") or "")
        version = str((lease.get("metadata") or {}).get("resourceVersion"))
        now = self._clock()
        if version != self._seen[0]:
            self._seen = (version, now)
        if self.holder not in ("", self.candidate.identity):
            lasts_s = max(float(spec.get("leaseDurationSeconds") or 0), self.candidate.duration_s)
            if now - self._seen[1] < lasts_s:
                self._until = -1.0
                return
        # What is held is not released at once: a request may be on its way.
        if not self.hindrance():
            self._put("PUT", self._path, self._document(lease), self._clock())

    def _is_missed(self) -> bool:
        """Return whether a Lease that is gone now was another's, who may still write by it."""
        if self.holder in ("", self.candidate.identity):
            return False
        return self._clock() - self._seen[1] < self.candidate.duration_s

    def _put(self, method: str, path: str, document: Json, sent: float) -> None:
        try:
            found = self._client.write(method, path, document, self._timeout_s())
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            self._until = -1.0  # another was faster; the next turn shows who
            return
        if self._until < sent:
            self.term += 1
        self.holder = self.candidate.identity
        self._seen = (str((found.get("metadata") or {}).get("resourceVersion")), self._clock())
        self._until = sent + self.candidate.duration_s

    def _document(self, lease: Json) -> Json:
        """Return the Lease as held by this process."""
        spec = dict(lease.get("spec") or {})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self.candidate.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + bool(lease)
        spec["holderIdentity"] = self.candidate.identity
        spec["leaseDurationSeconds"] = self.candidate.duration_s
        spec["renewTime"] = now
        metadata = lease.get("metadata") or {
            "name": self.candidate.name, "namespace": self.candidate.namespace
        }  # fmt: skip
        return {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": metadata, "spec": spec,
        }  # fmt: skip

    def _release(self) -> None:
        """Let another take it at once; without success it expires."""
        try:
            lease = self._client.read(self._path, self._timeout_s())
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") == self.candidate.identity:
                document = {**lease, "spec": {**spec, "holderIdentity": ""}}
                self._client.write("PUT", self._path, document, self._timeout_s())
        except ApiError as error:
            self.problem = error.text
