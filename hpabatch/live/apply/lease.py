"""Leader election by a Lease (coordination.k8s.io), and the fence that follows from it.

A candidate takes a Lease that it has seen unchanged for the Lease's duration, on its own monotonic
clock. Clocks of two machines are never compared, so their skew does not matter. From that follows
the fence: after a renewal nobody takes the Lease before its duration has passed since the renewal
was *sent*. A writing request begins only if its time limit ends before that, less a margin for
clocks of different pace.

Two Leases may be taken earlier: one that this process saw held, and then released; and one without
a holder, by the process whose own fence still holds. A missing Lease is made without a holder, so
that its duration begins for everybody: its last holder may still write (the Lease was deleted, etcd
was emptied). In client-go's leaderelection the maker holds it at once.

A scale's resourceVersion is no fence: a leader that resumes after a suspension reads the present
one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from hpabatch.cluster.connection.errors import ApiError, NotFound
from hpabatch.cluster.connection.writes import Json, WriteClient
from hpabatch.live.apply.request import MAX_LEASE_MS
from hpabatch.model.objects.decode_fields import show_value

NAME: Final = "hpabatch-apply"
DRY_NAME: Final = "hpabatch-apply-dry-run"
"""Of instances that store no size: none of them may keep those that do from writing."""
_LONGEST_S: Final = MAX_LEASE_MS / 1000  # nobody waits longer, whatever a Lease says
_MOST_HOLDER: Final = 100  # characters of another's identity in messages
_MOST_TRANSITIONS: Final = 2**31 - 1  # the API server refuses more
_MARGIN_S: Final = 1.0
_RENEWALS: Final = 6  # within a duration
_LOOKS: Final = 4  # between two renewals: one that a candidate sees late delays its turn by that
_MOST_REQUEST_S: Final = 5.0
_CONFLICT: Final = 409
_GIVEN_UP_S: Final = 1  # duration of a released Lease, as in client-go; no other is as short


def is_given_up(spec: Json) -> bool:
    """Return whether a Lease of this spec was released by its holder."""
    return not spec.get("holderIdentity") and spec.get("leaseDurationSeconds") == _GIVEN_UP_S


def _duration_s(spec: Json) -> float:
    """Return a Lease's duration, the longest for one that is longer or none."""
    duration = spec.get("leaseDurationSeconds")
    return duration if type(duration) is int and 0 < duration < _LONGEST_S else _LONGEST_S


def show_identity(holder: str) -> str:
    """Return an instance's identity for a message, a long one cut."""
    return holder if len(holder) <= _MOST_HOLDER else show_value(holder)


def _transitions(spec: Json) -> int:
    """Return the count of transitions; it begins anew where it is none, or the highest."""
    count = spec.get("leaseTransitions")
    return count if type(count) is int and 0 <= count < _MOST_TRANSITIONS else 0


def elapsed_s() -> float:
    """Return monotonic seconds; on Linux they go on while the system is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate of an election.

    Attributes:
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


class _Sight(NamedTuple):
    """The Lease as last read.

    Attributes:
        holder: "": nobody.
        uid, version: of the object.
        since: when this process first saw it so, on its clock.
        lasts_s: for so long since then a holder may write.
    """

    holder: str
    is_given_up: bool
    uid: str
    version: str
    since: float
    lasts_s: float

    def is_same(self, other: _Sight) -> bool:
        """Return whether nobody wrote it between two readings."""
        return self[:4] == other[:4]

    def is_over(self, now: float) -> bool:
        """Return whether no holder may write any more."""
        return now - self.since >= self.lasts_s

    def releases(self, before: _Sight) -> bool:
        """Return whether it was held before, and is given up since."""
        if not self.is_given_up or not before.holder or self.uid != before.uid:
            return False
        versions = self.version, before.version
        return all(map(str.isdecimal, versions)) and int(versions[0]) > int(versions[1])


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
            say: gets a sentence at every change, from the thread.
            clock: monotonic seconds, those of a suspended system included.
        """
        self.candidate = candidate
        self.hindrance: Callable[[], str] = lambda: ""
        """Returns why this process could not write if it led; then it does not renew."""
        self.problem = ""
        self.holder = ""
        self.term = 0  # counts how often this process took the lease: between two, others had it
        self._client, self._say, self._clock = client, say, clock
        self._until = -1.0  # on the clock: nobody else takes the Lease before
        self._since = 0.0  # on the clock: when this process took the Lease
        self._seen: _Sight | None = None
        self._released = False  # the Lease as last seen, after it was seen held
        self._leads = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to apply for the Lease."""
        self._thread.start()

    def stop(self, *, releases: bool = True) -> None:
        """End the thread, and release the Lease if it is held: no write may begin after this.

        Args:
            releases: False while a write may be on its way: the Lease expires, after that write.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * _MOST_REQUEST_S)
        held, self._until, self._leads = self._until > self._clock(), -1.0, False
        if held and releases and not self._thread.is_alive():
            self._release()

    @property
    def leads(self) -> bool:
        """Whether this process holds the Lease."""
        return self._clock() < self._until - _MARGIN_S

    @property
    def led_s(self) -> float:
        """For how long this process has held the Lease, 0 if it does not."""
        return self._clock() - self._since if self.leads else 0.0

    @property
    def leader(self) -> str:
        """The identity of the Lease's holder as far as this process knows, "": nobody."""
        if self.leads:
            return self.candidate.identity
        seen = self._seen
        if seen is None or seen.is_over(self._clock()):
            return ""
        return self.holder if seen.holder != self.candidate.identity else ""

    @property
    def place(self) -> str:
        """Namespace and name of the Lease."""
        return f"{self.candidate.namespace}/{self.candidate.name}"

    def refusal(self, longest_s: float) -> str:
        """Return why a request of at most `longest_s` may not begin now, "" if it may."""
        if self._clock() + longest_s <= self._until - _MARGIN_S:
            return ""
        return "this process does not hold the lease for long enough to end the write"

    @property
    def pause_s(self) -> float:
        """The time between two turns: shorter while another holds the Lease."""
        pause_s = self.candidate.duration_s / _RENEWALS
        return pause_s / _LOOKS if self._is_others else pause_s

    def turn(self) -> None:
        """Apply for the Lease or renew it, once."""
        sent = self._clock()
        try:
            self.problem = self._apply(sent)
        except ApiError as error:
            self.problem = f"the lease {self.place} cannot be renewed: {error.text}"
        if self.leads != self._leads:
            self._leads = self.leads
            self._say(self._sentence())

    # ---- parts

    def _sentence(self) -> str:
        if self._leads:
            return (
                f"holds the lease {self.place} as {self.candidate.identity}: writes may begin "
                "with the next pass"
            )
        whose, why = f"; {self.holder} has it" if self._is_others else "", self.hindrance()
        left = f", which is left to others: {why}" if why else ""
        return f"no longer holds the lease {self.place}{left}{whose}"

    @property
    def _is_others(self) -> bool:
        return self.holder not in ("", self.candidate.identity)

    @property
    def _path(self) -> str:
        return f"{self.candidate.collection}/{self.candidate.name}"

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.turn()
            except Exception as error:  # noqa: BLE001 - an invalid Lease must not end the thread
                self.problem = f"the lease {self.place}: {type(error).__name__}: {error}"
            self._stop.wait(self.pause_s)

    def _timeout_s(self) -> float:
        return min(_MOST_REQUEST_S, self.candidate.duration_s / 3)

    def _apply(self, sent: float) -> str:
        """Apply for the Lease; return what is wrong with it, "": nothing."""
        try:
            lease = self._client.read(self._path, self._timeout_s())
        except NotFound:
            # The request has to end before the fence: after it others may hold one of their own.
            is_mine = self._clock() + self._timeout_s() <= self._until and not self.hindrance()
            document = self._held({}) if is_mine else self._unheld({}, self.candidate.duration_s)
            self._put("POST", self.candidate.collection, document, sent)
            return ""
        seen = self._see(lease)
        if seen.holder not in ("", self.candidate.identity):
            self._until = -1.0
        now = self._clock()
        is_mine = seen.holder in ("", self.candidate.identity) and now < self._until
        # What is held is not released at once: a request may be on its way.
        if (is_mine or self._released or seen.is_over(now)) and not self.hindrance():
            self._put("PUT", self._path, self._held(lease), self._clock())
        spec = lease.get("spec") or {}
        duration, own_s = spec.get("leaseDurationSeconds"), self.candidate.duration_s
        if duration == own_s or is_given_up(spec):
            return ""
        return (
            f"the lease {self.place}: expected leaseDurationSeconds {own_s} (--lease), got "
            f"{show_value(duration)} with holder {self.holder or 'nobody'}; give all instances of "
            "one --own-namespace the same --lease, or delete the lease if none of them made it"
        )

    def _see(self, lease: Json) -> _Sight:
        """Take a Lease as it was read or written just now."""
        spec, metadata = lease.get("spec") or {}, lease.get("metadata") or {}
        holder, before, now = str(spec.get("holderIdentity") or ""), self._seen, self._clock()
        lasts_s = float(self.candidate.duration_s)
        if holder:
            lasts_s = max(lasts_s, _duration_s(spec))
        elif before is not None and not before.is_over(now):
            # Its holder may have renewed it unseen, before it was made anew.
            lasts_s = before.lasts_s
        found = _Sight(
            holder, is_given_up(spec), str(metadata.get("uid")),
            str(metadata.get("resourceVersion")), now, lasts_s,
        )  # fmt: skip
        self.holder = holder if holder == self.candidate.identity else show_identity(holder)
        if before is not None and found.is_same(before):
            return before
        self._released = before is not None and found.releases(before)
        self._seen = found
        return found

    def _put(self, method: str, path: str, document: Json, sent: float) -> None:
        try:
            found = self._client.write(method, path, document, self._timeout_s())
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            return  # another was faster; the next turn shows who
        self._see(found)
        if not document["spec"]["holderIdentity"]:
            return
        if self._until < sent:
            self.term, self._since = self.term + 1, sent
        self._until = sent + self.candidate.duration_s

    def _held(self, lease: Json) -> Json:
        spec = dict(lease.get("spec") or {})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self.candidate.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = _transitions(spec) + bool(lease)
        spec["holderIdentity"], spec["renewTime"] = self.candidate.identity, now
        return self._document(lease, {**spec, "leaseDurationSeconds": self.candidate.duration_s})

    def _unheld(self, lease: Json, duration_s: int) -> Json:
        spec = {**(lease.get("spec") or {}), "holderIdentity": ""}
        return self._document(lease, {**spec, "leaseDurationSeconds": duration_s})

    def _document(self, lease: Json, spec: Json) -> Json:
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
            if (lease.get("spec") or {}).get("holderIdentity") == self.candidate.identity:
                document = self._unheld(lease, _GIVEN_UP_S)
                self._client.write("PUT", self._path, document, self._timeout_s())
        except ApiError as error:
            self.problem = error.text
